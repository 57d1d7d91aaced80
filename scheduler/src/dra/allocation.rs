//! Picks devices for claims that are allocated on a node at the same time.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    devices::{AllocatedDevice, AvailableDevices, allocate},
    model::{AllocatedShare, ClaimRequests, DeviceAccess, DeviceAmounts, Name, Node, NodeDevice},
};

use super::{DEVICES_MAX, DeviceAlternatives, DeviceId, ObjectKey, ResourceClaims};

/// A device that a claim gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PickedDevice {
    /// The request that it is allocated for.
    pub(crate) request: Name,
    pub(crate) device: DeviceId,
    pub(crate) access: DeviceAccess,
    /// What it consumes of the capacity of a device that can be shared; `None` for other devices.
    pub(crate) consumed: Option<DeviceAmounts>,
}

/// All devices that a claim gets.
pub(crate) type PickedDevices = Vec<PickedDevice>;

impl ResourceClaims {
    /// Picks devices for each of these claims, which pods on these nodes use. Claims that are
    /// missing in the result cannot be satisfied.
    pub(crate) fn pick_all(
        &self,
        claims: &[(&ObjectKey, Vec<&Node>)],
    ) -> BTreeMap<ObjectKey, PickedDevices> {
        let mut wide = self.pick_multi_node(claims);
        let mut by_node: BTreeMap<&Name, Vec<&ObjectKey>> = BTreeMap::new();
        for (key, nodes) in claims {
            let of_node = self
                .claims
                .get(*key)
                .is_some_and(|claim| self.node_local_alternatives(claim).is_some());
            if let Some(node) = nodes.first().filter(|_| of_node) {
                by_node.entry(&node.name).or_default().push(*key);
            }
        }
        let mut picked = BTreeMap::new();
        for (key, of_node) in by_node.into_iter().flat_map(|(at, claims)| self.pick(at, &claims)) {
            match (self.requests_multi_node(&key), wide.remove(&key)) {
                (false, _) => drop(picked.insert(key, of_node)),
                (true, Some(wide)) => {
                    let both = self.in_request_order(&key, [of_node, wide].concat());
                    picked.insert(key, both);
                }
                (true, None) => {}
            }
        }
        wide.retain(|key, _| {
            self.claims.get(key).is_some_and(|claim| self.node_local_alternatives(claim).is_none())
        });
        picked.extend(wide);
        picked.retain(|_, its| i64::try_from(its.len()).is_ok_and(|count| count <= DEVICES_MAX));
        picked
    }

    /// Sorts by the order of the requests in the claim.
    fn in_request_order(&self, key: &ObjectKey, mut picked: PickedDevices) -> PickedDevices {
        let wanted = self.claims.get(key).into_iter().flat_map(|claim| &claim.requests);
        let requests: Vec<&Name> =
            wanted.flat_map(DeviceAlternatives::requests).map(|wanted| &wanted.request).collect();
        picked.sort_by_key(|one| requests.iter().position(|request| **request == one.request));
        picked
    }

    /// Picks devices of the node for each of these claims: free ones, or any for admin access. The
    /// core has found that all can be allocated together. If that has changed since, they are
    /// allocated one by one, and claims without devices are missing in the result.
    pub(super) fn pick(
        &self,
        node: &Name,
        claims: &[&ObjectKey],
    ) -> BTreeMap<ObjectKey, PickedDevices> {
        let of_node = self.devices_of(node);
        let requests = claims.iter().filter_map(|key| {
            let alternatives = self.node_local_alternatives(self.claims.get(*key)?)?;
            Some((*key, alternatives.requests_of_node()))
        });
        let requests: Vec<(&ObjectKey, ClaimRequests)> = requests.collect();
        let mut devices = self.node_devices(node, |_| true);
        let counters = self.counters_left_for(node);
        let picked = |its: Vec<AllocatedDevice<'_>>| -> PickedDevices {
            let pick = |one: AllocatedDevice<'_>| PickedDevice {
                request: Name::clone(&one.request.name),
                device: of_node[one.device].id.clone(),
                access: one.request.access,
                consumed: of_node[one.device].consumed_by(&one.request.selection),
            };
            its.into_iter().map(pick).collect()
        };
        let together: Vec<&ClaimRequests> = requests.iter().map(|(_, requests)| requests).collect();
        let left = AvailableDevices::new(&devices, &counters, |_| true);
        if let Ok(allocated) = allocate(&together, &left) {
            let keys = requests.iter().map(|(key, _)| (*key).clone());
            return keys.zip(allocated.into_iter().map(picked)).collect();
        }
        let mut one_by_one = BTreeMap::new();
        for (key, requests) in &requests {
            let left = AvailableDevices::new(&devices, &counters, |_| true);
            let Ok(allocated) = allocate(&[requests], &left) else { continue };
            let its: Vec<AllocatedDevice<'_>> = allocated.into_iter().flatten().collect();
            let claim = Name::from(key.to_string());
            for one in its.iter().filter(|one| one.request.access == DeviceAccess::Exclusive) {
                let consumed = of_node[one.device].consumed_by(&one.request.selection);
                give(&mut devices[one.device], &claim, consumed);
            }
            one_by_one.insert((*key).clone(), picked(its));
        }
        one_by_one
    }
}

/// Gives the device, or a share that consumes this, to the claim.
fn give(device: &mut NodeDevice, claim: &Name, consumed: Option<DeviceAmounts>) {
    let claim = Name::clone(claim);
    match consumed {
        None => device.allocated_to = Some(claim),
        Some(consumed) => device.shares.push(AllocatedShare { claim, consumed }),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::{Value, json};

    use super::*;
    use crate::cache::ClusterCache;

    /// A claim on a device of this model, or on any two; `red and looks` has admin access to one
    /// more.
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

    /// The devices that claims get of one that is red and blue, and one that is red and green.
    fn rendered(claims: &[(&str, &str)]) -> String {
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
        let mut cache = ClusterCache::from_objects(&objects);
        cache.resource_claims.refresh();
        let key = |name: &str| ObjectKey { namespace: "ns".into(), name: name.into() };
        let keys: Vec<ObjectKey> = claims.iter().map(|(name, _)| key(name)).collect();
        let picked = cache.resource_claims.pick(&"n".into(), &keys.iter().collect::<Vec<_>>());
        let rendered = claims.iter().map(|(name, model)| {
            let devices =
                picked.get(&key(name)).into_iter().flatten().map(|one| &*one.device.device);
            format!("{name} ({model}): {}", devices.collect::<Vec<_>>().join(" "))
        });
        rendered.collect::<Vec<_>>().join(", ").replace(": ,", ": none,")
    }

    #[test]
    fn a_claim_avoids_the_only_device_that_suits_another() {
        assert_snapshot!(rendered(&[("a", "red"), ("b", "blue")]), @"a (red): 1, b (blue): 0");
        assert_snapshot!(rendered(&[("a", "red"), ("b", "green")]), @"a (red): 0, b (green): 1");
        assert_snapshot!(rendered(&[("a", "any two")]), @"a (any two): 0 1");
        assert_snapshot!(rendered(&[("a", "red and looks"), ("b", "blue")]), @"a (red and looks): 1 0, b (blue): 0");
    }

    #[test]
    fn some_claims_get_devices_when_not_all_can() {
        assert_snapshot!(rendered(&[("a", "red"), ("b", "any two")]), @"a (red): 0, b (any two): ");
        assert_snapshot!(rendered(&[("a", "blue"), ("b", "blue"), ("c", "red")]), @"a (blue): 0, b (blue): none, c (red): 1");
    }
}
