use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::*;
use crate::report::WorkloadShowing;

/// `8 running, 4 pending: quota` as counts.
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

fn showing(pods: &str, stories: &str, nodes: &str, order: &str) -> Showing {
    let wants = "one GPU".to_owned();
    let train = WorkloadShowing { wants, pods: counts(pods), stories: counts(stories) };
    Showing {
        workloads: BTreeMap::from([("train".to_owned(), train)]),
        nodes: BTreeMap::from([("node-1…4".to_owned(), listed(nodes))]),
        order: listed(order),
    }
}

fn case(name: &str, showing: Showing) -> CaseReport {
    let id = format!("f.feature: {name}");
    let text = format!(
        r#"{{"id": "{id}", "file": "f.feature", "line": 3, "feature": "f", "name": "{name}",
            "tags": [], "outcome": "passed", "virtual_millis": 1, "steps": []}}"#
    );
    CaseReport { showing: Some(showing), ..serde_json::from_str(&text).unwrap() }
}

fn report(cases: Vec<CaseReport>) -> Report {
    Report { seed: 1, cases, ..Report::default() }
}

fn packed() -> Showing {
    showing("8 running", "8 bound, started", "8 train", "train bound; train started")
}

#[test]
fn equal_runs_differ_in_nothing() {
    let run = || report(vec![case("s", packed())]);
    let diff = diff(&run(), &run(), Order::Counts);
    assert_eq!((diff.differ.len(), diff.equal), (0, 1));
}

#[test]
fn a_run_is_held_against_an_earlier_one_but_for_what_is_known() {
    let other = || {
        let stories = "6 bound, started; 2 never bound";
        case("s", showing("6 running; 2 pending: over quota", stories, "4 train; 2 train", ""))
    };
    let reference = |known: &str| {
        let run = report(vec![case("s", packed())]);
        Reference::new("results/old", &run, Known::read(known), Order::Counts)
    };
    let strict = reference("");
    assert_eq!(strict.unlike(&case("s", packed())), None);
    assert!(strict.has("f.feature: s") && !strict.has("f.feature: new"));
    assert_eq!(strict.unlike(&case("new", packed())), None);
    let unlike = strict.unlike(&other()).unwrap();
    assert!(unlike.starts_with("not as in results/old:\n  pods of train\n    - 8 running\n"));
    assert_eq!(reference("- `f.feature: s`").unlike(&other()), None);
}

