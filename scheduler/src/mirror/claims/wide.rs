//! Devices that a `ResourceSlice` publishes for several nodes: for all, or for those of a selector.
//! No node offers them. Claims get one for each such device that they ask for, as claims on volumes
//! get volumes, and what they want of a node besides as if they wanted nothing else.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    model::{DeviceReach, DeviceWish, Name, Node, Volume, VolumeReach},
    plugins::chosen_devices,
};

use super::{
    Choices, ClaimProblem, ClaimRecord, Claims, Device, DeviceId, Key, Mirror, Pick, Picked,
    PodRecord, Selection,
    device::natural,
    record::{Access, Count, Wanted},
    set::DeviceSet,
    slice::Term,
};
use crate::parse::{Malformed, list};

/// A device that several nodes can use.
#[derive(Clone, Debug)]
pub(super) struct WideDevice {
    device: Device,
    /// Of its nodes; `None`: all.
    term: Option<Term>,
    /// As the core gives it to claims.
    given: Arc<Volume>,
}

/// Such devices.
#[derive(Debug, Default)]
pub(super) struct Wide {
    /// Those first that are to be given before others: what fewer can use.
    devices: Vec<WideDevice>,
    /// Classes and selections that take such devices and none of a node, and whether any is a GPU.
    alone: BTreeMap<Name, bool>,
    /// Those that no claim has, or is to keep.
    free: BTreeSet<DeviceId>,
}

impl WideDevice {
    pub(super) fn of(device: Device, term: Option<Term>) -> Self {
        let affinity = term.as_ref().map(|term| vec![term.read.clone()]);
        let DeviceId { driver, pool, device: own } = &device.id;
        let reach = VolumeReach { affinity, zones: Vec::new() };
        let given = Volume { name: format!("{driver}/{pool}/{own}").into(), reach };
        Self { device, term, given: Arc::new(given) }
    }
}

impl Wide {
    pub(super) fn of(mut devices: Vec<WideDevice>) -> Self {
        devices.sort_by_cached_key(|WideDevice { device, term, .. }| {
            let DeviceId { driver, pool, device: own } = device.id.clone();
            (device.kinds.len(), term.is_none(), driver, pool, natural(&own))
        });
        Self { devices, ..Self::default() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().map(|wide| &wide.device)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        self.devices.iter_mut().map(|wide| &mut wide.device)
    }

    fn get(&self, id: &DeviceId) -> Option<&WideDevice> {
        self.devices.iter().find(|wide| wide.device.id == *id)
    }
}

impl Claims {
    /// Looks at devices, classes and selections, which have changed.
    pub(super) fn look_who_serves(&mut self) {
        let mut alone: BTreeMap<Name, bool> = BTreeMap::new();
        for device in self.wide.all() {
            for kind in &device.kinds {
                *alone.entry(Name::clone(kind)).or_default() |= device.is_gpu;
            }
        }
        if !alone.is_empty() {
            for device in self.devices.values().flatten() {
                alone.retain(|kind, _| !device.kinds.contains(kind));
            }
        }
        self.wide.alone = alone;
    }

    /// From where a claim that has no devices of one node can use those that it has, or may get.
    pub(super) fn reach(
        &self,
        key: &Key,
        claim: &ClaimRecord,
        pods: &BTreeMap<Key, PodRecord>,
    ) -> Result<DeviceReach, ClaimProblem> {
        let allocation = claim.allocation.as_ref().filter(|_| !claim.is_left_over(key, pods));
        if let Some(allocation) = allocation {
            let had = || DeviceReach::Had(allocation.terms.clone());
            return Ok(if self.is_paid_for(claim) { DeviceReach::OneNode } else { had() });
        }
        if self.wide.devices.is_empty() {
            return Ok(DeviceReach::OneNode);
        }
        if let Some(why) = self.unserved(claim) {
            return Err(ClaimProblem::Malformed(Name::clone(&key.name), why));
        }
        let wishes = self.wishes(key, claim, |id| self.wide.free.contains(id));
        Ok(match (wishes, self.of_node(claim)) {
            (None, _) => DeviceReach::OneNode,
            (Some(wishes), None) => DeviceReach::Open(wishes),
            (Some(wishes), Some(_)) => DeviceReach::Beside(wishes),
        })
    }

