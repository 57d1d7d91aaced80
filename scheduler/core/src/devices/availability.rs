//! What is left of the devices that nodes can use: free devices, counters and capacity.

use std::collections::BTreeMap;

use crate::model::{DeviceAmounts, DeviceProperties, Name, Node, NodeDevice};

/// The devices of one or several nodes in one state of their allocation.
#[derive(Clone, Debug, Default)]
pub struct AvailableDevices<'a> {
    /// In the order of allocation.
    pub(super) devices: Vec<AvailableDevice<'a>>,
    /// What is left of the counters that the devices consume.
    pub(super) counters: DeviceAmounts,
}

/// A device, and what is left of it.
#[derive(Clone, Debug)]
pub(super) struct AvailableDevice<'a> {
    pub(super) properties: &'a DeviceProperties,
    /// Indexes of the nodes that can use it, in ascending order.
    pub(super) nodes: Vec<usize>,
    /// It is not allocated, or only as shares.
    pub(super) is_free: bool,
    /// A claim shares it, so it consumes its counters already.
    pub(super) is_shared: bool,
    /// Capacity that is left, of a device that can be shared.
    pub(super) capacity: DeviceAmounts,
}

/// A device in the lists of the nodes that [`AvailableDevices::of_nodes`] was called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePosition {
    /// Index of the first node that has it.
    pub node: usize,
    /// Index of the device among those of that node.
    pub device: usize,
}

/// The devices that a node can use, and what other devices leave of the counters that these
/// consume.
#[derive(Clone, Copy, Debug)]
pub struct UsableDevices<'a> {
    /// The devices, in the order of allocation.
    pub devices: &'a [NodeDevice],
    /// What other devices leave of the counters.
    pub counters: &'a DeviceAmounts,
}

impl<'a> From<&'a Node> for UsableDevices<'a> {
    fn from(node: &'a Node) -> Self {
        Self { devices: &node.devices, counters: &node.device_counters }
    }
}

impl<'a> AvailableDevices<'a> {
    /// The devices that these nodes can use, each once, if on each node exactly the claims for which
    /// `keeps` holds keep theirs. Devices that several nodes can use are kept by every claim. Also
    /// returns where each device comes from.
    pub fn of_nodes(
        nodes: &[UsableDevices<'a>],
        keeps: impl Fn(usize, &Name) -> bool,
    ) -> (Self, Vec<DevicePosition>) {
        let mut left = Self::default();
        let mut positions = Vec::new();
        let mut multi_node: BTreeMap<&Name, usize> = BTreeMap::new();
        let listed = nodes.iter().enumerate().flat_map(|(node, of_node)| {
            let devices = of_node.devices.iter().enumerate();
            devices.map(move |(device, listed)| (DevicePosition { node, device }, listed))
        });
        for (position, device) in listed {
            let node = position.node;
            let is_multi_node = device.properties.is_multi_node;
            if let Some(known) = multi_node.get(&device.name).filter(|_| is_multi_node) {
                left.devices[*known].nodes.push(node);
                continue;
            }
            if is_multi_node {
                multi_node.insert(&device.name, left.devices.len());
            }
            positions.push(position);
            left.devices.push(AvailableDevice::new(device, node, |claim| keeps(node, claim)));
        }
        for (name, amount) in nodes.iter().flat_map(|node| node.counters) {
            left.counters.entry(Name::clone(name)).or_insert(*amount);
        }
        left.charge_counters(nodes, &positions);
        (left, positions)
    }

    /// Takes the counters of devices in use. The counters of a node already lack what devices of
    /// other nodes consume, which is returned if these nodes are listed, too.
    fn charge_counters(&mut self, nodes: &[UsableDevices<'_>], positions: &[DevicePosition]) {
        let Self { devices, counters } = self;
        let consumed = devices.iter().zip(positions).flat_map(|(device, position)| {
            let counters = device.properties.counters.iter();
            counters.map(move |(name, amount)| (device, position, name, amount))
        });
        for (device, position, name, amount) in consumed {
            let Some(left) = counters.get_mut(name) else { continue };
            let listed = &nodes[position.node].devices[position.device];
            let was_in_use = listed.allocated_to.is_some() || !listed.shares.is_empty();
            // The node from which the counter was read.
            let source = nodes.iter().position(|node| node.counters.contains_key(name));
            let is_of_source = source.is_some_and(|node| device.nodes.contains(&node));
            if was_in_use && !is_of_source {
                *left += amount;
            }
            if !device.is_free || device.is_shared {
                *left -= amount;
            }
        }
    }

    /// The devices if none is allocated.
    pub fn all_free(
        devices: impl IntoIterator<Item = &'a DeviceProperties>,
        counters: &DeviceAmounts,
    ) -> Self {
        let free = |properties: &'a DeviceProperties| {
            let capacity = properties.shared.as_ref().map(|it| it.capacity.clone());
            let capacity = capacity.unwrap_or_default();
            let nodes = Vec::new();
            AvailableDevice { properties, nodes, is_free: true, is_shared: false, capacity }
        };
        Self { devices: devices.into_iter().map(free).collect(), counters: counters.clone() }
    }
}

impl<'a> AvailableDevice<'a> {
    fn new(device: &'a NodeDevice, node: usize, keeps: impl Fn(&Name) -> bool) -> Self {
        let properties = &*device.properties;
        let keeps = |claim: &Name| properties.is_multi_node || keeps(claim);
        let mut capacity =
            properties.shared.as_ref().map_or_else(DeviceAmounts::new, |it| it.capacity.clone());
        let mut is_shared = false;
        for share in device.shares.iter().filter(|share| keeps(&share.claim)) {
            is_shared = true;
            subtract(&mut capacity, &share.consumed);
        }
        let is_free = device.allocated_to.as_ref().is_none_or(|claim| !keeps(claim));
        Self { properties, nodes: vec![node], is_free, is_shared, capacity }
    }

    /// Whether all these nodes can use it.
    pub(super) fn is_usable_from(&self, nodes: &[usize]) -> bool {
        nodes.iter().all(|node| self.nodes.contains(node))
    }
}

/// Amounts may become negative; unknown names are left out.
fn subtract(from: &mut DeviceAmounts, amounts: &DeviceAmounts) {
    for (name, amount) in amounts {
        if let Some(left) = from.get_mut(name) {
            *left -= amount;
        }
    }
}
