//! A scheduler that does nothing passes no scenario that claims something of a scheduler: all
//! features run with `--scheduler none`, and exactly the scenarios listed here pass.

mod run_report;

use std::collections::BTreeSet;

/// The scenarios that claim nothing of a scheduler, below what they are about.
const ABOUT_OTHERS: [(&str, &[&str]); 1] = [(
    "webhooks, which the emulator serves",
    &["A queue without resources is refused", "Pods of another scheduler are ignored"],
)];

#[test]
fn without_a_scheduler_exactly_the_scenarios_pass_that_claim_nothing_of_one() {
    let run = run_report::run_schedlab("..", &["features", "--scheduler", "none"])
        .expect("the run writes a report");
    let expected: BTreeSet<&str> =
        ABOUT_OTHERS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let passed = run.cases.iter().filter(|case| case.outcome == "passed");
    let passed: BTreeSet<&str> = passed.map(|case| &*case.name).collect();
    let unlisted: Vec<&str> = passed.difference(&expected).copied().collect();
    assert!(
        unlisted.is_empty(),
        "these scenarios pass without a scheduler: let each first claim what a scheduler does, or \
         list it if it is about something else:\n{}",
        unlisted.join("\n")
    );
    let others = run.cases.iter().filter(|case| case.outcome != "passed");
    let broken = others.filter(|case| case.outcome != "failed" || expected.contains(&*case.name));
    let broken: Vec<String> =
        broken.map(|case| format!("{}: {}: {}", case.name, case.outcome, case.reason)).collect();
    assert!(broken.is_empty(), "expected to pass or fail as listed:\n{}", broken.join("\n"));
    let unknown: Vec<&str> = expected.difference(&passed).copied().collect();
    assert!(unknown.is_empty(), "no scenarios have these names: {unknown:?}");
    assert!(run.cases.len() > 500, "got {} scenarios: {}", run.cases.len(), run.stderr);
}
