//! Claims on devices: where one is used all its users run, no more than it is for, and claims on
//! GPUs that pods name belong to a queue.

use crate::{
    decision::Misfit,
    framework::{DependsOn, Filter, NodeFilter},
    model::{DeviceClaim, Name, NodeId, PodId},
    session::{Fits, PodState, Session, Stays},
};

/// Looks at who else uses the pod's claims.
#[derive(Debug)]
pub(super) struct ResourceClaims;

/// GPUs of a node are given to claims, or by a device plugin; never both ways.
#[derive(Debug)]
pub(super) struct ClaimedGpus;

impl Filter for ResourceClaims {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn keeps_apart(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).claims;
        if claims.is_empty() {
            return None;
        }
        let misfit = claims.iter().find_map(|claim| foreign(session, pod, claim));
        let used: Vec<(&DeviceClaim, Users)> =
            claims.iter().map(|claim| (claim, Users::of(session, pod, claim))).collect();
        Some(Box::new(move |node| {
            if let Some(misfit) = &misfit {
                return Err(misfit.clone());
            }
            let name = &session.node(node).name;
            used.iter().try_fold(Fits::Now, |fits, (claim, users)| {
                Ok(fits.max(fits_with(claim, users, (node, name))?))
            })
        }))
    }
}

/// A claim on GPUs that the pod's queue may not use.
fn foreign(session: &Session<'_>, pod: PodId, claim: &DeviceClaim) -> Option<Misfit> {
    let group = session.group(session.pod(pod).group?);
    let queue = group.known_queue()?;
    let queue = &session.snapshot.queues[queue.0 as usize].name;
    let is_ours = claim.queue.as_ref() == Some(queue);
    (claim.is_gpu() && !claim.is_own && !is_ours).then(|| Misfit::ClaimOfQueue {
        claim: claim.name.clone(),
        queue: queue.clone(),
        label: claim.queue.clone(),
    })
}

/// Where the users of a claim are, or will be: others than the pod, and itself where it moves away.
struct Users {
    states: Vec<PodState>,
    /// One that had it has left its node since.
    has_left: bool,
}

impl Users {
    fn of(session: &Session<'_>, pod: PodId, claim: &DeviceClaim) -> Self {
        let has_it = |user: &&PodId| {
            session.shape_of(**user).claims.iter().any(|theirs| theirs.name == claim.name)
        };
        let users = session.claiming_pods().iter().filter(has_it);
        let states: Vec<(PodId, PodState)> =
            users.map(|user| (*user, session.state(*user))).collect();
        let left = |user: PodId| session.pod(user).node.is_some();
        let has_left =
            states.iter().any(|(user, state)| *state == PodState::Pending && left(*user));
        let counts = |(user, state): &(PodId, PodState)| {
            *user != pod || matches!(state, PodState::Releasing(_))
        };
        Self {
            states: states.into_iter().filter(counts).map(|(_, state)| state).collect(),
            has_left,
        }
    }
}

/// It is allocated on one node as long as anybody has it, who was asked to leave included; unless
/// its devices are of several nodes.
fn fits_with(
    claim: &DeviceClaim,
    Users { states, has_left }: &Users,
    (node, name): (NodeId, &Name),
) -> Result<Fits, Misfit> {
    let stay = states.iter().filter_map(|user| user.charged_on());
    let leave_elsewhere = states.iter().flat_map(|user| user.places());
    let leave_elsewhere =
        leave_elsewhere.filter(|(other, stays)| *other != node && *stays == Stays::No);
    let is_stuck = |user: &PodState| matches!(user, PodState::Stuck(other) if *other != node);
    let is_elsewhere = claim.allocated_on.as_ref().is_some_and(|other| other != name);
    let leave = leave_elsewhere.count() > 0;
    let is_freed = (leave || *has_left) && claim.reserved_for_others == 0;
    let used_elsewhere = stay.clone().any(|other| other != node) || states.iter().any(is_stuck);
    if claim.is_of_one_node() && (used_elsewhere || (is_elsewhere && !is_freed)) {
        return Err(Misfit::ClaimElsewhere(claim.name.clone()));
    }
    let count = u32::try_from(stay.count()).unwrap_or(u32::MAX);
    if count.saturating_add(claim.reserved_for_others) >= DeviceClaim::USERS_MAX {
        return Err(Misfit::ClaimFull(claim.name.clone()));
    }
    Ok(if claim.is_of_one_node() && is_freed && leave { Fits::Later } else { Fits::Now })
}

