//! Claims on devices that several nodes can use: `wide x?d1@zone=a,d2@` gets one of these devices,
//! `wide x*2?d1@,d2@` two, and `wide x@zone=a` has one that nodes of the zone can use. `wide
//! x:2?d1@` gets one, and two GPUs of its node.
//!
//! A line `device d1:any#mem=3 for zone=a counters mem=4` publishes a device for the nodes of a zone,
//! or `for all`, written as the devices of a node are, and counters of its pool. Claims that may get
//! it are written with `select`.

use std::{collections::BTreeSet, sync::Arc};

use schedlab_scheduler_core::{
    Snapshot,
    model::{
        ClaimAlternative, ClaimRequests, DeviceAccess, DeviceAmounts, DeviceClaim, DeviceCount,
        DeviceProperties, DeviceReach, Name, Node, NodeDevice, NodeDeviceRequest, Volume,
        VolumeAccess, VolumeReach,
    },
};

use super::{super::tokens::LineTokens, device, shape, volume};

/// A device that several nodes can use.
pub(super) struct MultiNodeDevice {
    device: NodeDevice,
    /// What its pool has of its counters.
    counters: DeviceAmounts,
    reach: VolumeReach,
}

/// Parses a line that publishes a device.
pub(super) fn parse_device(mut tokens: LineTokens<'_>) -> MultiNodeDevice {
    let mut device = device::parse_node_device(tokens.take_first());
    Arc::make_mut(&mut device.properties).is_multi_node = true;
    let counters = tokens.take_each("counters").into_iter().flat_map(device::amounts).collect();
    let places = tokens.take_each("for");
    tokens.expect_end();
    let [place] = places.as_slice() else { panic!("device: expected one `for`") };
    let reach = volume::parse_volume_reach(if *place == "all" { "" } else { place });
    MultiNodeDevice { device, counters, reach }
}

pub(super) fn parse_claim(word: &str) -> DeviceClaim {
    let of = volume::parse_unattached_claim(word);
    let (name, count) = of.name.split_once('*').unwrap_or((&of.name, "1"));
    let is_beside = name.contains(':');
    let local = if is_beside { name.to_owned() } else { format!("{name}:0") };
    let claim = shape::parse_claim(&local);
    match of.access {
        VolumeAccess::WaitForFirstConsumer { .. } => {
            let (_, devices) = word.split_once('?').expect("devices after ?");
            let request = NodeDeviceRequest {
                name: name.into(),
                // The devices are those that the selection lists.
                selection: devices.into(),
                count: DeviceCount::Exactly(count.parse().expect("a count")),
                access: DeviceAccess::Exclusive,
            };
            let alternative = ClaimAlternative { requests: vec![request], constraints: Vec::new() };
            let requests = Some(Arc::new(ClaimRequests { alternatives: vec![alternative] }));
            let reach =
                if is_beside { DeviceReach::PendingWithNodeLocal } else { DeviceReach::Pending };
            DeviceClaim { requests, reach, ..claim }
        }
        VolumeAccess::Bound(reach) => {
            DeviceClaim { reach: DeviceReach::Allocated(reach.affinity), ..claim }
        }
        VolumeAccess::Unavailable(_) => claim,
    }
}

/// Adds the published devices and those that claims list to the nodes that can use them, and says
/// which claims may get them.
pub(super) fn add_devices(snapshot: &mut Snapshot, published: &[MultiNodeDevice]) {
    let listed = listed_devices(snapshot);
    let devices: Vec<&MultiNodeDevice> = published.iter().chain(&listed).collect();
    for node in &mut snapshot.nodes {
        let usable = devices.iter().filter(|one| can_use(node, &one.reach));
        let usable: Vec<&&MultiNodeDevice> = usable.collect();
        for MultiNodeDevice { device, counters, .. } in usable {
            node.devices.push(device.clone());
            node.device_counters.extend(counters.clone());
        }
    }
    let claims = snapshot.shapes.iter_mut().flat_map(|shape| &mut shape.claims);
    for claim in claims.filter(|claim| claim.reach == DeviceReach::NodeLocal) {
        set_reach(claim, published);
    }
}

/// A claim of which all alternatives have a request that only devices of one node can satisfy is
/// bound to that node.
fn set_reach(claim: &mut DeviceClaim, published: &[MultiNodeDevice]) {
    let is_wide = |request: &NodeDeviceRequest| {
        let mut kinds = published.iter().map(|wide| &wide.device.properties.kinds);
        kinds.any(|kinds| kinds.contains(&request.selection))
    };
    let alternatives = claim.requests.iter().flat_map(|it| &it.alternatives);
    let alternatives: Vec<&ClaimAlternative> = alternatives.collect();
    if !alternatives.iter().flat_map(|it| &it.requests).any(is_wide) {
        return;
    }
    let is_of_node = |it: &&ClaimAlternative| !it.requests.iter().all(is_wide);
    let is_bound_to_node = alternatives.iter().all(is_of_node);
    claim.reach =
        if is_bound_to_node { DeviceReach::PendingWithNodeLocal } else { DeviceReach::Pending };
}

/// The devices that `wide` claims list.
fn listed_devices(snapshot: &Snapshot) -> Vec<MultiNodeDevice> {
    let mut devices: Vec<(Arc<Volume>, BTreeSet<Name>)> = Vec::new();
    let claims = snapshot.shapes.iter().flat_map(|shape| &shape.claims);
    let pending = claims.filter(|claim| claim.reach.is_pending());
    let requests = pending.filter_map(|claim| claim.requests.as_ref());
    for request in requests.flat_map(|it| &it.alternatives).flat_map(|it| &it.requests) {
        let listed = volume::parse_unattached_claim(&format!("any?{}", request.selection));
        let VolumeAccess::WaitForFirstConsumer { volumes, .. } = listed.access else { continue };
        for device in volumes {
            let at = devices.iter().position(|(known, _)| known.name == device.name);
            let at = at.unwrap_or_else(|| {
                devices.push((device, BTreeSet::new()));
                devices.len() - 1
            });
            devices[at].1.insert(Name::clone(&request.selection));
        }
    }
    devices.iter().map(|(device, kinds)| free_device(device, kinds)).collect()
}

fn can_use(node: &Node, reach: &VolumeReach) -> bool {
    let terms = reach.affinity.as_ref();
    terms.is_none_or(|terms| terms.iter().any(|term| term.matches_node(node)))
}

fn free_device(device: &Volume, kinds: &BTreeSet<Name>) -> MultiNodeDevice {
    let properties = DeviceProperties {
        kinds: kinds.clone(),
        pool_is_complete: true,
        is_multi_node: true,
        ..DeviceProperties::default()
    };
    let free = NodeDevice {
        name: Name::clone(&device.name),
        properties: Arc::new(properties),
        allocated_to: None,
        shares: Vec::new(),
    };
    MultiNodeDevice { device: free, counters: DeviceAmounts::new(), reach: device.reach.clone() }
}
