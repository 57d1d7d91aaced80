//! `DynamicResources` (kube-scheduler): a pod goes where its claims have their devices, or where
//! devices that no claim has are enough for those that have none. Nobody is evicted for devices; a
//! claim that nobody uses is given back where that lets a pod go elsewhere. Devices that a pod
//! counts on which waits for its victims are kept for it, where kube-scheduler gives them to
//! whoever comes first.

use crate::{
    decision::{Deallocation, DeviceMisfit, EvenWhenEmpty, Misfit, Misfits, Reason},
    framework::{DependsOn, Filter, NodeFilter, PostFilter},
    model::{DeviceClaim, DeviceReach, Name, NodeId, PodId},
    resources::Resources,
    session::{Fits, Session},
};

/// Looks on which node devices are, or can be had.
#[derive(Debug)]
pub(super) struct DynamicResources;

/// Looks whether the pod may use its claims at all. No node cures that, so it is asked first.
#[derive(Debug)]
pub(super) struct ClaimUsers;

/// A claim, and the node where it has its devices.
struct Placed<'a> {
    claim: &'a DeviceClaim,
    /// By its name: a node may be gone.
    on: Option<&'a Name>,
}

impl Filter for ClaimUsers {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let is_full = |claim: &&DeviceClaim| {
            let users = users(session, pod, claim).count();
            let users = u32::try_from(users).unwrap_or(u32::MAX);
            users.saturating_add(claim.reserved_for_others) >= DeviceClaim::USERS_MAX
        };
        let full = session.shape_of(pod).claims.iter().find(is_full)?;
        let misfit = Misfit::Devices(DeviceMisfit::InUse(Name::clone(&full.name)));
        Some(Box::new(move |_| Err(misfit.clone())))
    }
}

impl Filter for DynamicResources {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).claims;
        if claims.is_empty() {
            return None;
        }
        let placed: Vec<Placed<'_>> =
            claims.iter().map(|claim| Placed::of(session, pod, claim)).collect();
        Some(Box::new(move |node| fits(session, node, &placed).map_err(Misfit::Devices)))
    }
}

fn fits(session: &Session<'_>, node: NodeId, claims: &[Placed<'_>]) -> Result<Fits, DeviceMisfit> {
    let (room, of) = (session.room(node), session.node(node));
    let mut wanted = Resources::default();
    for without in claims.iter().filter(|placed| placed.on.is_none()) {
        wanted.add(&without.claim.devices_on(of));
    }
    if !wanted.fits_in(&room.idle) || !wanted.fits_in(&room.free_later()) {
        let never = wanted.short_in(&of.room());
        return Err(if never.is_empty() {
            let now = wanted.short_in(&room.free_later());
            DeviceMisfit::TooFew { of: now, even_when_empty: EvenWhenEmpty::No }
        } else {
            DeviceMisfit::TooFew { of: never, even_when_empty: EvenWhenEmpty::Yes }
        });
    }
    let elsewhere = claims.iter().find(|placed| placed.on.is_some_and(|on| *on != of.name));
    match elsewhere {
        Some(placed) => Err(DeviceMisfit::Elsewhere(Name::clone(&placed.claim.name))),
        None => Ok(Fits::Now),
    }
}

impl<'a> Placed<'a> {
    /// It keeps its devices while anybody has it, who leaves included.
    fn of(session: &'a Session<'_>, pod: PodId, claim: &'a DeviceClaim) -> Self {
        let used_on = || Some(&session.node(users(session, pod, claim).next()?).name);
        let on = claim.allocated_on.as_ref().or_else(used_on).filter(|_| claim.is_of_one_node());
        Self { claim, on }
    }
}

/// The nodes of those who have the claim, or were promised room with it.
fn users(session: &Session<'_>, pod: PodId, claim: &DeviceClaim) -> impl Iterator<Item = NodeId> {
    let others = session.claiming_pods().iter().filter(move |other| **other != pod);
    let others = others.filter(|other| {
        session.shape_of(**other).claims.iter().any(|theirs| theirs.name == claim.name)
    });
    others.filter_map(|other| Some(session.state(*other).places().next()?.0))
}

impl PostFilter for DynamicResources {
    fn post_filter(&self, session: &mut Session<'_>, pod: PodId, reason: Reason) -> Reason {
        let Reason::Unschedulable { misfits, preemption, .. } = reason else { return reason };
        let deallocation = deallocation(session, pod, &misfits);
        Reason::Unschedulable { misfits, deallocation, preemption }
    }
}

/// The claim to be given back: it kept the pod off a node, and nobody uses it.
pub(crate) fn deallocation(session: &Session<'_>, pod: PodId, misfits: &Misfits) -> Deallocation {
    let claims = &session.shape_of(pod).claims;
    if claims.is_empty() {
        return Deallocation::NoClaims;
    }
    let is_idle = |claim: &&DeviceClaim| {
        let elsewhere = Misfit::Devices(DeviceMisfit::Elsewhere(Name::clone(&claim.name)));
        misfits.counts.keys().any(|refusal| refusal.first == elsewhere)
            && (claim.allocated_on.is_some() || matches!(claim.reach, DeviceReach::Had(_)))
            && claim.reserved_for_others == 0
            && users(session, pod, claim).next().is_none()
    };
    match claims.iter().find(is_idle) {
        Some(claim) => Deallocation::Of(Name::clone(&claim.name)),
        None => Deallocation::NothingIdle,
    }
}
