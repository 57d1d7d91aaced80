//! Runs cases in parallel, each on its own thread, runtime and (on the emulator) paused clock.
//! Results are in the order of the cases, whatever the scheduling of threads.

mod attempt;
mod crashes;
pub mod live;
mod panics;
mod recorder;
mod workers;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cucumber::step::Collection;
use gherkin::{Step, StepType};

use crate::compare::Baseline;
use crate::features::{Case, VIRTUAL_TIME_TAG, WEBHOOKS_TAG};
use crate::report::{CaseOutcome, CaseReport, ClaimKind, Failure, FailureKind, StepReport};
use crate::schedulers::{Target, dialect_of};
use crate::snapshots::SnapshotUpdate;
use crate::steps::catalogue::{self, OtherClaim};
use crate::steps::other_claim;
use crate::world::{TimeScale, World, required_feature_gates};
use schedlab_clusters::interrupt::Interrupt;
use schedlab_clusters::real_cluster::RealCluster;
use schedlab_emulator::feature_gates::{self, FeatureGates};

pub use crashes::CrashWrites;
pub use recorder::{CaseHistory, HistoryRecorder};
pub use workers::RunProgress;

/// Seed of the runs whose snapshots are reviewed byte for byte.
pub(crate) const REVIEWED_SNAPSHOT_SEED: u64 = 1;

/// A case that waits longer than this in real time for timers of the scheduler is skipped for a
/// scheduler whose own durations cannot be scaled.
const REAL_WAIT_MAX: Duration = Duration::from_secs(90);

/// Verdict of a flaky scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FlakyOutcome {
    /// Passed, and reported as flaky.
    Pass,
    /// Failed, in every report (exit code 5).
    Fail,
}

/// The settings for a run of features.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Number of cases run in parallel.
    pub jobs: NonZeroUsize,
    /// Seed of every random choice.
    pub seed: u64,
    /// Maximum time, on the cluster's clock, that one step may take.
    pub timeout: Duration,
    /// How often a failed case is retried.
    pub retries: u32,
    /// The verdict on a case that passes only on a retry.
    pub flaky_result: FlakyOutcome,
    /// How often each case is run. In virtual time the runs must not differ.
    pub repeat: NonZeroUsize,
    /// Where the scheduler is killed when each passed case is run again; `None` means no such runs.
    pub crashes: Option<CrashWrites>,
    /// Whether cases start in an order derived from the seed.
    pub shuffle: bool,
    /// The number of failures after which no case is started; `None` means that all are. Failures
    /// in quarantine do not count.
    pub max_fail: Option<NonZeroUsize>,
    /// Why cases are in quarantine, by the id of the case.
    pub quarantine: Arc<BTreeMap<String, String>>,
    /// What to do with snapshots that are new or differ.
    pub update: SnapshotUpdate,
    /// The flag that Ctrl-C raises; no case is started after that.
    pub interrupted: Interrupt,
    /// The real cluster; `None` means the emulator.
    pub real_cluster: Option<Arc<RealCluster>>,
    /// The version of Kubernetes and its feature gates. The emulator also enables those that a case
    /// requires.
    pub feature_gates: FeatureGates,
    /// Factor for durations on a real cluster; `None` means a factor chosen for each case.
    pub time_scale: Option<f64>,
    /// Minimum time that `eventually` assertions wait on a real cluster.
    pub min_wait: Duration,
    /// The scheduler under test.
    pub target: Target,
    /// Whether cases whose requirements are not met are run, too.
    pub force: bool,
    /// Command line options that reproduce a failed case, except path and seed.
    pub reproduce_options: String,
    /// The earlier run whose outcomes a passed case must repeat.
    pub baseline: Option<Arc<Baseline>>,
    /// What receives the history of each case.
    pub recorder: Option<HistoryRecorder>,
}

impl RunSettings {
    /// Settings that run each case once on the emulator, one after the other.
    pub fn for_one_run(target: Target) -> Self {
        Self {
            jobs: NonZeroUsize::MIN,
            seed: REVIEWED_SNAPSHOT_SEED,
            timeout: Duration::from_hours(1),
            retries: 0,
            repeat: NonZeroUsize::MIN,
            crashes: None,
            shuffle: false,
            flaky_result: FlakyOutcome::Pass,
            max_fail: None,
            quarantine: Arc::default(),
            update: SnapshotUpdate::No,
            interrupted: Interrupt::default(),
            real_cluster: None,
            feature_gates: FeatureGates::default(),
            time_scale: None,
            min_wait: Duration::from_mins(2),
            target,
            force: false,
            reproduce_options: String::new(),
            baseline: None,
            recorder: None,
        }
    }

