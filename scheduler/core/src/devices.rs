//! Allocates devices to claims that are allocated together: those of a pod, and those of all pods
//! that are placed on the node in the same cycle. Devices that several nodes can use are allocated
//! together for all of these nodes: a claim gets devices that all nodes of its pods can use.
//!
//! Counts of devices by kind (resources of a node) are exact for claims without `firstAvailable`
//! and constraints on devices without taints, counters and shares, and only necessary for others.
//! For those the filter `DeviceAllocation` searches:
//!
//! * The snapshot has the devices of each node, with the selections that match them, and the requests
//!   of each claim. Selectors are evaluated outside of the core.
//! * The filter accepts a node for a pod only if all claims that are to be allocated there can be
//!   allocated together. Filters also run where the solver simulates evictions, so no pod is
//!   evicted before an allocation is known to exist.
//! * The writer of claims calls the same search, for the same claims.
//!
//! The search backtracks over claims, alternatives and devices. Devices that no claim can tell
//! apart form a group, of which only numbers matter. An allocation consumes free devices, counters
//! of their pools, and capacity of devices that can be shared. So equal nodes have equal problems,
//! whose outcome a cycle computes once. The number of steps is limited; a search that exceeds the
//! limit fails.

mod availability;
mod problem;
mod search;

use std::{cell::RefCell, collections::BTreeMap};

use crate::model::{ClaimRequests, DeviceAccess, NodeDeviceRequest};
pub use availability::{AvailableDevices, DevicePosition, UsableDevices};
pub(crate) use problem::AllocationProblem;
use problem::DeviceGroups;
pub use problem::PlacedClaim;
use search::{PickedDevices, search_allocation};

/// Maximum number of steps of one allocation search. Each step tries a number of devices of one
/// group for one request.
pub const SEARCH_STEPS_MAX: u32 = 20_000;

/// A device that is allocated to a request of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatedDevice<'a> {
    /// The request for which the device is allocated.
    pub request: &'a NodeDeviceRequest,
    /// Index of the device in the list of the available devices.
    pub device: usize,
}

/// Why claims cannot be allocated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocationFailure {
    /// No allocation exists.
    Impossible,
    /// No allocation was found within [`SEARCH_STEPS_MAX`] steps.
    SearchLimit,
}

/// Cached results of allocation searches within one cycle.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllocationOutcomeCache(
    RefCell<BTreeMap<AllocationProblem, Result<(), AllocationFailure>>>,
);

/// Maximum number of allocation problems whose result is cached.
const CACHED_OUTCOMES_MAX: usize = 512;

impl AllocationOutcomeCache {
    /// Whether the problem has a solution. Searches only if the problem was not searched before.
    ///
    /// # Errors
    /// No allocation exists, or none was found.
    pub(crate) fn cached_outcome(
        &self,
        problem: AllocationProblem,
    ) -> Result<(), AllocationFailure> {
        if let Some(known) = self.0.borrow().get(&problem) {
            return *known;
        }
        let outcome = search_allocation(&problem).map(drop);
        let mut known = self.0.borrow_mut();
        if known.len() >= CACHED_OUTCOMES_MAX {
            known.clear();
        }
        known.insert(problem, outcome);
        outcome
    }
}

/// Allocates the claims together. The first claim gets its first alternative if the others can be
/// allocated beside it, and so on. Returns the devices of each claim, in the order of its requests.
///
/// # Errors
/// No allocation exists, or none was found.
pub fn allocate_claims<'a>(
    claims: &[PlacedClaim<'a>],
    devices: &AvailableDevices<'_>,
) -> Result<Vec<Vec<AllocatedDevice<'a>>>, AllocationFailure> {
    let (problem, groups) = AllocationProblem::new(claims, devices);
    let picks = search_allocation(&problem)?;
    Ok(devices_of_picks(claims, devices, &groups, &picks))
}

/// How many claims with these requests the devices can serve, at most as many as there are devices;
/// their number if a search ends without a result.
pub fn max_claims(requests: &ClaimRequests, devices: &AvailableDevices<'_>) -> usize {
    let most = devices.devices.len();
    for count in 1..=most {
        match allocate_claims(&vec![PlacedClaim::from(requests); count], devices) {
            Ok(_) => {}
            Err(AllocationFailure::Impossible) => return count - 1,
            Err(AllocationFailure::SearchLimit) => break,
        }
    }
    most
}

/// Turns picks into devices: each pick gets the first devices of its group that are still left.
/// Returns the devices of each claim.
fn devices_of_picks<'a>(
    claims: &[PlacedClaim<'a>],
    available: &AvailableDevices<'_>,
    groups: &DeviceGroups,
    picks: &[PickedDevices],
) -> Vec<Vec<AllocatedDevice<'a>>> {
    let devices = &available.devices;
    let is_shared = |at: usize| devices[at].properties.shared.is_some();
    let mut allocated: Vec<Vec<(usize, usize)>> = vec![Vec::new(); claims.len()];
    let mut is_taken = vec![false; devices.len()];
    let (admin, exclusive): (Vec<&PickedDevices>, Vec<&PickedDevices>) =
        picks.iter().partition(|pick| pick.access == DeviceAccess::Admin);
    for pick in exclusive {
        let free = groups[pick.group].iter().filter(|at| devices[**at].is_free && !is_taken[**at]);
        let its: Vec<usize> = free.take(pick.count).copied().collect();
        for at in its.iter().filter(|at| !is_shared(**at)) {
            is_taken[*at] = true;
        }
        allocated[pick.claim].extend(its.into_iter().map(|at| (pick.request, at)));
    }
    for pick in admin {
        let own = &mut allocated[pick.claim];
        let others = groups[pick.group]
            .iter()
            .filter(|at| is_shared(**at) || own.iter().all(|(_, had)| had != *at));
        let its: Vec<usize> = others.take(pick.count).copied().collect();
        own.extend(its.into_iter().map(|at| (pick.request, at)));
    }
    let alternatives: BTreeMap<usize, usize> =
        picks.iter().map(|pick| (pick.claim, pick.alternative)).collect();
    let of_claim = |(claim, mut its): (usize, Vec<(usize, usize)>)| {
        its.sort_unstable();
        let requests = |(request, device): (usize, usize)| {
            let alternative = &claims[claim].requests.alternatives[alternatives[&claim]];
            AllocatedDevice { request: &alternative.requests[request], device }
        };
        its.into_iter().map(requests).collect()
    };
    allocated.into_iter().enumerate().map(of_claim).collect()
}

#[cfg(test)]
mod tests;
