//! Sums of requests and allocations over tasks.

use schedlab_scheduler_core::Snapshot;

use super::{
    super::format::{ExpectedSums, ExpectedTasks, Task},
    ComparedTask, TaskOutcome,
};

/// Differences between the sums over `tasks` (of GPUs, CPU and memory) and the expected sums.
pub(super) fn sum_differences(
    snapshot: &Snapshot,
    outcome: &ExpectedTasks,
    tasks: &[ComparedTask<'_>],
) -> Vec<String> {
    let sum = |of: fn(&Task) -> f64| tasks.iter().map(|(_, task, _)| of(task)).sum::<f64>();
    let ExpectedSums { gpus_accepted, cpu_millis, memory_bytes } = outcome.sums;
    let accepted =
        tasks.iter().map(|(_, task, actual)| accepted_gpus(snapshot, task, actual)).sum::<f64>();
    let all = [
        ("requesting", "GPUs", sum(|task| task.gpus_total), Some(outcome.gpus_requested_sum)),
        ("holding", "GPUs", accepted, gpus_accepted),
        (
            "requesting",
            "CPU millicores",
            sum(|task| requested_amount(task, "cpu_millis")),
            cpu_millis,
        ),
        ("requesting", "bytes", sum(|task| requested_amount(task, "memory_bytes")), memory_bytes),
    ];
    let wrong = all.into_iter().filter_map(|(doing, of, found, expected)| {
        let expected = expected.filter(|expected| (found - expected).abs() > 1e-6)?;
        Some(format!("got tasks {doing} {found} {of}, expected {expected}"))
    });
    wrong.collect()
}

fn requested_amount(task: &Task, resource: &str) -> f64 {
    task.request.get(resource).copied().unwrap_or(0.0)
}

/// GPUs that a task has been allocated on its node. A request for GPU memory counts as a fraction
/// of a GPU of that node.
fn accepted_gpus(snapshot: &Snapshot, task: &Task, actual: &TaskOutcome) -> f64 {
    let Some(node) = actual.node else { return 0.0 };
    let (Some(memory), whole) =
        (task.gpu_memory_mib, snapshot.nodes[node.0 as usize].gpu_memory_mib)
    else {
        return task.gpus_total;
    };
    let devices = f64::from(task.gpu_fraction_devices.unwrap_or(1).max(1));
    if whole == 0 { 0.0 } else { devices * float(memory) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "a GPU has far less than 2^53 MiB")]
const fn float(amount: i64) -> f64 {
    amount as f64
}
