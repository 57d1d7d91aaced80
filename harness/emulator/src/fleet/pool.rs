//! A pool of equal nodes: what the file says, checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_saphyr::Spanned;

use super::FleetError;
use super::scalar::{Place, Scalar, read};
use crate::actors::{RUN_TIME, STARTUP, TERMINATION};
use crate::names;
use crate::quantity::Milli;

/// The most nodes in one pool.
const NODES_MAX: u64 = 100_000;
/// The most GPUs in one node.
const GPUS_MAX: u64 = 1024;
/// The most pods on one node.
const PODS_MAX: u64 = 100_000;

/// Equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) node_names: Vec<String>,
    pub(super) gpus: u64,
    pub(super) gpus_by: GpusBy,
    pub(super) gpu_product: String,
    pub(super) gpu_memory_mib: Milli,
    /// Resource and amount of what is not a GPU.
    pub(super) amounts: BTreeMap<&'static str, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) taints: Vec<TaintText>,
    /// Label and how many nodes share one of its values.
    pub(super) topology: BTreeMap<String, u64>,
    pub(super) objects: Objects,
}

/// How pods get the GPUs of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum GpusBy {
    /// A device plugin: `nvidia.com/gpu` in the node's status.
    #[default]
    Plugin,
    /// A driver for resource claims: a `ResourceSlice` a node, and class `gpu.nvidia.com`.
    Claim,
}

/// How heavy node objects are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Objects {
    /// What scheduling needs.
    #[default]
    Slim,
    /// As real GPU nodes: many labels, conditions and images.
    Realistic,
}

/// A taint, by its fields or as `key=value:Effect`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub(super) struct TaintText {
    pub(super) key: String,
    #[serde(default)]
    pub(super) value: String,
    pub(super) effect: Effect,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl<'de> Deserialize<'de> for TaintText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TaintWords)
    }
}

struct TaintWords;

