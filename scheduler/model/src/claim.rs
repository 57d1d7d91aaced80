//! Claims on devices (`resource.k8s.io`). Several pods may share a claim; they run on the node
//! where it is allocated, and its devices are taken once. Devices that several nodes can use belong
//! to no node: like a volume, they restrict a pod to nodes.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use super::{
    ClaimRequests, FractionalGpu, GpuFraction, Name, Node, NodeSelectorTerm, PodShape, Volume,
};
use crate::resources::Resources;

/// A claim as a pod uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceClaim {
    /// Namespace and name.
    pub name: Name,
    /// Devices: GPUs as GPUs, others by the name of their class.
    pub devices: Resources,
    /// What it requests of the devices of one node; `None`: nothing, or that is not known.
    pub requests: Option<Arc<ClaimRequests>>,
    /// For requests with allocation mode `All`: by device selection, what one device counts as. The
    /// claim takes every such device of its node, at least one of each.
    pub allocate_all: BTreeMap<Name, Resources>,
    /// For a claim that serves requests for extended resources: what it takes instead of a node
    /// whose device plugin provides these.
    pub plugin_resources: Option<Resources>,
    /// It was created for the pod from a template: no queue needs to own it.
    pub is_pod_owned: bool,
    /// Label `kai.scheduler/queue`: the queue that may use a shared GPU claim.
    pub queue: Option<Name>,
    /// The node on which it is allocated, whichever pods use it.
    pub allocated_on: Option<Name>,
    /// The node of its devices, and what these count as there in addition, for claims that request
    /// them by another selection.
    pub also_counts_as: Option<(Name, Resources)>,
    /// Number of pods outside the snapshot that it is reserved for.
    pub reserved_for_others: u32,
    /// The nodes that can use its devices.
    pub reach: DeviceReach,
}

/// The nodes that can use the devices of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceReach {
    /// The node that has the devices.
    #[default]
    NodeLocal,
    /// Allocated: nodes that match any of the terms; `None` means all nodes.
    Allocated(Option<Vec<NodeSelectorTerm>>),
    /// Not allocated: it gets one multi-node device for each request.
    Pending(Vec<DeviceRequest>),
    /// Not allocated: it gets one multi-node device for each request and devices of one node, which
    /// is then the only node that can use them.
    PendingWithNodeLocal(Vec<DeviceRequest>),
}

/// A request for one device that several nodes can use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceRequest {
    /// Unique among all requests.
    pub name: Name,
    /// Free devices that match, preferred ones first. Like volumes, each goes to one request and is
    /// usable from some nodes.
    pub devices: Vec<Arc<Volume>>,
}

/// A claim that is allocated on a node and used there by no pod of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedClaim {
    /// Namespace and name.
    pub name: Name,
    /// What it takes of the node.
    pub devices: Resources,
    /// Its pods are gone: its devices will be free soon.
    pub is_deallocating: bool,
}

impl DeviceReach {
    /// Some of its devices belong to one node.
    pub fn has_node_local(&self) -> bool {
        match self {
            Self::NodeLocal | Self::PendingWithNodeLocal(_) => true,
            Self::Allocated(_) | Self::Pending(_) => false,
        }
    }

    /// Requests for devices that several nodes can use.
    pub fn device_requests(&self) -> &[DeviceRequest] {
        match self {
            Self::Pending(requests) | Self::PendingWithNodeLocal(requests) => requests,
            Self::NodeLocal | Self::Allocated(_) => &[],
        }
    }
}

impl DeviceClaim {
    /// Maximum number of pods that a claim can be reserved for (`resource.k8s.io`).
    pub const USERS_MAX: u32 = 256;

    /// It claims GPUs.
    pub fn is_gpu(&self) -> bool {
        self.devices.gpu_milli > 0 || self.allocate_all.values().any(|one| one.gpu_milli > 0)
    }

    /// All its pods run on one node.
    pub fn is_node_local(&self) -> bool {
        self.reach.has_node_local()
    }

    /// What it takes of the device plugin of the node; `None` if it takes devices.
    pub fn plugin_resources_on(&self, node: &Node) -> Option<&Resources> {
        self.plugin_resources.as_ref().filter(|resources| node.has_device_plugin_for(resources))
    }

    /// What it takes of the node.
    pub fn devices_on(&self, node: &Node) -> Cow<'_, Resources> {
        if let Some(resources) = self.plugin_resources_on(node) {
            return Cow::Borrowed(resources);
        }
        let mut devices = Cow::Borrowed(&self.devices);
        for (selection, one) in &self.allocate_all {
            let count = node.published_devices.get(selection).copied().unwrap_or(0);
            devices.to_mut().add(&one.times(count.max(1)));
        }
        if let Some((_, besides)) =
            self.also_counts_as.as_ref().filter(|(there, _)| *there == node.name)
        {
            devices.to_mut().add(besides);
        }
        devices
    }
}

impl PodShape {
    /// Everything the pod takes of the node if no pod there has its claims.
    pub fn requests_and_claims_on(&self, node: &Node) -> Resources {
        let claims = self.claims.iter().map(|claim| claim.devices_on(node));
        claims.fold(self.requests.clone(), |sum, devices| sum.plus(&devices))
    }

    /// What its claims take of the node, once for all pods like it. Claims that are already
    /// allocated there take nothing.
    pub fn new_claims_on(&self, node: &Node) -> Resources {
        let new =
            self.claims.iter().filter(|claim| claim.allocated_on.as_ref() != Some(&node.name));
        new.fold(Resources::default(), |sum, claim| sum.plus(&claim.devices_on(node)))
    }

    /// What `pods` such pods take of an added node. GPUs that are shared count as whole.
    pub fn requests_on_new_node(&self, pods: i64) -> Resources {
        let claims = self.new_claims_on(&Node::default());
        let mut room = self.requests.times(pods).plus(&claims);
        if let Some(FractionalGpu { fraction, devices }) = self.fractional_gpu {
            // How much memory a GPU of the added node has is unknown.
            let pods_of_one = match fraction {
                GpuFraction::Milli(milli) => (1000 / milli.max(1)).max(1),
                GpuFraction::MemoryMib(_) => 1,
            };
            let shared = (pods + pods_of_one - 1) / pods_of_one * i64::from(devices);
            room.gpu_milli = room.gpu_milli.saturating_add(shared.saturating_mul(1000));
        }
        room
    }

    /// What its claims request of the devices of one node.
    pub fn claim_requests(&self) -> impl Iterator<Item = &ClaimRequests> {
        let shared = self.claims.iter().filter_map(|claim| claim.requests.as_deref());
        self.own_claims.iter().map(AsRef::as_ref).chain(shared)
    }

    /// What it takes depends on the node.
    pub fn requests_all_devices(&self) -> bool {
        self.claims.iter().any(|claim| !claim.allocate_all.is_empty())
    }
}
