//! Parses and validates pools of equal nodes.

use std::collections::BTreeMap;

use schedlab_api::{annotations, quantity::Milli};
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use super::FleetError;
use super::labels;
use super::spanned_value::{FleetFile, Scalar, UsedNames, parse_yaml};
use super::taint::TaintText;
use crate::api_types::names;

/// The maximum number of nodes in a pool.
pub(super) const NODES_MAX: u64 = 100_000;
/// The maximum number of GPUs of a node.
const GPUS_MAX: u64 = 1024;
/// The maximum number of pods on a node.
const PODS_MAX: u64 = 100_000;
/// The maximum exit code of a process.
const EXIT_CODE_MAX: u64 = 255;
/// The maximum length of a label value.
const LABEL_VALUE_LENGTH_MAX: usize = 63;

/// A pool of equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// The names of the nodes, with their locations in the fleet file.
    pub(super) node_names: Vec<(String, Location)>,
    pub(super) gpus: u64,
    pub(super) gpus_by: GpusBy,
    pub(super) gpu_product: String,
    pub(super) gpu_memory_mib: Milli,
    /// The amounts of all resources except GPUs.
    pub(super) amounts: BTreeMap<&'static str, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) taints: Vec<TaintText>,
    /// The topology labels of the pool, with the number of nodes per domain.
    pub(super) topology: BTreeMap<String, u64>,
    pub(super) objects: ObjectSize,
}

/// How pods request the GPUs of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum GpusBy {
    /// As the extended resource `nvidia.com/gpu` of a device plugin.
    #[default]
    Plugin,
    /// By resource claims: a `ResourceSlice` per node and the device class `gpu.nvidia.com`.
    Claim,
}

/// The size of node objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ObjectSize {
    /// Only the fields that scheduling needs.
    #[default]
    Slim,
    /// As large as real GPU nodes: many labels, conditions and images.
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
    objects: ObjectSize,
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
    /// Parses the pools of a file.
    pub(super) fn parse_all(file: FleetFile, text: &str) -> Result<Vec<Self>, FleetError> {
        let fleet: FleetText = parse_yaml(file, text)?;
        if fleet.pools.value.is_empty() {
            let message = "pools: got none, expected at least one".to_owned();
            return Err(file.error(fleet.pools.referenced, message));
        }
        let mut seen = SeenNames::default();
        fleet.pools.value.into_iter().map(|pool| validate_pool(file, pool, &mut seen)).collect()
    }
}

/// The names of pools and nodes that were used so far.
#[derive(Default)]
struct SeenNames {
    pools: UsedNames,
    nodes: UsedNames,
}

fn validate_pool(
    file: FleetFile,
    text: PoolText,
    seen: &mut SeenNames,
) -> Result<Pool, FleetError> {
    let node_names = pool_node_names(file, &text, seen)?;
    let gpus =
        text.gpus.as_ref().map_or(Ok(0), |gpus| file.parse_whole("gpus", gpus, [0, GPUS_MAX]))?;
    let gpu_memory_mib =
        text.gpu_memory.as_ref().map_or(Ok(80 << 10), |m| parse_gpu_memory(file, m))?;
    let amounts = resource_amounts(file, &text)?;
    let annotations = pool_annotations(file, &text)?;
    let gpu_product = match text.gpu_product {
        Some(product) => labels::validate_label_value(file, "gpuProduct", &product)?,
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
        labels: labels::validate_labels(file, text.labels)?,
        taints: labels::validate_taints(file, text.taints)?,
        topology: labels::validate_topology(file, &text.topology)?,
        objects: text.objects,
    })
}

/// Parses the GPU memory: whole MiB, as in node labels.
fn parse_gpu_memory(file: FleetFile, memory: &Spanned<Scalar>) -> Result<Milli, FleetError> {
    match file.parse_quantity("gpuMemory", memory)?.1 / (1000 << 20) {
        0 => {
            let message = format!("gpuMemory: got {}, expected at least 1Mi", memory.value.0);
            Err(file.error(memory.referenced, message))
        }
        mib => Ok(mib),
    }
}

