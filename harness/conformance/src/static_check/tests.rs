//! What the check finds in features given as text.

use insta::assert_snapshot;

use super::*;
use crate::features::load_text;
use crate::steps::catalogue;

const CLUSTER: &str = "Given a fleet of 2 nodes with 8 GPUs each
And these queues:
| queue | quota |
| team-a | 8 |
| team-b | 8 |
";

/// The problems of a scenario of these steps.
fn problems(steps: &str) -> String {
    let text = format!("Feature: f\n  Scenario: s\n{steps}\n");
    let cases = load_text("f.feature", &text, catalogue::is_step).unwrap();
    let lines: Vec<String> = check_cases(&cases).iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn the_patterns_that_create_or_remove_objects_are_in_the_catalogue() {
    let catalogue = all_step_docs();
    let source = include_str!("../static_check.rs");
    let arms = source.lines().map(|line| line.trim().trim_start_matches("| "));
    let patterns = arms.filter_map(|arm| arm.strip_prefix('"')?.split('"').next());
    let patterns: Vec<&str> = patterns.filter(|pattern| pattern.contains(' ')).collect();
    assert!(patterns.len() > 10, "{patterns:?}");
    for pattern in patterns {
        assert!(catalogue.iter().any(|doc| doc.pattern == pattern), "{pattern}");
    }
}

#[test]
fn invalid_columns_kinds_and_cells_are_found_row_by_row() {
    assert_snapshot!(problems(&format!("{CLUSTER}When these workloads are submitted:
| name | kind | queue | gpus |
| a | gnag | team-a | 1 |
| b | job | team-a | -1 |
And these workloads are submitted:
| name | quue |
| c | team-a |
Given a fleet:
| pol |
| a |
")), @r"
    f.feature:10: column `kind`: got gnag, expected pod, gang, job, deployment, statefulset, jobset, trainjob, pytorchjob, raycluster, rayjob, leaderworkerset, podgroup; did you mean `gang`?
    f.feature:11: column `gpus`: got -1, expected a whole number from 0 to 4294967295
    f.feature:13: got column `quue`, expected one of name, kind, queue, pods, gpus, cpu, memory, min, replicas, completion mode, gang, group, policy, topology, disruption, priority, preemptible, run time, startup, termination, exit code, grace, preemption delay, staleness grace, sub-groups, gated, labels, annotations, node selector, node affinity, prefer, together by, apart by, spread by, tolerations, host port, node, scheduler, namespace; did you mean `queue`?
    f.feature:16: got column `pol`, expected one of pool, nodes, gpus, gpu model, gpu memory, gpus by, cpu, memory, pods, labels, taints; did you mean `pool`?
    ");
}

#[test]
fn references_to_queues_and_nodes_that_do_not_exist_are_found_at_their_row() {
    assert_snapshot!(problems(&format!("{CLUSTER}When these workloads are submitted:
| name | queue | node |
| a | taem-a | node-1 |
| b | team-b | node-9 |
| c | nowhere (missing) | node-1 |
| d | team-a (missing) | |
And 2 pods \"e\" with 1 GPU each are submitted to queue \"taem-b\"
And a gang \"g\" of 2 pods with 1 GPU each is submitted to queue \"x\"
And 2 non-preemptible pods \"f\" with 1 GPU each are submitted to queue \"x (missing)\"
And every 10 minutes 4 pods \"s\" with 1 GPU each that run for 15 minutes arrive in queue \"x\"
Given these queues:
| queue | parent |
| team-c | departmnt |
")), @r"
    f.feature:10: column `queue`: got taem-a, expected a queue that exists: team-a, team-b; did you mean `team-a`? Write `taem-a (missing)` if it must not exist
    f.feature:11: column `node`: got node-9, expected a node that exists: node-1, node-2; write `node-9 (missing)` if it must not exist
    f.feature:13: column `queue`: got team-a (missing), expected a queue that does not exist; did you mean `team-a`?
    f.feature:14: column `queue`: got taem-b, expected a queue that exists: team-a, team-b; did you mean `team-b`? Write `taem-b (missing)` if it must not exist
    f.feature:15: column `queue`: got x, expected a queue that exists: team-a, team-b; write `x (missing)` if it must not exist
    f.feature:17: column `queue`: got x, expected a queue that exists: team-a, team-b; write `x (missing)` if it must not exist
    f.feature:20: column `parent`: got departmnt, expected a queue that exists: team-a, team-b
    ");
}

#[test]
fn subjects_that_never_existed_are_found() {
    assert_snapshot!(problems(&format!("{CLUSTER}When queue \"team-b\" is deleted
And node \"node-3\" dies
And queue \"team-a\" moves under \"department\"
Then the explanation of queue \"taem-a\" says \"quota\"
And queue \"team-b\" has no running pods
And pod \"a\" is not on node \"node-x\"
And an event of queue \"team-a\" says \"the node 'x' of queue\"
")), @r#"
    f.feature:9: node "node-3" does not exist and never did; known: node-1, node-2
    f.feature:10: queue "department" does not exist and never did; known: team-a, team-b
    f.feature:11: queue "taem-a" does not exist and never did; known: team-a, team-b; did you mean `team-a`?
    f.feature:13: node "node-x" does not exist and never did; known: node-1, node-2; did you mean `node-1`?
    "#);
}

#[test]
fn a_deleted_queue_takes_no_workloads_until_it_is_created_again() {
    let submit = "1 pod \"a\" with 1 GPU each is submitted to queue \"team-a\"";
    assert_snapshot!(problems(&format!("{CLUSTER}When queue \"team-a\" is deleted
And {submit}
And a queue \"team-a\" with a quota of 8 is created
And {submit}
And node \"node-1\" is deleted
And these workloads are submitted:
| name | node |
| b | node-1 |
And node \"node-1\" is added again
And these workloads are submitted:
| name | node |
| b | node-1 |
")), @r"
    f.feature:9: column `queue`: got team-a, expected a queue that exists: team-b; did you mean `team-b`? Write `team-a (missing)` if it must not exist
    f.feature:15: column `node`: got node-1, expected a node that exists: node-2; write `node-1 (missing)` if it must not exist
    ");
}

#[test]
fn queues_and_nodes_of_manifests_are_known() {
    let queue = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: own}";
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: mine}";
    assert_eq!(
        problems(&format!(
            "Given this manifest is applied:
\"\"\"yaml
{queue}
---
{node}
\"\"\"
When these workloads are submitted:
| name | queue | node |
| a | own | mine |
Then queue \"own\" has no running pods
"
        )),
        ""
    );
}

#[test]
fn names_are_not_checked_after_a_step_that_cannot_be_read() {
    let after = "When 1 pod \"a\" with 1 GPU each is submitted to queue \"own\"";
    let undefined = problems(&format!("Given some queues fall from heaven\n{after}"));
    assert_eq!(undefined, "");
    let generated = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {generateName: own}";
    let generated =
        format!("Given this manifest is applied:\n\"\"\"\n{generated}\n\"\"\"\n{after}");
    assert_eq!(problems(&generated), "");
    assert_snapshot!(problems(&format!("Given these queues:\n| queue | quota |\n| own | x |\n{after}")), @"f.feature:5: column `quota`: got x, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`");
}

#[test]
fn a_problem_of_a_background_is_reported_once() {
    let text = "Feature: f
  Background:
    Given a fleet of 0 nodes with 8 GPUs each
  Scenario: one
    Then 0 GPUs are free
  Scenario: two
    Then 0 GPUs are free
";
    let cases = load_text("f.feature", text, catalogue::is_step).unwrap();
    let problems = check_cases(&cases);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_snapshot!(problems[0], @"f.feature:3: column `nodes`: got 0, expected a whole number from 1 to 100000");
}
