//! Derives the PodGroup of a pod from its owner chain. Pure: pod and owners in, group out. Each
//! owner kind has its own grouping, as in KAI; unlisted kinds are grouped by their top owner.
//! Fetching owners and writing groups is left to the parent module.

mod annotations;
mod group;
mod grove;
mod karta;
mod kinds;
mod ray;
mod scheduling_group;
mod sub_groups;
mod training;

use std::collections::BTreeMap;

use schedlab_api::{
    Value,
    annotations::{PREEMPTION_DELAY, STALENESS_GRACE_PERIOD},
};
use schedlab_scheduler_core::model::{Labels, Name};

use super::defaults::Defaults;
use crate::{
    cache::PriorityClassRecord,
    karta::{CycleBudget, Karta},
    parse::{Malformed, list, strings},
    records::{ObjectKey, Owner, PodRecord, parent_owner},
};
pub(crate) use annotations::annotation_fault;
pub(super) use group::{Group, Member};
use kinds::Grouping;
pub(super) use kinds::known_plural;
use sub_groups::GroupShape;
pub(super) use sub_groups::{OwnerKind, OwnerWarning};

/// Resource name of Grove's PodGang; [`GANG_LABEL`] names the PodGang of a pod.
pub(super) const GANG_PLURAL: &str = "podgangs";
const GANG_API: &str = "scheduler.grove.io/v1alpha1";
const GANG_LABEL: &str = "grove.io/podgang";

/// Kind of the PodGroups of Kubernetes.
pub(super) const SCHEDULING_GROUP_KIND: &str = "PodGroup";

/// One owner in a chain; `object` is null if it does not exist.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnerLink {
    pub(crate) owner: Owner,
    pub(crate) object: Value,
}

/// Inputs of grouping beside the pod and its owners.
#[derive(Clone, Copy)]
pub(super) struct GroupingContext<'a> {
    pub(super) pods: &'a BTreeMap<ObjectKey, PodRecord>,
    pub(super) classes: &'a BTreeMap<Name, PriorityClassRecord>,
    /// Key of the label that assigns pods and nodes to node pools.
    pub(super) pool_label: &'a str,
    /// Priority class and preemptibility per owner kind, if neither owner nor pod sets them.
    pub(super) defaults: &'a Defaults,
    /// The object that [`related_object`] names, if it exists.
    pub(super) related_object: Option<&'a Value>,
    /// The Karta for the owner that [`karta_owner`] names, and the complete pod object.
    pub(super) karta: Option<(&'a Karta, &'a Value)>,
    /// Budget for evaluating the Karta.
    pub(super) cycle_budget: &'a CycleBudget,
}

/// The owner of a group: the topmost owner that is not skipped, with its labels and annotations.
struct TopOwner<'a> {
    owner: Owner,
    /// The object of the owner; null if it could not be read.
    object: &'a Value,
    labels: Labels,
    annotations: Labels,
}

impl TopOwner<'_> {
    fn annotation(&self, key: &str) -> Option<&Name> {
        self.annotations.get(key).filter(|text| !text.is_empty())
    }
}

/// A pod to be grouped, with its owners and all other inputs.
struct GroupingInput<'a> {
    key: &'a ObjectKey,
    pod: &'a PodRecord,
    /// Owners up to the group's owner, nearest first.
    chain: &'a [OwnerLink],
    /// Skipped owners above the group's owner, whose labels and annotations are inherited.
    skipped: &'a [OwnerLink],
    grouping: Grouping,
    top: TopOwner<'a>,
    context: GroupingContext<'a>,
}

