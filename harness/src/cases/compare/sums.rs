//! What tasks ask for together.

use schedlab_scheduler_core::Snapshot;

use super::{
    super::format::{Outcome, Sums, Task},
    Fate, Played,
};

/// Where the sums over `tasks` differ from those expected.
pub(super) fn differences(
    snapshot: &Snapshot,
    outcome: &Outcome,
    tasks: &[Played<'_>],
) -> Vec<String> {
    let sum = |of: fn(&Task) -> f64| tasks.iter().map(|(_, task, _)| of(task)).sum::<f64>();
    let Sums { gpus_accepted, cpu_millis, memory_bytes } = outcome.sums;
    let accepted = tasks.iter().map(|(_, task, fate)| accepted(snapshot, task, fate)).sum::<f64>();
    let all = [
        ("asking for", "GPUs", sum(|task| task.gpus_total), Some(outcome.gpus_requested_sum)),
        ("having", "GPUs", accepted, gpus_accepted),
        ("asking for", "CPU millis", sum(|task| asked(task, "cpu_millis")), cpu_millis),
        ("asking for", "bytes", sum(|task| asked(task, "memory_bytes")), memory_bytes),
    ];
    let wrong = all.into_iter().filter_map(|(doing, of, found, expected)| {
        let expected = expected.filter(|expected| (found - expected).abs() > 1e-6)?;
        Some(format!("{doing} {found} {of}, not {expected}"))
    });
    wrong.collect()
}

fn asked(task: &Task, resource: &str) -> f64 {
    task.request.get(resource).copied().unwrap_or(0.0)
}

/// The GPUs that it has on its node; memory counts as a part of one there.
fn accepted(snapshot: &Snapshot, task: &Task, fate: &Fate) -> f64 {
    let Some(node) = fate.node else { return 0.0 };
    let (Some(memory), whole) =
        (task.gpu_memory_mib, snapshot.nodes[node.0 as usize].gpu_memory_mib)
    else {
        return task.gpus_total;
    };
    let devices = f64::from(task.gpu_fraction_devices.unwrap_or(1).max(1));
    if whole == 0 { 0.0 } else { devices * float(memory) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "mebibytes of a GPU are few")]
const fn float(amount: i64) -> f64 {
    amount as f64
}
