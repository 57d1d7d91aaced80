//! Claims, volumes and classes as they are kept, and how pods name claims.

use schedlab_json::Value;
use schedlab_scheduler_core::model::{
    AttachedVolume, LabelSelector, Labels, Name, NodeSelectorTerm, Operator, Requirement,
    VolumeReach,
};

use super::{
    super::{controller, selectors},
    Key, zones,
};
use crate::parse::{Unit, at, list, name, quantity, strings, text, uid, version};

/// Provisioner of classes whose volumes somebody makes beforehand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A claim as a pod names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodVolume {
    /// The claim's name.
    pub(crate) claim: Name,
    /// It is made for the pod, and must be its own.
    pub(crate) is_ephemeral: bool,
}

impl PodVolume {
    /// Most pods have none.
    pub(crate) fn all(pod: &Value) -> Vec<Self> {
        list(pod, "/spec/volumes").iter().filter_map(|volume| Self::of(pod, volume)).collect()
    }

    fn of(pod: &Value, volume: &Value) -> Option<Self> {
        if let Some(claim) = name(volume, "/persistentVolumeClaim/claimName") {
            return Some(Self { claim, is_ephemeral: false });
        }
        at(volume, "/ephemeral/volumeClaimTemplate")?;
        let (pod, own) = (text(pod, "/metadata/name")?, text(volume, "/name")?);
        Some(Self { claim: format!("{pod}-{own}").into(), is_ephemeral: true })
    }

    pub(super) fn key(&self, namespace: &Name) -> Key {
        Key { namespace: Name::clone(namespace), name: Name::clone(&self.claim) }
    }
}

/// What is kept of a `PersistentVolumeClaim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeClaimRecord {
    pub(crate) version: u64,
    pub(crate) uid: Name,
    /// The pod for which it was made.
    pub(super) owner: Option<Name>,
    pub(super) class: Option<Name>,
    /// `spec.volumeName`.
    pub(super) volume: Option<Name>,
    /// Annotation `pv.kubernetes.io/bind-completed`: the volume is its own.
    pub(super) is_complete: bool,
    pub(super) standing: Standing,
    /// Annotation `volume.kubernetes.io/selected-node`: a volume is being made for it there.
    pub(crate) selected_node: Option<Name>,
    modes: Vec<Name>,
    is_block: bool,
    pub(super) bytes: i64,
    /// `Err`: it cannot be read, and selects nothing.
    selector: Result<LabelSelector, ()>,
}

/// Whether a claim is good for anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    /// Its volume is gone.
    Lost,
    /// It was asked to go.
    Leaving,
}

/// What is kept of a `PersistentVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    pub(crate) version: u64,
    pub(super) reach: VolumeReach,
    /// What its driver attaches.
    pub(super) attached: Option<AttachedVolume>,
    pub(super) bytes: i64,
    class: Option<Name>,
    modes: Vec<Name>,
    is_block: bool,
    labels: Labels,
    /// The claim that it is kept for, and its uid where that is known.
    kept_for: Option<(Key, Option<Name>)>,
    is_available: bool,
    is_leaving: bool,
}

/// When claims of a class are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binds {
    AtOnce,
    /// `WaitForFirstConsumer`.
    WithPod,
}

/// What is kept of a `StorageClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassRecord {
    pub(super) binds: Binds,
    pub(super) provisioner: Name,
    /// `allowedTopologies`: where it makes volumes; `None`: anywhere.
    pub(super) allowed: Option<Vec<NodeSelectorTerm>>,
}

impl VolumeClaimRecord {
    pub(crate) fn read(object: &Value) -> Self {
        let annotation =
            |key: &str| at(object, "/metadata/annotations").and_then(|a| a.get(key)?.as_str());
        let selector = at(object, "/spec/selector").filter(|selector| !selector.is_null());
        Self {
            version: version(object),
            uid: uid(object),
            owner: controller(object).filter(|is| &*is.kind == "Pod").map(|owner| owner.uid),
            class: name(object, "/spec/storageClassName").filter(|class| !class.is_empty()),
            volume: name(object, "/spec/volumeName").filter(|volume| !volume.is_empty()),
            is_complete: annotation("pv.kubernetes.io/bind-completed").is_some(),
            standing: standing(object),
            selected_node: annotation("volume.kubernetes.io/selected-node").map(Name::from),
            modes: modes(object),
            is_block: is_block(object),
            bytes: text(object, "/spec/resources/requests/storage").map_or(0, bytes),
            selector: selector.map_or(Ok(LabelSelector::default()), |selector| {
                selectors::label_selector(selector).map_err(drop)
            }),
        }
    }

