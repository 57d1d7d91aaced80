//! Claims on volumes (`PersistentVolumeClaim`), as far as they restrict a pod to nodes.

use std::{fmt, sync::Arc};

use super::{LabelSelector, Name, NodeSelectorTerm};

/// A `PersistentVolumeClaim` as a pod uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeClaim {
    /// Namespace and name of the claim.
    pub name: Name,
    /// Access mode `ReadWriteOncePod`: only one pod at a time may use it.
    pub is_exclusive: bool,
    /// The volume that a CSI driver attaches for the claim, when known.
    pub attached_volume: Option<AttachedVolume>,
    /// From which nodes the claim can be used.
    pub access: VolumeAccess,
}

/// A volume that a CSI driver attaches to the nodes of the pods that use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttachedVolume {
    /// Name of the CSI driver.
    pub driver: Name,
    /// The driver's volume handle; the claim's name while there is no volume.
    pub volume: Name,
}

/// From which nodes a claim can be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeAccess {
    /// The claim cannot be used from any node at present.
    Unavailable(VolumeProblem),
    /// The claim is bound, and can be used from the nodes that can access its volume.
    Bound(VolumeReach),
    /// The claim is unbound, and its storage class has `volumeBindingMode: WaitForFirstConsumer`.
    WaitForFirstConsumer {
        /// Available volumes that match the claim, best ones first. Each can serve one claim.
        volumes: Vec<Arc<Volume>>,
        /// The volume that can be provisioned for the claim, if any.
        provisionable: Option<ProvisionableVolume>,
    },
}

/// A volume that can be provisioned for a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProvisionableVolume {
    /// The nodes that can access the volume.
    pub reach: VolumeReach,
    /// Selectors of the nodes for which the driver has enough capacity (any selector suffices);
    /// `None` when the driver publishes no capacity.
    pub nodes_with_capacity: Option<Vec<LabelSelector>>,
}

/// A volume that is not bound to a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Volume {
    /// Name of the volume.
    pub name: Name,
    /// The nodes that can access the volume.
    pub reach: VolumeReach,
}

/// The nodes that can access a volume; by default all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeReach {
    /// Node affinity of the volume: any term suffices. `None`: the volume has none.
    pub affinity: Option<Vec<NodeSelectorTerm>>,
    /// Zone and region labels of the volume with the values that a node may have, if the node has
    /// that label.
    pub zones: Vec<(Name, Vec<Name>)>,
}

/// Why a claim cannot be used anywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeProblem {
    /// The claim does not exist.
    Missing,
    /// The claim has still to be created for the pod (ephemeral volume).
    NotCreated,
    /// The claim exists, but was created for another owner.
    NotOwned,
    /// The claim is being deleted.
    Deleting,
    /// The volume to which the claim is bound does not exist.
    Lost(Name),
    /// The claim is unbound, and its storage class has `volumeBindingMode: Immediate`.
    UnboundImmediate,
}

impl VolumeClaim {
    /// Node labels of zone and region, current and deprecated.
    pub const ZONE_LABELS: [&str; 4] = [
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    ];

    /// Whether the claim is bound only once its first pod is scheduled.
    pub const fn is_wait_for_first_consumer(&self) -> bool {
        matches!(self.access, VolumeAccess::WaitForFirstConsumer { .. })
    }
}

/// The claim's name without its namespace, as kube-scheduler prints it.
pub fn name_without_namespace(claim: &Name) -> &str {
    claim.rsplit_once('/').map_or(claim, |(_, name)| name)
}

impl VolumeProblem {
    /// What an operator can do; callers append the claim's name.
    pub const fn suggestion(&self) -> &'static str {
        match self {
            Self::Missing => "create the volume claim",
            Self::NotCreated => "start a controller that creates the volume claim",
            Self::NotOwned => "delete, once it is unused, the volume claim",
            Self::Deleting => "wait for the deletion of, and recreate, the volume claim",
            Self::Lost(_) => "restore the volume of, or recreate, the volume claim",
            Self::UnboundImmediate => "add a volume, or a provisioner, for the volume claim",
        }
    }

    /// The message of kube-scheduler for the claim.
    pub fn message(&self, claim: &Name) -> String {
        fmt::from_fn(|f| self.fmt_message(claim, f)).to_string()
    }

    /// Writes the message of kube-scheduler for the claim.
    ///
    /// # Errors
    ///
    /// The formatter refuses the text.
    pub fn fmt_message(&self, claim: &Name, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = name_without_namespace(claim);
        match self {
            Self::Missing => write!(f, "persistentvolumeclaim {name:?} not found"),
            Self::NotCreated => write!(
                f,
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \
                 {name:?}"
            ),
            Self::NotOwned => {
                write!(f, "PVC {claim} was not created for the pod (pod is not owner)")
            }
            Self::Deleting => write!(f, "persistentvolumeclaim {name:?} is being deleted"),
            Self::Lost(volume) => write!(
                f,
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            ),
            Self::UnboundImmediate => {
                write!(f, "pod has unbound immediate PersistentVolumeClaims: {name:?}")
            }
        }
    }
}
