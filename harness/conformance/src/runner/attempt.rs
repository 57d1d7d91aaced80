//! One run of one case: builds its world, runs its steps, and checks invariants after each step and
//! at the end.

use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cucumber::step::Collection;
use futures::FutureExt as _;
use gherkin::{Step, StepType};
use schedlab_emulator::clock::Clock;
use tokio::runtime;

use super::{
    CaseHistory, CaseOutcome, CaseReport, FailureKind, REVIEWED_SNAPSHOT_SEED, RunSettings,
    StepReport, mark_report_failed, not_run_report, panics,
};
use crate::compare::{canonical_text, canonical_text_without_shares, run_outcome};
use crate::features::Case;
use crate::snapshots::{self, SnapshotComparison, SnapshotFile};
use crate::steps::{is_snapshot_step, unknown_name_message};
use crate::world::{World, required_feature_gates};
use schedlab_clusters::interrupt::Interrupted;

/// The result of running a case once.
pub(super) struct CaseAttempt {
    /// The report on the case.
    pub(super) report: CaseReport,
    /// Every write to the cluster as a line; empty unless runs are compared.
    pub(super) history: Vec<String>,
    /// How often the scheduler was killed before a write.
    pub(super) crashes: usize,
}

/// How long the cluster keeps running after the steps of a scenario of which only the invariants
/// are checked.
const SETTLE_MAX_AFTER_CRASH: Duration = Duration::from_mins(2);

struct StepFailure {
    kind: FailureKind,
    line: usize,
    message: String,
}

/// What is checked when a case is run once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssertionMode {
    /// All assertions and invariants are checked.
    Full,
    /// Only audit rules and panics are checked, and the scheduler is killed before one write.
    /// Assertions on timing or on writes need not hold after a crash.
    InvariantsOnly {
        /// The number of the write before which the scheduler is killed, counted from 1.
        crash_before_write: u32,
    },
}

/// Runs a case once on a new cluster.
pub(super) fn run_attempt(
    case: &Case,
    steps: &Collection<World>,
    settings: &RunSettings,
) -> CaseAttempt {
    run_in_mode(case, steps, settings, AssertionMode::Full)
}

/// Runs a case once on a new cluster, in the given mode.
pub(super) fn run_in_mode(
    case: &Case,
    steps: &Collection<World>,
    settings: &RunSettings,
    mode: AssertionMode,
) -> CaseAttempt {
    let stopwatch = Clock::real();
    let began = stopwatch.now();
    panics::start_recording();
    let mut builder = runtime::Builder::new_current_thread();
    let runtime = match &settings.real_cluster {
        None => builder.enable_time().start_paused(true).build(),
        Some(_) => builder.enable_all().build(),
    };
    let runtime = runtime.expect("this machine can wait for time and sockets");
    let mut attempt = runtime.block_on(run_on_cluster(case, steps, settings, mode));
    drop(runtime);
    let wall = stopwatch.now().duration_since(began);
    attempt.report.wall = Duration::try_from(wall).unwrap_or_default();
    attempt
}

async fn run_on_cluster(
    case: &Case,
    steps: &Collection<World>,
    settings: &RunSettings,
    mode: AssertionMode,
) -> CaseAttempt {
    let world = match &settings.real_cluster {
        None => {
            let gates =
                settings.feature_gates.with_enabled(required_feature_gates(case, &settings.target));
            World::new_emulated(case, &settings.target, settings.seed, gates).await
        }
        Some(real_cluster) => {
            let time_scale = settings.time_scale(case);
            World::new_on_real_cluster(
                case,
                real_cluster,
                &settings.target,
                settings.seed,
                time_scale,
            )
            .await
            .map(|mut world| {
                world.set_cluster_gates(&settings.feature_gates);
                world
            })
        }
    };
    let mut world = match world {
        Ok(world) => world,
        Err(error) => {
            let mut report = not_run_report(case);
            let message = format!("the cluster could not start: {error:#}");
            mark_report_failed(
                &mut report,
                FailureKind::NotStarted,
                case.location.line,
                message,
                settings,
            );
            return CaseAttempt { report, history: Vec::new(), crashes: 0 };
        }
    };
    let mut attempt = match mode {
        AssertionMode::Full => run_steps(&mut world, case, steps, settings).await,
        AssertionMode::InvariantsOnly { crash_before_write: dies_before } => {
            world.crash_before_write(dies_before);
            run_ignoring_assertions(&mut world, case, steps, settings).await
        }
    };
    attempt.crashes = world.scheduler_crash_count();
    for (kind, claim) in world.take_unjudged_claims() {
        attempt.report.add_unjudged_claim(kind, claim);
    }
    if let (Some(foreign_pods), Some(failure)) =
        (world.foreign_pods_message().await, &mut attempt.report.failure)
    {
        failure.message = format!("{}\n{foreign_pods}", failure.message);
    }
    let left = world.close().await;
    if !left.is_empty() && attempt.report.outcome == CaseOutcome::Passed {
        let message = format!("the scenario's objects could not be removed:\n{}", left.join("\n"));
        mark_report_failed(
            &mut attempt.report,
            FailureKind::Step,
            case.location.line,
            message,
            settings,
        );
    }
    attempt
}

