//! Devices that a node can use, and what an unallocated claim requests of them. Counts of devices are
//! resources; these details decide where counts are not exact: alternatives and constraints.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Name;

/// A device that the pods of a node can use: those of one node, or of several
/// ([`DeviceProperties::is_multi_node`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDevice {
    /// Driver, pool and name of the device, unique among the multi-node devices.
    pub name: Name,
    /// What the `ResourceSlice` of the device and the device classes say about it.
    pub properties: Arc<DeviceProperties>,
    /// Namespace and name of the claim to which the device is allocated; `None` for a device that
    /// claims share.
    pub allocated_to: Option<Name>,
    /// The claims that share it, if it allows multiple allocations.
    pub shares: Vec<AllocatedShare>,
}

/// A share of a device that a claim has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedShare {
    /// Namespace and name of the claim.
    pub claim: Name,
    /// What it consumes of the device.
    pub consumed: DeviceAmounts,
}

/// Amounts of counters or of capacity in thousandths, by name.
pub type DeviceAmounts = BTreeMap<Name, i128>;

/// The properties of a device, as far as allocation depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceProperties {
    /// Names of the device selections (classes, or classes with selectors) that match the device.
    pub kinds: BTreeSet<Name>,
    /// Attributes of the device, by fully qualified name.
    pub attributes: BTreeMap<Name, String>,
    /// Whether all `ResourceSlices` of the device's pool are published.
    pub pool_is_complete: bool,
    /// Counters of its pool that it consumes while it is allocated (`consumesCounters`).
    pub counters: DeviceAmounts,
    /// It can be allocated several times (`allowMultipleAllocations`).
    pub shared: Option<SharedDevice>,
    /// It has a taint that keeps some requests off. A claim that has it may be of a kind that it
    /// does not have.
    pub is_tainted: bool,
    /// Device selections that would match it, but do not tolerate its taints. A request for all
    /// devices of such a selection cannot be served.
    pub repelled_kinds: BTreeSet<Name>,
    /// Several nodes can use it: each of them lists it. No pod is evicted for it.
    pub is_multi_node: bool,
}

/// A device that several requests can use at once, as far as its capacity suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedDevice {
    /// Its capacity.
    pub capacity: DeviceAmounts,
    /// By kind: what a request for a device of this kind consumes of its capacity.
    pub consumed: BTreeMap<Name, DeviceAmounts>,
}

/// What a claim requests of the devices that a node can use: the first alternative that can be allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRequests {
    /// The alternatives in order of preference: every combination of `firstAvailable` entries of
    /// the claim's requests.
    pub alternatives: Vec<ClaimAlternative>,
}

/// Requests that are allocated together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimAlternative {
    /// The requests, in the order of the claim.
    pub requests: Vec<NodeDeviceRequest>,
    /// The Constraints on attributes among the requests.
    pub constraints: Vec<AttributeConstraint>,
}

/// A request for devices of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeDeviceRequest {
    /// Name of the request; `request/alternative` for an alternative.
    pub name: Name,
    /// The device selection that the request's devices must match: one of
    /// [`DeviceProperties::kinds`].
    pub selection: Name,
    /// How many devices the request gets.
    pub count: DeviceCount,
    /// How the request uses its devices.
    pub access: DeviceAccess,
}

/// How many devices a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceCount {
    /// `allocationMode: ExactCount`.
    Exactly(i64),
    /// `allocationMode: All`: all devices of the node, at least one.
    All,
}

/// How a request uses its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceAccess {
    /// No other claim may use the devices.
    Exclusive,
    /// The devices may be in use by other claims (`adminAccess`).
    Admin,
}

/// A rule for the values that the devices of some requests have of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttributeConstraint {
    /// How the values relate.
    pub rule: AttributeRule,
    /// Fully qualified name of the attribute.
    pub attribute: Name,
    /// Indexes of the requests that the constraint applies to.
    pub requests: Vec<usize>,
}

/// How the values of an attribute relate. A device without the attribute never fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttributeRule {
    /// All are equal (`matchAttribute`).
    Match,
    /// All are different (`distinctAttribute`).
    Distinct,
}

impl DeviceProperties {
    /// Whether counting devices by kind does not tell if it can be allocated.
    pub fn needs_search(&self) -> bool {
        let Self { is_tainted, is_multi_node, shared, counters, .. } = self;
        *is_tainted || *is_multi_node || shared.is_some() || !counters.is_empty()
    }
}

impl ClaimRequests {
    /// Maximum number of devices of a claim (`resource.k8s.io`).
    pub const DEVICES_MAX: usize = 32;

    /// Whether counting devices by kind does not tell if the claim can be allocated, so that a
    /// search is needed.
    pub fn needs_allocation_search(&self) -> bool {
        match self.alternatives.as_slice() {
            [] => false,
            [only] => only.needs_allocation_search(),
            _ => true,
        }
    }
}

impl ClaimAlternative {
    /// Whether the alternative has constraints, or requests both with and without admin access.
    fn needs_allocation_search(&self) -> bool {
        let has = |access| self.requests.iter().any(|request| request.access == access);
        !self.constraints.is_empty() || has(DeviceAccess::Admin) && has(DeviceAccess::Exclusive)
    }
}
