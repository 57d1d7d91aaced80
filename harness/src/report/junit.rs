//! The report as `JUnit` XML: one suite a feature, one test case a case.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{
    NonSuccessKind, Report as JunitReport, TestCase, TestCaseStatus, TestRerun, TestSuite,
};

use super::{CaseReport, Failure, Outcome, Report};

/// The XML text.
pub fn junit(report: &Report) -> anyhow::Result<String> {
    let mut suites: BTreeMap<&str, Vec<&CaseReport>> = BTreeMap::new();
    for case in &report.cases {
        suites.entry(&case.file).or_default().push(case);
    }
    let mut junit = JunitReport::new("schedlab");
    junit.set_time(report.cases.iter().map(|c| c.wall).sum::<Duration>());
    for (file, cases) in suites {
        let mut suite = TestSuite::new(file);
        suite.add_property(("seed", report.seed.to_string().as_str()));
        suite.set_time(cases.iter().map(|c| c.wall).sum::<Duration>());
        suite.add_test_cases(cases.into_iter().map(test_case));
        junit.add_test_suite(suite);
    }
    Ok(junit.to_string()?)
}

fn test_case(case: &CaseReport) -> TestCase {
    let mut test = TestCase::new(&*case.name, status(case));
    test.set_classname(&*case.feature);
    test.set_time(case.wall);
    test.add_property(("virtual-seconds", seconds(case.virtual_millis).as_str()));
    test.add_property(("line", case.line.to_string().as_str()));
    test
}

fn status(case: &CaseReport) -> TestCaseStatus {
    let mut status = match case.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::NotRun | Outcome::Skipped => TestCaseStatus::skipped(),
        Outcome::Failed | Outcome::Pending => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    if let Some(why) = &case.skipped {
        status.set_message(why.as_str());
    }
    let Some(failure) = &case.failure else { return status };
    if case.flaky {
        status.add_rerun(rerun(failure));
    } else {
        status.set_message(first_line(&failure.message));
        status.set_description(format!("{}\n\n{}", failure.message, failure.reproduce));
    }
    status
}

fn rerun(failure: &Failure) -> TestRerun {
    let mut rerun = TestRerun::new(NonSuccessKind::Failure);
    rerun.set_message(first_line(&failure.message));
    rerun.set_description(&*failure.message);
    rerun
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{FailureKind, StepReport};

    fn case(outcome: Outcome, flaky: bool, failed: bool) -> CaseReport {
        let failure = Failure {
            kind: FailureKind::Step,
            line: 7,
            message: "expected 8, found 7".to_owned(),
            reproduce: "schedlab run f.feature:5 --seed 1".to_owned(),
        };
        CaseReport {
            id: "f.feature: a".to_owned(),
            file: "f.feature".to_owned(),
            line: 5,
            feature: "f".to_owned(),
            rule: None,
            name: "a".to_owned(),
            tags: Vec::new(),
            outcome,
            skipped: None,
            flaky,
            crashes: 0,
            virtual_millis: 1500,
            steps: Vec::<StepReport>::new(),
            failure: failed.then_some(failure),
            showing: None,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn a_failure_a_flaky_pass_and_a_skipped_case_are_told_apart() {
        let report = Report {
            seed: 1,
            cluster: "emulator".to_owned(),
            cases: vec![
                case(Outcome::Failed, false, true),
                case(Outcome::Passed, true, true),
                case(Outcome::NotRun, false, false),
            ],
        };
        let xml = junit(&report).unwrap();
        assert!(xml.contains(r#"tests="3" skipped="1" errors="0" failures="1""#), "{xml}");
        assert!(xml.contains("<flakyFailure"), "{xml}");
        assert!(xml.contains("schedlab run f.feature:5 --seed 1"), "{xml}");
    }
}
