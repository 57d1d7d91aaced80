//! What labels and annotations of owners and pods ask for.

use schedlab_scheduler_core::model::{Labels, Name, TopologyConstraint};

use super::{super::defaults::KindDefaults, Case, Link, kinds::Grouping};
use crate::{
    mirror::{CLASS_LABEL, Owner, PodRecord},
    parse::{Malformed, at, go_duration},
    translate::is_known_class,
};

const QUEUE_LABEL: &str = "kai.scheduler/queue";
const QUEUE_DEFAULT: &str = "default-queue";
const PROJECT_LABEL: &str = "project";
const USER_LABEL: &str = "user";
const RAY_CLASS_LABEL: &str = "ray.io/priority-class-name";
const PREEMPTIBILITY_LABEL: &str = "kai.scheduler/preemptibility";
/// Name of the topology; with `-required-placement` or `-preferred-placement`: of a level of it.
pub(super) const TOPOLOGY_ANNOTATION: &str = "kai.scheduler/topology";
pub(super) const DELAY_ANNOTATION: &str = "kai.scheduler/preemption-delay";
pub(super) const GRACE_ANNOTATION: &str = "kai.scheduler/staleness-grace-period";
const APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Owners below the top one, nearest first, where their words hold as well as its: where no kind's
/// own grouping decides, as in KAI.
fn below_top<'a>(case: &Case<'a>) -> &'a [Link] {
    match case.chain {
        [below @ .., _] if case.grouping == Grouping::Default => below,
        _ => &[],
    }
}

/// What each owner that has a say says under a label, nearest first.
fn labels_of_owners<'a>(
    case: &'a Case<'_>,
    key: &'a str,
) -> impl Iterator<Item = Option<Name>> + 'a {
    let below = below_top(case).iter().map(move |link| said(link, "/metadata/labels", key));
    below.chain([case.top.labels.get(key).cloned()])
}

fn said(link: &Link, part: &str, key: &str) -> Option<Name> {
    at(&link.object, part)?.get(key)?.as_str().map(Name::from)
}

/// The first that the top owner, else the pod says.
fn label<'a>(case: &'a Case<'_>, label: &str) -> Option<&'a Name> {
    case.top.labels.get(label).or_else(|| case.pod.labels.get(label))
}

/// A project's queue is named after it; in a node pool, after both.
pub(super) fn queue(case: &Case<'_>) -> Name {
    if let Some(queue) = label(case, QUEUE_LABEL) {
        return Name::clone(queue);
    }
    let Some(project) = label(case, PROJECT_LABEL).filter(|project| !project.is_empty()) else {
        return QUEUE_DEFAULT.into();
    };
    match case.pod.labels.get(case.around.pool_label) {
        Some(pool) => format!("{project}-{pool}").into(),
        None => Name::clone(project),
    }
}

/// A class that exists: as labelled, as the pods have it, or the kind's. As in KAI the pod has its
/// say after the nearest owner, before those above.
pub(super) fn priority_class(case: &Case<'_>) -> Name {
    let of_kind = (case.grouping == Grouping::Ray).then(|| case.top.labels.get(RAY_CLASS_LABEL));
    let of_gang = (case.grouping == Grouping::Grove)
        .then(|| crate::parse::name(case.top.object, "/spec/priorityClassName"))
        .flatten();
    let of_pod = case.pod.labels.get(CLASS_LABEL);
    let others = of_pod.or(of_gang.as_ref()).or(case.pod.priority_class.as_ref());
    let mut stated = labels_of_owners(case, CLASS_LABEL)
        .filter_map(|of_owner| of_kind.flatten().cloned().or(of_owner).or_else(|| others.cloned()));
    if let Some(class) = stated.find(|class| is_known_class(case.around.classes, class)) {
        return class;
    }
    if let Some(class) = by_default(case, |kind| kind.priority_class.as_ref()) {
        return class;
    }
    match case.grouping {
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
        | Grouping::Default => "train".into(),
    }
}

/// What the kind of the first owner whose words hold has where nobody says otherwise.
fn by_default(case: &Case<'_>, part: impl Fn(&KindDefaults) -> Option<&Name>) -> Option<Name> {
    let itself = (case.chain.is_empty()).then_some(&case.top.owner);
    let above = case.chain.last().into_iter().chain(case.skipped);
    let owners = below_top(case).iter().chain(above).map(|link| &link.owner);
    let said = |owner: &Owner| part(case.around.defaults.of(owner)?).cloned();
    itself.into_iter().chain(owners).find_map(said)
}

