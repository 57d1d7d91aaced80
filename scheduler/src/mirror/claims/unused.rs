//! Claims that are allocated and that no pod with a node uses. No pod takes their devices, and
//! they are not free either: nobody can be given them until the claim is given back or deleted.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    model::{HeldClaim, Name},
    resources::Resources,
};

use super::{Choices, Claims, Key, Mirror, PodRecord};

/// By node and claim, whether the claim is about to be given back.
pub(super) type Unused = BTreeMap<Name, BTreeMap<Key, bool>>;

impl Claims {
    /// What the node cannot give to pods, though none has it.
    pub(super) fn held_claims(&self, node: &Name) -> Vec<HeldClaim> {
        let unused = self.unused.get(node).into_iter().flatten();
        let held = unused.map(|(key, is_given_back)| HeldClaim {
            name: key.to_string().into(),
            devices: self.taken_on(node, key),
            is_given_back: *is_given_back,
        });
        held.collect()
    }

    /// What the devices that a claim has on the node are offered as, one by one and together.
    fn taken_on(&self, node: &Name, key: &Key) -> Resources {
        let Some(claim) = self.known.get(key) else { return Resources::default() };
        let of_it = |id| claim.allocation.as_ref().is_some_and(|it| it.devices.contains_key(id));
        let devices = self.devices_of(node).iter().filter(|device| of_it(&device.id));
        let each = devices.map(|device| self.offer(device));
        let mut taken = each.fold(Resources::default(), |taken, offer| taken.plus(&offer));
        let set = claim.wanted.as_ref().ok().and_then(Choices::name);
        taken.extended.extend(set.map(|set| (set, 1)));
        taken
    }

    fn find_unused(&self, pods: &BTreeMap<Key, PodRecord>) -> Unused {
        let used = self.used(pods);
        let mut unused = Unused::new();
        for (key, claim) in self.known.iter().filter(|(key, _)| !used.contains(key)) {
            if let Some(node) = self.allocated_on(key, claim, pods) {
                let claims = unused.entry(node).or_default();
                claims.insert(key.clone(), claim.is_given_back(key, pods));
            }
        }
        unused
    }

    /// Sets that claims have, by node and by what they are counted as.
    fn count_sets(&self) -> BTreeMap<Name, BTreeMap<Name, i64>> {
        let mut had: BTreeMap<Name, BTreeMap<Name, i64>> = BTreeMap::new();
        for claim in self.known.values() {
            let node = claim.allocation.as_ref().and_then(|allocation| self.node_of(allocation));
            let set = claim.wanted.as_ref().ok().and_then(Choices::name);
            if let (Some(node), Some(set)) = (node, set) {
                *had.entry(Name::clone(node)).or_default().entry(set).or_default() += 1;
            }
        }
        had
    }

    /// Claims of pods that have a node.
    fn used(&self, pods: &BTreeMap<Key, PodRecord>) -> BTreeSet<Key> {
        let placed = self.pods.iter().filter_map(|key| Some((key, pods.get(key)?)));
        let placed = placed.filter(|(_, pod)| pod.node.is_some() && !pod.is_finished());
        let claims = placed.flat_map(|(key, pod)| {
            let names = pod.claims.iter().filter_map(|one| one.claim.as_ref());
            names
                .map(|name| Key { namespace: Name::clone(&key.namespace), name: Name::clone(name) })
        });
        claims.collect()
    }
}

impl Mirror {
    /// Looks which claims nobody uses; a node where these are others than before has changed.
    pub(crate) fn look_at_unused_claims(&mut self) {
        self.claims.sets_had = self.claims.count_sets();
        let now = self.claims.find_unused(&self.pods);
        let before = std::mem::replace(&mut self.claims.unused, now);
        let now = &self.claims.unused;
        let nodes = before.keys().chain(now.keys());
        let changed = nodes.filter(|node| before.get(*node) != now.get(*node));
        self.changes.nodes.extend(changed.cloned());
        self.look_at_wide_devices();
    }
}
