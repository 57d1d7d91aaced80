//! Devices that a `ResourceSlice` publishes for several nodes: for all, or for those of a node
//! selector. They are not resources of a node. Instead, the core assigns one to each requested
//! device, as it assigns volumes to volume claims. Requests for node-local devices in the same
//! claim are handled as usual.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::{Value, json};
use schedlab_scheduler_core::{
    model::{
        DeviceAccess, DeviceCount, DeviceReach, DeviceRequest, Name, Node, Volume, VolumeReach,
    },
    plugins::assign_devices,
};

use super::{
    ClaimProblem, ClaimRecord, Device, DeviceAlternatives, DeviceId, DeviceSelection, ObjectKey,
    PickedDevice, PickedDevices, PodRecord, ResourceClaims, claim::DeviceRequestRecord,
    device::natural_order_key, device_set::DeviceSet, slice::NodeTerm,
};
use crate::parse::{Malformed, list};

/// A device that several nodes can use.
#[derive(Clone, Debug)]
pub(super) struct MultiNodeDevice {
    device: Device,
    /// Selects the nodes that can use the device; `None`: all nodes.
    term: Option<NodeTerm>,
    /// The device as a volume, which the core assigns to claims.
    volume: Arc<Volume>,
}

/// All multi-node devices.
#[derive(Debug, Default)]
pub(super) struct MultiNodeDevices {
    /// The devices, in the order of allocation: devices that fewer claims and nodes can use come
    /// first.
    devices: Vec<MultiNodeDevice>,
    /// Classes and selections without node-local devices, and whether any of their devices is a
    /// GPU.
    exclusive_kinds: BTreeMap<Name, bool>,
    /// Devices that are not allocated, or allocated only to a leftover claim.
    free: BTreeSet<DeviceId>,
}

impl MultiNodeDevice {
    pub(super) fn new(device: Device, term: Option<NodeTerm>) -> Self {
        let affinity = term.as_ref().map(|term| vec![term.parsed.clone()]);
        let DeviceId { driver, pool, device: own } = &device.id;
        let reach = VolumeReach { affinity, zones: Vec::new() };
        let given = Volume { name: format!("{driver}/{pool}/{own}").into(), reach };
        Self { device, term, volume: Arc::new(given) }
    }
}

impl MultiNodeDevices {
    pub(super) fn new(mut devices: Vec<MultiNodeDevice>) -> Self {
        devices.sort_by_cached_key(|MultiNodeDevice { device, term, .. }| {
            let DeviceId { driver, pool, device: own } = device.id.clone();
            (device.kinds.len(), term.is_none(), driver, pool, natural_order_key(&own))
        });
        Self { devices, ..Self::default() }
    }

    pub(super) fn all_devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().map(|wide| &wide.device)
    }

    pub(super) fn all_devices_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        self.devices.iter_mut().map(|wide| &mut wide.device)
    }

    fn get(&self, id: &DeviceId) -> Option<&MultiNodeDevice> {
        self.devices.iter().find(|wide| wide.device.id == *id)
    }
}

impl ResourceClaims {
    /// Recomputes which kinds have multi-node devices only.
    pub(super) fn classify_multi_node_kinds(&mut self) {
        let mut alone: BTreeMap<Name, bool> = BTreeMap::new();
        for device in self.multi_node.all_devices() {
            for kind in &device.kinds {
                *alone.entry(Name::clone(kind)).or_default() |= device.is_gpu;
            }
        }
        if !alone.is_empty() {
            for device in self.devices.values().flatten() {
                alone.retain(|kind, _| !device.kinds.contains(kind));
            }
        }
        self.multi_node.exclusive_kinds = alone;
    }

