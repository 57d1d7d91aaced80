//! Cycle after cycle on a closed system: nothing arrives, nothing finishes, and evicted pods are
//! pending again.

use schedlab_audit::Rules;

use super::show;
use schedlab_scheduler_core::{
    Decision, Plan, Profile, QueueUsage, Snapshot, inspect::next_snapshot as next,
    model::PodStatus, schedule,
};

/// Maximum number of cycles until a cluster must be steady, that is without further decisions.
const CYCLES_MAX: usize = 20;

pub(super) fn run_cycles_until_steady(mut snapshot: Snapshot) -> String {
    let mut lines = Vec::new();
    for cycle in 1..=CYCLES_MAX {
        let plan = schedule(&snapshot, &Profile::kai());
        if let Some(line) = mispredicted_usage(&snapshot, &plan) {
            lines.push(format!("{cycle}: BREACH {line}"));
        }
        if plan.decisions.is_empty() {
            lines.push(format!("steady after {}", cycle - 1));
            return lines.join("\n");
        }
        let Plan { decisions, gpu_groups, numa_allocations: zones, queues_after, .. } = plan;
        let decided = Plan {
            decisions,
            gpu_groups,
            numa_allocations: zones,
            queues_after,
            ..Plan::default()
        };
        let mut decisions = show::plan_lines(&snapshot, &decided);
        decisions.extend(super::breach_texts(&snapshot, &decided, Rules::kai()));
        lines.extend(decisions.into_iter().map(|line| format!("{cycle}: {line}")));
        snapshot = next(&snapshot, &decided);
    }
    lines.push("NEVER STEADY".to_owned());
    lines.join("\n")
}

/// The first mismatch between the queue usage that the plan predicts and the usage that the next
/// cycle finds while evicted pods are terminating.
fn mispredicted_usage(snapshot: &Snapshot, plan: &Plan) -> Option<String> {
    let mut leaving = next(snapshot, plan);
    for decision in &plan.decisions {
        if let Decision::Evict { pod, .. } = decision {
            let pod = pod.0 as usize;
            leaving.pods[pod].status = PodStatus::Releasing;
            leaving.pods[pod].node = snapshot.pods[pod].node;
        }
    }
    let found = schedule(&leaving, &Profile::kai()).queues;
    let wrong = plan.queues_after.iter().find(|(queue, predicted)| {
        let found = QueueUsage { fair_share: predicted.fair_share, ..found[queue].clone() };
        found != **predicted
    });
    wrong.map(|(queue, predicted)| format!("{predicted:?} foretold, found {:?}", found[queue]))
}