async fn run_steps(
    world: &mut World,
    case: &Case,
    steps: &Collection<World>,
    settings: &RunSettings,
) -> CaseAttempt {
    let mut report = not_run_report(case);
    let mut broken = None;
    let mut step_revisions = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        if settings.interrupted.is_raised() {
            return CaseAttempt { report, history: Vec::new(), crashes: 0 };
        }
        broken = match run_step(world, step, steps, settings).await {
            StepOutcome::Passed => None,
            StepOutcome::Failed(broken) => Some(broken),
            StepOutcome::Interrupted => {
                return CaseAttempt { report, history: Vec::new(), crashes: 0 };
            }
        };
        if let Some(why) = world.unsupported_message() {
            let report = CaseReport {
                outcome: CaseOutcome::Skipped,
                skipped: Some(why),
                missing_capabilities: world
                    .unsupported()
                    .map(|unsupported| unsupported.capability.to_owned())
                    .into_iter()
                    .collect(),
                ..not_run_report(case)
            };
            return CaseAttempt { report, history: Vec::new(), crashes: 0 };
        }
        if settings.recorder.is_some() {
            step_revisions.push(last_revision(world));
        }
        report.steps[index].outcome =
            if broken.is_some() { CaseOutcome::Failed } else { CaseOutcome::Passed };
        if broken.is_some() {
            break;
        }
    }
    if broken.is_none() {
        let leftovers = async { Ok::<_, Interrupted>(world.end_of_case_failure().await) };
        let Ok(left) = settings.interrupted.run_unless_interrupted(leftovers).await else {
            return CaseAttempt { report, history: Vec::new(), crashes: 0 };
        };
        let line = case.location.line;
        broken = left.map(|message| StepFailure { kind: FailureKind::Step, line, message });
    }
    report.virtual_millis = world.elapsed_millis();
    let log = world.write_log();
    report.run_outcome = Some(run_outcome(&log));
    if let Some(recorder) = &settings.recorder {
        let (id, start) = (case.id(), world.start_time());
        recorder.record(CaseHistory { id, log, step_revisions, start });
    }
    match broken {
        Some(StepFailure { kind, line, message }) => {
            let reports = world.target_report_lines().await;
            let message = [vec![message], reports].concat().join("\n");
            mark_report_failed(&mut report, kind, line, message, settings);
        }
        None => compare_snapshot(case, world, steps, settings, &mut report),
    }
    let history = if settings.repeat.get() > 1 { world.history_lines() } else { Vec::new() };
    CaseAttempt { report, history, crashes: 0 }
}

/// The revision of the last write.
fn last_revision(world: &World) -> u64 {
    world.write_log().last().map_or(0, |entry| entry.revision)
}

/// Runs all steps of a case, ignores failed assertions, and then lets the cluster settle.
async fn run_ignoring_assertions(
    world: &mut World,
    case: &Case,
    steps: &Collection<World>,
    settings: &RunSettings,
) -> CaseAttempt {
    let mut report = not_run_report(case);
    report.outcome = CaseOutcome::Passed;
    let judged = |kind| matches!(kind, FailureKind::Audit | FailureKind::Panic);
    for step in &case.steps {
        match run_step(world, step, steps, settings).await {
            StepOutcome::Failed(StepFailure { kind, line, message }) if judged(kind) => {
                mark_report_failed(&mut report, kind, line, message, settings);
                break;
            }
            StepOutcome::Passed | StepOutcome::Failed(_) => {}
            StepOutcome::Interrupted => {
                report.outcome = CaseOutcome::NotRun;
                break;
            }
        }
    }
    if report.outcome == CaseOutcome::Passed {
        // The crash may have happened before the last write.
        let rested = world.run_for(SETTLE_MAX_AFTER_CRASH).await;
        let broken = world.first_audit_breach().map(|breach| (FailureKind::Audit, breach));
        let stuck = || rested.err().map(|error| (FailureKind::Timeout, format!("{error:#}")));
        if let Some((kind, message)) = broken.or_else(stuck) {
            mark_report_failed(&mut report, kind, case.location.line, message, settings);
        }
    }
    report.virtual_millis = world.elapsed_millis();
    CaseAttempt { report, history: Vec::new(), crashes: 0 }
}

/// The result of running one step.
enum StepOutcome {
    Passed,
    Failed(StepFailure),
    Interrupted,
}

