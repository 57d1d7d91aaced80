//! Whether devices of a node can be allocated to all claims of a pod together, beside those of
//! other pods that are placed in the same cycle. Filters that count devices come first; this
//! one applies where counts are not exact. See [`crate::devices`].

mod open_claims;

use std::collections::BTreeSet;

use crate::{
    devices::{
        AllocationFailure, AllocationProblem, AvailableDevices, PlacedClaim, allocate_claims,
    },
    framework::{Filter, Fit, NodeFilter, ResultInputs, Session},
    model::{ClaimRequests, Name, NodeId, PodId},
    reason::{DeviceFitError, FitError, NoAllocationCause},
};
use open_claims::{DeviceAvailability, OpenClaims};

/// Maximum number of alternatives of a request.
const ALTERNATIVES_MAX: i64 = 8;

/// Rejects nodes whose devices cannot satisfy all claims of the pod even if all devices were free.
/// This is known before any pod is evicted.
#[derive(Debug)]
pub(super) struct SuitableDevices;

/// Rejects nodes on which the devices cannot be allocated to all claims together. The variants
/// differ in the devices that a pod may wait for.
#[derive(Debug)]
pub(super) enum DeviceAllocation {
    /// A pod may wait for devices of terminating pods, as in KAI.
    WithReleasedDevices,
    /// A pod may wait for no device, as in kube-scheduler, which evicts no pods for devices.
    OfFreeDevices,
}

impl Filter for SuitableDevices {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims: Vec<&ClaimRequests> = session.shape_of(pod).claim_requests().collect();
        let needs_search =
            claims.len() > 1 && claims.iter().any(|requests| requests.needs_allocation_search());
        if claims.is_empty() || !session.needs_device_search() {
            return None;
        }
        Some(Box::new(move |node| {
            let node = session.node(node);
            if node.devices.is_empty() || !(needs_search || node.needs_device_search()) {
                return Ok(Fit::Now);
            }
            let claims: Vec<PlacedClaim<'_>> =
                session.node_claims_on(pod, node).map(|(_, requests)| requests.into()).collect();
            let devices = node.devices.iter().map(|device| &*device.properties);
            let devices = AvailableDevices::all_free(devices, &node.device_counters);
            let problem = AllocationProblem::new(&claims, &devices).0;
            let outcome = session.allocation_outcome(problem);
            outcome.map(|()| Fit::Now).map_err(|failure| match failure {
                AllocationFailure::Impossible if may_be_multi_node(session, pod) => {
                    FitError::Devices(DeviceFitError::NoReachableDevice)
                }
                AllocationFailure::Impossible => {
                    no_allocation_error(session, pod, NoAllocationCause::UnsuitableDevices)
                }
                AllocationFailure::SearchLimit => {
                    no_allocation_error(session, pod, NoAllocationCause::SearchLimit)
                }
            })
        }))
    }
}

impl Filter for DeviceAllocation {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn rejects_for_other_pods(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        if !session.needs_device_search() || session.node_local_claims_of(pod).next().is_none() {
            return None;
        }
        let may_wait = matches!(self, Self::WithReleasedDevices);
        Some(Box::new(move |node| {
            let fit = fit_devices(session, pod, node)?;
            if fit == Fit::Now || may_wait {
                return Ok(fit);
            }
            Err(no_allocation_error(session, pod, NoAllocationCause::DevicesInUse))
        }))
    }
}

fn fit_devices(session: &Session<'_>, pod: PodId, node: NodeId) -> Result<Fit, FitError> {
    let open = OpenClaims::new(session, pod, node);
    if !open.need_search() {
        return Ok(Fit::Now);
    }
    match open.outcome(|when| when != DeviceAvailability::Never) {
        Ok(()) => {}
        Err(AllocationFailure::SearchLimit) => {
            return Err(no_allocation_error(session, pod, NoAllocationCause::SearchLimit));
        }
        // No eviction frees devices that several nodes can use.
        Err(AllocationFailure::Impossible)
            if may_be_multi_node(session, pod) && open.outcome(|_| true).is_err() =>
        {
            return Err(FitError::Devices(DeviceFitError::NoReachableDevice));
        }
        Err(AllocationFailure::Impossible) => {
            return Err(no_allocation_error(session, pod, NoAllocationCause::DevicesInUse));
        }
    }
    Ok(if open.outcome_now().is_ok() { Fit::Now } else { Fit::Later })
}

/// Whether a claim of the pod may get devices that several nodes can use.
fn may_be_multi_node(session: &Session<'_>, pod: PodId) -> bool {
    session.shape_of(pod).claims.iter().any(|claim| claim.reach.is_pending())
}

/// The preference of the alternatives (`firstAvailable`) that the pod's claims get on the node, summed:
/// the first alternative of a request counts as [`ALTERNATIVES_MAX`], each later one as one less.
pub(super) fn alternatives_preference(session: &Session<'_>, pod: PodId, node_id: NodeId) -> i64 {
    let node = session.node(node_id);
    let open = OpenClaims::new(session, pod, node_id);
    let devices = open.devices(|when| when == DeviceAvailability::Now);
    let Ok(allocated) = allocate_claims(&open.placed(|_| true), &devices) else { return 0 };
    let is_own = |claim: &Name| session.node_claims_on(pod, node).any(|(name, _)| name == claim);
    let own = open.claims().iter().zip(&allocated).filter(|(claim, _)| is_own(claim.name));
    let names = own.flat_map(|(claim, devices)| {
        let names: BTreeSet<&Name> = devices.iter().map(|device| &device.request.name).collect();
        names.into_iter().filter_map(|name| alternative_index(claim.requests, name))
    });
    names.map(|index| ALTERNATIVES_MAX - i64::try_from(index).unwrap_or(ALTERNATIVES_MAX)).sum()
}

/// The position of an alternative (`request/alternative`) among those of its request.
fn alternative_index(requests: &ClaimRequests, name: &Name) -> Option<usize> {
    let (request, _) = name.split_once('/')?;
    let is_of_request =
        |other: &&Name| other.split_once('/').is_some_and(|(of_request, _)| of_request == request);
    let all = requests.alternatives.iter().flat_map(|alternative| &alternative.requests);
    let mut known: Vec<&Name> = Vec::new();
    for other in all.map(|request| &request.name).filter(is_of_request) {
        if !known.contains(&other) {
            known.push(other);
        }
    }
    known.into_iter().position(|other| other == name)
}

fn no_allocation_error(session: &Session<'_>, pod: PodId, cause: NoAllocationCause) -> FitError {
    let names: Vec<&str> = session.node_local_claims_of(pod).map(|(name, _)| &**name).collect();
    let claims = match names.as_slice() {
        [only] => format!("claim {only}"),
        several => format!("claims {} together", several.join(", ")),
    };
    let claims = claims.into();
    FitError::Devices(DeviceFitError::NoAllocation { claims, cause })
}