    /// From which nodes a claim can use its allocated multi-node devices, or the multi-node devices
    /// that it may get.
    ///
    /// # Errors
    /// The request for multi-node devices is not supported.
    pub(super) fn claim_reach(
        &self,
        key: &ObjectKey,
        claim: &ClaimRecord,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Result<DeviceReach, ClaimProblem> {
        let allocation = claim.allocation.as_ref().filter(|_| !claim.is_leftover(key, pods));
        if let Some(allocation) = allocation {
            let had = || DeviceReach::Allocated(allocation.terms.clone());
            return Ok(if self.requests_charged_gpus(claim) {
                DeviceReach::NodeLocal
            } else {
                had()
            });
        }
        if self.multi_node.devices.is_empty() {
            return Ok(DeviceReach::NodeLocal);
        }
        if let Some(why) = self.unsupported_reason(claim) {
            return Err(ClaimProblem::Malformed(Name::clone(&key.name), why));
        }
        let wishes =
            self.free_devices_by_request(key, claim, |id| self.multi_node.free.contains(id));
        Ok(match (wishes, self.node_local_alternatives(claim)) {
            (None, _) => DeviceReach::NodeLocal,
            (Some(wishes), None) => DeviceReach::Pending(wishes),
            (Some(wishes), Some(_)) => DeviceReach::PendingWithNodeLocal(wishes),
        })
    }

    /// The claim's requests for multi-node devices; `None` if there are none or they are not
    /// supported.
    fn multi_node_requests(&self, claim: &ClaimRecord) -> Option<DeviceSet> {
        let set = claim.requests.as_ref().ok()?.unconstrained_set()?;
        let is_wide = |one: &DeviceRequestRecord| {
            self.multi_node.exclusive_kinds.contains_key(&one.selection.name())
        };
        let wide = set.with_only_requests(is_wide);
        let can_be_given = wide.is_plain()
            && !set.has_admin_requests()
            && wide.requests().iter().all(|one| self.is_supported(one));
        let is_wanted = !wide.requests().is_empty();
        (is_wanted && can_be_given).then_some(wide)
    }

    /// Whether the claim has supported requests for multi-node devices.
    pub(super) fn requests_multi_node(&self, key: &ObjectKey) -> bool {
        self.claims.get(key).is_some_and(|claim| self.multi_node_requests(claim).is_some())
    }

    /// The requests for node-local devices; `None` if there are none.
    pub(super) fn node_local_alternatives<'a>(
        &self,
        claim: &'a ClaimRecord,
    ) -> Option<Cow<'a, DeviceAlternatives>> {
        let wanted = claim.requests.as_ref().ok()?;
        if self.multi_node_requests(claim).is_none() {
            return Some(Cow::Borrowed(wanted));
        }
        let is_wide = |one: &DeviceRequestRecord| {
            self.multi_node.exclusive_kinds.contains_key(&one.selection.name())
        };
        let of_node = wanted.unconstrained_set()?.with_only_requests(|one| !is_wide(one));
        (!of_node.requests().is_empty())
            .then(|| Cow::Owned(DeviceAlternatives::from_single_set(of_node)))
    }

    /// Whether the claim requests GPUs, which queues are charged for.
    fn requests_charged_gpus(&self, claim: &ClaimRecord) -> bool {
        let mut wanted = claim.requests.iter().flat_map(DeviceAlternatives::exclusive_requests);
        wanted.any(|one| self.is_gpu_class(&one.selection.class))
    }

    /// The free multi-node devices for each request of the claim; `None` if it requests none.
    fn free_devices_by_request(
        &self,
        key: &ObjectKey,
        claim: &ClaimRecord,
        is_free: impl Fn(&DeviceId) -> bool,
    ) -> Option<Vec<DeviceRequest>> {
        let set = self.multi_node_requests(claim)?;
        let wishes =
            set.requested_devices().map(|(DeviceRequestRecord { request, selection, .. }, at)| {
                DeviceRequest {
                    name: requested_device_name(key, request, at),
                    devices: self.matching_multi_node_devices(selection, &is_free),
                }
            });
        Some(wishes.collect())
    }

    /// Whether only multi-node devices can satisfy the request, and they can be allocated for it.
    fn is_supported(&self, wanted: &DeviceRequestRecord) -> bool {
        let is_gpu = self.multi_node.exclusive_kinds.get(&wanted.selection.name());
        is_gpu == Some(&false) && !self.is_gpu_class(&wanted.selection.class)
    }

    fn matching_multi_node_devices(
        &self,
        selection: &DeviceSelection,
        is_free: impl Fn(&DeviceId) -> bool,
    ) -> Vec<Arc<Volume>> {
        let name = selection.name();
        let of_it = self.multi_node.devices.iter().filter(|wide| wide.device.kinds.contains(&name));
        let free = of_it.filter(|wide| is_free(&wide.device.id));
        free.map(|wide| Arc::clone(&wide.volume)).collect()
    }

    /// Why a claim that needs multi-node devices gets none.
    fn unsupported_reason(&self, claim: &ClaimRecord) -> Option<Malformed> {
        let choices = claim.requests.as_ref().ok()?;
        let is_wide = |one: &DeviceRequestRecord| {
            self.multi_node.exclusive_kinds.contains_key(&one.selection.name())
        };
        if !choices.every_set_has(is_wide) {
            return None;
        }
        let why = |field: &str, found: &str, allowed: &'static str| {
            let field = format!("spec.devices.{field}");
            Some(Malformed::new(field, format!("{found} multi-node devices"), allowed))
        };
        if choices.has_alternatives() {
            return why("requests", "firstAvailable of", "exactly");
        }
        if choices.requests().any(|one| one.access == DeviceAccess::Admin && is_wide(one)) {
            return why("requests", "adminAccess to", "adminAccess to node-local devices");
        }
        if choices.requests().any(|one| one.access == DeviceAccess::Admin) {
            return why(
                "requests",
                "adminAccess beside",
                "one claim for node-local devices and another for multi-node devices",
            );
        }
        if choices.counted_name().is_some() && !choices.requests().all(is_wide) {
            return why(
                "constraints",
                "some beside",
                "one claim for node-local devices and another for multi-node devices",
            );
        }
        if choices.counted_name().is_some() {
            return why("constraints", "some on", "none");
        }
        if choices.requests().any(|one| one.count == DeviceCount::All && is_wide(one)) {
            return why("requests", "allocationMode All of", "allocationMode ExactCount");
        }
        if choices.requests().any(|one| is_wide(one) && !self.is_supported(one)) {
            return why(
                "requests",
                "GPUs among",
                "node-local GPUs, since queues are charged for GPUs",
            );
        }
        None
    }

    /// Picks free multi-node devices for each of these claims, which pods on these nodes use.
    /// Claims that are missing in the result request none or cannot be satisfied.
    pub(super) fn pick_multi_node(
        &self,
        claims: &[(&ObjectKey, Vec<&Node>)],
    ) -> BTreeMap<ObjectKey, PickedDevices> {
        let is_free = |id: &DeviceId| !self.allocated_devices.contains_key(id);
        let wishes =
            |key: &ObjectKey| self.free_devices_by_request(key, self.claims.get(key)?, is_free);
        let wanted: Vec<(&ObjectKey, Vec<DeviceRequest>, &[&Node])> = claims
            .iter()
            .filter_map(|(key, nodes)| Some((*key, wishes(key)?, nodes.as_slice())))
            .collect();
        let places = wanted
            .iter()
            .flat_map(|(_, wishes, nodes)| nodes.iter().map(|node| (wishes.as_slice(), *node)));
        let chosen = assign_devices(places);
        let by_name: BTreeMap<&Name, &DeviceId> = self
            .multi_node
            .devices
            .iter()
            .map(|wide| (&wide.volume.name, &wide.device.id))
            .collect();
        let picked = wanted.iter().filter_map(|(key, _, _)| {
            let set = self.multi_node_requests(self.claims.get(*key)?)?;
            let its = set.requested_devices().map(|(DeviceRequestRecord { request, .. }, at)| {
                let device = by_name.get(chosen.get(&requested_device_name(key, request, at))?)?;
                let (request, device) = (Name::clone(request), (*device).clone());
                Some(PickedDevice {
                    request,
                    device,
                    access: DeviceAccess::Exclusive,
                    consumed: None,
                })
            });
            Some(((*key).clone(), its.collect::<Option<PickedDevices>>()?))
        });
        picked.collect()
    }

    /// `nodeSelector` of an allocation of these devices to a pod on the node, as in kube-scheduler:
    /// the name of the node if any device is node-local, else the terms of all devices. `None` if
    /// all nodes can use them.
    pub(crate) fn node_selector(&self, picked: &PickedDevices, node: &Name) -> Option<Value> {
        let wide: Option<Vec<&MultiNodeDevice>> =
            picked.iter().map(|one| self.multi_node.get(&one.device)).collect();
        let Some(wide) = wide.filter(|wide| !wide.is_empty()) else {
            return Some(node_name_selector(node));
        };
        let terms: Vec<&Value> =
            wide.iter().filter_map(|wide| Some(&wide.term.as_ref()?.raw)).collect();
        let mut term = json!({});
        for part in ["matchExpressions", "matchFields"] {
            let all = distinct_requirements(&terms, part);
            if !all.is_empty() {
                term[part] = all.into_iter().cloned().collect();
            }
        }
        (!terms.is_empty()).then(|| json!({ "nodeSelectorTerms": [term] }))
    }
}

