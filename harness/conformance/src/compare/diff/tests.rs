use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::*;
use crate::compare::Baseline;
use crate::report::WorkloadOutcome;

/// Parses `8 running; 4 pending: quota` into counts.
fn counts(text: &str) -> BTreeMap<String, usize> {
    let one = |part: &str| {
        let (count, what) = part.split_once(' ').unwrap();
        (what.to_owned(), count.parse().unwrap())
    };
    text.split("; ").map(one).collect()
}

fn listed(text: &str) -> Vec<String> {
    text.split("; ").filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn showing(pods: &str, stories: &str, nodes: &str, order: &str) -> RunOutcome {
    let wants = "one GPU".to_owned();
    let train = WorkloadOutcome {
        scheduling_inputs: wants,
        pods: counts(pods),
        histories: counts(stories),
    };
    RunOutcome {
        workloads: BTreeMap::from([("train".to_owned(), train)]),
        nodes: BTreeMap::from([("node-1…4".to_owned(), listed(nodes))]),
        order: listed(order),
    }
}

fn case(name: &str, showing: RunOutcome) -> CaseReport {
    let id = format!("f.feature: {name}");
    let text = format!(
        r#"{{"id": "{id}", "file": "f.feature", "line": 3, "feature": "f", "name": "{name}",
            "tags": [], "outcome": "passed", "virtual_millis": 1, "steps": []}}"#
    );
    CaseReport { run_outcome: Some(showing), ..serde_json::from_str(&text).unwrap() }
}

fn report(cases: Vec<CaseReport>) -> Report {
    Report { seed: 1, cases, ..Report::default() }
}

fn packed() -> RunOutcome {
    showing("8 running", "8 bound, started", "8 train", "train bound; train started")
}

#[test]
fn equal_runs_have_no_differences() {
    let run = || report(vec![case("s", packed())]);
    let diff = diff_reports(&run(), &run(), EventOrder::Compared);
    assert_eq!((diff.differ.len(), diff.equal), (0, 1));
}

#[test]
fn a_run_is_compared_with_its_baseline_except_expected_differences() {
    let other = || {
        let stories = "6 bound, started; 2 never bound";
        case("s", showing("6 running; 2 pending: over quota", stories, "4 train; 2 train", ""))
    };
    let reference = |known: &str| {
        let run = report(vec![case("s", packed())]);
        Baseline::new("results/old", &run, ExpectedDifferences::parse(known), EventOrder::Compared)
    };
    let strict = reference("");
    assert_eq!(strict.difference_from_baseline(&case("s", packed())), None);
    assert!(strict.has_case("f.feature: s") && !strict.has_case("f.feature: new"));
    assert_eq!(strict.difference_from_baseline(&case("new", packed())), None);
    let unlike = strict.difference_from_baseline(&other()).unwrap();
    assert!(
        unlike.starts_with(
            "differs from the baseline results/old:\n  pods of train\n    - 8 running\n"
        )
    );
    assert_eq!(reference("- `f.feature: s`").difference_from_baseline(&other()), None);
}

