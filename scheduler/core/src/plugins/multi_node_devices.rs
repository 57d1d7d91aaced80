//! Devices that several nodes can use: a pod fits on nodes that can use the allocated devices of
//! its claims, or enough unallocated ones. Devices are assigned to claims for all pods together
//! ([`assign_devices`]), so that no two claims get the same device. No pod is evicted for them.

use std::{cell::RefCell, collections::BTreeMap};

use super::volumes::{
    VolumeChoice, can_reach,
    matching::{VolumeAssignment, VolumeMatching},
};
use crate::{
    framework::{Filter, Fit, NodeFilter, ResultInputs, Session},
    model::{DeviceClaim, DeviceReach, DeviceRequest, Name, Node, PodId},
    reason::{DeviceFitError, FitError},
};

/// Rejects nodes that cannot use the multi-node devices.
#[derive(Debug)]
pub(super) struct MultiNodeDevices;

/// Assigns a device to each request of pods on these nodes. Requests without a device are absent;
/// with the nodes of a plan there are none.
pub fn assign_devices<'s>(
    pods_with_nodes: impl Iterator<Item = (&'s [DeviceRequest], &'s Node)>,
) -> BTreeMap<Name, Name> {
    let mut matching = VolumeMatching::default();
    for (requests, node) in pods_with_nodes {
        matching.add_wishes(requests, node);
    }
    let choices = matching.solve().by_claim().into_iter();
    let device = |(request, choices)| match choices {
        VolumeChoice::Existing(device) => Some((request, device)),
        VolumeChoice::Provisioned => None,
    };
    choices.filter_map(device).collect()
}

impl Filter for MultiNodeDevices {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn is_anti_affinity(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).claims;
        if claims.iter().all(|claim| claim.reach == DeviceReach::NodeLocal) {
            return None;
        }
        let (assigned, matching) = assigned_devices(session, pod);
        // Nodes that can use the same devices have the same result.
        let known: RefCell<BTreeMap<Vec<bool>, bool>> = RefCell::default();
        Some(Box::new(move |node| {
            let node = session.node(node);
            claims.iter().try_for_each(|claim| check_reach(claim, node))?;
            let has_enough = || {
                let mut added = VolumeMatching::default();
                added.add_devices(claims, node);
                assigned.can_add(&matching, added)
            };
            if *known.borrow_mut().entry(usable_devices(claims, node)).or_insert_with(has_enough) {
                return Ok(Fit::Now);
            }
            Err(FitError::Devices(DeviceFitError::NoReachableDevice))
        }))
    }
}

/// The devices assigned to other pods, allocated or pipelined.
fn assigned_devices<'s>(
    session: &'s Session<'_>,
    pod: PodId,
) -> (VolumeAssignment<'s>, VolumeMatching<'s>) {
    let mut matching = VolumeMatching::default();
    for other in session.pods_with_claims().iter().filter(|other| **other != pod) {
        if let Some(node) = session.state(*other).charged_node() {
            matching.add_devices(&session.shape_of(*other).claims, session.node(node));
        }
    }
    (matching.solve(), matching)
}

/// Whether the node can use each device that the claims may get.
fn usable_devices(claims: &[DeviceClaim], node: &Node) -> Vec<bool> {
    let requests = claims.iter().flat_map(|claim| claim.reach.device_requests());
    let devices = requests.flat_map(|request| &request.devices);
    devices.map(|device| can_reach(&device.reach, node)).collect()
}

/// Checks that the node can use the allocated devices of the claim.
fn check_reach(claim: &DeviceClaim, node: &Node) -> Result<(), FitError> {
    let DeviceReach::Allocated(Some(terms)) = &claim.reach else { return Ok(()) };
    if terms.iter().any(|term| term.matches(node)) {
        return Ok(());
    }
    Err(FitError::Devices(DeviceFitError::ClaimOnOtherNode(Name::clone(&claim.name))))
}
