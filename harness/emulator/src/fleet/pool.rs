//! A pool of equal nodes: what the file says, checked.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use super::FleetError;
use super::labels;
use super::scalar::{Place, Scalar, Taken, read};
use super::taint::TaintText;
use crate::actors::{EXIT_CODE, RUN_TIME, STARTUP, TERMINATION};
use crate::names;
use crate::quantity::Milli;

/// The most nodes in one pool.
pub(super) const NODES_MAX: u64 = 100_000;
/// The most GPUs in one node.
const GPUS_MAX: u64 = 1024;
/// The most pods on one node.
const PODS_MAX: u64 = 100_000;
/// The highest exit code of a process.
const EXIT_CODE_MAX: u64 = 255;
/// The most characters in a label's value.
const LABEL_MAX: usize = 63;

/// Equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// Names of the nodes, and where each is written.
    pub(super) node_names: Vec<(String, Location)>,
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
    names: Option<Spanned<Vec<Spanned<String>>>>,
    gpus: Option<Spanned<Scalar>>,
    #[serde(default)]
    gpus_by: GpusBy,
    gpu_product: Option<Spanned<String>>,
    gpu_memory: Option<Spanned<Scalar>>,
    cpu: Option<Spanned<Scalar>>,
    memory: Option<Spanned<Scalar>>,
    ephemeral_storage: Option<Spanned<Scalar>>,
    pods: Option<Spanned<Scalar>>,
    #[serde(default)]
    labels: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    annotations: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    taints: Vec<Spanned<TaintText>>,
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
    exit_code: Option<Spanned<Scalar>>,
}

impl Pool {
    /// All pools of a file.
    pub(super) fn parse_all(place: Place, text: &str) -> Result<Vec<Self>, FleetError> {
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
    pools: Taken,
    nodes: Taken,
}

fn checked(place: Place, text: PoolText, seen: &mut Seen) -> Result<Pool, FleetError> {
    let node_names = node_names(place, &text, seen)?;
    let gpus = text.gpus.as_ref().map_or(Ok(0), |gpus| place.whole("gpus", gpus, [0, GPUS_MAX]))?;
    let gpu_memory_mib = text.gpu_memory.as_ref().map_or(Ok(80 << 10), |m| gpu_memory(place, m))?;
    let amounts = amounts(place, &text)?;
    let annotations = annotations(place, &text)?;
    let gpu_product = match text.gpu_product {
        Some(product) => labels::value(place, "gpuProduct", &product)?,
        None => "NVIDIA-H100-80GB-HBM3".to_owned(),
    };
    Ok(Pool {
        node_names,
        gpus,
        gpus_by: text.gpus_by,
        gpu_memory_mib,
        amounts,
        annotations,
        gpu_product,
        labels: labels::labels(place, text.labels)?,
        taints: labels::taints(place, text.taints)?,
        topology: labels::topology(place, &text.topology)?,
        objects: text.objects,
    })
}

/// In whole MiB, as nodes tell it in their labels.
fn gpu_memory(place: Place, memory: &Spanned<Scalar>) -> Result<Milli, FleetError> {
    match place.quantity("gpuMemory", memory)?.1 / (1000 << 20) {
        0 => {
            let message = format!("gpuMemory: found {}, allowed is at least 1Mi", memory.value.0);
            Err(place.error(memory.referenced, message))
        }
        mib => Ok(mib),
    }
}

fn node_names(
    place: Place,
    text: &PoolText,
    seen: &mut Seen,
) -> Result<Vec<(String, Location)>, FleetError> {
    let pool = &text.name;
    check_name(place, "name", pool)?;
    seen.pools.take(place, ("name: found", "pools"), (&pool.value, pool.referenced))?;
    let names: Vec<Spanned<String>> = match (&text.names, &text.count) {
        (Some(_), Some(count)) => {
            let message = "count: found beside names, allowed is one of them".to_owned();
            return Err(place.error(count.referenced, message));
        }
        (Some(names), None) if names.value.is_empty() => {
            let message = "names: found none, allowed is at least one".to_owned();
            return Err(place.error(names.referenced, message));
        }
        (Some(names), None) => names.value.clone(),
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
        seen.nodes.take(place, ("found node", "nodes"), (&name.value, name.referenced))?;
    }
    Ok(names.into_iter().map(|name| (name.value, name.referenced)).collect())
}

/// A name that a node may have. It is the value of the node's host name label, too.
fn check_name(place: Place, field: &str, name: &Spanned<String>) -> Result<(), FleetError> {
    let text = &name.value;
    if names::dns_subdomain(text).is_none() && text.len() <= LABEL_MAX {
        return Ok(());
    }
    let message = format!(
        "{field}: found \"{text}\", allowed are lower-case letters, digits, - and ., a letter or \
         digit at both ends and around each ., and at most {LABEL_MAX} characters in all"
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
    let mut all = BTreeMap::new();
    for (key, value) in &text.annotations {
        labels::annotation(place, key, value)?;
        all.insert(key.clone(), value.value.clone());
    }
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
    if let Some(code) = &text.kubelet.exit_code {
        let code = place.whole("kubelet.exitCode", code, [0, EXIT_CODE_MAX])?;
        all.insert(EXIT_CODE.to_owned(), code.to_string());
    }
    Ok(all)
}
