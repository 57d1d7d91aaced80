//! Renders the queue tree with quota, limit, fair share and usage of each queue.

use std::{collections::BTreeMap, fmt::Write as _};

use schedlab_api::{Value, quantity::thousandths, resources};
use schedlab_audit::{charged_fraction_milli, gpu_memory_mib, pod_requests};

use super::{
    ClusterObjects, FairShares, string_at,
    symbols::{PodState, Workload},
};

/// A resource for which queues have quotas. To get thousandths of `unit`, divide amounts of a queue
/// by `queue_units`, and thousandths of a pod's requests by `pod_units`.
struct ResourceColumn {
    resource: &'static str,
    key: &'static str,
    unit: &'static str,
    queue_units: i128,
    pod_units: i128,
}

const RESOURCE_COLUMNS: [ResourceColumn; 3] = [
    ResourceColumn {
        resource: resources::GPU,
        key: "gpu",
        unit: "GPUs",
        queue_units: 1,
        pod_units: 1,
    },
    ResourceColumn { resource: "cpu", key: "cpu", unit: "cores", queue_units: 1000, pod_units: 1 },
    ResourceColumn {
        resource: "memory",
        key: "memory",
        unit: "GB",
        queue_units: 1000,
        pod_units: 1_000_000_000,
    },
];

/// Writes a table of queues for GPUs, and one for each other resource for which a queue has a quota
/// or limit.
pub(super) fn write_queue_tables(
    text: &mut String,
    cluster: &ClusterObjects<'_>,
    workloads: &[Workload<'_>],
    fair_shares: &FairShares,
) {
    let tree = queue_tree_rows(cluster.queues);
    if tree.is_empty() {
        return;
    }
    for column in &RESOURCE_COLUMNS {
        let bounded = |queue: &Value| {
            let finite =
                |field, least| queue_bound(queue, column, field).is_some_and(|b| b > least);
            finite("quota", 0) || finite("limit", 0)
        };
        let gpus = column.key == "gpu";
        if !gpus && !cluster.queues.iter().any(|queue| bounded(queue)) {
            continue;
        }
        let used = used_amount_by_queue(cluster, workloads, column);
        let width = tree.iter().map(|(depth, name, _)| 2 * depth + name.len()).max().unwrap_or(0);
        let heading = format!("queues ({})", column.unit);
        let width = heading.len().max(width + 2);
        let fair = if gpus { "   fair" } else { "" };
        let _ = writeln!(text, "{heading:<width$}  quota  limit{fair}   used");
        for (depth, name, queue) in &tree {
            let name_cell = format!("{:indent$}{name}", "", indent = 2 + 2 * depth);
            let quota = format_amount(queue_bound(queue, column, "quota"));
            let limit = format_amount(queue_bound(queue, column, "limit"));
            let used = format_amount(Some(used.get(*name).copied().unwrap_or(0)));
            let fair = match fair_shares.get(*name) {
                Some(fair) if gpus => format!("  {:>5}", (fair * 1000.0).round() / 1000.0),
                None if gpus => format!("  {:>5}", "?"),
                Some(_) | None => String::new(),
            };
            let _ = writeln!(text, "{name_cell:<width$}  {quota:>5}  {limit:>5}{fair}  {used:>5}");
        }
    }
}

/// A quota or limit of a queue in thousandths of the column's unit; `None` means unlimited.
fn queue_bound(queue: &Value, column: &ResourceColumn, field: &str) -> Option<i128> {
    let found = queue.pointer(&format!("/spec/resources/{}/{field}", column.key));
    let bound = found.and_then(thousandths).unwrap_or(0);
    (bound != -1000).then_some(bound / column.queue_units)
}

fn format_amount(thousandths: Option<i128>) -> String {
    let Some(thousandths) = thousandths else { return "-".to_owned() };
    let rest = thousandths % 1000;
    let fraction = if rest == 0 { String::new() } else { format!(".{:03}", rest.abs()) };
    format!("{}{}", thousandths / 1000, fraction.trim_end_matches('0'))
}

/// The queues with their depth in the tree: parents before children, siblings sorted by name.
/// Queues with an unknown parent come last, as roots.
fn queue_tree_rows<'a>(queues: &[&'a Value]) -> Vec<(usize, &'a str, &'a Value)> {
    let mut queues: Vec<(&str, &Value)> =
        queues.iter().map(|queue| (string_at(queue, "/metadata/name"), *queue)).collect();
    queues.sort_by_key(|(name, _)| *name);
    let mut tree = Vec::new();
    add_child_queues("", 0, &queues, &mut tree);
    for (name, queue) in &queues {
        if !tree.iter().any(|(_, known, _)| known == name) {
            tree.push((0, *name, *queue));
            add_child_queues(name, 1, &queues, &mut tree);
        }
    }
    tree
}

fn add_child_queues<'a>(
    parent: &str,
    depth: usize,
    queues: &[(&'a str, &'a Value)],
    tree: &mut Vec<(usize, &'a str, &'a Value)>,
) {
    for (name, queue) in queues {
        let known = tree.iter().any(|(_, known, _)| known == name);
        if !known && string_at(queue, "/spec/parentQueue") == parent {
            tree.push((depth, *name, *queue));
            add_child_queues(name, depth + 1, queues, tree);
        }
    }
}

/// The amount of a resource that a bound pod uses, in thousandths of the column's unit. It includes
/// the GPU fractions that queues are charged for.
fn requested_amount(cluster: &ClusterObjects<'_>, pod: &Value, column: &ResourceColumn) -> i128 {
    let whole = pod_requests(pod).get(column.resource).copied().unwrap_or(0);
    if column.key != "gpu" {
        return whole;
    }
    let named =
        |node: &&&Value| string_at(node, "/metadata/name") == string_at(pod, "/spec/nodeName");
    let node = cluster.nodes.iter().find(named);
    whole + charged_fraction_milli(pod, node.map_or(0, |node| gpu_memory_mib(node)))
}

/// The amount of a resource that the pods of each queue and of its descendants use; terminating
/// pods do not count.
fn used_amount_by_queue<'a>(
    cluster: &ClusterObjects<'a>,
    workloads: &[Workload<'a>],
    column: &ResourceColumn,
) -> BTreeMap<&'a str, i128> {
    let names = cluster.queues.iter().map(|queue| (string_at(queue, "/metadata/name"), *queue));
    let by_name: BTreeMap<&str, &Value> = names.collect();
    let mut used: BTreeMap<&str, i128> = BTreeMap::new();
    for one in workloads {
        let staying = one
            .pods
            .iter()
            .filter(|pod| pod.holds_resources() && pod.state != PodState::Terminating);
        let sum = staying.map(|pod| requested_amount(cluster, pod.object, column)).sum::<i128>();
        let sum = sum / column.pod_units;
        let mut next = by_name.get_key_value(one.queue.as_str());
        // The number of steps is bounded by the number of queues, so cycles end, too.
        for _ in 0..by_name.len() {
            let Some((name, queue)) = next else { break };
            *used.entry(name).or_default() += sum;
            next = by_name.get_key_value(string_at(queue, "/spec/parentQueue"));
        }
    }
    used
}