fn pool_node_names(
    file: FleetFile,
    text: &PoolText,
    seen: &mut SeenNames,
) -> Result<Vec<(String, Location)>, FleetError> {
    let pool = &text.name;
    check_node_name(file, "name", pool)?;
    seen.pools.insert(file, "pool", &pool.value, pool.referenced)?;
    let names: Vec<Spanned<String>> = match (&text.names, &text.count) {
        (Some(_), Some(count)) => {
            let message = "count: got both count and names, expected one of them".to_owned();
            return Err(file.error(count.referenced, message));
        }
        (Some(names), None) if names.value.is_empty() => {
            let message = "names: got none, expected at least one".to_owned();
            return Err(file.error(names.referenced, message));
        }
        (Some(names), None) => names.value.clone(),
        (None, count) => {
            let count = count
                .as_ref()
                .map_or(Ok(1), |count| file.parse_whole("count", count, [1, NODES_MAX]))?;
            let name = |index| {
                Spanned::new(format!("{}-{index}", pool.value), pool.referenced, pool.defined)
            };
            (0..count).map(name).collect()
        }
    };
    for name in &names {
        check_node_name(file, "names", name)?;
        seen.nodes.insert(file, "node", &name.value, name.referenced)?;
    }
    Ok(names.into_iter().map(|name| (name.value, name.referenced)).collect())
}

/// Validates a node name, which is also the value of the `kubernetes.io/hostname` label.
fn check_node_name(file: FleetFile, field: &str, name: &Spanned<String>) -> Result<(), FleetError> {
    let text = &name.value;
    if names::dns_subdomain_violation(text).is_none() && text.len() <= LABEL_VALUE_LENGTH_MAX {
        return Ok(());
    }
    let message = format!(
        "{field}: got \"{text}\", expected lower-case letters, digits, - and ., a letter or \
         digit at both ends and around each ., and at most {LABEL_VALUE_LENGTH_MAX} characters in all"
    );
    Err(file.error(name.referenced, message))
}

fn resource_amounts(
    file: FleetFile,
    text: &PoolText,
) -> Result<BTreeMap<&'static str, String>, FleetError> {
    let mut amounts = BTreeMap::from([
        ("cpu", "128".to_owned()),
        ("memory", "1Ti".to_owned()),
        ("ephemeral-storage", "1Ti".to_owned()),
        ("pods", "110".to_owned()),
    ]);
    let settings = [
        ("cpu", "cpu", &text.cpu),
        ("memory", "memory", &text.memory),
        ("ephemeral-storage", "ephemeralStorage", &text.ephemeral_storage),
    ];
    for (resource, field, scalar) in settings {
        if let Some(scalar) = scalar {
            amounts.insert(resource, file.parse_quantity(field, scalar)?.0);
        }
    }
    if let Some(pods) = &text.pods {
        amounts.insert("pods", file.parse_whole("pods", pods, [1, PODS_MAX])?.to_string());
    }
    Ok(amounts)
}

/// The annotations of a pool, including the kubelet timing of its pods.
fn pool_annotations(
    file: FleetFile,
    text: &PoolText,
) -> Result<BTreeMap<String, String>, FleetError> {
    let mut all = BTreeMap::new();
    for (key, value) in &text.annotations {
        labels::validate_annotation(file, key, value)?;
        all.insert(key.clone(), value.value.clone());
    }
    let timings = [
        (annotations::STARTUP, "kubelet.startup", &text.kubelet.startup),
        (annotations::RUN_TIME, "kubelet.runTime", &text.kubelet.run_time),
        (annotations::TERMINATION, "kubelet.termination", &text.kubelet.termination),
    ];
    for (key, field, scalar) in timings {
        if let Some(scalar) = scalar {
            all.insert(key.to_owned(), file.parse_duration_text(field, scalar)?);
        }
    }
    if let Some(code) = &text.kubelet.exit_code {
        let code = file.parse_whole("kubelet.exitCode", code, [0, EXIT_CODE_MAX])?;
        all.insert(annotations::EXIT_CODE.to_owned(), code.to_string());
    }
    Ok(all)
}
