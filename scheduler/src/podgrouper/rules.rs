//! Which group a chain of owners makes. Pure: pod and owners in, group out. Each kind of owner
//! has a grouping of its own, as in KAI; what is not listed is grouped under its top owner.

mod group;
mod grove;
mod karta;
mod kinds;
mod parts;
mod ray;
mod training;
mod wishes;

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Labels, Name};

use super::defaults::Defaults;
use crate::{
    karta::{Allowance, Karta},
    mirror::{ClassRecord, Key, Owner, PodRecord, owner_above},
    parse::{Malformed, list, strings},
};
pub(super) use group::{Group, Member};
use kinds::Grouping;
pub(super) use kinds::known_plural;
pub(super) use parts::Doubt;
use parts::Parts;
pub(crate) use wishes::fault;

/// The plural of Grove's gangs, and the label with which pods name theirs.
pub(super) const GANGS: &str = "podgangs";
const GANG_API: &str = "scheduler.grove.io/v1alpha1";
const GANG_LABEL: &str = "grove.io/podgang";

/// One owner in a chain; its object is null when it does not exist any more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) object: Value,
}

/// What else groups depend on.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) pods: &'a BTreeMap<Key, PodRecord>,
    pub(super) classes: &'a BTreeMap<Name, ClassRecord>,
    /// The label that names node pools.
    pub(super) pool_label: &'a str,
    /// What kinds of owners have where nobody says otherwise.
    pub(super) defaults: &'a Defaults,
    /// What [`beside`] named, if it exists.
    pub(super) beside: Option<&'a Value>,
    /// What says how pods of the owner that [`described`] named are grouped, and the pod as a whole.
    pub(super) karta: Option<(&'a Karta, &'a Value)>,
    /// What that may cost.
    pub(super) allowance: &'a Allowance,
}

/// Whom a group belongs to: the top owner that counts, and what is written on it.
struct Top<'a> {
    owner: Owner,
    /// Null when it could not be read.
    object: &'a Value,
    labels: Labels,
    annotations: Labels,
}

impl Top<'_> {
    fn annotation(&self, key: &str) -> Option<&Name> {
        self.annotations.get(key).filter(|text| !text.is_empty())
    }
}

/// A pod to be grouped, and everything that says how.
struct Case<'a> {
    key: &'a Key,
    pod: &'a PodRecord,
    /// Owners up to the one that counts, nearest first.
    chain: &'a [Link],
    /// Owners above it whose words hold as well.
    skipped: &'a [Link],
    grouping: Grouping,
    top: Top<'a>,
    around: Around<'a>,
}

/// The group of a pod, and its place in it.
pub(super) fn group_of(
    key: &Key,
    pod: &PodRecord,
    chain: &[Link],
    around: Around<'_>,
) -> Result<Member, Malformed> {
    ends_well(chain)?;
    let case = case(key, pod, chain, around)?;
    let Parts { min_member, min_sub_group, sub_groups, part, tail, topology, doubt } =
        parts::of(&case)?;
    let queue = wishes::queue(&case);
    let group = Group {
        name: group_name(&case, tail.as_deref()),
        namespace: Name::clone(&key.namespace),
        labels: wishes::labels(&case, &queue),
        annotations: wishes::annotations(&case),
        min_member: min_member.clamp(1, i32::MAX.unsigned_abs()),
        min_parts: min_sub_group,
        sub_groups,
        queue,
        priority_class: wishes::priority_class(&case),
        preemptibility: wishes::preemptibility(&case)?,
        topology: match topology {
            Some(topology) => Some(topology),
            None if case.grouping == Grouping::Grove => grove::topology(&case)?,
            None => wishes::topology(&case.top.annotations)?,
        },
        preemption_delay: wishes::time(&case, wishes::DELAY_ANNOTATION)?,
        staleness_grace: wishes::time(&case, wishes::GRACE_ANNOTATION)?,
        owner: case.top.owner,
        doubt,
    };
    Ok(Member { group, part })
}

/// Of several owners of an owner one has to be its controller: which is meant, nobody else knows.
fn ends_well(chain: &[Link]) -> Result<(), Malformed> {
    let Some(Link { owner, object }) = chain.last() else { return Ok(()) };
    let owners = list(object, "/metadata/ownerReferences").len();
    if owners < 2 || owner_above(object).is_some() {
        return Ok(());
    }
    let field = format!("metadata.ownerReferences of {} {}", owner.kind, owner.name);
    Err(Malformed::new(field, format!("{owners} owners"), "one, or one with controller: true"))
}

