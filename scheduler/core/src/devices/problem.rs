//! The problem of a search, without names: groups of equal devices, and which of them each request
//! may use. Equal problems have equal outcomes.

use std::collections::BTreeMap;

use super::availability::{AvailableDevice, AvailableDevices};
use crate::model::{
    AttributeConstraint, AttributeRule, ClaimAlternative, ClaimRequests, DeviceAccess,
    DeviceAmounts, DeviceCount, DeviceProperties, Name, NodeDeviceRequest,
};

/// Claims to allocate together, and the devices of their nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AllocationProblem {
    pub(super) groups: Vec<DeviceGroup>,
    /// What is left of each counter.
    pub(super) counters: Vec<i128>,
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
    /// Counters that each device consumes: indexes and amounts.
    pub(super) counters: Vec<(usize, i128)>,
    /// For a device that can be shared, which is the only one of its group.
    pub(super) shared: Option<SharedGroup>,
}

/// A device that can be shared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SharedGroup {
    /// A claim has a share of it.
    pub(super) is_in_use: bool,
    /// What is left of each capacity.
    pub(super) capacity: Vec<i128>,
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
    /// What it consumes of the capacity of groups that can be shared.
    pub(super) consumed: BTreeMap<usize, Vec<i128>>,
}

/// A constraint on an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Constraint {
    pub(super) rule: AttributeRule,
    /// Index of the attribute in [`DeviceGroup::values`].
    pub(super) attribute: usize,
    /// Indexes of the requests whose devices must have equal values.
    pub(super) requests: Vec<usize>,
}

/// The index of a counter that does not exist.
pub(super) const UNKNOWN_COUNTER: usize = usize::MAX;

/// For each device group, the indexes of its devices, in order.
pub(super) type DeviceGroups = Vec<Vec<usize>>;

/// A claim to allocate for pods on some nodes.
#[derive(Clone, Debug)]
pub struct PlacedClaim<'a> {
    /// What the claim requests.
    pub requests: &'a ClaimRequests,
    /// Indexes of the nodes of its pods, in ascending order: the claim gets devices that all of
    /// these can use. Empty: any devices.
    pub nodes: Vec<usize>,
}

impl<'a> From<&'a ClaimRequests> for PlacedClaim<'a> {
    fn from(requests: &'a ClaimRequests) -> Self {
        Self { requests, nodes: Vec::new() }
    }
}

/// What distinguishes a device from others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DeviceSignature<'d> {
    /// The nodes that can use it.
    nodes: &'d [usize],
    /// Selections that match it.
    matches: Vec<bool>,
    /// Number of all its kinds.
    kinds: usize,
    /// Values of constrained attributes.
    values: Vec<Option<&'d str>>,
    counters: Vec<(usize, i128)>,
    /// Index of a device that can be shared: it is like no other.
    shared: Option<usize>,
}

/// Devices with the same signature.
struct EqualDevices<'a> {
    signature: DeviceSignature<'a>,
    /// Indexes of the devices.
    devices: Vec<usize>,
    /// Number of free devices.
    free: usize,
    /// The first free device, else the number of all devices.
    first_free: usize,
}

/// Groups the devices of nodes by what the claims can distinguish.
struct DeviceGrouping<'a> {
    selections: Vec<&'a Name>,
    attributes: Vec<&'a Name>,
    available: &'a AvailableDevices<'a>,
    groups: Vec<EqualDevices<'a>>,
}

/// An alternative of a claim, with the nodes of the claim.
#[derive(Clone, Copy)]
struct PlacedAlternative<'a> {
    /// Index of the alternative in the claim.
    index: usize,
    alternative: &'a ClaimAlternative,
    nodes: &'a [usize],
}

impl AllocationProblem {
    pub(crate) fn new(
        claims: &[PlacedClaim<'_>],
        available: &AvailableDevices<'_>,
    ) -> (Self, DeviceGroups) {
        let grouping = DeviceGrouping::new(claims, available);
        let alternatives = |claim: &PlacedClaim<'_>| {
            let all = claim.requests.alternatives.iter().enumerate();
            let placed = |(index, alternative)| PlacedAlternative {
                index,
                alternative,
                nodes: &claim.nodes,
            };
            all.filter_map(|one| grouping.build_alternative(placed(one))).collect()
        };
        let problem = Self {
            groups: grouping.device_groups(),
            counters: available.counters.values().copied().collect(),
            claims: claims.iter().map(alternatives).collect(),
        };
        (problem, grouping.groups.into_iter().map(|group| group.devices).collect())
    }
}

