//! Reasons and suggestions of pods with topology constraints; the pods run once the suggestions are
//! applied.

use insta::assert_snapshot;

use crate::texts::suggestions_of;
use schedlab_testkit::plan_of;

/// The reason of `x` and its suggestions, in two racks of one node each.
fn output(r0: &str, r1: &str, others: &str) -> String {
    let cluster = format!(
        "
        topology tp levels rack
        node n0 {r0} label rack=r0
        node n1 {r1} label rack=r1
        {others}
        "
    );
    format!("{}\n{}", plan_of(&cluster), suggestions_of(&cluster, "x"))
}

#[test]
fn a_preferred_level_reports_shortages_of_all_nodes() {
    assert_snapshot!(output("gpus=4", "gpus=4", "
        job r pods=7 min=7 gpus=1 non-preemptible on n0 n0 n0 n0 n1 n1 n1
        gang x pods=2 gpus=1 close=tp/rack
    "), @r"
    x pending: Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("gpus=4", "gpus=4", "
        job r pods=8 min=8 gpus=1 non-preemptible on n0 n0 n0 n0 n1 n1 n1 n1
        job x gpus=1 close=tp/rack
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("gpus=4 not-ready", "gpus=4 not-ready", "
        job x gpus=1 close=tp/rack
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 2 node(s) were not ready.
    PodSchedulingErrors
    bring one of 2 nodes back to Ready
      then it runs on n0 (Now)
    ");
}

#[test]
fn labelling_a_node_without_topology_labels_is_suggested() {
    assert_snapshot!(output("gpus=1", "gpus=1", "
        node n2 gpus=8
        job x gpus=2 close=tp/rack
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have all labels of topology tp, 2 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    label nodes with all levels of topology tp
      then it runs on n2 (Now)
    ");
    assert_snapshot!(output("gpus=1", "gpus=1", "
        node n2 gpus=8
        job x gpus=2 together=tp/rack
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have all labels of topology tp, 2 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    label nodes with all levels of topology tp
      then it runs on n2 (Now)
    ");
    // The node has no other error, and its own pods use the other nodes.
    assert_snapshot!(output("gpus=1", "gpus=1", "
        node n2 gpus=2
        gang x pods=4 gpus=1 close=tp/rack
    "), @r"
    x pending: Resources were found for 2 pods while 4 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have all labels of topology tp, 2 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    label nodes with all levels of topology tp
      then it runs on n0 (Now)
    ");
    // The node is also full.
    assert_snapshot!(output("gpus=1", "gpus=1", "
        node n2 gpus=2
        job other gpus=2 non-preemptible on n2
        gang x pods=3 gpus=1 close=tp/rack
    "), @r"
    x pending: Resources were found for 2 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 3 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    add nodes with capacity for 1 more pod of its size: short of GPUs
      then it runs on n0 (Now)
    ");
}

#[test]
fn a_topology_level_does_not_hide_min_runtime_and_preemption_delay() {
    let queues = "
        queue left quota=2
        queue right quota=0 reclaim-min-runtime=5m
        queue other quota=0
        job r gpus=2 non-preemptible on n1
    ";
    for topology in ["close=tp/rack", "together=tp/rack"] {
        let output = |other: &str, job_fields: &str| {
            let jobs = format!("job a gpus=2 {other} on n0\njob x gpus=2 queue=left {job_fields}");
            output("gpus=2", "gpus=2", &format!("{queues}\n{jobs} {topology}"))
        };
        let protected = output("queue=right started=1m", "");
        assert!(protected.contains("MinRuntimeNotElapsed"), "{protected}");
        assert!(protected.ends_with("then it runs on n0 (Later)"), "{protected}");
        let young = output("queue=other", "delay=600s age=10s");
        assert!(young.contains("PreemptionDelayNotElapsed"), "{young}");
        assert!(young.ends_with("then it runs on n0 (Later)"), "{young}");
    }
}

#[test]
fn a_gang_that_no_domain_could_hold_does_not_wait_for_its_delay() {
    assert_snapshot!(output("gpus=2", "gpus=2", "
        job a gpus=2 on n0
        gang x pods=3 gpus=1 together=tp/rack delay=600s age=10s
    "), @r"
    x pending: node-group r0 can allocate only 0 of 3 required pods. node-group r1 can allocate only 2 of 3 required pods. topology tp, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 3 pods in one rack of topology tp
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_pod_too_large_for_every_node_gets_no_domain_suggestion() {
    assert_snapshot!(output("gpus=4 not-ready", "gpus=4 not-ready", "
        job x gpus=1 together=tp/rack
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 2 node(s) were not ready.
    PodSchedulingErrors
    bring one of 2 nodes back to Ready
      then it runs on n0 (Now)
    ");
    assert_snapshot!(output("gpus=4", "gpus=4", "
        job x gpus=8 together=tp/rack
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("gpus=4 gpu-memory=16300", "gpus=4 gpu-memory=16300", "
        job x part-memory=20000 together=tp/rack
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPU memory.
    PodSchedulingErrors
    request at most 16300 MiB of GPU memory, the size of the largest GPU, or add a node with larger GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn preferring_a_level_is_suggested_only_if_it_helps() {
    assert_snapshot!(output("gpus=4", "gpus=4", "
        gang x pods=6 gpus=1 together=tp/rack
    "), @r"
    x pending: node-group r0 can allocate only 4 of 6 required pods. node-group r1 can allocate only 4 of 6 required pods. topology tp, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 6 pods in one rack of topology tp, or only prefer that level
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("gpus=4", "gpus=4", "
        job r pods=3 min=3 gpus=1 non-preemptible on n0 n0 n1
        gang x pods=6 gpus=1 together=tp/rack
    "), @r"
    x pending: node-group r0 can allocate only 2 of 6 required pods. node-group r1 can allocate only 3 of 6 required pods. topology tp, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 6 pods in one rack of topology tp
      then it runs on (new node) (Now)
    ");
}

#[test]
fn fit_errors_of_all_tried_domains_are_counted_together() {
    assert_snapshot!(output("gpus=4 taint k=v:NoSchedule", "gpus=4 taint k=v:NoSchedule label kind=z", "
        job x gpus=1 together=tp/rack needs kind=z
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 2 node(s) had untolerated taint {k: v}.
    PodSchedulingErrors
    tolerate taint k=v, or remove it from n1
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("gpus=4", "gpus=4 cordoned", "
        job r gpus=4 non-preemptible on n0
        job x gpus=1 together=tp/rack
    "), @r"
    x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 1 node(s) were unschedulable.
    PodSchedulingErrors
    uncordon n1
      then it runs on n1 (Now)
    ");
}

#[test]
fn capacity_is_suggested_in_the_domain_of_its_running_pods() {
    assert_snapshot!(output("gpus=4", "gpus=8", "
        job r pods=3 min=3 gpus=1 non-preemptible on n0 n0 n0
        job x pods=2 min=1 gpus=1 together=tp/rack on n0
    "), @r"
    x pending: node-group r0 can allocate only 0 of 1 required pods. topology tp, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 1 pod in rack r0 of topology tp, or only prefer that level
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("gpus=8", "gpus=4", "
        job r pods=3 min=3 gpus=1 non-preemptible on n1 n1 n1
        job x pods=2 min=1 gpus=1 together=tp/rack on n1
    "), @r"
    x pending: node-group r1 can allocate only 0 of 1 required pods. topology tp, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 1 pod in rack r1 of topology tp, or only prefer that level
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("gpus=8", "gpus=4 not-ready", "
        job x pods=2 min=1 gpus=1 together=tp/rack on n1
    "), @r"
    x pending: Resources were not found for pod default/x-1 due to: no nodes with enough resources were found: 1 node(s) are in another rack of topology tp than the pods it must run with, 1 node(s) were not ready.
    PodSchedulingErrors
    bring the node back to Ready
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("gpus=8", "gpus=8", "
        node n2 gpus=8
        job x pods=2 min=1 gpus=1 together=tp/rack on n2
    "), @r"
    x pending: Resources were not found for pod default/x-1 due to: no nodes with enough resources were found: 1 node(s) didn't have all labels of topology tp, 2 node(s) are in another rack of topology tp than the pods it must run with.
    PodSchedulingErrors
    label nodes with all levels of topology tp
      then it runs on n2 (Now)
    ");
}

#[test]
fn a_sub_group_reports_the_domains_inside_all_domains_of_the_gang() {
    assert_snapshot!(plan_of("
        topology dc levels zone rack
        node n1 gpus=1 label zone=a label rack=a1
        node n2 gpus=1 label zone=a label rack=a2
        node n3 gpus=1 label zone=b label rack=b1
        node n4 gpus=1 label zone=b label rack=b2
        gang x together=dc/zone
          part left pods=2 gpus=1 together=dc/rack
    "), @"x pending: node-group a1 can allocate only 1 of 2 required pods. node-group a2 can allocate only 1 of 2 required pods. node-group b1 can allocate only 1 of 2 required pods. The same holds for 1 more. topology dc, requirement rack couldn't be satisfied.");
}

#[test]
fn invalid_levels_are_reported_and_other_jobs_run() {
    let output = |job_fields: &str| {
        let cluster = format!(
            "
            topology dc levels zone rack
            node n1 gpus=2 label zone=a label rack=a1
            queue left quota=2
            queue right quota=0
            job z gpus=1 queue=right on n1
            gang x pods=2 gpus=1 queue=left delay=600s age=10s {job_fields}
            job y gpus=1 queue=right
            "
        );
        format!("{}\n{}", plan_of(&cluster), suggestions_of(&cluster, "x"))
    };
    assert_snapshot!(output("together=dc/rack close=dc/zone"), @r"
    y runs on n1
    x pending: preferredTopologyLevel zone of topology dc is wider than requiredTopologyLevel rack
    PodSchedulingErrors
    prefer rack or a level inside it, or require zone or none
      not tried
    ");
    assert_snapshot!(output("together=dc/rack close=dc/row"), @r"
    y runs on n1
    x pending: topology dc with level row does not exist
    PodSchedulingErrors
    create topology dc with level row, or name one that exists
      not tried
    ");
    assert_snapshot!(output("together=lab/rack"), @r"
    y runs on n1
    x pending: topology lab with level rack does not exist
    PodSchedulingErrors
    create topology lab with level rack, or name one that exists
      not tried
    ");
    assert_snapshot!(output("together=dc/rack close=dc/rack"), @r"
    y runs on n1
    x pending: node-group a1 can allocate only 1 of 2 required pods. topology dc, requirement rack couldn't be satisfied.
    PodSchedulingErrors
    free capacity for 2 pods in one rack of topology dc
      then it runs on (new node) (Now)
    ");
}

#[test]
fn node_fit_errors_of_sub_groups_are_reported_before_their_domains() {
    assert_snapshot!(plan_of("
        topology t levels zone rack
        node n1 gpus=4 label zone=a label rack=a1 taint team=x:NoSchedule
        node n2 gpus=4 label zone=b label rack=b1 taint team=x:NoSchedule
        gang g together=t/zone
          part p pods=2 gpus=8 together=t/rack
          part q pods=2 gpus=8 together=t/rack
    "), @"g pending: Resources were found for 0 pods from all sub-groups while sub-group p requires 2 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) had untolerated taint {team: x}.");
}
