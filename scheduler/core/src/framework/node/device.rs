//! The shared GPUs of a node: how much of each is taken, and which of them a pod gets. A GPU that
//! is partly taken is not idle; one whose pods are all leaving is releasing as a whole.

use std::cmp::Ordering;

use super::{Fit, NodeInfo};
use crate::{
    framework::pod::Occupancy,
    model::{FractionalGpu, GpuFraction, GpuGroup, Node},
    profile::Placement,
};

/// The usage of a shared GPU, in the unit of [`Node::units_per_gpu`]. Also used for shared claims,
/// where it counts pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedDevice {
    /// Name of the shared GPU (its GPU group).
    pub group: GpuGroup,
    /// Units used by pods on the node, terminating pods included.
    pub used: i64,
    /// Units of `used` that terminating pods release.
    pub releasing: i64,
    /// Units taken by pipelined pods.
    pub pipelined: i64,
}

/// How a pod chooses among the GPUs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePreference {
    /// Whether the fullest or the emptiest GPU comes first.
    pub placement: Placement,
    /// How GPUs with releasing fractions compare to others.
    pub order: DeviceOrder,
}

/// How GPUs with releasing fractions compare to others when a pod chooses a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOrder {
    /// GPUs on which a pod fits now come first.
    Earliest,
    /// GPUs compare by their present usage, releasing fractions included (KAI): a pod waits for a
    /// fraction of a fuller GPU and leaves an emptier one alone.
    Present,
    /// GPUs compare by their usage once everything is released.
    AfterRelease,
}

/// A GPU that a pod may get a fraction of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceCandidate {
    /// A shared GPU, by its position in the node's list.
    Shared(usize),
    /// A GPU that no pod shares yet.
    New,
}

impl SharedDevice {
    /// Units that are in use once terminating pods are gone.
    pub const fn used_later(&self) -> i64 {
        self.used - self.releasing + self.pipelined
    }

    /// The usage by which GPUs are compared. A GPU whose pods are all terminating counts as unused.
    const fn compared_use(&self, order: DeviceOrder) -> i64 {
        match (order, self.used_later()) {
            (DeviceOrder::Present, 1..) => self.used + self.pipelined,
            (_, later) => later,
        }
    }

    pub(super) const fn without_use(group: GpuGroup) -> Self {
        Self { group, used: 0, releasing: 0, pipelined: 0 }
    }

    pub(super) const fn is_unused(&self) -> bool {
        self.used == 0 && self.releasing == 0 && self.pipelined == 0
    }

    pub(super) fn change_use(&mut self, occupancy: Occupancy, units: i64) {
        match occupancy {
            Occupancy::Allocated | Occupancy::Stuck => self.used += units,
            Occupancy::Releasing => {
                self.used += units;
                self.releasing += units;
            }
            Occupancy::Pipelined => self.pipelined += units,
        }
    }

    /// When `units` fit on this GPU. A GPU whose pods are all terminating fits only later, because
    /// it is released as a whole.
    fn fit_units(&self, units: i64, capacity: i64) -> Option<Fit> {
        if self.used_later() + units > capacity {
            return None;
        }
        let at_once = self.used > self.releasing && self.used + units <= capacity;
        Some(if at_once { Fit::Now } else { Fit::Later })
    }
}

impl NodeInfo {
    /// Adds `units` to the usage of each of these GPUs; negative when a pod gives them back.
    pub(super) fn change_device_use(
        &mut self,
        groups: &[GpuGroup],
        occupancy: Occupancy,
        units: i64,
    ) {
        for group in groups {
            let at = self.shared_devices.iter().position(|device| device.group == *group);
            let at = at.unwrap_or_else(|| {
                self.shared_devices.push(SharedDevice::without_use(group.clone()));
                self.shared_devices.len() - 1
            });
            let device = &mut self.shared_devices[at];
            let taken = |device: &SharedDevice| (device.used > 0, device.used_later() > 0);
            let before = taken(device);
            device.change_use(occupancy, units);
            let after = taken(device);
            if device.is_unused() {
                self.shared_devices.swap_remove(at);
            }
            let devices = |taken: bool| if taken { 1000 } else { 0 };
            let idle = devices(before.0) - devices(after.0);
            self.idle.gpu_milli += idle;
            self.releasing.gpu_milli += devices(before.1) - devices(after.1) - idle;
        }
    }

    /// When the requested fraction fits on enough GPUs; `None` when it does not.
    pub fn fit_fraction(&self, node: &Node, fractional_gpu: &FractionalGpu) -> Option<Fit> {
        let choice =
            DevicePreference { placement: Placement::BinPack, order: DeviceOrder::Earliest };
        let chosen = self.choose_devices(node, fractional_gpu, choice)?;
        chosen.into_iter().map(|(_, fits)| fits).max()
    }

    /// Idle units of the GPU that has the most, in the unit of [`Node::units_per_gpu`].
    pub fn max_idle_units(&self, node: &Node) -> i64 {
        let capacity = node.units_per_gpu();
        let whole = if self.idle.gpu_milli >= 1000 { capacity } else { 0 };
        let in_use = self.shared_devices.iter().filter(|device| device.used > 0);
        in_use.map(|device| capacity - device.used).fold(whole, i64::max)
    }

