//! Runs cases: each on a thread, a runtime and a paused clock of its own, many at a time.
//! Results come in the order of the cases, whatever the threads do.

mod attempt;
mod crashes;
mod panics;
mod pool;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cucumber::step::Collection;

use crate::cli::FlakyResult;
use crate::diff::Reference;
use crate::features::{Case, VIRTUAL_TIME, WEBHOOKS};
use crate::ground::Ground;
use crate::interrupt::Interrupt;
use crate::report::{CaseReport, Failure, FailureKind, Outcome, StepReport};
use crate::reviewed::Update;
use crate::target::Target;
use crate::vocabulary;
use crate::world::{Pace, World};

pub use crashes::Crashes;
pub use pool::Progress;

/// The seed of the runs whose snapshots are reviewed.
pub const REVIEWED_SEED: u64 = 1;

/// What waits for longer is not run against a scheduler whose own times stay what they are.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// How cases run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Cases at a time.
    pub jobs: NonZeroUsize,
    /// Seed of every random choice.
    pub seed: u64,
    /// Virtual time that one step may take.
    pub timeout: Duration,
    /// Further tries of a failed case.
    pub retries: u32,
    /// What a case counts as that passes only on a retry.
    pub flaky_result: FlakyResult,
    /// Runs of each case, which must not differ.
    pub repeat: NonZeroUsize,
    /// Also play each case with a scheduler that dies.
    pub crashes: Option<Crashes>,
    /// Run in an order that the seed decides.
    pub shuffle: bool,
    /// Start no case after the first failure.
    pub fail_fast: bool,
    /// What to do with snapshots that differ.
    pub update: Update,
    /// Ctrl-C sets it.
    pub interrupted: Interrupt,
    /// The real cluster in which they run; the emulator when there is none.
    pub ground: Option<Arc<Ground>>,
    /// What durations are multiplied with on a real cluster; by what they are when not said.
    pub time_scale: Option<f64>,
    /// How long what shall happen is waited for at least on a real cluster.
    pub patience: Duration,
    /// The scheduler that is tested.
    pub target: Target,
    /// Run also what cannot be expected to pass.
    pub force: bool,
    /// The options that a verdict depends on, to run a failed case again.
    pub again: String,
    /// The earlier run that a passed case must be like.
    pub like: Option<Arc<Reference>>,
}

impl Settings {
    /// Why a case cannot run here, if so.
    fn unfit(&self, case: &Case) -> Option<String> {
        if self.force {
            return None;
        }
        let is_tagged = |wanted: &str| case.tags.iter().any(|tag| tag == wanted);
        if self.ground.is_some() && is_tagged(VIRTUAL_TIME) {
            return Some("it needs virtual time (@virtual-time)".to_owned());
        }
        if self.ground.is_some() && is_tagged(WEBHOOKS) && !self.target.is_on_cluster() {
            let why = "its API server finds webhooks of a scheduler that is installed (@webhooks)";
            return Some(why.to_owned());
        }
        if let Some(kwok) = self.ground.as_ref().and_then(|ground| ground.kwok()) {
            if kwok.ends_jobs && case.makes_jobs() {
                return Some("kwok ends pods of Jobs as soon as they run".to_owned());
            }
            if case.times_pods() {
                return Some("kwok starts and stops pods in its own time".to_owned());
            }
        }
        let name = &self.target.name;
        let longest = case.longest_wait();
        if !self.target.keeps_pace() && longest > WAIT_MAX {
            let secs = longest.as_secs();
            return Some(format!("it waits for {secs} s, and {name} cannot be made faster"));
        }
        let lacks = self.target.lacks(&case.capabilities());
        (!lacks.is_empty()).then(|| format!("{name} lacks {}", lacks.join(", ")))
    }

    /// How long a case's durations are.
    fn pace(&self, case: &Case) -> Pace {
        if self.ground.is_none() {
            return Pace::default();
        }
        let own = || if self.target.keeps_pace() { case.time_factor() } else { 1.0 };
        Pace::real(self.time_scale.unwrap_or_else(own), self.patience)
    }
}

