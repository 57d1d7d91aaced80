//! Allocated claims that no pod with a node uses. Their devices are not charged to any pod and not
//! free either, until the claim is released or deleted.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    model::{Name, UnusedClaim},
    resources::Resources,
};

use super::{DeviceAlternatives, ObjectKey, PodRecord, ResourceClaims};

/// Unused claims by node, each with whether it is about to be released.
pub(super) type UnusedClaims = BTreeMap<Name, BTreeMap<ObjectKey, bool>>;

impl ResourceClaims {
    /// Claims whose devices no pod on the node can get.
    pub(super) fn unusable_claims_on(&self, node: &Name) -> Vec<UnusedClaim> {
        let unused = self.unused_claims.get(node).into_iter().flatten();
        let held = unused.map(|(key, is_given_back)| UnusedClaim {
            name: key.to_string().into(),
            devices: self.claim_resources_on(node, key),
            is_deallocating: *is_given_back,
        });
        held.collect()
    }

    /// The resources of the devices that a claim holds on the node, including its device set.
    pub(super) fn claim_resources_on(&self, node: &Name, key: &ObjectKey) -> Resources {
        let Some(claim) = self.claims.get(key) else { return Resources::default() };
        let of_it = |id| claim.allocation.as_ref().is_some_and(|it| it.devices.contains_key(id));
        let devices = self.devices_of(node).iter().filter(|device| of_it(&device.id));
        let each = devices.map(|device| self.resources_of_device(device));
        let mut taken = each.fold(Resources::default(), |taken, offer| taken.plus(&offer));
        for share in claim.allocated_shares() {
            if let Some(selection) = claim.selection_of(&share.request) {
                taken.add(&self.resources_per_device(selection));
            }
        }
        let set = claim.requests.as_ref().ok().and_then(DeviceAlternatives::counted_name);
        taken.extended.extend(set.map(|set| (set, 1)));
        taken
    }

    fn find_unused_claims(&self, pods: &BTreeMap<ObjectKey, PodRecord>) -> UnusedClaims {
        let used = self.used_claims(pods);
        let mut unused = UnusedClaims::new();
        for (key, claim) in self.claims.iter().filter(|(key, _)| !used.contains(key)) {
            if let Some(node) = self.allocated_node(key, claim, pods) {
                let claims = unused.entry(node).or_default();
                claims.insert(key.clone(), claim.is_being_released(key, pods));
            }
        }
        unused
    }

    /// Allocated claims whose pods did not get their node, by node.
    fn find_leftover_claims(
        &self,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> BTreeMap<Name, BTreeSet<Name>> {
        let mut leftovers: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for (key, claim) in self.claims.iter().filter(|(key, claim)| claim.is_leftover(key, pods)) {
            let allocation = claim.allocation.as_ref();
            if let Some(node) = allocation.and_then(|of| self.allocation_node(of)) {
                leftovers.entry(Name::clone(node)).or_default().insert(key.to_string().into());
            }
        }
        leftovers
    }

    /// Claims of unfinished pods with a node.
    fn used_claims(&self, pods: &BTreeMap<ObjectKey, PodRecord>) -> BTreeSet<ObjectKey> {
        let placed = self.pods.iter().filter_map(|key| Some((key, pods.get(key)?)));
        let placed = placed.filter(|(_, pod)| pod.node.is_some() && !pod.is_finished());
        let claims = placed.flat_map(|(key, pod)| {
            let names = pod.claims.iter().filter_map(|one| one.claim.as_ref());
            names.map(|name| ObjectKey {
                namespace: Name::clone(&key.namespace),
                name: Name::clone(name),
            })
        });
        claims.collect()
    }

    /// Recomputes unused and leftover claims. Returns the nodes whose claims of these kinds differ
    /// from before.
    pub(crate) fn refresh_unused_claims(
        &mut self,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> BTreeSet<Name> {
        let leftovers = self.find_leftover_claims(pods);
        let leftovers_before = std::mem::replace(&mut self.leftovers, leftovers);
        let now = self.find_unused_claims(pods);
        let previous = std::mem::replace(&mut self.unused_claims, now);
        let now = &self.unused_claims;
        let nodes = previous.keys().chain(now.keys());
        let nodes = nodes.filter(|node| previous.get(*node) != now.get(*node));
        let leftovers = leftovers_before.keys().chain(self.leftovers.keys());
        let leftovers =
            leftovers.filter(|node| leftovers_before.get(*node) != self.leftovers.get(*node));
        nodes.chain(leftovers).cloned().collect()
    }
}
