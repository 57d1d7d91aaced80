//! Volume claims, in four filters: claims that cannot be satisfied at all; nodes that can reach
//! bound volumes, and matching unbound ones; the attachment limit of nodes; and claims that other
//! pods use exclusively. They correspond to `VolumeBinding`, `VolumeZone`, `NodeVolumeLimits` and
//! `VolumeRestrictions` of kube-scheduler. Volumes are assigned to claims for all pods together
//! ([`assign_volumes`]), so that no two claims get the same volume.

mod limits;
pub(super) mod matching;

use crate::{
    framework::{Filter, Fit, NodeFilter, PodState, ResultInputs, Session},
    model::{
        LabelSelector, Name, Node, PodId, ProvisionableVolume, VolumeAccess, VolumeClaim,
        VolumeReach,
    },
    reason::{FitError, VolumeFitError},
};

pub(super) use limits::NodeVolumeLimits;
pub use matching::VolumeChoice;
use matching::VolumeMatching;

/// Rejects all nodes if one of the pod's volume claims cannot be satisfied anywhere.
#[derive(Debug)]
pub(super) struct VolumeClaims;

/// Rejects nodes that cannot reach the volumes of the pod.
#[derive(Debug)]
pub(super) struct VolumeNodes;

/// Rejects nodes on which no free volume is left for one of the pod's claims, because other pods
/// use the volumes or were just assigned them.
#[derive(Debug)]
pub(super) struct VolumeBinding;

/// Assigns a volume to each unbound claim of pods on these nodes: an existing volume, or one to be
/// provisioned. Claims that can get neither are absent; for pods that a plan places, none are.
pub fn assign_volumes<'s>(
    pods_with_nodes: impl Iterator<Item = (&'s [VolumeClaim], &'s Node)>,
) -> std::collections::BTreeMap<Name, VolumeChoice> {
    let mut matching = VolumeMatching::default();
    for (claims, node) in pods_with_nodes {
        matching.add_claims(claims, node);
    }
    matching.assign_volumes().volumes_by_claim()
}

impl Filter for VolumeClaims {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let mut claims = session.shape_of(pod).volumes.iter();
        let error = claims.find_map(|claim| match &claim.access {
            VolumeAccess::Unavailable(problem) => {
                let (claim, problem) = (claim.name.clone(), problem.clone());
                Some(FitError::Volume(VolumeFitError::ClaimUnavailable { claim, problem }))
            }
            VolumeAccess::Bound(_) | VolumeAccess::WaitForFirstConsumer { .. } => None,
        })?;
        Some(Box::new(move |_| Err(error.clone())))
    }
}

impl Filter for VolumeNodes {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).volumes;
        (!claims.is_empty()).then(|| {
            let filter = move |node| {
                let node = session.node(node);
                claims
                    .iter()
                    .try_for_each(|claim| check_claim_reach(claim, node))
                    .map(|()| Fit::Now)
            };
            Box::new(filter) as NodeFilter<'a>
        })
    }
}

/// Checks that the node can reach the volume of the claim, or a volume that matches the claim.
fn check_claim_reach(claim: &VolumeClaim, node: &Node) -> Result<(), FitError> {
    match &claim.access {
        VolumeAccess::Bound(reach) if !affinity_matches(reach, node) => {
            Err(FitError::Volume(VolumeFitError::NodeAffinity))
        }
        VolumeAccess::Bound(reach) if !zones_match(reach, node) => {
            Err(FitError::Volume(VolumeFitError::Zone))
        }
        VolumeAccess::Unavailable(_) | VolumeAccess::Bound(_) => Ok(()),
        VolumeAccess::WaitForFirstConsumer { volumes, provisionable } => {
            let provisionable = provisionable
                .as_ref()
                .filter(|provisionable| is_reachable_from(&provisionable.reach, node));
            if volumes.iter().any(|volume| is_reachable_from(&volume.reach, node)) {
                return Ok(());
            }
            match provisionable {
                None => Err(FitError::Volume(VolumeFitError::NoMatchingVolume)),
                Some(provisionable) if !has_storage(provisionable, node) => {
                    Err(FitError::Volume(VolumeFitError::InsufficientStorage))
                }
                Some(_) => Ok(()),
            }
        }
    }
}

