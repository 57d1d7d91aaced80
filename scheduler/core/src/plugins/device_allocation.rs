//! Whether devices of a node can be allocated to all claims of a pod together, beside those of
//! other pods that are placed there in the same cycle. Filters that count devices come first; this
//! one applies where counts are not exact. See [`crate::devices`].

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    devices::{AllocationFailure, AllocationProblem, AvailableDevices, allocate_claims},
    framework::{Filter, Fit, NodeFilter, PodState, ResultInputs, Session},
    model::{ClaimRequests, Name, Node, NodeDevice, NodeId, PodId},
    reason::{DeviceFitError, FitError, NoAllocationCause},
};

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

/// When the devices of an allocated claim are free for other claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceAvailability {
    /// The devices are free now, because all users of the claim are gone.
    Now,
    /// The devices will be free, because all users of the claim are terminating.
    Later,
    /// The devices stay in use, because a user of the claim stays.
    Never,
}

/// A claim that needs an allocation of devices on a node.
struct OpenClaim<'a> {
    name: &'a Name,
    requests: &'a ClaimRequests,
    /// Whether the pod of the claim waits for capacity that is being released.
    is_pipelined: bool,
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
            let claims: Vec<&ClaimRequests> =
                session.node_claims_on(pod, node).map(|(_, requests)| requests).collect();
            let devices = node.devices.iter().map(|device| &*device.properties);
            let devices = AvailableDevices::all_free(devices, &node.device_counters);
            let problem = AllocationProblem::new(&claims, &devices).0;
            let outcome = session.allocation_outcome(problem);
            outcome.map(|()| Fit::Now).map_err(|failure| {
                let cause = match failure {
                    AllocationFailure::Impossible => NoAllocationCause::UnsuitableDevices,
                    AllocationFailure::SearchLimit => NoAllocationCause::SearchLimit,
                };
                no_allocation_error(session, pod, cause)
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

fn fit_devices(session: &Session<'_>, pod: PodId, node_id: NodeId) -> Result<Fit, FitError> {
    let node = session.node(node_id);
    let claims = open_claims(session, pod, node_id);
    let needs_search = claims.iter().any(|claim| claim.requests.needs_allocation_search());
    let needs_search = needs_search || !claims.is_empty() && node.needs_device_search();
    if !needs_search || node.devices.is_empty() {
        return Ok(Fit::Now);
    }
    let shares = node.devices.iter().flat_map(|device| &device.shares);
    let holders = node.devices.iter().filter_map(|device| device.allocated_to.as_ref());
    let holders: BTreeMap<&Name, DeviceAvailability> = holders
        .chain(shares.map(|share| &share.claim))
        .map(|claim| (claim, device_availability(session, claim, node_id)))
        .collect();
    let can_allocate = |claims: &[&ClaimRequests], is_free: &dyn Fn(DeviceAvailability) -> bool| {
        let keeps = |claim: &Name| holders.get(claim).is_some_and(|when| !is_free(*when));
        let devices = AvailableDevices::new(&node.devices, &node.device_counters, keeps);
        session.allocation_outcome(AllocationProblem::new(claims, &devices).0)
    };
    let all: Vec<&ClaimRequests> = claims.iter().map(|claim| claim.requests).collect();
    if let Err(failure) = can_allocate(&all, &|when| when != DeviceAvailability::Never) {
        let cause = match failure {
            AllocationFailure::Impossible => NoAllocationCause::DevicesInUse,
            AllocationFailure::SearchLimit => NoAllocationCause::SearchLimit,
        };
        return Err(no_allocation_error(session, pod, cause));
    }
    let now = claims.iter().filter(|claim| !claim.is_pipelined).map(|claim| claim.requests);
    let now: Vec<&ClaimRequests> = now.collect();
    match can_allocate(&now, &|when| when == DeviceAvailability::Now) {
        Ok(()) => Ok(Fit::Now),
        Err(_) => Ok(Fit::Later),
    }
}

/// The preference of the alternatives (`firstAvailable`) that the pod's claims get on the node, summed:
/// the first alternative of a request counts as [`ALTERNATIVES_MAX`], each later one as one less.
pub(super) fn alternatives_preference(session: &Session<'_>, pod: PodId, node_id: NodeId) -> i64 {
    let node = session.node(node_id);
    let claims = open_claims(session, pod, node_id);
    let keeps =
        |claim: &Name| device_availability(session, claim, node_id) != DeviceAvailability::Now;
    let devices = AvailableDevices::new(&node.devices, &node.device_counters, keeps);
    let requests: Vec<&ClaimRequests> = claims.iter().map(|claim| claim.requests).collect();
    let Ok(allocated) = allocate_claims(&requests, &devices) else { return 0 };
    let is_own = |claim: &Name| session.node_claims_on(pod, node).any(|(name, _)| name == claim);
    let own = claims.iter().zip(&allocated).filter(|(claim, _)| is_own(claim.name));
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

/// The claims that need an allocation of devices on the node if the pod is placed there. The claims
/// of the pod come last.
fn open_claims<'a>(session: &'a Session<'_>, pod: PodId, node_id: NodeId) -> Vec<OpenClaim<'a>> {
    let staying = session.node_info(node_id).staying.iter().copied().filter(|other| *other != pod);
    let users = staying.map(|other| (other, session.state(other).is_pipelined()));
    let node = session.node(node_id);
    let mut open: Vec<OpenClaim<'a>> = Vec::new();
    for (user, is_pipelined) in users.chain([(pod, false)]) {
        for (name, requests) in session.node_claims_on(user, node) {
            if let Some(known) = open.iter_mut().find(|known| known.name == name) {
                known.is_pipelined &= is_pipelined;
            } else if !is_allocated(session, name, node, node_id) {
                open.push(OpenClaim { name, requests, is_pipelined });
            }
        }
    }
    open
}

/// Whether the claim has devices of the node allocated and keeps them.
fn is_allocated(session: &Session<'_>, claim: &Name, node: &Node, node_id: NodeId) -> bool {
    let has = |device: &NodeDevice| {
        device.allocated_to.as_ref() == Some(claim)
            || device.shares.iter().any(|share| share.claim == *claim)
    };
    node.devices.iter().any(has)
        && device_availability(session, claim, node_id) == DeviceAvailability::Never
}

/// When the devices of the node that are allocated to the claim are free for other claims. A claim
/// keeps its devices as long as one of its users stays.
fn device_availability(session: &Session<'_>, claim: &Name, node_id: NodeId) -> DeviceAvailability {
    let holders = session.claim_holders(claim).iter();
    let holders = holders.filter(|pod| session.pod(**pod).node == Some(node_id));
    let of_holder = |pod: &PodId| match session.state(*pod) {
        PodState::Allocated(node) | PodState::Stuck(node) if node == node_id => {
            DeviceAvailability::Never
        }
        PodState::Releasing(_) | PodState::Moving { .. } => DeviceAvailability::Later,
        PodState::Allocated(_)
        | PodState::Stuck(_)
        | PodState::Pipelined(_)
        | PodState::Pending
        | PodState::Gated
        | PodState::OnExcludedNode
        | PodState::OnMissingNode
        | PodState::Finished => DeviceAvailability::Now,
    };
    let rank = |availability: &DeviceAvailability| match availability {
        DeviceAvailability::Now => 0,
        DeviceAvailability::Later => 1,
        DeviceAvailability::Never => 2,
    };
    let is_deallocating = || {
        let mut unused = session.node(node_id).unused_claims.iter();
        unused.any(|unused| unused.name == *claim && unused.is_deallocating)
    };
    holders.map(of_holder).max_by_key(rank).unwrap_or_else(|| {
        if is_deallocating() { DeviceAvailability::Later } else { DeviceAvailability::Never }
    })
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