/// What stands beside the owners and says how a pod is grouped: Grove's gang, which a label of the
/// pod names, and the cluster of a job of Ray.
pub(super) fn beside(pod: &PodRecord, chain: &[Link]) -> Option<Owner> {
    let (chain, _) = kinds::below_skipped(chain);
    match kinds::grouping(&chain.last()?.owner) {
        Grouping::Grove => {
            let name = pod.labels.get(GANG_LABEL).cloned()?;
            let (api_version, kind) = (GANG_API.into(), "PodGang".into());
            Some(Owner { api_version, kind, name, uid: "".into() })
        }
        Grouping::Ray => ray::cluster_beside(chain),
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
        | Grouping::Default => None,
    }
}

/// The owner that counts, if it is of a kind of which nobody but a Karta knows how it is grouped.
pub(super) fn described(chain: &[Link]) -> Option<&Owner> {
    let (chain, _) = kinds::below_skipped(chain);
    let top = chain.last()?;
    (!top.object.is_null() && kinds::is_unlisted(&top.owner)).then_some(&top.owner)
}

fn case<'a>(
    key: &'a Key,
    pod: &'a PodRecord,
    chain: &'a [Link],
    around: Around<'a>,
) -> Result<Case<'a>, Malformed> {
    let (chain, skipped) = kinds::below_skipped(chain);
    let grouping = match around.karta {
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
    let mut top = Top {
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
        take_gang(&mut top, pod, around)?;
    }
    // What is written on an owner that is skipped holds where those below say nothing.
    for link in skipped {
        inherit(&mut top.labels, strings(&link.object, "/metadata/labels"));
        inherit(&mut top.annotations, strings(&link.object, "/metadata/annotations"));
    }
    Ok(Case { key, pod, chain, skipped, grouping, top, around })
}

fn inherit(labels: &mut Labels, from: Labels) {
    for (key, value) in from {
        labels.entry(key).or_insert(value);
    }
}

/// The gang takes the place of the owner, whose words hold where the gang's say nothing.
fn take_gang<'a>(top: &mut Top<'a>, pod: &PodRecord, around: Around<'a>) -> Result<(), Malformed> {
    let named = pod.labels.get(GANG_LABEL);
    let Some(gang) = around.beside else {
        let found = named.map_or("nothing", |name| &**name);
        let field = format!("label {GANG_LABEL}");
        return Err(Malformed::new(field, found, "the name of a PodGang that exists"));
    };
    let part = |pointer| crate::parse::text(gang, pointer).unwrap_or_default().into();
    top.owner = Owner {
        api_version: GANG_API.into(),
        kind: "PodGang".into(),
        name: part("/metadata/name"),
        uid: part("/metadata/uid"),
    };
    let of_owner = std::mem::replace(&mut top.labels, strings(gang, "/metadata/labels"));
    inherit(&mut top.labels, of_owner);
    let of_owner = std::mem::replace(&mut top.annotations, strings(gang, "/metadata/annotations"));
    inherit(&mut top.annotations, of_owner);
    top.object = gang;
    Ok(())
}

/// At most as long as a name may be.
fn group_name(case: &Case<'_>, tail: Option<&str>) -> Name {
    match case.grouping {
        Grouping::Spark => case.pod.labels.get(kinds::SPARK_SELECTOR).cloned().unwrap_or_default(),
        // The pods of one run have names that differ behind the last dash.
        Grouping::RunaiJob => {
            let run = case.key.name.rsplit_once('-').map_or(&*case.key.name, |(run, _)| run);
            named(run, &case.top.owner.uid, None)
        }
        // The owner's name has no place in it, as in KAI.
        Grouping::Karta => {
            let tail = tail.map(|tail| format!("-{tail}")).unwrap_or_default();
            format!("pg-{}{tail}", case.top.owner.uid).into()
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
        | Grouping::Default => named(&case.top.owner.name, &case.top.owner.uid, tail),
    }
}

fn named(name: &str, uid: &str, tail: Option<&str>) -> Name {
    let tail = tail.map_or_else(|| format!("-{uid}"), |tail| format!("-{uid}-{tail}"));
    let room = 253_usize.saturating_sub("pg-".len() + tail.len());
    let name: String = name.chars().take(room).collect();
    format!("pg-{name}{tail}").into()
}

#[cfg(test)]
mod tests;