/// Derives the group and the sub-group of a pod.
pub(super) fn group_of(
    key: &ObjectKey,
    pod: &PodRecord,
    chain: &[OwnerLink],
    context: GroupingContext<'_>,
) -> Result<Member, Malformed> {
    check_controller(chain)?;
    let input = grouping_input(key, pod, chain, context)?;
    let GroupShape {
        min_member,
        owner_pods,
        min_sub_group,
        sub_groups,
        sub_group,
        name_suffix,
        topology,
        warning,
    } = sub_groups::shape_of(&input)?;
    let queue = annotations::group_queue(&input);
    if input.grouping == Grouping::SchedulingGroup {
        scheduling_group::check_agreement(&input)?;
    }
    let group = Group {
        name: group_name(&input, name_suffix.as_deref()),
        namespace: Name::clone(&key.namespace),
        labels: annotations::group_labels(&input, &queue),
        annotations: annotations::group_annotations(&input),
        min_member: min_member.clamp(1, i32::MAX.unsigned_abs()),
        owner_pods,
        min_sub_group,
        sub_groups,
        queue,
        priority_class: annotations::priority_class(&input),
        preemptibility: annotations::preemptibility(&input)?,
        topology: match topology {
            Some(topology) => Some(topology),
            None if input.grouping == Grouping::Grove => grove::gang_topology(&input)?,
            None if input.grouping == Grouping::SchedulingGroup => {
                scheduling_group::topology(&input)?
            }
            None => annotations::topology_constraint(&input.top.annotations)?,
        },
        preemption_delay: annotations::duration_annotation(&input, PREEMPTION_DELAY)?,
        staleness_grace: annotations::duration_annotation(&input, STALENESS_GRACE_PERIOD)?,
        owner: input.top.owner,
        warning,
    };
    Ok(Member { group, sub_group })
}

/// An object with several owner references must mark one of them as its controller; otherwise the
/// owner to follow is ambiguous.
fn check_controller(chain: &[OwnerLink]) -> Result<(), Malformed> {
    let Some(OwnerLink { owner, object }) = chain.last() else { return Ok(()) };
    let owners = list(object, "/metadata/ownerReferences").len();
    if owners < 2 || parent_owner(object).is_some() {
        return Ok(());
    }
    let field = format!("metadata.ownerReferences of {} {}", owner.kind, owner.name);
    Err(Malformed::new(field, format!("{owners} owners"), "one, or one with controller: true"))
}

/// An object outside the owner chain that determines the group: the PodGroup of Kubernetes that the
/// pod names, Grove's PodGang, named by a label of the pod, or the RayCluster of a RayJob.
pub(super) fn related_object(pod: &PodRecord, chain: &[OwnerLink]) -> Option<Owner> {
    if let Some(name) = &pod.scheduling_group {
        return Some(scheduling_group::owner(name));
    }
    let (chain, _) = kinds::split_skipped(chain);
    match kinds::grouping(&chain.last()?.owner) {
        Grouping::Grove => {
            let name = pod.labels.get(GANG_LABEL).cloned()?;
            let (api_version, kind) = (GANG_API.into(), "PodGang".into());
            Some(Owner { api_version, kind, name, uid: "".into() })
        }
        Grouping::Ray => ray::cluster_of_job(chain),
        Grouping::EachPod
        | Grouping::Serving
        | Grouping::Interactive
        | Grouping::Job
        | Grouping::JobSet
        | Grouping::Replicas(_)
        | Grouping::PyTorchJob
        | Grouping::MpiJob
        | Grouping::LeaderWorkerSet
        | Grouping::Knative
        | Grouping::AmlJob
        | Grouping::RunaiJob
        | Grouping::Spark
        | Grouping::Karta
        | Grouping::SchedulingGroup
        | Grouping::Default => None,
    }
}

/// The group's owner, if its kind has no built-in grouping, so that a Karta may define one.
pub(super) fn karta_owner<'c>(pod: &PodRecord, chain: &'c [OwnerLink]) -> Option<&'c Owner> {
    if pod.scheduling_group.is_some() {
        return None;
    }
    let (chain, _) = kinds::split_skipped(chain);
    let top = chain.last()?;
    (!top.object.is_null() && kinds::is_unlisted(&top.owner)).then_some(&top.owner)
}

