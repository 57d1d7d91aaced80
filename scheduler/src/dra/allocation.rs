//! Picks devices for claims that are allocated at the same time.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    devices::{
        AllocatedDevice, AvailableDevices, DevicePosition, PlacedClaim, UsableDevices,
        allocate_claims,
    },
    model::{
        AllocatedShare, ClaimRequests, DeviceAccess, DeviceAmounts, Name, Node, NodeDevice,
        NodeDeviceRequest,
    },
};

use super::{DEVICES_MAX, DeviceId, ObjectKey, ResourceClaims};

/// A device that a claim gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PickedDevice {
    /// The request that the device is allocated for.
    pub(crate) request: Name,
    pub(crate) device: DeviceId,
    pub(crate) access: DeviceAccess,
    /// What it consumes of the capacity of a device that can be shared; `None` for other devices.
    pub(crate) consumed: Option<DeviceAmounts>,
}

/// All devices that a claim gets.
pub(crate) type PickedDevices = Vec<PickedDevice>;

/// A claim to allocate, with the nodes of its pods.
#[derive(Clone, Copy)]
struct ClaimOnNodes<'a> {
    key: &'a ObjectKey,
    nodes: &'a [&'a Node],
}

/// The devices that a node can use.
struct NodeDevices {
    ids: Vec<DeviceId>,
    devices: Vec<NodeDevice>,
    counters: DeviceAmounts,
}

impl ResourceClaims {
    /// Picks devices for each of these claims, which pods on these nodes use: free ones, or any for
    /// admin access. Claims that are missing in the result cannot be satisfied.
    pub(crate) fn pick_for_nodes(
        &self,
        claims: &[(&ObjectKey, Vec<&Node>)],
    ) -> BTreeMap<ObjectKey, PickedDevices> {
        let claims = claims.iter().map(|(key, nodes)| ClaimOnNodes { key, nodes });
        let claims: Vec<ClaimOnNodes<'_>> = claims.collect();
        let mut picked = BTreeMap::new();
        for group in self.competing_claims(&claims) {
            picked.extend(self.pick_together(&group));
        }
        picked.retain(|_, its: &mut PickedDevices| {
            i64::try_from(its.len()).is_ok_and(|count| count <= DEVICES_MAX)
        });
        picked
    }

