//! Which devices claims get that are allocated on a node at once.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use schedlab_scheduler_core::model::{Name, Node};

use super::{
    Choices, Claims, DEVICES_MAX, DeviceId, Key,
    choices::takes,
    device::Device,
    record::{Access, Wanted},
    set::DeviceSet,
};

/// A device that a claim gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The request for which it is given.
    pub(crate) request: Name,
    pub(crate) device: DeviceId,
    pub(crate) access: Access,
}

/// All that a claim gets.
pub(crate) type Picked = Vec<Pick>;

impl Claims {
    /// Devices for each of these claims, which pods on these nodes use; claims that are not in the
    /// answer find too few.
    pub(crate) fn pick_all(&self, claims: &[(&Key, Vec<&Node>)]) -> BTreeMap<Key, Picked> {
        let mut wide = self.pick_wide(claims);
        let mut by_node: BTreeMap<&Name, Vec<&Key>> = BTreeMap::new();
        for (key, nodes) in claims {
            let of_node = self.known.get(*key).is_some_and(|claim| self.of_node(claim).is_some());
            if let Some(node) = nodes.first().filter(|_| of_node) {
                by_node.entry(&node.name).or_default().push(*key);
            }
        }
        let mut picked = BTreeMap::new();
        for (key, of_node) in by_node.into_iter().flat_map(|(at, claims)| self.pick(at, &claims)) {
            match (self.wants_wide(&key), wide.remove(&key)) {
                (false, _) => drop(picked.insert(key, of_node)),
                (true, Some(wide)) => {
                    let both = self.in_order(&key, [of_node, wide].concat());
                    picked.insert(key, both);
                }
                (true, None) => {}
            }
        }
        wide.retain(|key, _| {
            self.known.get(key).is_some_and(|claim| self.of_node(claim).is_none())
        });
        picked.extend(wide);
        picked.retain(|_, its| i64::try_from(its.len()).is_ok_and(|count| count <= DEVICES_MAX));
        picked
    }

    /// As the claim's requests are.
    fn in_order(&self, key: &Key, mut picked: Picked) -> Picked {
        let wanted = self.known.get(key).into_iter().flat_map(|claim| &claim.wanted);
        let requests: Vec<&Name> =
            wanted.flat_map(Choices::wanted).map(|wanted| &wanted.request).collect();
        picked.sort_by_key(|one| requests.iter().position(|request| **request == one.request));
        picked
    }

    /// Devices of the node that nobody has, or any to look after, for each of these claims; claims
    /// that are not in the answer find too few. Those that are choosy are served first. Any devices
    /// do for what others take, so that one may have to leave to another what suits it, too.
    pub(super) fn pick(&self, node: &Name, claims: &[&Key]) -> BTreeMap<Key, Picked> {
        let of_node = self.devices_of(node);
        let is_free = |device: &&Device| !self.held.contains_key(&device.id);
        let mut free: Vec<&Device> = of_node.iter().filter(is_free).collect();
        let mut picked = BTreeMap::new();
        let known =
            claims.iter().filter_map(|key| Some((*key, self.of_node(self.known.get(*key)?)?)));
        let known: Vec<(&Key, Cow<'_, Choices>)> = known.collect();
        let known = known.iter().map(|(key, of)| (*key, &**of, of.taken_plainly()));
        let (plain, choosy): (Vec<_>, Vec<_>) = known.partition(|(_, _, takes)| takes.is_some());
        let mut alone = |(key, of): (&Key, &Choices), (from, free): (&[&Device], &mut Vec<_>)| {
            if let Some(picks) = of.pick(from, of_node) {
                picked.insert(key.clone(), taken(free, &picks));
            }
        };
        for (key, of, _) in choosy {
            alone((key, of), (&free.clone(), &mut free));
        }
        let sets: Vec<&DeviceSet> = plain.iter().filter_map(|(_, _, it)| it.as_ref()).collect();
        let together = DeviceSet::all_of(&sets);
        let Some(picks) = together.pick(&free, of_node) else {
            for (key, of, _) in plain {
                alone((key, of), (&free.clone(), &mut free));
            }
            return picked;
        };
        let mut rest = picks.iter().map(|(_, id)| *id);
        for ((key, of, _), set) in plain.iter().zip(&sets) {
            let its: BTreeSet<&DeviceId> = rest.by_ref().take(set.devices()).collect();
            let own = free.iter().filter(|device| its.contains(&device.id));
            alone((key, of), (&own.copied().collect::<Vec<_>>(), &mut free));
        }
        picked
    }
}

/// Those that are taken are not free any more.
fn taken(free: &mut Vec<&Device>, picks: &[(&Wanted, &DeviceId)]) -> Picked {
    free.retain(|device| !takes(picks, device));
    let pick = |(of, id): &(&Wanted, &DeviceId)| Pick {
        request: Name::clone(&of.request),
        device: (*id).clone(),
        access: of.access,
    };
    picks.iter().map(pick).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_json::{Value, json};

    use super::*;
    use crate::mirror::Mirror;

    /// A claim on a device of this model, or on any two; `red and looks` looks after one besides.
    fn claim(name: &str, model: &str) -> Value {
        let attribute = "device.attributes['gpu.x']";
        let (model, looks) = match model.strip_suffix(" and looks") {
            Some(model) => (model, true),
            None => (model, false),
        };
        let exactly = match model {
            "any two" => json!({ "deviceClassName": "gpu.x", "count": 2 }),
            model => json!({ "deviceClassName": "gpu.x", "selectors": [
                { "cel": { "expression": format!("{attribute}.{model}") } },
            ] }),
        };
        let mut requests = vec![json!({ "name": "r", "exactly": exactly })];
        let looked_after = json!({ "deviceClassName": "gpu.x", "adminAccess": true });
        requests.extend(looks.then(|| json!({ "name": "w", "exactly": looked_after })));
        json!({ "kind": "ResourceClaim", "metadata": { "name": name, "namespace": "ns" },
                "spec": { "devices": { "requests": requests } } })
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
        mirror.claims.refresh();
        let key = |name: &str| Key { namespace: "ns".into(), name: name.into() };
        let keys: Vec<Key> = claims.iter().map(|(name, _)| key(name)).collect();
        let picked = mirror.claims.pick(&"n".into(), &keys.iter().collect::<Vec<_>>());
        let told = claims.iter().map(|(name, model)| {
            let devices =
                picked.get(&key(name)).into_iter().flatten().map(|one| &*one.device.device);
            format!("{name} ({model}): {}", devices.collect::<Vec<_>>().join(" "))
        });
        told.collect::<Vec<_>>().join(", ").replace(": ,", ": none,")
    }

    #[test]
    fn a_claim_leaves_to_another_what_suits_only_that() {
        assert_snapshot!(told(&[("a", "red"), ("b", "blue")]), @"a (red): 1, b (blue): 0");
        assert_snapshot!(told(&[("a", "red"), ("b", "green")]), @"a (red): 0, b (green): 1");
        assert_snapshot!(told(&[("a", "any two")]), @"a (any two): 0 1");
        assert_snapshot!(told(&[("a", "red and looks"), ("b", "blue")]), @"a (red and looks): 1 0, b (blue): 0");
    }

    #[test]
    fn where_not_all_can_be_served_some_are() {
        assert_snapshot!(told(&[("a", "red"), ("b", "any two")]), @"a (red): 0, b (any two): ");
        assert_snapshot!(told(&[("a", "blue"), ("b", "blue"), ("c", "red")]), @"a (blue): 0, b (blue): none, c (red): 1");
    }
}
