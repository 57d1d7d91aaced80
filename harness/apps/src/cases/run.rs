//! Runs a case on the core: once, or in rounds in which pipelined and evicted pods become pending
//! again.

use std::time::Duration;

use schedlab_scheduler_core::{
    Decision, Plan, Profile, Snapshot,
    model::{Pod, PodId, PodStatus, Time},
    schedule, schedule_with_pipelined,
};

use super::{
    build,
    compare::{self, TaskOutcome, task_outcomes},
    expected_failures,
    format::{CallLimits, Case, Rounds, TaskState},
    report::Verdict,
};
use schedlab_conformance::text::counted_noun;

/// Runs the case with the scheduler's core alone, if the case is applicable.
pub(super) fn run_case(case: &Case) -> Verdict {
    if let Some(why) =
        expected_failures::expected_failure_reason(&case.id).or_else(|| case.unsupported_reason())
    {
        return Verdict::NotApplicable(why.to_owned());
    }
    match build::scheduler_config_of_case(case) {
        Ok(config) => match single_pass_differences(case, &config.profile) {
            differences if differences.is_empty() => Verdict::Passed,
            differences => Verdict::Failed(differences),
        },
        Err(error) => Verdict::Failed(vec![error.to_string()]),
    }
}

/// Differences between the outcome and the case's expectations.
fn single_pass_differences(case: &Case, profile: &Profile) -> Vec<String> {
    let snapshot = build::snapshot_of_case(case);
    if let Some(rounds) = &case.rounds {
        return round_differences(case, rounds, snapshot, profile);
    }
    let plan = schedule_with_pipelined(&snapshot, profile, &pipelined_pods(case, &snapshot));
    let mut found =
        compare::outcome_differences(case, &snapshot, &task_outcomes(case, &snapshot, &plan));
    found.extend(compare::message::message_differences(case, &plan));
    found.extend(calls_over_limit(case.call_limits(), &plan));
    found
}

fn round_differences(
    case: &Case,
    rounds: &Rounds,
    mut snapshot: Snapshot,
    profile: &Profile,
) -> Vec<String> {
    let limits = case.call_limits();
    let delay = Duration::try_from_secs_f64(rounds.delay_between_rounds_s).unwrap_or_default();
    let mut found = Vec::new();
    let mut pipelined = pipelined_pods(case, &snapshot);
    for _ in 0..rounds.until_match {
        let plan = schedule_with_pipelined(&snapshot, profile, &pipelined);
        pipelined.clear();
        found.extend(calls_over_limit(limits, &plan));
        snapshot = next_round(case, &snapshot, &task_outcomes(case, &snapshot, &plan), delay);
    }
    let nothing = Plan::default();
    found.extend(compare::outcome_differences(
        case,
        &snapshot,
        &task_outcomes(case, &snapshot, &nothing),
    ));
    for round in 0..rounds.after_match {
        if !found.is_empty() {
            break;
        }
        let plan = schedule(&snapshot, profile);
        let outcome = task_outcomes(case, &snapshot, &plan);
        let mut moved = compare::outcome_differences(case, &snapshot, &outcome);
        moved.extend(compare::message::message_differences(case, &plan));
        moved.extend(calls_over_limit(limits, &plan));
        found.extend(
            moved.into_iter().map(|text| format!("the outcome changed in round {round}: {text}")),
        );
        snapshot = next_round(case, &snapshot, &outcome, delay);
    }
    found
}

/// The pods that are pipelined when the case begins.
fn pipelined_pods(case: &Case, snapshot: &Snapshot) -> Vec<PodId> {
    let tasks = case.jobs.iter().flat_map(|job| &job.tasks);
    let pods = tasks.zip(&snapshot.pods).zip((0..).map(PodId));
    let pipelined = pods.filter(|((task, pod), _)| {
        task.state == TaskState::Pipelined && pod.nominated_node.is_some()
    });
    pipelined.map(|(_, pod)| pod).collect()
}

/// The snapshot of the next round: bound pods run; evicted and pipelined ones are pending again.
fn next_round(
    case: &Case,
    snapshot: &Snapshot,
    outcomes: &[TaskOutcome],
    delay: Duration,
) -> Snapshot {
    let mut next = snapshot.clone();
    let passed = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    next.now = Time(next.now.0.saturating_add(passed));
    for (pod, actual) in next.pods.iter_mut().zip(outcomes) {
        let group = pod.group.expect("every task of a case has a job");
        let stays = case.jobs[group.0 as usize].delete_when_released;
        match actual.state {
            "Binding" => {
                next.pod_groups[group.0 as usize].last_start = Some(next.now);
                (pod.status, pod.node) = (PodStatus::Running, actual.node);
                pod.gpu_groups.clone_from(&actual.gpu_groups);
                pod.numa_allocations.clone_from(&actual.numa_zones);
            }
            "Releasing" if stays => {
                pod.status = PodStatus::Releasing;
                pod.releasing_since = pod.releasing_since.or(Some(next.now));
            }
            "Releasing" | "Pipelined" => return_to_pending(pod),
            _ => {}
        }
    }
    next
}

fn return_to_pending(pod: &mut Pod) {
    (pod.status, pod.node, pod.releasing_since) = (PodStatus::Pending, None, None);
    pod.nominated_node = None;
    pod.gpu_groups.clear();
    pod.numa_allocations.clear();
}

fn calls_over_limit(limits: Option<CallLimits>, plan: &Plan) -> Vec<String> {
    let Some(limits) = limits else { return Vec::new() };
    let count = |of: fn(&Decision) -> bool| plan.decisions.iter().filter(|one| of(one)).count();
    let counts = [
        ("bind", count(|one| matches!(one, Decision::Bind { .. })), limits.binds),
        ("eviction", count(|one| matches!(one, Decision::Evict { .. })), limits.evictions),
        ("pipeline", count(|one| matches!(one, Decision::Pipeline { .. })), limits.pipelines),
    ];
    let over = counts.into_iter().filter(|(_, made, allowed)| made > allowed);
    over.map(|(what, made, allowed)| {
        format!("got {} in one session, expected at most {allowed}", counted_noun(made, what))
    })
    .collect()
}

#[cfg(test)]
mod tests;
