//! Claims on volumes (`PersistentVolumeClaim`), as far as they bind a pod to nodes.

use std::{fmt, sync::Arc};

use super::{LabelSelector, Name, NodeSelectorTerm};

/// A claim as a pod uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeClaim {
    /// Namespace and name.
    pub name: Name,
    /// Access mode `ReadWriteOncePod`: one pod at a time has it.
    pub is_exclusive: bool,
    /// What a driver attaches for it, where that is known.
    pub attached: Option<AttachedVolume>,
    /// Where it can be had.
    pub access: VolumeAccess,
}

/// A volume that a driver (CSI) attaches to the nodes of the pods that use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttachedVolume {
    /// The driver's name.
    pub driver: Name,
    /// What the driver calls it; the claim, while there is none yet.
    pub volume: Name,
}

/// Where a claim can be had.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeAccess {
    /// Nowhere, as things stand.
    Nowhere(VolumeProblem),
    /// Where the volume is that it is bound to.
    Bound(VolumeReach),
    /// It is bound once it is known where its first pod goes.
    Open {
        /// The volumes that fit, those that suit it best first. Each is for one claim.
        volumes: Vec<Arc<Volume>>,
        /// Where one can be made for it, if any can.
        made: Option<Made>,
    },
}

/// A volume that can be made for a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Made {
    /// From where it can be used.
    pub reach: VolumeReach,
    /// Nodes for which its driver has enough storage left, any of these; `None`: it does not say.
    pub room: Option<Vec<LabelSelector>>,
}

/// A volume that no claim is bound to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Volume {
    /// Its name.
    pub name: Name,
    /// From where it can be used.
    pub reach: VolumeReach,
}

/// From which nodes a volume can be used; by default from all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeReach {
    /// Node affinity: any term suffices. `None`: no such affinity.
    pub affinity: Option<Vec<NodeSelectorTerm>>,
    /// Labels of zones and regions with the values that a node may have, if it has any such label.
    pub zones: Vec<(Name, Vec<Name>)>,
}

/// Why a claim can be had nowhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeProblem {
    /// It does not exist.
    Missing,
    /// It is still to be made for the pod.
    NotMade,
    /// It was made, but for somebody else.
    NotOwned,
    /// It was asked to go.
    Deleting,
    /// Its volume does not exist (any more).
    Lost(Name),
    /// It is bound without regard to pods, and nobody has done so yet.
    Unbound,
}

impl VolumeClaim {
    /// The labels that say in which zone and region a node is, today's and those of before.
    pub const ZONE_LABELS: [&str; 4] = [
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    ];

    /// It is bound once it is known where its first pod goes.
    pub const fn is_open(&self) -> bool {
        matches!(self.access, VolumeAccess::Open { .. })
    }
}

/// Without its namespace, as kube-scheduler shows it.
pub(crate) fn own_name(claim: &Name) -> &str {
    claim.rsplit_once('/').map_or(claim, |(_, name)| name)
}

impl VolumeProblem {
    /// What is to be done, with the claim's name behind it.
    pub(crate) const fn remedy(&self) -> &'static str {
        match self {
            Self::Missing => "create the volume claim",
            Self::NotMade => "start a controller that makes the volume claim",
            Self::NotOwned => "delete, once nobody needs it, the volume claim",
            Self::Deleting => "let go, and create anew, the volume claim",
            Self::Lost(_) => "restore the volume, or create anew, the volume claim",
            Self::Unbound => "add a volume, or a provisioner, for the volume claim",
        }
    }

    /// What keeps the claim from pods, in kube-scheduler's words.
    pub fn told(&self, claim: &Name) -> String {
        fmt::from_fn(|f| self.tell(claim, f)).to_string()
    }

    /// In kube-scheduler's words.
    pub(crate) fn tell(&self, claim: &Name, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = own_name(claim);
        match self {
            Self::Missing => write!(f, "persistentvolumeclaim {name:?} not found"),
            Self::NotMade => write!(
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
            Self::Unbound => {
                write!(f, "pod has unbound immediate PersistentVolumeClaims: {name:?}")
            }
        }
    }
}
