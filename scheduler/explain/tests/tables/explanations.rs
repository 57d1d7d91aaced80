//! Complete explanations of pod groups and queues: decisions, rejections and accounts.

use insta::assert_snapshot;

use crate::texts::{explained, queue_explained};
use schedlab_scheduler_core::resources::Resources;

#[test]
fn decisions_for_a_group_name_pods_nodes_and_victims() {
    assert_snapshot!(explained("
        node n1 gpus=2 cpu=8
        node n2 gpus=1 cpu=8
        queue a quota=2
        queue b quota=1
        job low gpus=1 queue=a priority=40 on n1
        job mine pods=3 min=1 gpus=1 queue=a priority=60 on n1
        job other gpus=1 cpu=2 queue=b
    ", "mine"), @r"
    pod group default/mine is pending
      pods: 1 with a node, 1 pending, 1 required to run
      priority 60, preemptible
      next cycle: default/low is evicted (preempt)
      next cycle: default/mine-1 is pipelined onto n1

    reason: PodSchedulingErrors
      Resources were not found for pod default/mine-1 due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.

    remedy: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      simulated: it runs on (new node) at once

    queues, from leaf to root
      a: GPUs: quota 2, limit unlimited, fair share 2, allocated 2 (of that 0 non-preemptible), requested 4

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/mine-2, which requests 1 GPU
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
        free 0 of 2 GPUs, with 2 other pods of its group placed there
      n2: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
        free 0 of 1 GPU
    ");
    assert_snapshot!(explained("
        node n1 gpus=2 cpu=8
        node n2 gpus=1 cpu=8
        queue a quota=2
        queue b quota=1
        job low gpus=1 queue=a priority=40 on n1
        job mine pods=3 min=1 gpus=1 queue=a priority=60 on n1
        job other gpus=1 cpu=2 queue=b
    ", "other"), @r"
    pod group default/other is fully scheduled
      pods: 0 with a node, 0 pending, 1 required to run
      priority 50, preemptible
      next cycle: default/other is bound to n2

    queues, from leaf to root
      b: GPUs: quota 1, limit unlimited, fair share 1, allocated 1 (of that 0 non-preemptible), requested 1
    ");
}

#[test]
fn the_minimum_counts_only_the_required_sub_groups() {
    let output = |gang: &str| {
        let output = explained(&format!("node n1 gpus=1\n{gang}"), "a");
        output.lines().nth(1).unwrap().trim().to_owned()
    };
    assert_snapshot!(output("
        gang a needs=1
          part s1 pods=3 min=2
          part s2 pods=3 min=2
          part s3 pods=3 min=2
    "), @"pods: 0 with a node, 0 pending, at least 2 required to run");
    assert_snapshot!(output("
        gang a needs=2
          part x needs=2
          part x1 parent=x
          part x2 parent=x pods=2
          part y needs=1
          part y1 parent=y pods=3
          part y2 parent=y pods=2
          part z pods=4
    "), @"pods: 0 with a node, 0 pending, at least 5 required to run");
    assert_snapshot!(output("
        gang a
          part x pods=3 min=2
          part y pods=2
    "), @"pods: 0 with a node, 0 pending, 4 required to run");
}

#[test]
fn nodes_with_equal_verdicts_are_grouped_and_few_are_named() {
    assert_snapshot!(explained("
        node n1 cpu=4 memory=8Gi extended nic=1
        node n2 cpu=4 memory=8Gi extended nic=1
        node n3 cpu=4 memory=8Gi extended nic=1
        node n4 cpu=4 memory=8Gi extended nic=1
        node n5 cpu=4 memory=8Gi extended nic=1
        node n6 cpu=4 memory=8Gi extended nic=1
        node n7 cpu=4 memory=8Gi extended nic=1
        node n8 cpu=4 memory=8Gi extended nic=1
        node n9 cpu=4 memory=8Gi extended nic=1
        node o1 cpu=8 memory=8Gi extended nic=1 cordoned
        node o2 cpu=8 memory=8Gi extended nic=1
        node o3 cpu=8 memory=8Gi extended nic=1 label kind=x
        job r cpu=6 memory=1Gi priority=100 on o2
        job t cpu=6 memory=1Gi priority=100 on o3
        job x pods=2 min=2 cpu=6 memory=2Gi extended nic=1
    ", "x"), @r"
    pod group default/x is pending
      pods: 0 with a node, 2 pending, 2 required to run
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) were unschedulable, 11 node(s) didn't have enough resources: CPU cores.

    remedy: free capacity for 2 more pods of its size, or add nodes that have it: short of CPU cores
      simulated: it runs on (new node) at once

    queues, from leaf to root
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 0

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/x-0, which requests 6 CPU cores, 2.147 GB memory, 1 nic
      9 nodes (n1, n2, n3, n4, n5, n6, n7, n8, …): NodeResourcesFit rejects: node(s) didn't have enough resources: CPU cores
        free 4 of 4 CPU cores, 8.589 of 8.589 GB memory, 1 of 1 nic
      o1: NodeUnschedulable rejects: node(s) were unschedulable
        free 8 of 8 CPU cores, 8.589 of 8.589 GB memory, 1 of 1 nic
      2 nodes (o2, o3): NodeResourcesFit rejects: node(s) didn't have enough resources: CPU cores
        free 2 of 8 CPU cores, 7.516 of 8.589 GB memory, 1 of 1 nic
    ");
}

#[test]
fn a_queue_explanation_shows_bounded_cpu_and_memory_and_past_usage() {
    assert_snapshot!(queue_explained("
        node n1 gpus=4 cpu=8 memory=8G
        queue a weight=1 cpu-quota=2 cpu-limit=6 memory-limit=4G used=250000
        queue b weight=3
        job x pods=2 min=1 gpus=1 cpu=3 memory=1G queue=a on n1
        job y pods=4 min=1 gpus=1 cpu=1 memory=1G queue=b
    ", "a"), @r"
    queue a
      GPUs: quota 0, limit unlimited, fair share 1, allocated 1 (of that 0 non-preemptible), requested 2
      CPU cores: quota 2, limit 6, fair share 4, allocated 3 (of that 0 non-preemptible), requested 6
      GB memory: quota unlimited, limit 4, fair share 2, allocated 1 (of that 0 non-preemptible), requested 2

    fair share of GPUs, step by step
      the cluster has 4 GPUs for a, b
        a requests 2 (quota 0, limit unlimited) and gets 0 of its quota
        b requests 4 (quota 0, limit unlimited) and gets 0 of its quota
        4 GPUs left over
        priority 100, round 1: of 4, a (weight 1, past usage 25 % of the cluster) wants 2 and gets 0
        priority 100, round 1: of 4, b (weight 3) wants 4 and gets 3
        rounding gives 1 more to a
        fair shares: a 1, b 3

    fair share of CPU cores, step by step
      the cluster has 8 CPU cores for a, b
        a requests 6 (quota 2, limit 6) and gets 2 of its quota
        b requests 4 (quota unlimited, limit unlimited) and gets 4 of its quota
        2 CPU cores left over
        priority 100, round 1: of 2, a (weight 1) wants 4 and gets 2
        fair shares: a 4, b 4

    fair share of GB memory, step by step
      the cluster has 8 GB memory for a, b
        a requests 2 (quota unlimited, limit 4) and gets 2 of its quota
        b requests 4 (quota unlimited, limit unlimited) and gets 4 of its quota
        2 GB memory left over
        fair shares: a 2, b 4

    all queues
      a borrows 1 GPU (use over quota)
      a borrows 1 CPU core (use over quota)
      a is starved of 1 CPU core (requested within its fair share)
      a is starved of 1 GB memory (requested within its fair share)
      b is starved of 3 GPUs (requested within its fair share)
      b is starved of 4 CPU cores (requested within its fair share)
      b is starved of 4 GB memory (requested within its fair share)

    with 1 GPU more requested, these pods could be reclaimed, in this order
      none

    if others reclaim, these pods are evicted first
      default/x of queue a: 1 pod, the job's minimum
    ");
}

#[test]
fn a_queue_explanation_shows_only_its_own_evictions() {
    let cluster = "
        node n1 gpus=4
        queue a quota=2
        queue b quota=2
        job low gpus=1 queue=a priority=40 on n1
        job fixed gpus=1 queue=a non-preemptible on n1
        job rest pods=2 gpus=1 queue=b on n1 n1
        job high gpus=1 queue=a priority=60
    ";
    let decided = |queue: &str| {
        let output = queue_explained(cluster, queue);
        let at = output.find("the next cycle evicts");
        at.map_or("nothing", |at| output.split_at(at).1).trim().to_owned()
    };
    assert_snapshot!(decided("a"), @r"
    the next cycle evicts
      1 pod of default/low for default/high (preempt)
    ");
    assert_snapshot!(decided("b"), @"nothing");
}

#[test]
fn gpu_fractions_are_shown_and_pod_slots_if_nothing_else_is_requested() {
    let amounts = |request: &str| {
        let output = explained(
            &format!(
                "
                node n1 gpus=2 gpu-memory=8000 pods=3
                node n2 gpus=1 gpu-memory=8000 pods=3 taint a=b:NoSchedule
                job a part=0.6 cpu=1 on n1/g1
                job b part=0.7 cpu=1 on n1/g2
                job c cpu=1 on n1
                job x {request}
            "
            ),
            "x",
        );
        output.split_at(output.find("nodes for pod").expect("the group is pending")).1.to_owned()
    };
    assert_snapshot!(amounts("part=0.5"), @r"
    nodes for pod default/x, which requests 0.5 of a GPU
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs, pods
        free 0 of 2 GPUs, at most 0.4 of one GPU
      n2: TaintToleration rejects: node(s) had untolerated taint {a: b}
        free 1 of 1 GPU, at most 1 of one GPU
    ");
    assert_snapshot!(amounts("part-memory=9000 devices=2 cpu=1"), @r"
    nodes for pod default/x, which requests 9000 MiB of each of 2 GPUs, 1 CPU core
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: GPU memory
        free 0 of 2 GPUs, at most 3200 MiB of one GPU, 125 of 128 CPU cores
      n2: TaintToleration rejects: node(s) had untolerated taint {a: b}; NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
        free 1 of 1 GPU, at most 8000 MiB of one GPU, 128 of 128 CPU cores
    ");
    assert_snapshot!(amounts(""), @r"
    nodes for pod default/x, which requests only a pod slot
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: pods
        free 0 of 3 pods
      n2: TaintToleration rejects: node(s) had untolerated taint {a: b}
        free 3 of 3 pods
    ");
}

#[test]
fn a_queue_is_starved_if_its_only_requesting_child_is() {
    let output = queue_explained(
        "
        node n1 gpus=8
        queue lab quota=4
        queue team parent=lab quota=0
        queue rest parent=lab quota=0
        queue other quota=4
        job a pods=3 min=1 gpus=1 queue=team on n1
        job b pods=7 min=7 gpus=1 queue=other on n1 n1 n1 n1 n1 n1 n1
    ",
        "lab",
    );
    let mut parts = output.split("\n\n");
    assert_snapshot!(parts.find(|part| part.starts_with("all queues")).unwrap(), @r"
    all queues
      lab is starved of 2 GPUs (requested within its fair share)
      other borrows 3 GPUs (use over quota)
      team borrows 1 GPU (use over quota)
      team is starved of 2 GPUs (requested within its fair share)
    ");
}

/// The plugin verdicts about group `x`, and its nodes.
fn plugins_in_topology(cluster: &str) -> String {
    let output = explained(&format!("{cluster}\ntopology dc levels zone rack"), "x");
    output.split_at(output.find("plugins, independent").expect("the group is pending")).1.to_owned()
}

#[test]
fn the_topology_rejects_a_gang_that_no_domain_holds() {
    assert_snapshot!(plugins_in_topology("
        node n1 gpus=4 label zone=a label rack=a1
        node n2 gpus=4 label zone=b label rack=b1
        job x pods=6 min=6 gpus=1 together=dc/zone
    "), @r"
    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes
      topology: rejects: node-group a can allocate only 4 of 6 required pods. node-group b can allocate only 4 of 6 required pods. topology dc, requirement zone couldn't be satisfied.

    nodes for pod default/x-0, which requests 1 GPU
      2 nodes (n1, n2): topology rejects: node(s) are in no zone of topology dc that holds 6 required pods
        free 4 of 4 GPUs
    ");
    assert_snapshot!(plugins_in_topology("
        node n1 gpus=4 label zone=a label rack=a1
        node n2 gpus=1 label zone=a label rack=a2
        gang x
          part head gpus=1
          part work pods=2 gpus=2 together=dc/rack
        job r gpus=1 non-preemptible on n1
    "), @r"
    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes
      topology: rejects: node-group a2 can allocate only 0 of 2 required pods. node-group a1 can allocate only 1 of 2 required pods. topology dc, requirement rack couldn't be satisfied.

    nodes for pod default/x-work-0, which requests 2 GPUs
      n1: topology rejects: node(s) are in no rack of topology dc that holds 2 required pods
        free 3 of 4 GPUs
      n2: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs; topology rejects: node(s) are in no rack of topology dc that holds 2 required pods
        free 0 of 1 GPU, with 1 other pod of its group placed there
    ");
    assert_snapshot!(plugins_in_topology("
        node n1 gpus=8 label zone=a label rack=a1
        job x pods=2 min=2 gpus=1 together=dc/row
    "), @r"
    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes
      topology: rejects: topology dc with level row does not exist

    nodes for pod default/x-0, which requests 1 GPU
      n1: topology rejects: node(s) are in no row of topology dc that holds 2 required pods
        free 8 of 8 GPUs
    ");
}

#[test]
fn the_topology_rejects_nodes_outside_the_domains_that_hold_the_gang() {
    assert_snapshot!(plugins_in_topology("
        node n1 gpus=8 label zone=a label rack=a1 cordoned
        node n2 gpus=4 label zone=b label rack=b1
        node n3 gpus=8
        job x pods=6 min=6 gpus=1 together=dc/zone
    "), @r"
    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes
      topology: passes

    nodes for pod default/x-0, which requests 1 GPU
      n1: NodeUnschedulable rejects: node(s) were unschedulable
        free 8 of 8 GPUs
      n2: topology rejects: node(s) are in no zone of topology dc that holds 6 required pods
        free 4 of 4 GPUs
      n3: topology rejects: node(s) didn't have all labels of topology dc
        free 8 of 8 GPUs
    ");
}

#[test]
fn an_unbounded_resource_is_shown_without_an_amount() {
    let output = explained(
        &format!(
            "
            node n1 cpu=1 extended looks={all}
            job r cpu=1 extended looks=1 priority=100 on n1
            job x cpu=1 extended looks=1
        ",
            all = Resources::INEXHAUSTIBLE
        ),
        "x",
    );
    assert_snapshot!(output.split("\n\n").last().unwrap_or_default(), @"
    nodes for pod default/x, which requests 1 CPU core, 1 looks
      n1: NodeResourcesFit rejects: node(s) didn't have enough resources: CPU cores
        free 0 of 1 CPU core, any number of looks
    ");
}