    /// The report on a case that cannot run with these settings; `None` if it can.
    fn skipped_report(&self, case: &Case, steps: &Collection<World>) -> Option<CaseReport> {
        if self.force {
            return None;
        }
        let lacks = self.target.missing_capabilities(&case.required_capabilities());
        let (why, lacks) = match (self.skip_reason(case, steps), lacks.as_slice()) {
            (Some(why), _) => (why, Vec::new()),
            (None, []) => return None,
            (None, names) => (self.target.missing_capabilities_text(names), lacks),
        };
        Some(CaseReport {
            outcome: CaseOutcome::Skipped,
            skipped: Some(why),
            missing_capabilities: lacks.into_iter().map(str::to_owned).collect(),
            ..not_run_report(case)
        })
    }

    /// Why a case cannot run with these settings, capabilities aside; `None` if it can.
    fn skip_reason(&self, case: &Case, steps: &Collection<World>) -> Option<String> {
        if let Some(why) =
            self.older_kubernetes_version(case).or_else(|| self.missing_feature_gate(case))
        {
            return Some(why);
        }
        let is_tagged = |tag_name: &str| case.tags.iter().any(|tag| tag == tag_name);
        if self.real_cluster.is_some() && is_tagged(VIRTUAL_TIME_TAG) {
            return Some("the scenario needs virtual time (@virtual-time)".to_owned());
        }
        if self.real_cluster.is_some() && is_tagged(WEBHOOKS_TAG) && !self.target.is_on_cluster() {
            let why = "the scenario needs the webhooks of an installed scheduler (@webhooks)";
            return Some(why.to_owned());
        }
        if let Some(kwok) = self.real_cluster.as_ref().and_then(|ground| ground.kwok_behavior()) {
            if kwok.completes_jobs && case.creates_jobs() {
                return Some("kwok finishes pods of Jobs as soon as they run".to_owned());
            }
            if case.depends_on_pod_timing() {
                return Some("kwok starts and terminates pods with its own timing".to_owned());
            }
            if case.changes_gpu_health() {
                return Some("kwok's nodes report no unhealthy GPUs".to_owned());
            }
        }
        let name = &self.target.name;
        if case.stops_the_scheduler() && !self.target.can_be_stopped() {
            return Some(format!(
                "the scenario stops or kills the scheduler, and schedlab did not start {name}"
            ));
        }
        let longest = case.longest_wait();
        if self.target.own_times().is_some()
            && longest > REAL_WAIT_MAX
            && case.concerns_scheduler_timers()
        {
            let secs = longest.as_secs();
            return Some(format!(
                "the scenario waits for {secs} s for timers of the scheduler, and those of {name} \
                 cannot be scaled"
            ));
        }
        self.has_only_unjudged_claims(case, steps).then(|| {
            format!("all that the scenario claims is words or snapshots, and {name} has others")
        })
    }

    /// Whether no assertion of a case is judged for this target, because all are about words that it
    /// does not use or snapshots that it need not match.
    fn has_only_unjudged_claims(&self, case: &Case, steps: &Collection<World>) -> bool {
        let is_kube = case.uses_kube_profile();
        let is_judged = |step: &Step| match other_claim(step, steps) {
            None | Some(OtherClaim { behaviour: Some(_), .. }) => true,
            Some(OtherClaim { kind: ClaimKind::Snapshot, .. }) => self.target.matches_snapshots(),
            Some(OtherClaim { kind: ClaimKind::Wording, .. }) => {
                self.target.uses_words_of(dialect_of(&step.value, is_kube))
            }
        };
        let mut claims = case.steps.iter().filter(|step| step.ty == StepType::Then).peekable();
        claims.peek().is_some() && !claims.any(is_judged)
    }

    /// Which newer version of Kubernetes a case needs, if so.
    fn older_kubernetes_version(&self, case: &Case) -> Option<String> {
        let version = self.feature_gates.version();
        let needed = case.min_kubernetes_version().filter(|needed| version < *needed)?;
        Some(format!("it needs Kubernetes {needed} or later, and the cluster has {version}"))
    }

