//! Which devices claims get that are allocated on a node at once.

use std::collections::BTreeMap;

use schedlab_scheduler_core::model::Name;

use super::{Claims, DeviceId, Key, device::Device, set::DeviceSet};

/// Devices, and the request for which each is given.
pub(crate) type Picked = Vec<(Name, DeviceId)>;

impl Claims {
    /// Devices of the node that nobody has, for each of these claims; claims that are not in the
    /// answer find too few. Those that are choosy are served first. Any devices do for the rest, so
    /// that one may have to leave to another what suits it, too.
    pub(crate) fn pick(&self, node: &Name, claims: &[&Key]) -> BTreeMap<Key, Picked> {
        let of_node = self.devices_of(node);
        let is_free = |device: &&Device| !self.held.contains_key(&device.id);
        let mut free: Vec<&Device> = of_node.iter().filter(is_free).collect();
        let mut picked = BTreeMap::new();
        let known = claims.iter().filter_map(|key| {
            let wanted = self.known.get(*key)?.wanted.as_ref().ok()?;
            Some((*key, wanted))
        });
        let (plain, choosy): (Vec<_>, Vec<_>) = known.partition(|(_, of)| of.plain().is_some());
        for (key, of) in choosy {
            if let Some(picks) = of.pick(&free, of_node) {
                picked.insert(key.clone(), taken(&mut free, &picks));
            }
        }
        let sets: Vec<&DeviceSet> = plain.iter().filter_map(|(_, of)| of.plain()).collect();
        if let Some(picks) = DeviceSet::all_of(&sets).pick(&free, of_node) {
            let mut rest = picks.into_iter();
            for ((key, _), set) in plain.iter().zip(sets) {
                let its: Vec<_> = rest.by_ref().take(set.devices()).collect();
                picked.insert((*key).clone(), taken(&mut free, &its));
            }
            return picked;
        }
        for (key, of) in plain {
            if let Some(picks) = of.pick(&free, of_node) {
                picked.insert(key.clone(), taken(&mut free, &picks));
            }
        }
        picked
    }
}

/// They are not free any more.
fn taken(free: &mut Vec<&Device>, picks: &[(&Name, &DeviceId)]) -> Picked {
    free.retain(|device| picks.iter().all(|(_, id)| **id != device.id));
    picks.iter().map(|(request, id)| (Name::clone(request), (*id).clone())).collect()
}
