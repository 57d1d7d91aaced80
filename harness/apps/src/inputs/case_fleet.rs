//! Nodes and queues of a captured cluster, as those of a trace.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use schedlab_api::{Value, labels, object, quantity, resources};
use schedlab_casefiles::{
    Case,
    read::{DEFAULT_MAX_BYTES, read_case},
};

use schedlab_emulator::fleet::Fleet;

use super::trace::{TraceError, TraceNode, TraceQueue};

/// Whether a file is a case: a zip, a gzipped snapshot, or objects of kubectl in YAML or JSON.
pub(super) fn is_case(path: &Path) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("zip" | "gz" | "yaml" | "yml") => true,
        // JSON lines of a trace have no kind.
        Some("json") => first_line_with(path, |line| !line.is_empty())
            .is_some_and(|line| line == "{" || line.contains("\"kind\"")),
        _ => path.is_dir(),
    }
}

/// Whether a file is a fleet file of schedlab: YAML with pools.
pub(super) fn is_pools(path: &Path) -> bool {
    let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    is_yaml && first_line_with(path, |line| line.starts_with("pools:")).is_some()
}

/// The first line for which this holds, without the spaces around it.
fn first_line_with(path: &Path, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let lines = BufReader::new(File::open(path).ok()?).lines();
    lines.map_while(Result::ok).map(|line| line.trim().to_owned()).find(|line| is_wanted(line))
}

/// Reads a fleet file of schedlab.
///
/// # Errors
/// The file cannot be read, or is no fleet.
pub(super) fn read_pools(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    let file = path.display().to_string();
    let text = schedlab_conformance::text::read_text_file(path).map_err(|error| TraceError {
        file: file.clone(),
        line: u64::try_from(error.line).unwrap_or_default(),
        column: String::new(),
        found: error.found,
        allowed: "a fleet file".to_owned(),
    })?;
    let fleet = Fleet::parse(&file, &text).map_err(|error| TraceError {
        file: error.location.to_string(),
        line: 0,
        column: String::new(),
        found: error.message.trim_start_matches("got ").to_owned(),
        allowed: "a fleet file".to_owned(),
    })?;
    Ok(fleet.nodes().iter().zip(1..).map(|(node, line)| trace_node(node, line)).collect())
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
    let nodes = case.objects("nodes").filter(takes_pods).zip(1..);
    nodes.map(|(node, line)| trace_node(node, line)).collect()
}

fn trace_node(node: &Value, line: u64) -> TraceNode {
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
