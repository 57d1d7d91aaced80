//! Devices that a `ResourceSlice` publishes for several nodes: for all, or for those of a node
//! selector. Each node that can use such a device lists it beside its own devices, and the core
//! allocates the claims of all these nodes together.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::{Value, json};
use schedlab_scheduler_core::model::{
    DeviceAmounts, DeviceProperties, DeviceReach, Name, Node, NodeDevice,
};

use super::{
    ClaimProblem, ClaimRecord, Device, DeviceAlternatives, DeviceId, DeviceSelection,
    GpuAccounting, ObjectKey, PickedDevices, PodRecord, ResourceClaims, claim::DeviceRequestRecord,
    device::natural_order_key, slice::NodeTerm,
};
use crate::parse::{Malformed, list};

/// A device that several nodes can use.
#[derive(Clone, Debug)]
pub(super) struct MultiNodeDevice {
    device: Device,
    /// Selects the nodes that can use the device; `None`: all nodes.
    term: Option<NodeTerm>,
    /// The properties that the core knows; `None`: the device is allocated to no claim.
    properties: Option<Arc<DeviceProperties>>,
}

/// All multi-node devices.
#[derive(Debug, Default)]
pub(super) struct MultiNodeDevices {
    /// The devices, in the order of allocation: devices that fewer claims and nodes can use come
    /// first.
    devices: Vec<MultiNodeDevice>,
    usage: MultiNodeUsage,
}

/// What claims use of the multi-node devices.
#[derive(Debug, Default, PartialEq, Eq)]
struct MultiNodeUsage {
    /// The devices with their claims, without leftover claims.
    listed: Vec<ListedDevice>,
    /// What is left of the counters that the devices consume.
    counters: DeviceAmounts,
}

/// A device as the nodes that can use it list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedDevice {
    pub(super) id: DeviceId,
    pub(super) device: NodeDevice,
    term: Option<NodeTerm>,
}

impl MultiNodeDevice {
    pub(super) fn new(device: Device, term: Option<NodeTerm>) -> Self {
        Self { device, term, properties: None }
    }
}

impl ListedDevice {
    /// Whether pods on the node can use the device.
    pub(super) fn is_usable_from(&self, node: &Node) -> bool {
        self.term.as_ref().is_none_or(|term| term.parsed.matches_node(node))
    }
}

impl MultiNodeDevices {
    pub(super) fn new(mut devices: Vec<MultiNodeDevice>) -> Self {
        devices.sort_by_cached_key(|MultiNodeDevice { device, term, .. }| {
            let DeviceId { driver, pool, device: own } = device.id.clone();
            (device.kinds.len(), term.is_none(), driver, pool, natural_order_key(&own))
        });
        Self { devices, usage: MultiNodeUsage::default() }
    }

    pub(super) fn all_devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().map(|wide| &wide.device)
    }

    pub(super) fn all_devices_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        self.devices.iter_mut().map(|wide| &mut wide.device)
    }

    /// The devices that pods on the node can use, with the claims that keep them.
    pub(super) fn usable_from<'s>(
        &'s self,
        node: &'s Node,
    ) -> impl Iterator<Item = &'s ListedDevice> {
        self.usage.listed.iter().filter(|listed| listed.is_usable_from(node))
    }

    fn get(&self, id: &DeviceId) -> Option<&MultiNodeDevice> {
        self.devices.iter().find(|wide| wide.device.id == *id)
    }

    /// Whether a request may get one of the devices, or is kept from all of its devices by the taint
    /// of one.
    fn may_satisfy(&self, selection: &DeviceSelection) -> bool {
        let name = selection.name();
        let mut usable = self.devices.iter().filter_map(|wide| wide.properties.as_ref());
        usable.any(|device| device.kinds.contains(&name) || device.repelled_kinds.contains(&name))
    }
}

impl ResourceClaims {
    /// Recomputes the properties of multi-node devices. Where queues are charged for GPUs, a
    /// multi-node GPU is allocated to no claim, and requests for GPUs get no other device.
    pub(super) fn classify_multi_node_devices(&mut self) {
        let is_charged = self.gpu_accounting == GpuAccounting::AsGpus;
        let classes = self.classes.keys().map(|class| (Name::clone(class), class));
        let selections = self.selections.iter().map(|one| (one.name(), &one.class));
        let gpu_kinds = classes.chain(selections).filter(|(_, class)| self.is_gpu_class(class));
        let gpu_kinds: BTreeSet<Name> = gpu_kinds.map(|(kind, _)| kind).collect();
        for wide in &mut self.multi_node.devices {
            let mut properties =
                DeviceProperties { is_multi_node: true, ..wide.device.properties() };
            for kinds in [&mut properties.kinds, &mut properties.repelled_kinds] {
                kinds.retain(|kind| !gpu_kinds.contains(kind));
            }
            let is_usable = !(is_charged && wide.device.is_gpu);
            wide.properties = is_usable.then(|| Arc::new(properties));
        }
    }

