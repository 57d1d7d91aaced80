//! How many pods of a group must run together, and in which sub-groups they stand.

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Labels, Name, SubGroup, TopologyConstraint};

use super::{Case, grove, karta, kinds::Grouping, ray, training, wishes};
use crate::parse::{Malformed, strings};

/// On Jobs and parts of a JobSet: how many must run together.
pub(super) const MIN_MEMBER_ANNOTATION: &str = "kai.scheduler/batch-min-member";
pub(super) const SEGMENT_SIZE_ANNOTATION: &str = "kai.scheduler/segment-size";
const SEGMENT_TOPOLOGY: &str = "kai.scheduler/segment-topology";
/// In which places they are.
pub(super) const SEGMENT_LEVELS: [&str; 2] = [
    "kai.scheduler/segment-topology-required-placement",
    "kai.scheduler/segment-topology-preferred-placement",
];
/// More parts than these are a mistake that would fill the memory.
const PARTS_MAX: u64 = 10_000;
/// Pods name their sub-group in a label.
const LABEL_MAX: usize = 63;

/// The shape of a group, and where the pod stands in it.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) min_member: u32,
    pub(super) min_sub_group: Option<u32>,
    pub(super) sub_groups: Vec<SubGroup>,
    pub(super) part: Option<Name>,
    /// What distinguishes the groups of one owner.
    pub(super) tail: Option<String>,
    /// Where the whole group runs, if its kind says so.
    pub(super) topology: Option<TopologyConstraint>,
    pub(super) doubt: Option<Doubt>,
}

/// What an owner says and cannot mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// A Job waits for more pods than it has.
    TooManyPods(Malformed),
    /// It stands where nobody reads it, on an object of this API version and kind.
    Unread((&'static str, &'static str), Malformed),
}

impl Parts {
    /// All pods alike, so many of them.
    pub(super) fn alike(pods: u64) -> Self {
        Self { min_member: u32::try_from(pods).unwrap_or(u32::MAX), ..Self::default() }
    }

    /// Leaves that are needed one and all.
    pub(super) fn of(sub_groups: Vec<SubGroup>, part: Option<Name>) -> Self {
        let pods = sub_groups.iter().map(|leaf| u64::from(leaf.min_member)).sum();
        Self { sub_groups, part, ..Self::alike(pods) }
    }
}

/// The group that a case makes.
pub(super) fn of(case: &Case<'_>) -> Result<Parts, Malformed> {
    let top = case.top.object;
    let is_unread = top.is_null();
    let parts = match case.grouping {
        Grouping::EachPod | Grouping::Spark => Parts::alike(1),
        Grouping::Grove => grove::gang(case)?,
        Grouping::Knative => Parts::alike(min_scale(case)),
        Grouping::Job => job(case)?,
        Grouping::Karta => karta::group(case)?,
        _ if is_unread => Parts::alike(1),
        Grouping::JobSet => training::job_set(case)?,
        Grouping::PyTorchJob => training::pytorch_job(case)?,
        Grouping::Replicas(field) => Parts::alike(training::minimum(case, field)?),
        Grouping::MpiJob => Parts::alike(training::mpi_job(case)?),
        Grouping::Ray => ray::cluster(case)?,
        Grouping::LeaderWorkerSet => training::leader_worker_set(case)?,
        Grouping::AmlJob => Parts::alike(aml_nodes(top)?),
        Grouping::Serving | Grouping::Interactive | Grouping::RunaiJob | Grouping::Default => {
            Parts::alike(1)
        }
    };
    bounded(parts, case)
}

/// Names that fit a label, and not too many of them.
fn bounded(parts: Parts, case: &Case<'_>) -> Result<Parts, Malformed> {
    if let Some(long) = parts.part.as_ref().filter(|part| part.len() > LABEL_MAX) {
        let field = format!("sub-group of {} {}", case.top.owner.kind, case.top.owner.name);
        return Err(Malformed::new(field, long, "a name of at most 63 characters"));
    }
    let is_there = |part: &Name| parts.sub_groups.iter().any(|has| has.name == *part);
    if let Some(lost) = parts.part.as_ref().filter(|part| !is_there(part)) {
        let field = format!("labels of pod {}", case.key.name);
        return Err(Malformed::new(field, lost, "a part that its owner has"));
    }
    Ok(parts)
}

/// Refuses what would make more parts than anybody runs.
pub(super) fn countable(field: &str, parts: u64) -> Result<u64, Malformed> {
    if parts > PARTS_MAX {
        return Err(Malformed::new(field, parts, "at most 10000 parts of a gang"));
    }
    Ok(parts)
}

/// A leaf with a minimum of pods.
pub(super) fn leaf(name: impl Into<Name>, pods: u64) -> SubGroup {
    SubGroup {
        name: name.into(),
        min_member: u32::try_from(pods).unwrap_or(u32::MAX),
        parent: None,
        min_sub_group: None,
        topology: None,
    }
}

/// An inner node of which so many children are needed; `None`: all.
pub(super) fn inner(name: impl Into<Name>, min_sub_group: Option<u32>) -> SubGroup {
    SubGroup { min_sub_group, ..leaf(name, 0) }
}

