//! What is left of the devices of a node: free devices, counters and capacity.

use crate::model::{DeviceAmounts, DeviceProperties, Name, NodeDevice};

/// The devices of a node in one state of their allocation.
#[derive(Clone, Debug)]
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
    /// It is not allocated, or only as shares.
    pub(super) is_free: bool,
    /// A claim shares it, so it consumes its counters already.
    pub(super) is_shared: bool,
    /// Capacity that is left, of a device that can be shared.
    pub(super) capacity: DeviceAmounts,
}

impl<'a> AvailableDevices<'a> {
    /// The devices if exactly the claims for which `keeps` holds keep theirs. `counters` are what
    /// devices of other nodes leave.
    pub fn new(
        devices: impl IntoIterator<Item = &'a NodeDevice>,
        counters: &DeviceAmounts,
        keeps: impl Fn(&Name) -> bool,
    ) -> Self {
        let mut left = Self { devices: Vec::new(), counters: counters.clone() };
        for device in devices {
            let properties = &*device.properties;
            let is_free = device.allocated_to.as_ref().is_none_or(|claim| !keeps(claim));
            let mut capacity = properties
                .shared
                .as_ref()
                .map_or_else(DeviceAmounts::new, |it| it.capacity.clone());
            let mut is_shared = false;
            for share in device.shares.iter().filter(|share| keeps(&share.claim)) {
                is_shared = true;
                subtract(&mut capacity, &share.consumed);
            }
            if !is_free || is_shared {
                subtract(&mut left.counters, &properties.counters);
            }
            left.devices.push(AvailableDevice { properties, is_free, is_shared, capacity });
        }
        left
    }

    /// The devices if none is allocated.
    pub fn all_free(
        devices: impl IntoIterator<Item = &'a DeviceProperties>,
        counters: &DeviceAmounts,
    ) -> Self {
        let free = |properties: &'a DeviceProperties| {
            let capacity = properties.shared.as_ref().map(|it| it.capacity.clone());
            let capacity = capacity.unwrap_or_default();
            AvailableDevice { properties, is_free: true, is_shared: false, capacity }
        };
        Self { devices: devices.into_iter().map(free).collect(), counters: counters.clone() }
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
