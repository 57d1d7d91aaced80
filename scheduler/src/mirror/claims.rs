//! Dynamic resource allocation (`resource.k8s.io/v1`) as the mirror keeps it: published devices,
//! classes of devices, and claims on them; what a pod takes by its claims, and what a node offers.

mod choices;
mod config;
mod device;
mod expression;
mod gpus;
mod overlaps;
mod picks;
mod problem;
mod record;
mod set;
mod slice;
mod unused;
#[cfg(test)]
mod watchers;
mod wide;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::Value;
use schedlab_scheduler_core::{
    model::{DeviceClaim, DeviceReach, Name, Node, VolumeClaim},
    resources::Resources,
};

pub(crate) use choices::Choices;
pub(crate) use device::{Device, DeviceId, Selection};
pub(crate) use picks::{Pick, Picked};
pub(crate) use problem::ClaimProblem;
pub(crate) use record::{Access, Allocation, ClaimRecord, PodClaim};
pub(crate) use slice::SliceFault;

use super::{Key, Mirror, PodRecord, put};
use crate::config::Flavor;
use device::{ClassRecord, devices};
use record::Count;
use slice::SliceRecord;
use unused::Unused;
use wide::Wide;

/// A claim has so many at most (`resource.k8s.io`).
const DEVICES_MAX: i64 = 32;

/// What devices of GPUs count as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GpuDevices {
    /// GPUs, which queues pay for, and which a device plugin cannot give, too (profile `kai`).
    #[default]
    AreGpus,
    /// Devices like all others, beside the GPUs of a device plugin (profile `kube`).
    AreDevices,
}

/// Everything about claims.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    gpu_devices: GpuDevices,
    pub(crate) known: BTreeMap<Key, ClaimRecord>,
    classes: BTreeMap<Name, ClassRecord>,
    slices: BTreeMap<Name, SliceRecord>,
    /// What slices and classes come to, by node.
    devices: BTreeMap<Name, Vec<Device>>,
    /// Devices that several nodes can use.
    wide: Wide,
    /// Slices with a device that another one has, too.
    doubled: Vec<(Name, SliceFault)>,
    /// Classes whose devices are GPUs, though their names do not say so.
    all_gpus: BTreeSet<Name>,
    /// Names of the classes and selections whose devices need no count of their own, as they are
    /// just the GPUs, and whoever has one counts as having a GPU.
    uncounted: BTreeSet<Name>,
    /// As what else a device counts for whoever asks for this class or selection.
    wider: BTreeMap<Name, BTreeSet<Name>>,
    /// What requests select beyond their classes.
    selections: BTreeSet<Selection>,
    /// What requests want all devices of.
    wanted_all: BTreeSet<Selection>,
    /// What claims with constraints or alternatives ask for, by what it is counted as.
    sets: BTreeMap<Name, Choices>,
    /// Such sets that claims have, by node.
    sets_had: BTreeMap<Name, BTreeMap<Name, i64>>,
    /// Allocated devices, and whether those who have them are counted as having them.
    held: BTreeMap<DeviceId, bool>,
    /// Allocated ones that no pod with a node uses.
    unused: Unused,
    /// Slices, classes or selections have changed since.
    stale: bool,
    /// Pods with claims.
    pub(super) pods: BTreeSet<Key>,
}

/// What a pod takes by claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claimed {
    /// By those of its own that are not allocated, or that it has.
    pub(crate) own: Resources,
    /// By others.
    pub(crate) shared: Vec<DeviceClaim>,
    /// Classes of which it asks for GPUs.
    pub(crate) gpu_classes: BTreeSet<Name>,
    /// Volumes.
    pub(crate) volumes: Vec<VolumeClaim>,
}

/// What a claim asks for, on any node, and of all devices of its node.
#[derive(Default)]
struct Asked {
    devices: Resources,
    every: BTreeMap<Name, Resources>,
}

impl Claims {
    /// Whether anything is different now.
    pub(super) fn upsert_slice(&mut self, name: Name, object: &Value) -> bool {
        let changed = put(&mut self.slices, name, SliceRecord::read(object));
        self.stale |= changed;
        changed
    }

    pub(super) fn upsert_class(&mut self, name: Name, object: &Value) -> bool {
        let changed = put(&mut self.classes, name, ClassRecord::read(object));
        self.stale |= changed;
        changed
    }

    pub(super) fn remove_slice(&mut self, name: &Name) -> bool {
        let gone = self.slices.remove(name).is_some();
        self.stale = true;
        gone
    }

    pub(super) fn remove_class(&mut self, name: &Name) -> bool {
        let gone = self.classes.remove(name).is_some();
        self.stale = true;
        gone
    }

    pub(super) fn clear_slices(&mut self) {
        self.slices.clear();
        self.stale = true;
    }

