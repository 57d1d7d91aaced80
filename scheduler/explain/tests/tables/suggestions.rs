//! For every reason: its suggestion, and that the pod group runs once it is applied.

use insta::assert_snapshot;

use crate::texts::{explained, suggestions_of};

#[test]
fn a_queue_that_does_not_exist_is_created() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue q
        job a gpus=1 queue=nowhere
    ", "a"), @r"
    QueueDoesNotExist
    create queue nowhere, or name one that exists in the pod group's spec.queue
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_leaf_queue_below_is_suggested() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue top
        queue left parent=top
        job a gpus=1 queue=top
    ", "a"), @r"
    QueueDoesNotExist
    name a queue below top in the pod group's spec.queue instead, such as left
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_limit_is_raised_by_the_missing_amount() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue q limit=2
        job a pods=2 min=2 gpus=1 queue=q on n1 n1
        job b pods=3 min=3 gpus=1 queue=q
    ", "b"), @r"
    OverLimit
    raise the limit of queue q by 3 GPUs to 5 GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn every_limit_above_is_raised_one_after_the_other() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue top limit=3
        queue q parent=top limit=2
        job b pods=4 min=4 gpus=1 queue=q
    ", "b"), @r"
    OverLimit
    raise the limit of queue q by 2 GPUs to 4 GPUs; another bound is too low as well
      then it waits: top quota has reached the allowable limit of GPUs. Limit is 3 GPUs, currently 0 GPUs allocated and workload requested 4 GPUs
    raise the limit of queue top by 1 GPU to 4 GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_quota_is_raised_for_non_preemptible_jobs() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue team-prod quota=8
        job a pods=7 min=7 gpus=1 queue=team-prod non-preemptible on n1 n1 n1 n1 n1 n1 n1
        node n2 gpus=8
        job b pods=3 min=3 gpus=1 queue=team-prod non-preemptible
    ", "b"), @r"
    NonPreemptibleOverQuota
    raise the quota of queue team-prod by 2 GPUs to 10 GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_later_job_needs_capacity_for_the_jobs_before_it_too() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue q quota=1
        job a gpus=1 queue=q non-preemptible on n1
        job b gpus=2 queue=q non-preemptible
        job c gpus=1 queue=q non-preemptible
        job d gpus=1 queue=q non-preemptible
    ", "d"), @r"
    NonPreemptibleOverQuota
    raise the quota of queue q by 1 GPU to 2 GPUs
      in all: raise the quota of queue q by 4 GPUs to 5 GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_raised_quota_reclaims_borrowed_capacity() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        queue prod quota=0
        queue research quota=0
        job a pods=2 min=1 gpus=1 queue=research on n1 n1
        job b gpus=1 queue=prod non-preemptible
    ", "b"), @r"
    NonPreemptibleOverQuota
    raise the quota of queue prod by 1 GPU to 1 GPU
      then it runs on n1 (Later)
    ");
}

#[test]
fn capacity_is_freed_for_as_many_pods_as_lack_it() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job a pods=6 min=6 gpus=1 on n1 n1 n1 n1 n1 n1
        job b pods=4 min=4 gpus=1
    ", "b"), @r"
    PodSchedulingErrors
    free capacity for 2 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_pod_too_large_for_every_node_needs_a_larger_node() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        node n2 gpus=4
        job a gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_gang_larger_than_the_cluster_needs_nodes() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        gang a pods=6 gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    add nodes for 2 more of its pods, 2 GPUs in total, or lower its minimum
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_cordoned_node_is_opened() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 cordoned
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_taint_is_tolerated_or_taken_off() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 taint dedicated=x:NoSchedule
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    tolerate taint dedicated=x, or remove it from the node
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_node_that_is_not_ready_is_brought_back() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 not-ready
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    bring the node back to Ready
      then it runs on n1 (Now)
    ");
}

#[test]
fn labelling_a_node_as_selected_is_suggested() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        job a gpus=1 needs gpu=a100
    ", "a"), @r"
    PodSchedulingErrors
    label a node with gpu=a100, as its node selector requires, or relax that
      then it runs on n1 (Now)
    ");
}

