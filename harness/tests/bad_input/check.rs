//! `schedlab check` finds without a cluster what `schedlab run` rejects.

use insta::assert_snapshot;

use crate::lab::Lab;
use crate::{FLEET, failures};

const QUEUES: &str = "Given these queues:\n| queue | quota |\n| team-a | 8 |\n| team-b | 8 |\n";

/// What `schedlab check` says about a feature, which must have problems.
fn check(feature: &str) -> String {
    let lab = Lab::empty();
    lab.write("features/f.feature", feature);
    let check = lab.run(&["check", "features"]);
    assert_eq!(check.code, 1, "{}", check.all());
    check.stderr + &check.stdout
}

#[test]
fn an_undefined_step_in_several_places_is_reported_once() {
    let steps = "    Given a flet of 2 nodes\n    Then 16 GPUs are free\n";
    let lab = Lab::empty();
    lab.write(
        "features/f.feature",
        &format!("Feature: f\n  Scenario: a\n{steps}  Scenario: b\n{steps}"),
    );
    lab.write("features/g.feature", &format!("Feature: g\n  Scenario: a\n{steps}"));
    let check = lab.run(&["check"]);
    assert_eq!(check.code, 1, "{}", check.all());
    assert_eq!(check.stderr.matches("no step matches").count(), 1, "{}", check.stderr);
    assert!(
        check.stderr.contains("also at features/f.feature:6, features/g.feature:3\n"),
        "{}",
        check.stderr
    );
    assert_snapshot!(check.stdout, @"3 scenarios in 2 files, 6 steps: 1 problem");
}

#[test]
fn a_misspelt_heading_is_reported_on_its_line() {
    let feature = format!(
        "Feature: f\n  Bakground:\n    {FLEET}  Scenaro: s\n    Then node \"node-1\" is ready\n"
    );
    assert_snapshot!(check(&feature), @r"
    features/f.feature:2: `Bakground:` is not a keyword and would be read as description; did you mean `Background:`?
    features/f.feature:4: `Scenaro:` is not a keyword and would be read as description; did you mean `Scenario:`?
    ");
}

#[test]
fn a_misspelt_tag_is_reported_with_the_one_that_has_a_meaning() {
    let steps = format!("    {FLEET}    Then 8 GPUs are free\n");
    let feature = |tags: &str| format!("Feature: f\n  {tags}\n  Scenario: s\n{steps}");
    assert_snapshot!(check(&feature("@mine @virtualtime")), @"features/f.feature:2: got the tag `@virtualtime`, expected one with a meaning or a name of your own that is not near it; did you mean `@virtual-time`?");
    let lab = Lab::empty();
    lab.write("features/f.feature", &feature("@mine @bug-mine-1 @slow"));
    assert_eq!(lab.run(&["check"]).code, 0);
}

#[test]
fn input_that_a_run_rejects_is_found_without_a_cluster() {
    let steps = format!(
        "{FLEET}{QUEUES}When these workloads are submitted:
| name | knid |
| a | job |
And these workloads are submitted:
| name | kind | queue | node |
| b | jbo | team-a | |
| c | job | taem-a | |
| d | pod | team-b | nodule |
And the manifest \"none.yaml\" is applied"
    );
    let feature = format!("Feature: f\n  Scenario: s\n{steps}\nThen 8 GPUs are free\n");
    assert_snapshot!(check(&feature), @r"
    features/f.feature:9: got column `knid`, expected one of name, kind, queue, pods, gpus, cpu, memory, min, replicas, completion mode, gang, group, policy, topology, disruption, priority, preemptible, run time, startup, termination, exit code, grace, preemption delay, staleness grace, sub-groups, gated, labels, annotations, node selector, node affinity, prefer, together by, apart by, spread by, tolerations, host port, node, scheduler, namespace; did you mean `kind`?
    features/f.feature:13: column `kind`: got jbo, expected pod, gang, job, deployment, statefulset, jobset, trainjob, pytorchjob, raycluster, rayjob, leaderworkerset, podgroup; did you mean `job`?
    features/f.feature:14: column `queue`: got taem-a, expected a queue that exists: team-a, team-b; did you mean `team-a`? Write `taem-a (missing)` if it must not exist
    features/f.feature:15: column `node`: got nodule, expected a node that exists: node-1; write `nodule (missing)` if it must not exist
    features/f.feature:16: fixtures/none.yaml: No such file or directory (os error 2); fixtures are in fixtures/ beside features/
    1 scenario in 1 file, 6 steps: 5 problems
    ");
    let of_queue = "Then the explanation of queue \"taem-a\" says \"quota\"";
    let feature = format!("Feature: f\n  Scenario: s\n{FLEET}{QUEUES}{of_queue}\n");
    assert_snapshot!(check(&feature), @r#"
    features/f.feature:8: queue "taem-a" does not exist and never did; known: team-a, team-b; did you mean `team-a`?
    1 scenario in 1 file, 3 steps: 1 problem
    "#);
}

#[test]
fn workloads_of_queues_and_on_nodes_that_do_not_exist_are_rejected_unless_it_is_meant() {
    let table = |row: &str| {
        format!("When these workloads are submitted:\n| name | queue | node |\n| a | {row} |")
    };
    let pods = "2 pods \"a\" with 1 GPU each";
    let steps = [
        table("taem-a | "),
        table("team-a | nodule"),
        table("team-a (missing) | "),
        table("nowhere (missing) | nodule"),
        format!("When {pods} are submitted to queue \"taem-a\""),
        format!("When a gang \"g\" of {pods} is submitted to queue \"x\"")
            .replace(" \"a\" with", " with"),
        format!("When every 1 minute {pods} that run for 1 minute arrive in queue \"x\""),
        format!("When queue \"team-a\" is deleted\nAnd {pods} are submitted to queue \"team-a\""),
    ];
    let steps = steps.map(|steps| format!("{FLEET}{QUEUES}{steps}"));
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r"
    features/f.feature:10: column `queue`: got taem-a, expected a queue that exists: team-a, team-b; did you mean `team-a`? Write `taem-a (missing)` if it must not exist
    features/f.feature:10: column `node`: got nodule, expected a node that exists: node-1; write `nodule (missing)` if it must not exist
    features/f.feature:10: column `queue`: got team-a (missing), expected a queue that does not exist; did you mean `team-a`?
    features/f.feature:10: column `node`: got nodule, expected a node that exists: node-1; write `nodule (missing)` if it must not exist
    features/f.feature:8: column `queue`: got taem-a, expected a queue that exists: team-a, team-b; did you mean `team-a`? Write `taem-a (missing)` if it must not exist
    features/f.feature:8: column `queue`: got x, expected a queue that exists: team-a, team-b; write `x (missing)` if it must not exist
    features/f.feature:8: column `queue`: got x, expected a queue that exists: team-a, team-b; write `x (missing)` if it must not exist
    features/f.feature:9: column `queue`: got team-a, expected a queue that exists: team-b; did you mean `team-b`? Write `team-a (missing)` if it must not exist
    ");
}
