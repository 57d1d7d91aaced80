//! Minimum member counts and sub-groups of a PodGroup, by grouping.

use schedlab_api::{Value, annotations::BATCH_MIN_MEMBER};
use schedlab_scheduler_core::model::{Labels, Name, SubGroup, TopologyConstraint};

use super::{
    GroupingInput, annotations, grove, karta, kinds::Grouping, ray, scheduling_group, training,
};
use crate::parse::{Malformed, strings};

pub(super) const SEGMENT_SIZE_ANNOTATION: &str = "kai.scheduler/segment-size";
const SEGMENT_TOPOLOGY_PREFIX: &str = "kai.scheduler/segment-topology";
/// Annotations with the topology levels within which each segment is placed.
pub(super) const SEGMENT_LEVEL_ANNOTATIONS: [&str; 2] = [
    "kai.scheduler/segment-topology-required-placement",
    "kai.scheduler/segment-topology-preferred-placement",
];
/// Maximum number of sub-groups. More are taken for a mistake; they would exhaust memory.
const SUB_GROUPS_MAX: u64 = 10_000;
/// Maximum length of a label value; pods name their sub-group in a label.
const LABEL_VALUE_LEN_MAX: usize = 63;

/// Minimum and sub-groups of a group, and the sub-group of the pod.
#[derive(Debug, Default)]
pub(super) struct GroupShape {
    pub(super) min_member: u32,
    /// Number of pods that the owner runs at once, if the minimum was stated apart from it.
    pub(super) owner_pods: Option<u32>,
    pub(super) min_sub_group: Option<u32>,
    pub(super) sub_groups: Vec<SubGroup>,
    pub(super) sub_group: Option<Name>,
    /// Suffix that distinguishes the names of several groups of one owner.
    pub(super) name_suffix: Option<String>,
    /// Topology constraint of the whole group, if its kind defines one.
    pub(super) topology: Option<TopologyConstraint>,
    pub(super) warning: Option<OwnerWarning>,
}

/// A setting on an owner that is probably a mistake, but does not prevent grouping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnerWarning {
    /// The minimum of a Job exceeds the number of pods that it runs at once.
    MinMemberAbovePods(Malformed),
    /// An annotation is on an object of this API version and kind, where it is not read.
    IgnoredAnnotation(OwnerKind, Malformed),
}

/// API version and kind of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerKind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
}

impl GroupShape {
    /// A shape without sub-groups, with this `minMember`.
    pub(super) fn without_sub_groups(pods: u64) -> Self {
        Self { min_member: u32::try_from(pods).unwrap_or(u32::MAX), ..Self::default() }
    }

    /// A shape of leaf sub-groups that are all required. `sub_group` is that of the pod.
    pub(super) fn from_sub_groups(sub_groups: Vec<SubGroup>, sub_group: Option<Name>) -> Self {
        let pods = sub_groups.iter().map(|leaf| u64::from(leaf.min_member)).sum();
        Self { sub_groups, sub_group, ..Self::without_sub_groups(pods) }
    }
}

/// Derives the shape of the group from owner and pod.
pub(super) fn shape_of(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let top = input.top.object;
    let is_unread = top.is_null();
    let parts = match input.grouping {
        Grouping::EachPod | Grouping::Spark => GroupShape::without_sub_groups(1),
        Grouping::Grove => grove::gang_shape(input)?,
        Grouping::Knative => GroupShape::without_sub_groups(min_scale(input)),
        Grouping::Job => job_shape(input)?,
        Grouping::Karta => karta::karta_shape(input)?,
        Grouping::SchedulingGroup => scheduling_group::shape(input)?,
        _ if is_unread => GroupShape::without_sub_groups(1),
        Grouping::JobSet => training::job_set_shape(input)?,
        Grouping::PyTorchJob => training::pytorch_job_shape(input)?,
        Grouping::Replicas(field) => {
            GroupShape::without_sub_groups(training::min_available(input, field)?)
        }
        Grouping::MpiJob => GroupShape::without_sub_groups(training::mpi_job_minimum(input)?),
        Grouping::Ray => ray::cluster_shape(input)?,
        Grouping::LeaderWorkerSet => training::leader_worker_set_shape(input)?,
        Grouping::AmlJob => GroupShape::without_sub_groups(aml_nodes(top)?),
        Grouping::Serving | Grouping::Interactive | Grouping::RunaiJob | Grouping::Default => {
            GroupShape::without_sub_groups(1)
        }
    };
    check_sub_group(parts, input)
}