impl<'de> Visitor<'de> for TaintWords {
    type Value = TaintText;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a taint as {key, value, effect} or key=value:Effect")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<TaintText, E> {
        let effect = |word| match word {
            "NoSchedule" => Some(Effect::NoSchedule),
            "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
            "NoExecute" => Some(Effect::NoExecute),
            _ => None,
        };
        let (pair, word) = text.rsplit_once(':').unwrap_or((text, ""));
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match effect(word).filter(|_| !key.is_empty()) {
            Some(effect) => Ok(TaintText { key: key.to_owned(), value: value.to_owned(), effect }),
            None => Err(E::custom(format!(
                "taints: found {text}, allowed is key=value:Effect with NoSchedule, \
                 PreferNoSchedule or NoExecute"
            ))),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TaintText, A::Error> {
        TaintText::deserialize(de::value::MapAccessDeserializer::new(map))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetText {
    pools: Spanned<Vec<PoolText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PoolText {
    name: Spanned<String>,
    count: Option<Spanned<Scalar>>,
    names: Option<Vec<Spanned<String>>>,
    gpus: Option<Spanned<Scalar>>,
    #[serde(default)]
    gpus_by: GpusBy,
    gpu_product: Option<String>,
    gpu_memory: Option<Spanned<Scalar>>,
    cpu: Option<Spanned<Scalar>>,
    memory: Option<Spanned<Scalar>>,
    ephemeral_storage: Option<Spanned<Scalar>>,
    pods: Option<Spanned<Scalar>>,
    #[serde(default)]
    labels: BTreeMap<String, Spanned<Scalar>>,
    #[serde(default)]
    annotations: BTreeMap<String, Scalar>,
    #[serde(default)]
    taints: Vec<TaintText>,
    #[serde(default)]
    topology: BTreeMap<String, Spanned<Scalar>>,
    #[serde(default)]
    objects: Objects,
    #[serde(default)]
    kubelet: KubeletText,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct KubeletText {
    startup: Option<Spanned<Scalar>>,
    run_time: Option<Spanned<Scalar>>,
    termination: Option<Spanned<Scalar>>,
}

impl Pool {
    /// All pools of a file.
    pub(super) fn parse_all(file: &str, text: &str) -> Result<Vec<Self>, FleetError> {
        let place = Place { file };
        let fleet: FleetText = read(place, text)?;
        if fleet.pools.value.is_empty() {
            let message = "pools: found none, allowed is at least one".to_owned();
            return Err(place.error(fleet.pools.referenced, message));
        }
        let mut seen = Seen::default();
        fleet.pools.value.into_iter().map(|pool| checked(place, pool, &mut seen)).collect()
    }
}

/// Names that are taken.
#[derive(Default)]
struct Seen {
    pools: BTreeSet<String>,
    nodes: BTreeSet<String>,
}

fn checked(place: Place, text: PoolText, seen: &mut Seen) -> Result<Pool, FleetError> {
    let node_names = node_names(place, &text, seen)?;
    let gpus = text.gpus.as_ref().map_or(Ok(0), |gpus| place.whole("gpus", gpus, [0, GPUS_MAX]))?;
    let memory = match &text.gpu_memory {
        Some(memory) => place.quantity("gpuMemory", memory)?.1,
        None => 80 * (1000 << 30),
    };
    let mut topology = BTreeMap::new();
    for (label, nodes) in &text.topology {
        let field = format!("topology.{label}");
        topology.insert(label.clone(), place.whole(&field, nodes, [1, NODES_MAX])?);
    }
    Ok(Pool {
        node_names,
        gpus,
        gpus_by: text.gpus_by,
        gpu_memory_mib: memory / (1000 << 20),
        amounts: amounts(place, &text)?,
        annotations: annotations(place, &text)?,
        gpu_product: text.gpu_product.unwrap_or_else(|| "NVIDIA-H100-80GB-HBM3".to_owned()),
        labels: labels(place, text.labels)?,
        taints: text.taints,
        topology,
        objects: text.objects,
    })
}

/// Labels that a node may have.
fn labels(
    place: Place,
    texts: BTreeMap<String, Spanned<Scalar>>,
) -> Result<BTreeMap<String, String>, FleetError> {
    let mut labels = BTreeMap::new();
    for (key, Spanned { value: Scalar(value), referenced, .. }) in texts {
        let wrong_key =
            names::qualified_name(&key).first().map(|rule| format!("labels: {key:?}: {rule}"));
        let wrong = wrong_key.or_else(|| {
            names::label_value(&value).map(|rule| format!("labels.{key}: {value:?}: {rule}"))
        });
        if let Some(message) = wrong {
            return Err(place.error(referenced, message));
        }
        labels.insert(key, value);
    }
    Ok(labels)
}

fn node_names(place: Place, text: &PoolText, seen: &mut Seen) -> Result<Vec<String>, FleetError> {
    let pool = &text.name;
    check_name(place, "name", pool)?;
    if !seen.pools.insert(pool.value.clone()) {
        let message = format!("name: found {} twice, pools need names of their own", pool.value);
        return Err(place.error(pool.referenced, message));
    }
    let names: Vec<Spanned<String>> = match (&text.names, &text.count) {
        (Some(_), Some(count)) => {
            let message = "count: found beside names, allowed is one of them".to_owned();
            return Err(place.error(count.referenced, message));
        }
        (Some(names), None) => names.clone(),
        (None, count) => {
            let count = count
                .as_ref()
                .map_or(Ok(1), |count| place.whole("count", count, [1, NODES_MAX]))?;
            let name = |index| {
                Spanned::new(format!("{}-{index}", pool.value), pool.referenced, pool.defined)
            };
            (0..count).map(name).collect()
        }
    };
    for name in &names {
        check_name(place, "names", name)?;
        if !seen.nodes.insert(name.value.clone()) {
            let message = format!("found node {} twice, nodes need names of their own", name.value);
            return Err(place.error(name.referenced, message));
        }
    }
    Ok(names.into_iter().map(|name| name.value).collect())
}

/// A name that a node may have.
fn check_name(place: Place, field: &str, name: &Spanned<String>) -> Result<(), FleetError> {
    let text = &name.value;
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let sound = text.len() <= 200
        && text.chars().all(inner)
        && text.starts_with(edge)
        && text.ends_with(edge);
    if sound {
        return Ok(());
    }
    let message = format!(
        "{field}: found \"{text}\", allowed are lower-case letters, digits, - and ., a letter or digit at both ends"
    );
    Err(place.error(name.referenced, message))
}

fn amounts(place: Place, text: &PoolText) -> Result<BTreeMap<&'static str, String>, FleetError> {
    let mut amounts = BTreeMap::from([
        ("cpu", "128".to_owned()),
        ("memory", "1Ti".to_owned()),
        ("ephemeral-storage", "1Ti".to_owned()),
        ("pods", "110".to_owned()),
    ]);
    let given = [
        ("cpu", "cpu", &text.cpu),
        ("memory", "memory", &text.memory),
        ("ephemeral-storage", "ephemeralStorage", &text.ephemeral_storage),
    ];
    for (resource, field, scalar) in given {
        if let Some(scalar) = scalar {
            amounts.insert(resource, place.quantity(field, scalar)?.0);
        }
    }
    if let Some(pods) = &text.pods {
        amounts.insert("pods", place.whole("pods", pods, [1, PODS_MAX])?.to_string());
    }
    Ok(amounts)
}

/// The pool's annotations, with the pace of its pods.
fn annotations(place: Place, text: &PoolText) -> Result<BTreeMap<String, String>, FleetError> {
    let given = text.annotations.iter();
    let mut all: BTreeMap<String, String> =
        given.map(|(key, value)| (key.clone(), value.0.clone())).collect();
    let paces = [
        (STARTUP, "kubelet.startup", &text.kubelet.startup),
        (RUN_TIME, "kubelet.runTime", &text.kubelet.run_time),
        (TERMINATION, "kubelet.termination", &text.kubelet.termination),
    ];
    for (key, field, scalar) in paces {
        if let Some(scalar) = scalar {
            all.insert(key.to_owned(), place.duration(field, scalar)?);
        }
    }
    Ok(all)
}
