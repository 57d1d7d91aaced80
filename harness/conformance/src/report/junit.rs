//! The report as `JUnit` XML: one suite per feature file, one test case per case. Each diagnostic
//! becomes a test case with an error, so that readers of the XML alone see the failure.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{
    NonSuccessKind, Report as JunitReport, TestCase, TestCaseStatus, TestRerun, TestSuite,
};

use super::{CaseOutcome, CaseReport, Diagnostic, FLAKY_HEADING, Failure, Report};

/// Renders the report as `JUnit` XML.
///
/// # Errors
/// The report cannot be written as XML.
pub fn junit_xml(report: &Report) -> anyhow::Result<String> {
    let mut suites: BTreeMap<&str, (Vec<&CaseReport>, Vec<&Diagnostic>)> = BTreeMap::new();
    for case in &report.cases {
        suites.entry(&case.file).or_default().0.push(case);
    }
    for problem in &report.problems {
        let file = if problem.file.is_empty() { "schedlab" } else { &problem.file };
        suites.entry(file).or_default().1.push(problem);
    }
    let mut junit = JunitReport::new("schedlab");
    junit.set_time(report.cases.iter().map(|c| c.wall).sum::<Duration>());
    let seconds = if report.is_virtual_time() { "virtual-seconds" } else { "seconds" };
    for (file, (cases, problems)) in suites {
        let mut suite = TestSuite::new(file);
        suite.add_property(("seed", report.seed.to_string().as_str()));
        suite.set_time(cases.iter().map(|c| c.wall).sum::<Duration>());
        suite.add_test_cases(cases.into_iter().map(|case| test_case(case, seconds)));
        suite.add_test_cases(
            problems.into_iter().map(|problem| diagnostic_test_case(file, problem)),
        );
        junit.add_test_suite(suite);
    }
    Ok(junit.to_string()?)
}

/// The `JUnit` test case for a case. `seconds` is the name of the property with the cluster's time.
fn test_case(case: &CaseReport, seconds: &str) -> TestCase {
    let mut test = TestCase::new(&*case.name, junit_status(case));
    test.set_classname(&*case.feature);
    test.set_time(case.wall);
    test.add_property((seconds, seconds_text(case.virtual_millis).as_str()));
    test.add_property(("line", case.line.to_string().as_str()));
    for claim in &case.wording_not_judged {
        let claim = format!("{}:{}: {}", case.file, claim.line, claim.claim);
        test.add_property(("wording-not-judged", claim.as_str()));
    }
    for claim in &case.snapshots_not_judged {
        let claim = format!("{}:{}: {}", case.file, claim.line, claim.claim);
        test.add_property(("snapshot-not-judged", claim.as_str()));
    }
    test
}

fn diagnostic_test_case(file: &str, problem: &Diagnostic) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(first_line(&problem.message));
    status.set_description(problem.to_string());
    let name = match problem.line {
        0 => file.to_owned(),
        line => format!("{file}:{line}"),
    };
    let mut test = TestCase::new(name, status);
    test.set_classname(file);
    test
}

fn junit_status(case: &CaseReport) -> TestCaseStatus {
    if let Some(reason) = case.quarantined.as_ref().filter(|_| case.is_quarantined_failure()) {
        return quarantined_status(case, reason);
    }
    let mut status = match case.outcome {
        CaseOutcome::Passed => TestCaseStatus::success(),
        CaseOutcome::NotRun | CaseOutcome::Skipped => TestCaseStatus::skipped(),
        CaseOutcome::Failed | CaseOutcome::Pending => {
            TestCaseStatus::non_success(NonSuccessKind::Failure)
        }
    };
    if let Some(why) = &case.skipped {
        status.set_message(why.as_str());
    }
    if case.outcome == CaseOutcome::NotRun {
        status.set_type("not-started");
        status.set_message("not started: the run ended before");
    }
    let (Some(failure), Some(why)) = (&case.failure, case.failure_message()) else { return status };
    if case.outcome == CaseOutcome::Passed {
        status.add_rerun(junit_rerun(failure));
        return status;
    }
    let found = first_line(&failure.message);
    let heading = if case.flaky { format!("{FLAKY_HEADING} {found}") } else { found.to_owned() };
    status.set_message(heading);
    status.set_description(format!("{why}\n\n{}", failure.reproduce));
    status
}

/// A failure in quarantine: readers of `JUnit` know only skipped cases that do not fail a run.
fn quarantined_status(case: &CaseReport, reason: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_type("quarantined");
    status.set_message(format!("quarantined: {reason}"));
    if let (Some(failure), Some(why)) = (&case.failure, case.failure_message()) {
        status.set_description(format!("{why}\n\n{}", failure.reproduce));
    }
    status
}