/// Checks that the pod's sub-group exists and that its name fits into a label.
fn check_sub_group(parts: GroupShape, input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    if let Some(long) = parts.sub_group.as_ref().filter(|part| part.len() > LABEL_VALUE_LEN_MAX) {
        let field = format!("sub-group of {} {}", input.top.owner.kind, input.top.owner.name);
        return Err(Malformed::new(field, long, "a name of at most 63 characters"));
    }
    let is_there = |part: &Name| parts.sub_groups.iter().any(|has| has.name == *part);
    if let Some(lost) = parts.sub_group.as_ref().filter(|part| !is_there(part)) {
        let field = format!("labels of pod {}", input.key.name);
        return Err(Malformed::new(field, lost, "a sub-group of its owner"));
    }
    Ok(parts)
}

/// Rejects more than [`SUB_GROUPS_MAX`] sub-groups.
pub(super) fn check_count(field: &str, parts: u64) -> Result<u64, Malformed> {
    if parts > SUB_GROUPS_MAX {
        return Err(Malformed::new(field, parts, "at most 10000 sub-groups"));
    }
    Ok(parts)
}

/// A leaf sub-group with this `minMember`.
pub(super) fn leaf_sub_group(name: impl Into<Name>, pods: u64) -> SubGroup {
    SubGroup {
        name: name.into(),
        min_member: u32::try_from(pods).unwrap_or(u32::MAX),
        parent: None,
        min_sub_group: None,
        topology: None,
    }
}

/// An inner sub-group with this `minSubGroup`; `None`: all children are required.
pub(super) fn inner_sub_group(name: impl Into<Name>, min_sub_group: Option<u32>) -> SubGroup {
    SubGroup { min_sub_group, ..leaf_sub_group(name, 0) }
}

/// The shape of a Job: its minimum is annotation `kai.scheduler/batch-min-member`. Other kinds have
/// fields for their minimum, or create their pods one after the other. As in KAI the annotation
/// applies to a new Job even if it has fewer pods, since its parallelism may be raised; then a
/// warning is added.
fn job_shape(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let stated = input.top.annotations.get(BATCH_MIN_MEMBER);
    let minimum = stated.map_or(Ok(1), |text| parse_positive(BATCH_MIN_MEMBER, text))?;
    let spec = input.top.object.get("spec");
    let pods = spec.map(training::pods_at_once);
    let warning = pods.filter(|pods| (1..minimum).contains(pods)).map(|pods| {
        let field = format!("annotation {BATCH_MIN_MEMBER}");
        let found = format!("{minimum} (at most {pods} of its pods run at once)");
        let allowed = "at most spec.parallelism and spec.completions";
        OwnerWarning::MinMemberAbovePods(Malformed::new(field, found, allowed))
    });
    let owner_pods = stated.and(pods).and_then(|pods| u32::try_from(pods).ok());
    Ok(GroupShape { owner_pods, warning, ..GroupShape::without_sub_groups(minimum) })
}

/// Parses a positive 32-bit integer from an annotation.
pub(super) fn parse_positive(annotation: &str, text: &str) -> Result<u64, Malformed> {
    let number = text.parse::<i32>().ok().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or_else(|| {
        let field = format!("annotation {annotation}");
        Malformed::new(field, format!("{text:?}"), "an integer from 1 to 2147483647")
    })
}