fn grouping_input<'a>(
    key: &'a ObjectKey,
    pod: &'a PodRecord,
    chain: &'a [OwnerLink],
    context: GroupingContext<'a>,
) -> Result<GroupingInput<'a>, Malformed> {
    let (chain, skipped) = kinds::split_skipped(chain);
    let grouping = match context.karta {
        Some(_) => Grouping::Karta,
        None => kinds::grouping_of(pod, chain),
    };
    let itself = || Owner {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: Name::clone(&key.name),
        uid: Name::clone(&pod.uid),
    };
    let last = chain.last();
    let object = last.map_or(&Value::Null, |top| &top.object);
    let mut top = TopOwner {
        owner: match last {
            Some(top) if grouping != Grouping::EachPod => top.owner.clone(),
            Some(_) | None => itself(),
        },
        object,
        labels: strings(object, "/metadata/labels"),
        annotations: strings(object, "/metadata/annotations"),
    };
    if last.is_none() {
        top.labels.clone_from(&pod.labels);
        top.annotations.clone_from(&pod.annotations);
    }
    if grouping == Grouping::Grove {
        use_gang_as_owner(&mut top, pod, context)?;
    } else if grouping == Grouping::SchedulingGroup {
        scheduling_group::use_as_owner(&mut top, pod, context)?;
    }
    // Labels and annotations of skipped owners apply if the owner below does not set them.
    for link in skipped {
        inherit_labels(&mut top.labels, strings(&link.object, "/metadata/labels"));
        inherit_labels(&mut top.annotations, strings(&link.object, "/metadata/annotations"));
    }
    Ok(GroupingInput { key, pod, chain, skipped, grouping, top, context })
}

fn inherit_labels(labels: &mut Labels, from: Labels) {
    for (key, value) in from {
        labels.entry(key).or_insert(value);
    }
}

/// Replaces the owner by the PodGang. The owner's labels and annotations apply if the PodGang does
/// not set them.
fn use_gang_as_owner<'a>(
    top: &mut TopOwner<'a>,
    pod: &PodRecord,
    context: GroupingContext<'a>,
) -> Result<(), Malformed> {
    let named = pod.labels.get(GANG_LABEL);
    let Some(gang) = context.related_object else {
        let found = named.map_or("nothing", |name| &**name);
        let field = format!("label {GANG_LABEL}");
        return Err(Malformed::new(field, found, "the name of a PodGang that exists"));
    };
    let sub_group = |pointer| crate::parse::text(gang, pointer).unwrap_or_default().into();
    top.owner = Owner {
        api_version: GANG_API.into(),
        kind: "PodGang".into(),
        name: sub_group("/metadata/name"),
        uid: sub_group("/metadata/uid"),
    };
    let of_owner = std::mem::replace(&mut top.labels, strings(gang, "/metadata/labels"));
    inherit_labels(&mut top.labels, of_owner);
    let of_owner = std::mem::replace(&mut top.annotations, strings(gang, "/metadata/annotations"));
    inherit_labels(&mut top.annotations, of_owner);
    top.object = gang;
    Ok(())
}

/// Name of the group, truncated to the length of an object name.
fn group_name(input: &GroupingInput<'_>, name_suffix: Option<&str>) -> Name {
    match input.grouping {
        Grouping::Spark => input.pod.labels.get(kinds::SPARK_SELECTOR).cloned().unwrap_or_default(),
        // Pod names of one run differ after the last dash only.
        Grouping::RunaiJob => {
            let run = input.key.name.rsplit_once('-').map_or(&*input.key.name, |(run, _)| run);
            default_group_name(run, &input.top.owner.uid, None)
        }
        // As in KAI, without the owner's name.
        Grouping::Karta => {
            let name_suffix = name_suffix.map(|tail| format!("-{tail}")).unwrap_or_default();
            format!("pg-{}{name_suffix}", input.top.owner.uid).into()
        }
        Grouping::EachPod
        | Grouping::Serving
        | Grouping::Interactive
        | Grouping::Job
        | Grouping::JobSet
        | Grouping::Replicas(_)
        | Grouping::PyTorchJob
        | Grouping::MpiJob
        | Grouping::Ray
        | Grouping::LeaderWorkerSet
        | Grouping::Grove
        | Grouping::Knative
        | Grouping::AmlJob
        | Grouping::SchedulingGroup
        | Grouping::Default => {
            default_group_name(&input.top.owner.name, &input.top.owner.uid, name_suffix)
        }
    }
}

fn default_group_name(name: &str, uid: &str, name_suffix: Option<&str>) -> Name {
    let name_suffix =
        name_suffix.map_or_else(|| format!("-{uid}"), |tail| format!("-{uid}-{tail}"));
    let room = 253_usize.saturating_sub("pg-".len() + name_suffix.len());
    let name: String = name.chars().take(room).collect();
    format!("pg-{name}{name_suffix}").into()
}

#[cfg(test)]
mod tests;