impl Filter for ClaimedGpus {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        let (plain, claimed) = (shape.asks_plain_gpus(), shape.asks_claimed_gpus());
        (plain || claimed).then(|| {
            let filter = move |node| match session.node(node).gpus_by_claim {
                true if plain => Err(Misfit::GpusByClaim),
                false if claimed => Err(Misfit::GpusWithoutClaim),
                true | false => Ok(Fits::Now),
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

    /// Does a pod fit here, and there, with a claim that others use so?
    fn fits(states: &[PodState], change: impl Fn(&mut DeviceClaim)) -> [Result<Fits, Misfit>; 2] {
        fits_after(states, false, change)
    }

    /// The same where one that had the claim may have left.
    fn fits_after(
        states: &[PodState],
        has_left: bool,
        change: impl Fn(&mut DeviceClaim),
    ) -> [Result<Fits, Misfit>; 2] {
        let mut claim = DeviceClaim {
            name: "x".into(),
            devices: Resources::default(),
            every: BTreeMap::new(),
            is_own: false,
            queue: None,
            allocated_on: None,
            besides: None,
            reserved_for_others: 0,
            reach: DeviceReach::OneNode,
        };
        change(&mut claim);
        let users = Users { states: states.to_vec(), has_left };
        [(HERE, "here"), (THERE, "there")]
            .map(|(node, name)| fits_with(&claim, &users, (node, &name.into())))
    }

    fn elsewhere() -> Result<Fits, Misfit> {
        Err(Misfit::ClaimElsewhere("x".into()))
    }

    #[test]
    fn a_claim_is_where_it_is_used_or_allocated_until_all_who_have_it_leave() {
        let used = |user: PodState| fits(&[user], |_| {});
        assert_eq!(fits(&[], |_| {}), [Ok(Fits::Now), Ok(Fits::Now)]);
        assert_eq!(used(PodState::Pending), [Ok(Fits::Now), Ok(Fits::Now)]);
        assert_eq!(used(PodState::Holding(HERE)), [Ok(Fits::Now), elsewhere()]);
        assert_eq!(used(PodState::Promised(HERE)), [Ok(Fits::Now), elsewhere()]);
        assert_eq!(used(PodState::Stuck(HERE)), [Ok(Fits::Now), elsewhere()]);
        assert_eq!(used(PodState::Releasing(HERE)), [Ok(Fits::Now), Ok(Fits::Later)]);
        let moves = PodState::Moving { from: HERE, to: THERE };
        assert_eq!(used(moves), [elsewhere(), Ok(Fits::Later)]);
        let both = [PodState::Releasing(HERE), PodState::Holding(HERE)];
        assert_eq!(fits(&both, |_| {}), [Ok(Fits::Now), elsewhere()]);
    }

    #[test]
    fn an_allocated_claim_goes_elsewhere_when_it_is_reserved_for_nobody_any_more() {
        let allocated = |others| {
            move |claim: &mut DeviceClaim| {
                claim.allocated_on = Some("here".into());
                claim.reserved_for_others = others;
            }
        };
        assert_eq!(fits(&[], allocated(0)), [Ok(Fits::Now), elsewhere()]);
        let leaves = [PodState::Releasing(HERE)];
        assert_eq!(fits(&leaves, allocated(0)), [Ok(Fits::Now), Ok(Fits::Later)]);
        assert_eq!(fits(&leaves, allocated(1)), [Ok(Fits::Now), elsewhere()]);
        assert_eq!(fits_after(&[], true, allocated(0)), [Ok(Fits::Now), Ok(Fits::Now)]);
        assert_eq!(fits_after(&[], true, allocated(1)), [Ok(Fits::Now), elsewhere()]);
    }

    #[test]
    fn a_claim_has_so_many_users_at_most() {
        let reserved = |others| move |claim: &mut DeviceClaim| claim.reserved_for_others = others;
        let (one, leaves) = ([PodState::Holding(HERE)], [PodState::Releasing(HERE)]);
        assert_eq!(fits(&[], reserved(255))[0], Ok(Fits::Now));
        assert_eq!(fits(&[], reserved(256))[0], Err(Misfit::ClaimFull("x".into())));
        assert_eq!(fits(&one, reserved(254))[0], Ok(Fits::Now));
        assert_eq!(fits(&one, reserved(255))[0], Err(Misfit::ClaimFull("x".into())));
        assert_eq!(fits(&leaves, reserved(255))[0], Ok(Fits::Now));
    }
}
