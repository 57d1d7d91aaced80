//! Claims on volumes, in four filters: claims that can be had nowhere; nodes from which bound
//! volumes can be used, and unbound ones that fit; how many a node takes; and who else wants them.
//! They are `VolumeBinding`, `VolumeZone`, `NodeVolumeLimits` and `VolumeRestrictions` of
//! kube-scheduler. Which volume a claim
//! gets is settled for all pods together ([`chosen_volumes`]), so that no two claims get the same.

mod limits;
pub(super) mod matching;

use crate::{
    decision::{Misfit, VolumeMisfit},
    framework::{DependsOn, Filter, NodeFilter},
    model::{LabelSelector, Made, Name, Node, PodId, VolumeAccess, VolumeClaim, VolumeReach},
    session::{Fits, PodState, Session},
};

pub(super) use limits::NodeVolumeLimits;
pub use matching::Chosen;
use matching::Matching;

/// Claims that can be had nowhere: nothing about nodes helps.
#[derive(Debug)]
pub(super) struct VolumeClaims;

/// Nodes from which the volumes can be used.
#[derive(Debug)]
pub(super) struct VolumeNodes;

/// Volumes that others have, or were just given.
#[derive(Debug)]
pub(super) struct VolumeBinding;

/// What the open claims of pods that get these nodes get: a volume each, or one that is to be made.
/// Claims that can get neither are left out; there are none where the nodes are those of a plan.
pub fn chosen_volumes<'s>(
    places: impl Iterator<Item = (&'s [VolumeClaim], &'s Node)>,
) -> std::collections::BTreeMap<Name, Chosen> {
    let mut matching = Matching::default();
    for (claims, node) in places {
        matching.add(claims, node);
    }
    matching.solve().named()
}

impl Filter for VolumeClaims {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let mut claims = session.shape_of(pod).volumes.iter();
        let misfit = claims.find_map(|claim| match &claim.access {
            VolumeAccess::Nowhere(problem) => {
                let (claim, problem) = (claim.name.clone(), problem.clone());
                Some(Misfit::Volume(VolumeMisfit::Nowhere { claim, problem }))
            }
            VolumeAccess::Bound(_) | VolumeAccess::Open { .. } => None,
        })?;
        Some(Box::new(move |_| Err(misfit.clone())))
    }
}

impl Filter for VolumeNodes {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).volumes;
        (!claims.is_empty()).then(|| {
            let filter = move |node| {
                let node = session.node(node);
                claims.iter().try_for_each(|claim| usable(claim, node)).map(|()| Fits::Now)
            };
            Box::new(filter) as NodeFilter<'a>
        })
    }
}

/// The claim's volume can be used from the node, or there is one for it that can.
fn usable(claim: &VolumeClaim, node: &Node) -> Result<(), Misfit> {
    match &claim.access {
        VolumeAccess::Bound(reach) if !selects(reach, node) => {
            Err(Misfit::Volume(VolumeMisfit::Elsewhere))
        }
        VolumeAccess::Bound(reach) if !is_in_zones(reach, node) => {
            Err(Misfit::Volume(VolumeMisfit::Zone))
        }
        VolumeAccess::Nowhere(_) | VolumeAccess::Bound(_) => Ok(()),
        VolumeAccess::Open { volumes, made } => {
            let made = made.as_ref().filter(|made| is_within(&made.reach, node));
            if volumes.iter().any(|volume| is_within(&volume.reach, node)) {
                return Ok(());
            }
            match made {
                None => Err(Misfit::Volume(VolumeMisfit::NoneToBind)),
                Some(made) if !has_storage(made, node) => {
                    Err(Misfit::Volume(VolumeMisfit::NoStorage))
                }
                Some(_) => Ok(()),
            }
        }
    }
}

/// The driver has enough left for the node, as far as it says.
fn has_storage(made: &Made, node: &Node) -> bool {
    let matches = |selector: &LabelSelector| {
        selector.requirements.iter().all(|one| one.holds(node.labels.get(&one.key)))
    };
    made.room.as_ref().is_none_or(|room| room.iter().any(matches))
}

pub(super) fn is_within(reach: &VolumeReach, node: &Node) -> bool {
    selects(reach, node) && is_in_zones(reach, node)
}

fn selects(reach: &VolumeReach, node: &Node) -> bool {
    let affinity = reach.affinity.as_ref();
    affinity.is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
}

/// Labels of before and of today mean the same; a node without any is everywhere.
fn is_in_zones(reach: &VolumeReach, node: &Node) -> bool {
    if VolumeClaim::ZONE_LABELS.iter().all(|label| !node.labels.contains_key(*label)) {
        return true;
    }
    reach.zones.iter().all(|(label, values)| {
        let alike = VolumeClaim::ZONE_LABELS.iter().filter(|other| {
            let last = |label: &str| label.rsplit_once('/').map(|(_, last)| last.to_owned());
            last(label) == last(other)
        });
        let alike = alike.filter_map(|other| node.labels.get(*other));
        let value = node.labels.get(label).or_else(|| alike.into_iter().next());
        value.is_some_and(|value| values.contains(value))
    })
}

impl Filter for VolumeBinding {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn keeps_apart(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        if !shape.volumes.iter().any(|claim| claim.is_exclusive || claim.is_open()) {
            return None;
        }
        let others = || session.volume_pods().iter().copied().filter(|other| *other != pod);
        let exclusive = shape.volumes.iter().filter(|claim| claim.is_exclusive);
        let free = exclusive.map(|claim| is_free(session, others(), claim));
        let free = free.collect::<Result<Vec<Fits>, Misfit>>();
        let mut matching = Matching::default();
        for other in others() {
            if let Some(node) = session.state(other).charged_on() {
                matching.add(&session.shape_of(other).volumes, session.node(node));
            }
        }
        let base = matching.solve();
        Some(Box::new(move |node| {
            let fits = free.clone()?.into_iter().max().unwrap_or(Fits::Now);
            let mut alone = Matching::default();
            alone.add(&shape.volumes, session.node(node));
            if base.takes(&matching, alone) {
                Ok(fits)
            } else {
                Err(Misfit::Volume(VolumeMisfit::NoneToBind))
            }
        }))
    }
}

/// Nobody else has the claim, or all who have it leave.
fn is_free(
    session: &Session<'_>,
    others: impl Iterator<Item = PodId>,
    claim: &VolumeClaim,
) -> Result<Fits, Misfit> {
    let users = others.filter(|other| {
        session.shape_of(*other).volumes.iter().any(|theirs| theirs.name == claim.name)
    });
    let mut fits = Fits::Now;
    for state in users.map(|other| session.state(other)) {
        if state.charged_on().is_some() || matches!(state, PodState::Stuck(_)) {
            return Err(Misfit::Volume(VolumeMisfit::InUse(claim.name.clone())));
        }
        if state.places().next().is_some() {
            fits = Fits::Later;
        }
    }
    Ok(fits)
}