    /// Why a case's feature gates cannot be enabled, if so.
    fn missing_feature_gate(&self, case: &Case) -> Option<String> {
        let version = self.feature_gates.version();
        required_feature_gates(case, &self.target).into_iter().find_map(|gate| {
            if !feature_gates::known(version).contains_key(gate) {
                let why =
                    format!("it needs the feature gate {gate}, which Kubernetes {version} lacks");
                return Some(why);
            }
            let is_off = self.real_cluster.is_some() && !self.feature_gates.is_enabled(gate);
            is_off
                .then(|| format!("it needs the feature gate {gate} (--feature-gates {gate}=true)"))
        })
    }

    /// How the durations of a case are scaled.
    fn time_scale(&self, case: &Case) -> TimeScale {
        if self.real_cluster.is_none() {
            return TimeScale::default();
        }
        let Some(times) = self.target.own_times() else {
            let factor = self.time_scale.unwrap_or_else(|| case.real_time_factor());
            return TimeScale::for_real_time(factor, self.min_wait);
        };
        let own = || if case.concerns_scheduler_timers() { 1.0 } else { case.real_time_factor() };
        let min_wait = self.min_wait.min(times.patience());
        TimeScale::for_real_time(self.time_scale.unwrap_or_else(own), min_wait)
            .with_least(times.two_attempts())
            .with_most(3 * times.patience())
    }
}