    /// One pod at a time may have it.
    pub(super) fn is_exclusive(&self) -> bool {
        self.modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }

    /// It has its volume.
    pub(crate) fn is_bound(&self) -> bool {
        self.volume.is_some() && self.is_complete
    }
}

impl VolumeRecord {
    pub(crate) fn read(object: &Value) -> Self {
        let labels = strings(object, "/metadata/labels");
        let required = at(object, "/spec/nodeAffinity/required/nodeSelectorTerms");
        let terms = required.map(|_| list(object, "/spec/nodeAffinity/required/nodeSelectorTerms"));
        // What cannot be read matches no node.
        let terms = terms
            .map(|terms| terms.iter().filter_map(|term| selectors::node_term(term).ok()).collect());
        let part = |field| name(object, field).filter(|text| !text.is_empty());
        let kept_for = part("/spec/claimRef/name").map(|claim| {
            let namespace = part("/spec/claimRef/namespace").unwrap_or_default();
            (Key { namespace, name: claim }, part("/spec/claimRef/uid"))
        });
        Self {
            version: version(object),
            reach: VolumeReach { affinity: terms, zones: zones(&labels) },
            attached: part("/spec/csi/driver")
                .zip(part("/spec/csi/volumeHandle"))
                .map(|(driver, volume)| AttachedVolume { driver, volume }),
            bytes: text(object, "/spec/capacity/storage").map_or(0, bytes),
            class: part("/spec/storageClassName"),
            modes: modes(object),
            is_block: is_block(object),
            labels,
            kept_for,
            is_available: text(object, "/status/phase") == Some("Available"),
            is_leaving: at(object, "/metadata/deletionTimestamp").is_some(),
        }
    }

    /// It is for this claim, whether it is bound yet or not.
    pub(crate) fn is_kept_for(&self, key: &Key, claim: &VolumeClaimRecord) -> bool {
        self.kept_for.as_ref().is_some_and(|(wanted, uid)| {
            wanted == key && uid.as_ref().is_none_or(|uid| *uid == claim.uid)
        })
    }

    /// It is to be had, and is what the claim asks for.
    pub(super) fn fits(&self, claim: &VolumeClaimRecord) -> bool {
        // A number is nothing that labels are compared with.
        let selected = |wanted: &Requirement| {
            !matches!(wanted.operator, Operator::Gt | Operator::Lt)
                && wanted.holds(self.labels.get(&wanted.key))
        };
        let selector = claim.selector.as_ref();
        self.kept_for.is_none()
            && self.is_available
            && !self.is_leaving
            && self.class == claim.class
            && self.is_block == claim.is_block
            && self.bytes >= claim.bytes
            && claim.modes.iter().all(|mode| self.modes.contains(mode))
            && selector.is_ok_and(|selector| selector.requirements.iter().all(selected))
    }
}

impl ClassRecord {
    pub(super) fn makes_volumes(&self) -> bool {
        &*self.provisioner != NO_PROVISIONER
    }

    pub(super) fn read(object: &Value) -> Self {
        let allowed = list(object, "/allowedTopologies");
        let with_pod = text(object, "/volumeBindingMode") == Some("WaitForFirstConsumer");
        Self {
            binds: if with_pod { Binds::WithPod } else { Binds::AtOnce },
            provisioner: name(object, "/provisioner").unwrap_or_default(),
            allowed: (!allowed.is_empty()).then(|| allowed.iter().map(topology_term).collect()),
        }
    }
}

/// Labels with the values that they may have.
fn topology_term(term: &Value) -> NodeSelectorTerm {
    let requirement = |one: &Value| Requirement {
        key: name(one, "/key").unwrap_or_default(),
        operator: Operator::In,
        values: list(one, "/values").iter().filter_map(Value::as_str).map(Name::from).collect(),
    };
    let labels = list(term, "/matchLabelExpressions").iter().map(requirement).collect();
    NodeSelectorTerm { labels, fields: Vec::new() }
}

fn standing(claim: &Value) -> Standing {
    match text(claim, "/status/phase") {
        _ if at(claim, "/metadata/deletionTimestamp").is_some() => Standing::Leaving,
        Some("Lost") => Standing::Lost,
        Some(_) | None => Standing::Good,
    }
}

fn modes(object: &Value) -> Vec<Name> {
    list(object, "/spec/accessModes").iter().filter_map(Value::as_str).map(Name::from).collect()
}

fn is_block(object: &Value) -> bool {
    text(object, "/spec/volumeMode") == Some("Block")
}

/// What cannot be read is nothing.
pub(super) fn bytes(text: &str) -> i64 {
    quantity(text, Unit::Whole).unwrap_or(0)
}
