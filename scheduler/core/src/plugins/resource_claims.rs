//! Resource claims: all users of a claim run on its node, in at most the allowed number, and a
//! named claim on GPUs belongs to a queue.

use crate::{
    framework::{Filter, Fit, NodeFilter, NodePresence, PodState, ResultInputs, Session},
    model::{DeviceClaim, Name, NodeId, PodId},
    reason::FitError,
};

/// Checks that the other users of the pod's device claims permit the pod on the node.
#[derive(Debug)]
pub(super) struct ResourceClaims;

/// Rejects nodes that offer GPUs in another way than the pod requests them: GPUs of a node are
/// allocated either through DRA or by a device plugin, never both.
#[derive(Debug)]
pub(super) struct ClaimedGpus;

impl Filter for ResourceClaims {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn rejects_for_other_pods(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).claims;
        if claims.is_empty() {
            return None;
        }
        let error = claims.iter().find_map(|claim| claim_queue_error(session, pod, claim));
        let used: Vec<(&DeviceClaim, ClaimUserStates)> =
            claims.iter().map(|claim| (claim, ClaimUserStates::new(session, pod, claim))).collect();
        Some(Box::new(move |node| {
            if let Some(error) = &error {
                return Err(error.clone());
            }
            let name = &session.node(node).name;
            used.iter().try_fold(Fit::Now, |fits, (claim, users)| {
                Ok(fits.max(check_claim_users(claim, users, node, name)?))
            })
        }))
    }
}

/// The error if the pod's queue may not use this claim on GPUs.
fn claim_queue_error(session: &Session<'_>, pod: PodId, claim: &DeviceClaim) -> Option<FitError> {
    let group = session.group(session.pod(pod).group?);
    let queue = group.queue_id()?;
    let queue = &session.snapshot.queues[queue.0 as usize].name;
    let is_ours = claim.queue.as_ref() == Some(queue);
    (claim.claims_gpus() && !claim.is_pod_owned && !is_ours).then(|| FitError::ClaimQueueMismatch {
        claim: claim.name.clone(),
        queue: queue.clone(),
        label: claim.queue.clone(),
    })
}

/// The states of the pods that use a claim: other pods, and the pod itself if it moves away.
struct ClaimUserStates {
    states: Vec<PodState>,
    /// Whether a pod that used the claim has left its node.
    has_left: bool,
}

impl ClaimUserStates {
    fn new(session: &Session<'_>, pod: PodId, claim: &DeviceClaim) -> Self {
        let has_it = |user: &&PodId| {
            session.shape_of(**user).claims.iter().any(|other| other.name == claim.name)
        };
        let users = session.pods_with_claims().iter().filter(has_it);
        let states: Vec<(PodId, PodState)> =
            users.map(|user| (*user, session.state(*user))).collect();
        let had_node = |user: PodId| session.pod(user).node.is_some();
        let has_left =
            states.iter().any(|(user, state)| *state == PodState::Pending && had_node(*user));
        let counts = |(user, state): &(PodId, PodState)| {
            *user != pod || matches!(state, PodState::Releasing(_))
        };
        Self {
            states: states.into_iter().filter(counts).map(|(_, state)| state).collect(),
            has_left,
        }
    }
}

/// Whether a pod with the claim fits on the node. A node-local claim stays on its node as long as
/// any pod uses it, even a terminating one.
fn check_claim_users(
    claim: &DeviceClaim,
    ClaimUserStates { states, has_left }: &ClaimUserStates,
    node: NodeId,
    name: &Name,
) -> Result<Fit, FitError> {
    let stay = states.iter().filter_map(|user| user.charged_node());
    let leave_elsewhere = states.iter().flat_map(|user| user.nodes_with_presence());
    let leave_elsewhere =
        leave_elsewhere.filter(|(other, stays)| *other != node && *stays == NodePresence::Leaving);
    let is_stuck = |user: &PodState| matches!(user, PodState::Stuck(other) if *other != node);
    let is_elsewhere = claim.allocated_on.as_ref().is_some_and(|other| other != name);
    let leave = leave_elsewhere.count() > 0;
    let is_freed = (leave || *has_left) && claim.reserved_for_others == 0;
    let used_elsewhere = stay.clone().any(|other| other != node) || states.iter().any(is_stuck);
    if claim.is_node_local() && (used_elsewhere || (is_elsewhere && !is_freed)) {
        return Err(FitError::ClaimOnOtherNode(claim.name.clone()));
    }
    let count = u32::try_from(stay.count()).unwrap_or(u32::MAX);
    if count.saturating_add(claim.reserved_for_others) >= DeviceClaim::USERS_MAX {
        return Err(FitError::ClaimUsersExhausted(claim.name.clone()));
    }
    Ok(if claim.is_node_local() && is_freed && leave { Fit::Later } else { Fit::Now })
}

