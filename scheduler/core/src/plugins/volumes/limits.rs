//! The limit of attached volumes per node and driver.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    framework::{Filter, Fit, NodeFilter, NodePresence, ResultInputs, Session},
    model::{AttachedVolume, Node, NodeId, PodId, PodShape},
    reason::{EvenWhenEmpty, FitError, VolumeFitError},
};

/// Rejects nodes that cannot attach the volumes of the pod. A volume that several pods of a node
/// use counts once; an attached volume that no pod uses counts, too, until its driver detaches it.
#[derive(Debug)]
pub(in crate::plugins) struct NodeVolumeLimits;

/// Volumes that the pods on one node use.
#[derive(Debug, Default)]
struct UsedVolumes<'s> {
    stay: BTreeSet<&'s AttachedVolume>,
    leave: BTreeSet<&'s AttachedVolume>,
}

impl Filter for NodeVolumeLimits {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn rejects_for_other_pods(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let requested: BTreeSet<&AttachedVolume> =
            attached_volumes(session.shape_of(pod)).collect();
        let limits = |node: &Node| {
            requested.iter().any(|volume| node.volume_limits.contains_key(&volume.driver))
        };
        if requested.is_empty() || !session.snapshot.nodes.iter().any(limits) {
            return None;
        }
        let mut by_node: BTreeMap<NodeId, UsedVolumes<'a>> = BTreeMap::new();
        for other in session.pods_with_volumes().iter().filter(|other| **other != pod) {
            for (node, stays) in session.state(*other).nodes_with_presence() {
                let used = by_node.entry(node).or_default();
                let set = match stays {
                    NodePresence::Staying => &mut used.stay,
                    NodePresence::Leaving => &mut used.leave,
                };
                set.extend(attached_volumes(session.shape_of(*other)));
            }
        }
        let none = UsedVolumes::default();
        Some(Box::new(move |node| {
            let used = by_node.get(&node).unwrap_or(&none);
            fit_volumes(&requested, used, session.node(node))
        }))
    }
}

fn attached_volumes(shape: &PodShape) -> impl Iterator<Item = &AttachedVolume> {
    shape.volumes.iter().filter_map(|claim| claim.attached_volume.as_ref())
}

fn fit_volumes(
    requested: &BTreeSet<&AttachedVolume>,
    UsedVolumes { stay, leave }: &UsedVolumes<'_>,
    node: &Node,
) -> Result<Fit, FitError> {
    let others: BTreeSet<&AttachedVolume> = node.attached_volumes.iter().collect();
    let now: BTreeSet<&AttachedVolume> = stay.union(leave).copied().collect();
    if can_attach(requested, &now, &others, node) {
        return Ok(Fit::Now);
    }
    // Volumes of leaving pods are detached with them.
    let remaining: BTreeSet<&AttachedVolume> = others.difference(leave).copied().collect();
    if can_attach(requested, stay, &remaining, node) {
        return Ok(Fit::Later);
    }
    let none = BTreeSet::new();
    let fits_when_empty = can_attach(requested, &none, &none, node);
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    Err(FitError::Volume(VolumeFitError::TooManyVolumes { even_when_empty }))
}

/// Whether the requested volumes can be attached to the node in addition to the `used` volumes of
/// its pods and the `others` that are attached. As in kube-scheduler, a requested volume among the
/// others counts twice.
fn can_attach(
    requested: &BTreeSet<&AttachedVolume>,
    used: &BTreeSet<&AttachedVolume>,
    others: &BTreeSet<&AttachedVolume>,
    node: &Node,
) -> bool {
    node.volume_limits.iter().all(|(driver, limit)| {
        let new = requested.difference(used).filter(|volume| volume.driver == *driver).count();
        let attached = used.union(others).filter(|volume| volume.driver == *driver).count();
        new == 0 || i64::try_from(new + attached).is_ok_and(|count| count <= *limit)
    })
}
