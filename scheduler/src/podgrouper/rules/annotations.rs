//! Fields of a PodGroup that come from labels and annotations of owners and pods: queue, priority
//! class, preemptibility, topology constraint and durations.

use schedlab_api::{annotations, labels, object_names};
use schedlab_scheduler_core::model::{Labels, Name, TopologyConstraint};

use super::{
    super::defaults::KindDefaults, GroupingInput, OwnerLink, kinds::Grouping, scheduling_group,
};
use crate::{
    parse::{Malformed, at, parse_go_duration},
    records::{Owner, PodRecord},
    snapshot_builder::is_known_class,
};

const PROJECT_LABEL: &str = "project";
const USER_LABEL: &str = "user";
const RAY_CLASS_LABEL: &str = "ray.io/priority-class-name";
/// Name of a Topology; with suffix `-required-placement` or `-preferred-placement`: one of its
/// levels.
pub(super) const TOPOLOGY_ANNOTATION: &str = "kai.scheduler/topology";

/// Owners between pod and group owner, nearest first, whose labels and annotations count as well.
/// As in KAI only for kinds without a grouping of their own.
fn intermediate_owners<'a>(input: &GroupingInput<'a>) -> &'a [OwnerLink] {
    match input.chain {
        [below @ .., _] if input.grouping == Grouping::Default => below,
        _ => &[],
    }
}

/// Value of a label on each owner that counts, nearest first.
fn labels_of_owners<'a>(
    input: &'a GroupingInput<'_>,
    key: &'a str,
) -> impl Iterator<Item = Option<Name>> + 'a {
    let below = intermediate_owners(input)
        .iter()
        .map(move |link| owner_value(link, "/metadata/labels", key));
    below.chain([input.top.labels.get(key).cloned()])
}

fn owner_value(link: &OwnerLink, part: &str, key: &str) -> Option<Name> {
    at(&link.object, part)?.get(key)?.as_str().map(Name::from)
}

/// Value of a label on the group's owner, or else on the pod.
fn label_of_owner_or_pod<'a>(input: &'a GroupingInput<'_>, label: &str) -> Option<&'a Name> {
    input.top.labels.get(label).or_else(|| input.pod.labels.get(label))
}

/// Queue of the group: the queue label, or else `PROJECT` or `PROJECT-POOL` by project label and
/// node pool, or else the default queue.
pub(super) fn group_queue(input: &GroupingInput<'_>) -> Name {
    if let Some(queue) = label_of_owner_or_pod(input, labels::QUEUE) {
        return Name::clone(queue);
    }
    let Some(project) =
        label_of_owner_or_pod(input, PROJECT_LABEL).filter(|project| !project.is_empty())
    else {
        return object_names::DEFAULT_QUEUE.into();
    };
    match input.pod.labels.get(input.context.pool_label) {
        Some(pool) => format!("{project}-{pool}").into(),
        None => Name::clone(project),
    }
}

/// Priority class of the group: the first existing class among label, pod and kind default. As in
/// KAI the pod comes after the nearest owner and before the owners above.
pub(super) fn priority_class(input: &GroupingInput<'_>) -> Name {
    let of_kind = (input.grouping == Grouping::Ray).then(|| input.top.labels.get(RAY_CLASS_LABEL));
    let of_gang = (input.grouping == Grouping::Grove)
        .then(|| crate::parse::name(input.top.object, "/spec/priorityClassName"))
        .flatten();
    let of_pod = input.pod.labels.get(labels::PRIORITY_CLASS);
    if input.grouping == Grouping::SchedulingGroup
        && let Some(class) = scheduling_group::priority_class(input)
    {
        return class;
    }
    let others = of_pod.or(of_gang.as_ref()).or(input.pod.priority_class.as_ref());
    let mut stated = labels_of_owners(input, labels::PRIORITY_CLASS)
        .filter_map(|of_owner| of_kind.flatten().cloned().or(of_owner).or_else(|| others.cloned()));
    if let Some(class) = stated.find(|class| is_known_class(input.context.classes, class)) {
        return class;
    }
    if let Some(class) = kind_default(input, |kind| kind.priority_class.as_ref()) {
        return class;
    }
    match input.grouping {
        Grouping::EachPod | Grouping::Serving | Grouping::Knative => "inference".into(),
        Grouping::Interactive => "build".into(),
        Grouping::Job
        | Grouping::JobSet
        | Grouping::Replicas(_)
        | Grouping::PyTorchJob
        | Grouping::MpiJob
        | Grouping::Ray
        | Grouping::LeaderWorkerSet
        | Grouping::Grove
        | Grouping::AmlJob
        | Grouping::RunaiJob
        | Grouping::Spark
        | Grouping::Karta
        | Grouping::SchedulingGroup
        | Grouping::Default => "train".into(),
    }
}

/// Configured default of the first owner whose kind has one.
fn kind_default(
    input: &GroupingInput<'_>,
    part: impl Fn(&KindDefaults) -> Option<&Name>,
) -> Option<Name> {
    let itself = (input.chain.is_empty()).then_some(&input.top.owner);
    let above = input.chain.last().into_iter().chain(input.skipped);
    let owners = intermediate_owners(input).iter().chain(above).map(|link| &link.owner);
    let default_of = |owner: &Owner| part(input.context.defaults.for_owner(owner)?).cloned();
    itself.into_iter().chain(owners).find_map(default_of)
}

