//! Kubernetes objects, as the mirror keeps them, into the core's snapshot. It cannot fail: what
//! cannot be scheduled is left out of the snapshot and becomes a [`Trouble`] with words for the
//! person who wrote it; what stands on a node takes its room whatever is wrong with it.

mod groups;
mod pods;
mod queues;

use std::{collections::BTreeMap, fmt};

use schedlab_scheduler_core::{
    Snapshot,
    model::{Name, Node, NodeId, Time},
};

pub(crate) use queues::problem as queue_problem;

use crate::{
    config::Flavor,
    mirror::{Key, Mirror},
    parse::Malformed,
};

/// A snapshot, and what did not get into it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Translation {
    pub(crate) snapshot: Snapshot,
    /// Our waiting pods that cannot be scheduled, and why.
    pub(crate) troubles: BTreeMap<Key, Trouble>,
}

/// Why a waiting pod is not in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The pod itself cannot be read.
    Pod(Malformed),
    /// Its owners say something that makes no pod group.
    Grouping(Malformed),
    /// It belongs to no pod group.
    NoGroup,
    /// Its pod group does not exist.
    GroupMissing(Name),
    /// Its pod group cannot be read.
    Group(Name, Malformed),
    /// Its pod group has no such sub-group.
    SubGroupMissing { group: Name, sub_group: Name },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(malformed) => write!(f, "The pod cannot be scheduled: {malformed}"),
            Self::Grouping(malformed) => {
                write!(f, "The pod cannot be put into a PodGroup: {malformed}")
            }
            Self::NoGroup => {
                write!(f, "The pod belongs to no PodGroup: name one in annotation pod-group-name")
            }
            Self::GroupMissing(group) => {
                write!(f, "PodGroup {group}, named in annotation pod-group-name, does not exist")
            }
            Self::Group(group, malformed) => {
                write!(f, "PodGroup {group} cannot be scheduled: {malformed}")
            }
            Self::SubGroupMissing { group, sub_group } => write!(
                f,
                "PodGroup {group} has no sub-group {sub_group}, \
                 named in label kai.scheduler/subgroup-name"
            ),
        }
    }
}

/// The cluster at this moment.
pub(crate) fn translate(mirror: &Mirror, flavor: Flavor, now: Time, seed: u64) -> Translation {
    let nodes: Vec<Node> = mirror.nodes.values().map(|record| record.node.clone()).collect();
    let (queues, queue_of) = queues::translate(&mirror.queues);
    let (pod_groups, memberships) = match flavor {
        Flavor::Kai => groups::named(mirror, &queue_of),
        Flavor::Kube => groups::one_for_each_pod(mirror),
    };
    let mut translation = Translation::default();
    let node_ids = mirror.nodes.keys().zip(0..).map(|(name, id)| (Name::clone(name), NodeId(id)));
    let places = pods::Places { nodes: node_ids.collect(), memberships, flavor };
    pods::translate(mirror, &places, &mut translation);
    let snapshot = &mut translation.snapshot;
    snapshot.now = now;
    snapshot.seed = seed;
    snapshot.nodes = nodes;
    snapshot.queues = queues;
    snapshot.pod_groups = pod_groups;
    translation
}

#[cfg(test)]
mod tests;