/// Runs the cases and tells how they go on. Reports come in the order of `cases`.
pub fn run(
    cases: &[&Case],
    settings: &Settings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Vec<CaseReport> {
    panics::keep_silent();
    let steps = vocabulary::collection();
    pool::run(cases, settings, &|case| judge(case, &steps, settings), progress)
}

/// The verdict on a case.
fn judge(case: &Case, steps: &Collection<World>, settings: &Settings) -> CaseReport {
    let mut report = played(case, steps, settings);
    if settings.flaky_result == FlakyResult::Fail && report.flaky {
        report.outcome = Outcome::Failed;
    }
    report
}

/// Runs one case as often as the settings ask.
fn played(case: &Case, steps: &Collection<World>, settings: &Settings) -> CaseReport {
    if let Some(unmatched) = unmatched(case, steps, settings) {
        return unmatched;
    }
    if let Some(why) = settings.unfit(case) {
        return CaseReport { outcome: Outcome::Skipped, skipped: Some(why), ..blank(case) };
    }
    let mut first = held(case, steps, settings);
    for _ in 0..settings.retries {
        if first.report.outcome != Outcome::Failed {
            break;
        }
        let failure = first.report.failure.take();
        first = held(case, steps, settings);
        if first.report.outcome == Outcome::Passed {
            first.report.flaky = true;
            first.report.failure = failure;
        }
    }
    if let (Some(crashes), Outcome::Passed) = (settings.crashes, first.report.outcome) {
        let case = (case, first.deaths);
        return crashes::survive(first.report, case, steps, settings, crashes);
    }
    if settings.ground.is_some() {
        return each_passes(first.report, settings.repeat.get(), || {
            held(case, steps, settings).report
        });
    }
    for run in 2..=settings.repeat.get() {
        let again = attempt::attempt(case, steps, settings);
        first.report.wall += again.report.wall;
        if again.report.outcome == Outcome::NotRun {
            return again.report;
        }
        if let Some(message) = difference(&first, &again, run) {
            let line = case.place.line;
            fail(&mut first.report, FailureKind::Nondeterministic, line, message, settings);
            break;
        }
    }
    first.report
}

/// Repeats a case whose time is real: no two of its runs are equal, but each must pass. The first
/// that does not is the verdict, and says which run it was.
fn each_passes(
    mut report: CaseReport,
    runs: usize,
    mut again: impl FnMut() -> CaseReport,
) -> CaseReport {
    for run in 2..=runs {
        if report.outcome != Outcome::Passed {
            break;
        }
        let (wall, flaky) = (report.wall, report.flaky);
        report = again();
        report.wall += wall;
        report.flaky |= flaky && report.outcome == Outcome::Passed;
        if let Some(failure) = &mut report.failure {
            failure.message = format!("run {run} of {runs}: {}", failure.message);
        }
    }
    report
}

/// Runs a case once and holds what it shows against an earlier run.
fn held(case: &Case, steps: &Collection<World>, settings: &Settings) -> attempt::Attempt {
    let mut attempt = attempt::attempt(case, steps, settings);
    if let Some(like) = &settings.like
        && attempt.report.outcome == Outcome::Passed
        && let Some(unlike) = like.unlike(&attempt.report)
    {
        let line = case.place.line;
        fail(&mut attempt.report, FailureKind::Different, line, unlike, settings);
    }
    attempt
}

fn difference(first: &attempt::Attempt, again: &attempt::Attempt, run: usize) -> Option<String> {
    let (a, b) = (&first.report, &again.report);
    if (a.outcome, &a.steps, a.virtual_millis, &a.failure)
        != (b.outcome, &b.steps, b.virtual_millis, &b.failure)
    {
        return Some(format!("run {run} does not come to the same verdict as run 1"));
    }
    let lines = first.history.iter().zip(&again.history).enumerate();
    let unequal = lines.filter(|(_, (a, b))| a != b).map(|(n, (a, b))| (n, a.clone(), b.clone()));
    let shorter = first.history.len().min(again.history.len());
    let rest = (first.history.len() != again.history.len())
        .then(|| (shorter, "an end".to_owned(), "more".to_owned()));
    unequal.chain(rest).next().map(|(index, a, b)| {
        format!("run {run} differs from run 1 at write {}:\n- {a}\n+ {b}", index + 1)
    })
}

/// The verdict on a case of which a step is undefined or ambiguous: it does not run.
fn unmatched(case: &Case, steps: &Collection<World>, settings: &Settings) -> Option<CaseReport> {
    let (step, (kind, message)) =
        case.steps.iter().find_map(|step| mismatch(step, steps).map(|found| (step, found)))?;
    let mut report = blank(case);
    for known in &mut report.steps {
        if known.line == step.position.line {
            known.outcome = Outcome::Failed;
        }
    }
    fail(&mut report, kind, step.position.line, message, settings);
    Some(report)
}

/// Why a step cannot be run, if so.
pub fn mismatch(step: &gherkin::Step, steps: &Collection<World>) -> Option<(FailureKind, String)> {
    match steps.find(step) {
        Ok(Some(_)) => stray(step).map(|message| (FailureKind::UndefinedStep, message)),
        Ok(None) => Some((FailureKind::UndefinedStep, vocabulary::undefined(step))),
        Err(error) => Some((FailureKind::AmbiguousStep, vocabulary::ambiguous(step, &error))),
    }
}

/// What stands below a step that reads nothing there: it would be lost. Steps that read a table or
/// a text end with a colon, all of them.
fn stray(step: &gherkin::Step) -> Option<String> {
    let found = match (&step.table, &step.docstring) {
        (Some(_), _) => "a table",
        (None, Some(_)) => "a text",
        (None, None) => return None,
    };
    (!step.value.ends_with(':')).then(|| {
        format!(
            "found {found} below `{}`, which reads none: steps that do end with a colon",
            step.value
        )
    })
}

/// What stands below a step: another table makes another scenario.
fn below(step: &gherkin::Step) -> Vec<String> {
    let row = |row: &Vec<String>| format!("| {} |", row.join(" | "));
    let rows = step.table.iter().flat_map(|table| table.rows.iter().map(row));
    rows.chain(step.docstring.iter().flat_map(|text| text.lines().map(str::to_owned))).collect()
}

/// A report on a case of which nothing has run.
fn blank(case: &Case) -> CaseReport {
    let step = |step: &gherkin::Step| StepReport {
        keyword: step.keyword.trim().to_owned(),
        text: step.value.clone(),
        below: below(step),
        line: step.position.line,
        outcome: Outcome::NotRun,
    };
    CaseReport {
        id: case.id(),
        file: case.place.file.clone(),
        line: case.place.line,
        feature: case.feature.clone(),
        rule: case.rule.clone(),
        name: case.name.clone(),
        tags: case.tags.clone(),
        outcome: Outcome::NotRun,
        skipped: None,
        flaky: false,
        crashes: 0,
        virtual_millis: 0,
        steps: case.steps.iter().map(step).collect(),
        failure: None,
        showing: None,
        wall: Duration::ZERO,
    }
}

/// Marks a case as failed, with the line that reproduces it.
fn fail(
    report: &mut CaseReport,
    kind: FailureKind,
    line: usize,
    message: String,
    settings: &Settings,
) {
    let Settings { seed, again, .. } = settings;
    let place = crate::text::shell_word(&format!("{}:{}", report.file, report.line));
    let reproduce = format!("schedlab run {place} --seed {seed}{again}");
    report.outcome = Outcome::Failed;
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

    pub(in crate::runner) fn settings() -> Settings {
        Settings {
            jobs: NonZeroUsize::MIN,
            seed: REVIEWED_SEED,
            timeout: Duration::from_hours(1),
            retries: 0,
            repeat: NonZeroUsize::MIN,
            crashes: None,
            shuffle: false,
            flaky_result: FlakyResult::Pass,
            fail_fast: false,
            update: Update::No,
            interrupted: Interrupt::default(),
            ground: None,
            time_scale: None,
            patience: Duration::from_mins(2),
            target: Target::ours(),
            force: false,
            again: String::new(),
            like: None,
        }
    }

    pub(crate) fn regex(text: &str) -> Regex {
        Regex::new(text).unwrap()
    }

    /// The verdict on a scenario of these lines.
    pub(crate) fn verdict(lines: &str, steps: &Collection<World>) -> CaseReport {
        panics::keep_silent();
        let text = format!("Feature: f\n  Scenario: s\n{lines}\n");
        judge(&load_text("f.feature", &text).unwrap()[0], steps, &settings())
    }

    /// Two steps that overlap, and one that never ends.
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

    fn judged(step: &str, settings: &Settings) -> CaseReport {
        let text = format!("Feature: f\n  Scenario: s\n    Given {step}\n");
        panics::keep_silent();
        judge(&load_text("f.feature", &text).unwrap()[0], &steps(), settings)
    }

    fn message(report: &CaseReport) -> String {
        report.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default()
    }

    #[test]
    fn a_step_that_two_patterns_match_fails_before_anything_runs() {
        let report = judged("a task panics", &settings());
        let kind = report.failure.as_ref().map(|failure| failure.kind);
        assert_eq!(kind, Some(FailureKind::AmbiguousStep));
        assert_snapshot!(message(&report), @r"
        more than one step of the vocabulary says `Given a task panics`
        it may be: Given a task panics
        it may be: Given an? .*
        allowed is one: the words of one of them must change (harness/src/steps)
        ");
    }

    #[test]
    fn a_panic_that_nobody_looks_at_fails_the_case() {
        let text = "Feature: f\n  Scenario: s\n    Given a task panics\n";
        let steps =
            Collection::new().given(None, regex("^a task panics$"), |_, _| Box::pin(lose_a_task()));
        panics::keep_silent();
        let report = judge(&load_text("f.feature", text).unwrap()[0], &steps, &settings());
        assert_eq!(report.outcome, Outcome::Failed);
        assert!(message(&report).contains("a task panicked at"), "{}", message(&report));
        assert!(message(&report).contains("nobody looks"), "{}", message(&report));
    }

    #[test]
    fn a_step_that_never_ends_is_ended_in_virtual_time() {
        let report = judged("nothing ends", &settings());
        assert_eq!(report.failure.as_ref().map(|f| f.kind), Some(FailureKind::Timeout));
        assert_eq!(report.virtual_millis, 3_600_000);
    }

    #[test]
    fn after_an_interrupt_nothing_is_judged() {
        let settings = settings();
        settings.interrupted.raise();
        let report = judged("nothing ends", &settings);
        assert_eq!((report.outcome, report.failure), (Outcome::NotRun, None));
    }

    #[test]
    fn a_failure_that_goes_away_is_flaky_and_remembered() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let steps = Collection::new().given(None, regex("^luck$"), |_, _| {
            Box::pin(async { assert!(RUNS.fetch_add(1, Ordering::Relaxed) > 0, "bad luck") })
        });
        panics::keep_silent();
        let text = "Feature: f\n  Scenario: s\n    Given luck\n";
        let case = &load_text("f.feature", text).unwrap()[0];
        let judged = |flaky_result| {
            RUNS.store(0, Ordering::Relaxed);
            judge(case, &steps, &Settings { retries: 1, flaky_result, ..settings() })
        };
        let report = judged(FlakyResult::Pass);
        assert_eq!((report.outcome, report.flaky), (Outcome::Passed, true));
        assert!(message(&report).contains("bad luck"), "{}", message(&report));
        let report = judged(FlakyResult::Fail);
        assert_eq!((report.outcome, report.flaky), (Outcome::Failed, true), "counted as failure");
        assert!(message(&report).contains("bad luck"), "{}", message(&report));
    }

    #[test]
    fn in_real_time_each_run_has_a_verdict_and_the_first_failure_counts() {
        let case =
            &load_text("f.feature", "Feature: f\n  Scenario: s\n    Given a clock\n").unwrap()[0];
        let passed = || CaseReport { outcome: Outcome::Passed, ..blank(case) };
        let mut runs = 1;
        let report = each_passes(passed(), 4, || {
            runs += 1;
            let mut report = passed();
            if runs == 3 {
                fail(&mut report, FailureKind::Step, 1, "too few".to_owned(), &settings());
            }
            report
        });
        assert_eq!((report.outcome, runs), (Outcome::Failed, 3));
        assert!(message(&report).contains("run 3 of 4: too few"), "{}", message(&report));
        assert_eq!(each_passes(passed(), 4, passed).outcome, Outcome::Passed);
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
        let case = &load_text("f.feature", text).unwrap()[0];
        let twice = NonZeroUsize::new(2).unwrap();
        let report = judge(case, &steps, &Settings { repeat: twice, ..settings() });
        assert_eq!(report.failure.map(|f| f.kind), Some(FailureKind::Nondeterministic));
    }
}
