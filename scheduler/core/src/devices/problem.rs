//! The problem of a search, without names: groups of equal devices, and which of them each request
//! may use. Equal problems have equal outcomes.

use std::collections::BTreeMap;

use crate::model::{
    ClaimAlternative, ClaimRequests, DeviceAccess, DeviceCount, DeviceProperties, MatchAttribute,
    Name, NodeDeviceRequest,
};

/// Claims to allocate together, and the devices of their node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AllocationProblem {
    pub(super) groups: Vec<DeviceGroup>,
    /// For each claim: its alternatives in order of preference, without those that exceed the
    /// limits of a claim.
    pub(super) claims: Vec<Vec<Alternative>>,
}

/// Devices that are interchangeable for all requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceGroup {
    pub(super) free: usize,
    pub(super) total: usize,
    /// For each constrained attribute: a number for the value that the devices have; `None` if they
    /// lack the attribute.
    pub(super) values: Vec<Option<usize>>,
}

/// An alternative of a claim: a list of requests that are allocated together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alternative {
    /// Index of the alternative in the claim.
    pub(super) index: usize,
    /// The requests, exclusive ones first: requests with admin access use whichever devices these
    /// leave.
    pub(super) requests: Vec<Request>,
    pub(super) constraints: Vec<Constraint>,
}

/// A request for devices in an alternative.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    /// Index of the request in the alternative.
    pub(super) index: usize,
    /// Number of requested devices; `None`: all devices of the groups.
    pub(super) count: Option<usize>,
    pub(super) access: DeviceAccess,
    /// Indexes of the device groups that the request may use, preferred ones first.
    pub(super) groups: Vec<usize>,
}

/// A `matchAttribute` constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Constraint {
    /// Index of the attribute in [`DeviceGroup::values`].
    pub(super) attribute: usize,
    /// Indexes of the requests whose devices must have equal values.
    pub(super) requests: Vec<usize>,
}

/// For each device group, the indexes of its devices, in order.
pub(super) type DeviceGroups = Vec<Vec<usize>>;

/// The properties by which devices are grouped: which selections match the device, number of kinds
/// of the device, values of the constrained attributes.
type DeviceSignature<'d> = (Vec<bool>, usize, Vec<Option<&'d str>>);

/// Groups the devices of a node by what the claims can distinguish.
struct DeviceGrouping<'a> {
    selections: Vec<&'a Name>,
    attributes: Vec<&'a Name>,
    /// Each group's signature, and the indexes of its devices.
    groups: Vec<(DeviceSignature<'a>, Vec<usize>)>,
    /// Number of free devices of each group.
    free: Vec<usize>,
    /// Index of the first free device of each group; the number of all devices if none is free.
    first_free: Vec<usize>,
    are_pools_complete: bool,
}

impl AllocationProblem {
    /// Builds the problem of allocating `claims` from `devices`, each given with whether it is
    /// free.
    pub(crate) fn new(
        claims: &[&ClaimRequests],
        devices: &[(&DeviceProperties, bool)],
    ) -> (Self, DeviceGroups) {
        let grouping = DeviceGrouping::new(claims, devices);
        let alternatives = |claim: &&ClaimRequests| {
            let all = claim.alternatives.iter().enumerate();
            all.filter_map(|(index, one)| grouping.build_alternative(index, one)).collect()
        };
        let problem = Self {
            groups: grouping.device_groups(),
            claims: claims.iter().map(alternatives).collect(),
        };
        (problem, grouping.groups.into_iter().map(|(_, devices)| devices).collect())
    }
}

