//! Backtracking search for an allocation.

use std::collections::BTreeSet;

use super::{
    AllocationFailure, SEARCH_STEPS_MAX,
    problem::{AllocationProblem, Alternative, DeviceGroup, Request},
};
use crate::model::DeviceAccess;

/// A number of devices of one group that a request gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct PickedDevices {
    pub(super) claim: usize,
    /// Index of the alternative in the claim.
    pub(super) alternative: usize,
    /// Index of the request in the alternative.
    pub(super) request: usize,
    pub(super) access: DeviceAccess,
    pub(super) group: usize,
    pub(super) count: usize,
}

/// Searches an allocation for all claims of the problem.
pub(super) fn search_allocation(
    problem: &AllocationProblem,
) -> Result<Vec<PickedDevices>, AllocationFailure> {
    let mut search = Search {
        problem,
        roles: group_roles(problem),
        demands: remaining_demands(problem),
        free: problem.groups.iter().map(|group| group.free).collect(),
        picks: Vec::new(),
        failed: BTreeSet::new(),
        steps_left: SEARCH_STEPS_MAX,
    };
    if search.allocate_claims_from(0) {
        return Ok(search.picks);
    }
    Err(match search.steps_left {
        0 => AllocationFailure::SearchLimit,
        _ => AllocationFailure::Impossible,
    })
}

struct Search<'p> {
    problem: &'p AllocationProblem,
    /// For each device group, the number of its role: groups with the same role can replace each
    /// other.
    roles: Vec<usize>,
    demands: Vec<RemainingDemand>,
    /// For each device group, the number of free devices that are left.
    free: Vec<usize>,
    picks: Vec<PickedDevices>,
    /// Positions in the list of claims from which on no allocation exists, with the free devices by
    /// role at that point.
    failed: BTreeSet<(usize, Vec<(usize, usize)>)>,
    steps_left: u32,
}

/// What a claim and all claims after it need at least.
#[derive(Clone, Debug, Default)]
struct RemainingDemand {
    /// Device groups that these claims may use.
    groups: BTreeSet<usize>,
    /// Number of exclusive devices that these claims need.
    devices: usize,
}

/// The remaining demand before each claim, and an empty one after the last.
fn remaining_demands(problem: &AllocationProblem) -> Vec<RemainingDemand> {
    let exclusive = |alternative: &Alternative| {
        let its = alternative.requests.iter();
        let its = its.filter(|request| request.access == DeviceAccess::Exclusive);
        its.map(|request| request.count.unwrap_or(1)).sum::<usize>()
    };
    let mut demand = RemainingDemand::default();
    let mut demands = vec![demand.clone()];
    for alternatives in problem.claims.iter().rev() {
        demand.devices += alternatives.iter().map(exclusive).min().unwrap_or(0);
        let requests = alternatives.iter().flat_map(|alternative| &alternative.requests);
        demand.groups.extend(requests.flat_map(|request| &request.groups).copied());
        demands.push(demand.clone());
    }
    demands.reverse();
    demands
}

/// The role of each device group. Groups have the same role if the same requests may use them, they
/// are equally large, and no constrained value of theirs occurs in another group.
fn group_roles(problem: &AllocationProblem) -> Vec<usize> {
    let requests: Vec<&Request> =
        problem.claims.iter().flatten().flat_map(|alternative| &alternative.requests).collect();
    let is_unique = |attribute: usize, value: Option<usize>| {
        problem.groups.iter().filter(|other| other.values[attribute] == value).count() == 1
    };
    let mut known = Vec::new();
    let role = |(at, group): (usize, &DeviceGroup)| {
        let users: Vec<usize> =
            (0..requests.len()).filter(|request| requests[*request].groups.contains(&at)).collect();
        let values = group.values.iter().enumerate();
        let shared: Vec<Option<Option<usize>>> = values
            .map(|(attribute, value)| {
                (value.is_none() || !is_unique(attribute, *value)).then_some(*value)
            })
            .collect();
        let role = (users, group.total, shared);
        known.iter().position(|one| *one == role).unwrap_or_else(|| {
            known.push(role);
            known.len() - 1
        })
    };
    problem.groups.iter().enumerate().map(role).collect()
}

/// An alternative of a claim while its requests are being allocated.
struct PartialClaim<'p> {
    claim: usize,
    alternative: &'p Alternative,
    /// Number of devices taken for this alternative, by device group.
    used: Vec<usize>,
    /// For each constraint, the value that it requires, once a device with that value is picked.
    values: Vec<Option<usize>>,
}

/// A number of devices of one group, chosen for the request at a position.
#[derive(Clone, Copy)]
struct DeviceChoice {
    position: usize,
    group: usize,
    count: usize,
}