pub(super) fn preemptibility(input: &GroupingInput<'_>) -> Result<Option<Name>, Malformed> {
    let of_owners = labels_of_owners(input, labels::PREEMPTIBILITY).flatten().next();
    match of_owners.as_ref().or_else(|| input.pod.labels.get(labels::PREEMPTIBILITY)) {
        None => Ok(kind_default(input, |kind| kind.preemptibility.as_ref())),
        Some(stated) => preemptibility_of(stated),
    }
}

/// The preemptibility that a label states. `None`: the label is empty, so preemptibility derives
/// from the priority.
fn preemptibility_of(value: &Name) -> Result<Option<Name>, Malformed> {
    match &**value {
        "" => Ok(None),
        "preemptible" | "non-preemptible" => Ok(Some(Name::clone(value))),
        other => Err(Malformed::new(
            format!("label {}", labels::PREEMPTIBILITY),
            other,
            "preemptible or non-preemptible",
        )),
    }
}

/// The first invalid value among the grouping labels and annotations of a pod.
pub(crate) fn annotation_fault(pod: &PodRecord) -> Option<Malformed> {
    let stated = pod.labels.get(labels::PREEMPTIBILITY);
    let mut of_times = [annotations::PREEMPTION_DELAY, annotations::STALENESS_GRACE_PERIOD]
        .into_iter()
        .filter_map(|annotation| Some((annotation, pod.annotations.get(annotation)?)));
    let wrong = stated.and_then(|stated| preemptibility_of(stated).err());
    wrong.or_else(|| of_times.find_map(|(of, stated)| parse_duration(of, stated).err()))
}

/// Topology constraint from `kai.scheduler/topology*` annotations.
pub(super) fn topology_constraint(
    annotations: &Labels,
) -> Result<Option<TopologyConstraint>, Malformed> {
    topology_levels(annotations, TOPOLOGY_ANNOTATION, annotations.get(TOPOLOGY_ANNOTATION))
}

/// Topology constraint from the annotations `PREFIX-required-placement` and
/// `PREFIX-preferred-placement`. `None` if neither is set; an error if the topology is missing.
pub(super) fn topology_levels(
    annotations: &Labels,
    prefix: &str,
    topology: Option<&Name>,
) -> Result<Option<TopologyConstraint>, Malformed> {
    let level = |which: &str| {
        let stated = annotations.get(&*format!("{prefix}-{which}-placement"))?;
        (!stated.is_empty()).then(|| Name::clone(stated))
    };
    let (required, preferred) = (level("required"), level("preferred"));
    let which = match (&required, &preferred) {
        (Some(_), _) => "required",
        (None, Some(_)) => "preferred",
        (None, None) => return Ok(None),
    };
    let Some(topology) = topology.filter(|topology| !topology.is_empty()).cloned() else {
        let field = format!("annotation {TOPOLOGY_ANNOTATION}");
        let found = format!("nothing with {prefix}-{which}-placement set");
        return Err(Malformed::new(field, found, "the name of a Topology"));
    };
    Ok(Some(TopologyConstraint { topology, required, preferred }))
}

/// Duration from an annotation of the nearest owner that has it, or else of the pod.
pub(super) fn duration_annotation(
    input: &GroupingInput<'_>,
    annotation: &str,
) -> Result<Option<Name>, Malformed> {
    let below = intermediate_owners(input).iter();
    let mut below = below.filter_map(|link| owner_value(link, "/metadata/annotations", annotation));
    let of_owners = below.find(|text| !text.is_empty());
    let of_owners = of_owners.as_ref().or_else(|| input.top.annotation(annotation));
    let stated = of_owners.or_else(|| input.pod.annotations.get(annotation));
    stated.map_or(Ok(None), |stated| parse_duration(annotation, stated))
}

/// A duration from an annotation; `None`: the annotation is empty.
fn parse_duration(annotation: &str, stated: &Name) -> Result<Option<Name>, Malformed> {
    match parse_go_duration(stated) {
        _ if stated.is_empty() => Ok(None),
        Some(_) => Ok(Some(Name::clone(stated))),
        None => Err(Malformed::new(
            format!("annotation {annotation}"),
            stated,
            "a duration such as 90s or 1h30m",
        )),
    }
}

/// Labels of the group: those of its owner, user and node pool of the pod, and the queue.
pub(super) fn group_labels(input: &GroupingInput<'_>, queue: &Name) -> Labels {
    let mut labels = input.top.labels.clone();
    for key in [USER_LABEL, input.context.pool_label] {
        if let Some(value) = input.pod.labels.get(key) {
            labels.entry(key.into()).or_insert_with(|| Name::clone(value));
        }
    }
    labels.insert(labels::QUEUE.into(), Name::clone(queue));
    labels
}

/// Annotations of the group: those of its owner, and the owner's metadata as KAI writes it.
pub(super) fn group_annotations(input: &GroupingInput<'_>) -> Labels {
    let mut annotations = input.top.annotations.clone();
    annotations.remove(annotations::LAST_APPLIED_CONFIGURATION);
    let owner = &input.top.owner;
    let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
    let group = if group.is_empty() { "\"\"" } else { group };
    let (name, uid, kind) = (&owner.name, &owner.uid, &owner.kind);
    let text =
        format!("name: {name}\nuid: {uid}\ngroup: {group}\nversion: {version}\nkind: {kind}\n");
    annotations.insert(annotations::TOP_OWNER_METADATA.into(), text.into());
    annotations
}
