//! Storage objects as the cache keeps them.

use schedlab_api::{Value, annotations};
use schedlab_scheduler_core::model::{
    AttachedVolume, LabelSelector, Labels, Name, NodeSelectorTerm, Operator, Requirement,
    VolumeReach,
};

use super::zone_labels;
use crate::{
    parse::{Unit, at, list, name, parse_non_negative, strings, text, uid, version},
    records::{ObjectKey, controller_owner, selectors},
};

/// Provisioner of storage classes whose volumes are created manually.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The fields of a `PersistentVolumeClaim` that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeClaimRecord {
    pub(crate) version: u64,
    pub(crate) uid: Name,
    /// UID of the pod that the claim was created for.
    pub(super) owner: Option<Name>,
    pub(super) class: Option<Name>,
    /// `spec.volumeName`.
    pub(super) volume: Option<Name>,
    /// Annotation `pv.kubernetes.io/bind-completed`.
    pub(super) is_bind_completed: bool,
    pub(super) state: ClaimState,
    /// Annotation `volume.kubernetes.io/selected-node`: a volume is being provisioned for this
    /// node.
    pub(crate) selected_node: Option<Name>,
    modes: Vec<Name>,
    is_block: bool,
    pub(super) bytes: i64,
    /// The label selector for volumes. `Err`: the selector is malformed and selects no volume.
    selector: Result<LabelSelector, ()>,
}

/// Whether a claim can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    Usable,
    /// The volume of the claim is gone.
    Lost,
    /// The claim has a deletion timestamp.
    Deleting,
}

/// The fields of a `PersistentVolume` that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    pub(crate) version: u64,
    pub(super) reach: VolumeReach,
    /// The CSI driver and the volume handle, which count against the volume limit of a node.
    pub(super) attached: Option<AttachedVolume>,
    pub(super) bytes: i64,
    class: Option<Name>,
    modes: Vec<Name>,
    is_block: bool,
    labels: Labels,
    /// `spec.claimRef`: the claim that the volume is reserved for, and the UID of the claim if set.
    claim_ref: Option<(ObjectKey, Option<Name>)>,
    is_available: bool,
    is_deleting: bool,
}

/// `volumeBindingMode` of a storage class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingMode {
    Immediate,
    /// `WaitForFirstConsumer`.
    WaitForFirstConsumer,
}

/// The fields of a `StorageClass` that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StorageClassRecord {
    pub(super) binding_mode: BindingMode,
    pub(super) provisioner: Name,
    /// `allowedTopologies`: where volumes of the class can be provisioned; `None`: anywhere.
    pub(super) allowed_topologies: Option<Vec<NodeSelectorTerm>>,
}

impl VolumeClaimRecord {
    pub(crate) fn from_object(object: &Value) -> Self {
        let annotation =
            |key: &str| at(object, "/metadata/annotations").and_then(|a| a.get(key)?.as_str());
        let selector = at(object, "/spec/selector").filter(|selector| !selector.is_null());
        Self {
            version: version(object),
            uid: uid(object),
            owner: controller_owner(object).filter(|is| &*is.kind == "Pod").map(|owner| owner.uid),
            class: name(object, "/spec/storageClassName").filter(|class| !class.is_empty()),
            volume: name(object, "/spec/volumeName").filter(|volume| !volume.is_empty()),
            is_bind_completed: annotation(annotations::BIND_COMPLETED).is_some(),
            state: claim_state(object),
            selected_node: annotation(annotations::SELECTED_NODE).map(Name::from),
            modes: access_modes(object),
            is_block: is_block(object),
            bytes: text(object, "/spec/resources/requests/storage").map_or(0, parse_bytes),
            selector: selector.map_or(Ok(LabelSelector::default()), |selector| {
                selectors::parse_label_selector(selector).map_err(drop)
            }),
        }
    }

    /// Whether only one pod at a time may use the claim (`ReadWriteOncePod`).
    pub(super) fn is_exclusive(&self) -> bool {
        self.modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }

    /// Whether the claim is bound to its volume.
    pub(crate) fn is_bound(&self) -> bool {
        self.volume.is_some() && self.is_bind_completed
    }
}