    pub(super) fn clear_classes(&mut self) {
        self.classes.clear();
        self.stale = true;
    }

    /// Looks at slices and classes, if they have changed.
    pub(crate) fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let selections = self.known.values().flat_map(ClaimRecord::selections);
        self.selections = selections.cloned().collect();
        let wanted_all = self.known.values().flat_map(ClaimRecord::wants_all_of);
        self.wanted_all = wanted_all.cloned().collect();
        let sets = self.known.values().filter_map(|claim| claim.wanted.as_ref().ok());
        self.sets = sets.filter_map(|set| Some((set.name()?, set.clone()))).collect();
        let published = devices(&self.slices, &self.classes, &self.selections);
        self.devices = published.of_nodes;
        self.wide = Wide::of(published.wide);
        self.doubled = published.doubled;
        self.wider = overlaps::count_together(&mut self.devices);
        self.look_for_gpus();
        self.look_who_serves();
    }

    /// Pods that name the claim, or for which it was made.
    pub(super) fn pods_of(&self, claim: &Key, pods: &BTreeMap<Key, PodRecord>) -> Vec<Key> {
        let uses = |key: &&Key| {
            key.namespace == claim.namespace
                && pods.get(key).is_some_and(|pod| {
                    pod.claims.iter().any(|one| one.claim.as_ref() == Some(&claim.name))
                })
        };
        self.pods.iter().filter(uses).cloned().collect()
    }

    /// The node with the devices that are published for it.
    pub(crate) fn offered(&self, node: &Node) -> Node {
        let mut node = node.clone();
        for device in self.devices_of(&node.name) {
            node.gpus_by_claim |= device.is_gpu;
            node.allocatable.add(&self.offer(device));
        }
        let of_node = self.devices_of(&node.name);
        let published = |all: &Selection| (all.name(), published(all, of_node));
        node.published = self.wanted_all.iter().map(published).collect();
        let free = || {
            let devices = of_node.iter();
            devices.filter(|device| !self.held.contains_key(&device.id))
        };
        let had = self.sets_had.get(&node.name);
        let had = |set: &Name| had.and_then(|had| had.get(set)).copied().unwrap_or(0);
        let sets = self.sets.iter();
        let sets: Vec<(Name, i64)> = sets
            .map(|(name, set)| (Name::clone(name), set.offered(free(), of_node, had(name))))
            .collect();
        node.allocatable.extended.extend(sets);
        node.held_claims = self.held_claims(&node.name);
        node
    }

    /// What a device counts as; as nothing where somebody has it who is not counted as having it.
    fn offer(&self, device: &Device) -> Resources {
        if self.held.get(&device.id) == Some(&false) {
            return Resources::default();
        }
        self.counted((if device.is_gpu { 1000 } else { 0 }, &device.kinds))
    }

    /// One device that is of these kinds.
    fn counted(&self, (gpu_milli, kinds): (i64, &BTreeSet<Name>)) -> Resources {
        let kinds = kinds.iter().filter(|kind| !self.uncounted.contains(*kind));
        let extended = kinds.map(|kind| (of_kind(kind), 1)).collect();
        Resources { gpu_milli, extended, ..Resources::default() }
    }

    /// By what names a device of the selection is counted for who asks for it so.
    fn kinds_of(&self, selection: &Selection) -> BTreeSet<Name> {
        let own = [Name::clone(&selection.class), selection.name()];
        let wider = own.iter().filter_map(|name| self.wider.get(name)).flatten().cloned();
        wider.chain(own.clone()).collect()
    }

    /// Devices of a node.
    pub(crate) fn devices_of(&self, node: &Name) -> &[Device] {
        self.devices.get(node).map_or(&[], Vec::as_slice)
    }

    /// What the pod takes by its claims.
    pub(crate) fn of_pod(
        &self,
        key: &Key,
        pod: &PodRecord,
        pods: &BTreeMap<Key, PodRecord>,
    ) -> Result<Claimed, ClaimProblem> {
        let mut claimed = Claimed::default();
        for one in &pod.claims {
            let Some(name) = &one.claim else {
                return Err(ClaimProblem::NotMade(Name::clone(&one.name)));
            };
            let claim_key = Key { namespace: Name::clone(&key.namespace), name: Name::clone(name) };
            let claim = self.known.get(&claim_key);
            let claim = claim.ok_or_else(|| ClaimProblem::Missing(Name::clone(name)))?;
            let allocated_on = self.allocated_on(&claim_key, claim, pods);
            let allocation = claim.allocation.as_ref().filter(|_| allocated_on.is_some());
            let asked = self.asked(name, claim, allocation)?;
            claimed.gpu_classes.extend(self.gpu_classes(claim));
            let reach = match allocated_on {
                Some(_) => DeviceReach::OneNode,
                None => self.reach(&claim_key, claim, pods)?,
            };
            // Devices of several nodes are none that a node offers.
            let is_of_one_node = reach.is_one_node();
            let Asked { devices, every } = if is_of_one_node { asked } else { Asked::default() };
            let besides = allocation.zip(allocated_on.as_ref());
            let besides =
                besides.and_then(|(has, node)| self.besides(has, node, (&devices, &every)));
            let mut shared = DeviceClaim {
                name: claim_key.to_string().into(),
                devices,
                every,
                is_own: claim.is_own_of(&pod.uid),
                queue: claim.queue.clone(),
                allocated_on,
                besides,
                reserved_for_others: claim.strangers(&claim_key, pods),
                reach,
            };
            let is_had = (pod.node.is_some() || shared.allocated_on.is_none())
                && shared.every.is_empty()
                && shared.reach == DeviceReach::OneNode;
            if shared.is_own && is_had && self.gpu_devices == GpuDevices::AreGpus {
                claimed.own.add(&std::mem::take(&mut shared.devices));
                shared.allocated_on = None;
                claimed.shared.extend(Some(shared).filter(|it| it.besides.is_some()));
            } else {
                claimed.shared.push(shared);
            }
        }
        Ok(claimed)
    }

    /// What devices that somebody has on a node count as there, besides what was asked for.
    fn besides(
        &self,
        has: &Allocation,
        node: &Name,
        (devices, every): (&Resources, &BTreeMap<Name, Resources>),
    ) -> Option<(Name, Resources)> {
        if !every.is_empty() {
            return None;
        }
        let its =
            self.devices_of(node).iter().filter(|device| has.devices.contains_key(&device.id));
        let mut more = Resources::default();
        for device in its {
            more.add(&self.counted((0, &device.kinds)));
        }
        for (kind, count) in &mut more.extended {
            *count -= devices.extended_of(kind);
        }
        more.extended.retain(|_, count| *count > 0);
        (!more.extended.is_empty()).then(|| (Name::clone(node), more))
    }

    fn asked(
        &self,
        name: &Name,
        claim: &ClaimRecord,
        allocation: Option<&Allocation>,
    ) -> Result<Asked, ClaimProblem> {
        let set = claim.wanted.as_ref();
        let set = set.map_err(|wrong| ClaimProblem::Malformed(Name::clone(name), wrong.clone()))?;
        let mut devices = Resources::default();
        let mut classes = set.wanted().map(|wanted| &wanted.selection.class);
        if let Some(class) = classes.find(|class| !self.classes.contains_key(*class)) {
            return Err(ClaimProblem::NoClass(Name::clone(name), Name::clone(class)));
        }
        let Some(set) = self.of_node(claim) else { return Ok(Asked::default()) };
        devices.extended.extend(set.name().map(|name| (name, 1)));
        let is_gpu = |class: &Name| self.is_gpu(class);
        let gpus = match allocation {
            Some(allocation) => set.gpus_had(allocation, is_gpu),
            None => set
                .gpus(is_gpu)
                .map_err(|wrong| ClaimProblem::Malformed(Name::clone(name), wrong))?,
        };
        devices.gpu_milli = gpus.saturating_mul(1000);
        let kinds = set.kinds(&|selection| self.kinds_of(selection)).into_iter();
        let kinds = kinds.filter(|(kind, _)| !self.uncounted.contains(kind));
        devices.extended.extend(kinds.map(|(kind, count)| (of_kind(&kind), count)));
        let mut every: BTreeMap<Name, Resources> = BTreeMap::new();
        for wanted in set.taken().filter(|wanted| wanted.count == Count::All) {
            let one = self.one_of(&wanted.selection);
            match allocation {
                Some(allocation) => devices.add(&one.times(allocation.count_for(&wanted.request))),
                // Which alternative it gets, and so what it takes, the set stands for.
                None if set.are_several() => {}
                None => every.entry(wanted.selection.name()).or_default().add(&one),
            }
        }
        Ok(Asked { devices, every })
    }

    /// Classes of GPUs that it asks for.
    fn gpu_classes(&self, claim: &ClaimRecord) -> BTreeSet<Name> {
        let wanted = claim.wanted.iter().flat_map(Choices::taken);
        let classes = wanted.map(|wanted| &wanted.selection.class);
        classes.filter(|class| self.is_gpu(class)).cloned().collect()
    }

    /// What a device of the selection counts as for who asked for it so.
    fn one_of(&self, selection: &Selection) -> Resources {
        let gpu_milli = if self.is_gpu(&selection.class) { 1000 } else { 0 };
        self.counted((gpu_milli, &self.kinds_of(selection)))
    }

    /// Where it is allocated. What was allocated for pods that did not get their node then is
    /// as good as free: it is taken back before anything is bound.
    fn allocated_on(
        &self,
        key: &Key,
        claim: &ClaimRecord,
        pods: &BTreeMap<Key, PodRecord>,
    ) -> Option<Name> {
        let allocation = claim.allocation.as_ref()?;
        if claim.is_left_over(key, pods) {
            return None;
        }
        self.node_of(allocation).cloned()
    }

    /// Where a claim's devices are.
    fn node_of<'a>(&'a self, allocation: &'a Allocation) -> Option<&'a Name> {
        let has = |devices: &Vec<Device>| {
            devices.iter().any(|device| allocation.devices.contains_key(&device.id))
        };
        let by_device = || self.devices.iter().find(|(_, devices)| has(devices));
        allocation.node.as_ref().or_else(|| by_device().map(|(node, _)| node))
    }

    /// Takes a claim in place of what was known of it; answers on which nodes devices are had
    /// otherwise now.
    fn take(&mut self, key: &Key, record: ClaimRecord) -> BTreeSet<Name> {
        let mut nodes = self.let_go(key);
        self.stale |= record.selections().any(|one| !self.selections.contains(one));
        self.stale |= record.wants_all_of().any(|one| !self.wanted_all.contains(one));
        let set = record.wanted.as_ref().ok().and_then(Choices::name);
        self.stale |= set.is_some_and(|set| !self.sets.contains_key(&set));
        self.held.extend(record.held().map(|(device, is_told)| (device.clone(), is_told)));
        let there = record.allocation.as_ref().and_then(|allocation| self.node_of(allocation));
        nodes.extend(there.cloned());
        self.known.insert(key.clone(), record);
        nodes
    }

    fn let_go(&mut self, key: &Key) -> BTreeSet<Name> {
        let Some(known) = self.known.remove(key) else { return BTreeSet::new() };
        for (device, _) in known.held() {
            self.held.remove(device);
        }
        let there = known.allocation.as_ref().and_then(|allocation| self.node_of(allocation));
        there.cloned().into_iter().collect()
    }

    pub(super) fn clear_claims(&mut self) {
        self.known.clear();
        self.held.clear();
    }
}

