//! A node as the mirror keeps it.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Lack, LeftOut, Name, Node, Taint};

use super::{Mirror, condition, requests, selectors};
use crate::{
    config::NodePool,
    parse::{Malformed, at, list, strings, text, uid},
};

/// What is kept of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub(crate) uid: Name,
    pub(crate) node: Node,
    /// The first thing that cannot be used. What is malformed offers nothing.
    pub(crate) malformed: Option<Malformed>,
}

impl NodeRecord {
    pub(crate) fn read(object: &Value) -> Self {
        let (allocatable, mut malformed) =
            requests::resources(at(object, "/status/allocatable"), "status.allocatable");
        let mut taints = Vec::new();
        for item in list(object, "/spec/taints") {
            match taint(item) {
                Ok(taint) => taints.push(taint),
                Err(wrong) => {
                    malformed.get_or_insert(wrong);
                }
            }
        }
        taints.sort();
        let ready = condition(list(object, "/status/conditions"), "Ready")
            .is_some_and(|ready| &*ready.status == "True");
        let unschedulable = at(object, "/spec/unschedulable") == Some(&Value::Bool(true));
        let node = Node {
            name: text(object, "/metadata/name").unwrap_or_default().into(),
            labels: strings(object, "/metadata/labels"),
            taints,
            allocatable,
            gpus_by_claim: false,
            published: BTreeMap::new(),
            held_claims: Vec::new(),
            volume_limits: BTreeMap::new(),
            attached: BTreeSet::new(),
            numa: None,
            gpu_memory_mib: gpu_memory_mib(object).unwrap_or_else(|wrong| {
                malformed.get_or_insert(wrong);
                0
            }),
            images: images(object),
            unschedulable,
            ready,
        };
        Self { uid: uid(object), node, malformed }
    }
}

impl Mirror {
    /// Of GPU and CPU workers only, where that is wanted.
    pub(crate) fn of_workers(self, workers_only: bool) -> Self {
        Self { workers_only, ..self }
    }

    /// A node that has left the pool, or the workers where only those count, is not looked at;
    /// what of ours runs there goes on counting.
    pub(super) fn upsert_node(&mut self, name: Name, record: NodeRecord) {
        let is_worker = record.node.is_gpu_worker() || record.node.is_cpu_worker();
        if !self.is_in_pool(&record.node.labels) || (self.workers_only && !is_worker) {
            let lacks = self.lacks(&record.node);
            let gone = self.nodes.remove(&name).is_some();
            if gone | (self.other_nodes.insert(name, lacks.clone()) != Some(lacks)) {
                self.everything_changed();
            }
            return;
        }
        self.other_nodes.remove(&name);
        match self.nodes.get_mut(&name) {
            None => {
                self.nodes.insert(name, record);
                self.everything_changed();
            }
            Some(known) if *known == record => {}
            Some(known) => {
                *known = record;
                self.node_changed(name);
            }
        }
    }

    fn lacks(&self, node: &Node) -> BTreeSet<Lack> {
        let of_pool = self.pool.as_ref().filter(|_| !self.is_in_pool(&node.labels));
        let of_pool = of_pool.map(|NodePool { label, value }| match (&**label, &**value) {
            (key, "") => Lack::NoLabel { key: key.into() },
            (key, value) => Lack::Label { key: key.into(), value: value.into() },
        });
        let gpu = (self.workers_only && !node.is_gpu_worker()).then_some(Lack::GpuWorker);
        let cpu = (self.workers_only && !node.is_cpu_worker()).then_some(Lack::CpuWorker);
        [of_pool, gpu, cpu].into_iter().flatten().collect()
    }

    /// Nodes that are left out for their labels, together that lack the same.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        let mut alike: BTreeMap<&BTreeSet<Lack>, Vec<Name>> = BTreeMap::new();
        for (name, lacks) in self.other_nodes.iter().filter(|(_, lacks)| !lacks.is_empty()) {
            alike.entry(lacks).or_default().push(Name::clone(name));
        }
        alike.into_iter().map(|(lacks, nodes)| LeftOut { nodes, lacks: lacks.clone() }).collect()
    }

    /// A node with all that is published for it.
    pub(crate) fn offered(&self, record: &NodeRecord) -> Node {
        let mut node = self.claims.offered(&record.node);
        let numa = self.topologies_of_nodes.get(&node.name);
        node.numa = numa.map(|record| record.topology.clone());
        self.with_volumes(&mut node);
        node
    }
}

const GPU_MEMORY_LABEL: &str = "nvidia.com/gpu.memory";

/// What that label says, rounded down to hundreds as KAI does; 0 where there is none.
fn gpu_memory_mib(object: &Value) -> Result<i64, Malformed> {
    let labels = at(object, "/metadata/labels");
    let found = labels.and_then(|labels| labels.get(GPU_MEMORY_LABEL)?.as_str());
    let Some(found) = found else { return Ok(0) };
    let mib = found.parse().ok().filter(|mib: &i64| *mib >= 0);
    mib.map(|mib| mib / 100 * 100).ok_or_else(|| {
        let field = format!("label {GPU_MEMORY_LABEL}");
        Malformed::new(field, format!("{found:?}"), "an integer of MiB, not negative")
    })
}

/// Bytes by name; an image has several names.
fn images(object: &Value) -> BTreeMap<Name, i64> {
    let images = list(object, "/status/images").iter();
    let named = images.flat_map(|image| {
        let size = at(image, "/sizeBytes").and_then(Value::as_i64).unwrap_or(0);
        list(image, "/names").iter().filter_map(Value::as_str).map(move |name| (name.into(), size))
    });
    named.collect()
}

fn taint(item: &Value) -> Result<Taint, Malformed> {
    Ok(Taint {
        key: text(item, "/key").unwrap_or_default().into(),
        value: text(item, "/value").unwrap_or_default().into(),
        effect: selectors::effect(
            "spec.taints: effect",
            text(item, "/effect").unwrap_or_default(),
        )?,
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_json::json;

    use super::*;

    #[test]
    fn a_size_of_gpus_that_is_no_number_is_told_and_counts_as_none() {
        let of = |memory: &str| {
            let labels = json!({ "nvidia.com/gpu.memory": memory });
            let record = NodeRecord::read(&json!({ "metadata": { "labels": labels } }));
            let wrong = record.malformed.map(|wrong| wrong.to_string()).unwrap_or_default();
            format!("{} {wrong}", record.node.gpu_memory_mib)
        };
        assert_snapshot!(of("81920"), @"81900 ");
        assert_snapshot!(of("80GiB"), @r#"0 label nvidia.com/gpu.memory: found "80GiB", allowed: an integer of MiB, not negative"#);
        assert_snapshot!(of("-1"), @r#"0 label nvidia.com/gpu.memory: found "-1", allowed: an integer of MiB, not negative"#);
    }
}
