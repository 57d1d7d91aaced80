//! Which shared devices each pod has, and was promised. Sets of names are kept once and never
//! change, so that a pod's are two numbers that can be written down and put back.

use super::{node::NodeRoom, state::Hold};
use crate::{
    Snapshot,
    model::{GpuGroup, Name, PodId},
};

/// The sets of names, and which of them each pod has.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    sets: Vec<Vec<GpuGroup>>,
    pods: Vec<PodParts>,
}

/// Positions of sets; the first is empty.
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
}

impl Parts {
    /// As the snapshot shows them. A pod with a part of a device that names none shares it with
    /// nobody.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let pods = vec![PodParts::default(); snapshot.pods.len()];
        let mut parts = Self { sets: vec![Vec::new()], pods };
        for (pod, at) in snapshot.pods.iter().zip(0..) {
            let shared = snapshot.shapes[pod.shape.0 as usize].shared_gpu;
            let Some(shared) = shared.filter(|_| pod.node.is_some()) else { continue };
            let mut groups = pod.gpu_groups.clone();
            for unnamed in groups.len()..shared.devices as usize {
                groups.push(format!("{}-{unnamed}", pod.uid).into());
            }
            let held = parts.add(groups);
            parts.set(PodId(at), PodParts { held, promised: 0 });
        }
        parts
    }

    pub(super) fn add(&mut self, groups: Vec<GpuGroup>) -> u32 {
        self.sets.push(groups);
        u32::try_from(self.sets.len() - 1).expect("fewer choices than that are made in a cycle")
    }

    pub(super) fn of_pod(&self, pod: PodId) -> PodParts {
        self.pods[pod.0 as usize]
    }

    pub(super) fn set(&mut self, pod: PodId, parts: PodParts) {
        self.pods[pod.0 as usize] = parts;
    }

    pub(super) fn groups(&self, set: u32) -> &[GpuGroup] {
        &self.sets[set as usize]
    }

    /// The devices that the pod holds so.
    pub(super) fn held_by(&self, pod: PodId, hold: Hold) -> &[GpuGroup] {
        let parts = self.of_pod(pod);
        match hold {
            Hold::IsPromised => self.groups(parts.promised),
            Hold::Has | Hold::Releases | Hold::IsStuck => self.groups(parts.held),
        }
    }
}

/// A name for a device that nobody shares yet: that of the pod that is first on it.
pub(super) fn new_group(uid: &Name, room: &NodeRoom, chosen: &[GpuGroup]) -> GpuGroup {
    let taken = |name: &GpuGroup| {
        chosen.contains(name) || room.shared.iter().any(|device| device.group == *name)
    };
    let numbered = (1..).map(|number| GpuGroup::from(format!("{uid}-{number}")));
    let mut names = std::iter::once(uid.clone()).chain(numbered);
    names.find(|name| !taken(name)).expect("there are more numbers than devices")
}
