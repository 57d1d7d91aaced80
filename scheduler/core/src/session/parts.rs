//! Which shared devices, and which parts of zones, each pod has and was promised. Portions are kept
//! once and never change, so that a pod's are two numbers that can be written down and put back.

use super::{
    Fits, Session,
    device::{Choice, Device},
    node::NodeRoom,
    state::Hold,
    zones::Shares,
};
use crate::{
    Snapshot,
    model::{GpuGroup, Name, NodeId, Pod, PodId, SharedGpu},
};

/// The portions, and which of them each pod has.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    portions: Vec<Portion>,
    pods: Vec<PodParts>,
}

/// What a pod has of a node besides what it asks for of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Portion {
    pub(super) groups: Vec<GpuGroup>,
    pub(super) zones: Shares,
}

/// Positions of portions; the first is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodParts {
    /// Where the pod is.
    pub(super) held: u32,
    /// Where it was promised room.
    pub(super) promised: u32,
}

impl PodParts {
    pub(super) const fn promise_what_is_held(self) -> Self {
        Self { promised: self.held, ..self }
    }

    pub(super) const fn promise_nothing(self) -> Self {
        Self { promised: 0, ..self }
    }
}

impl Parts {
    /// As the snapshot shows them. A pod with a part of a device that names none shares it with
    /// nobody.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let pods = vec![PodParts::default(); snapshot.pods.len()];
        let mut parts = Self { portions: vec![Portion::default()], pods };
        for (pod, at) in snapshot.pods.iter().zip(0..) {
            let Some(node) = pod.node else { continue };
            let shared = snapshot.shapes[pod.shape.0 as usize].shared_gpu;
            if shared.is_none() && pod.zones.is_empty() {
                continue;
            }
            let groups = shared.map_or_else(Vec::new, |shared| known_groups(pod, &shared));
            let zones = known_shares(snapshot, pod, node);
            let held = parts.add(Portion { groups, zones });
            parts.set(PodId(at), PodParts { held, promised: 0 });
        }
        parts
    }

    fn add(&mut self, portion: Portion) -> u32 {
        if portion == Portion::default() {
            return 0;
        }
        self.portions.push(portion);
        u32::try_from(self.portions.len() - 1).expect("fewer choices than that are made in a cycle")
    }

    pub(super) fn of_pod(&self, pod: PodId) -> PodParts {
        self.pods[pod.0 as usize]
    }

    pub(super) fn set(&mut self, pod: PodId, parts: PodParts) {
        self.pods[pod.0 as usize] = parts;
    }

    pub(super) fn portion(&self, at: u32) -> &Portion {
        &self.portions[at as usize]
    }

    /// The devices that the pod holds so.
    pub(super) fn held_by(&self, pod: PodId, hold: Hold) -> &[GpuGroup] {
        &self.portion_of(pod, hold).groups
    }

    /// The shares of zones that the pod holds so.
    pub(super) fn zones_held_by(&self, pod: PodId, hold: Hold) -> &Shares {
        &self.portion_of(pod, hold).zones
    }

    /// It was promised what it has.
    pub(super) fn is_promised_what_is_held(&self, pod: PodId) -> bool {
        self.portion_of(pod, Hold::IsPromised) == self.portion_of(pod, Hold::Has)
    }

    fn portion_of(&self, pod: PodId, hold: Hold) -> &Portion {
        let parts = self.of_pod(pod);
        match hold {
            Hold::IsPromised => self.portion(parts.promised),
            Hold::Has | Hold::Releases | Hold::IsStuck => self.portion(parts.held),
        }
    }
}

/// One name for each device.
fn known_groups(pod: &Pod, shared: &SharedGpu) -> Vec<GpuGroup> {
    let mut groups = pod.gpu_groups.clone();
    for unnamed in groups.len()..shared.devices as usize {
        groups.push(format!("{}-{unnamed}", pod.uid).into());
    }
    groups
}

/// Shares of zones that the node does not have (any more) are none.
fn known_shares(snapshot: &Snapshot, pod: &Pod, node: NodeId) -> Shares {
    let numa = snapshot.nodes[node.0 as usize].numa.as_ref();
    let zones = numa.map_or(&[][..], |numa| &numa.zones);
    let known = pod.zones.iter().filter_map(|share| {
        let at = zones.iter().position(|zone| zone.name == share.zone)?;
        Some((at, share.amount.clone()))
    });
    known.collect()
}

impl Session<'_> {
    /// The portion of `node` that the pod gets besides the one that it has.
    pub(super) fn choose_parts(&mut self, pod: PodId, node: NodeId, hold: Hold) -> PodParts {
        let (groups, zones) = (self.choose_groups(pod, node), self.choose_zones(pod, node, hold));
        let parts = self.parts.of_pod(pod);
        let chosen = self.parts.add(Portion { groups, zones });
        match hold {
            Hold::IsPromised => PodParts { promised: chosen, ..parts },
            Hold::Has | Hold::Releases | Hold::IsStuck => PodParts { held: chosen, ..parts },
        }
    }

    fn choose_groups(&self, pod: PodId, node: NodeId) -> Vec<GpuGroup> {
        let Some(shared) = &self.shape_of(pod).shared_gpu else { return Vec::new() };
        let (of, room) = (self.node(node), &self.nodes[node.0 as usize]);
        let choice =
            Choice { placement: self.profile.device_placement, at_once_first: !self.looks_ahead };
        let unfit = || vec![(Device::New, Fits::Now); shared.devices as usize];
        let chosen = room.choose_devices(of, shared, choice).unwrap_or_else(unfit);
        let mut groups: Vec<GpuGroup> = Vec::new();
        for (device, _) in chosen {
            let group = match device {
                Device::Shared(at) => room.shared[at].group.clone(),
                Device::New => new_group(&self.pod(pod).uid, room, &groups),
            };
            groups.push(group);
        }
        groups
    }
}

/// A name for a device that nobody shares yet: that of the pod that is first on it.
fn new_group(uid: &Name, room: &NodeRoom, chosen: &[GpuGroup]) -> GpuGroup {
    let taken = |name: &GpuGroup| {
        chosen.contains(name) || room.shared.iter().any(|device| device.group == *name)
    };
    let numbered = (1..).map(|number| GpuGroup::from(format!("{uid}-{number}")));
    let mut names = std::iter::once(uid.clone()).chain(numbered);
    names.find(|name| !taken(name)).expect("there are more numbers than devices")
}
