//! Runs a case of mode `rounds` end to end: as objects of an emulated cluster in virtual time, with
//! the whole scheduler. A round is one cycle; evicted pods are recreated before the next one, as by
//! a controller. Outcomes are compared after as many rounds as on the core, and must not change
//! afterwards.

mod cluster;
mod objects;
mod outcome;
mod setup;

use super::{
    build, compare, expected_failures,
    format::{Case, Rounds},
    report::Verdict,
};
use cluster::CaseCluster;

/// Runs the case through the whole scheduler, on an emulated cluster.
pub(super) fn run_end_to_end(case: &Case) -> Verdict {
    let Some(rounds) = &case.rounds else {
        return Verdict::NotApplicable(
            "cannot run end to end: the case has a single pass and no rounds".to_owned(),
        );
    };
    let unfit =
        expected_failures::expected_failure_reason(&case.id).or_else(|| case.unsupported_reason());
    if let Some(why) = unfit.or_else(|| objects::unsupported_reason(case)) {
        return Verdict::NotApplicable(why.to_owned());
    }
    match cluster::run_in_virtual_time(run(case, rounds)) {
        Ok(differences) if differences.is_empty() => Verdict::Passed,
        Ok(differences) => Verdict::Failed(differences),
        Err(error) => Verdict::Failed(vec![format!("{error:#}")]),
    }
}

async fn run(case: &Case, rounds: &Rounds) -> anyhow::Result<Vec<String>> {
    let snapshot = build::snapshot_of_case(case);
    let mut cluster = CaseCluster::start(case).await?;
    for _ in 0..rounds.until_match {
        cluster.run_cycle().await?;
    }
    let outcomes = outcome::task_outcomes(&cluster, &snapshot, outcome::PipelinedPodState::Pending);
    let mut found = compare::outcome_differences(case, &snapshot, &outcomes);
    for round in 0..rounds.after_match {
        if !found.is_empty() {
            break;
        }
        cluster.run_cycle().await?;
        let outcomes =
            outcome::task_outcomes(&cluster, &snapshot, outcome::PipelinedPodState::Reported);
        let moved = compare::outcome_differences(case, &snapshot, &outcomes);
        found.extend(
            moved.into_iter().map(|text| format!("the outcome changed in round {round}: {text}")),
        );
    }
    Ok(found)
}
