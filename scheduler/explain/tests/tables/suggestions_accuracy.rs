//! Suggestions are accurate: what they name as missing is what the pending pods lack.

use insta::assert_snapshot;

use crate::texts::suggestions_of;

#[test]
fn the_optional_sub_group_with_pending_pods_is_named() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        gang a needs=1
          part s1 pods=2 gpus=1 on n1 n1
          part s2 pods=0 min=2 gpus=1
          part s3 pods=1 min=2 gpus=1
    ", "a"), @r"
    NotReady
    create 1 more pod of sub-group s3, or lower its minMember by 1
      then it runs on n1 (Now)
    ");
}

#[test]
fn capacity_is_freed_on_the_node_that_affinity_or_spread_select() {
    assert_snapshot!(suggestions_of("
        node n0 gpus=3 label zone=a
        node n1 gpus=1 label zone=b
        job other gpus=1 non-preemptible on n1
        job w1 gpus=1 label app=w spread app=w/zone/1 on n0
        job w0 gpus=1 label app=w spread app=w/zone/1
    ", "w0"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity: short of GPUs
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        node n2 gpus=2
        job leader gpus=2 label app=l non-preemptible on n1
        job follow gpus=1 near app=l/host
    ", "follow"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity: short of GPUs
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=1 label zone=b
        node n2 gpus=1 label zone=b
        node n3 gpus=1 label zone=c
        node n4 gpus=4 label zone=a
        job others pods=3 gpus=1 non-preemptible on n1 n2 n3
        gang w pods=4 gpus=1 label app=w spread app=w/zone/1
    ", "w"), @r"
    PodSchedulingErrors
    free capacity for 3 more pods of its size on nodes that only lack capacity: short of GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn earlier_jobs_are_counted_only_if_they_take_capacity() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=1
        node n2 gpus=4
        job leader gpus=1 label app=l non-preemptible on n1
        job a pods=2 min=1 gpus=1 near app=l/host
        job b gpus=1 near app=l/host
    ", "b"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity: short of GPUs
      in all: free capacity for 2 more pods of its size on the node that only lacks capacity: short of GPUs
      then it runs on n1 (Now)
    ");
    // An added node is in the required zone, not in the first one.
    assert_snapshot!(suggestions_of("
        node n0 gpus=1 label zone=a
        node n1 gpus=1 label zone=b
        job other gpus=1 non-preemptible on n1
        job w1 gpus=1 label app=w spread app=w/zone/1 on n0
        job w0 gpus=2 label app=w spread app=w/zone/1
    ", "w0"), @r"
    PodSchedulingErrors
    add a node with 2 GPUs in zone b or in a new zone, as its topology spread over zone requires
      then it runs on (new node) (Now)
    ");
    // An added node is in another zone than the pod of the anti-affinity.
    assert_snapshot!(suggestions_of("
        node n1 gpus=1 label zone=a
        job o gpus=1 far app=x/zone non-preemptible on n1
        job y gpus=1
        job x gpus=1 label app=x
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 1 GPU in a zone without the pods that anti-affinity keeps it apart from
      in all: add 2 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on (new node 2) (Now)
    ");
}

#[test]
fn a_node_added_for_anti_affinity_is_in_an_unused_domain() {
    let output = |pods: u32, over: &str| {
        suggestions_of(
            &format!(
                "
                node n1 gpus=4 label zone=a label rack=a1
                node n2 gpus=4 label zone=b label rack=b1
                gang x pods={pods} gpus=1 label app=x {over}
            "
            ),
            "x",
        )
    };
    assert_snapshot!(output(3, "far app=x/zone"), @r"
    PodSchedulingErrors
    add a node with 1 GPU in a zone without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output(4, "far app=x/zone far app=x/rack far app=x/host"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each, each in a rack and zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output(3, "far app=x/host"), @r"
    PodSchedulingErrors
    add a node with 1 GPU without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
}

#[test]
fn the_cluster_is_too_small_by_the_pods_that_it_does_not_hold() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        node n2 gpus=2
        gang a
          part head gpus=3
          part work pods=2 gpus=2
    ", "a"), @r"
    PodSchedulingErrors
    add nodes for 1 more of its pods, 2 GPUs in total, or lower its minimum
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        node n2 gpus=9 taint a=b:NoSchedule
        gang a pods=5 gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    tolerate taint a=b, or remove it from the node
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        job other pods=3 gpus=1 non-preemptible on n1 n1 n1
        gang a pods=5 gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    add nodes for 1 more of its pods, 1 GPU in total, or lower its minimum
      then it waits: Resources were found for 2 pods while 5 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn bounds_and_capacity_are_suggested_for_all_earlier_jobs_too() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=1
        queue top quota=1 limit=1
        queue a parent=top quota=4
        queue b parent=top quota=4
        job r gpus=1 queue=a non-preemptible on n1
        job first gpus=1 queue=b non-preemptible
        job x gpus=1 queue=a non-preemptible
    ", "x"), @r"
    OverLimit
    raise the limit of queue top by 1 GPU to 2 GPUs; another bound is too low as well
      in all: raise the limit of queue top by 2 GPUs to 3 GPUs; another bound is too low as well
      then it waits: Non-preemptible workload is over quota. Workload requested 1 GPUs, but top quota is 1 GPUs, while 1 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.
    raise the quota of queue top by 1 GPU to 2 GPUs
      in all: raise the quota of queue top by 2 GPUs to 3 GPUs
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 2 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=2 cpu=8
        queue q cpu-limit=2
        job r gpus=2 cpu=2 queue=q non-preemptible on n1
        job first gpus=2 cpu=1 queue=q
        job second gpus=2 cpu=1 queue=q
        job x gpus=2 cpu=2 queue=q
    ", "x"), @r"
    OverLimit
    raise the limit of queue q by 2 CPU cores to 4 CPU cores
      in all: raise the limit of queue q by 4 CPU cores to 6 CPU cores
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_limit_is_not_raised_for_pods_that_are_evicted() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue q limit=4
        job low pods=2 min=1 gpus=1 queue=q priority=40 on n1 n1
        job fixed gpus=2 queue=q non-preemptible on n1
        job x gpus=3 queue=q priority=60
    ", "x"), @r"
    OverLimit
    raise the limit of queue q by 3 GPUs to 7 GPUs
      least: raise the limit of queue q by 1 GPU to 5 GPUs
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8
        queue top limit=6
        queue q parent=top limit=4
        job low pods=2 gpus=2 queue=q priority=40 on n1 n1
        job x gpus=7 queue=q priority=60
    ", "x"), @r"
    OverLimit
    raise the limit of queue q by 7 GPUs to 11 GPUs; another bound is too low as well
      least: raise the limit of queue q by 3 GPUs to 7 GPUs
      then it waits: top quota has reached the allowable limit of GPUs. Limit is 6 GPUs, currently 4 GPUs allocated and workload requested 7 GPUs
    raise the limit of queue top by 5 GPUs to 11 GPUs
      least: raise the limit of queue top by 1 GPU to 7 GPUs
      then it runs on n2 (Now)
    ");
}

#[test]
fn no_smaller_limit_is_suggested_if_the_limit_suffices_with_capacity() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        queue q limit=2
        job a part=0.5 queue=q priority=40 on n1/g1
        job b part=0.7 queue=q priority=40 on n1/g2
        gang x pods=3 part=0.6 queue=q priority=60
    ", "x"), @r"
    OverLimit
    raise the limit of queue q by 1 GPU to 3 GPUs
      then it waits: Resources were found for 0 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn fewer_pods_are_not_suggested_if_no_node_holds_one() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        node n2 gpus=2
        gang a pods=2 gpus=3
    ", "a"), @r"
    PodSchedulingErrors
    add nodes for 2 more of its pods, 6 GPUs in total
      then it runs on (new node) (Now)
    ");
}

#[test]
fn capacity_is_suggested_only_with_enough_exclusion_domains() {
    let output = |pods: u32| {
        let full = "
            node n1 gpus=4 label zone=a
            node n2 gpus=4 label zone=b
            node n3 gpus=4 label zone=a
            job other pods=2 gpus=4 non-preemptible on n2 n3
        ";
        suggestions_of(
            &format!("{full}\ngang x pods={pods} gpus=1 label app=x far app=x/zone"),
            "x",
        )
    };
    assert_snapshot!(output(2), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size in zone b, or add nodes that have it there or in a new zone: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output(3), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output(4), @r"
    PodSchedulingErrors
    add 3 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    // One more node is available once it is uncordoned; ports exclude them, too.
    let output = |more: &str| {
        let full = "
            node n1 gpus=4
            node n2 gpus=4
            job other pods=2 gpus=4 non-preemptible on n1 n2
            gang x pods=3 gpus=1 port=80
        ";
        suggestions_of(&format!("{full}\n{more}"), "x")
    };
    assert_snapshot!(output(""), @r"
    PodSchedulingErrors
    add 3 nodes with 1 GPU each on which host port 80 is free
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("node n3 gpus=4\njob more gpus=4 non-preemptible on n3"), @r"
    PodSchedulingErrors
    free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("node n3 gpus=4 cordoned"), @r"
    PodSchedulingErrors
    free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_job_that_gains_no_pod_does_not_count_as_running() {
    assert_snapshot!(suggestions_of("
        node n0 gpus=1 cpu=12 cordoned
        node n1 gpus=1 cpu=17
        job first pods=3 min=1 gpus=1 cpu=4 priority=60 near app=x/host
        job near pods=3 min=3 gpus=0 cpu=1 label app=x priority=100
        job x pods=4 min=1 gpus=1 cpu=2 on n0 n1
    ", "x"), @r"
    PodSchedulingErrors
    uncordon the node; other errors remain there
      then it waits: Resources were not found for pod default/x-2 due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    add nodes with capacity for 1 more pod of its size: short of GPUs
      then it waits: Resources were not found for pod default/x-2 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores, 2 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of CPU cores
      in all: free capacity for 2 more pods of its size, or add nodes that have it: short of CPU cores
      then it runs on (new node 3) (Now)
    ");
}

#[test]
fn capacity_on_more_full_nodes_extends_the_same_suggestion() {
    assert_snapshot!(suggestions_of("
        node n0 gpus=5 cpu=15 label zone=a
        job o pods=2 gpus=2 cpu=1 non-preemptible on n0 n0
        job y pods=4 min=2 gpus=0 cpu=14 priority=60
        job z pods=4 min=4 gpus=0 cpu=2 priority=60
        job x pods=2 min=2 gpus=4 cpu=2 needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    add nodes for 1 more of its pods, 4 GPUs in total, or lower its minimum
      then it waits: Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size on the node that only lacks capacity, or add nodes that have it, labelled zone=a as its node selector requires: short of GPUs
      in all: free capacity for 13 more pods of its size on the node that only lacks capacity, or add nodes that have it, labelled zone=a as its node selector requires: short of GPUs
      then it runs on (new node 2) (Now)
    ");
}

#[test]
fn a_job_evicted_in_the_last_simulated_cycle_does_not_count_as_running() {
    assert_snapshot!(suggestions_of("
        node n0 gpus=7 cpu=4 label zone=a extended nic=0
        node n1 gpus=3 cpu=18 label zone=b extended nic=1 numa=best-effort/pod zone z0:gpus=1,cpu=9 zone z1:gpus=1,cpu=9
        node n2 gpus=8 cpu=13 label zone=a extended nic=2 numa=restricted/pod zone z0:gpus=4,cpu=6 zone z1:gpus=4,cpu=6
        queue lab quota=8 limit=20
        queue q0 parent=lab quota=1 limit=2
        queue q1 parent=lab quota=6 limit=5
        queue q2  quota=2 limit=3
        job j00 pods=1 min=1 gpus=1 cpu=2 queue=q1 priority=60
        job j01 pods=3 min=2 gpus=3 cpu=0 queue=q0 priority=100
        job j02 pods=4 min=4 gpus=3 cpu=1 queue=q0 priority=100  on n0 n0 n1 n2
        job j03 pods=2 min=2 gpus=2 cpu=3 queue=q1 priority=40 guaranteed
        job j04 pods=1 min=1 gpus=4 cpu=2 queue=q2 priority=60 claim y:nic*2
        job j05 pods=4 min=3 gpus=1 cpu=0 queue=q2 priority=50  on n0 n2 n2
        job j06 pods=3 min=3 gpus=3 cpu=4 queue=q2 priority=60
        job j07 pods=3 min=2 gpus=4 cpu=2 queue=q1 priority=100 claim y:nic*2
        job j08 pods=2 min=2 gpus=1 cpu=0 queue=q2 priority=100
        job j09 pods=4 min=3 gpus=2 cpu=3 queue=q1 priority=40
        job j10 pods=3 min=2 gpus=0 cpu=1 queue=q0 priority=60
        job j11 pods=3 min=3 gpus=3 cpu=3 queue=q2 priority=40 label app=x far app=x/host
        job j12 pods=3 min=3 gpus=0 cpu=4 queue=q2 priority=50 claim x:nic*1
    ", "j05"), @r"
    OverLimit
    raise the limit of queue q2 by 1 GPU to 4 GPUs
      in all: raise the limit of queue q2 by 3 GPUs to 6 GPUs
      then it runs on n2 (Now)
    ");
}

#[test]
fn the_required_node_size_is_shown_if_small_nodes_do_not_suffice() {
    assert_snapshot!(suggestions_of("
        node n0 gpus=6 cpu=8 label zone=a extended nic=0
        node n1 gpus=0 cpu=14 label zone=b extended nic=1 numa=single/pod zone z0:gpus=0,cpu=7 zone z1:gpus=0,cpu=7
        queue lab quota=8 limit=20
        queue q0 parent=lab quota=1 limit=1
        queue q1 parent=lab quota=5 limit=-1
        queue q2 quota=0 limit=1
        job j01 pods=2 min=1 gpus=2 queue=q0 priority=40 guaranteed on n0
        job j03 pods=3 min=1 gpus=1 cpu=2 queue=q1 priority=50
        job j05 pods=4 min=4 gpus=2 cpu=2 queue=q0 priority=60 guaranteed on n0 n0
        job j06 pods=2 min=2 gpus=2 cpu=1 queue=q0 priority=60 port=80
        job j07 pods=3 min=1 gpus=0 cpu=1 queue=q1 priority=100 label app=x near app=x/zone on n0 n0
        job j09 pods=4 min=2 gpus=2 cpu=3 queue=q0 priority=60 claim y:nic*2
        job j10 pods=2 min=2 gpus=4 cpu=4 queue=q1 priority=60 port=80
        job j12 pods=4 min=2 gpus=1 cpu=4 queue=q1 priority=60 port=80
    ", "j01"), @"
    OverLimit
    raise the limit of queue q0 by 7 GPUs to 8 GPUs
      in all: raise the limit of queue q0 by 15 GPUs to 16 GPUs; another bound is too low as well
      then it waits: Resources were not found for pod default/j01-1 due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 9 more pods of its size, or add nodes that have it: short of GPUs
      then it waits: lab quota has reached the allowable limit of GPUs. Limit is 20 GPUs, currently 19 GPUs allocated and workload requested 2 GPUs
    raise the limit of queue lab by 1 GPU to 21 GPUs
      in all: raise the limit of queue lab by 3 GPUs to 23 GPUs
      then it runs on (new node 9) (Now)
    ");
}
