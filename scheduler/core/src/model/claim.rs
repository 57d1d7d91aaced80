//! Claims on devices (`resource.k8s.io`): several pods may share one, all on the node where it is
//! allocated, and the devices are taken once. Devices that several nodes can use are of no node:
//! who claims them is bound to nodes as with a volume.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use super::{GpuPart, Name, Node, NodeSelectorTerm, PodShape, SharedGpu, Volume};
use crate::resources::Resources;

/// A claim as a pod uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceClaim {
    /// Namespace and name.
    pub name: Name,
    /// The devices: GPUs as such, others under the name of their class.
    pub devices: Resources,
    /// Besides, every device that its node has of these selections, and at least one of each: what
    /// one of them counts as.
    pub every: BTreeMap<Name, Resources>,
    /// It was made for the pod: no queue need own it.
    pub is_own: bool,
    /// Label `kai.scheduler/queue`: the queue that may use a claim on GPUs that pods name.
    pub queue: Option<Name>,
    /// The node on which it is allocated, whoever uses it.
    pub allocated_on: Option<Name>,
    /// The node where its devices are, and what these count as there besides: what others might
    /// have asked them for.
    pub besides: Option<(Name, Resources)>,
    /// For how many pods it is reserved that are not in the snapshot.
    pub reserved_for_others: u32,
    /// From where its devices can be used.
    pub reach: DeviceReach,
}

/// From which nodes the devices of a claim can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceReach {
    /// From the node whose they are.
    #[default]
    OneNode,
    /// It has devices that the nodes of any of these terms can use; `None`: all nodes can.
    Had(Option<Vec<NodeSelectorTerm>>),
    /// It has none yet, and gets one for each wish.
    Open(Vec<DeviceWish>),
    /// It has none yet, and gets one for each wish besides devices of the node, from which alone all
    /// of them are used then.
    Beside(Vec<DeviceWish>),
}

/// One device of several nodes that a claim wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceWish {
    /// Unlike that of any other wish.
    pub name: Name,
    /// The devices that will do, and that no claim has, those to be given first before others.
    /// They are given as volumes are: each to one wish, where it can be used.
    pub devices: Vec<Arc<Volume>>,
}

/// A claim that is allocated on a node, and that no pod of the snapshot has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// Namespace and name.
    pub name: Name,
    /// What is taken of the node for it.
    pub devices: Resources,
    /// Those for whom it was are gone: its devices are free soon.
    pub is_given_back: bool,
}

impl DeviceReach {
    /// Some of the devices are a node's.
    pub fn is_one_node(&self) -> bool {
        match self {
            Self::OneNode | Self::Beside(_) => true,
            Self::Had(_) | Self::Open(_) => false,
        }
    }

    /// The devices of several nodes that it gets.
    pub fn wishes(&self) -> &[DeviceWish] {
        match self {
            Self::Open(wishes) | Self::Beside(wishes) => wishes,
            Self::OneNode | Self::Had(_) => &[],
        }
    }
}

impl DeviceClaim {
    /// It is for so many pods at most (`resource.k8s.io`).
    pub const USERS_MAX: u32 = 256;

    /// Its devices are GPUs.
    pub fn is_gpu(&self) -> bool {
        self.devices.gpu_milli > 0 || self.every.values().any(|one| one.gpu_milli > 0)
    }

    /// All who use it run on one node.
    pub fn is_of_one_node(&self) -> bool {
        self.reach.is_one_node()
    }

    /// What it takes on the node.
    pub fn devices_on(&self, node: &Node) -> Cow<'_, Resources> {
        let mut devices = Cow::Borrowed(&self.devices);
        for (selection, one) in &self.every {
            let count = node.published.get(selection).copied().unwrap_or(0);
            devices.to_mut().add(&one.times(count.max(1)));
        }
        if let Some((_, besides)) = self.besides.as_ref().filter(|(there, _)| *there == node.name) {
            devices.to_mut().add(besides);
        }
        devices
    }
}

impl PodShape {
    /// Everything it takes on the node if nobody there has its claims.
    pub fn requests_and_claims_on(&self, node: &Node) -> Resources {
        let claims = self.claims.iter().map(|claim| claim.devices_on(node));
        claims.fold(self.requests.clone(), |sum, devices| sum.plus(&devices))
    }

    /// What its claims take on the node, once for all pods like it, unless they have it already.
    pub fn new_claims_on(&self, node: &Node) -> Resources {
        let new =
            self.claims.iter().filter(|claim| claim.allocated_on.as_ref() != Some(&node.name));
        new.fold(Resources::default(), |sum, claim| sum.plus(&claim.devices_on(node)))
    }

    /// What so many pods of it take of a node that is added, devices of which they ask for parts as
    /// a whole.
    pub fn room_for(&self, pods: i64) -> Resources {
        let claims = self.new_claims_on(&Node::default());
        let mut room = self.requests.times(pods).plus(&claims);
        if let Some(SharedGpu { part, devices }) = self.shared_gpu {
            // Of memory it is not known how much a device has.
            let pods_of_one = match part {
                GpuPart::Milli(milli) => (1000 / milli.max(1)).max(1),
                GpuPart::MemoryMib(_) => 1,
            };
            let shared = (pods + pods_of_one - 1) / pods_of_one * i64::from(devices);
            room.gpu_milli = room.gpu_milli.saturating_add(shared.saturating_mul(1000));
        }
        room
    }

    /// What it takes depends on the node.
    pub fn takes_every_device(&self) -> bool {
        self.claims.iter().any(|claim| !claim.every.is_empty())
    }
}