/// Runs a step. If it fails, a rule that the scheduler broke meanwhile is reported first.
async fn run_step(
    world: &mut World,
    step: &Step,
    steps: &Collection<World>,
    settings: &RunSettings,
) -> StepOutcome {
    match run_step_alone(world, step, steps, settings).await {
        StepOutcome::Failed(failure) => {
            StepOutcome::Failed(failure_with_breach(failure, world.first_audit_breach()))
        }
        outcome @ (StepOutcome::Passed | StepOutcome::Interrupted) => outcome,
    }
}

/// A failure of a step during which an audit rule was broken tells the breach first, which is the
/// cause more often than not.
fn failure_with_breach(failure: StepFailure, breach: Option<String>) -> StepFailure {
    let is_mismatch = matches!(failure.kind, FailureKind::Step | FailureKind::Timeout);
    match breach.filter(|_| is_mismatch) {
        Some(breach) => {
            let message = format!("{breach}\nthe step failed, too: {}", failure.message);
            StepFailure { kind: FailureKind::Audit, message, ..failure }
        }
        None => failure,
    }
}

async fn run_step_alone(
    world: &mut World,
    step: &Step,
    steps: &Collection<World>,
    settings: &RunSettings,
) -> StepOutcome {
    let broken = |(kind, message)| {
        StepOutcome::Failed(StepFailure { kind, line: step.position.line, message })
    };
    let (function, _, _, context) =
        steps.find(step).ok().flatten().expect("every step was matched before the case ran");
    world.set_step_line(step.position.line);
    let here = world.step_location();
    let words = context.matches.iter().map(|(_, word)| word.clone()).collect::<Vec<_>>();
    let future = AssertUnwindSafe(function(world, context)).catch_unwind();
    let future =
        settings.interrupted.run_unless_interrupted(async { Ok::<_, Interrupted>(future.await) });
    let ended = tokio::time::timeout(settings.timeout, future).await;
    let panicked = panics::take_recorded_panics();
    match ended {
        Ok(Err(_)) => return StepOutcome::Interrupted,
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(payload))) => return broken(step_failure(&*payload, panicked, &here, &words)),
        Err(_) => {
            let found = world.last_mismatch().map(|found| format!("\nlast mismatch: {found}"));
            let message = format!(
                "the step exceeded {} s on the cluster's clock (--timeout){}\n{}",
                settings.timeout.as_secs_f64(),
                found.unwrap_or_default(),
                world.state_summary()
            );
            return broken((FailureKind::Timeout, message_with_panics(message, &panicked)));
        }
    }
    if !panicked.is_empty() {
        return broken((FailureKind::Panic, message_with_panics(String::new(), &panicked)));
    }
    if let Some(breach) = world.first_audit_breach() {
        return broken((FailureKind::Audit, breach));
    }
    if let Some(message) = world.scheduler_exit_error() {
        return broken((FailureKind::Panic, message));
    }
    let unknown_name =
        is_assertion(step, steps).then(|| unknown_name_message(world, &step.value)).flatten();
    unknown_name.map_or(StepOutcome::Passed, |message| broken((FailureKind::Step, message)))
}

/// Whether a step is an assertion.
fn is_assertion(step: &Step, steps: &Collection<World>) -> bool {
    let as_claim = || Step { ty: StepType::Then, ..step.clone() };
    match step.ty {
        StepType::Then => true,
        StepType::Given => matches!(steps.find(&as_claim()), Ok(Some(_))),
        StepType::When => false,
    }
}

/// The message of a failed step. For a panic outside the steps, the message has the panic's source
/// location. `words` are the values in the step's sentence.
fn step_failure(
    payload: &panics::PanicPayload,
    mut panicked: Vec<panics::RecordedPanic>,
    location: &str,
    words: &[String],
) -> (FailureKind, String) {
    let message = panics::payload_text(payload);
    let own = panicked.iter().position(|panic| panic.message == message);
    let own = own.map(|index| panicked.remove(index));
    let outside_steps =
        own.filter(|panic| !panic.location.contains("harness/conformance/src/steps"));
    let message = match (out_of_range_message(&message, words), outside_steps) {
        (Some(words), _) => format!("{location}: {words}"),
        (None, Some(panic)) => format!("panic at {}: {message}", panic.location),
        (None, None) => message,
    };
    (FailureKind::Step, message_with_panics(message, &panicked))
}

