//! Devices of a node, and what an unallocated claim requests of them. Counts of devices are
//! resources; these details decide where counts are not exact: alternatives and constraints.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Name;

/// A device that only the pods of one node can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDevice {
    /// Driver, pool and name.
    pub name: Name,
    /// What its `ResourceSlice` and the device classes say about it.
    pub properties: Arc<DeviceProperties>,
    /// Namespace and name of the claim that it is allocated to; `None` for a device that claims
    /// share.
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
    /// Names of the selections (classes, or classes with selectors) that match it.
    pub kinds: BTreeSet<Name>,
    /// Attributes by fully qualified name.
    pub attributes: BTreeMap<Name, String>,
    /// All `ResourceSlices` of its pool are published.
    pub pool_is_complete: bool,
    /// Counters of its pool that it consumes while it is allocated (`consumesCounters`).
    pub counters: DeviceAmounts,
    /// It can be allocated several times (`allowMultipleAllocations`).
    pub shared: Option<SharedDevice>,
    /// It has a taint that keeps some requests off. A claim that has it may be of a kind that it
    /// does not have.
    pub is_tainted: bool,
}

/// A device that several requests can use at once, as far as its capacity suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedDevice {
    /// Its capacity.
    pub capacity: DeviceAmounts,
    /// By kind: what a request for a device of this kind consumes of its capacity.
    pub consumed: BTreeMap<Name, DeviceAmounts>,
}

/// What a claim requests of the devices of one node: the first alternative that can be allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRequests {
    /// In order of preference: every combination of `firstAvailable` entries of its requests.
    pub alternatives: Vec<ClaimAlternative>,
}

/// Requests that are allocated together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimAlternative {
    /// In the order of the claim.
    pub requests: Vec<NodeDeviceRequest>,
    /// Constraints on attributes.
    pub constraints: Vec<AttributeConstraint>,
}

/// A request for devices of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeDeviceRequest {
    /// Name of the request; `request/alternative` for an alternative.
    pub name: Name,
    /// The selection that its devices match: one of [`DeviceProperties::kinds`].
    pub selection: Name,
    /// How many devices it gets.
    pub count: DeviceCount,
    /// How it uses them.
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
    /// No other claim may use them.
    Exclusive,
    /// Beside any other claims (`adminAccess`).
    Admin,
}

/// A rule for the values that the devices of some requests have of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttributeConstraint {
    /// How the values relate.
    pub rule: AttributeRule,
    /// Fully qualified name.
    pub attribute: Name,
    /// Indexes of the requests.
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
        self.is_tainted || self.shared.is_some() || !self.counters.is_empty()
    }
}

impl ClaimRequests {
    /// Maximum number of devices of a claim (`resource.k8s.io`).
    pub const DEVICES_MAX: usize = 32;

    /// Whether counting devices by kind does not tell if the claim can be allocated.
    pub fn needs_search(&self) -> bool {
        match self.alternatives.as_slice() {
            [] => false,
            [only] => only.needs_search(),
            _ => true,
        }
    }
}

impl ClaimAlternative {
    /// It has constraints, or requests with and without admin access.
    fn needs_search(&self) -> bool {
        let has = |access| self.requests.iter().any(|request| request.access == access);
        !self.constraints.is_empty() || has(DeviceAccess::Admin) && has(DeviceAccess::Exclusive)
    }
}