/// The number at a JSON Pointer, or `default` if it is missing.
pub(super) fn count_or(object: &Value, pointer: &str, default: u64) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(default)
}

/// Parses a required numeric label of the pod.
pub(super) fn index_label(input: &GroupingInput<'_>, label: &str) -> Result<u64, Malformed> {
    let found = input.pod.labels.get(label);
    found.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let found = found.map_or_else(|| "nothing".to_owned(), |text| format!("{text:?}"));
        Malformed::new(format!("label {label}"), found, "the index that its controller sets")
    })
}

/// Size of the segments of a pod template, and their topology constraint.
pub(super) struct Segments {
    pub(super) size: u64,
    pub(super) topology: Option<TopologyConstraint>,
}

/// Segment size from the first of these annotation maps that has one.
pub(super) fn segment_size<const N: usize>(
    annotations: [&Labels; N],
) -> Result<Option<u64>, Malformed> {
    let mut sizes = annotations.iter().filter_map(|of| of.get(SEGMENT_SIZE_ANNOTATION));
    let stated = sizes.find(|size| !size.is_empty());
    stated.map(|size| parse_positive(SEGMENT_SIZE_ANNOTATION, size)).transpose()
}

/// Warns about segment annotations that are set on the owner only, where KAI does not read them
/// either.
pub(super) fn ignored_annotations(
    input: &GroupingInput<'_>,
    template: &Labels,
    annotations: &[&str],
    owner: OwnerKind,
) -> Option<OwnerWarning> {
    let is_elsewhere =
        |key: &str| [&input.pod.annotations, template].iter().any(|of| of.contains_key(key));
    let unread = annotations.iter().copied();
    let unread = unread.filter(|key| input.top.annotation(key).is_some() && !is_elsewhere(key));
    let unread: Vec<&str> = unread.collect();
    let field = match *unread {
        [] => return None,
        [one] => format!("annotation {one}"),
        _ => format!("annotations {}", unread.join(", ")),
    };
    let found = format!("a value on the {} itself, where it has no effect", owner.kind);
    let wrong = Malformed::new(field, found, "one in the pod template of the workers");
    Some(OwnerWarning::IgnoredAnnotation(owner, wrong))
}

/// Segments of this size. Their topology levels come from the pod, or else from its template.
pub(super) fn read_segments(
    input: &GroupingInput<'_>,
    template: Labels,
    size: u64,
) -> Result<Segments, Malformed> {
    let mut annotations: Labels = input.pod.annotations.clone();
    for (key, value) in template {
        annotations.entry(key).or_insert(value);
    }
    let topology =
        annotations.get(annotations::TOPOLOGY_ANNOTATION).filter(|topology| !topology.is_empty());
    let topology = topology.or_else(|| input.top.annotation(annotations::TOPOLOGY_ANNOTATION));
    let topology = annotations::topology_levels(&annotations, SEGMENT_TOPOLOGY_PREFIX, topology)?;
    Ok(Segments { size, topology })
}

/// `autoscaling.knative.dev/min-scale` of the pod's Revision; 1 if missing or invalid.
fn min_scale(input: &GroupingInput<'_>) -> u64 {
    let revision = input.chain.iter().find(|link| &*link.owner.kind == "Revision");
    let annotations = revision.map(|link| strings(&link.object, "/metadata/annotations"));
    let stated = annotations.as_ref().and_then(|of| of.get("autoscaling.knative.dev/min-scale"));
    stated.and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn aml_nodes(job: &Value) -> Result<u64, Malformed> {
    let found = job.pointer("/spec/job/options/envs/AZUREML_NODE_COUNT").unwrap_or(&Value::Null);
    let number = found.as_u64().or_else(|| found.as_str()?.parse().ok());
    number.filter(|nodes| *nodes > 0).ok_or_else(|| {
        let field = "spec.job.options.envs.AZUREML_NODE_COUNT";
        Malformed::new(field, found, "the number of nodes of the job")
    })
}