impl<'p> Search<'p> {
    /// Allocates the claim with this index and all claims after it.
    fn allocate_claims_from(&mut self, claim: usize) -> bool {
        let problem = self.problem;
        let Some(alternatives) = problem.claims.get(claim) else { return true };
        let demand = &self.demands[claim];
        let free: usize = demand.groups.iter().map(|group| self.free[*group]).sum();
        let state = (claim, self.free_devices_by_role());
        if free < demand.devices || self.failed.contains(&state) {
            return false;
        }
        for alternative in alternatives {
            let used = vec![0; problem.groups.len()];
            let values = vec![None; alternative.constraints.len()];
            let mut partial = PartialClaim { claim, alternative, used, values };
            if self.allocate_requests(&mut partial, 0) {
                return true;
            }
        }
        if self.steps_left > 0 {
            self.failed.insert(state);
        }
        false
    }

    fn free_devices_by_role(&self) -> Vec<(usize, usize)> {
        let mut free: Vec<(usize, usize)> =
            self.roles.iter().copied().zip(self.free.iter().copied()).collect();
        free.sort_unstable();
        free
    }

    /// Allocates the requests from this position on, then the claims that follow. Returns whether
    /// that succeeded.
    fn allocate_requests(&mut self, partial: &mut PartialClaim<'p>, position: usize) -> bool {
        let alternative = partial.alternative;
        let Some(request) = alternative.requests.get(position) else {
            return self.allocate_claims_from(partial.claim + 1);
        };
        match request.count {
            Some(count) => self.choose_devices(partial, position, &request.groups, count),
            None => self.choose_all_devices(partial, position, request),
        }
    }

    /// Picks `needed` devices for the request out of these groups. Returns whether an allocation
    /// was found.
    fn choose_devices(
        &mut self,
        partial: &mut PartialClaim<'p>,
        position: usize,
        groups: &'p [usize],
        needed: usize,
    ) -> bool {
        if needed == 0 {
            return self.allocate_requests(partial, position + 1);
        }
        let request = &partial.alternative.requests[position];
        let usable = groups.iter().map(|group| self.count_usable_devices(partial, request, *group));
        if usable.sum::<usize>() < needed {
            return false;
        }
        let Some((&group, others)) = groups.split_first() else { return false };
        let most = self.count_usable_devices(partial, request, group).min(needed);
        (0..=most).rev().any(|count| {
            let choice = DeviceChoice { position, group, count };
            self.try_choice(partial, choice, |search, partial| {
                search.choose_devices(partial, position, others, needed - count)
            })
        })
    }

    /// Picks all devices of the request's groups.
    fn choose_all_devices(
        &mut self,
        partial: &mut PartialClaim<'p>,
        position: usize,
        request: &'p Request,
    ) -> bool {
        !request.groups.is_empty() && self.choose_whole_groups(partial, position, &request.groups)
    }

    fn choose_whole_groups(
        &mut self,
        partial: &mut PartialClaim<'p>,
        position: usize,
        groups: &'p [usize],
    ) -> bool {
        let Some((&group, others)) = groups.split_first() else {
            return self.allocate_requests(partial, position + 1);
        };
        let (request, count) =
            (&partial.alternative.requests[position], self.problem.groups[group].total);
        let choice = DeviceChoice { position, group, count };
        self.count_usable_devices(partial, request, group) == count
            && self.try_choice(partial, choice, |search, partial| {
                search.choose_whole_groups(partial, position, others)
            })
    }

    /// Number of devices of the group that the request may get now.
    fn count_usable_devices(
        &self,
        partial: &PartialClaim<'p>,
        request: &Request,
        group: usize,
    ) -> usize {
        let values = &self.problem.groups[group].values;
        let constraints = partial.alternative.constraints.iter().zip(&partial.values);
        let mut binding =
            constraints.filter(|(constraint, _)| constraint.requests.contains(&request.index));
        let satisfies = binding.all(|(constraint, required)| {
            let value = values[constraint.attribute];
            value.is_some() && (required.is_none() || *required == value)
        });
        match request.access {
            _ if !satisfies => 0,
            DeviceAccess::Exclusive => self.free[group],
            DeviceAccess::Admin => self.problem.groups[group].total - partial.used[group],
        }
    }

    /// Applies the choice, runs `continuation`, and undoes the choice if that fails.
    fn try_choice(
        &mut self,
        partial: &mut PartialClaim<'p>,
        choice: DeviceChoice,
        continuation: impl FnOnce(&mut Self, &mut PartialClaim<'p>) -> bool,
    ) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        if self.steps_left == 0 {
            return false;
        }
        let DeviceChoice { position, group, count } = choice;
        if count == 0 {
            return continuation(self, partial);
        }
        let request = &partial.alternative.requests[position];
        let values_before = partial.values.clone();
        for (constraint, value) in partial.alternative.constraints.iter().zip(&mut partial.values) {
            if constraint.requests.contains(&request.index) {
                *value = self.problem.groups[group].values[constraint.attribute];
            }
        }
        let is_exclusive = request.access == DeviceAccess::Exclusive;
        let taken = if is_exclusive { count } else { 0 };
        self.free[group] -= taken;
        partial.used[group] += count;
        self.picks.push(PickedDevices {
            claim: partial.claim,
            alternative: partial.alternative.index,
            request: request.index,
            access: request.access,
            group,
            count,
        });
        if continuation(self, partial) {
            return true;
        }
        self.picks.pop();
        partial.used[group] -= count;
        self.free[group] += taken;
        partial.values = values_before;
        false
    }
}
