//! Dynamic resource allocation (`resource.k8s.io/v1`): published devices, device classes and
//! claims. From these follow the devices that a pod gets by its claims and the devices that a node
//! has for new claims.

#[cfg(test)]
mod admin_access;
mod allocation;
mod alternatives;
mod binding_state;
mod capacity;
mod claim;
pub(crate) mod claim_patches;
mod device;
mod device_set;
mod driver_config;
mod expression;
mod extended_resources;
mod gpu_classes;
mod kind_unions;
mod multi_node;
mod problem;
mod slice;
mod taints;
mod unused;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::Value;
use schedlab_scheduler_core::{
    devices::AvailableDevices,
    model::{
        AllocatedShare, ClaimRequests, DeviceAmounts, DeviceClaim, DeviceCount, DeviceProperties,
        DeviceReach, Name, Node, NodeDevice, VolumeClaim,
    },
    resources::Resources,
};

pub(crate) use allocation::{PickedDevice, PickedDevices};
pub(crate) use alternatives::DeviceAlternatives;
pub(crate) use binding_state::BindingState;
pub(crate) use claim::{ClaimAllocation, ClaimRecord};
pub(crate) use device::{Device, DeviceId, DeviceSelection};
pub(crate) use extended_resources::ExtendedResourceClaim;
pub(crate) use problem::ClaimProblem;
pub(crate) use slice::SliceFault;

use crate::{
    config::Flavor,
    records::{ObjectKey, PodRecord, insert_if_changed},
};
use claim::ClaimShare;
use device::{DeviceClassRecord, DeviceSources, published_devices};
use multi_node::MultiNodeDevices;
use slice::SliceRecord;
use taints::TaintRule;
use unused::UnusedClaims;

/// Maximum number of devices of a claim, as in `resource.k8s.io`.
const DEVICES_MAX: i64 = 32;
const _: () = assert!(ClaimRequests::DEVICES_MAX == 32);

/// How GPUs that are published as devices are accounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GpuAccounting {
    /// As GPUs, which queues are charged for and which no device plugin allocates (profile `kai`).
    #[default]
    AsGpus,
    /// As devices like all others, separate from the GPUs of a device plugin (profile `kube`).
    AsDevices,
}

/// All DRA objects of the cluster, with indexes over them.
#[derive(Debug, Default)]
pub(crate) struct ResourceClaims {
    gpu_accounting: GpuAccounting,
    pub(crate) claims: BTreeMap<ObjectKey, ClaimRecord>,
    classes: BTreeMap<Name, DeviceClassRecord>,
    slices: BTreeMap<Name, SliceRecord>,
    /// The devices of slices with the kinds that they count as, by node.
    devices: BTreeMap<Name, Vec<Device>>,
    /// The properties of `devices` that the core knows, in the same order.
    properties: BTreeMap<Name, Vec<Arc<DeviceProperties>>>,
    /// Devices that several nodes can use.
    multi_node: MultiNodeDevices,
    /// Rules that taint devices.
    taint_rules: BTreeMap<Name, TaintRule>,
    /// What the pools have of their shared counters.
    counters: DeviceAmounts,
    /// The nodes with devices that consume a counter.
    counter_nodes: BTreeMap<Name, BTreeSet<Name>>,
    /// Slices with devices that are not used.
    device_faults: Vec<(Name, SliceFault)>,
    /// Classes whose devices are all GPUs although their names do not contain `gpu`.
    gpu_classes: BTreeSet<Name>,
    /// Classes that select only devices that can be shared.
    shared_classes: BTreeSet<Name>,
    /// Classes and selections that select exactly the GPUs. They are not counted separately: their
    /// devices count as GPUs.
    uncounted_kinds: BTreeSet<Name>,
    /// The broader kinds that the devices of a class or selection count as, besides that kind.
    broader_kinds: BTreeMap<Name, BTreeSet<Name>>,
    /// Selections with expressions of their own.
    selections: BTreeSet<DeviceSelection>,
    /// Selections with `allocationMode: All`.
    all_mode_selections: BTreeSet<DeviceSelection>,
    /// Device sets with constraints or alternatives that claims request, by the name that they are
    /// counted as.
    device_sets: BTreeMap<Name, DeviceAlternatives>,
    /// Allocated devices, with the claim that holds each.
    allocated_devices: BTreeMap<DeviceId, DeviceHolder>,
    /// Devices of which claims have shares.
    shares: BTreeMap<DeviceId, Vec<AllocatedShare>>,
    /// Claims that are allocated for pods that did not get their node, by node.
    leftovers: BTreeMap<Name, BTreeSet<Name>>,
    /// Allocated claims that no pod with a node uses.
    unused_claims: UnusedClaims,
    /// Slices, classes or selections have changed since the last refresh.
    is_stale: bool,
    /// Pods with claims.
    pub(super) pods: BTreeSet<ObjectKey>,
}