/// Whether the CSI driver has enough storage for the node, as far as it publishes capacity.
fn has_storage(provisionable: &ProvisionableVolume, node: &Node) -> bool {
    let matches = |selector: &LabelSelector| {
        selector.requirements.iter().all(|one| one.matches_value(node.labels.get(&one.key)))
    };
    provisionable.nodes_with_capacity.as_ref().is_none_or(|selectors| selectors.iter().any(matches))
}

pub(super) fn is_reachable_from(reach: &VolumeReach, node: &Node) -> bool {
    affinity_matches(reach, node) && zones_match(reach, node)
}

fn affinity_matches(reach: &VolumeReach, node: &Node) -> bool {
    let affinity = reach.affinity.as_ref();
    affinity.is_none_or(|terms| terms.iter().any(|term| term.matches_node(node)))
}

/// Whether the zone labels of the volume match the node. Deprecated and current labels are
/// equivalent; a node without zone labels matches all zones.
fn zones_match(reach: &VolumeReach, node: &Node) -> bool {
    if VolumeClaim::ZONE_LABELS.iter().all(|label| !node.labels.contains_key(*label)) {
        return true;
    }
    reach.zones.iter().all(|(label, values)| {
        let equivalent = VolumeClaim::ZONE_LABELS.iter().filter(|other| {
            let last = |label: &str| label.rsplit_once('/').map(|(_, last)| last.to_owned());
            last(label) == last(other)
        });
        let equivalent = equivalent.filter_map(|other| node.labels.get(*other));
        let value = node.labels.get(label).or_else(|| equivalent.into_iter().next());
        value.is_some_and(|value| values.contains(value))
    })
}

impl Filter for VolumeBinding {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn rejects_for_other_pods(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        if !shape
            .volumes
            .iter()
            .any(|claim| claim.is_exclusive || claim.is_wait_for_first_consumer())
        {
            return None;
        }
        let others = || session.pods_with_volumes().iter().copied().filter(|other| *other != pod);
        let exclusive = shape.volumes.iter().filter(|claim| claim.is_exclusive);
        let exclusive_fits = exclusive.map(|claim| check_exclusive_claim(session, others(), claim));
        let exclusive_fits = exclusive_fits.collect::<Result<Vec<Fit>, FitError>>();
        let mut matching = VolumeMatching::default();
        for other in others() {
            if let Some(node) = session.state(other).charged_node() {
                matching.add_claims(&session.shape_of(other).volumes, session.node(node));
            }
        }
        let base = matching.assign_volumes();
        Some(Box::new(move |node| {
            let fits = exclusive_fits.clone()?.into_iter().max().unwrap_or(Fit::Now);
            let mut added = VolumeMatching::default();
            added.add_claims(&shape.volumes, session.node(node));
            if base.can_add(&matching, added) {
                Ok(fits)
            } else {
                Err(FitError::Volume(VolumeFitError::NoMatchingVolume))
            }
        }))
    }
}

/// When a pod may use the `ReadWriteOncePod` claim: now if no other pod uses it, later if all its
/// users are terminating; otherwise the error.
fn check_exclusive_claim(
    session: &Session<'_>,
    others: impl Iterator<Item = PodId>,
    claim: &VolumeClaim,
) -> Result<Fit, FitError> {
    let users = others.filter(|other| {
        session.shape_of(*other).volumes.iter().any(|other| other.name == claim.name)
    });
    let mut fits = Fit::Now;
    for state in users.map(|other| session.state(other)) {
        if state.charged_node().is_some() || matches!(state, PodState::Stuck(_)) {
            return Err(FitError::Volume(VolumeFitError::ClaimInUse(claim.name.clone())));
        }
        if state.nodes_with_presence().next().is_some() {
            fits = Fit::Later;
        }
    }
    Ok(fits)
}