/// The message about a value in a step that its type cannot hold; `None` for other panics. Cucumber
/// reports such a value as a parse error of Rust.
fn out_of_range_message(message: &str, words: &[String]) -> Option<String> {
    let (name, rest) = message.split_once(" can not be parsed to ")?;
    let (_, error) = rest.split_once(": ")?;
    if let Ok(words) = serde_json::from_str::<String>(error) {
        return Some(format!("{name}: {words}"));
    }
    let (kind, _) = rest.split_once(": ParseIntError")?;
    let fits = |word: &&String| match kind {
        "i32" => word.parse::<i32>().is_ok(),
        _ => word.parse::<u32>().is_ok(),
    };
    let is_number = |word: &&String| word.trim_start_matches('-').parse::<f64>().is_ok();
    let found = words.iter().filter(is_number).find(|word| !fits(word))?;
    let (least, most) = match kind {
        "i32" => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (0, i64::from(u32::MAX)),
    };
    Some(format!("{name}: got {found}, expected a whole number from {least} to {most}"))
}

fn message_with_panics(mut message: String, panicked: &[panics::RecordedPanic]) -> String {
    for panic in panicked {
        if !message.is_empty() {
            message.push('\n');
        }
        let _ = write!(message, "a task panicked at {}: {}", panic.location, panic.message);
    }
    message
}

/// Compares the texts that the case's snapshot steps produced with the reviewed snapshot file.
fn compare_snapshot(
    case: &Case,
    world: &World,
    steps: &Collection<World>,
    settings: &RunSettings,
    report: &mut CaseReport,
) {
    report.outcome = CaseOutcome::Passed;
    let parts = world.snapshot_parts();
    if parts.is_empty() {
        return;
    }
    let text = parts.join("\n");
    let snapshot = SnapshotFile::of_case(case);
    let file = &case.location.file;
    let as_reviewed = settings.real_cluster.is_none()
        && settings.target.is_ours()
        && settings.seed == REVIEWED_SNAPSHOT_SEED;
    let compared = match settings.real_cluster {
        None if as_reviewed => {
            snapshots::compare_snapshot(&snapshot, file, &case.name, &text, settings.update)
        }
        // Another seed, another scheduler or real time gives pods other names and breaks ties
        // differently.
        None => snapshots::compare_canonical(&snapshot, &text, canonical_text),
        Some(_) if settings.target.reports_fair_shares() => {
            snapshots::compare_canonical(&snapshot, &text, canonical_text)
        }
        Some(_) => snapshots::compare_canonical(&snapshot, &text, canonical_text_without_shares),
    };
    let (outcome, message) = match compared {
        Ok(SnapshotComparison::Same | SnapshotComparison::Written) => return,
        Ok(SnapshotComparison::New(message)) => (CaseOutcome::Pending, message),
        Ok(SnapshotComparison::Differs(message)) => (CaseOutcome::Failed, message),
        Err(error) => (CaseOutcome::Failed, format!("{error:#}")),
    };
    // The canonical form has no parts to search for.
    let holds = |part: &String| as_reviewed && snapshots::snapshot_contains(&snapshot, part);
    let held: Vec<bool> = parts.iter().map(holds).collect();
    let showing = case.steps.iter().map(|step| is_snapshot_step(step, steps));
    let showing = showing.zip(&mut report.steps).filter(|(shows, _)| *shows).map(|(_, step)| step);
    let line = mark_snapshot_steps(showing.zip(held), outcome).unwrap_or(case.location.line);
    mark_report_failed(report, FailureKind::Snapshot, line, message, settings);
    report.outcome = outcome;
}

/// Sets the outcome of snapshot steps: those whose text is in the reviewed file passed. If only the
/// order or number of texts differs, the last snapshot step gets the outcome. Returns the line of
/// the first step that failed.
fn mark_snapshot_steps<'r>(
    showing: impl Iterator<Item = (&'r mut StepReport, bool)>,
    outcome: CaseOutcome,
) -> Option<usize> {
    let (held, mut broken): (Vec<_>, Vec<_>) = showing.partition(|(_, held)| *held);
    if broken.is_empty() {
        broken.extend(held.into_iter().next_back());
    }
    for (step, _) in &mut broken {
        step.outcome = outcome;
    }
    broken.first().map(|(step, _)| step.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breach_during_a_step_that_fails_is_told_first() {
        let failure = |kind, message: &str| StepFailure { kind, line: 7, message: message.into() };
        let of = |kind| {
            let told = failure_with_breach(failure(kind, "got 1"), Some("rule 1".to_owned()));
            (told.kind, told.line, told.message)
        };
        let both = "rule 1\nthe step failed, too: got 1".to_owned();
        assert_eq!(of(FailureKind::Step), (FailureKind::Audit, 7, both.clone()));
        assert_eq!(of(FailureKind::Timeout), (FailureKind::Audit, 7, both));
        assert_eq!(of(FailureKind::Panic), (FailureKind::Panic, 7, "got 1".to_owned()));
        let alone = failure_with_breach(failure(FailureKind::Step, "got 1"), None);
        assert_eq!((alone.kind, alone.message.as_str()), (FailureKind::Step, "got 1"));
    }
}
