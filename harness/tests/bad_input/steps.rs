//! Sentences that say what cannot be.

use insta::assert_snapshot;

use crate::{FLEET, all_told};

#[test]
fn amounts_of_nothing_and_less() {
    let steps = [
        "When every 0 seconds 1 pods \"x\" with 1 GPU each that run for 15 minutes arrive in queue \"a\"",
        "When every 1 second 0 pods \"x\" with 1 GPU each that run for 15 minutes arrive in queue \"a\"",
        "When 0 pods \"x\" with 1 GPU each are submitted to queue \"a\"",
        "When 0 non-preemptible pods \"x\" with 1 GPU each are submitted to queue \"a\"",
        "When a gang \"g\" of 0 pods with 1 GPU each is submitted to queue \"a\"",
        "When these workloads are submitted:\n| name | pods |\n| x | 0 |",
        "When these workloads are submitted:\n| name | kind | pods | min |\n| x | gang | 2 | 5 |",
        "When these workloads are submitted:\n| name | kind | pods | min |\n| x | job | 2 | 5 |",
        "Given a scheduling period of 0 seconds",
        "Given fairness over time with a window of 0 hours and k 1",
        "Given fairness over time with a window of 1 hour and k -1",
        "Given fairness over time with a window of 1 hour and k 1e300",
        "Given past use counts for half after 1 hour",
        "Given fairness over time with a window of 1 hour and k 1\nAnd past use counts for half after 0 hours",
        "Given at most 0 preemptions a cycle",
        "Given preemption by a priority that is higher by at least -5",
        "When the scheduler dies before its write number 0",
        "When the scheduler dies before its write number 0 and is restarted",
        "When the scheduler dies after every 0 writes",
        "Given these queues:\n| queue | reclaim min runtime |\n| q | 5 |",
        "When these workloads are submitted:\n| name | kind | run time |\n| x | pod | 10 |",
    ];
    let steps = steps.map(|steps| format!("{FLEET}{steps}"));
    assert_snapshot!(all_told(&steps.each_ref().map(String::as_str)), @"
    features/f.feature:4: every: got 0 seconds, expected a length of time of more than 0 seconds
    features/f.feature:4: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:4: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:4: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:4: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:6: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:6: column `min`: got 5, expected a whole number from 0 to 2
    features/f.feature:6: column `min`: got 5, expected a whole number from 1 to 2
    features/f.feature:4: period: got 0 seconds, expected a length of time of more than 0 seconds
    features/f.feature:4: window: got 0 hours, expected a length of time of more than 0 seconds
    features/f.feature:4: k: got -1, expected a number from 0 to 1000
    features/f.feature:4: k: got 1e300, expected a number from 0 to 1000
    features/f.feature:4: got no fairness over time before this step, expected one: what was used without a window is forgotten at once
    features/f.feature:5: time: got 0 hours, expected a length of time of more than 0 seconds
    features/f.feature:4: most: got 0, expected a whole number from 1 to 2147483647
    features/f.feature:4: least: got -5, expected a whole number from 1 to 2147483647
    features/f.feature:4: write: got 0, expected a whole number from 1 to 2147483647
    features/f.feature:4: write: got 0, expected a whole number from 1 to 2147483647
    features/f.feature:4: writes: got 0, expected a whole number from 1 to 2147483647
    features/f.feature:6: column `reclaim min runtime`: got 5, expected a duration such as 90s or 1h30m
    features/f.feature:6: column `run time`: got 10, expected a duration such as 90s or 1h30m
    ");
}

#[test]
fn nodes_and_queues_that_never_were() {
    let faults = [
        "node \"node-7\" dies",
        "node \"node-7\" returns",
        "node \"node-7\" is deleted",
        "node \"node-7\" is cordoned",
        "node \"node-7\" is uncordoned",
        "node \"node-7\" is drained",
        "node \"node-7\" is tainted with \"gpu=broken:NoExecute\"",
        "the taint \"gpu\" of node \"node-7\" is removed",
        "the label \"rack\" of node \"node-7\" becomes \"r2\"",
        "the quota of queue \"b\" becomes 16",
        "queue \"b\" moves under \"a\"",
        "queue \"b\" is deleted",
    ];
    let steps =
        faults.map(|fault| format!("{FLEET}And a queue \"a\" with a quota of 1\nWhen {fault}"));
    let told = all_told(&steps.each_ref().map(String::as_str));
    let node =
        "features/f.feature:5: there is no node \"node-7\" and there was none; known are: node-1";
    let queue = "features/f.feature:5: there is no queue \"b\" and there was none; known are: a";
    assert_eq!(told, [[node; 9].join("\n"), [queue; 3].join("\n")].join("\n"));
}

#[test]
fn claims_that_only_sound_as_if_they_held() {
    let reclaimed = "Given these queues:\n| queue | quota |\n| q | 4 |\n| r | 4 |\nAnd these workloads are submitted:\n| name | kind | queue | pods | gpus | priority |\n| a | deployment | q | 8 | 1 | train |\nAnd queue \"q\" has 8 running pods\nWhen 4 pods \"o\" with 1 GPU each are submitted to queue \"r\"\nThen eventually within 2 minutes queue \"r\" has 4 running pods\nAnd 4 pods of queue \"q\" were evicted for queue \"r\"\nAnd 4 pods of deployment \"a\" were evicted for pod \"o\"\n";
    let claims = [
        "And 4 pods of queue \"q\" were evicted for queue \"q\"",
        "And 4 pods of deployment \"a\" were evicted for deployment \"a\"",
        "And gang \"o\" is whole or absent",
        "And pod \"o-0\" is whole or absent",
        "And the field \"status.podIPz\" of pod \"o-0\" is \"\"",
        "And the field \"status.allocatd.cpu\" of queue \"q\" is \"\"",
        "And never within 1 hour the field \"status.replicas\" of deployment \"a\" is \"8\"",
        "And never within 1 hour the field \"status.phase\" of pod \"o\" is \"Running\"",
        "And never within 1 hour the field \"status.phas\" of pod \"o-0\" is \"Running\"",
        "And never within 1 hour pod \"o-0\" is within 1 \"rackk\"",
    ];
    let steps = claims.map(|claim| format!("{FLEET}{reclaimed}{claim}"));
    let told = all_told(&steps.each_ref().map(String::as_str));
    let verdict = |line: &&str| {
        ["expected", "no gang", "no field", "allowed", "no pod", "no node ever"]
            .iter()
            .any(|words| line.contains(words))
    };
    let verdicts: Vec<&str> = told.lines().filter(verdict).map(str::trim_end).collect();
    assert_snapshot!(verdicts.join("\n"), @r#"
    expected 4 pods of queue "q" evicted for queue "q", found 0; evicted were:
    expected 4 pods of deployment "a" evicted for deployment "a", found 0; evicted were:
    gang "o" is no gang: 4 pods in 4 groups, each of which needs one pod only
    pod "o-0" is no gang: its group of 1 needs one pod only
    status.podIPz of pod "o-0" is no field of a Pod
    status.allocatd.cpu of queue "q" is no field of a Queue
    got deployment "a", expected a queue, pod, node or claim, or a gang or workload, which is its pod group
    there is no pod "o" and there was none
    status.phas of pod "o-0" is no field of a Pod
    no node ever had a label "rackk": nothing is within one
    "#);
}

#[test]
fn gpus_in_parts_are_in_use() {
    let shared = "Given a queue \"q\" with a quota of 8\nAnd these workloads are submitted:\n| name | queue | annotations |\n| half | q | gpu-fraction=0.5 |\nAnd pod \"half\" is running\n";
    let claims = ["8 GPUs are free", "1 node has no GPU in use", "node \"node-1\" has 8 free GPUs"];
    let steps = claims.map(|claim| format!("{FLEET}{shared}Then {claim}"));
    let told = all_told(&steps.each_ref().map(String::as_str));
    let verdicts: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("expected") || line.starts_with("nodes with"))
        .collect();
    assert_snapshot!(verdicts.join("\n"), @r"
    expected 8 free GPUs, found 7
    nodes with no GPU in use: 0 ()
    expected 8 free GPUs, found 7
    ");
}

#[test]
fn work_arrives_under_names_of_its_own() {
    let arrive = "When every 1 minute 1 pod \"s\" with 1 GPU each that runs for 10 seconds arrives in queue \"q\"\n";
    let queue = "Given a queue \"q\" with a quota of 8\n";
    let steps = [
        format!("{FLEET}{queue}{arrive}{arrive}"),
        format!("{FLEET}{queue}{arrive}And no more pods \"s\" arrive\n{arrive}"),
        format!(
            "{FLEET}{queue}When 1 pod \"s-0\" with 1 GPU each is submitted to queue \"q\"\n{arrive}And 5 minutes pass"
        ),
    ];
    assert_snapshot!(all_told(&steps.each_ref().map(String::as_str)), @r#"
    got "s" again, expected a name under which no work arrived yet
    got "s" again, expected a name under which no work arrived yet
    no more work arrives as "s": Pod default/s-0-0: pods "s-0-0" already exists (AlreadyExists)
    "#);
}

#[test]
fn a_word_for_a_kind_means_that_kind_alone() {
    let named = "Given these queues:\n| queue | quota |\n| web | 8 |\nAnd these workloads are submitted:\n| name | kind | queue | pods | gpus |\n| web | deployment | web | 2 | 1 |\n| web | job | web | 2 | 1 |\nAnd queue \"web\" has 4 running pods\n";
    let claims = [
        "Then job \"web\" has 4 running pods",
        "When job \"web\" is deleted\nThen deployment \"web\" has 1 running pod",
        "When workload \"web\" is deleted\nThen queue \"web\" has 4 running pods",
    ];
    let steps = claims.map(|claim| format!("{FLEET}{named}{claim}"));
    let told = all_told(&steps.each_ref().map(String::as_str));
    let verdicts = told.lines().filter(|line| line.starts_with("expected"));
    let verdicts: Vec<&str> = verdicts.filter_map(|line| line.split(": ").next()).collect();
    assert_snapshot!(verdicts.join("\n"), @r#"
    expected 4 running pods of job "web", found 2
    expected 1 running pods of deployment "web", found 2
    expected 4 running pods of queue "web", found 0
    "#);
}

#[test]
fn the_first_start_counts_though_its_pod_is_gone() {
    let steps = "Given a queue \"q\" with a quota of 8\nAnd these workloads are submitted:\n| name | kind | queue | pods | gpus |\n| x | job | q | 1 | 1 |\nAnd job \"x\" is running\nWhen 2 minutes pass\nAnd 1 pods \"y\" with 1 GPU each are submitted to queue \"q\"\nAnd 10 seconds pass\nAnd 1 pod of job \"x\" is deleted\nThen pod \"y\" started before job \"x\"";
    let told = all_told(&[&format!("{FLEET}{steps}")]);
    assert!(told.starts_with("pod \"y\" started at 2"), "{told}");
}

#[test]
fn claims_about_nobody_and_bounds_that_all_keep() {
    let claims = [
        "Given queue \"typo\" has no running pods",
        "Given gang \"typo\" is gone",
        "Then queue \"\" has no running pods",
        "Then workload '' has no running pods",
        "Then node \"\" is gone",
        "Then claim \"nope\" has no running pods",
        "Then an event of queue \"\" says \"Created\"",
        "Then queue \"a\" has at least no running pods",
        "Then at least 0 pods of queue \"a\" were evicted",
        "Then 99999999999999999999 nodes have no GPU in use",
        "Then this manifest is refused with \"\":\n\"\"\"\nkind: x\n\"\"\"",
    ];
    let steps = claims.map(|claim| format!("{FLEET}And a queue \"a\" with a quota of 1\n{claim}"));
    assert_snapshot!(all_told(&steps.each_ref().map(String::as_str)), @r#"
    there is no queue "typo" and there was none; known are: a
    there is no gang "typo" and there was none; submitted were: none
    features/f.feature:5: subject: got queue "", expected the name of a queue
    features/f.feature:5: subject: got workload '', expected the name of a workload
    there is no node "" and there was none; known are: node-1
    there is no claim "nope" and there was none; known are: none
    features/f.feature:5: subject: got queue "", expected the name of a queue
    features/f.feature:5: tally: got at least no, which all are; expected `at least 1` or more
    features/f.feature:5: count: got at least 0, which all are; expected `at least 1` or more
    features/f.feature:5: count: got 99999999999999999999, expected a whole number from 0 to 18446744073709551615
    found "", which every text contains; name some words
    "#);
}

#[test]
fn single_quotes_mean_the_same() {
    let claims = [
        "Then node 'nope' is gone",
        "Then never within 1 minute node 'node-1' is ready",
        "Then node 'node-1' is cordoned",
        "Then queue 'typo' uses 0 GPUs",
        "Then never within 1 minute node 'nope' has 4 free GPUs",
        "Then queue 'typo' has no running pods",
        "Then now gang 'g' is gone",
    ];
    let steps = claims.map(|claim| format!("{FLEET}And a queue \"a\" with a quota of 1\n{claim}"));
    let told = all_told(&steps.each_ref().map(String::as_str));
    let told: Vec<&str> = told.lines().filter(|line| !line.starts_with("(at")).collect();
    assert_snapshot!(told.join("\n"), @r#"
    there is no node 'nope' and there was none; known are: node-1
    it came to be, and never should have
    node "node-1" is ready, expected cordoned
    there is no queue 'typo' and there was none; known are: a
    there is no node 'nope' and there was none; known are: node-1
    there is no queue 'typo' and there was none; known are: a
    there is no gang 'g' and there was none; submitted were: none
    "#);
}

#[test]
fn claims_about_others() {
    let steps = [
        "And these workloads are submitted:\n| name | kind | queue | pods | gpus |\n| a | job | b | 2 | 1 |\nThen an event of queue \"a\" says \"SuccessfulCreate\"",
        "And the label \"rack\" of node \"node-1\" becomes \"r1\"\nAnd a node \"n2\" with 8 GPUs is added\nAnd a gang \"g\" of 16 pods with 1 GPU each is submitted to queue \"a\"\nThen gang \"g\" is within 1 \"rack\"",
    ];
    let queues = "Given a queue \"a\" with a quota of 16\nAnd a queue \"b\" with a quota of 16\n";
    let steps = steps.map(|steps| format!("{FLEET}{queues}{steps}"));
    let told = all_told(&steps.each_ref().map(String::as_str));
    let told: Vec<&str> =
        told.lines().filter(|line| line.starts_with(['n', 'p'])).map(str::trim_end).collect();
    assert_snapshot!(told.join("\n"), @r#"
    no event of queue "a" says "SuccessfulCreate"; they say:
    pod "g-0" is on node "n2", which has no label "rack"
    "#);
}

#[test]
fn a_pod_group_that_cannot_be_changed_so_and_a_pod_that_cannot_be_drained() {
    let gang = "And a gang \"g\" of 2 pods with 1 GPU each is submitted to queue \"a\"\nAnd gang \"g\" is running\n";
    let change = |text: &str| {
        format!("{gang}When the pod group of gang \"g\" becomes:\n\"\"\"yaml\n{text}\n\"\"\"")
    };
    let budget = "And this manifest is applied:\n\"\"\"yaml\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: keep, namespace: default}\nspec: {minAvailable: 2, selector: {}}\n\"\"\"";
    let steps = [
        change("spec: {minMembr: 4}"),
        change("spec: {minMember: many}"),
        change("spec: ["),
        change(""),
        format!("{gang}{budget}\nWhen node \"node-1\" is drained"),
        format!("{gang}When pods of gang \"g\" run for 0.5 ms"),
    ];
    let steps = steps.map(|steps| format!("{FLEET}And a queue \"a\" with a quota of 8\n{steps}"));
    assert_snapshot!(all_told(&steps.each_ref().map(String::as_str)), @r#"
    features/f.feature:9: PodGroup g: found the unknown field spec.minMembr, allowed beside it are markUnschedulable, minMember, minSubGroup, preemptibility, preemptionDelay, priorityClassName, queue, schedulingBackoff, stalenessGracePeriod, subGroups, topologyConstraint
    features/f.feature:9: /apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/g: PodGroup.scheduling.run.ai "g" is invalid: spec.minMember: Invalid value: "string": spec.minMember in body must be of type integer: "string" (Invalid)
    features/f.feature:9: not YAML that can be read: unclosed bracket '['
    features/f.feature:8: got no fields, expected one or more
    node "node-1" is not drained after 5 minutes: pod default/g-0: Cannot evict pod as it would violate the pod's disruption budget. (TooManyRequests)
    features/f.feature:7: got 500µs, expected a whole number of milliseconds
    "#);
}

#[test]
fn what_is_undone_was_done_and_nothing_lasts_for_no_time() {
    let steps = [
        "When node \"node-1\" returns",
        "When node \"node-1\" is added again",
        "When node \"node-1\" is uncordoned",
        "When the taint \"gpu\" of node \"node-1\" is removed",
        "Given a queue \"q\" with a quota of 1\nWhen queue \"q\" moves under \"nowhere\"",
        "When 0 cycles pass",
        "Then never within 0 seconds node \"node-1\" is cordoned",
        "Then no pods of the cluster were evicted and stays so for 0 cycles",
        "Then never within 1 minute node \"node-1\" is cordoned and stays so for 5 cycles",
        "Given a priority class \"urgent\" with value 90\nAnd a priority class \"urgent\" with value 200",
        "Given this status is written:\n\"\"\"\napiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n\"\"\"",
        "Given a queue \"top\" with a quota of 1\nAnd these queues:\n| queue | parent |\n| leaf | top |\nWhen queue \"top\" moves under \"leaf\"",
        "Given a queue \"q\" with a quota of 1\nWhen 1 pods \"x\" with 1 GPU each are submitted to queue \"q\"\nAnd pod \"x\" is submitted again",
        "Given a queue \"q\" with a quota of 1\nWhen 1 pods \"x\" with 1 GPU each are submitted to queue \"q\"\nThen pod \"x\" is within 0 \"rack\"",
    ];
    let steps = steps.map(|steps| format!("{FLEET}{steps}"));
    assert_snapshot!(all_told(&steps.each_ref().map(String::as_str)), @r#"
    got node "node-1", expected one that died
    got node "node-1", expected one that is there no more
    got node "node-1", expected one that is cordoned
    got no taint "gpu" on node "node-1", expected one of its
    features/f.feature:5: there is no queue "nowhere" and there was none; known are: q
    got 0 cycles, expected at least one
    features/f.feature:4: when: got never within 0 seconds, expected more than 0 seconds
    features/f.feature:4: stays: got 0 cycles, expected at least one
    got `never within` with `and stays so`, expected one of them: never says for how long
    features/f.feature:5: PriorityClass urgent: value: got 200, expected 90: the class exists
    features/f.feature:6: Node node-1: status: got nothing, expected a status
    features/f.feature:8: column `parent`: got the circle top below leaf below top, expected a tree
    got Pod default/x-0 there and not leaving, expected what is gone or was deleted
    no node has a label "rack"
    (at +4.002s)
    "#);
}

/// A step that changes nothing is a slip of the pen: what follows it would hold without it.
#[test]
fn steps_that_change_nothing() {
    let begin = "Given a queue \"top\" with a quota of 8\nAnd these queues:\n| queue | parent | quota |\n| q | top | 4 |\nAnd these workloads are submitted:\n| name | kind | queue | pods |\n| a | pod | q | 1 |\n| web | deployment | q | 1 |\n| g | gang | q | 2 |\nAnd everything has settled\n";
    let steps = [
        "When the gates of pod \"a\" are lifted",
        "When pods of pod \"a\" run for 0 seconds\nAnd 1 minute passes\nAnd pods of pod \"a\" run for 1 hour",
        "When deployment \"web\" is scaled to 1",
        "When the label \"x\" of pod \"a\" becomes \"y\"\nAnd the label \"x\" of pod \"a\" becomes \"y\"",
        "When the pod group of gang \"g\" becomes:\n\"\"\"yaml\nspec: {minMember: 2}\n\"\"\"",
        "When pod \"a\" is deleted\nAnd 1 minute passes\nAnd pod \"a\" is deleted",
        "When node \"node-1\" is cordoned\nAnd node \"node-1\" is cordoned",
        "When node \"node-1\" dies\nAnd node \"node-1\" dies",
        "When the label \"x\" of node \"node-1\" becomes \"y\"\nAnd the label \"x\" of node \"node-1\" becomes \"y\"",
        "When the quota of queue \"q\" becomes 4",
        "When queue \"q\" moves under \"top\"",
        "When the scheduler is started",
        "When the scheduler is stopped\nAnd the scheduler is stopped",
        "When the scheduler is stopped\nAnd the scheduler is restarted",
        "When the scheduler dies before its write number 9999\nThen queue \"q\" has 4 running pods",
    ];
    let steps = steps.map(|steps| format!("{FLEET}{begin}{steps}"));
    assert_snapshot!(all_told(&steps.each_ref().map(String::as_str)), @r#"
    got all pods of pod "a" so already, expected a change
    got no pod of pod "a" that runs or will, expected one
    /apis/apps/v1/namespaces/default/deployments/web: got all of this so already, expected a change
    got all pods of pod "a" so already, expected a change
    features/f.feature:16: /apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/g: got all of this so already, expected a change
    found nothing of pod "a" there, it was deleted before
    /api/v1/nodes/node-1: got all of this so already, expected a change
    /api/v1/nodes/node-1: got all of this so already, expected a change
    /api/v1/nodes/node-1: got all of this so already, expected a change
    /apis/scheduling.run.ai/v2/queues/q: got all of this so already, expected a change
    /apis/scheduling.run.ai/v2/queues/q: got all of this so already, expected a change
    features/f.feature:14: got a scheduler that runs, expected one that was stopped or has died
    features/f.feature:15: got no scheduler, expected one that runs
    features/f.feature:15: got no scheduler, expected one that runs
    features/f.feature:14: the scheduler did not die: until the end it wrote less often than that
    "#);
}
