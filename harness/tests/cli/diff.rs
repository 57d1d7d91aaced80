//! `schedlab diff` as scripts see it.

use super::lab::Lab;

#[test]
fn two_runs_of_one_scheduler_are_equal() {
    let lab = Lab::of("diff");
    lab.run(&["run", "--results", "a"]);
    lab.run(&["run", "--results", "b", "-j", "1"]);
    let diff = lab.run(&["diff", "a/latest", "b/latest"]);
    assert_eq!(diff.code, 0, "{}", diff.all());
    assert!(diff.out.contains("scenarios: 0 different, 2 equal"), "{}", diff.out);
    lab.run(&["run", "--results", "b", "--name", "A few pods"]);
    let half = lab.run(&["diff", "a/latest", "b/latest"]);
    assert_eq!(half.code, 1, "half of the suite is gone: {}", half.all());
    assert!(half.err.contains("1 scenarios are in one run alone"), "{}", half.err);
    assert_eq!(lab.run(&["diff", "a/latest", "b/latest", "--common"]).code, 0);
}

#[test]
fn another_strategy_is_seen_in_what_the_nodes_hold() {
    let lab = Lab::of("diff");
    lab.run(&["run"]);
    let first = std::fs::read_link(lab.path("results/latest")).unwrap();
    let feature = lab.read("features/strategy.feature");
    lab.write("features/strategy.feature", &feature.replace("\"bin-pack\"", "\"spread\""));
    lab.run(&["run"]);
    let diff = lab.run(&["diff", first.to_str().unwrap(), "latest"]);
    assert_eq!(diff.code, 1, "{}", diff.all());
    let told = diff.out.split_once("\n\n").unwrap().1;
    insta::assert_snapshot!(told, @r#"
    features/strategy.feature:8  A few pods
      steps
        - Given the placement strategy "bin-pack"
        + Given the placement strategy "spread"
      nodes like node-1…4
        - 4 small on one node
        + 1 small on each of 4 nodes

    scenarios: 1 different, 1 equal, 0 in the first run alone, 0 in the second alone
    "#);
    let json = lab.run(&["diff", first.to_str().unwrap(), "latest", "--format", "json"]);
    let json: schedlab_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["differ"][0]["differences"][1]["about"], "nodes like node-1…4");
    assert_eq!(json["equal"], 1);
}

#[test]
fn another_table_below_a_step_is_another_scenario() {
    let lab = Lab::of("diff");
    let submitted = |preemptible: [&str; 2]| {
        let [a, b] = preemptible;
        format!(
            "Feature: Tables\n  Scenario: Both run\n    \
             Given a fleet of 1 node with 8 GPUs each\n    \
             And a queue \"team\" with a quota of 8\n    \
             When these workloads are submitted:\n      \
             | name | kind | queue | pods | gpus | preemptible |\n      \
             | a | job | team | 1 | 1 | {a} |\n      \
             | b | job | team | 1 | 1 | {b} |\n    \
             Then queue \"team\" has 2 running pods\n"
        )
    };
    for (results, preemptible) in [("a", ["yes", "no"]), ("b", ["no", "yes"])] {
        lab.write("features/tables.feature", &submitted(preemptible));
        let ran = lab.run(&["run", "--results", results, "features/tables.feature"]);
        assert_eq!(ran.code, 0, "{}", ran.all());
    }
    let diff = lab.run(&["diff", "a/latest", "b/latest"]);
    let told = diff.out.split_once("\n\n").unwrap().1;
    insta::assert_snapshot!(told, @r"
    features/tables.feature:2  Both run
      steps
        -   | a | job | team | 1 | 1 | yes |
        -   | b | job | team | 1 | 1 | no |
        +   | a | job | team | 1 | 1 | no |
        +   | b | job | team | 1 | 1 | yes |

    scenarios: 1 different, 0 equal, 0 in the first run alone, 0 in the second alone
    ");
    assert_eq!(diff.code, 1, "{}", diff.all());
}

#[test]
fn a_run_must_be_like_the_one_that_it_is_held_against() {
    let lab = Lab::of("diff");
    lab.run(&["run", "--results", "old"]);
    let like = ["run", "--baseline", "old/latest", "--retries", "1"];
    let alike = lab.run(&like);
    assert_eq!(alike.code, 0, "{}", alike.all());
    let feature = lab.read("features/strategy.feature");
    lab.write("features/strategy.feature", &feature.replace("\"bin-pack\"", "\"spread\""));
    let unlike = lab.run(&like);
    assert_eq!(unlike.code, 1, "{}", unlike.all());
    let told = ["not as in old/", "- 4 small on one node", "+ 1 small on each of 4 nodes"];
    assert!(told.iter().all(|line| unlike.out.contains(line)), "{}", unlike.all());
    lab.write("known.md", "- `features/strategy.feature: A few pods`\n");
    let known = lab.run(&[&like[..], &["--expected-differences", "known.md"]].concat());
    assert_eq!(known.code, 0, "{}", known.all());
}

#[test]
fn a_run_that_is_not_there_is_told_with_those_that_are() {
    let lab = Lab::of("diff");
    lab.run(&["run"]);
    let diff = lab.run(&["diff", "latest", "last-week"]);
    assert_eq!(diff.code, 2, "{}", diff.all());
    assert!(diff.err.contains("`last-week` is no run"), "{}", diff.err);
    assert!(diff.err.contains("-seed1"), "{}", diff.err);
    std::fs::create_dir(lab.path("results/old")).expect("a folder can be made");
    lab.write("results/old/report.json", r#"{"seed": 1, "cases": []}"#);
    let old = lab.run(&["diff", "latest", "old"]);
    assert_eq!(old.code, 2, "{}", old.all());
    lab.write("results/old/report.json", "[]");
    assert!(lab.run(&["diff", "latest", "old"]).err.contains("not a report of `schedlab run`"));
}