    /// Groups of claims that compete for devices: those of one node, and those of all nodes whose
    /// claims compete for multi-node devices or for counters.
    fn competing_claims<'a>(&self, claims: &[ClaimOnNodes<'a>]) -> Vec<Vec<ClaimOnNodes<'a>>> {
        let may_be_multi_node = |claim: &&ClaimOnNodes<'a>| {
            self.claims.get(claim.key).is_some_and(|claim| self.may_be_multi_node(claim))
        };
        let multi_node = claims.iter().filter(may_be_multi_node).flat_map(|claim| claim.nodes);
        let shared = self.counter_nodes.values().filter(|nodes| nodes.len() > 1).flatten();
        let joint: BTreeSet<&Name> = multi_node.map(|node| &node.name).chain(shared).collect();
        // The claims of joint nodes have no node as key.
        let mut groups: BTreeMap<Option<&Name>, Vec<ClaimOnNodes<'a>>> = BTreeMap::new();
        for claim in claims {
            let Some(node) = claim.nodes.first() else { continue };
            let group = Some(&node.name).filter(|name| !joint.contains(*name));
            groups.entry(group).or_default().push(*claim);
        }
        groups.into_values().collect()
    }

    /// Picks devices for these claims. The core has found that all can be allocated together. If
    /// that has changed since, they are allocated one by one, and claims without devices are missing
    /// in the result.
    fn pick_together(&self, claims: &[ClaimOnNodes<'_>]) -> BTreeMap<ObjectKey, PickedDevices> {
        let nodes: BTreeMap<&Name, &Node> =
            claims.iter().flat_map(|claim| claim.nodes).map(|node| (&node.name, *node)).collect();
        let mut lists: Vec<NodeDevices> =
            nodes.values().map(|node| self.devices_to_pick(node)).collect();
        let requests = claims.iter().filter_map(|claim| {
            Some((claim.key, self.claims.get(claim.key)?.requests.as_ref().ok()?.claim_requests()))
        });
        let requests: BTreeMap<&ObjectKey, ClaimRequests> = requests.collect();
        let placed = claims.iter().filter_map(|claim| {
            let index = |node: &&Node| nodes.keys().position(|name| **name == node.name);
            let mut at: Vec<usize> = claim.nodes.iter().filter_map(index).collect();
            at.sort_unstable();
            at.dedup();
            Some((claim.key, PlacedClaim { requests: requests.get(claim.key)?, nodes: at }))
        });
        let (keys, placed): (Vec<&ObjectKey>, Vec<PlacedClaim<'_>>) = placed.unzip();
        let (left, positions) = available(&lists);
        if let Ok(allocated) = allocate_claims(&placed, &left) {
            let picked = allocated.iter().map(|its| picked_devices(its, &lists, &positions));
            return keys.into_iter().cloned().zip(picked).collect();
        }
        let mut one_by_one = BTreeMap::new();
        for (key, placed) in keys.into_iter().zip(placed) {
            let (left, positions) = available(&lists);
            let Ok(allocated) = allocate_claims(&[placed], &left) else { continue };
            let allocated: Vec<AllocatedDevice<'_>> = allocated.into_iter().flatten().collect();
            one_by_one.insert(key.clone(), picked_devices(&allocated, &lists, &positions));
            for one in allocated {
                take(key, one, &mut lists, &positions);
            }
        }
        one_by_one
    }

    /// The devices that claims can get on the node. All allocated claims keep theirs.
    fn devices_to_pick(&self, node: &Node) -> NodeDevices {
        let own = self.devices_of(&node.name).iter().map(|device| device.id.clone());
        let own = own.zip(self.node_devices(&node.name, |_| true));
        let multi_node = self.listed_multi_node_devices(|_| true).into_iter();
        let multi_node = multi_node.filter(|listed| listed.is_usable_from(node));
        let multi_node = multi_node.map(|listed| (listed.id, listed.device));
        let (ids, devices) = own.chain(multi_node).unzip();
        NodeDevices { ids, devices, counters: self.counters_left_for(node) }
    }
}

fn available(lists: &[NodeDevices]) -> (AvailableDevices<'_>, Vec<DevicePosition>) {
    let mut usable = Vec::new();
    for NodeDevices { devices, counters, .. } in lists {
        usable.push(UsableDevices { devices, counters });
    }
    AvailableDevices::of_nodes(&usable, |_, _| true)
}

fn picked_devices(
    allocated: &[AllocatedDevice<'_>],
    lists: &[NodeDevices],
    positions: &[DevicePosition],
) -> PickedDevices {
    let pick = |one: &AllocatedDevice<'_>| {
        let DevicePosition { node, device } = positions[one.device];
        PickedDevice {
            request: Name::clone(&one.request.name),
            device: lists[node].ids[device].clone(),
            access: one.request.access,
            consumed: consumed(&lists[node].devices[device], one.request),
        }
    };
    allocated.iter().map(pick).collect()
}

/// Gives the device to the claim.
fn take(
    key: &ObjectKey,
    AllocatedDevice { request, device }: AllocatedDevice<'_>,
    lists: &mut [NodeDevices],
    positions: &[DevicePosition],
) {
    if request.access == DeviceAccess::Admin {
        return;
    }
    let at = positions[device];
    let device = &mut lists[at.node].devices[at.device];
    let claim = Name::from(key.to_string());
    match consumed(device, request) {
        None => device.allocated_to = Some(claim),
        Some(consumed) => device.shares.push(AllocatedShare { claim, consumed }),
    }
}

/// What the request consumes of the capacity of the device; `None` unless it can be shared.
fn consumed(device: &NodeDevice, request: &NodeDeviceRequest) -> Option<DeviceAmounts> {
    let shared = device.properties.shared.as_ref()?;
    Some(shared.consumed.get(&request.selection).cloned().unwrap_or_default())
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
        let node = Node { name: "n".into(), ..Node::default() };
        let on_node: Vec<(&ObjectKey, Vec<&Node>)> =
            keys.iter().map(|key| (key, vec![&node])).collect();
        let picked = cache.resource_claims.pick_for_nodes(&on_node);
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