    /// Free parts of shared GPUs once everything is released, in thousandths of a GPU. GPUs that no
    /// pod uses any more count as whole GPUs, not here. As in KAI, the usage of each GPU is rounded
    /// up to hundredths.
    pub fn shared_free_milli(&self, node: &Node) -> i64 {
        let capacity = i128::from(node.units_per_gpu().max(1));
        let taken =
            self.shared_devices.iter().map(SharedDevice::used_later).filter(|taken| *taken > 0);
        let left = taken.map(|taken| {
            let hundredths = (i128::from(taken) * 100 + capacity - 1) / capacity;
            1000 - i64::try_from(hundredths.min(100) * 10).unwrap_or(1000)
        });
        left.sum()
    }

    /// Whether a GPU that is already shared has capacity for one of the requested fractions.
    pub fn has_shared_device_for(&self, node: &Node, fractional_gpu: &FractionalGpu) -> bool {
        let (units, capacity) = (fractional_gpu.units_on(node), node.units_per_gpu());
        let mut in_use = self.shared_devices.iter().filter(|device| device.used_later() > 0);
        in_use.any(|device| device.fit_units(units, capacity).is_some())
    }

    /// The GPUs that a pod gets for its fractions, and when they are free; `None` when the pod does
    /// not fit.
    pub fn choose_devices(
        &self,
        node: &Node,
        fractional_gpu: &FractionalGpu,
        choice: DevicePreference,
    ) -> Option<Vec<(DeviceCandidate, Fit)>> {
        let (units, capacity) = (fractional_gpu.units_on(node), node.units_per_gpu());
        let is_memory = matches!(fractional_gpu.fraction, GpuFraction::MemoryMib(_));
        if units > capacity || is_memory && node.gpu_memory_mib <= 0 {
            return None;
        }
        let needed = fractional_gpu.devices as usize;
        let whole_devices = |milli: i64| usize::try_from(milli.div_euclid(1000)).unwrap_or(0);
        let idle = whole_devices(self.idle.gpu_milli);
        let free_later = self.idle.gpu_milli.saturating_add(self.releasing.gpu_milli);
        let mut free_later = whole_devices(free_later);
        let mut devices: Vec<(DeviceCandidate, i64, Fit)> = Vec::new();
        for (at, device) in self.shared_devices.iter().enumerate() {
            if let Some(fits) = device.fit_units(units, capacity) {
                devices.push((
                    DeviceCandidate::Shared(at),
                    device.compared_use(choice.order),
                    fits,
                ));
            }
        }
        let new = free_later.min(needed);
        let now = |at: usize| if at < idle { Fit::Now } else { Fit::Later };
        devices.extend((0..new).map(|at| (DeviceCandidate::New, 0, now(at))));
        let group = |device: DeviceCandidate| match device {
            DeviceCandidate::Shared(at) => Some(&self.shared_devices[at].group),
            DeviceCandidate::New => None,
        };
        devices.sort_by(|(a, used_a, fits_a), (b, used_b, fits_b)| {
            let fits = match choice.order {
                DeviceOrder::Earliest => fits_a.cmp(fits_b),
                DeviceOrder::Present | DeviceOrder::AfterRelease => Ordering::Equal,
            };
            let used = match choice.placement {
                Placement::BinPack | Placement::LeastFragmentation => used_b.cmp(used_a),
                Placement::Spread => used_a.cmp(used_b),
            };
            fits.then(used).then_with(|| group(*a).cmp(&group(*b)))
        });
        let mut chosen = Vec::new();
        for (device, used, fits) in devices {
            if chosen.len() == needed {
                break;
            }
            if used == 0 && free_later == 0 {
                continue;
            }
            free_later -= usize::from(used == 0);
            chosen.push((device, fits));
        }
        (chosen.len() == needed).then_some(chosen)
    }

