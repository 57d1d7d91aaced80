//! Output and exit codes of `schedlab diff`.

use super::lab::Lab;

#[test]
fn two_runs_of_one_scheduler_are_equal() {
    let lab = Lab::from_fixture("diff");
    lab.run(&["run", "--results", "a"]);
    lab.run(&["run", "--results", "b", "-j", "1"]);
    let diff = lab.run(&["diff", "a/latest", "b/latest"]);
    assert_eq!(diff.code, 0, "{}", diff.all());
    assert!(diff.stdout.contains("scenarios: 0 different, 2 equal"), "{}", diff.stdout);
    lab.run(&["run", "--results", "b", "--name", "A few pods"]);
    let half = lab.run(&["diff", "a/latest", "b/latest"]);
    assert_eq!(half.code, 1, "half of the suite is missing: {}", half.all());
    assert!(half.stderr.contains("1 scenario in one run only"), "{}", half.stderr);
    assert_eq!(lab.run(&["diff", "a/latest", "b/latest", "--common"]).code, 0);
}

#[test]
fn another_strategy_changes_the_pods_per_node() {
    let lab = Lab::from_fixture("diff");
    lab.run(&["run"]);
    let first = std::fs::read_link(lab.path("results/latest")).unwrap();
    let feature = lab.read("features/strategy.feature");
    lab.write("features/strategy.feature", &feature.replace("\"bin-pack\"", "\"spread\""));
    lab.run(&["run"]);
    let diff = lab.run(&["diff", first.to_str().unwrap(), "latest"]);
    assert_eq!(diff.code, 1, "{}", diff.all());
    let differences = diff.stdout.split_once("\n\n").unwrap().1;
    insta::assert_snapshot!(differences, @r#"
    features/strategy.feature:8  A few pods
      steps
        - Given the placement strategy "bin-pack"
        + Given the placement strategy "spread"
      nodes like node-1…4
        - 4 small on one node
        + 1 small on each of 4 nodes

    scenarios: 1 different, 1 equal, 0 in the first run only, 0 in the second only
    "#);
    let json = lab.run(&["diff", first.to_str().unwrap(), "latest", "--format", "json"]);
    let json: schedlab_api::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["differ"][0]["differences"][1]["about"], "nodes like node-1…4");
    assert_eq!(json["equal"], 1);
}

#[test]
fn a_changed_step_table_is_a_difference() {
    let lab = Lab::from_fixture("diff");
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
        let run = lab.run(&["run", "--results", results, "features/tables.feature"]);
        assert_eq!(run.code, 0, "{}", run.all());
    }
    let diff = lab.run(&["diff", "a/latest", "b/latest"]);
    let differences = diff.stdout.split_once("\n\n").unwrap().1;
    insta::assert_snapshot!(differences, @r"
    features/tables.feature:2  Both run
      steps
        -   | a | job | team | 1 | 1 | yes |
        -   | b | job | team | 1 | 1 | no |
        +   | a | job | team | 1 | 1 | no |
        +   | b | job | team | 1 | 1 | yes |

    scenarios: 1 different, 0 equal, 0 in the first run only, 0 in the second only
    ");
    assert_eq!(diff.code, 1, "{}", diff.all());
}

#[test]
fn a_run_must_match_its_baseline() {
    let lab = Lab::from_fixture("diff");
    lab.run(&["run", "--results", "old"]);
    let baseline_args = ["run", "--baseline", "old/latest", "--retries", "1"];
    let same = lab.run(&baseline_args);
    assert_eq!(same.code, 0, "{}", same.all());
    let feature = lab.read("features/strategy.feature");
    lab.write("features/strategy.feature", &feature.replace("\"bin-pack\"", "\"spread\""));
    let changed = lab.run(&baseline_args);
    assert_eq!(changed.code, 1, "{}", changed.all());
    let expected =
        ["differs from the baseline old/", "- 4 small on one node", "+ 1 small on each of 4 nodes"];
    assert!(expected.iter().all(|line| changed.stdout.contains(line)), "{}", changed.all());
    lab.write("known.md", "- `features/strategy.feature: A few pods`\n");
    let known = lab.run(&[&baseline_args[..], &["--expected-differences", "known.md"]].concat());
    assert_eq!(known.code, 0, "{}", known.all());
}

#[test]
fn a_missing_run_is_reported_with_the_existing_runs() {
    let lab = Lab::from_fixture("diff");
    lab.run(&["run"]);
    let diff = lab.run(&["diff", "latest", "last-week"]);
    assert_eq!(diff.code, 2, "{}", diff.all());
    assert!(diff.stderr.contains("got run `last-week`, expected a folder"), "{}", diff.stderr);
    assert!(diff.stderr.contains("-seed1"), "{}", diff.stderr);
    std::fs::create_dir(lab.path("results/old")).expect("a folder can be created");
    lab.write("results/old/report.json", r#"{"seed": 1, "cases": []}"#);
    let old = lab.run(&["diff", "latest", "old"]);
    assert_eq!(old.code, 2, "{}", old.all());
    lab.write("results/old/report.json", "[]");
    assert!(lab.run(&["diff", "latest", "old"]).stderr.contains("not a report of `schedlab run`"));
}