/// Runs the cases and reports the progress. The returned reports are in the order of `cases`.
pub fn run(
    cases: &[&Case],
    settings: &RunSettings,
    progress: &mut dyn FnMut(RunProgress<'_>),
) -> Vec<CaseReport> {
    panics::install_panic_hook();
    let steps = catalogue::step_collection();
    workers::run(
        cases,
        settings,
        &|case| run_case_with_flaky_result(case, &steps, settings),
        progress,
    )
}

/// The scenario that shows that a scheduler starts and places a pod.
const TRIAL: &str = "Feature: trial
  Scenario: A pod runs
    Given a fleet of 1 node with 1 GPU each
    And a queue \"trial\" with a quota of 1
    When 1 pod \"trial\" with 1 GPU each is submitted to queue \"trial\"
    Then eventually within 1 minute queue \"trial\" has 1 running pod
";

/// Runs a scenario with one pod. Returns why the pod did not run, `None` if it did.
pub fn trial_failure(settings: &RunSettings) -> Option<String> {
    let cases = crate::features::load_text("trial.feature", TRIAL, catalogue::is_step)
        .expect("the trial is a feature");
    let settings = RunSettings { force: true, baseline: None, recorder: None, ..settings.clone() };
    panics::install_panic_hook();
    let steps = catalogue::step_collection();
    let report = attempt::run_attempt(&cases[0], &steps, &settings).report;
    report.failure.map(|failure| failure.message)
}

/// Runs a case, and treats a flaky one as the setting `flaky_result` says.
fn run_case_with_flaky_result(
    case: &Case,
    steps: &Collection<World>,
    settings: &RunSettings,
) -> CaseReport {
    let mut report = run_with_retries(case, steps, settings);
    if settings.flaky_result == FlakyOutcome::Fail && report.flaky {
        report.outcome = CaseOutcome::Failed;
    }
    report.quarantined = settings.quarantine.get(&report.id).cloned();
    report
}

/// Runs a case with retries, crashes and repetitions as the settings require.
fn run_with_retries(case: &Case, steps: &Collection<World>, settings: &RunSettings) -> CaseReport {
    if let Some(unmatched) = unmatched_step_report(case, steps, settings) {
        return unmatched;
    }
    if let Some(skipped) = settings.skipped_report(case, steps) {
        return skipped;
    }
    let mut first = run_and_compare_with_baseline(case, steps, settings);
    for _ in 0..settings.retries {
        if first.report.outcome != CaseOutcome::Failed {
            break;
        }
        let failure = first.report.failure.take();
        first = run_and_compare_with_baseline(case, steps, settings);
        if first.report.outcome == CaseOutcome::Passed {
            first.report.flaky = true;
            first.report.failure = failure;
        }
    }
    if let (Some(crashes), CaseOutcome::Passed) = (settings.crashes, first.report.outcome) {
        let attempt::CaseAttempt { report, crashes: own_crashes, .. } = first;
        return crashes::run_with_crashes(report, case, own_crashes, steps, settings, crashes);
    }
    if settings.real_cluster.is_some() {
        return repeat_until_failure(first.report, settings.repeat.get(), || {
            run_and_compare_with_baseline(case, steps, settings).report
        });
    }
    for run in 2..=settings.repeat.get() {
        let repetition = attempt::run_attempt(case, steps, settings);
        first.report.wall += repetition.report.wall;
        if repetition.report.outcome == CaseOutcome::NotRun {
            return repetition.report;
        }
        if let Some(message) = baseline_difference(&first, &repetition, run) {
            let line = case.location.line;
            mark_report_failed(
                &mut first.report,
                FailureKind::Nondeterministic,
                line,
                message,
                settings,
            );
            break;
        }
    }
    first.report
}

/// Repeats a case in real time, where runs are never identical but each must pass. The first
/// failure is the verdict and says in which run it happened.
fn repeat_until_failure(
    mut report: CaseReport,
    runs: usize,
    mut run_again: impl FnMut() -> CaseReport,
) -> CaseReport {
    for run in 2..=runs {
        if report.outcome != CaseOutcome::Passed {
            break;
        }
        let (wall, flaky) = (report.wall, report.flaky);
        report = run_again();
        report.wall += wall;
        report.flaky |= flaky && report.outcome == CaseOutcome::Passed;
        if let Some(failure) = &mut report.failure {
            failure.message = format!("run {run} of {runs}: {}", failure.message);
        }
    }
    report
}

/// Runs a case once and compares its outcome with that of the baseline run.
fn run_and_compare_with_baseline(
    case: &Case,
    steps: &Collection<World>,
    settings: &RunSettings,
) -> attempt::CaseAttempt {
    let mut attempt = attempt::run_attempt(case, steps, settings);
    if let Some(baseline) = &settings.baseline
        && attempt.report.outcome == CaseOutcome::Passed
        && let Some(unlike) = baseline.difference_from_baseline(&attempt.report)
    {
        let line = case.location.line;
        mark_report_failed(&mut attempt.report, FailureKind::Different, line, unlike, settings);
    }
    attempt
}

fn baseline_difference(
    first: &attempt::CaseAttempt,
    repetition: &attempt::CaseAttempt,
    run: usize,
) -> Option<String> {
    let (a, b) = (&first.report, &repetition.report);
    if (a.outcome, &a.steps, a.virtual_millis, &a.failure)
        != (b.outcome, &b.steps, b.virtual_millis, &b.failure)
    {
        return Some(format!("run {run} has another verdict than run 1"));
    }
    let lines = first.history.iter().zip(&repetition.history).enumerate();
    let unequal = lines.filter(|(_, (a, b))| a != b).map(|(n, (a, b))| (n, a.clone(), b.clone()));
    let shorter = first.history.len().min(repetition.history.len());
    let rest = (first.history.len() != repetition.history.len())
        .then(|| (shorter, "end of the run".to_owned(), "further writes".to_owned()));
    unequal.chain(rest).next().map(|(index, a, b)| {
        format!("run {run} differs from run 1 at write {}:\n- {a}\n+ {b}", index + 1)
    })
}

/// The report on a case with an undefined or ambiguous step; `None` if all steps match.
fn unmatched_step_report(
    case: &Case,
    steps: &Collection<World>,
    settings: &RunSettings,
) -> Option<CaseReport> {
    let (step, (kind, message)) = case
        .steps
        .iter()
        .find_map(|step| step_mismatch_message(step, steps).map(|found| (step, found)))?;
    let mut report = not_run_report(case);
    for known in &mut report.steps {
        if known.line == step.position.line {
            known.outcome = CaseOutcome::Failed;
        }
    }
    mark_report_failed(&mut report, kind, step.position.line, message, settings);
    Some(report)
}

/// Why a step cannot run, with the kind of failure; `None` if it can.
pub fn step_mismatch_message(
    step: &Step,
    steps: &Collection<World>,
) -> Option<(FailureKind, String)> {
    match steps.find(step) {
        Ok(Some(_)) => {
            unused_argument_message(step).map(|message| (FailureKind::UndefinedStep, message))
        }
        Ok(None) => Some((FailureKind::UndefinedStep, catalogue::undefined_step_message(step))),
        Err(error) => {
            Some((FailureKind::AmbiguousStep, catalogue::ambiguous_step_message(step, &error)))
        }
    }
}

/// The message about a table or doc string below a step that takes none. Steps that take one end
/// with a colon.
fn unused_argument_message(step: &Step) -> Option<String> {
    let found = match (&step.table, &step.docstring) {
        (Some(_), _) => "a table",
        (None, Some(_)) => "a doc string",
        (None, None) => return None,
    };
    (!step.value.ends_with(':')).then(|| {
        format!(
            "got {found} below `{}`, which takes none: steps that take one end with a colon",
            step.value
        )
    })
}

/// The table or doc string below a step, line by line.
fn argument_lines(step: &Step) -> Vec<String> {
    let row = |row: &Vec<String>| format!("| {} |", row.join(" | "));
    let rows = step.table.iter().flat_map(|table| table.rows.iter().map(row));
    rows.chain(step.docstring.iter().flat_map(|text| text.lines().map(str::to_owned))).collect()
}

/// The report on a case that has not run.
fn not_run_report(case: &Case) -> CaseReport {
    let step = |step: &Step| StepReport {
        keyword: step.keyword.trim().to_owned(),
        text: step.value.clone(),
        below: argument_lines(step),
        line: step.position.line,
        outcome: CaseOutcome::NotRun,
    };
    CaseReport {
        id: case.id(),
        file: case.location.file.clone(),
        line: case.location.line,
        feature: case.feature.clone(),
        rule: case.rule.clone(),
        name: case.name.clone(),
        tags: case.tags.clone(),
        outcome: CaseOutcome::NotRun,
        skipped: None,
        missing_capabilities: Vec::new(),
        wording_not_judged: Vec::new(),
        snapshots_not_judged: Vec::new(),
        flaky: false,
        quarantined: None,
        crashes: 0,
        virtual_millis: 0,
        steps: case.steps.iter().map(step).collect(),
        failure: None,
        run_outcome: None,
        wall: Duration::ZERO,
    }
}

/// Marks a case as failed, and adds the command that reproduces the failure.
fn mark_report_failed(
    report: &mut CaseReport,
    kind: FailureKind,
    line: usize,
    message: String,
    settings: &RunSettings,
) {
    let RunSettings { seed, reproduce_options: again, .. } = settings;
    let location = crate::text::shell_quoted_word(&format!("{}:{}", report.file, report.line));
    let reproduce = format!("schedlab run {location} --seed {seed}{again}");
    report.outcome = CaseOutcome::Failed;
    report.flaky = false;
    report.failure = Some(Failure { kind, line, message, reproduce });
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use cucumber::codegen::Regex;
    use insta::assert_snapshot;

    use super::*;
    use crate::features::load_text;

    pub(in crate::runner) fn settings() -> RunSettings {
        RunSettings::for_one_run(Target::ours())
    }

    pub(crate) fn regex(text: &str) -> Regex {
        Regex::new(text).unwrap()
    }

    /// The report on a scenario with these steps.
    pub(crate) fn verdict(lines: &str, steps: &Collection<World>) -> CaseReport {
        panics::install_panic_hook();
        let text = format!("Feature: f\n  Scenario: s\n{lines}\n");
        run_case_with_flaky_result(
            &load_text("f.feature", &text, catalogue::is_step).unwrap()[0],
            steps,
            &settings(),
        )
    }

    /// Two overlapping steps, and one that never ends.
    fn steps() -> Collection<World> {
        Collection::new()
            .given(None, regex("^a task panics$"), |_, _| Box::pin(async {}))
            .given(None, regex("^nothing ends$"), |_, _| Box::pin(std::future::pending()))
            .given(None, regex("^an? .*$"), |_, _| Box::pin(async {}))
    }

    async fn lose_a_task() {
        let lost = tokio::spawn(async { panic!("nobody looks") });
        assert!(lost.await.is_err());
    }

    fn run_step_once(step: &str, settings: &RunSettings) -> CaseReport {
        let text = format!("Feature: f\n  Scenario: s\n    Given {step}\n");
        panics::install_panic_hook();
        run_case_with_flaky_result(
            &load_text("f.feature", &text, catalogue::is_step).unwrap()[0],
            &steps(),
            settings,
        )
    }

    fn message(report: &CaseReport) -> String {
        report.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default()
    }

    #[test]
    fn a_step_that_two_patterns_match_fails_before_anything_runs() {
        let report = run_step_once("a task panics", &settings());
        let kind = report.failure.as_ref().map(|failure| failure.kind);
        assert_eq!(kind, Some(FailureKind::AmbiguousStep));
        assert_snapshot!(message(&report), @r"
        several steps match `Given a task panics`
        matches: Given a task panics
        matches: Given an? .*
        expected exactly one match: change one of the patterns (harness/conformance/src/steps)
        ");
    }

    #[test]
    fn an_unobserved_task_panic_fails_the_case() {
        let text = "Feature: f\n  Scenario: s\n    Given a task panics\n";
        let steps =
            Collection::new().given(None, regex("^a task panics$"), |_, _| Box::pin(lose_a_task()));
        panics::install_panic_hook();
        let report = run_case_with_flaky_result(
            &load_text("f.feature", text, catalogue::is_step).unwrap()[0],
            &steps,
            &settings(),
        );
        assert_eq!(report.outcome, CaseOutcome::Failed);
        assert!(message(&report).contains("a task panicked at"), "{}", message(&report));
        assert!(message(&report).contains("nobody looks"), "{}", message(&report));
    }

    #[test]
    fn a_step_that_never_ends_times_out_in_virtual_time() {
        let report = run_step_once("nothing ends", &settings());
        assert_eq!(report.failure.as_ref().map(|f| f.kind), Some(FailureKind::Timeout));
        assert_eq!(report.virtual_millis, 3_600_000);
    }

    #[test]
    fn after_an_interrupt_no_case_gets_a_verdict() {
        let settings = settings();
        settings.interrupted.raise();
        let report = run_step_once("nothing ends", &settings);
        assert_eq!((report.outcome, report.failure), (CaseOutcome::NotRun, None));
    }

    #[test]
    fn a_failure_that_goes_away_is_flaky_and_remembered() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let steps = Collection::new().given(None, regex("^luck$"), |_, _| {
            Box::pin(async { assert!(RUNS.fetch_add(1, Ordering::Relaxed) > 0, "bad luck") })
        });
        panics::install_panic_hook();
        let text = "Feature: f\n  Scenario: s\n    Given luck\n";
        let case = &load_text("f.feature", text, catalogue::is_step).unwrap()[0];
        let judged = |flaky_result| {
            RUNS.store(0, Ordering::Relaxed);
            run_case_with_flaky_result(
                case,
                &steps,
                &RunSettings { retries: 1, flaky_result, ..settings() },
            )
        };
        let report = judged(FlakyOutcome::Pass);
        assert_eq!((report.outcome, report.flaky), (CaseOutcome::Passed, true));
        assert!(message(&report).contains("bad luck"), "{}", message(&report));
        let report = judged(FlakyOutcome::Fail);
        assert_eq!(
            (report.outcome, report.flaky),
            (CaseOutcome::Failed, true),
            "counted as failure"
        );
        assert!(message(&report).contains("bad luck"), "{}", message(&report));
    }

    #[test]
    fn in_real_time_repetitions_end_at_the_first_failure() {
        let case = &load_text(
            "f.feature",
            "Feature: f\n  Scenario: s\n    Given a clock\n",
            catalogue::is_step,
        )
        .unwrap()[0];
        let passed = || CaseReport { outcome: CaseOutcome::Passed, ..not_run_report(case) };
        let mut runs = 1;
        let report = repeat_until_failure(passed(), 4, || {
            runs += 1;
            let mut report = passed();
            if runs == 3 {
                mark_report_failed(
                    &mut report,
                    FailureKind::Step,
                    1,
                    "too few".to_owned(),
                    &settings(),
                );
            }
            report
        });
        assert_eq!((report.outcome, runs), (CaseOutcome::Failed, 3));
        assert!(message(&report).contains("run 3 of 4: too few"), "{}", message(&report));
        assert_eq!(repeat_until_failure(passed(), 4, passed).outcome, CaseOutcome::Passed);
    }

    #[test]
    fn two_runs_that_differ_fail_the_case() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let steps = Collection::new().given(None, regex("^a clock$"), |_, _| {
            let time = Duration::from_secs(RUNS.fetch_add(1, Ordering::Relaxed));
            Box::pin(tokio::time::sleep(time))
        });
        let text = "Feature: f\n  Scenario: s\n    Given a clock\n";
        let case = &load_text("f.feature", text, catalogue::is_step).unwrap()[0];
        let twice = NonZeroUsize::new(2).unwrap();
        let report =
            run_case_with_flaky_result(case, &steps, &RunSettings { repeat: twice, ..settings() });
        assert_eq!(report.failure.map(|f| f.kind), Some(FailureKind::Nondeterministic));
    }
}
