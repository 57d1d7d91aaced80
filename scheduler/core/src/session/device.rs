//! The shared devices of a node: how much of each is taken, and which of them a pod gets. A
//! device of which anything is taken is not idle; one that everybody is leaving is being
//! released as a whole.

use std::cmp::Ordering;

use super::{Fits, node::NodeRoom, state::Hold};
use crate::{
    model::{GpuGroup, GpuPart, Node, SharedGpu},
    profile::Placement,
};

/// A device that pods share, in the unit of [`Node::gpu_units`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedDevice {
    /// Its name.
    pub group: GpuGroup,
    /// Of pods that are there, leaving ones included.
    pub has: i64,
    /// Of those that are leaving.
    pub releases: i64,
    /// Promised to others.
    pub promised: i64,
}

/// How a pod chooses among devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The fullest or the emptiest device.
    pub placement: Placement,
    /// A device on which it fits at once comes first.
    pub at_once_first: bool,
}

/// A device that a pod may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// One that is shared, by position.
    Shared(usize),
    /// One that nobody shares yet.
    New,
}

impl SharedDevice {
    /// What is taken of it when everything is released.
    pub const fn later(&self) -> i64 {
        self.has - self.releases + self.promised
    }

    pub(super) const fn unused(group: GpuGroup) -> Self {
        Self { group, has: 0, releases: 0, promised: 0 }
    }

    pub(super) const fn is_unused(&self) -> bool {
        self.has == 0 && self.releases == 0 && self.promised == 0
    }

    pub(super) fn change(&mut self, hold: Hold, units: i64) {
        match hold {
            Hold::Has | Hold::IsStuck => self.has += units,
            Hold::Releases => {
                self.has += units;
                self.releases += units;
            }
            Hold::IsPromised => self.promised += units,
        }
    }

    fn fits(&self, units: i64, capacity: i64) -> Option<Fits> {
        if self.later() + units > capacity {
            return None;
        }
        let at_once = self.has > 0 && self.has + units <= capacity;
        Some(if at_once { Fits::Now } else { Fits::Later })
    }
}

impl NodeRoom {
    /// A pod takes (`units` above zero) or gives back a part of each of the devices.
    pub(super) fn change_parts(&mut self, groups: &[GpuGroup], hold: Hold, units: i64) {
        for group in groups {
            let at = self.shared.iter().position(|device| device.group == *group);
            let at = at.unwrap_or_else(|| {
                self.shared.push(SharedDevice::unused(group.clone()));
                self.shared.len() - 1
            });
            let device = &mut self.shared[at];
            let taken = |device: &SharedDevice| (device.has > 0, device.later() > 0);
            let before = taken(device);
            device.change(hold, units);
            let after = taken(device);
            if device.is_unused() {
                self.shared.swap_remove(at);
            }
            let devices = |taken: bool| if taken { 1000 } else { 0 };
            let idle = devices(before.0) - devices(after.0);
            self.idle.gpu_milli += idle;
            self.releasing.gpu_milli += devices(before.1) - devices(after.1) - idle;
        }
    }

    /// When parts of enough devices fit.
    pub fn fits_parts(&self, node: &Node, shared: &SharedGpu) -> Option<Fits> {
        let choice = Choice { placement: Placement::BinPack, at_once_first: true };
        let chosen = self.choose_devices(node, shared, choice)?;
        chosen.into_iter().map(|(_, fits)| fits).max()
    }

    /// A part of a device that is shared already would do for each of those asked for.
    pub fn shares_with_others(&self, node: &Node, shared: &SharedGpu) -> bool {
        let (units, capacity) = (shared.units_on(node), node.gpu_units());
        let fitting = self.shared.iter().filter(|device| device.later() > 0);
        let fitting = fitting.filter(|device| device.fits(units, capacity).is_some());
        fitting.count() >= shared.devices as usize
    }

    /// The devices that a pod gets, and when; `None`: it does not fit.
    pub fn choose_devices(
        &self,
        node: &Node,
        shared: &SharedGpu,
        choice: Choice,
    ) -> Option<Vec<(Device, Fits)>> {
        let (units, capacity) = (shared.units_on(node), node.gpu_units());
        let is_memory = matches!(shared.part, GpuPart::MemoryMib(_));
        if units > capacity || is_memory && node.gpu_memory_mib <= 0 {
            return None;
        }
        let wanted = shared.devices as usize;
        let whole_devices = |milli: i64| usize::try_from(milli.div_euclid(1000)).unwrap_or(0);
        let idle = whole_devices(self.idle.gpu_milli);
        let free_later = self.idle.gpu_milli.saturating_add(self.releasing.gpu_milli);
        let mut free_later = whole_devices(free_later);
        let mut devices: Vec<(Device, i64, Fits)> = Vec::new();
        for (at, device) in self.shared.iter().enumerate() {
            if let Some(fits) = device.fits(units, capacity) {
                devices.push((Device::Shared(at), device.later(), fits));
            }
        }
        let new = free_later.min(wanted);
        let now = |at: usize| if at < idle { Fits::Now } else { Fits::Later };
        devices.extend((0..new).map(|at| (Device::New, 0, now(at))));
        let group = |device: Device| match device {
            Device::Shared(at) => Some(&self.shared[at].group),
            Device::New => None,
        };
        devices.sort_by(|(a, used_a, fits_a), (b, used_b, fits_b)| {
            let fits = if choice.at_once_first { fits_a.cmp(fits_b) } else { Ordering::Equal };
            let used = match choice.placement {
                Placement::BinPack => used_b.cmp(used_a),
                Placement::Spread => used_a.cmp(used_b),
            };
            fits.then(used).then_with(|| group(*a).cmp(&group(*b)))
        });
        let mut chosen = Vec::new();
        for (device, used, fits) in devices {
            if chosen.len() == wanted {
                break;
            }
            if used == 0 && free_later == 0 {
                continue;
            }
            free_later -= usize::from(used == 0);
            chosen.push((device, fits));
        }
        (chosen.len() == wanted).then_some(chosen)
    }

    /// Parts of these very devices are free, when everything is released, for a pod that has, or
    /// had, them.
    pub fn can_keep(&self, node: &Node, shared: &SharedGpu, groups: &[GpuGroup]) -> bool {
        let (units, capacity) = (shared.units_on(node), node.gpu_units());
        let used = |group: &GpuGroup| {
            let mut devices = self.shared.iter();
            devices.find(|device| device.group == *group).map_or(0, SharedDevice::later)
        };
        let new = groups.iter().filter(|group| used(group) == 0).count();
        let free_later = self.idle.gpu_milli.saturating_add(self.releasing.gpu_milli);
        let enough = i64::try_from(new).is_ok_and(|new| new * 1000 <= free_later);
        enough && groups.iter().all(|group| used(group) + units <= capacity)
    }
}
