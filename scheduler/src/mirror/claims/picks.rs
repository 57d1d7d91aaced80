//! Which devices claims get that are allocated at once.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::model::Name;

use super::{Choices, Claims, DeviceId, Key, device::Device, set::DeviceSet};

/// Devices, and the request for which each is given.
pub(crate) type Picked = Vec<(Name, DeviceId)>;

impl Claims {
    /// Devices that nobody has for each of these claims, by the node where they are to be used;
    /// claims that are not in the answer find too few. A node that finds too few, as others took
    /// first what it reaches, too, comes first the next time.
    pub(crate) fn pick(&self, claims: &BTreeMap<&Name, Vec<&Key>>) -> BTreeMap<Key, Picked> {
        let mut order: Vec<&Name> = claims.keys().copied().collect();
        let mut picked = self.pick_in_turn(&order, claims);
        let trials = if self.published.are_shared() { TRIALS } else { 0 };
        for _ in 0..trials {
            let lacks = |node: &&Name| claims[*node].iter().any(|key| !picked.contains_key(*key));
            if !order.iter().any(lacks) {
                break;
            }
            order.sort_by_key(|node| !lacks(node));
            let again = self.pick_in_turn(&order, claims);
            if again.len() > picked.len() {
                picked = again;
            }
        }
        picked
    }

    fn pick_in_turn(
        &self,
        order: &[&Name],
        claims: &BTreeMap<&Name, Vec<&Key>>,
    ) -> BTreeMap<Key, Picked> {
        let (mut picked, mut gone) = (BTreeMap::new(), BTreeSet::new());
        for node in order {
            let of_node = self.published.of_node(node);
            let is_free = |device: &&Device| {
                !self.held.contains_key(&device.id) && !gone.contains(&device.id)
            };
            let free = of_node.iter().copied().filter(is_free).collect();
            let served = self.pick_on((&of_node, free), &claims[*node]);
            gone.extend(served.values().flatten().map(|(_, id)| id.clone()));
            picked.extend(served);
        }
        picked
    }

    /// Those that are choosy are served first. Any devices do for the rest, so that one may have to
    /// leave to another what suits it, too.
    fn pick_on(
        &self,
        (of_node, mut free): (&[&Device], Vec<&Device>),
        claims: &[&Key],
    ) -> BTreeMap<Key, Picked> {
        let mut picked = BTreeMap::new();
        let known = claims.iter().filter_map(|key| {
            let wanted = self.known.get(*key)?.wanted.as_ref().ok()?;
            Some((*key, wanted))
        });
        let (plain, choosy): (Vec<_>, Vec<_>) = known.partition(|(_, of)| of.plain().is_some());
        let mut alone = |(key, of): (&Key, &Choices), free: &mut Vec<&Device>| {
            let its = free.iter().copied();
            let its = its.filter(|device| !(of.is_local() && device.reach.is_shared()));
            if let Some(picks) = of.pick(&its.collect::<Vec<_>>(), of_node) {
                picked.insert(key.clone(), taken(free, &picks));
            }
        };
        for claim in choosy {
            alone(claim, &mut free);
        }
        let sets: Vec<&DeviceSet> = plain.iter().filter_map(|(_, of)| of.plain()).collect();
        let together = DeviceSet::all_of(&sets);
        let Some(picks) = together.pick(&free, of_node) else {
            for claim in plain {
                alone(claim, &mut free);
            }
            return picked;
        };
        let mut rest = picks.into_iter();
        for ((key, _), set) in plain.iter().zip(sets) {
            let its: Vec<_> = rest.by_ref().take(set.devices()).collect();
            picked.insert((*key).clone(), taken(&mut free, &its));
        }
        picked
    }
}

/// So often those that found too few come first.
const TRIALS: usize = 8;

/// They are not free any more.
fn taken(free: &mut Vec<&Device>, picks: &[(&Name, &DeviceId)]) -> Picked {
    free.retain(|device| picks.iter().all(|(_, id)| **id != device.id));
    picks.iter().map(|(request, id)| (Name::clone(request), (*id).clone())).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_json::{Value, json};

    use super::*;
    use crate::mirror::Mirror;

    /// A claim on a device of this model, or on any two.
    fn claim(name: &str, model: &str) -> Value {
        let attribute = "device.attributes['gpu.x']";
        let exactly = match model {
            "any two" => json!({ "deviceClassName": "gpu.x", "count": 2 }),
            model => json!({ "deviceClassName": "gpu.x", "selectors": [
                { "cel": { "expression": format!("{attribute}.{model}") } },
            ] }),
        };
        json!({ "kind": "ResourceClaim", "metadata": { "name": name, "namespace": "ns" },
                "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } } })
    }

    /// What claims get of a device that is red and blue, and one that is red and green.
    fn told(claims: &[(&str, &str)]) -> String {
        let is = |red, blue, green| json!({ "red": { "bool": red }, "blue": { "bool": blue }, "green": { "bool": green } });
        let slice = json!({ "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": {
            "nodeName": "n", "driver": "gpu.x", "pool": { "name": "n", "generation": 1 },
            "devices": [
                { "name": "0", "attributes": is(true, true, false) },
                { "name": "1", "attributes": is(true, false, true) },
            ],
        } });
        let class = json!({ "kind": "DeviceClass", "metadata": { "name": "gpu.x" }, "spec": {} });
        let mut objects = vec![slice, class];
        objects.extend(claims.iter().map(|(name, model)| claim(name, model)));
        let mut mirror = Mirror::of(&objects);
        mirror.claims.refresh(&mirror.nodes);
        let node = Name::from("n");
        let key = |name: &str| Key { namespace: "ns".into(), name: name.into() };
        let keys: Vec<Key> = claims.iter().map(|(name, _)| key(name)).collect();
        let on_n = BTreeMap::from([(&node, keys.iter().collect())]);
        let picked = mirror.claims.pick(&on_n);
        let told = claims.iter().map(|(name, model)| {
            let devices = picked.get(&key(name)).into_iter().flatten().map(|(_, id)| &*id.device);
            format!("{name} ({model}): {}", devices.collect::<Vec<_>>().join(" "))
        });
        told.collect::<Vec<_>>().join(", ").replace(": ,", ": none,")
    }

    #[test]
    fn a_claim_leaves_to_another_what_suits_only_that() {
        assert_snapshot!(told(&[("a", "red"), ("b", "blue")]), @"a (red): 1, b (blue): 0");
        assert_snapshot!(told(&[("a", "red"), ("b", "green")]), @"a (red): 0, b (green): 1");
        assert_snapshot!(told(&[("a", "any two")]), @"a (any two): 0 1");
    }

    #[test]
    fn where_not_all_can_be_served_some_are() {
        assert_snapshot!(told(&[("a", "red"), ("b", "any two")]), @"a (red): 0, b (any two): ");
        assert_snapshot!(told(&[("a", "blue"), ("b", "blue"), ("c", "red")]), @"a (blue): 0, b (blue): none, c (red): 1");
    }
}
