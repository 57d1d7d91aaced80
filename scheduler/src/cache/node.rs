//! Nodes in the cache.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{Value, conditions, labels};
use schedlab_scheduler_core::model::{ExcludedNodes, LabelMismatch, Name, Node, Taint};

use super::ClusterCache;
use crate::{
    config::NodePool,
    parse::{Malformed, at, list, strings, text, uid},
    records::{find_condition, pod_requests, selectors},
};

/// The fields of a node that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub(crate) uid: Name,
    pub(crate) node: Node,
    /// The first malformed field. A malformed quantity counts as 0.
    pub(crate) malformed: Option<Malformed>,
}

impl NodeRecord {
    pub(crate) fn from_object(object: &Value) -> Self {
        let (allocatable, mut malformed) = pod_requests::parse_resource_list(
            at(object, "/status/allocatable"),
            "status.allocatable",
        );
        let mut taints = Vec::new();
        for item in list(object, "/spec/taints") {
            match parse_taint(item) {
                Ok(taint) => taints.push(taint),
                Err(wrong) => {
                    malformed.get_or_insert(wrong);
                }
            }
        }
        taints.sort();
        let ready = find_condition(list(object, "/status/conditions"), conditions::READY)
            .is_some_and(|ready| &*ready.status == "True");
        let unschedulable = at(object, "/spec/unschedulable") == Some(&Value::Bool(true));
        let node = Node {
            name: text(object, "/metadata/name").unwrap_or_default().into(),
            labels: strings(object, "/metadata/labels"),
            taints,
            allocatable,
            gpus_via_dra: false,
            published_devices: BTreeMap::new(),
            device_counters: BTreeMap::new(),
            devices: Vec::new(),
            unused_claims: Vec::new(),
            volume_limits: BTreeMap::new(),
            attached_volumes: BTreeSet::new(),
            numa: None,
            gpu_memory_mib: gpu_memory_mib(object).unwrap_or_else(|wrong| {
                malformed.get_or_insert(wrong);
                0
            }),
            images: image_sizes(object),
            unschedulable,
            ready,
        };
        Self { uid: uid(object), node, malformed }
    }
}

impl ClusterCache {
    /// Restricts the cache to GPU and CPU worker nodes if `workers_only` is set.
    pub(crate) fn with_workers_only(self, workers_only: bool) -> Self {
        Self { workers_only, ..self }
    }

    /// Inserts a node. A node that left the node pool, or that is no worker where only workers are
    /// used, is excluded; the pods of this scheduler on the node still count.
    pub(super) fn upsert_node(&mut self, name: Name, record: NodeRecord) {
        let is_worker = record.node.is_gpu_worker() || record.node.is_cpu_worker();
        if !self.is_in_pool(&record.node.labels) || (self.workers_only && !is_worker) {
            let lacks = self.label_mismatches(&record.node);
            let gone = self.nodes.remove(&name).is_some();
            if gone | (self.excluded_nodes.insert(name, lacks.clone()) != Some(lacks)) {
                self.mark_everything_changed();
            }
            return;
        }
        self.excluded_nodes.remove(&name);
        match self.nodes.get_mut(&name) {
            None => {
                self.nodes.insert(name, record);
                self.mark_everything_changed();
            }
            Some(known) if *known == record => {}
            Some(known) => {
                *known = record;
                self.node_changed(name);
            }
        }
    }

    fn label_mismatches(&self, node: &Node) -> BTreeSet<LabelMismatch> {
        let of_pool = self.pool.as_ref().filter(|_| !self.is_in_pool(&node.labels));
        let of_pool = of_pool.map(|NodePool { label, value }| match (&**label, &**value) {
            (key, "") => LabelMismatch::Unwanted { key: key.into() },
            (key, value) => LabelMismatch::Missing { key: key.into(), value: value.into() },
        });
        let gpu =
            (self.workers_only && !node.is_gpu_worker()).then_some(LabelMismatch::NotGpuWorker);
        let cpu =
            (self.workers_only && !node.is_cpu_worker()).then_some(LabelMismatch::NotCpuWorker);
        [of_pool, gpu, cpu].into_iter().flatten().collect()
    }

    /// Excluded nodes, grouped by the labels that they lack.
    pub(crate) fn excluded_nodes(&self) -> Vec<ExcludedNodes> {
        let mut alike: BTreeMap<&BTreeSet<LabelMismatch>, Vec<Name>> = BTreeMap::new();
        for (name, lacks) in self.excluded_nodes.iter().filter(|(_, lacks)| !lacks.is_empty()) {
            alike.entry(lacks).or_default().push(Name::clone(name));
        }
        alike
            .into_iter()
            .map(|(lacks, nodes)| ExcludedNodes { nodes, mismatches: lacks.clone() })
            .collect()
    }

    /// The node with everything that other objects say about it: devices, volume limits and NUMA
    /// zones.
    pub(crate) fn effective_node(&self, record: &NodeRecord) -> Node {
        let mut node = self.resource_claims.with_devices(&record.node);
        let numa = self.numa_topologies.get(&node.name);
        node.numa = numa.map(|record| record.topology.clone());
        self.add_volume_limits(&mut node);
        node
    }
}

/// Memory of each GPU from label `nvidia.com/gpu.memory`, rounded down to a multiple of 100 MiB as
/// in KAI; 0 without the label.
fn gpu_memory_mib(object: &Value) -> Result<i64, Malformed> {
    let labels = at(object, "/metadata/labels");
    let found = labels.and_then(|labels| labels.get(labels::GPU_MEMORY)?.as_str());
    let Some(found) = found else { return Ok(0) };
    let mib = found.parse().ok().filter(|mib: &i64| *mib >= 0);
    mib.map(|mib| mib / 100 * 100).ok_or_else(|| {
        let field = format!("label {}", labels::GPU_MEMORY);
        Malformed::new(field, format!("{found:?}"), "an integer of MiB, not negative")
    })
}

/// Sizes of the node's images in bytes, by name; an image has several names.
fn image_sizes(object: &Value) -> BTreeMap<Name, i64> {
    let images = list(object, "/status/images").iter();
    let named = images.flat_map(|image| {
        let size = at(image, "/sizeBytes").and_then(Value::as_i64).unwrap_or(0);
        list(image, "/names").iter().filter_map(Value::as_str).map(move |name| (name.into(), size))
    });
    named.collect()
}

fn parse_taint(item: &Value) -> Result<Taint, Malformed> {
    Ok(Taint {
        key: text(item, "/key").unwrap_or_default().into(),
        value: text(item, "/value").unwrap_or_default().into(),
        effect: selectors::parse_effect(
            "spec.taints: effect",
            text(item, "/effect").unwrap_or_default(),
        )?,
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::json;

    use super::*;

    #[test]
    fn an_invalid_gpu_memory_label_is_malformed_and_counts_as_0() {
        let of = |memory: &str| {
            let labels = json!({ "nvidia.com/gpu.memory": memory });
            let record = NodeRecord::from_object(&json!({ "metadata": { "labels": labels } }));
            let wrong = record.malformed.map(|wrong| wrong.to_string()).unwrap_or_default();
            format!("{} {wrong}", record.node.gpu_memory_mib)
        };
        assert_snapshot!(of("81920"), @"81900 ");
        assert_snapshot!(of("80GiB"), @r#"0 label nvidia.com/gpu.memory: got "80GiB", expected an integer of MiB, not negative"#);
        assert_snapshot!(of("-1"), @r#"0 label nvidia.com/gpu.memory: got "-1", expected an integer of MiB, not negative"#);
    }
}
