//! Backtracking search for an allocation.

use std::collections::BTreeSet;

use super::{
    AllocationFailure, SEARCH_STEPS_MAX,
    problem::{AllocationProblem, Alternative, Constraint, DeviceGroup, Request},
};
use crate::model::{AttributeRule, DeviceAccess};

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
        left: Resources {
            free: problem.groups.iter().map(|group| group.free).collect(),
            counters: problem.counters.clone(),
            shares: problem.groups.iter().map(shares_in_use).collect(),
            capacity: problem.groups.iter().map(shared_capacity).collect(),
        },
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

fn shares_in_use(group: &DeviceGroup) -> usize {
    usize::from(group.shared.as_ref().is_some_and(|shared| shared.is_in_use))
}

fn shared_capacity(group: &DeviceGroup) -> Vec<i128> {
    group.shared.as_ref().map_or_else(Vec::new, |shared| shared.capacity.clone())
}

/// What an allocation consumes, and how much of it is left.
struct Resources {
    /// Free devices, by group.
    free: Vec<usize>,
    /// By counter.
    counters: Vec<i128>,
    /// Number of shares, by group.
    shares: Vec<usize>,
    /// Capacity, by group.
    capacity: Vec<Vec<i128>>,
}

/// A state in which the claims from one on were not allocated.
type FailedState = (usize, Vec<(usize, usize)>, Vec<i128>, Vec<(usize, Vec<i128>)>);

struct Search<'p> {
    problem: &'p AllocationProblem,
    /// For each device group, the number of its role: groups with the same role can replace each
    /// other.
    roles: Vec<usize>,
    demands: Vec<RemainingDemand>,
    left: Resources,
    picks: Vec<PickedDevices>,
    /// Claims from which on the rest cannot be allocated, with what was left.
    failed: BTreeSet<FailedState>,
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
        let counters = group.counters.clone();
        let own = group.shared.as_ref().map(|_| at);
        let role = (users, group.total, shared, counters, own);
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
    /// By constraint: the values of the devices that are picked.
    values: Vec<Vec<usize>>,
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
        let can_serve = |group: &usize| match self.problem.groups[*group].shared {
            Some(_) => usize::MAX,
            None => self.left.free[*group],
        };
        let free = demand.groups.iter().map(can_serve).fold(0, usize::saturating_add);
        let state = self.state(claim);
        if free < demand.devices || self.failed.contains(&state) {
            return false;
        }
        for alternative in alternatives {
            let used = vec![0; problem.groups.len()];
            let values = vec![Vec::new(); alternative.constraints.len()];
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

    fn state(&self, claim: usize) -> FailedState {
        let Resources { free, counters, shares, capacity } = &self.left;
        let mut free: Vec<(usize, usize)> =
            self.roles.iter().copied().zip(free.iter().copied()).collect();
        free.sort_unstable();
        let shared = (0..shares.len()).filter(|group| self.problem.groups[*group].shared.is_some());
        let shared = shared.map(|group| (shares[group].min(1), capacity[group].clone()));
        (claim, free, counters.clone(), shared.collect())
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
        let DeviceGroup { values, shared, total, .. } = &self.problem.groups[group];
        let constraints = partial.alternative.constraints.iter().zip(&partial.values);
        let binding =
            constraints.filter(|(constraint, _)| constraint.requests.contains(&request.index));
        let allowed = binding
            .map(|(constraint, picked)| allowed_count(constraint, picked, values))
            .min()
            .unwrap_or(usize::MAX);
        if allowed == 0 {
            return 0;
        }
        let unused = match (shared, request.access) {
            (Some(_), _) => {
                usize::from(self.left.free[group] > 0 && self.has_capacity(request, group))
            }
            (None, DeviceAccess::Exclusive) => self.left.free[group],
            (None, DeviceAccess::Admin) => total - partial.used[group],
        };
        unused.min(allowed).min(self.allowed_by_counters(group))
    }

    /// Whether enough is left of the capacity of a device that can be shared.
    fn has_capacity(&self, request: &Request, group: usize) -> bool {
        let consumed = request.consumed.get(&group).into_iter().flatten();
        consumed.zip(&self.left.capacity[group]).all(|(consumed, left)| consumed <= left)
    }

    /// Number of devices of the group for which counters are left. The first share of a device
    /// consumes its counters.
    fn allowed_by_counters(&self, group: usize) -> usize {
        if self.left.shares[group] > 0 {
            return usize::MAX;
        }
        let counters = self.problem.groups[group].counters.iter();
        let allowed = counters.filter(|(_, amount)| *amount > 0).map(|(counter, amount)| {
            let left = self.left.counters.get(*counter).copied().unwrap_or(0);
            usize::try_from(left / amount).unwrap_or(0)
        });
        allowed.min().unwrap_or(usize::MAX)
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
        for (constraint, picked) in partial.alternative.constraints.iter().zip(&mut partial.values)
        {
            if constraint.requests.contains(&request.index) {
                picked.extend(self.problem.groups[group].values[constraint.attribute]);
            }
        }
        self.update_free_devices(request, group, count, Direction::Take);
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
        self.update_free_devices(request, group, count, Direction::Return);
        partial.values = values_before;
        false
    }

    /// Takes devices for the request, or returns them: devices, counters, capacity.
    fn update_free_devices(
        &mut self,
        request: &Request,
        group: usize,
        count: usize,
        direction: Direction,
    ) {
        let DeviceGroup { counters, shared, .. } = &self.problem.groups[group];
        let left = &mut self.left;
        let sign = match direction {
            Direction::Take => -1,
            Direction::Return => 1,
        };
        if shared.is_some() {
            match direction {
                Direction::Take => left.shares[group] += count,
                Direction::Return => left.shares[group] -= count,
            }
            let consumed = request.consumed.get(&group).into_iter().flatten();
            for (left, consumed) in left.capacity[group].iter_mut().zip(consumed) {
                *left += sign * consumed;
            }
        } else if request.access == DeviceAccess::Exclusive {
            match direction {
                Direction::Take => left.free[group] -= count,
                Direction::Return => left.free[group] += count,
            }
        }
        // Further shares of a device consume no counters.
        let others = match direction {
            Direction::Take => left.shares[group].saturating_sub(count),
            Direction::Return => left.shares[group],
        };
        if shared.is_some() && others > 0 {
            return;
        }
        let count = i128::try_from(count).unwrap_or(i128::MAX);
        for (counter, amount) in counters {
            if let Some(left) = left.counters.get_mut(*counter) {
                *left += sign * amount * count;
            }
        }
    }
}

/// Whether devices are taken or returned.
#[derive(Clone, Copy)]
enum Direction {
    Take,
    Return,
}

/// How many devices with these values a constraint allows beside those that are picked.
fn allowed_count(constraint: &Constraint, picked: &[usize], values: &[Option<usize>]) -> usize {
    let Some(value) = values[constraint.attribute] else { return 0 };
    match constraint.rule {
        AttributeRule::Match if picked.first().is_none_or(|first| *first == value) => usize::MAX,
        AttributeRule::Match => 0,
        AttributeRule::Distinct => usize::from(!picked.contains(&value)),
    }
}