#[test]
fn differences_are_reported_once_and_equal_parts_not_at_all() {
    let other = showing(
        "6 running; 2 pending: over quota",
        "6 bound, started; 2 never bound",
        "4 train; 2 train",
        "train bound; train started",
    );
    let diff = diff_reports(
        &report(vec![case("s", packed())]),
        &report(vec![case("s", other)]),
        EventOrder::Compared,
    );
    assert_snapshot!(diff_text(&diff, "kai", "kube"), @r"
    - kai
    + kube

    f.feature:3  s
      pods of train
        - 8 running
        + 2 pending: over quota
        + 6 running
      history of pods of train
        - 8 bound, started
        + 6 bound, started
        + 2 never bound
      nodes like node-1…4
        - 8 train on one node
        + 2 train on one node
        + 4 train on one node

    scenarios: 1 different, 0 equal, 0 in the first run only, 0 in the second only
    ");
}

#[test]
fn a_different_order_of_events_alone_is_no_difference_when_order_is_ignored() {
    let order = |words: &str| RunOutcome { order: listed(words), ..packed() };
    let a = report(vec![case("s", order("infer bound; train bound"))]);
    let b = report(vec![case("s", order("train bound; infer bound"))]);
    assert_eq!(diff_reports(&a, &b, EventOrder::Ignored).differ, []);
    let counted = diff_reports(&a, &b, EventOrder::Compared);
    assert_eq!(counted.differ[0].differences[0].about, "order");
}

#[test]
fn pods_may_swap_nodes_but_the_pods_per_node_must_match_when_order_is_ignored() {
    let run = |nodes| report(vec![case("s", RunOutcome { nodes, ..packed() })]);
    let nodes = |text| BTreeMap::from([("node-1…4".to_owned(), listed(text))]);
    let mixed = run(nodes("7 filler, 1 train; 7 filler, 1 train"));
    let apart = run(nodes("6 filler, 2 train; 8 filler"));
    assert_eq!(diff_reports(&mixed, &apart, EventOrder::Ignored).differ, []);
    assert_eq!(diff_reports(&mixed, &apart, EventOrder::Compared).differ.len(), 1);
    let spread = run(nodes("4 filler; 4 filler, 2 train; 6 filler"));
    let result = diff_reports(&mixed, &spread, EventOrder::Ignored);
    let [difference] = result.differ[0].differences.as_slice() else { panic!("{result:?}") };
    assert_eq!(difference.a, ["8 pods on each of 2 nodes"]);
    assert_eq!(difference.b, ["4 pods on one node", "6 pods on each of 2 nodes"]);
}

#[test]
fn scenarios_in_one_run_only_are_listed_and_not_compared() {
    let a = report(vec![case("s", packed()), case("t", packed())]);
    let mut skipped = case("u", packed());
    skipped.outcome = CaseOutcome::NotRun;
    let b = report(vec![case("s", packed()), skipped]);
    let diff = diff_reports(&a, &b, EventOrder::Compared);
    assert_eq!(diff.only_a, ["f.feature: t"]);
    assert!(diff.only_b.is_empty());
    assert_eq!(diff.equal, 1);
    let a = report(vec![case("s", packed()), case("u", packed())]);
    assert_eq!(diff_reports(&a, &b, EventOrder::Compared).only_a, ["f.feature: u"], "it broke off");
    let mut skipped = case("u", packed());
    skipped.outcome = CaseOutcome::Skipped;
    let b = report(vec![case("s", packed()), skipped]);
    let diff = diff_reports(&a, &b, EventOrder::Compared);
    assert_eq!((diff.only_a.len(), diff.skipped_b), (0, vec!["f.feature: u".to_owned()]));
}

#[test]
fn changed_steps_between_two_runs_are_reported() {
    let doing = |text: &str| {
        let step =
            format!(r#"{{"keyword": "When ", "text": "{text}", "line": 4, "outcome": "passed"}}"#);
        let steps = vec![serde_json::from_str(&step).unwrap()];
        report(vec![CaseReport { steps, ..case("s", packed()) }])
    };
    let diff = diff_reports(&doing("8 pods run"), &doing("5 pods run"), EventOrder::Ignored);
    let printed = diff_text(&diff, "a", "b");
    assert!(
        printed.contains("  steps\n    - When 8 pods run\n    + When 5 pods run\n"),
        "{printed}"
    );
}

/// A run with three gangs, one of them evicted.
fn gangs(names: [&str; 3], evicted: &str, wants: impl Fn(&str) -> String) -> Report {
    let gang = |name: &&str| {
        let story = if *name == evicted { "4 bound, evicted for x" } else { "4 bound" };
        let state = if *name == evicted { "4 pending" } else { "4 running" };
        let (wants, pods, stories) = (wants(name), counts(state), counts(story));
        ((*name).to_owned(), WorkloadOutcome { scheduling_inputs: wants, pods, histories: stories })
    };
    let workloads = names.iter().map(gang).collect();
    report(vec![case("s", RunOutcome { workloads, ..RunOutcome::default() })])
}

#[test]
fn interchangeable_workloads_may_swap_when_order_is_ignored() {
    let alike = |evicted| gangs(["a", "b", "c"], evicted, |_| "one GPU".to_owned());
    assert_eq!(diff_reports(&alike("a"), &alike("c"), EventOrder::Ignored).differ, []);
    assert_eq!(diff_reports(&alike("a"), &alike("c"), EventOrder::Compared).differ.len(), 1);
    assert_eq!(diff_reports(&alike("a"), &alike("none"), EventOrder::Ignored).differ.len(), 1);
    let unlike = |evicted| gangs(["a", "b", "c"], evicted, str::to_owned);
    assert_eq!(diff_reports(&unlike("a"), &unlike("c"), EventOrder::Ignored).differ.len(), 1);
}

#[test]
fn an_expected_difference_is_set_aside_unless_the_verdict_differs() {
    let known = ExpectedDifferences::parse("Why.\n\n- `f.feature: s`\n- not a scenario\n");
    assert_eq!(known.case_ids().collect::<Vec<_>>(), ["f.feature: s"]);
    let other = || showing("6 running; 2 pending: x", "8 bound", "6 train", "");
    let (a, b) = (report(vec![case("s", packed())]), report(vec![case("s", other())]));
    let result = diff_reports(&a, &b, EventOrder::Ignored).without_expected(&known);
    assert_eq!((result.differ.len(), result.expected.len()), (0, 1));
    let words = diff_text(&result, "a", "b");
    assert!(words.contains("f.feature:3  s  (expected)"), "{words}");
    assert!(words.contains("0 different, 1 different as expected, 0 equal"), "{words}");
    let mut failed = case("s", other());
    failed.outcome = CaseOutcome::Failed;
    let result =
        diff_reports(&a, &report(vec![failed]), EventOrder::Ignored).without_expected(&known);
    assert_eq!((result.differ.len(), result.expected.len()), (1, 0));
}