    /// What the claim wants of devices of several nodes, if they can be given.
    fn wide_part(&self, claim: &ClaimRecord) -> Option<DeviceSet> {
        let set = claim.wanted.as_ref().ok()?.unbound()?;
        let is_wide = |one: &Wanted| self.wide.alone.contains_key(&one.selection.name());
        let wide = set.of(is_wide);
        let can_be_given =
            wide.is_plain() && !set.looks() && wide.wanted().iter().all(|one| self.serves(one));
        let is_wanted = !wide.wanted().is_empty();
        (is_wanted && can_be_given).then_some(wide)
    }

    /// The claim wants devices of several nodes that can be given.
    pub(super) fn wants_wide(&self, key: &Key) -> bool {
        self.known.get(key).is_some_and(|claim| self.wide_part(claim).is_some())
    }

    /// What the claim wants of devices of its node; `None`: it wants nothing of it.
    pub(super) fn of_node<'a>(&self, claim: &'a ClaimRecord) -> Option<Cow<'a, Choices>> {
        let wanted = claim.wanted.as_ref().ok()?;
        if self.wide_part(claim).is_none() {
            return Some(Cow::Borrowed(wanted));
        }
        let is_wide = |one: &Wanted| self.wide.alone.contains_key(&one.selection.name());
        let of_node = wanted.unbound()?.of(|one| !is_wide(one));
        (!of_node.wanted().is_empty()).then(|| Cow::Owned(Choices::of(of_node)))
    }

    /// It asks for GPUs that queues pay for.
    fn is_paid_for(&self, claim: &ClaimRecord) -> bool {
        let mut wanted = claim.wanted.iter().flat_map(Choices::taken);
        wanted.any(|one| self.is_gpu(&one.selection.class))
    }

    /// What a claim wants of devices of several nodes, of those that are free; `None`: it wants
    /// others.
    fn wishes(
        &self,
        key: &Key,
        claim: &ClaimRecord,
        is_free: impl Fn(&DeviceId) -> bool,
    ) -> Option<Vec<DeviceWish>> {
        let set = self.wide_part(claim)?;
        let wishes = set.each().map(|(Wanted { request, selection, .. }, at)| DeviceWish {
            name: wish(key, request, at),
            devices: self.wide_of(selection, &is_free),
        });
        Some(wishes.collect())
    }

    /// Devices of several nodes alone serve the request, and they can be given for it.
    fn serves(&self, wanted: &Wanted) -> bool {
        let is_gpu = self.wide.alone.get(&wanted.selection.name());
        is_gpu == Some(&false) && !self.is_gpu(&wanted.selection.class)
    }

    fn wide_of(
        &self,
        selection: &Selection,
        is_free: impl Fn(&DeviceId) -> bool,
    ) -> Vec<Arc<Volume>> {
        let name = selection.name();
        let of_it = self.wide.devices.iter().filter(|wide| wide.device.kinds.contains(&name));
        let free = of_it.filter(|wide| is_free(&wide.device.id));
        free.map(|wide| Arc::clone(&wide.given)).collect()
    }

    /// Why a claim gets no devices of several nodes, though nothing else could serve it.
    fn unserved(&self, claim: &ClaimRecord) -> Option<Malformed> {
        let choices = claim.wanted.as_ref().ok()?;
        let is_wide = |one: &Wanted| self.wide.alone.contains_key(&one.selection.name());
        if !choices.all_have(is_wide) {
            return None;
        }
        let why = |field: &str, found: &str, allowed: &'static str| {
            let field = format!("spec.devices.{field}");
            Some(Malformed::new(field, format!("{found} devices of several nodes"), allowed))
        };
        if choices.are_several() {
            return why("requests", "firstAvailable of", "exactly");
        }
        if choices.wanted().any(|one| one.access == Access::Admin && is_wide(one)) {
            return why("requests", "adminAccess to", "adminAccess to devices of one node");
        }
        if choices.wanted().any(|one| one.access == Access::Admin) {
            return why("requests", "adminAccess beside", "a claim for either");
        }
        if choices.name().is_some() && !choices.wanted().all(is_wide) {
            return why("constraints", "some beside", "a claim for either");
        }
        if choices.name().is_some() {
            return why("constraints", "some on", "none");
        }
        if choices.wanted().any(|one| one.count == Count::All && is_wide(one)) {
            return why("requests", "allocationMode All of", "allocationMode ExactCount");
        }
        if choices.wanted().any(|one| is_wide(one) && !self.serves(one)) {
            return why("requests", "GPUs, which queues pay for, among", "GPUs of one node");
        }
        None
    }

    /// Devices of several nodes that nobody has for each of these claims, which pods on these
    /// nodes use; claims that are not in the answer find too few, or want others.
    pub(super) fn pick_wide(&self, claims: &[(&Key, Vec<&Node>)]) -> BTreeMap<Key, Picked> {
        let is_free = |id: &DeviceId| !self.held.contains_key(id);
        let wishes = |key: &Key| self.wishes(key, self.known.get(key)?, is_free);
        let wanted: Vec<(&Key, Vec<DeviceWish>, &[&Node])> = claims
            .iter()
            .filter_map(|(key, nodes)| Some((*key, wishes(key)?, nodes.as_slice())))
            .collect();
        let places = wanted
            .iter()
            .flat_map(|(_, wishes, nodes)| nodes.iter().map(|node| (wishes.as_slice(), *node)));
        let chosen = chosen_devices(places);
        let by_name: BTreeMap<&Name, &DeviceId> =
            self.wide.devices.iter().map(|wide| (&wide.given.name, &wide.device.id)).collect();
        let picked = wanted.iter().filter_map(|(key, _, _)| {
            let set = self.wide_part(self.known.get(*key)?)?;
            let its = set.each().map(|(Wanted { request, .. }, at)| {
                let device = by_name.get(chosen.get(&wish(key, request, at))?)?;
                let (request, device) = (Name::clone(request), (*device).clone());
                Some(Pick { request, device, access: Access::Alone })
            });
            Some(((*key).clone(), its.collect::<Option<Picked>>()?))
        });
        picked.collect()
    }

    /// `nodeSelector` of an allocation of these devices to a pod on the node: as in
    /// kube-scheduler, the node's name where any device is of one, else what the terms of all of
    /// them say; `None`: all nodes can use them.
    pub(crate) fn node_selector(&self, picked: &Picked, node: &Name) -> Option<Value> {
        let wide: Option<Vec<&WideDevice>> =
            picked.iter().map(|one| self.wide.get(&one.device)).collect();
        let Some(wide) = wide.filter(|wide| !wide.is_empty()) else {
            let field = json!({ "key": "metadata.name", "operator": "In", "values": [&**node] });
            return Some(json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] }));
        };
        let terms: Vec<&Value> =
            wide.iter().filter_map(|wide| Some(&wide.term.as_ref()?.said)).collect();
        let mut term = json!({});
        for part in ["matchExpressions", "matchFields"] {
            let all = requirements(&terms, part);
            if !all.is_empty() {
                term[part] = all.into_iter().cloned().collect();
            }
        }
        (!terms.is_empty()).then(|| json!({ "nodeSelectorTerms": [term] }))
    }
}

