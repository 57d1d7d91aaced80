//! Claims on devices (`resource.k8s.io`). Several pods may share a claim; they run on the node
//! where it is allocated, and its devices are taken once. A claim on devices that several nodes can
//! use (multi-node devices) restricts its pods to these nodes.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use super::{ClaimRequests, FractionalGpu, GpuFraction, Name, Node, NodeSelectorTerm, PodShape};
use crate::resources::Resources;

/// A `ResourceClaim` as a pod uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceClaim {
    /// Namespace and name of the claim.
    pub name: Name,
    /// Amounts of devices that the claim takes from its node: GPUs as GPUs, other devices as
    /// extended resources named after their class.
    pub devices: Resources,
    /// What the claim requests of the devices that a node can use; `None`: nothing, or that is not
    /// known.
    pub requests: Option<Arc<ClaimRequests>>,
    /// For requests with allocation mode `All`: which devices the claim takes, by device selection,
    /// and what one device counts as. The claim takes every such device of its node, at least one
    /// of each.
    pub allocate_all: BTreeMap<Name, Resources>,
    /// For a claim that serves requests for extended resources: what it takes instead of a node
    /// whose device plugin provides these.
    pub plugin_resources: Option<Resources>,
    /// Whether the claim was created for the pod from a template: then no queue needs to own it.
    pub is_pod_owned: bool,
    /// Value of the claim's label `kai.scheduler/queue`: the queue that may use a shared GPU claim.
    pub queue: Option<Name>,
    /// Name of the node on which the claim is allocated, whether or not pods use it.
    pub allocated_on: Option<Name>,
    /// Name of the node of the claim's devices, and what these devices count as there in addition,
    /// for other claims that request them by another selection.
    pub also_counts_as: Option<(Name, Resources)>,
    /// Number of pods outside the snapshot for which the claim is reserved.
    pub reserved_for_others: u32,
    /// The nodes that can use the claim's devices.
    pub reach: DeviceReach,
}

/// The nodes that can use the devices of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceReach {
    /// Only the node that has the devices.
    #[default]
    NodeLocal,
    /// The claim is allocated: nodes that match any of the terms; `None` means all nodes.
    Allocated(Option<Vec<NodeSelectorTerm>>),
    /// The claim is not allocated, and may get multi-node devices. The devices that it gets decide
    /// which nodes can use it.
    Pending,
    /// The claim is not allocated, and may get multi-node devices beside devices of one node, which
    /// is then the only node that can use the claim.
    PendingWithNodeLocal,
}

/// A claim that is allocated on a node and used there by no pod of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedClaim {
    /// Namespace and name of the claim.
    pub name: Name,
    /// Devices that the claim takes from the node.
    pub devices: Resources,
    /// Whether the claim's pods are gone, so that its devices will be free soon.
    pub is_deallocating: bool,
}

impl DeviceReach {
    /// Whether some of the claim's devices belong to one node.
    pub fn has_node_local_devices(&self) -> bool {
        match self {
            Self::NodeLocal | Self::PendingWithNodeLocal => true,
            Self::Allocated(_) | Self::Pending => false,
        }
    }

    /// Whether the claim is not allocated and may get multi-node devices.
    pub fn is_pending(&self) -> bool {
        match self {
            Self::Pending | Self::PendingWithNodeLocal => true,
            Self::NodeLocal | Self::Allocated(_) => false,
        }
    }
}

impl DeviceClaim {
    /// Maximum number of pods that a claim can be reserved for (`resource.k8s.io`).
    pub const USERS_MAX: u32 = 256;

    /// Whether the claim requests GPUs.
    pub fn claims_gpus(&self) -> bool {
        self.devices.gpu_milli > 0 || self.allocate_all.values().any(|one| one.gpu_milli > 0)
    }

    /// Whether all pods of the claim must run on one node.
    pub fn is_node_local(&self) -> bool {
        self.reach.has_node_local_devices()
    }

    /// What it takes of the device plugin of the node; `None` if it takes devices.
    pub fn plugin_resources_on(&self, node: &Node) -> Option<&Resources> {
        self.plugin_resources.as_ref().filter(|resources| node.has_device_plugin_for(resources))
    }

    /// What the claim takes from the node.
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
    /// Everything that a pod of this shape takes from the node if no pod there uses its claims.
    pub fn requests_and_claims_on(&self, node: &Node) -> Resources {
        let claims = self.claims.iter().map(|claim| claim.devices_on(node));
        claims.fold(self.requests.clone(), |sum, devices| sum.plus(&devices))
    }

    /// What the claims of this shape take from the node, once for all pods of the shape. Claims
    /// that are already allocated there take nothing.
    pub fn new_claims_on(&self, node: &Node) -> Resources {
        let new =
            self.claims.iter().filter(|claim| claim.allocated_on.as_ref() != Some(&node.name));
        new.fold(Resources::default(), |sum, claim| sum.plus(&claim.devices_on(node)))
    }

    /// What `pods` pods of this shape take from an added node. GPUs of which pods request fractions
    /// count as whole.
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

    /// What the claims of this shape request of the devices of one node, claim by claim.
    pub fn claim_requests(&self) -> impl Iterator<Item = &ClaimRequests> {
        let shared = self.claims.iter().filter_map(|claim| claim.requests.as_deref());
        self.own_claims.iter().map(AsRef::as_ref).chain(shared)
    }

    /// Whether a claim of this shape takes all devices of its node, so that what it takes depends
    /// on the node.
    pub fn requests_all_devices(&self) -> bool {
        self.claims.iter().any(|claim| !claim.allocate_all.is_empty())
    }
}