/// A node selector of this node alone.
pub(super) fn node_name_selector(node: &Name) -> Value {
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [&**node] });
    json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] })
}

/// The distinct requirements of the terms.
fn distinct_requirements<'t>(terms: &[&'t Value], part: &str) -> Vec<&'t Value> {
    let mut all: Vec<&Value> = Vec::new();
    for one in terms.iter().flat_map(|term| list(term, &format!("/{part}"))) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// Name of a requested device: claim, request and index.
fn requested_device_name(key: &ObjectKey, request: &Name, index: i64) -> Name {
    format!("{key} {request} {index}").into()
}

impl ResourceClaims {
    /// Recomputes which multi-node devices are free; returns whether that changed. Waiting pods may
    /// get only these. Devices of leftover claims count as free, since these are released before
    /// pods are bound.
    pub(crate) fn refresh_free_multi_node_devices(
        &mut self,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> bool {
        if self.multi_node.devices.is_empty() && self.multi_node.free.is_empty() {
            return false;
        }
        let left_over = self.claims.iter().filter(|(key, it)| it.is_leftover(key, pods));
        let allocations = left_over.filter_map(|(_, claim)| claim.allocation.as_ref());
        let left_over: BTreeSet<&DeviceId> =
            allocations.flat_map(|allocation| allocation.devices.keys()).collect();
        let ids = self.multi_node.all_devices().map(|device| &device.id);
        let free =
            ids.filter(|id| !self.allocated_devices.contains_key(*id) || left_over.contains(*id));
        let free: BTreeSet<DeviceId> = free.cloned().collect();
        let has_changed = free != self.multi_node.free;
        self.multi_node.free = free;
        has_changed
    }
}

#[cfg(test)]
mod tests;