/// The claim that a device is allocated to.
#[derive(Clone, Debug)]
struct DeviceHolder {
    /// Namespace and name.
    claim: Name,
    /// What the request selects; `None` if the claim is malformed: the devices of a malformed claim
    /// are not counted.
    selection: Option<DeviceSelection>,
}

/// The resources that a pod gets by its claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimedResources {
    /// Resources by claims that only this pod uses, and that are not allocated or that the pod
    /// holds already.
    pub(crate) own: Resources,
    /// The requests of the claims that only this pod uses.
    pub(crate) own_requests: Vec<Arc<ClaimRequests>>,
    /// Namespaces and names of the claims that only this pod uses. They are kept with the pod, so
    /// that pods with equal requests share a shape.
    pub(crate) own_names: Vec<Name>,
    /// All other claims of the pod.
    pub(crate) shared: Vec<DeviceClaim>,
    /// Device classes of GPUs that the pod requests.
    pub(crate) gpu_classes: BTreeSet<Name>,
    /// Requests for extended resources that these claims serve.
    pub(crate) served: Resources,
    /// Claims on volumes of the pod.
    pub(crate) volumes: Vec<VolumeClaim>,
}

impl ClaimedResources {
    /// Moves the requests and the name of a claim that only this pod uses from the claim to the
    /// pod.
    fn add_own_requests(&mut self, claim: &mut DeviceClaim) {
        if let Some(requests) = claim.requests.take() {
            self.own_requests.push(requests);
            self.own_names.push(Name::clone(&claim.name));
        }
    }
}

/// The resources that a claim requests: a fixed number on any node, and by node all devices of a
/// selection.
#[derive(Default)]
struct ClaimRequest {
    devices: Resources,
    all_devices: BTreeMap<Name, Resources>,
}

impl ResourceClaims {
    /// Sets how GPUs that are published as devices are accounted.
    pub(crate) fn set_flavor(&mut self, flavor: Flavor) {
        self.gpu_accounting = match flavor {
            Flavor::Kai => GpuAccounting::AsGpus,
            Flavor::Kube => GpuAccounting::AsDevices,
        };
    }

    /// Whether slices, classes or selections have changed since the last refresh.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Inserts a slice. Returns whether its record differs from the one before.
    pub(super) fn upsert_slice(&mut self, name: Name, object: &Value) -> bool {
        let changed = insert_if_changed(&mut self.slices, name, SliceRecord::from_object(object));
        self.is_stale |= changed;
        changed
    }

    pub(super) fn upsert_class(&mut self, name: Name, object: &Value) -> bool {
        let changed =
            insert_if_changed(&mut self.classes, name, DeviceClassRecord::from_object(object));
        self.is_stale |= changed;
        changed
    }

    pub(super) fn remove_slice(&mut self, name: &Name) -> bool {
        let gone = self.slices.remove(name).is_some();
        self.is_stale = true;
        gone
    }