    /// Whether a pod that has or had these GPUs could keep them: they have capacity once everything
    /// is released.
    pub fn can_keep_devices(
        &self,
        node: &Node,
        fractional_gpu: &FractionalGpu,
        groups: &[GpuGroup],
    ) -> bool {
        let (units, capacity) = (fractional_gpu.units_on(node), node.units_per_gpu());
        let used = |group: &GpuGroup| {
            let mut devices = self.shared_devices.iter();
            devices.find(|device| device.group == *group).map_or(0, SharedDevice::used_later)
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
        framework::Session,
        model::{NodeId, PodShape},
    };
    use schedlab_testkit::snapshot_of;

    /// Looks at the first node, for the fraction that the pending pod requests.
    fn on_first<T>(text: &str, look: impl Fn(&NodeInfo, &Node, &FractionalGpu) -> T) -> T {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("a pending pod");
        let PodShape { fractional_gpu, .. } = &snapshot.shapes[pod.shape.0 as usize];
        let shared = fractional_gpu.as_ref().expect("the pod requests a GPU fraction");
        look(session.node_info(NodeId(0)), &snapshot.nodes[0], shared)
    }

    fn chosen_by(placement: Placement, order: DeviceOrder, text: &str) -> String {
        let choice = DevicePreference { placement, order };
        let describe = |room: &NodeInfo, (device, fits): (DeviceCandidate, Fit)| match device {
            DeviceCandidate::Shared(at) => format!("{} {fits:?}", room.shared_devices[at].group),
            DeviceCandidate::New => format!("new {fits:?}"),
        };
        on_first(text, |room, node, fractional_gpu| {
            let Some(devices) = room.choose_devices(node, fractional_gpu, choice) else {
                return "none".to_owned();
            };
            let devices = devices.into_iter().map(|device| describe(room, device));
            devices.collect::<Vec<_>>().join(", ")
        })
    }

    fn packed(text: &str) -> String {
        chosen_by(Placement::BinPack, DeviceOrder::Earliest, text)
    }

    const TWO_SHARED_ONE_IDLE: &str = "
        node n1 gpus=3 gpu-memory=8000
        job a part=0.6 on n1/g1
        job b part=0.3 on n1/g2
    ";

    #[test]
    fn fractions_go_to_the_fullest_or_the_emptiest_devices() {
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
            chosen_by(Placement::Spread, DeviceOrder::Earliest, &text)
        };
        assert_eq!(spread("part=0.4"), "new Now");
        assert_eq!(spread("part=0.4 devices=2"), "new Now, g2 Now");
    }

    #[test]
    fn equally_full_devices_are_chosen_by_name() {
        let text = "
            node n1 gpus=2
            job a part=0.5 on n1/g2
            job b part=0.5 on n1/g1
            job x part=0.5
        ";
        assert_eq!(packed(text), "g1 Now");
    }

    #[test]
    fn devices_that_fit_now_come_first_unless_looking_ahead() {
        let text = "
            node n1 gpus=2
            job a part=0.5 on n1/g1
            job r part=0.5 releasing on n1/g1
            job b part=0.2 on n1/g2
            job x part=0.5
        ";
        let by = |order| chosen_by(Placement::BinPack, order, text);
        assert_eq!(packed(text), "g2 Now");
        assert_eq!(by(DeviceOrder::Present), "g1 Later");
        assert_eq!(by(DeviceOrder::AfterRelease), "g1 Later");
    }

    #[test]
    fn releasing_fractions_count_as_use_now_but_not_after_release() {
        let text = "
            node n1 gpus=3
            job a part=0.3 on n1/g1
            job r part=0.5 releasing on n1/g1
            job b part=0.4 on n1/g2
            job s part=0.9 releasing on n1/g3
            job x part=0.3
        ";
        let by = |order| chosen_by(Placement::BinPack, order, text);
        assert_eq!(by(DeviceOrder::Earliest), "g2 Now");
        assert_eq!(by(DeviceOrder::Present), "g1 Later");
        assert_eq!(by(DeviceOrder::AfterRelease), "g2 Now");
    }

    #[test]
    fn a_device_whose_users_all_leave_is_freed_once() {
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
    fn a_pod_fits_when_its_last_device_is_free() {
        let fits = |asks: &str| {
            let text = format!(
                "
                node n1 gpus=2
                job r part=0.6 releasing on n1/g1
                job a part=0.3 on n1/g2
                job x {asks}
            "
            );
            on_first(&text, NodeInfo::fit_fraction)
        };
        assert_eq!(fits("part=0.7"), Some(Fit::Now));
        assert_eq!(fits("part=0.7 devices=2"), Some(Fit::Later));
        assert_eq!(fits("part=0.7 devices=3"), None);
    }

    #[test]
    fn a_node_has_a_shared_device_when_one_in_use_has_room() {
        let shares = |asks: &str| {
            let text = format!("{TWO_SHARED_ONE_IDLE}\njob x {asks}");
            on_first(&text, NodeInfo::has_shared_device_for)
        };
        assert!(shares("part=0.4 devices=2") && shares("part=0.7"));
        assert!(shares("part=0.5 devices=2"), "the other fraction gets a GPU of its own");
        assert!(!shares("part=0.8") && !shares("part=0.8 devices=2"));
        let leaving = "node n1 gpus=1\njob r part=0.6 releasing on n1/g1\njob x part=0.4";
        assert!(!on_first(leaving, NodeInfo::has_shared_device_for));
    }

    #[test]
    fn a_device_counts_as_taken_until_its_last_fraction_is_released() {
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
    fn an_evicted_pod_keeps_its_devices_while_its_fractions_are_free() {
        let keeps = |others: &str, asks: &str, groups: &[&str]| {
            let groups: Vec<GpuGroup> = groups.iter().map(|group| (*group).into()).collect();
            let text = format!("node n1 gpus=2\n{others}\njob x {asks}");
            on_first(&text, |room, node, fractional_gpu| {
                room.can_keep_devices(node, fractional_gpu, &groups)
            })
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