pub(super) fn preemptibility(case: &Case<'_>) -> Result<Option<Name>, Malformed> {
    let of_owners = labels_of_owners(case, PREEMPTIBILITY_LABEL).flatten().next();
    match of_owners.as_ref().or_else(|| case.pod.labels.get(PREEMPTIBILITY_LABEL)) {
        None => Ok(by_default(case, |kind| kind.preemptibility.as_ref())),
        Some(stated) => preemptibility_of(stated),
    }
}

/// `None`: said to follow from the priority.
fn preemptibility_of(stated: &Name) -> Result<Option<Name>, Malformed> {
    match &**stated {
        "" => Ok(None),
        "preemptible" | "non-preemptible" => Ok(Some(Name::clone(stated))),
        other => Err(Malformed::new(
            format!("label {PREEMPTIBILITY_LABEL}"),
            other,
            "preemptible or non-preemptible",
        )),
    }
}

/// The first wish in a pod's own labels and annotations that nobody could grant.
pub(crate) fn fault(pod: &PodRecord) -> Option<Malformed> {
    let stated = pod.labels.get(PREEMPTIBILITY_LABEL);
    let mut of_times = [DELAY_ANNOTATION, GRACE_ANNOTATION]
        .into_iter()
        .filter_map(|annotation| Some((annotation, pod.annotations.get(annotation)?)));
    let wrong = stated.and_then(|stated| preemptibility_of(stated).err());
    wrong.or_else(|| of_times.find_map(|(of, stated)| time_of(of, stated).err()))
}

/// In places of which levels pods run together.
pub(super) fn topology(annotations: &Labels) -> Result<Option<TopologyConstraint>, Malformed> {
    levels(annotations, TOPOLOGY_ANNOTATION, annotations.get(TOPOLOGY_ANNOTATION))
}

/// The levels that annotations name, of a topology.
pub(super) fn levels(
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
        let found = format!("nothing beside {prefix}-{which}-placement");
        return Err(Malformed::new(field, found, "the name of a Topology"));
    };
    Ok(Some(TopologyConstraint { topology, required, preferred }))
}

/// A time that an annotation of an owner, the nearest first, else of the pod gives.
pub(super) fn time(case: &Case<'_>, annotation: &str) -> Result<Option<Name>, Malformed> {
    let below = below_top(case).iter();
    let mut below = below.filter_map(|link| said(link, "/metadata/annotations", annotation));
    let of_owners = below.find(|text| !text.is_empty());
    let of_owners = of_owners.as_ref().or_else(|| case.top.annotation(annotation));
    let stated = of_owners.or_else(|| case.pod.annotations.get(annotation));
    stated.map_or(Ok(None), |stated| time_of(annotation, stated))
}

/// `None` where nothing stands.
fn time_of(annotation: &str, stated: &Name) -> Result<Option<Name>, Malformed> {
    match go_duration(stated) {
        _ if stated.is_empty() => Ok(None),
        Some(_) => Ok(Some(Name::clone(stated))),
        None => Err(Malformed::new(
            format!("annotation {annotation}"),
            stated,
            "a duration such as 90s or 1h30m",
        )),
    }
}

/// Those of the owner, and who pays.
pub(super) fn labels(case: &Case<'_>, queue: &Name) -> Labels {
    let mut labels = case.top.labels.clone();
    for key in [USER_LABEL, case.around.pool_label] {
        if let Some(value) = case.pod.labels.get(key) {
            labels.entry(key.into()).or_insert_with(|| Name::clone(value));
        }
    }
    labels.insert(QUEUE_LABEL.into(), Name::clone(queue));
    labels
}

/// Those of the owner, and who that is.
pub(super) fn annotations(case: &Case<'_>) -> Labels {
    let mut annotations = case.top.annotations.clone();
    annotations.remove(APPLIED_ANNOTATION);
    let owner = &case.top.owner;
    let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
    let group = if group.is_empty() { "\"\"" } else { group };
    let (name, uid, kind) = (&owner.name, &owner.uid, &owner.kind);
    let text =
        format!("name: {name}\nuid: {uid}\ngroup: {group}\nversion: {version}\nkind: {kind}\n");
    annotations.insert("kai.scheduler/top-owner-metadata".into(), text.into());
    annotations
}
