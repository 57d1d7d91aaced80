//! `DynamicResources` (kube-scheduler): a pod fits on the node where its claims are allocated, or
//! where unallocated devices suffice for its unallocated claims. No pod is evicted for devices; an
//! unused claim is deallocated if that lets a pod go to another node. Difference from
//! kube-scheduler: devices for a nominated pod are kept for it; kube-scheduler gives them to the
//! first pod that comes.

use super::device_allocation::alternatives_preference;
use crate::{
    framework::{
        Filter, Fit, NodeFilter, NodeScore, PostFilter, ResultInputs, Score, Session, Statement,
    },
    model::{DeviceClaim, DeviceReach, Name, NodeId, PodId},
    reason::{DeallocationOutcome, DeviceFitError, EvenWhenEmpty, FitError, FitErrors, Reason},
    resources::Resources,
};

/// Plugin like kube-scheduler's `DynamicResources`: checks whether the pod's device claims are, or
/// can be, allocated on the node.
#[derive(Debug)]
pub(super) struct DynamicResources;

/// Checks whether the pod may use its device claims on any node. No node resolves a failure, so
/// this filter comes first.
#[derive(Debug)]
pub(super) struct ClaimUsers;

/// A device claim with the node on which it is allocated.
struct LocatedClaim<'a> {
    claim: &'a DeviceClaim,
    /// Name of the node, which may have been deleted; `None`: the claim is not allocated.
    node: Option<&'a Name>,
}

impl Filter for ClaimUsers {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let is_full = |claim: &&DeviceClaim| {
            let users = nodes_of_other_users(session, pod, claim).count();
            let users = u32::try_from(users).unwrap_or(u32::MAX);
            users.saturating_add(claim.reserved_for_others) >= DeviceClaim::USERS_MAX
        };
        let full = session.shape_of(pod).claims.iter().find(is_full)?;
        let error = FitError::Devices(DeviceFitError::ClaimUsersExhausted(Name::clone(&full.name)));
        Some(Box::new(move |_| Err(error.clone())))
    }
}

impl Filter for DynamicResources {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).claims;
        if claims.is_empty() {
            return None;
        }
        let placed: Vec<LocatedClaim<'_>> =
            claims.iter().map(|claim| LocatedClaim::new(session, pod, claim)).collect();
        Some(Box::new(move |node| fit_claims(session, node, &placed).map_err(FitError::Devices)))
    }
}

fn fit_claims(
    session: &Session<'_>,
    node: NodeId,
    claims: &[LocatedClaim<'_>],
) -> Result<Fit, DeviceFitError> {
    let (info, spec) = (session.node_info(node), session.node(node));
    let mut requested = Resources::default();
    for unallocated in claims.iter().filter(|placed| placed.node.is_none()) {
        requested.add(&unallocated.claim.devices_on(spec));
    }
    if !requested.fits_in(&info.idle) || !requested.fits_in(&info.free_after_release()) {
        let never = requested.shortage_in(&spec.capacity_when_empty());
        return Err(if never.is_empty() {
            let now = requested.shortage_in(&info.free_after_release());
            DeviceFitError::InsufficientDevices {
                shortage: now,
                even_when_empty: EvenWhenEmpty::No,
            }
        } else {
            DeviceFitError::InsufficientDevices {
                shortage: never,
                even_when_empty: EvenWhenEmpty::Yes,
            }
        });
    }
    let on_other_node = claims.iter().find(|placed| placed.node.is_some_and(|on| *on != spec.name));
    match on_other_node {
        Some(placed) => Err(DeviceFitError::ClaimOnOtherNode(Name::clone(&placed.claim.name))),
        None => Ok(Fit::Now),
    }
}

impl<'a> LocatedClaim<'a> {
    /// Finds the node of a claim. A claim stays allocated as long as any pod uses it, even a
    /// terminating one.
    fn new(session: &'a Session<'_>, pod: PodId, claim: &'a DeviceClaim) -> Self {
        let used_on =
            || Some(&session.node(nodes_of_other_users(session, pod, claim).next()?).name);
        let node = claim.allocated_on.as_ref().or_else(used_on).filter(|_| claim.is_node_local());
        Self { claim, node }
    }
}

/// Nodes of other pods that use the claim or are pipelined with it.
fn nodes_of_other_users(
    session: &Session<'_>,
    pod: PodId,
    claim: &DeviceClaim,
) -> impl Iterator<Item = NodeId> {
    let others = session.pods_with_claims().iter().filter(move |other| **other != pod);
    let others = others.filter(|other| {
        session.shape_of(**other).claims.iter().any(|other_claim| other_claim.name == claim.name)
    });
    others.filter_map(|other| Some(session.state(*other).nodes_with_presence().next()?.0))
}

/// Prefers nodes where claims get the alternatives that they name first (`firstAvailable`).
impl Score for DynamicResources {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        let mut claims = session.shape_of(pod).claim_requests();
        claims.any(|requests| requests.alternatives.len() > 1)
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        Box::new(move |node| alternatives_preference(session, pod, node))
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        let most = scores.iter().copied().max().unwrap_or(0);
        if most > 0 {
            for score in scores {
                *score = *score * 100 / most;
            }
        }
    }
}

impl PostFilter for DynamicResources {
    fn post_filter(&self, statement: &mut Statement<'_>, pod: PodId, reason: Reason) -> Reason {
        let Reason::Unschedulable { fit_errors, preemption, .. } = reason else { return reason };
        let deallocation = claim_to_deallocate(statement, pod, &fit_errors);
        Reason::Unschedulable { fit_errors, deallocation, preemption }
    }
}

/// The claim to deallocate so that the pod can run: an allocated claim that no pod uses and that
/// kept the pod from a node.
pub(crate) fn claim_to_deallocate(
    session: &Session<'_>,
    pod: PodId,
    fit_errors: &FitErrors,
) -> DeallocationOutcome {
    let claims = &session.shape_of(pod).claims;
    if claims.is_empty() {
        return DeallocationOutcome::NoClaims;
    }
    let is_idle = |claim: &&DeviceClaim| {
        let on_other_node =
            FitError::Devices(DeviceFitError::ClaimOnOtherNode(Name::clone(&claim.name)));
        fit_errors.refusals.keys().any(|refusal| refusal.first == on_other_node)
            && (claim.allocated_on.is_some() || matches!(claim.reach, DeviceReach::Allocated(_)))
            && claim.reserved_for_others == 0
            && nodes_of_other_users(session, pod, claim).next().is_none()
    };
    match claims.iter().find(is_idle) {
        Some(claim) => DeallocationOutcome::Deallocated(Name::clone(&claim.name)),
        None => DeallocationOutcome::NoUnusedClaim,
    }
}