fn junit_rerun(failure: &Failure) -> TestRerun {
    let mut rerun = TestRerun::new(NonSuccessKind::Failure);
    rerun.set_message(first_line(&failure.message));
    rerun.set_description(&*failure.message);
    rerun
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn seconds_text(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{UnjudgedClaim, tests::case};

    #[test]
    fn failures_flaky_passes_and_skips_are_distinguished() {
        let report = Report {
            seed: 1,
            cluster: "emulator".to_owned(),
            cases: vec![
                case(CaseOutcome::Failed, false, true),
                case(CaseOutcome::Passed, true, true),
                case(CaseOutcome::NotRun, false, false),
            ],
            problems: Vec::new(),
        };
        let xml = junit_xml(&report).unwrap();
        assert!(xml.contains(r#"tests="3" skipped="1" errors="0" failures="1""#), "{xml}");
        assert!(xml.contains("<flakyFailure"), "{xml}");
        assert!(xml.contains("schedlab run f.feature:5 --seed 1"), "{xml}");
    }

    #[test]
    fn quarantined_failures_and_cases_that_were_not_started_are_told_apart_from_skipped_ones() {
        let mut quarantined = case(CaseOutcome::Failed, false, true);
        quarantined.quarantined = Some("issue 12".to_owned());
        let cases = vec![quarantined, case(CaseOutcome::NotRun, false, false)];
        let xml = junit_xml(&Report { cases, ..Report::default() }).unwrap();
        assert!(xml.contains(r#"tests="2" skipped="2" errors="0" failures="0""#), "{xml}");
        let quarantined = r#"<skipped message="quarantined: issue 12" type="quarantined">"#;
        assert!(xml.contains(quarantined), "{xml}");
        let not_started =
            r#"<skipped message="not started: the run ended before" type="not-started"/>"#;
        assert!(xml.contains(not_started), "{xml}");
    }

    #[test]
    fn a_flaky_case_counted_as_failed_reports_the_message_of_its_first_attempt() {
        let report =
            Report { cases: vec![case(CaseOutcome::Failed, true, true)], ..Report::default() };
        let xml = junit_xml(&report).unwrap();
        assert!(xml.contains(r#"tests="1" skipped="0" errors="0" failures="1""#), "{xml}");
        let failure = r#"<failure message="flaky: the first attempt failed: expected 8, found 7""#;
        assert!(xml.contains(failure), "{xml}");
        assert!(!xml.contains("<flakyFailure"), "{xml}");
    }

    #[test]
    fn claims_that_were_not_judged_are_properties() {
        let claim = UnjudgedClaim { line: 7, claim: "over quota".to_owned() };
        let mut judged = case(CaseOutcome::Passed, false, false);
        judged.wording_not_judged.push(claim);
        let xml = junit_xml(&Report { cases: vec![judged], ..Report::default() }).unwrap();
        let property = r#"<property name="wording-not-judged" value="f.feature:7: over quota"/>"#;
        assert!(xml.contains(property), "{xml}");
    }

    #[test]
    fn the_time_of_a_real_cluster_is_not_called_virtual() {
        let on = |cluster: &str| {
            let cases = vec![case(CaseOutcome::Passed, false, false)];
            junit_xml(&Report { cluster: cluster.to_owned(), cases, ..Report::default() }).unwrap()
        };
        let (emulator, kind) = (on("emulator"), on("kind"));
        assert!(emulator.contains(r#"name="virtual-seconds" value="1.500""#), "{emulator}");
        assert!(kind.contains(r#"name="seconds" value="1.500""#), "{kind}");
    }

    #[test]
    fn a_diagnostic_is_an_error_in_the_suite_of_its_file() {
        let wrong = |file: &str, line| Diagnostic::new(file, line, "is wrong\nat all".to_owned());
        let report = Report {
            cases: vec![case(CaseOutcome::Passed, false, false)],
            problems: vec![wrong("f.feature", 7), wrong("", 0)],
            ..Report::default()
        };
        let xml = junit_xml(&report).unwrap();
        let counts = r#"<testsuites name="schedlab" tests="3" skipped="0" failures="0" errors="2""#;
        assert!(xml.contains(counts), "{xml}");
        assert!(xml.contains(r#"<testcase name="f.feature:7" classname="f.feature""#), "{xml}");
        assert!(xml.contains(r#"<testcase name="schedlab" classname="schedlab""#), "{xml}");
        assert!(xml.contains(r#"<error message="is wrong""#), "{xml}");
    }
}
