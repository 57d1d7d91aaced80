//! How many volumes of a driver a node takes.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    decision::{EvenWhenEmpty, Misfit, VolumeMisfit},
    framework::{DependsOn, Filter, NodeFilter},
    model::{AttachedVolume, Node, NodeId, PodId, PodShape},
    session::{Fits, Session, Stays},
};

/// A volume that several pods of a node use is attached once. One that is attached though no pod
/// uses it counts, too: its driver has yet to take it away.
#[derive(Debug)]
pub(in crate::plugins) struct NodeVolumeLimits;

/// Volumes of the pods on one node.
#[derive(Debug, Default)]
struct Used<'s> {
    stay: BTreeSet<&'s AttachedVolume>,
    leave: BTreeSet<&'s AttachedVolume>,
}

impl Filter for NodeVolumeLimits {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn keeps_apart(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let wanted: BTreeSet<&AttachedVolume> = attached(session.shape_of(pod)).collect();
        let limits = |node: &Node| {
            wanted.iter().any(|volume| node.volume_limits.contains_key(&volume.driver))
        };
        if wanted.is_empty() || !session.snapshot.nodes.iter().any(limits) {
            return None;
        }
        let mut by_node: BTreeMap<NodeId, Used<'a>> = BTreeMap::new();
        for other in session.volume_pods().iter().filter(|other| **other != pod) {
            for (node, stays) in session.state(*other).places() {
                let used = by_node.entry(node).or_default();
                let set = match stays {
                    Stays::Yes => &mut used.stay,
                    Stays::No => &mut used.leave,
                };
                set.extend(attached(session.shape_of(*other)));
            }
        }
        let nobody = Used::default();
        Some(Box::new(move |node| {
            let used = by_node.get(&node).unwrap_or(&nobody);
            fits(&wanted, used, session.node(node))
        }))
    }
}

fn attached(shape: &PodShape) -> impl Iterator<Item = &AttachedVolume> {
    shape.volumes.iter().filter_map(|claim| claim.attached.as_ref())
}

fn fits(
    wanted: &BTreeSet<&AttachedVolume>,
    Used { stay, leave }: &Used<'_>,
    node: &Node,
) -> Result<Fits, Misfit> {
    let others: BTreeSet<&AttachedVolume> = node.attached.iter().collect();
    let now: BTreeSet<&AttachedVolume> = stay.union(leave).copied().collect();
    if takes(wanted, (&now, &others), node) {
        return Ok(Fits::Now);
    }
    // What is attached for those who leave is taken away with them.
    let kept: BTreeSet<&AttachedVolume> = others.difference(leave).copied().collect();
    if takes(wanted, (stay, &kept), node) {
        return Ok(Fits::Later);
    }
    let nobody = BTreeSet::new();
    let fits_when_empty = takes(wanted, (&nobody, &nobody), node);
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    Err(Misfit::Volume(VolumeMisfit::TooMany { even_when_empty }))
}

/// The wanted volumes can be attached to the node beside those that its pods use, and others. As
/// in kube-scheduler, one of the others that is wanted counts twice.
fn takes(
    wanted: &BTreeSet<&AttachedVolume>,
    (used, others): (&BTreeSet<&AttachedVolume>, &BTreeSet<&AttachedVolume>),
    node: &Node,
) -> bool {
    node.volume_limits.iter().all(|(driver, limit)| {
        let new = wanted.difference(used).filter(|volume| volume.driver == *driver).count();
        let there = used.union(others).filter(|volume| volume.driver == *driver).count();
        new == 0 || i64::try_from(new + there).is_ok_and(|count| count <= *limit)
    })
}
