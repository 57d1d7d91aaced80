//! A scenario again and again, each time with a scheduler that dies before another of its writes and
//! is started anew: no rule may be broken, wherever that is.

use std::num::NonZeroU32;
use std::str::FromStr;

use cucumber::step::Collection;

use super::{
    CaseReport, Outcome, Settings,
    attempt::{Asked, once},
};
use crate::features::Case;
use crate::world::World;

/// Before which of its writes the scheduler dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crashes {
    /// Before each, one run after the other; or before every so many-th, which are others in each
    /// scenario.
    Every(NonZeroU32),
    /// Before this one, counted from 1.
    Before(u32),
}

impl FromStr for Crashes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed =
            || format!("found {text}, allowed are each, every:N and N, a whole number from 1");
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

impl Crashes {
    fn writes(self, case: &Case) -> impl Iterator<Item = u32> + use<> {
        let (first, step, count) = match self {
            Self::Before(write) => (write, 1, 1),
            Self::Every(nth) => {
                (1 + u32::try_from(case.place.line).unwrap_or(0) % nth, nth.get(), usize::MAX)
            }
        };
        (first..=u32::MAX).step_by(step as usize).take(count)
    }
}

/// The verdict on a case that passed as it is. A scenario may kill its scheduler itself: those
/// deaths, `own`, are no sign that ours was one of them.
pub(super) fn survive(
    mut passed: CaseReport,
    (case, own): (&Case, usize),
    steps: &Collection<World>,
    settings: &Settings,
    crashes: Crashes,
) -> CaseReport {
    for dies_before in crashes.writes(case) {
        let again = once(case, steps, settings, Asked::Rules { dies_before });
        passed.wall += again.report.wall;
        if again.report.outcome != Outcome::Passed {
            return told(again.report, dies_before);
        }
        if again.deaths <= own {
            break;
        }
        passed.crashes += 1;
    }
    passed
}

fn told(mut report: CaseReport, write: u32) -> CaseReport {
    if let Some(failure) = &mut report.failure {
        let message = &failure.message;
        failure.message = format!("the scheduler died before its write {write}: {message}");
        failure.reproduce = format!("{} --crash-before {write}", failure.reproduce);
    }
    report
}

#[cfg(test)]
mod tests {
    use cucumber::codegen::Regex;

    use super::*;
    use crate::{
        features::load_text,
        report::FailureKind,
        runner::{judge, panics, tests::settings},
        vocabulary,
    };

    const TEXT: &str = "Feature: f
  Scenario: s
    Given a fleet of 1 node with 2 GPUs each
    And a queue \"a\" with a quota of 2
    When 1 pod \"x\" with 1 GPU each is submitted to queue \"a\"
    Then queue \"a\" has 1 running pod
";

    fn judged(more: &str, steps: &Collection<World>, crashes: &str) -> CaseReport {
        panics::keep_silent();
        let case = &load_text("f.feature", &format!("{TEXT}{more}")).unwrap()[0];
        judge(case, steps, &Settings { crashes: Some(crashes.parse().unwrap()), ..settings() })
    }

    async fn panic_after_a_death(world: &mut World) {
        if world.scheduler_deaths() > 0 {
            let ended = tokio::spawn(async { panic!("it cannot start again") }).await;
            assert!(ended.is_err());
        }
    }

    #[test]
    fn each_death_is_survived_and_counted() {
        let steps = vocabulary::collection();
        let each = judged("", &steps, "each");
        assert_eq!(each.outcome, Outcome::Passed, "{:?}", each.failure);
        assert!(each.crashes > 3, "{}", each.crashes);
        let some = judged("", &steps, "every:3").crashes;
        assert!((1..each.crashes).contains(&some), "{some} of {}", each.crashes);
        assert_eq!(judged("", &steps, "2").crashes, 1);
    }

    #[test]
    fn what_goes_wrong_after_a_death_fails_the_case() {
        let regex = Regex::new("^nothing panics$").unwrap();
        let steps = vocabulary::collection()
            .then(None, regex, |world: &mut World, _| Box::pin(panic_after_a_death(world)));
        let report = judged("    Then nothing panics\n", &steps, "each");
        let failure = report.failure.expect("something panicked");
        assert_eq!(failure.kind, FailureKind::Panic, "{}", failure.message);
        let told = "the scheduler died before its write 1: ";
        assert!(failure.message.starts_with(told), "{}", failure.message);
        assert!(failure.reproduce.ends_with(" --crash-before 1"), "{}", failure.reproduce);
    }

    #[test]
    fn what_a_scenario_claims_need_not_hold_after_a_death() {
        let regex = Regex::new("^it never died$").unwrap();
        let steps = vocabulary::collection().then(None, regex, |world: &mut World, _| {
            Box::pin(async { assert_eq!(world.scheduler_deaths(), 0) })
        });
        let report = judged("    Then it never died\n", &steps, "each");
        assert_eq!(report.outcome, Outcome::Passed, "{:?}", report.failure);
    }

    #[test]
    fn other_words_are_refused() {
        for wrong in ["0", "-1", "all", "every:0", "every:", ""] {
            let told = wrong.parse::<Crashes>().unwrap_err();
            assert!(told.starts_with(&format!("found {wrong}, allowed are each")), "{told}");
        }
    }
}