impl<'a> DeviceGrouping<'a> {
    fn new(claims: &[&'a ClaimRequests], devices: &[(&'a DeviceProperties, bool)]) -> Self {
        let (mut selections, mut attributes) = (Vec::new(), Vec::new());
        for alternative in claims.iter().flat_map(|claim| &claim.alternatives) {
            selections.extend(alternative.requests.iter().map(|request| &request.selection));
            attributes.extend(alternative.constraints.iter().map(|one| &one.attribute));
        }
        for names in [&mut selections, &mut attributes] {
            names.sort_unstable();
            names.dedup();
        }
        let mut positions: BTreeMap<DeviceSignature<'a>, usize> = BTreeMap::new();
        let mut groups: Vec<(DeviceSignature<'a>, Vec<usize>)> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        for (at, (device, is_free)) in devices.iter().enumerate() {
            let matches = selections.iter().map(|one| device.kinds.contains(*one)).collect();
            let values = attributes.iter().map(|one| device.attributes.get(*one));
            let values = values.map(|value| value.map(String::as_str)).collect();
            let signature: DeviceSignature<'a> = (matches, device.kinds.len(), values);
            let group = *positions.entry(signature.clone()).or_insert_with(|| {
                groups.push((signature, Vec::new()));
                free.push(0);
                groups.len() - 1
            });
            groups[group].1.push(at);
            free[group] += usize::from(*is_free);
        }
        let first_free = |(_, its): &(DeviceSignature<'a>, Vec<usize>)| {
            its.iter().copied().find(|at| devices[*at].1).unwrap_or(devices.len())
        };
        let first_free = groups.iter().map(first_free).collect();
        let are_pools_complete = devices.iter().all(|(device, _)| device.pool_is_complete);
        Self { selections, attributes, groups, free, first_free, are_pools_complete }
    }

    fn device_groups(&self) -> Vec<DeviceGroup> {
        let mut known: Vec<Vec<&str>> = vec![Vec::new(); self.attributes.len()];
        let mut number = |(attribute, value): (usize, Option<&'a str>)| {
            let (known, value) = (&mut known[attribute], value?);
            let at = known.iter().position(|one| *one == value);
            Some(at.unwrap_or_else(|| {
                known.push(value);
                known.len() - 1
            }))
        };
        let groups = self.groups.iter().zip(&self.free);
        let group =
            |(((_, _, values), devices), free): (&(DeviceSignature<'a>, Vec<usize>), &usize)| {
                let values = values.iter().copied().enumerate().map(&mut number).collect();
                DeviceGroup { free: *free, total: devices.len(), values }
            };
        groups.map(group).collect()
    }

    /// Builds an alternative of a claim. `None` if a claim cannot have as many devices, or if the
    /// number of devices is unknown.
    fn build_alternative(
        &self,
        index: usize,
        alternative: &ClaimAlternative,
    ) -> Option<Alternative> {
        let attributes: Vec<usize> =
            alternative.constraints.iter().map(|one| self.attribute_index(one)).collect();
        let has_admin = alternative.requests.iter().any(|one| one.access == DeviceAccess::Admin);
        let requests = alternative.requests.iter().enumerate();
        let requests = requests.map(|(index, one)| Request {
            index,
            count: match one.count {
                DeviceCount::Exactly(count) => Some(usize::try_from(count).unwrap_or(usize::MAX)),
                DeviceCount::All => None,
            },
            access: one.access,
            groups: self.groups_by_preference(one, &attributes, has_admin),
        });
        let mut requests: Vec<Request> = requests.collect();
        let needs_all = requests.iter().any(|request| request.count.is_none());
        let counts = requests.iter().map(|request| self.requested_device_count(request));
        let count = counts.fold(0, usize::saturating_add);
        if count > ClaimRequests::DEVICES_MAX || needs_all && !self.are_pools_complete {
            return None;
        }
        requests.sort_by_key(|request| request.access);
        let constraints = alternative.constraints.iter().zip(attributes);
        let constraints = constraints
            .map(|(one, attribute)| Constraint { attribute, requests: one.requests.clone() });
        Some(Alternative { index, requests, constraints: constraints.collect() })
    }

    fn requested_device_count(&self, request: &Request) -> usize {
        let all = || request.groups.iter().map(|group| self.groups[*group].1.len()).sum();
        request.count.unwrap_or_else(all)
    }

    fn attribute_index(&self, constraint: &MatchAttribute) -> usize {
        let known = self.attributes.binary_search(&&constraint.attribute);
        known.expect("the attributes of all constraints are listed")
    }

    /// Indexes of the groups that match the request, in order of preference: groups with few
    /// devices alike in the constrained attributes, then devices that few other requests select,
    /// then the first device.
    fn groups_by_preference(
        &self,
        request: &NodeDeviceRequest,
        attributes: &[usize],
        counts_used: bool,
    ) -> Vec<usize> {
        let known = self.selections.binary_search(&&request.selection);
        let selection = known.expect("the selections of all requests are listed");
        let values = |group: usize| {
            attributes.iter().map(|attribute| self.groups[group].0.2[*attribute]).collect()
        };
        let mut alike: BTreeMap<Vec<Option<&str>>, usize> = BTreeMap::new();
        for (group, (_, devices)) in self.groups.iter().enumerate() {
            let count = if counts_used { devices.len() } else { self.free[group] };
            *alike.entry(values(group)).or_default() += count;
        }
        let matching = (0..self.groups.len()).filter(|group| self.groups[*group].0.0[selection]);
        let mut groups: Vec<usize> = matching.collect();
        let first = |group: usize| match request.access {
            DeviceAccess::Exclusive => self.first_free[group],
            DeviceAccess::Admin => group,
        };
        groups.sort_by_cached_key(|group| {
            (alike[&values(*group)], self.groups[*group].0.1, first(*group))
        });
        groups
    }
}
