//! Crash sweep: runs a scenario repeatedly, each time killing the scheduler before another write
//! and restarting it. No audit rule may be broken.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use cucumber::step::Collection;

use super::{
    CaseOutcome, CaseReport, RunSettings,
    attempt::{AssertionMode, run_in_mode},
};
use crate::features::Case;
use crate::world::World;

/// The writes before which the scheduler is killed when a passed case is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashWrites {
    /// Before every N-th write, in one run each. The first of these writes depends on the scenario.
    Every(NonZeroU32),
    /// Before the write with this number, counted from 1.
    Before(u32),
}

impl FromStr for CrashWrites {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed =
            || format!("got {text}, expected each, every:N or N, with N a whole number from 1");
        if text == "each" {
            return Ok(Self::Every(NonZeroU32::MIN));
        }
        if let Some(nth) = text.strip_prefix("every:") {
            return nth.parse().map(Self::Every).map_err(|_| allowed());
        }
        let write: NonZeroU32 = text.parse().map_err(|_| allowed())?;
        Ok(Self::Before(write.get()))
    }
}

impl fmt::Display for CrashWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(nth) => write!(f, "every:{nth}"),
            Self::Before(write) => write!(f, "{write}"),
        }
    }
}

impl CrashWrites {
    fn write_numbers(self, case: &Case) -> impl Iterator<Item = u32> + use<> {
        let (first, step, count) = match self {
            Self::Before(write) => (write, 1, 1),
            Self::Every(nth) => {
                (1 + u32::try_from(case.location.line).unwrap_or(0) % nth, nth.get(), usize::MAX)
            }
        };
        (first..=u32::MAX).step_by(step as usize).take(count)
    }
}

/// Runs a passed case again, each time with a crash of the scheduler. `own_crashes` is the number
/// of crashes that the scenario itself causes. A run without more crashes than these is the last
/// one, because the scheduler makes no further write.
pub(super) fn run_with_crashes(
    mut passed: CaseReport,
    case: &Case,
    own_crashes: usize,
    steps: &Collection<World>,
    settings: &RunSettings,
    crashes: CrashWrites,
) -> CaseReport {
    for dies_before in crashes.write_numbers(case) {
        let attempt = run_in_mode(
            case,
            steps,
            settings,
            AssertionMode::InvariantsOnly { crash_before_write: dies_before },
        );
        passed.wall += attempt.report.wall;
        if attempt.report.outcome != CaseOutcome::Passed {
            return add_crash_context(attempt.report, dies_before);
        }
        if attempt.crashes <= own_crashes {
            break;
        }
        passed.crashes += 1;
    }
    passed
}

fn add_crash_context(mut report: CaseReport, write_number: u32) -> CaseReport {
    if let Some(failure) = &mut report.failure {
        let message = &failure.message;
        failure.message = format!("scheduler killed before its write {write_number}: {message}");
        failure.reproduce = format!("{} --crash-before {write_number}", failure.reproduce);
    }
    report
}

#[cfg(test)]
mod tests {
    use cucumber::codegen::Regex;

    use super::*;
    use crate::features::load_text;
    use crate::report::FailureKind;
    use crate::runner::{panics, run_case_with_flaky_result, tests::settings};
    use crate::steps::catalogue;

    const TEXT: &str = "Feature: f
  Scenario: s
    Given a fleet of 1 node with 2 GPUs each
    And a queue \"a\" with a quota of 2
    When 1 pod \"x\" with 1 GPU each is submitted to queue \"a\"
    Then queue \"a\" has 1 running pod
";

    fn run_with_crash_points(more: &str, steps: &Collection<World>, crashes: &str) -> CaseReport {
        panics::install_panic_hook();
        let case =
            &load_text("f.feature", &format!("{TEXT}{more}"), catalogue::is_step).unwrap()[0];
        run_case_with_flaky_result(
            case,
            steps,
            &RunSettings { crashes: Some(crashes.parse().unwrap()), ..settings() },
        )
    }

    async fn panic_after_a_crash(world: &mut World) {
        if world.scheduler_crash_count() > 0 {
            let ended = tokio::spawn(async { panic!("it cannot start again") }).await;
            assert!(ended.is_err());
        }
    }

    #[test]
    fn each_crash_is_survived_and_counted() {
        let steps = catalogue::step_collection();
        let each = run_with_crash_points("", &steps, "each");
        assert_eq!(each.outcome, CaseOutcome::Passed, "{:?}", each.failure);
        assert!(each.crashes > 3, "{}", each.crashes);
        let some = run_with_crash_points("", &steps, "every:3").crashes;
        assert!((1..each.crashes).contains(&some), "{some} of {}", each.crashes);
        assert_eq!(run_with_crash_points("", &steps, "2").crashes, 1);
    }

    #[test]
    fn a_panic_after_a_crash_fails_the_case() {
        let regex = Regex::new("^nothing panics$").unwrap();
        let steps = catalogue::step_collection()
            .then(None, regex, |world: &mut World, _| Box::pin(panic_after_a_crash(world)));
        let report = run_with_crash_points("    Then nothing panics\n", &steps, "each");
        let failure = report.failure.expect("something panicked");
        assert_eq!(failure.kind, FailureKind::Panic, "{}", failure.message);
        let prefix = "scheduler killed before its write 1: ";
        assert!(failure.message.starts_with(prefix), "{}", failure.message);
        assert!(failure.reproduce.ends_with(" --crash-before 1"), "{}", failure.reproduce);
    }

    #[test]
    fn assertions_of_the_scenario_need_not_hold_after_a_crash() {
        let regex = Regex::new("^it never died$").unwrap();
        let steps = catalogue::step_collection().then(None, regex, |world: &mut World, _| {
            Box::pin(async { assert_eq!(world.scheduler_crash_count(), 0) })
        });
        let report = run_with_crash_points("    Then it never died\n", &steps, "each");
        assert_eq!(report.outcome, CaseOutcome::Passed, "{:?}", report.failure);
    }

    #[test]
    fn invalid_crash_points_are_rejected() {
        for wrong in ["0", "-1", "all", "every:0", "every:", ""] {
            let error = wrong.parse::<CrashWrites>().unwrap_err();
            assert!(error.starts_with(&format!("got {wrong}, expected each")), "{error}");
        }
    }
}
