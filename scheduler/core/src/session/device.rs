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

    /// A device that everybody leaves is given at once to nobody: it goes back as a whole.
    fn fits(&self, units: i64, capacity: i64) -> Option<Fits> {
        if self.later() + units > capacity {
            return None;
        }
        let at_once = self.has > self.releases && self.has + units <= capacity;
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

    /// How much is idle of the device of which most is, in the unit of [`Node::gpu_units`].
    pub fn idle_of_one(&self, node: &Node) -> i64 {
        let capacity = node.gpu_units();
        let whole = if self.idle.gpu_milli >= 1000 { capacity } else { 0 };
        let in_use = self.shared.iter().filter(|device| device.has > 0);
        in_use.map(|device| capacity - device.has).fold(whole, i64::max)
    }

    /// What is left of shared devices when everything is released, in thousandths. A device of which
    /// nothing stays taken is a whole one. As KAI, what is taken is rounded up to hundredths.
    pub fn left_of_shared_milli(&self, node: &Node) -> i64 {
        let capacity = i128::from(node.gpu_units().max(1));
        let taken = self.shared.iter().map(SharedDevice::later).filter(|taken| *taken > 0);
        let left = taken.map(|taken| {
            let hundredths = (i128::from(taken) * 100 + capacity - 1) / capacity;
            1000 - i64::try_from(hundredths.min(100) * 10).unwrap_or(1000)
        });
        left.sum()
    }

    /// A part of a device that is shared already would do for one of those asked for.
    pub fn shares_with_others(&self, node: &Node, shared: &SharedGpu) -> bool {
        let (units, capacity) = (shared.units_on(node), node.gpu_units());
        let mut in_use = self.shared.iter().filter(|device| device.later() > 0);
        in_use.any(|device| device.fits(units, capacity).is_some())
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
                Placement::BinPack | Placement::LeastFragmentation => used_b.cmp(used_a),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Profile,
        model::{NodeId, PodShape},
        session::Session,
        testing::snapshot_of,
    };

    /// On the first node of the table, for what its waiting pod asks for.
    fn on_first<T>(text: &str, look: impl Fn(&NodeRoom, &Node, &SharedGpu) -> T) -> T {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("one waits");
        let PodShape { shared_gpu, .. } = &snapshot.shapes[pod.shape.0 as usize];
        let shared = shared_gpu.as_ref().expect("it asks for parts");
        look(session.room(NodeId(0)), &snapshot.nodes[0], shared)
    }

    fn chosen_by(placement: Placement, at_once_first: bool, text: &str) -> String {
        let choice = Choice { placement, at_once_first };
        let told = |room: &NodeRoom, (device, fits): (Device, Fits)| match device {
            Device::Shared(at) => format!("{} {fits:?}", room.shared[at].group),
            Device::New => format!("new {fits:?}"),
        };
        on_first(text, |room, node, shared| {
            let Some(devices) = room.choose_devices(node, shared, choice) else {
                return "none".to_owned();
            };
            let devices = devices.into_iter().map(|device| told(room, device));
            devices.collect::<Vec<_>>().join(", ")
        })
    }

    fn packed(text: &str) -> String {
        chosen_by(Placement::BinPack, true, text)
    }

    const TWO_SHARED_ONE_IDLE: &str = "
        node n1 gpus=3 gpu-memory=8000
        job a part=0.6 on n1/g1
        job b part=0.3 on n1/g2
    ";

    #[test]
    fn parts_go_to_the_fullest_devices_or_to_the_emptiest() {
        let of = |asks: &str| packed(&format!("{TWO_SHARED_ONE_IDLE}\njob x {asks}"));
        assert_eq!(of("part=0.4"), "g1 Now");
        assert_eq!(of("part=0.401"), "g2 Now");
        assert_eq!(of("part=0.8"), "new Now");
        assert_eq!(of("part=0.4 devices=3"), "g1 Now, g2 Now, new Now");
        assert_eq!(of("part=0.5 devices=2"), "g2 Now, new Now");
        assert_eq!(of("part=0.4 devices=4"), "none");
        assert_eq!(of("part-memory=3200"), "g1 Now");
        assert_eq!(of("part-memory=3201"), "g2 Now");
        assert_eq!(of("part-memory=8001"), "none");
        assert_eq!(packed("node n1 gpus=1\njob x part-memory=1"), "none", "of memory not known");
        let spread = |asks: &str| {
            let text = format!("{TWO_SHARED_ONE_IDLE}\njob x {asks}");
            chosen_by(Placement::Spread, true, &text)
        };
        assert_eq!(spread("part=0.4"), "new Now");
        assert_eq!(spread("part=0.4 devices=2"), "new Now, g2 Now");
    }

    #[test]
    fn of_devices_as_full_the_first_by_name_is_taken() {
        let text = "
            node n1 gpus=2
            job a part=0.5 on n1/g2
            job b part=0.5 on n1/g1
            job x part=0.5
        ";
        assert_eq!(packed(text), "g1 Now");
    }

    #[test]
    fn where_it_fits_at_once_comes_first_unless_one_looks_ahead() {
        let text = "
            node n1 gpus=2
            job a part=0.5 on n1/g1
            job r part=0.5 releasing on n1/g1
            job b part=0.2 on n1/g2
            job x part=0.5
        ";
        assert_eq!(packed(text), "g2 Now");
        assert_eq!(chosen_by(Placement::BinPack, false, text), "g1 Later");
    }

    #[test]
    fn a_device_that_everybody_leaves_is_free_once() {
        let of = |asks: &str| {
            packed(&format!(
                "
                node n1 gpus=2
                job r part=0.6 releasing on n1/g1
                job a part=0.3 on n1/g2
                job x {asks}
            "
            ))
        };
        assert_eq!(of("part=0.5"), "g2 Now");
        assert_eq!(of("part=0.5 devices=2"), "g2 Now, new Later");
        assert_eq!(of("part=0.5 devices=3"), "none");
        assert_eq!(of("part=0.4 devices=2"), "g2 Now, new Later");
        assert_eq!(of("part=0.8"), "new Later");
    }

    #[test]
    fn it_fits_when_the_last_of_its_devices_is_free() {
        let fits = |asks: &str| {
            let text = format!(
                "
                node n1 gpus=2
                job r part=0.6 releasing on n1/g1
                job a part=0.3 on n1/g2
                job x {asks}
            "
            );
            on_first(&text, NodeRoom::fits_parts)
        };
        assert_eq!(fits("part=0.7"), Some(Fits::Now));
        assert_eq!(fits("part=0.7 devices=2"), Some(Fits::Later));
        assert_eq!(fits("part=0.7 devices=3"), None);
    }

    #[test]
    fn a_node_shares_with_others_where_a_part_finds_a_device_in_use() {
        let shares = |asks: &str| {
            let text = format!("{TWO_SHARED_ONE_IDLE}\njob x {asks}");
            on_first(&text, NodeRoom::shares_with_others)
        };
        assert!(shares("part=0.4 devices=2") && shares("part=0.7"));
        assert!(shares("part=0.5 devices=2"), "the other part gets a device of its own");
        assert!(!shares("part=0.8") && !shares("part=0.8 devices=2"));
        let leaving = "node n1 gpus=1\njob r part=0.6 releasing on n1/g1\njob x part=0.4";
        assert!(!on_first(leaving, NodeRoom::shares_with_others));
    }

    #[test]
    fn a_device_counts_as_taken_until_its_last_part_is_given_back() {
        let idle_and_releasing = |text: &str| {
            let text = format!("node n1 gpus=4\n{text}\njob x part=0.5");
            on_first(&text, |room, _, _| (room.idle.gpu_milli, room.releasing.gpu_milli))
        };
        assert_eq!(idle_and_releasing(""), (4000, 0));
        assert_eq!(idle_and_releasing("job a part=0.5 on n1/g1"), (3000, 0));
        let both = "job a part=0.5 on n1/g1\njob b part=0.5 on n1/g1";
        assert_eq!(idle_and_releasing(both), (3000, 0));
        let one_leaves = "job a part=0.5 on n1/g1\njob b part=0.5 releasing on n1/g1";
        assert_eq!(idle_and_releasing(one_leaves), (3000, 0));
        let all_leave = "job a part=0.5 releasing on n1/g1\njob b part=0.5 releasing on n1/g1";
        assert_eq!(idle_and_releasing(all_leave), (3000, 1000));
    }

    #[test]
    fn who_had_devices_can_keep_them_as_long_as_their_parts_are_free() {
        let keeps = |others: &str, asks: &str, groups: &[&str]| {
            let groups: Vec<GpuGroup> = groups.iter().map(|group| (*group).into()).collect();
            let text = format!("node n1 gpus=2\n{others}\njob x {asks}");
            on_first(&text, |room, node, shared| room.can_keep(node, shared, &groups))
        };
        let one = "job a part=0.5 on n1/g1";
        assert!(keeps(one, "part=0.5", &["g1"]) && !keeps(one, "part=0.6", &["g1"]));
        assert!(keeps(one, "part=0.5", &["g1", "g2"]));
        assert!(keeps(one, "part=0.9", &["g2"]) && !keeps(one, "part=0.9", &["g2", "g3"]));
        assert!(keeps("", "part=0.9", &["g2", "g3"]));
        let leaves = "job r part=0.5 releasing on n1/g1\njob b gpus=1 on n1";
        assert!(keeps(leaves, "part=0.9", &["g1"]) && !keeps(leaves, "part=0.9", &["g1", "g2"]));
    }
}