impl VolumeRecord {
    pub(crate) fn from_object(object: &Value) -> Self {
        let labels = strings(object, "/metadata/labels");
        let required = at(object, "/spec/nodeAffinity/required/nodeSelectorTerms");
        let terms = required.map(|_| list(object, "/spec/nodeAffinity/required/nodeSelectorTerms"));
        // A malformed term matches no node.
        let terms = terms.map(|terms| {
            terms.iter().filter_map(|term| selectors::parse_node_term(term).ok()).collect()
        });
        let part = |field| name(object, field).filter(|text| !text.is_empty());
        let claim_ref = part("/spec/claimRef/name").map(|claim| {
            let namespace = part("/spec/claimRef/namespace").unwrap_or_default();
            (ObjectKey { namespace, name: claim }, part("/spec/claimRef/uid"))
        });
        Self {
            version: version(object),
            reach: VolumeReach { affinity: terms, zones: zone_labels(&labels) },
            attached: part("/spec/csi/driver")
                .zip(part("/spec/csi/volumeHandle"))
                .map(|(driver, volume)| AttachedVolume { driver, volume }),
            bytes: text(object, "/spec/capacity/storage").map_or(0, parse_bytes),
            class: part("/spec/storageClassName"),
            modes: access_modes(object),
            is_block: is_block(object),
            labels,
            claim_ref,
            is_available: text(object, "/status/phase") == Some("Available"),
            is_deleting: at(object, "/metadata/deletionTimestamp").is_some(),
        }
    }

    /// Whether the volume is reserved for this claim, bound or not.
    pub(crate) fn is_reserved_for(&self, key: &ObjectKey, claim: &VolumeClaimRecord) -> bool {
        self.claim_ref.as_ref().is_some_and(|(reserved, uid)| {
            reserved == key && uid.as_ref().is_none_or(|uid| *uid == claim.uid)
        })
    }

    /// Whether the volume is available and matches the claim.
    pub(super) fn fits_claim(&self, claim: &VolumeClaimRecord) -> bool {
        // Unlike node selectors, label selectors have no `Gt` and `Lt`.
        let selected = |requirement: &Requirement| {
            !matches!(requirement.operator, Operator::Gt | Operator::Lt)
                && requirement.matches_value(self.labels.get(&requirement.key))
        };
        let selector = claim.selector.as_ref();
        self.claim_ref.is_none()
            && self.is_available
            && !self.is_deleting
            && self.class == claim.class
            && self.is_block == claim.is_block
            && self.bytes >= claim.bytes
            && claim.modes.iter().all(|mode| self.modes.contains(mode))
            && selector.is_ok_and(|selector| selector.requirements.iter().all(selected))
    }
}

impl StorageClassRecord {
    pub(super) fn has_provisioner(&self) -> bool {
        &*self.provisioner != NO_PROVISIONER
    }

    pub(super) fn from_object(object: &Value) -> Self {
        let allowed = list(object, "/allowedTopologies");
        let with_pod = text(object, "/volumeBindingMode") == Some("WaitForFirstConsumer");
        Self {
            binding_mode: if with_pod {
                BindingMode::WaitForFirstConsumer
            } else {
                BindingMode::Immediate
            },
            provisioner: name(object, "/provisioner").unwrap_or_default(),
            allowed_topologies: (!allowed.is_empty())
                .then(|| allowed.iter().map(parse_topology_term).collect()),
        }
    }
}

/// A term of `allowedTopologies`: labels with their allowed values.
fn parse_topology_term(term: &Value) -> NodeSelectorTerm {
    let requirement = |one: &Value| Requirement {
        key: name(one, "/key").unwrap_or_default(),
        operator: Operator::In,
        values: list(one, "/values").iter().filter_map(Value::as_str).map(Name::from).collect(),
    };
    let labels = list(term, "/matchLabelExpressions").iter().map(requirement).collect();
    NodeSelectorTerm { labels, fields: Vec::new() }
}

fn claim_state(claim: &Value) -> ClaimState {
    match text(claim, "/status/phase") {
        _ if at(claim, "/metadata/deletionTimestamp").is_some() => ClaimState::Deleting,
        Some("Lost") => ClaimState::Lost,
        Some(_) | None => ClaimState::Usable,
    }
}

fn access_modes(object: &Value) -> Vec<Name> {
    list(object, "/spec/accessModes").iter().filter_map(Value::as_str).map(Name::from).collect()
}

fn is_block(object: &Value) -> bool {
    text(object, "/spec/volumeMode") == Some("Block")
}

/// Parses a size in bytes. A malformed quantity counts as 0.
pub(super) fn parse_bytes(text: &str) -> i64 {
    parse_non_negative(text, Unit::Whole).unwrap_or(0)
}