/// What any of the terms requires, each once.
fn requirements<'t>(terms: &[&'t Value], part: &str) -> Vec<&'t Value> {
    let mut all: Vec<&Value> = Vec::new();
    for one in terms.iter().flat_map(|term| list(term, &format!("/{part}"))) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// What a wish is called.
fn wish(key: &Key, request: &Name, at: i64) -> Name {
    format!("{key} {request} {at}").into()
}

impl Mirror {
    /// Looks which devices of several nodes are free: pods that wait may get those alone. What a
    /// claim is not to keep is taken back before anything is bound.
    pub(super) fn look_at_wide_devices(&mut self) {
        let claims = &self.claims;
        if claims.wide.devices.is_empty() && claims.wide.free.is_empty() {
            return;
        }
        let left_over = claims.known.iter().filter(|(key, it)| it.is_left_over(key, &self.pods));
        let allocations = left_over.filter_map(|(_, claim)| claim.allocation.as_ref());
        let left_over: BTreeSet<&DeviceId> =
            allocations.flat_map(|allocation| allocation.devices.keys()).collect();
        let ids = claims.wide.all().map(|device| &device.id);
        let free = ids.filter(|id| !claims.held.contains_key(*id) || left_over.contains(*id));
        let free: BTreeSet<DeviceId> = free.cloned().collect();
        if free != claims.wide.free {
            self.claims.wide.free = free;
            let waits = |key: &&Key| self.pods.get(key).is_some_and(PodRecord::waits);
            let waiting = self.claims.pods.iter().filter(waits);
            self.changes.pods.extend(waiting.cloned());
        }
    }
}

#[cfg(test)]
mod tests;