#[test]
fn without_nodes_capacity_is_suggested() {
    assert_snapshot!(suggestions_of("
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_pipelined_job_waits_for_its_victims() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        job a gpus=2 releasing on n1
        job b gpus=2
    ", "b"), @r"
    Pipelined
    nothing to do: it runs once pods have terminated on n1
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_job_in_its_preemption_delay_waits_for_its_end() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        queue left quota=2
        queue right quota=0
        job a gpus=2 queue=right on n1
        job b gpus=2 queue=left delay=600s age=10s
    ", "b"), @r"
    PreemptionDelayNotElapsed
    wait until 600 s after its creation, or lower its preemption delay
      then it runs on n1 (Later)
    ");
}

#[test]
fn a_job_waits_for_the_min_runtime_of_its_victims() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        queue left quota=2
        queue right quota=0 reclaim-min-runtime=5m
        gang a pods=2 gpus=1 queue=right started=1m on n1 n1
        job b gpus=2 queue=left
    ", "b"), @r"
    MinRuntimeNotElapsed
    wait until default/a has run for 300 s, or lower the reclaimMinRuntime that protects it
      then it runs on n1 (Later)
    ");
    // Evicting them would not suffice.
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        queue left quota=2
        queue right quota=1 reclaim-min-runtime=5m
        job a gpus=1 queue=right non-preemptible on n1
        job c gpus=1 queue=right started=1m on n1
        job b gpus=2 queue=left
    ", "b"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_gang_may_need_several_of_the_nodes_that_are_cordoned() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 cordoned
        node n2 gpus=4 cordoned
        gang a pods=2 gpus=4
    ", "a"), @r"
    PodSchedulingErrors
    uncordon up to 2 of 2 nodes
      then it runs on n1 (Now)
    ");
}

#[test]
fn nodes_are_added_in_one_topology_domain() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 label zone=a
        node n2 gpus=4 label zone=b
        topology dc levels zone
        job a pods=6 min=6 gpus=1 together=dc/zone
    ", "a"), @r"
    PodSchedulingErrors
    free capacity for 6 pods in one zone of topology dc, or only prefer that level
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_topology_that_does_not_exist_is_created() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        job a pods=2 min=2 gpus=1 together=dc/zone
    ", "a"), @r"
    PodSchedulingErrors
    create topology dc with level zone, or name one that exists
      not tried
    ");
}

#[test]
fn a_running_group_needs_no_suggestion() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        job a gpus=1
    ", "a"), @"nothing");
}

#[test]
fn an_explanation_has_the_reason_its_evidence_and_all_plugin_verdicts() {
    assert_snapshot!(explained("
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8 cordoned
        queue lab quota=16
        queue prod parent=lab quota=8
        job a pods=7 min=7 gpus=1 queue=prod on n1 n1 n1 n1 n1 n1 n1
        job b pods=3 min=3 gpus=4 queue=prod
    ", "b"), @r"
    pod group default/b is pending
      pods: 0 with a node, 3 pending, 3 required to run
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were found for 2 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) were unschedulable, 2 node(s) didn't have enough resources: GPUs.

    remedy: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      simulated: it runs on (new node) at once

    queues, from leaf to root
      prod: GPUs: quota 8, limit unlimited, fair share 19, allocated 7 (of that 0 non-preemptible), requested 19
      lab: GPUs: quota 16, limit unlimited, fair share 19, allocated 7 (of that 0 non-preemptible), requested 19

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/b-2, which requests 4 GPUs
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
        free 1 of 8 GPUs
      n2: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
        free 0 of 8 GPUs, with 2 other pods of its group placed there
      n3: NodeUnschedulable rejects: node(s) were unschedulable
        free 8 of 8 GPUs
    ");
}

#[test]
fn a_limit_on_cores_or_memory_is_raised_as_one_on_gpus_is() {
    let output = |bound: &str, job_fields: &str| {
        let cluster =
            format!("\nnode n1 cpu=64\nqueue q quota=-1 {bound}\njob x queue=q {job_fields}");
        suggestions_of(&cluster, "x")
    };
    assert_snapshot!(output("cpu-limit=2", "cpu=3"), @r"
    OverLimit
    raise the limit of queue q by 1 CPU core to 3 CPU cores
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("memory-limit=2G", "memory=3G"), @r"
    OverLimit
    raise the limit of queue q by 1 GB memory to 3 GB memory
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("cpu-quota=2", "cpu=3 non-preemptible"), @r"
    NonPreemptibleOverQuota
    raise the quota of queue q by 1 CPU core to 3 CPU cores
      then it runs on n1 (Now)
    ");
}

#[test]
fn the_leaf_queue_of_a_deep_tree_is_suggested() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=1
        queue lab quota=-1
        queue lower parent=lab quota=-1
        queue lowest parent=lower quota=-1
        job x gpus=1 queue=lab
    ", "x"), @r"
    QueueDoesNotExist
    name a queue below lab in the pod group's spec.queue instead, such as lower
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_job_in_scheduling_backoff_is_retried() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        gang a pods=2 gpus=1 left-alone
    ", "a"), @r"
    SchedulingBackoff
    remove condition UnschedulableOnNodePool from its status, move it to another node pool, or set its schedulingBackoff to -1
      then it runs on n1 (Now)
    ");
}

#[test]
fn the_first_twelve_steps_and_the_next_reason_are_shown() {
    let keys: Vec<char> = ('a'..='m').collect();
    let taints: Vec<String> = keys.iter().map(|key| format!("taint {key}=1:NoSchedule")).collect();
    let output = suggestions_of(&format!("node n1 gpus=1 {}\njob a gpus=1", taints.join(" ")), "a");
    let steps: Vec<&str> = output.lines().filter(|line| line.starts_with("tolerate")).collect();
    let more = "; other errors remain there";
    let expected = |key| format!("tolerate taint {key}=1, or remove it from the node{more}");
    assert_eq!(steps, keys[..12].iter().map(expected).collect::<Vec<_>>());
    assert!(output.trim_end().ends_with("untolerated taint {m: 1}."), "{output}");
}

#[test]
fn capacity_is_freed_for_all_sub_groups_at_once() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8
        job others pods=2 gpus=4 non-preemptible on n1 n2
        gang a
          part head gpus=5
          part left gpus=5
          part right gpus=5
    ", "a"), @r"
    PodSchedulingErrors
    free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}