    pub(super) fn remove_class(&mut self, name: &Name) -> bool {
        let gone = self.classes.remove(name).is_some();
        self.is_stale = true;
        gone
    }

    /// Returns whether the rule differs from the one before.
    pub(super) fn upsert_taint_rule(&mut self, name: Name, object: &Value) -> bool {
        let changed =
            insert_if_changed(&mut self.taint_rules, name, TaintRule::from_object(object));
        self.is_stale |= changed;
        changed
    }

    pub(super) fn remove_taint_rule(&mut self, name: &Name) -> bool {
        let gone = self.taint_rules.remove(name).is_some();
        self.is_stale |= gone;
        gone
    }

    pub(super) fn clear_taint_rules(&mut self) {
        self.is_stale |= !self.taint_rules.is_empty();
        self.taint_rules.clear();
    }

    /// Whether any devices are published.
    pub(super) fn has_slices(&self) -> bool {
        !self.slices.is_empty()
    }

    pub(super) fn clear_slices(&mut self) {
        self.slices.clear();
        self.is_stale = true;
    }

    pub(super) fn clear_classes(&mut self) {
        self.classes.clear();
        self.is_stale = true;
    }

    /// Recomputes devices and kinds if slices, classes or selections have changed.
    pub(crate) fn refresh(&mut self) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let selections = self.claims.values().flat_map(ClaimRecord::narrowing_selections);
        self.selections = selections.cloned().collect();
        let wanted_all = self.claims.values().flat_map(ClaimRecord::all_mode_selections);
        self.all_mode_selections = wanted_all.cloned().collect();
        let sets = self.claims.values().filter_map(|claim| claim.requests.as_ref().ok());
        self.device_sets =
            sets.filter_map(|set| Some((set.counted_name()?, set.clone()))).collect();
        let Self { slices, classes, taint_rules, .. } = &*self;
        let sources = DeviceSources { slices, classes, taint_rules };
        let published = published_devices(sources, &self.selections);
        self.devices = published.by_node;
        self.multi_node = MultiNodeDevices::new(published.multi_node);
        self.device_faults = published.faults;
        self.counters = published.counters;
        self.counter_nodes = counter_nodes(&self.devices);
        self.broader_kinds = kind_unions::add_unions(&mut self.devices);
        self.classify_gpus();
        self.classify_multi_node_devices();
        let properties = |(node, devices): (&Name, &Vec<Device>)| {
            (Name::clone(node), devices.iter().map(|one| Arc::new(one.properties())).collect())
        };
        self.properties = self.devices.iter().map(properties).collect();
    }

    /// The pods without node that the claim is reserved for.
    pub(crate) fn waiting_users(
        &self,
        claim: &ObjectKey,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Vec<ObjectKey> {
        let reserved = self.claims.get(claim).into_iter().flat_map(|claim| &claim.reserved_pods);
        let users = reserved.map(|(name, _)| ObjectKey {
            namespace: Name::clone(&claim.namespace),
            name: Name::clone(name),
        });
        users.filter(|key| pods.get(key).is_some_and(PodRecord::is_waiting)).collect()
    }

    /// Pods that name the claim, or that it was created for.
    pub(super) fn pods_of_claim(
        &self,
        claim: &ObjectKey,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Vec<ObjectKey> {
        let uses = |key: &&ObjectKey| {
            key.namespace == claim.namespace
                && pods.get(key).is_some_and(|pod| {
                    pod.claims.iter().any(|one| one.claim.as_ref() == Some(&claim.name))
                })
        };
        self.pods.iter().filter(uses).cloned().collect()
    }

    /// The node with the devices that are published for it as allocatable resources.
    pub(crate) fn with_devices(&self, node: &Node) -> Node {
        let mut node = node.clone();
        let mut device_resources = Resources::default();
        for device in self.devices_of(&node.name) {
            node.gpus_via_dra |= device.is_gpu;
            device_resources.add(&self.resources_of_device(device));
        }
        for count in device_resources.extended.values_mut() {
            *count = (*count).min(Resources::INEXHAUSTIBLE);
        }
        node.allocatable.add(&device_resources);
        let of_node = self.devices_of(&node.name);
        let published = |all: &DeviceSelection| (all.name(), published_device_count(all, of_node));
        node.published_devices = self.all_mode_selections.iter().map(published).collect();
        let left_over = self.leftovers.get(&node.name);
        let is_kept = |claim: &Name| !left_over.is_some_and(|claims| claims.contains(claim));
        node.devices = self.node_devices(&node.name, is_kept);
        node.device_counters = self.counters_left_for(&node);
        let properties = node.devices.iter().map(|device| &*device.properties);
        let free = AvailableDevices::all_free(properties, &node.device_counters);
        let sets = self.device_sets.iter();
        let sets: Vec<(Name, i64)> = sets
            .map(|(name, set)| (Name::clone(name), set.count_offered(&free, of_node)))
            .collect();
        node.allocatable.extended.extend(sets);
        let multi_node = self.multi_node.usable_from(&node).map(|listed| listed.device.clone());
        let multi_node: Vec<NodeDevice> = multi_node.collect();
        node.devices.extend(multi_node);
        node.unused_claims = self.unusable_claims_on(&node.name);
        node
    }

    /// The devices of the node alone, with the claims for which `is_kept` holds.
    fn node_devices(&self, node: &Name, is_kept: impl Fn(&Name) -> bool) -> Vec<NodeDevice> {
        let devices = self.devices_of(node).iter().zip(self.properties_of(node));
        devices
            .map(|(device, properties)| self.node_device(&device.id, properties, &is_kept))
            .collect()
    }

    /// A device, with those of its claims for which `is_kept` holds.
    fn node_device(
        &self,
        id: &DeviceId,
        properties: &Arc<DeviceProperties>,
        is_kept: &impl Fn(&Name) -> bool,
    ) -> NodeDevice {
        let holder = self.allocated_devices.get(id).map(|holder| &holder.claim);
        let shares = self.shares.get(id).into_iter().flatten();
        NodeDevice {
            name: id.to_string().into(),
            properties: Arc::clone(properties),
            allocated_to: holder.filter(|claim| is_kept(claim)).cloned(),
            shares: shares.filter(|share| is_kept(&share.claim)).cloned().collect(),
        }
    }

    /// The counters that devices consume which the node can use, without what allocated devices
    /// consume that it cannot use.
    fn counters_left_for(&self, node: &Node) -> DeviceAmounts {
        let multi_node = self.multi_node.usable_from(node);
        let multi_node = multi_node.map(|listed| (&listed.id, &listed.device.properties.counters));
        let own = self.devices_of(&node.name).iter().map(|device| (&device.id, &device.counters));
        let usable: BTreeMap<&DeviceId, &DeviceAmounts> = own.chain(multi_node).collect();
        let counters = usable.values().flat_map(|counters| counters.keys());
        self.counters_left(counters, |device| {
            !usable.contains_key(&device.id) && self.is_in_use_by(&device.id, |_| true)
        })
    }

    /// What the devices for which `is_in_use` holds leave of these counters.
    fn counters_left<'s>(
        &'s self,
        counters: impl Iterator<Item = &'s Name>,
        is_in_use: impl Fn(&Device) -> bool,
    ) -> DeviceAmounts {
        let known =
            counters.filter_map(|name| Some((Name::clone(name), *self.counters.get(name)?)));
        let mut left: DeviceAmounts = known.collect();
        if left.is_empty() {
            return left;
        }
        let nodes = left.keys().filter_map(|name| self.counter_nodes.get(name)).flatten();
        let nodes: BTreeSet<Name> = nodes.cloned().collect();
        let of_nodes = nodes.iter().flat_map(|node| self.devices_of(node));
        let devices = of_nodes.chain(self.multi_node.all_devices());
        for (name, amount) in devices.filter(|one| is_in_use(one)).flat_map(|one| &one.counters) {
            if let Some(left) = left.get_mut(name) {
                *left -= amount;
            }
        }
        left
    }

    /// Whether a claim for which `counts` holds has the device or a share of it.
    fn is_in_use_by(&self, device: &DeviceId, counts: impl Fn(&Name) -> bool) -> bool {
        let shares = self.shares.get(device).into_iter().flatten();
        self.allocated_devices.get(device).is_some_and(|holder| counts(&holder.claim))
            || shares.into_iter().any(|share| counts(&share.claim))
    }

    /// The resources that a device provides. A device that a malformed claim holds provides none,
    /// since that claim is not counted. The holder of a tainted device may count for kinds that the
    /// device does not have for others.
    fn resources_of_device(&self, device: &Device) -> Resources {
        let holder = self.allocated_devices.get(&device.id);
        if holder.is_some_and(|holder| holder.selection.is_none()) {
            return Resources::default();
        }
        let gpu_milli = if device.is_gpu { 1000 } else { 0 };
        let selection = holder.and_then(|holder| holder.selection.as_ref());
        let mut resources = match selection.filter(|it| !device.kinds.contains(&it.name())) {
            Some(selection) => {
                let kinds = device.kinds.union(&self.device_kinds_of(selection)).cloned().collect();
                self.resources_of_kinds(gpu_milli, &kinds)
            }
            None => self.resources_of_kinds(gpu_milli, &device.kinds),
        };
        if device.shared.is_some() {
            // The search limits the number of shares.
            resources.extended.values_mut().for_each(|count| *count = Resources::INEXHAUSTIBLE);
        }
        resources
    }

    /// The resources of one device of these kinds.
    fn resources_of_kinds(&self, gpu_milli: i64, kinds: &BTreeSet<Name>) -> Resources {
        let kinds = kinds.iter().filter(|kind| !self.uncounted_kinds.contains(*kind));
        let extended = kinds.map(|kind| (kind_resource_name(kind), 1)).collect();
        Resources { gpu_milli, extended, ..Resources::default() }
    }

    /// The kinds that a device of this selection counts as: the class, the selection itself, and
    /// broader kinds.
    fn device_kinds_of(&self, selection: &DeviceSelection) -> BTreeSet<Name> {
        // A selection with tolerations has devices that its class alone does not have.
        let class = (!selection.has_tolerations()).then(|| Name::clone(&selection.class));
        let own: Vec<Name> = class.into_iter().chain([selection.name()]).collect();
        let wider = own.iter().filter_map(|name| self.broader_kinds.get(name)).flatten().cloned();
        wider.chain(own.clone()).collect()
    }

    /// Devices that only this node can use.
    pub(crate) fn devices_of(&self, node: &Name) -> &[Device] {
        self.devices.get(node).map_or(&[], Vec::as_slice)
    }

    /// A published device.
    fn device(&self, id: &DeviceId) -> Option<&Device> {
        self.devices.values().flatten().chain(self.multi_node.all_devices()).find(|it| it.id == *id)
    }

    /// The properties of [`Self::devices_of`] that the core knows.
    fn properties_of(&self, node: &Name) -> &[Arc<DeviceProperties>] {
        self.properties.get(node).map_or(&[], Vec::as_slice)
    }

    /// The resources that the pod gets by its claims.
    ///
    /// # Errors
    /// A claim is missing, malformed or names a missing class.
    pub(crate) fn resources_claimed_by(
        &self,
        key: &ObjectKey,
        pod: &PodRecord,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Result<ClaimedResources, ClaimProblem> {
        let mut claimed = ClaimedResources::default();
        for one in &pod.claims {
            let Some(name) = &one.claim else {
                return Err(ClaimProblem::NotCreated(Name::clone(&one.name)));
            };
            let claim_key =
                ObjectKey { namespace: Name::clone(&key.namespace), name: Name::clone(name) };
            let claim = self.claims.get(&claim_key);
            let claim = claim.ok_or_else(|| ClaimProblem::Missing(Name::clone(name)))?;
            let allocated_on = self.allocated_node(&claim_key, claim, pods);
            let allocation = claim.allocation.as_ref().filter(|_| allocated_on.is_some());
            let request = self.resolve_claim_request(name, claim, allocation)?;
            claimed.gpu_classes.extend(self.requested_gpu_classes(claim));
            let reach = match allocated_on {
                Some(_) => DeviceReach::NodeLocal,
                None => self.claim_reach(&claim_key, claim, pods)?,
            };
            let may_be_multi_node = self.may_be_multi_node(claim);
            // Multi-node devices are no resources of a node.
            let ClaimRequest { devices, all_devices: every } = match &allocated_on {
                Some(node) if may_be_multi_node => ClaimRequest {
                    devices: self.claim_resources_on(node, &claim_key),
                    ..ClaimRequest::default()
                },
                _ if reach.has_node_local_devices() => request,
                _ => ClaimRequest::default(),
            };
            let besides = allocation.zip(allocated_on.as_ref()).filter(|_| !may_be_multi_node);
            let besides =
                besides.and_then(|(has, node)| self.extra_kind_counts(has, node, &devices, &every));
            let is_allocated_wide = matches!(reach, DeviceReach::Allocated(_));
            let mut shared = DeviceClaim {
                name: claim_key.to_string().into(),
                devices,
                requests: claim_requests(claim).filter(|_| !is_allocated_wide),
                allocate_all: every,
                plugin_resources: None,
                is_pod_owned: claim.is_owned_by(&pod.uid),
                queue: claim.queue.clone(),
                allocated_on,
                also_counts_as: besides,
                reserved_for_others: claim.unknown_consumer_count(&claim_key, pods),
                reach,
            };
            let is_had = (pod.node.is_some() || shared.allocated_on.is_none())
                && shared.allocate_all.is_empty()
                && shared.reach == DeviceReach::NodeLocal;
            if shared.is_pod_owned && is_had && self.gpu_accounting == GpuAccounting::AsGpus {
                claimed.own.add(&std::mem::take(&mut shared.devices));
                claimed.add_own_requests(&mut shared);
                shared.allocated_on = None;
                claimed.shared.extend(Some(shared).filter(|it| it.also_counts_as.is_some()));
            } else {
                claimed.shared.push(shared);
            }
        }
        claimed.shared.extend(self.expected_claims(key, pod, pods)?);
        claimed.served = self.requests_served(pod);
        Ok(claimed)
    }

    /// The kinds that allocated devices on a node count as in addition to the requested ones.
    fn extra_kind_counts(
        &self,
        has: &ClaimAllocation,
        node: &Name,
        devices: &Resources,
        every: &BTreeMap<Name, Resources>,
    ) -> Option<(Name, Resources)> {
        if !every.is_empty() {
            return None;
        }
        let its = self.devices_of(node).iter().filter(|device| has.has(&device.id));
        let mut more = Resources::default();
        for device in its {
            more.add(&self.resources_of_kinds(0, &device.kinds));
        }
        for (kind, count) in &mut more.extended {
            *count -= devices.extended_amount(kind);
        }
        more.extended.retain(|_, count| *count > 0);
        (!more.extended.is_empty()).then(|| (Name::clone(node), more))
    }

    fn resolve_claim_request(
        &self,
        name: &Name,
        claim: &ClaimRecord,
        allocation: Option<&ClaimAllocation>,
    ) -> Result<ClaimRequest, ClaimProblem> {
        let set = claim.requests.as_ref();
        let set = set.map_err(|wrong| ClaimProblem::Malformed(Name::clone(name), wrong.clone()))?;
        let mut devices = Resources::default();
        let mut classes = set.requests().map(|wanted| &wanted.selection.class);
        if let Some(class) = classes.find(|class| !self.classes.contains_key(*class)) {
            return Err(ClaimProblem::NoClass(Name::clone(name), Name::clone(class)));
        }
        let may_be_multi_node = self.may_be_multi_node(claim);
        let counted = set.counted_name().filter(|_| !may_be_multi_node);
        devices.extended.extend(counted.map(|name| (name, 1)));
        let is_gpu = |class: &Name| self.is_gpu_class(class);
        let gpus = match allocation {
            Some(allocation) => set.allocated_gpus(allocation, is_gpu),
            None => set
                .requested_gpus(is_gpu)
                .map_err(|wrong| ClaimProblem::Malformed(Name::clone(name), wrong))?,
        };
        devices.gpu_milli = gpus.saturating_mul(1000);
        let kinds = |selection: &DeviceSelection| {
            if self.is_of_one_node(selection) {
                self.device_kinds_of(selection)
            } else {
                BTreeSet::new()
            }
        };
        let kinds = set.device_counts_by_kind(&kinds).into_iter();
        let kinds = kinds.filter(|(kind, _)| !self.uncounted_kinds.contains(kind));
        devices.extended.extend(kinds.map(|(kind, count)| (kind_resource_name(&kind), count)));
        let mut every: BTreeMap<Name, Resources> = BTreeMap::new();
        for wanted in set.exclusive_requests().filter(|wanted| wanted.count == DeviceCount::All) {
            let one = self.resources_per_device(&wanted.selection);
            match allocation {
                Some(allocation) => {
                    devices.add(&one.times(allocation.device_count_for(&wanted.request)));
                }
                // Which alternative or devices it gets is unknown; the search counts for it.
                None if set.has_alternatives() || !self.is_of_one_node(&wanted.selection) => {}
                None => every.entry(wanted.selection.name()).or_default().add(&one),
            }
        }
        Ok(ClaimRequest { devices, all_devices: every })
    }

    /// Device classes of GPUs that the claim requests.
    fn requested_gpu_classes(&self, claim: &ClaimRecord) -> BTreeSet<Name> {
        let wanted = claim.requests.iter().flat_map(DeviceAlternatives::exclusive_requests);
        let classes = wanted.map(|wanted| &wanted.selection.class);
        classes.filter(|class| self.is_gpu_class(class)).cloned().collect()
    }

    /// The resources that one requested device of the selection counts as.
    fn resources_per_device(&self, selection: &DeviceSelection) -> Resources {
        let gpu_milli = if self.is_gpu_class(&selection.class) { 1000 } else { 0 };
        self.resources_of_kinds(gpu_milli, &self.device_kinds_of(selection))
    }

    /// The node of the claim's allocation. An allocation for pods that did not get their node
    /// counts as free, since it is released before pods are bound.
    fn allocated_node(
        &self,
        key: &ObjectKey,
        claim: &ClaimRecord,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Option<Name> {
        let allocation = claim.allocation.as_ref()?;
        if claim.is_leftover(key, pods) {
            return None;
        }
        self.allocation_node(allocation).cloned()
    }

    /// The node of an allocation, by its node selector or else by its devices.
    fn allocation_node<'a>(&'a self, allocation: &'a ClaimAllocation) -> Option<&'a Name> {
        let has = |devices: &Vec<Device>| devices.iter().any(|device| allocation.has(&device.id));
        let by_device = || self.devices.iter().find(|(_, devices)| has(devices));
        allocation.node.as_ref().or_else(|| by_device().map(|(node, _)| node))
    }

    /// Replaces the record of a claim. Returns the nodes whose free devices changed.
    pub(crate) fn insert_claim(&mut self, key: &ObjectKey, record: ClaimRecord) -> BTreeSet<Name> {
        let mut nodes = self.forget_claim(key);
        self.is_stale |= record.narrowing_selections().any(|one| !self.selections.contains(one));
        self.is_stale |=
            record.all_mode_selections().any(|one| !self.all_mode_selections.contains(one));
        let set = record.requests.as_ref().ok().and_then(DeviceAlternatives::counted_name);
        self.is_stale |= set.is_some_and(|set| !self.device_sets.contains_key(&set));
        let claim = Name::from(key.to_string());
        let devices = record.allocated_devices().map(|(device, request)| {
            let selection = record.selection_of(request).cloned();
            (device.clone(), DeviceHolder { claim: Name::clone(&claim), selection })
        });
        self.allocated_devices.extend(devices);
        for ClaimShare { device, consumed, .. } in record.allocated_shares() {
            let share = AllocatedShare { claim: Name::clone(&claim), consumed: consumed.clone() };
            self.shares.entry(device.clone()).or_default().push(share);
        }
        nodes.extend(self.nodes_affected_by(&record));
        self.claims.insert(key.clone(), record);
        nodes
    }

    pub(crate) fn forget_claim(&mut self, key: &ObjectKey) -> BTreeSet<Name> {
        let Some(known) = self.claims.remove(key) else { return BTreeSet::new() };
        for (device, _) in known.allocated_devices() {
            self.allocated_devices.remove(device);
        }
        let claim = key.to_string();
        for ClaimShare { device, .. } in known.allocated_shares() {
            if let Some(shares) = self.shares.get_mut(device) {
                shares.retain(|share| *share.claim != *claim);
            }
        }
        self.shares.retain(|_, shares| !shares.is_empty());
        self.nodes_affected_by(&known)
    }

    /// The node of an allocation, and nodes whose devices consume the same counters.
    fn nodes_affected_by(&self, claim: &ClaimRecord) -> BTreeSet<Name> {
        let Some(allocation) = &claim.allocation else { return BTreeSet::new() };
        let node = self.allocation_node(allocation);
        let of_node = node.into_iter().flat_map(|node| self.devices_of(node));
        let devices = of_node.filter(|device| allocation.has(&device.id));
        let counters = devices.flat_map(|device| device.counters.keys());
        let others = counters.filter_map(|name| self.counter_nodes.get(name)).flatten();
        others.chain(node).cloned().collect()
    }

    pub(super) fn clear_claims(&mut self) {
        self.claims.clear();
        self.allocated_devices.clear();
        self.shares.clear();
    }
}

/// The claim's requests as the core allocates them; `None` if they are malformed.
fn claim_requests(claim: &ClaimRecord) -> Option<Arc<ClaimRequests>> {
    Some(Arc::new(claim.requests.as_ref().ok()?.claim_requests()))
}

/// By counter: the nodes with devices that consume it.
fn counter_nodes(devices: &BTreeMap<Name, Vec<Device>>) -> BTreeMap<Name, BTreeSet<Name>> {
    let mut nodes: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
    for (node, devices) in devices {
        for counter in devices.iter().flat_map(|device| device.counters.keys()) {
            nodes.entry(Name::clone(counter)).or_default().insert(Name::clone(node));
        }
    }
    nodes
}

/// The number of devices of a selection on the node if all were free. `i64::MAX` while a pool is
/// incomplete or if they are too many for a claim, so that no claim gets them.
fn published_device_count(selection: &DeviceSelection, of_node: &[Device]) -> i64 {
    let count = i64::try_from(selection.count_selected(of_node)).unwrap_or(i64::MAX);
    if are_pools_complete(of_node) && count <= DEVICES_MAX { count } else { i64::MAX }
}

/// Whether all slices of the pools of these devices are published.
fn are_pools_complete(of_node: &[Device]) -> bool {
    of_node.iter().all(|device| device.pool_is_whole)
}

/// Name of the internal resource that counts devices of a kind. No pod can request it by that name.
fn kind_resource_name(kind: &Name) -> Name {
    format!("devices of class {kind}").into()
}