    /// From which nodes a claim can use its allocated multi-node devices, or those that it may get.
    ///
    /// # Errors
    /// The claim requests GPUs that several nodes can use, and queues are charged for GPUs.
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
        if let Some(why) = self.unsupported_reason(claim) {
            return Err(ClaimProblem::Malformed(Name::clone(&key.name), why));
        }
        Ok(match claim.requests.as_ref() {
            Ok(requests) if self.may_be_multi_node(claim) => {
                let is_of_node =
                    |one: &DeviceRequestRecord| !self.multi_node.may_satisfy(&one.selection);
                if requests.every_set_has(is_of_node) {
                    DeviceReach::PendingWithNodeLocal
                } else {
                    DeviceReach::Pending
                }
            }
            Ok(_) | Err(_) => DeviceReach::NodeLocal,
        })
    }

    /// Whether a request of the claim may get a multi-node device.
    pub(super) fn may_be_multi_node(&self, claim: &ClaimRecord) -> bool {
        let mut requests = claim.requests.iter().flat_map(DeviceAlternatives::requests);
        requests.any(|one| self.multi_node.may_satisfy(&one.selection))
    }

    /// Whether only devices of one node can satisfy the request.
    pub(super) fn is_of_one_node(&self, selection: &DeviceSelection) -> bool {
        !self.multi_node.may_satisfy(selection)
    }

    /// Whether the claim requests GPUs, which queues are charged for.
    fn requests_charged_gpus(&self, claim: &ClaimRecord) -> bool {
        let mut wanted = claim.requests.iter().flat_map(DeviceAlternatives::exclusive_requests);
        wanted.any(|one| self.is_gpu_class(&one.selection.class))
    }

    /// Why a claim that needs multi-node GPUs gets none.
    fn unsupported_reason(&self, claim: &ClaimRecord) -> Option<Malformed> {
        let unused = |wide: &&MultiNodeDevice| wide.properties.is_none();
        if !self.multi_node.devices.iter().any(|wide| unused(&wide)) {
            return None;
        }
        let needs_unused = |one: &DeviceRequestRecord| {
            let name = one.selection.name();
            let is_of_kind = |device: &Device| device.kinds.contains(&name);
            let mut unused = self.multi_node.devices.iter().filter(unused);
            unused.any(|wide| is_of_kind(&wide.device))
                && !self.devices.values().flatten().any(is_of_kind)
                && !self.multi_node.may_satisfy(&one.selection)
        };
        let requests = claim.requests.as_ref().ok()?;
        requests.every_set_has(needs_unused).then(|| {
            Malformed::new(
                "spec.devices.requests",
                "GPUs among multi-node devices",
                "node-local GPUs, since queues are charged for GPUs",
            )
        })
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

impl ResourceClaims {
    /// Recomputes what claims use of the multi-node devices; returns whether that changed. Devices
    /// of leftover claims count as free, since these are released before pods are bound.
    pub(crate) fn refresh_multi_node_usage(
        &mut self,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> bool {
        if self.multi_node.devices.is_empty() && self.multi_node.usage.listed.is_empty() {
            return false;
        }
        let left_over = self.claims.iter().filter(|(key, it)| it.is_leftover(key, pods));
        let left_over: BTreeSet<String> = left_over.map(|(key, _)| key.to_string()).collect();
        let listed = self.listed_multi_node_devices(|claim| !left_over.contains(&**claim));
        let consumed = self.multi_node.all_devices().flat_map(|device| device.counters.keys());
        let counters = self.counters_left(consumed, |device| {
            self.is_in_use_by(&device.id, |claim| !left_over.contains(&**claim))
        });
        let usage = MultiNodeUsage { listed, counters };
        let has_changed = usage != self.multi_node.usage;
        self.multi_node.usage = usage;
        has_changed
    }

    /// The devices that claims can get, with those of their claims for which `is_kept` holds.
    pub(super) fn listed_multi_node_devices(
        &self,
        is_kept: impl Fn(&Name) -> bool,
    ) -> Vec<ListedDevice> {
        let listed = |wide: &MultiNodeDevice| {
            let id = &wide.device.id;
            let device = self.node_device(id, wide.properties.as_ref()?, &is_kept);
            Some(ListedDevice { id: id.clone(), device, term: wide.term.clone() })
        };
        self.multi_node.devices.iter().filter_map(listed).collect()
    }
}

#[cfg(test)]
mod tests;
