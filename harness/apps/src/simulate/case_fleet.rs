//! Nodes and queues of a captured cluster, as those of a trace.

use std::path::Path;

use schedlab_api::{Value, labels, object, quantity, resources};
use schedlab_casefiles::{
    Case,
    read::{DEFAULT_MAX_BYTES, read_case},
};

use super::trace::{TraceError, TraceNode, TraceQueue};

/// Whether a file is a case by its name: a zip, a gzipped snapshot, or objects of kubectl in YAML.
pub(super) fn is_case(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("zip" | "gz" | "yaml" | "yml")) || path.is_dir()
}

/// Reads a case.
///
/// # Errors
/// The file is no case.
pub(super) fn read(path: &Path) -> Result<Case, TraceError> {
    let read = read_case(&[path.to_owned()], DEFAULT_MAX_BYTES).map_err(|error| TraceError {
        file: error.path,
        line: 0,
        column: String::new(),
        found: error.message.trim_start_matches("got ").to_owned(),
        allowed: "a case file, or output of kubectl".to_owned(),
    })?;
    Ok(read.case)
}

/// The nodes that take pods: those that are ready and not cordoned.
pub(super) fn nodes(case: &Case) -> Vec<TraceNode> {
    let takes_pods = |node: &&Value| {
        let is_cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
        !is_cordoned && object::condition(node, "Ready") != Some("False")
    };
    let node = |(node, line): (&Value, u64)| {
        let amount = |resource: &str| {
            let found = object::at(node, &["status", "allocatable", resource]);
            let found = found.and_then(quantity::thousandths).unwrap_or_default();
            u64::try_from(found).unwrap_or_default()
        };
        TraceNode {
            line,
            name: object::name(node).to_owned(),
            cpu_milli: amount("cpu"),
            memory_mib: amount("memory") / 1000 / (1 << 20),
            gpus: amount(resources::GPU) / 1000,
            model: object::label(node, labels::GPU_PRODUCT).unwrap_or_default().to_owned(),
        }
    };
    case.objects("nodes").filter(takes_pods).zip(1..).map(node).collect()
}

/// The queues.
pub(super) fn queues(case: &Case) -> Vec<TraceQueue> {
    let queue = |(queue, line): (&Value, u64)| {
        let gpu = |field: &str| {
            queue.pointer(&format!("/spec/resources/gpu/{field}")).and_then(Value::as_f64)
        };
        TraceQueue {
            line,
            name: object::name(queue).to_owned(),
            parent: object::text(queue, &["spec", "parentQueue"]).to_owned(),
            // As the scheduler reads a missing field.
            quota: gpu("quota").unwrap_or_default(),
            weight: gpu("overQuotaWeight").unwrap_or_default(),
            limit: gpu("limit").unwrap_or_default(),
            priority: object::number(queue, &["spec", "priority"]).unwrap_or(100),
        }
    };
    case.objects("queues").zip(1..).map(queue).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_queues_of_kubectl_output_are_a_fleet() {
        let text = "
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {nvidia.com/gpu.product: H100}}
status: {allocatable: {cpu: 63770m, memory: 1Gi, nvidia.com/gpu: '8'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {unschedulable: true}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {parentQueue: top, resources: {gpu: {quota: 4, limit: -1, overQuotaWeight: 2}}}
";
        let file = std::env::temp_dir().join(format!("schedlab-fleet-{}.yaml", std::process::id()));
        std::fs::write(&file, text).unwrap();
        assert!(is_case(&file));
        let case = read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let nodes = nodes(&case);
        let node = &nodes[0];
        assert_eq!((nodes.len(), node.cpu_milli, node.memory_mib, node.gpus), (1, 63_770, 1024, 8));
        assert_eq!(node.model, "H100");
        let queues = queues(&case);
        assert_eq!(
            (queues[0].parent.as_str(), queues[0].quota, queues[0].weight),
            ("top", 4.0, 2.0)
        );
    }
}