impl<'a> DeviceGrouping<'a> {
    fn new(claims: &[PlacedClaim<'a>], available: &'a AvailableDevices<'a>) -> Self {
        let (mut selections, mut attributes) = (Vec::new(), Vec::new());
        for alternative in claims.iter().flat_map(|claim| &claim.requests.alternatives) {
            selections.extend(alternative.requests.iter().map(|request| &request.selection));
            attributes.extend(alternative.constraints.iter().map(|one| &one.attribute));
        }
        for names in [&mut selections, &mut attributes] {
            names.sort_unstable();
            names.dedup();
        }
        let counters: Vec<&Name> = available.counters.keys().collect();
        let mut positions: BTreeMap<DeviceSignature<'a>, usize> = BTreeMap::new();
        let mut groups: Vec<EqualDevices<'a>> = Vec::new();
        for (at, device) in available.devices.iter().enumerate() {
            let properties = device.properties;
            let matches = selections.iter().map(|one| properties.kinds.contains(*one)).collect();
            let values = attributes.iter().map(|one| properties.attributes.get(*one));
            let values = values.map(|value| value.map(String::as_str)).collect();
            let signature: DeviceSignature<'a> = DeviceSignature {
                nodes: &device.nodes,
                matches,
                kinds: properties.kinds.len(),
                values,
                counters: indexed_counters(&properties.counters, &counters),
                shared: properties.shared.is_some().then_some(at),
            };
            let group = *positions.entry(signature.clone()).or_insert_with(|| {
                let first_free = available.devices.len();
                groups.push(EqualDevices { signature, devices: Vec::new(), free: 0, first_free });
                groups.len() - 1
            });
            let group = &mut groups[group];
            group.devices.push(at);
            if device.is_free {
                group.free += 1;
                group.first_free = group.first_free.min(at);
            }
        }
        Self { selections, attributes, available, groups }
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
        let group = |group: &EqualDevices<'a>| {
            let values = group.signature.values.iter().copied().enumerate();
            DeviceGroup {
                free: group.free,
                total: group.devices.len(),
                values: values.map(&mut number).collect(),
                counters: group.signature.counters.clone(),
                shared: self.shared_device(group).map(|device| SharedGroup {
                    is_in_use: device.is_shared,
                    capacity: device.capacity.values().copied().collect(),
                }),
            }
        };
        self.groups.iter().map(group).collect()
    }

    /// The device of a group if it can be shared.
    fn shared_device(&self, group: &EqualDevices<'a>) -> Option<&'a AvailableDevice<'a>> {
        group.signature.shared.map(|at| &self.available.devices[at])
    }

    /// Builds an alternative of a claim. `None` if a claim cannot have as many devices, or if the
    /// number of devices is unknown.
    fn build_alternative(&self, placed: PlacedAlternative<'_>) -> Option<Alternative> {
        let PlacedAlternative { index, alternative, nodes } = placed;
        let attributes: Vec<usize> =
            alternative.constraints.iter().map(|one| self.attribute_index(one)).collect();
        let has_admin = alternative.requests.iter().any(|one| one.access == DeviceAccess::Admin);
        let matched = alternative.constraints.iter().zip(&attributes);
        let matched = matched.filter(|(constraint, _)| constraint.rule == AttributeRule::Match);
        let matched: Vec<usize> = matched.map(|(_, attribute)| *attribute).collect();
        let requests = alternative.requests.iter().enumerate();
        let requests = requests.map(|(index, one)| {
            let groups = self.groups_by_preference(one, nodes, &matched, has_admin);
            Request {
                index,
                count: match one.count {
                    DeviceCount::Exactly(count) => {
                        Some(usize::try_from(count).unwrap_or(usize::MAX))
                    }
                    DeviceCount::All => None,
                },
                access: one.access,
                consumed: self.consumed_capacity(one, &groups),
                groups,
            }
        });
        let mut requests: Vec<Request> = requests.collect();
        let needs_all = requests.iter().any(|request| request.count.is_none());
        let counts = requests.iter().map(|request| self.requested_device_count(request));
        let count = counts.fold(0, usize::saturating_add);
        if count > ClaimRequests::DEVICES_MAX || needs_all && !self.are_pools_complete(nodes) {
            return None;
        }
        let mut all = alternative.requests.iter().filter(|one| one.count == DeviceCount::All);
        if all.any(|one| self.repels(&one.selection, nodes)) {
            return None;
        }
        requests.sort_by_key(|request| request.access);
        let constraints = alternative.constraints.iter().zip(attributes);
        let constraints = constraints.map(|(one, attribute)| {
            let requests = one.requests.clone();
            Constraint { rule: one.rule, attribute, requests }
        });
        Some(Alternative { index, requests, constraints: constraints.collect() })
    }

    /// The devices that all these nodes can use.
    fn usable_devices(&self, nodes: &[usize]) -> impl Iterator<Item = &'a DeviceProperties> {
        let devices = self.available.devices.iter();
        devices.filter(|device| device.is_usable_from(nodes)).map(|device| device.properties)
    }

    fn are_pools_complete(&self, nodes: &[usize]) -> bool {
        self.usable_devices(nodes).all(|device| device.pool_is_complete)
    }

    /// Whether a device of the selection has taints that it does not tolerate.
    fn repels(&self, selection: &Name, nodes: &[usize]) -> bool {
        self.usable_devices(nodes).any(|device| device.repelled_kinds.contains(selection))
    }

    fn requested_device_count(&self, request: &Request) -> usize {
        let all = || request.groups.iter().map(|group| self.groups[*group].devices.len()).sum();
        request.count.unwrap_or_else(all)
    }

    /// What the request consumes of groups that can be shared.
    fn consumed_capacity(
        &self,
        request: &NodeDeviceRequest,
        groups: &[usize],
    ) -> BTreeMap<usize, Vec<i128>> {
        let of_group = |group: &usize| {
            let device = self.shared_device(&self.groups[*group])?;
            let consumed = device.properties.shared.as_ref()?.consumed.get(&request.selection);
            let amount = |name| consumed.and_then(|it| it.get(name)).copied().unwrap_or(0);
            Some((*group, device.capacity.keys().map(amount).collect()))
        };
        groups.iter().filter_map(of_group).collect()
    }

    fn attribute_index(&self, constraint: &AttributeConstraint) -> usize {
        let known = self.attributes.binary_search(&&constraint.attribute);
        known.expect("the attributes of all constraints are listed")
    }

    /// Indexes of the groups that match the request, in order of preference: groups with few
    /// devices alike in the constrained attributes, then devices that few other requests select,
    /// then the first device.
    fn groups_by_preference(
        &self,
        request: &NodeDeviceRequest,
        nodes: &[usize],
        attributes: &[usize],
        counts_used: bool,
    ) -> Vec<usize> {
        let known = self.selections.binary_search(&&request.selection);
        let selection = known.expect("the selections of all requests are listed");
        let values = |group: usize| {
            let values = &self.groups[group].signature.values;
            attributes.iter().map(|attribute| values[*attribute]).collect()
        };
        let is_usable = |group: &usize| {
            self.available.devices[self.groups[*group].devices[0]].is_usable_from(nodes)
        };
        let usable: Vec<usize> = (0..self.groups.len()).filter(is_usable).collect();
        let mut alike: BTreeMap<Vec<Option<&str>>, usize> = BTreeMap::new();
        for group in &usable {
            let devices = &self.groups[*group];
            let count = if counts_used { devices.devices.len() } else { devices.free };
            *alike.entry(values(*group)).or_default() += count;
        }
        let matches = |group: &usize| self.groups[*group].signature.matches[selection];
        let mut groups: Vec<usize> = usable.into_iter().filter(matches).collect();
        let first = |group: usize| match request.access {
            DeviceAccess::Exclusive => self.groups[group].first_free,
            DeviceAccess::Admin => group,
        };
        groups.sort_by_cached_key(|group| {
            (alike[&values(*group)], self.groups[*group].signature.kinds, first(*group))
        });
        groups
    }
}

/// Counters by their index; those that the pool does not have count as exhausted.
fn indexed_counters(counters: &DeviceAmounts, known: &[&Name]) -> Vec<(usize, i128)> {
    let indexed = |(name, amount): (&Name, &i128)| {
        (known.binary_search(&name).unwrap_or(UNKNOWN_COUNTER), *amount)
    };
    counters.iter().map(indexed).collect()
}
