//! Steps with impossible arguments, and steps without an effect.

use insta::assert_snapshot;

use crate::{FLEET, failures};

#[test]
fn zero_and_negative_amounts_are_rejected() {
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
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r"
    features/f.feature:4: every: got 0 seconds, expected a duration of more than 0 seconds
    features/f.feature:4: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:4: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:4: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:4: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:6: column `pods`: got 0, expected a whole number from 1 to 100000
    features/f.feature:6: column `min`: got 5, expected a whole number from 0 to 2
    features/f.feature:6: column `min`: got 5, expected a whole number from 1 to 2
    features/f.feature:4: period: got 0 seconds, expected a duration of more than 0 seconds
    features/f.feature:4: window: got 0 hours, expected a duration of more than 0 seconds
    features/f.feature:4: k: got -1, expected a number from 0 to 1000
    features/f.feature:4: k: got 1e300, expected a number from 0 to 1000
    features/f.feature:4: got no step `fairness over time` before this one, expected one: without a window past usage does not count
    features/f.feature:5: time: got 0 hours, expected a duration of more than 0 seconds
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
fn unknown_nodes_and_queues_are_rejected() {
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
    let messages = failures(&steps.each_ref().map(String::as_str));
    let node = "features/f.feature:5: node \"node-7\" does not exist and never did; known: node-1";
    let queue = "features/f.feature:5: queue \"b\" does not exist and never did; known: a";
    assert_eq!(messages, [[node; 9].join("\n"), [queue; 3].join("\n")].join("\n"));
}

#[test]
fn misleading_assertions_fail() {
    let reclaimed = "Given these queues:\n| queue | quota |\n| q | 4 |\n| r | 4 |\nAnd these workloads are submitted:\n| name | kind | queue | pods | gpus | priority |\n| a | deployment | q | 8 | 1 | train |\nAnd queue \"q\" has 8 running pods\nWhen 4 pods \"o\" with 1 GPU each are submitted to queue \"r\"\nThen eventually within 2 minutes queue \"r\" has 4 running pods\nAnd 4 pods of queue \"q\" were evicted for queue \"r\"\nAnd 4 pods of deployment \"a\" were evicted for pod \"o\"\n";
    let assertions = [
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
    let steps = assertions.map(|claim| format!("{FLEET}{reclaimed}{claim}"));
    let messages = failures(&steps.each_ref().map(String::as_str));
    let verdict = |line: &&str| {
        ["expected", "not a gang", "not a field", "does not exist", "no node ever"]
            .iter()
            .any(|words| line.contains(words))
    };
    let verdicts: Vec<&str> = messages.lines().filter(verdict).map(str::trim_end).collect();
    assert_snapshot!(verdicts.join("\n"), @r#"
    got 0 evicted pods of queue "q" for queue "q", expected 4; evictions:
    got 0 evicted pods of deployment "a" for deployment "a", expected 4; evictions:
    gang "o" is not a gang: each of the 4 groups of its 4 pods needs only one pod
    pod "o-0" is not a gang: its group of 1 needs only one pod
    status.podIPz of pod "o-0" is not a field of Pod
    status.allocatd.cpu of queue "q" is not a field of Queue
    got deployment "a", expected a queue, pod, node, claim or podgroup, or a gang or workload (its pod group)
    pod "o" does not exist and never did
    status.phas of pod "o-0" is not a field of Pod
    no node ever had a label "rackk"
    "#);
}

#[test]
fn a_shared_gpu_is_in_use() {
    let shared = "Given a queue \"q\" with a quota of 8\nAnd these workloads are submitted:\n| name | queue | annotations |\n| half | q | gpu-fraction=0.5 |\nAnd pod \"half\" is running\n";
    let assertions =
        ["8 GPUs are free", "1 node has no GPU in use", "node \"node-1\" has 8 free GPUs"];
    let steps = assertions.map(|claim| format!("{FLEET}{shared}Then {claim}"));
    let messages = failures(&steps.each_ref().map(String::as_str));
    let verdicts: Vec<&str> = messages.lines().filter(|line| line.starts_with("got")).collect();
    assert_snapshot!(verdicts.join("\n"), @r"
    got 7 free GPUs, expected 8
    got 0 nodes with no GPU in use (), expected 1
    got 7 free GPUs, expected 8
    ");
}

#[test]
fn arriving_workloads_need_unique_names() {
    let arrive = "When every 1 minute 1 pod \"s\" with 1 GPU each that runs for 10 seconds arrives in queue \"q\"\n";
    let queue = "Given a queue \"q\" with a quota of 8\n";
    let steps = [
        format!("{FLEET}{queue}{arrive}{arrive}"),
        format!("{FLEET}{queue}{arrive}And no more pods \"s\" arrive\n{arrive}"),
        format!(
            "{FLEET}{queue}When 1 pod \"s-0\" with 1 GPU each is submitted to queue \"q\"\n{arrive}And 5 minutes pass"
        ),
    ];
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r#"
    periodic submission "s" exists already, expected a new name
    periodic submission "s" exists already, expected a new name
    periodic submission "s" failed: Pod default/s-0-0: pods "s-0-0" already exists (AlreadyExists)
    "#);
}

#[test]
fn a_kind_in_a_step_selects_only_that_kind() {
    let named = "Given these queues:\n| queue | quota |\n| web | 8 |\nAnd these workloads are submitted:\n| name | kind | queue | pods | gpus |\n| web | deployment | web | 2 | 1 |\n| web | job | web | 2 | 1 |\nAnd queue \"web\" has 4 running pods\n";
    let assertions = [
        "Then job \"web\" has 4 running pods",
        "When job \"web\" is deleted\nThen deployment \"web\" has 1 running pod",
        "When workload \"web\" is deleted\nThen queue \"web\" has 4 running pods",
    ];
    let steps = assertions.map(|claim| format!("{FLEET}{named}{claim}"));
    let messages = failures(&steps.each_ref().map(String::as_str));
    let verdicts = messages.lines().filter(|line| line.starts_with("got"));
    let verdicts: Vec<&str> = verdicts.filter_map(|line| line.split(": ").next()).collect();
    assert_snapshot!(verdicts.join("\n"), @r#"
    got 2 running pods of job "web", expected 4
    got 2 running pods of deployment "web", expected 1
    got 0 running pods of queue "web", expected 4
    "#);
}

#[test]
fn the_first_start_of_a_job_counts_even_if_its_pod_is_deleted() {
    let steps = "Given a queue \"q\" with a quota of 8\nAnd these workloads are submitted:\n| name | kind | queue | pods | gpus |\n| x | job | q | 1 | 1 |\nAnd job \"x\" is running\nWhen 2 minutes pass\nAnd 1 pods \"y\" with 1 GPU each are submitted to queue \"q\"\nAnd 10 seconds pass\nAnd 1 pod of job \"x\" is deleted\nThen pod \"y\" started before job \"x\"";
    let messages = failures(&[&format!("{FLEET}{steps}")]);
    assert!(messages.starts_with("pod \"y\" started at 2"), "{messages}");
}

#[test]
fn empty_names_and_trivial_bounds_are_rejected() {
    let assertions = [
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
    let steps =
        assertions.map(|claim| format!("{FLEET}And a queue \"a\" with a quota of 1\n{claim}"));
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r#"
    queue "typo" does not exist and never did; known: a
    gang "typo" does not exist and never did; submitted: none
    features/f.feature:5: subject: got queue "", expected the name of a queue
    features/f.feature:5: subject: got workload '', expected the name of a workload
    node "" does not exist and never did; known: node-1
    claim "nope" does not exist and never did; known: none
    features/f.feature:5: subject: got queue "", expected the name of a queue
    features/f.feature:5: counts: got at least no, which always holds; expected `at least 1` or more
    features/f.feature:5: count: got at least 0, which always holds; expected `at least 1` or more
    features/f.feature:5: count: got 99999999999999999999, expected a whole number from 0 to 18446744073709551615
    got "", which every text contains, expected some text
    "#);
}

#[test]
fn single_quotes_work_like_double_quotes() {
    let assertions = [
        "Then node 'nope' is gone",
        "Then never within 1 minute node 'node-1' is ready",
        "Then node 'node-1' is cordoned",
        "Then queue 'typo' uses 0 GPUs",
        "Then never within 1 minute node 'nope' has 4 free GPUs",
        "Then queue 'typo' has no running pods",
        "Then now gang 'g' is gone",
    ];
    let steps =
        assertions.map(|claim| format!("{FLEET}And a queue \"a\" with a quota of 1\n{claim}"));
    let messages = failures(&steps.each_ref().map(String::as_str));
    let lines: Vec<&str> = messages.lines().filter(|line| !line.starts_with("(at")).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    node 'nope' does not exist and never did; known: node-1
    it held, expected never
    node "node-1": got ready, expected cordoned
    queue 'typo' does not exist and never did; known: a
    node 'nope' does not exist and never did; known: node-1
    queue 'typo' does not exist and never did; known: a
    gang 'g' does not exist and never did; submitted: none
    "#);
}

#[test]
fn assertions_do_not_match_other_objects() {
    let steps = [
        "And these workloads are submitted:\n| name | kind | queue | pods | gpus |\n| a | job | b | 2 | 1 |\nThen an event of queue \"a\" says \"SuccessfulCreate\"",
        "And the label \"rack\" of node \"node-1\" becomes \"r1\"\nAnd a node \"n2\" with 8 GPUs is added\nAnd a gang \"g\" of 16 pods with 1 GPU each is submitted to queue \"a\"\nThen gang \"g\" is within 1 \"rack\"",
    ];
    let queues = "Given a queue \"a\" with a quota of 16\nAnd a queue \"b\" with a quota of 16\n";
    let steps = steps.map(|steps| format!("{FLEET}{queues}{steps}"));
    let messages = failures(&steps.each_ref().map(String::as_str));
    let lines: Vec<&str> =
        messages.lines().filter(|line| line.starts_with(['n', 'p'])).map(str::trim_end).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    no event of queue "a" contains "SuccessfulCreate"; events:
    pod "g-0" is on node "n2", which has no label "rack"
    "#);
}

#[test]
fn invalid_changes_of_a_pod_group_and_a_blocked_drain_are_reported() {
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
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r#"
    features/f.feature:9: PodGroup g: unknown field spec.minMembr, expected one of markUnschedulable, minMember, minSubGroup, preemptibility, preemptionDelay, priorityClassName, queue, schedulingBackoff, stalenessGracePeriod, subGroups, topologyConstraint
    features/f.feature:9: /apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/g: PodGroup.scheduling.run.ai "g" is invalid: spec.minMember: Invalid value: "string": spec.minMember in body must be of type integer: "string" (Invalid)
    features/f.feature:9: invalid YAML: unclosed bracket '['
    features/f.feature:8: got no fields, expected one or more
    node "node-1" is not drained after 5 minutes: pod default/g-0: Cannot evict pod as it would violate the pod's disruption budget. (TooManyRequests)
    features/f.feature:7: got 500µs, expected a whole number of milliseconds
    "#);
}

#[test]
fn a_state_that_ends_too_early_is_reported_with_its_duration() {
    let steps = format!(
        "{FLEET}And a queue \"a\" with a quota of 8\nAnd these workloads are submitted:\n\
         | name | kind | queue | pods | gpus | run time |\n| x | pod | a | 1 | 1 | 5s |\n\
         Then eventually within 3 seconds pod \"x\" has 1 running pod and stays so for 60 cycles"
    );
    let message = failures(&[&steps]);
    assert_snapshot!(message, @r#"
    the assertion held for 4.99 s only: got 0 running pods of pod "x", expected 1: 1 succeeded (x-0)
    (at +5s)
    "#);
}

#[test]
fn steps_that_undo_nothing_and_zero_durations_are_rejected() {
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
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r#"
    node "node-1" has not died
    node "node-1" still exists, expected a deleted one
    node "node-1" is not cordoned
    node "node-1" has no taint "gpu"
    features/f.feature:5: queue "nowhere" does not exist and never did; known: q
    got 0 cycles, expected at least one
    features/f.feature:4: when: got never within 0 seconds, expected more than 0 seconds
    features/f.feature:4: stays: got 0 cycles, expected at least one
    got `never within` with `and stays so`, expected only one of them
    features/f.feature:5: PriorityClass urgent: value: got 200, expected 90, which the existing class has
    features/f.feature:6: Node node-1: status: got nothing, expected a status
    features/f.feature:8: column `parent`: got the cycle top below leaf below top, expected a tree
    cannot submit again what still exists: Pod default/x-0
    no node has a label "rack"
    (at +4.002s)
    "#);
}

/// A step that changes nothing is a mistake: the following assertions would hold without it.
#[test]
fn steps_that_change_nothing_are_rejected() {
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
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r#"
    the patch changes no pod of pod "a"
    all pods of pod "a" have ended, expected at least one that has not
    /apis/apps/v1/namespaces/default/deployments/web: the patch changes nothing
    the patch changes no pod of pod "a"
    features/f.feature:16: /apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/g: the patch changes nothing
    nothing of pod "a" exists, it was deleted before
    /api/v1/nodes/node-1: the patch changes nothing
    /api/v1/nodes/node-1: the patch changes nothing
    /api/v1/nodes/node-1: the patch changes nothing
    /apis/scheduling.run.ai/v2/queues/q: the patch changes nothing
    /apis/scheduling.run.ai/v2/queues/q: the patch changes nothing
    features/f.feature:14: cannot start the scheduler: it is already running
    features/f.feature:15: cannot stop the scheduler: it is not running
    features/f.feature:15: cannot stop the scheduler: it is not running
    features/f.feature:14: the scheduler was not killed: it made fewer writes until the end of the scenario
    "#);
}

/// The message says why a workload cannot have a size or state, and what works.
#[test]
fn impossible_sizes_states_and_devices_are_rejected() {
    let begin = "Given a queue \"q\" with a quota of 8\nAnd these workloads are submitted:\n| name | kind | queue | pods |\n| j | job | q | 2 |\n| web | deployment | q | 1 |\n| p | pod | q | 1 |\n| ray | rayjob | q | 2 |\n";
    let steps = [
        "When job \"j\" is scaled to 3",
        "When pod \"p\" is scaled to 3",
        "When rayjob \"ray\" is scaled to 3",
        "When deployment \"web\" is suspended",
        "When pod \"p\" is suspended",
        "When job \"j\" is resumed",
        "When GPU 9 of node \"node-1\" becomes unhealthy",
        "When GPU 0 of node \"node-1\" becomes healthy",
        "When 9 GPUs of node \"node-1\" become unhealthy",
        "When GPU 0 of node \"nod-1\" becomes unhealthy",
        "When no admission policy refuses to bind pod \"p\"",
    ];
    let steps = steps.map(|steps| format!("{FLEET}{begin}{steps}"));
    assert_snapshot!(failures(&steps.each_ref().map(String::as_str)), @r#"
    job "j" cannot be scaled to 3: the job has 2 completions, which cannot change as its completion mode is NonIndexed; expected at most 2, or a job with completion mode Indexed
    pod "p" cannot be scaled, expected a deployment, statefulset, job, jobset, trainjob, pytorchjob, raycluster or leaderworkerset
    rayjob "ray" cannot be scaled to 3: its RayCluster keeps the size with which the RayJob created it; expected a deployment, statefulset, job, jobset, trainjob, pytorchjob, raycluster or leaderworkerset
    deployment "web" cannot be suspended: a Deployment has no field `suspend`; expected a job, jobset, trainjob, pytorchjob, raycluster or rayjob, or scale it to 0
    pod "p" cannot be suspended, expected a job, jobset, trainjob, pytorchjob, raycluster or rayjob
    job "j" is not suspended
    got GPU 9, expected from 0 to 7: the GPUs of node "node-1"
    GPU 0 of node "node-1" is not unhealthy
    got 9 GPUs, expected at most 8: node "node-1" has 8 healthy GPUs
    features/f.feature:11: node "nod-1" does not exist and never did; known: node-1; did you mean `node-1`?
    no admission policy refuses pod "p": /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/refuse-to-bind-p: validatingadmissionpolicybindings.admissionregistration.k8s.io "refuse-to-bind-p" not found (NotFound)
    "#);
}