/// Annotation `kai.scheduler/batch-min-member` of a Job. Other kinds have fields that say how many
/// of their pods are needed, or make one pod after the other. As in KAI it holds even where the Job
/// has fewer pods, which may be changed.
fn job(case: &Case<'_>) -> Result<Parts, Malformed> {
    let stated = case.top.annotations.get(MIN_MEMBER_ANNOTATION);
    let minimum = stated.map_or(Ok(1), |text| positive(MIN_MEMBER_ANNOTATION, text))?;
    let spec = case.top.object.get("spec");
    let pods = spec.map(training::pods_at_once).filter(|pods| (1..minimum).contains(pods));
    let doubt = pods.map(|pods| {
        let field = format!("annotation {MIN_MEMBER_ANNOTATION}");
        let found = format!("{minimum}, while at most {pods} of its pods run at once");
        let allowed = "no more than spec.parallelism and spec.completions";
        Doubt::TooManyPods(Malformed::new(field, found, allowed))
    });
    Ok(Parts { doubt, ..Parts::alike(minimum) })
}

/// A positive number in an annotation.
pub(super) fn positive(annotation: &str, text: &str) -> Result<u64, Malformed> {
    let number = text.parse::<i32>().ok().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or_else(|| {
        let field = format!("annotation {annotation}");
        Malformed::new(field, format!("{text:?}"), "an integer from 1 to 2147483647")
    })
}

/// A number, or what holds when it is not given.
pub(super) fn count_or(object: &Value, pointer: &str, otherwise: u64) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(otherwise)
}

/// A label of the pod that must be there, and be a number.
pub(super) fn index(case: &Case<'_>, label: &str) -> Result<u64, Malformed> {
    let found = case.pod.labels.get(label);
    found.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let found = found.map_or_else(|| "nothing".to_owned(), |text| format!("{text:?}"));
        Malformed::new(format!("label {label}"), found, "the index that its controller gives it")
    })
}

/// Segments of a template: so many pods each, in places of which levels.
pub(super) struct Segments {
    pub(super) size: u64,
    pub(super) topology: Option<TopologyConstraint>,
}

/// The size of a segment that the first of these annotations says.
pub(super) fn segment_size<const N: usize>(said: [&Labels; N]) -> Result<Option<u64>, Malformed> {
    let mut sizes = said.iter().filter_map(|of| of.get(SEGMENT_SIZE_ANNOTATION));
    let stated = sizes.find(|size| !size.is_empty());
    stated.map(|size| positive(SEGMENT_SIZE_ANNOTATION, size)).transpose()
}

/// Annotations of segments that stand on the owner alone, where KAI does not read them either.
pub(super) fn unread(
    case: &Case<'_>,
    template: &Labels,
    (annotations, of): (&[&str], (&'static str, &'static str)),
) -> Option<Doubt> {
    let is_elsewhere =
        |key: &str| [&case.pod.annotations, template].iter().any(|of| of.contains_key(key));
    let unread = annotations.iter().copied();
    let unread = unread.filter(|key| case.top.annotation(key).is_some() && !is_elsewhere(key));
    let unread: Vec<&str> = unread.collect();
    let field = match *unread {
        [] => return None,
        [one] => format!("annotation {one}"),
        _ => format!("annotations {}", unread.join(", ")),
    };
    let found = format!("on the {} itself", of.1);
    let wrong = Malformed::new(field, found, "in the pod template of its workers");
    Some(Doubt::Unread(of, wrong))
}

/// Segments of this size, in places that the pod, else the annotations of its template say.
pub(super) fn segments(
    case: &Case<'_>,
    template: Labels,
    size: u64,
) -> Result<Segments, Malformed> {
    let mut said: Labels = case.pod.annotations.clone();
    for (key, value) in template {
        said.entry(key).or_insert(value);
    }
    let topology = said.get(wishes::TOPOLOGY_ANNOTATION).filter(|topology| !topology.is_empty());
    let topology = topology.or_else(|| case.top.annotation(wishes::TOPOLOGY_ANNOTATION));
    let topology = wishes::levels(&said, SEGMENT_TOPOLOGY, topology)?;
    Ok(Segments { size, topology })
}

/// Annotation of the pod's revision; 1 where it says nothing that can be read.
fn min_scale(case: &Case<'_>) -> u64 {
    let revision = case.chain.iter().find(|link| &*link.owner.kind == "Revision");
    let annotations = revision.map(|link| strings(&link.object, "/metadata/annotations"));
    let stated = annotations.as_ref().and_then(|of| of.get("autoscaling.knative.dev/min-scale"));
    stated.and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn aml_nodes(job: &Value) -> Result<u64, Malformed> {
    let found = job.pointer("/spec/job/options/envs/AZUREML_NODE_COUNT").unwrap_or(&Value::Null);
    let number = found.as_u64().or_else(|| found.as_str()?.parse().ok());
    number.filter(|nodes| *nodes > 0).ok_or_else(|| {
        let field = "spec.job.options.envs.AZUREML_NODE_COUNT";
        Malformed::new(field, found, "how many nodes the job has")
    })
}
