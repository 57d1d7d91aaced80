//! Devices that several nodes can use: a pod fits on nodes that can use the allocated devices of
//! its claims, or enough unallocated ones. Devices are assigned to claims for all pods together
//! ([`assign_devices`]), so that no two claims get the same device. No pod is evicted for them.

use std::{cell::RefCell, collections::BTreeMap};

use super::volumes::{
    VolumeChoice, is_reachable_from,
    matching::{VolumeAssignment, VolumeMatching},
};
use crate::{
    framework::{Filter, Fit, NodeFilter, ResultInputs, Session},
    model::{DeviceClaim, DeviceReach, DeviceRequest, Name, Node, PodId},
    reason::{DeviceFitError, FitError},
};

/// Rejects nodes that cannot use the multi-node devices that the pod claims.
#[derive(Debug)]
pub(super) struct MultiNodeDevices;

/// Assigns a multi-node device to each such request of pods on these nodes. Requests for which no
/// device is left are absent; for pods that a plan places, none are.
pub fn assign_devices<'s>(
    pods_with_nodes: impl Iterator<Item = (&'s [DeviceRequest], &'s Node)>,
) -> BTreeMap<Name, Name> {
    let mut matching = VolumeMatching::default();
    for (requests, node) in pods_with_nodes {
        matching.add_device_requests(requests, node);
    }
    let choices = matching.assign_volumes().volumes_by_claim().into_iter();
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

    fn rejects_for_other_pods(&self) -> bool {
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
            claims.iter().try_for_each(|claim| check_device_reach(claim, node))?;
            let has_enough = || {
                let mut added = VolumeMatching::default();
                added.add_device_claims(claims, node);
                assigned.can_add(&matching, added)
            };
            if *known
                .borrow_mut()
                .entry(are_devices_usable(claims, node))
                .or_insert_with(has_enough)
            {
                return Ok(Fit::Now);
            }
            Err(FitError::Devices(DeviceFitError::NoReachableDevice))
        }))
    }
}

/// The multi-node devices assigned to other pods that are allocated or pipelined.
fn assigned_devices<'s>(
    session: &'s Session<'_>,
    pod: PodId,
) -> (VolumeAssignment<'s>, VolumeMatching<'s>) {
    let mut matching = VolumeMatching::default();
    for other in session.pods_with_claims().iter().filter(|other| **other != pod) {
        if let Some(node) = session.state(*other).charged_node() {
            matching.add_device_claims(&session.shape_of(*other).claims, session.node(node));
        }
    }
    (matching.assign_volumes(), matching)
}

/// For each device that the claims may get, whether the node can use it.
fn are_devices_usable(claims: &[DeviceClaim], node: &Node) -> Vec<bool> {
    let requests = claims.iter().flat_map(|claim| claim.reach.multi_node_requests());
    let devices = requests.flat_map(|request| &request.devices);
    devices.map(|device| is_reachable_from(&device.reach, node)).collect()
}

/// Checks that the node can use the devices that are allocated to the claim.
fn check_device_reach(claim: &DeviceClaim, node: &Node) -> Result<(), FitError> {
    let DeviceReach::Allocated(Some(terms)) = &claim.reach else { return Ok(()) };
    if terms.iter().any(|term| term.matches_node(node)) {
        return Ok(());
    }
    Err(FitError::Devices(DeviceFitError::ClaimOnOtherNode(Name::clone(&claim.name))))
}