#[test]
fn what_differs_is_told_once_and_what_is_equal_not_at_all() {
    let other = showing(
        "6 running; 2 pending: over quota",
        "6 bound, started; 2 never bound",
        "4 train; 2 train",
        "train bound; train started",
    );
    let diff =
        diff(&report(vec![case("s", packed())]), &report(vec![case("s", other)]), Order::Counts);
    assert_snapshot!(text(&diff, "kai", "kube"), @r"
    - kai
    + kube

    f.feature:3  s
      pods of train
        - 8 running
        + 2 pending: over quota
        + 6 running
      what happened to pods of train
        - 8 bound, started
        + 6 bound, started
        + 2 never bound
      nodes like node-1…4
        - 8 train on one node
        + 2 train on one node
        + 4 train on one node

    scenarios: 1 different, 0 equal, 0 in the first run alone, 0 in the second alone
    ");
}

#[test]
fn a_pod_that_came_later_on_one_cluster_is_no_difference_by_itself() {
    let order = |words: &str| Showing { order: listed(words), ..packed() };
    let a = report(vec![case("s", order("infer bound; train bound"))]);
    let b = report(vec![case("s", order("train bound; infer bound"))]);
    assert_eq!(diff(&a, &b, Order::IsChance).differ, []);
    let counted = diff(&a, &b, Order::Counts);
    assert_eq!(counted.differ[0].differences[0].about, "order");
}

#[test]
fn who_shares_a_node_with_whom_is_chance_and_how_full_it_is_is_not() {
    let run = |nodes| report(vec![case("s", Showing { nodes, ..packed() })]);
    let nodes = |text| BTreeMap::from([("node-1…4".to_owned(), listed(text))]);
    let mixed = run(nodes("7 filler, 1 train; 7 filler, 1 train"));
    let apart = run(nodes("6 filler, 2 train; 8 filler"));
    assert_eq!(diff(&mixed, &apart, Order::IsChance).differ, []);
    assert_eq!(diff(&mixed, &apart, Order::Counts).differ.len(), 1);
    let spread = run(nodes("4 filler; 4 filler, 2 train; 6 filler"));
    let told = diff(&mixed, &spread, Order::IsChance);
    let [difference] = told.differ[0].differences.as_slice() else { panic!("{told:?}") };
    assert_eq!(difference.a, ["8 pods on each of 2 nodes"]);
    assert_eq!(difference.b, ["4 pods on one node", "6 pods on each of 2 nodes"]);
}

#[test]
fn scenarios_of_one_run_alone_are_told_and_compared_with_nothing() {
    let a = report(vec![case("s", packed()), case("t", packed())]);
    let mut skipped = case("u", packed());
    skipped.outcome = Outcome::NotRun;
    let b = report(vec![case("s", packed()), skipped]);
    let diff = diff(&a, &b, Order::Counts);
    assert_eq!(diff.only_a, ["f.feature: t"]);
    assert!(diff.only_b.is_empty());
    assert_eq!(diff.equal, 1);
    let a = report(vec![case("s", packed()), case("u", packed())]);
    assert_eq!(super::diff(&a, &b, Order::Counts).only_a, ["f.feature: u"], "it broke off");
    let mut skipped = case("u", packed());
    skipped.outcome = Outcome::Skipped;
    let b = report(vec![case("s", packed()), skipped]);
    let diff = super::diff(&a, &b, Order::Counts);
    assert_eq!((diff.only_a.len(), diff.skipped_b), (0, vec!["f.feature: u".to_owned()]));
}

#[test]
fn a_scenario_that_was_changed_between_the_runs_is_told() {
    let doing = |text: &str| {
        let step =
            format!(r#"{{"keyword": "When ", "text": "{text}", "line": 4, "outcome": "passed"}}"#);
        let steps = vec![serde_json::from_str(&step).unwrap()];
        report(vec![CaseReport { steps, ..case("s", packed()) }])
    };
    let diff = diff(&doing("8 pods run"), &doing("5 pods run"), Order::IsChance);
    let told = text(&diff, "a", "b");
    assert!(told.contains("  steps\n    - When 8 pods run\n    + When 5 pods run\n"), "{told}");
}

/// Gangs of which one was evicted.
fn gangs(names: [&str; 3], evicted: &str, wants: impl Fn(&str) -> String) -> Report {
    let gang = |name: &&str| {
        let story = if *name == evicted { "4 bound, evicted for x" } else { "4 bound" };
        let state = if *name == evicted { "4 pending" } else { "4 running" };
        let (wants, pods, stories) = (wants(name), counts(state), counts(story));
        ((*name).to_owned(), WorkloadShowing { wants, pods, stories })
    };
    let workloads = names.iter().map(gang).collect();
    report(vec![case("s", Showing { workloads, ..Showing::default() })])
}

#[test]
fn which_of_several_workloads_that_ask_for_the_same_was_first_is_chance() {
    let alike = |evicted| gangs(["a", "b", "c"], evicted, |_| "one GPU".to_owned());
    assert_eq!(diff(&alike("a"), &alike("c"), Order::IsChance).differ, []);
    assert_eq!(diff(&alike("a"), &alike("c"), Order::Counts).differ.len(), 1);
    assert_eq!(diff(&alike("a"), &alike("none"), Order::IsChance).differ.len(), 1);
    let unlike = |evicted| gangs(["a", "b", "c"], evicted, str::to_owned);
    assert_eq!(diff(&unlike("a"), &unlike("c"), Order::IsChance).differ.len(), 1);
}

#[test]
fn what_may_differ_is_set_aside_unless_it_failed() {
    let known = Known::read("Why.\n\n- `f.feature: s`\n- not a scenario\n");
    assert_eq!(known.ids().collect::<Vec<_>>(), ["f.feature: s"]);
    let other = || showing("6 running; 2 pending: x", "8 bound", "6 train", "");
    let (a, b) = (report(vec![case("s", packed())]), report(vec![case("s", other())]));
    let told = diff(&a, &b, Order::IsChance).but(&known);
    assert_eq!((told.differ.len(), told.known.len()), (0, 1));
    let words = text(&told, "a", "b");
    assert!(words.contains("f.feature:3  s  (known)"), "{words}");
    assert!(words.contains("0 different, 1 different for a known reason, 0 equal"), "{words}");
    let mut failed = case("s", other());
    failed.outcome = Outcome::Failed;
    let told = diff(&a, &report(vec![failed]), Order::IsChance).but(&known);
    assert_eq!((told.differ.len(), told.known.len()), (1, 0));
}