impl Filter for ClaimedGpus {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        let (plain, claimed) = (shape.requests_plain_gpus(), shape.requests_dra_gpus());
        (plain || claimed).then(|| {
            let filter = move |node| match session.node(node).gpus_via_dra {
                true if plain => Err(FitError::GpusOnlyViaDra),
                false if claimed => Err(FitError::GpusNotViaDra),
                true | false => Ok(Fit::Now),
            };
            Box::new(filter) as NodeFilter<'a>
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{model::DeviceReach, resources::Resources};

    const HERE: NodeId = NodeId(0);
    const THERE: NodeId = NodeId(1);

    /// The fit of a pod on nodes `HERE` and `THERE` with a claim whose users have these states.
    fn fits(states: &[PodState], change: impl Fn(&mut DeviceClaim)) -> [Result<Fit, FitError>; 2] {
        fits_after(states, false, change)
    }

    /// Like `fits`, where a pod that used the claim may have left.
    fn fits_after(
        states: &[PodState],
        has_left: bool,
        change: impl Fn(&mut DeviceClaim),
    ) -> [Result<Fit, FitError>; 2] {
        let mut claim = DeviceClaim {
            name: "x".into(),
            devices: Resources::default(),
            requests: None,
            allocate_all: BTreeMap::new(),
            plugin_resources: None,
            is_pod_owned: false,
            queue: None,
            allocated_on: None,
            also_counts_as: None,
            reserved_for_others: 0,
            reach: DeviceReach::NodeLocal,
        };
        change(&mut claim);
        let users = ClaimUserStates { states: states.to_vec(), has_left };
        [(HERE, "here"), (THERE, "there")]
            .map(|(node, name)| check_claim_users(&claim, &users, node, &name.into()))
    }

    fn on_other_node() -> Result<Fit, FitError> {
        Err(FitError::ClaimOnOtherNode("x".into()))
    }

    #[test]
    fn a_claim_stays_on_its_node_until_all_its_users_leave() {
        let used = |user: PodState| fits(&[user], |_| {});
        assert_eq!(fits(&[], |_| {}), [Ok(Fit::Now), Ok(Fit::Now)]);
        assert_eq!(used(PodState::Pending), [Ok(Fit::Now), Ok(Fit::Now)]);
        assert_eq!(used(PodState::Allocated(HERE)), [Ok(Fit::Now), on_other_node()]);
        assert_eq!(used(PodState::Pipelined(HERE)), [Ok(Fit::Now), on_other_node()]);
        assert_eq!(used(PodState::Stuck(HERE)), [Ok(Fit::Now), on_other_node()]);
        assert_eq!(used(PodState::Releasing(HERE)), [Ok(Fit::Now), Ok(Fit::Later)]);
        let moves = PodState::Moving { from: HERE, to: THERE };
        assert_eq!(used(moves), [on_other_node(), Ok(Fit::Later)]);
        let both = [PodState::Releasing(HERE), PodState::Allocated(HERE)];
        assert_eq!(fits(&both, |_| {}), [Ok(Fit::Now), on_other_node()]);
    }

    #[test]
    fn an_unreserved_claim_may_be_allocated_on_another_node() {
        let allocated = |others| {
            move |claim: &mut DeviceClaim| {
                claim.allocated_on = Some("here".into());
                claim.reserved_for_others = others;
            }
        };
        assert_eq!(fits(&[], allocated(0)), [Ok(Fit::Now), on_other_node()]);
        let leaves = [PodState::Releasing(HERE)];
        assert_eq!(fits(&leaves, allocated(0)), [Ok(Fit::Now), Ok(Fit::Later)]);
        assert_eq!(fits(&leaves, allocated(1)), [Ok(Fit::Now), on_other_node()]);
        assert_eq!(fits_after(&[], true, allocated(0)), [Ok(Fit::Now), Ok(Fit::Now)]);
        assert_eq!(fits_after(&[], true, allocated(1)), [Ok(Fit::Now), on_other_node()]);
    }

    #[test]
    fn the_number_of_users_of_a_claim_is_limited() {
        let reserved = |others| move |claim: &mut DeviceClaim| claim.reserved_for_others = others;
        let (one, leaves) = ([PodState::Allocated(HERE)], [PodState::Releasing(HERE)]);
        assert_eq!(fits(&[], reserved(255))[0], Ok(Fit::Now));
        assert_eq!(fits(&[], reserved(256))[0], Err(FitError::ClaimUsersExhausted("x".into())));
        assert_eq!(fits(&one, reserved(254))[0], Ok(Fit::Now));
        assert_eq!(fits(&one, reserved(255))[0], Err(FitError::ClaimUsersExhausted("x".into())));
        assert_eq!(fits(&leaves, reserved(255))[0], Ok(Fit::Now));
    }
}
