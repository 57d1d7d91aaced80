//! Devices that several nodes can use: a pod goes where those that its claims have can be used, or
//! where enough that are free can. Which a claim gets is settled for all pods together
//! ([`chosen_devices`]), so that no two claims get the same. Nobody is evicted for them.

use std::{cell::RefCell, collections::BTreeMap};

use super::volumes::{
    Chosen, is_within,
    matching::{Matching, Solution},
};
use crate::{
    decision::{DeviceMisfit, Misfit},
    framework::{DependsOn, Filter, NodeFilter},
    model::{DeviceClaim, DeviceReach, DeviceWish, Name, Node, PodId},
    session::{Fits, Session},
};

/// Nodes from which devices of several nodes can be used.
#[derive(Debug)]
pub(super) struct WideDevices;

/// What pods that get these nodes get for these wishes of their claims. Wishes that get nothing are
/// left out; there are none where the nodes are those of a plan.
pub fn chosen_devices<'s>(
    places: impl Iterator<Item = (&'s [DeviceWish], &'s Node)>,
) -> BTreeMap<Name, Name> {
    let mut matching = Matching::default();
    for (wishes, node) in places {
        matching.add_wishes(wishes, node);
    }
    let chosen = matching.solve().named().into_iter();
    let device = |(wish, chosen)| match chosen {
        Chosen::Volume(device) => Some((wish, device)),
        Chosen::Made => None,
    };
    chosen.filter_map(device).collect()
}

impl Filter for WideDevices {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn keeps_apart(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).claims;
        if claims.iter().all(|claim| claim.reach == DeviceReach::OneNode) {
            return None;
        }
        let (given, matching) = given(session, pod);
        // Nodes that can use the same devices are alike.
        let known: RefCell<BTreeMap<Vec<bool>, bool>> = RefCell::default();
        Some(Box::new(move |node| {
            let node = session.node(node);
            claims.iter().try_for_each(|claim| is_within_reach(claim, node))?;
            let has_enough = || {
                let mut alone = Matching::default();
                alone.add_devices(claims, node);
                given.takes(&matching, alone)
            };
            if *known.borrow_mut().entry(usable(claims, node)).or_insert_with(has_enough) {
                return Ok(Fits::Now);
            }
            Err(Misfit::Devices(DeviceMisfit::NoneFree))
        }))
    }
}

/// What others get who are, or were promised room, on nodes.
fn given<'s>(session: &'s Session<'_>, pod: PodId) -> (Solution<'s>, Matching<'s>) {
    let mut matching = Matching::default();
    for other in session.claiming_pods().iter().filter(|other| **other != pod) {
        if let Some(node) = session.state(*other).charged_on() {
            matching.add_devices(&session.shape_of(*other).claims, session.node(node));
        }
    }
    (matching.solve(), matching)
}

/// Which of the devices that the claims may get the node can use.
fn usable(claims: &[DeviceClaim], node: &Node) -> Vec<bool> {
    let wishes = claims.iter().flat_map(|claim| claim.reach.wishes());
    let devices = wishes.flat_map(|wish| &wish.devices);
    devices.map(|device| is_within(&device.reach, node)).collect()
}

/// Devices that the claim has can be used from the node.
fn is_within_reach(claim: &DeviceClaim, node: &Node) -> Result<(), Misfit> {
    let DeviceReach::Had(Some(terms)) = &claim.reach else { return Ok(()) };
    if terms.iter().any(|term| term.matches(node)) {
        return Ok(());
    }
    Err(Misfit::Devices(DeviceMisfit::Elsewhere(Name::clone(&claim.name))))
}