impl Mirror {
    /// Where devices of GPUs count as that.
    pub(crate) fn of_flavor(mut self, flavor: Flavor) -> Self {
        self.claims.gpu_devices = match flavor {
            Flavor::Kai => GpuDevices::AreGpus,
            Flavor::Kube => GpuDevices::AreDevices,
        };
        self
    }

    pub(super) fn upsert_claim(&mut self, key: &Key, record: ClaimRecord) {
        if let Some(known) = self.claims.known.get_mut(key) {
            if known.version > record.version {
                return;
            }
            known.version = record.version;
            if *known == record {
                return;
            }
        }
        let nodes = self.claims.take(key, record);
        if self.claims.stale {
            self.everything_changed();
        }
        for node in nodes {
            self.node_changed(node);
        }
        self.claim_changed(key);
    }

    pub(super) fn remove_claim(&mut self, key: &Key, gone_at: u64) {
        if self.claims.known.get(key).is_some_and(|is| is.version <= gone_at) {
            let nodes = self.claims.let_go(key);
            for node in nodes {
                self.node_changed(node);
            }
            self.claim_changed(key);
        }
    }

    fn claim_changed(&mut self, key: &Key) {
        self.revision += 1;
        let pods = self.claims.pods_of(key, &self.pods);
        self.changes.pods.extend(pods);
    }

    /// Whether a claim is left over depends on all pods for which it is reserved.
    pub(super) fn look_at_claims_of(&mut self, key: &Key, pod: &PodRecord) {
        for name in pod.claims.iter().filter_map(|one| one.claim.as_ref()) {
            let claim = Key { namespace: Name::clone(&key.namespace), name: Name::clone(name) };
            let is_shared =
                self.claims.known.get(&claim).is_some_and(|claim| !claim.is_own_of(&pod.uid));
            if is_shared {
                self.claim_changed(&claim);
            }
        }
    }
}

/// How many devices that is, were all of them free; more than there are while a pool is not
/// published whole, or where they are too many for a claim: then nobody gets them.
fn published(all: &Selection, of_node: &[Device]) -> i64 {
    let count = i64::try_from(all.count(of_node)).unwrap_or(i64::MAX);
    if are_known(of_node) && count <= DEVICES_MAX { count } else { i64::MAX }
}

/// What is published of the node's devices is all that there is.
fn are_known(of_node: &[Device]) -> bool {
    of_node.iter().all(|device| device.pool_is_whole)
}

/// A device of a class or a selection, as a resource. No pod can ask for it by that name.
fn of_kind(kind: &Name) -> Name {
    format!("devices of class {kind}").into()
}
