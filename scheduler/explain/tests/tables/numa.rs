//! NUMA zones, and kubelets that reject pods they cannot align.

use insta::assert_snapshot;

use crate::texts::{explained, suggestions_of};
use schedlab_testkit::{cycles_until_steady_of, plan_of};

#[test]
fn a_guaranteed_pod_gets_the_lowest_zone_that_holds_it() {
    assert_snapshot!(plan_of("
        node large cpu=8 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
        node small cpu=8 numa=single/pod zone z0:cpu=2 zone z1:cpu=2
        job a cpu=3 guaranteed
        job b cpu=3 guaranteed
        job c cpu=3 guaranteed
        job d cpu=1 guaranteed
    "), @r"
    a runs on large@z0
    b runs on large@z1
    d runs on large@z0
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node cannot NUMA-align the pod's resources under its Topology Manager policy, 1 node(s) didn't have enough resources: CPU cores.
    ");
}

#[test]
fn pods_that_are_not_guaranteed_are_not_aligned() {
    assert_snapshot!(plan_of("
        node n1 cpu=8 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
        job a cpu=6
    "), @"a runs on n1");
}

#[test]
fn resources_that_no_zone_publishes_are_not_aligned() {
    assert_snapshot!(plan_of("
        node n1 gpus=2 cpu=8 numa=single/pod zone z0:gpus=1 zone z1:gpus=1
        job a gpus=1 cpu=3 guaranteed
    "), @"a runs on n1@z0");
}

#[test]
fn devices_are_aligned_for_all_pods() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 numa=single/pod zone z0:gpus=2 zone z1:gpus=2
        job a gpus=1
        job b gpus=2
        job c gpus=1
        job d gpus=4
    "), @r"
    a runs on n1@z0
    b runs on n1@z1
    c runs on n1@z0
    d pending: Resources were not found for pod default/d due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn restricted_policy_spans_the_fewest_zones_by_capacity() {
    assert_snapshot!(plan_of("
        node n1 gpus=8 cpu=32 numa=restricted/pod zone z0:gpus=4,cpu=16 zone z1:gpus=4,cpu=16
        job a gpus=6 cpu=24 guaranteed
    "), @"a runs on n1@z0+z1");
    assert_snapshot!(plan_of("
        node n1 gpus=8 cpu=32 numa=restricted/pod zone z0:gpus=4,cpu=16 zone z1:gpus=4,cpu=16
        job b gpus=6 cpu=10 guaranteed
    "), @"b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node cannot NUMA-align the pod's resources under its Topology Manager policy.");
    assert_snapshot!(plan_of("
        node n1 cpu=12 numa=restricted/pod zone z0:cpu=4 zone z1:cpu=4 zone z2:cpu=4
        job a cpu=2 guaranteed on n1@z0
        job b cpu=6 guaranteed
        job c cpu=4 guaranteed
    "), @r"
    b runs on n1@z0+z1
    c runs on n1@z2
    ");
    assert_snapshot!(plan_of("
        node n1 cpu=8 numa=restricted/pod zone z0:cpu=4 zone z1:cpu=4
        job a cpu=2 guaranteed on n1@z0
        job b cpu=2 guaranteed on n1@z1
        job c cpu=4 guaranteed
    "), @"c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node cannot NUMA-align the pod's resources under its Topology Manager policy.");
}

#[test]
fn best_effort_and_none_policies_reject_no_pod_and_prefer_fewer_zones() {
    assert_snapshot!(plan_of("
        node a cpu=8 numa=none/pod zone z0:cpu=4 zone z1:cpu=4
        node b cpu=8 numa=best-effort/pod zone z0:cpu=2 zone z1:cpu=2 zone z2:cpu=4
        node c cpu=8
        job tight cpu=4 guaranteed
        job wide cpu=4 guaranteed
        job plain cpu=4
    "), @r"
    tight runs on b@z2
    wide runs on b@z0+z1
    plain runs on a
    ");
}

#[test]
fn container_scope_aligns_each_container() {
    assert_snapshot!(plan_of("
        node n1 cpu=8 numa=single/container zone z0:cpu=4 zone z1:cpu=4
        job a cpu=6 guaranteed container first:cpu=4 container cpu=3 container cpu=3
        job b cpu=2 guaranteed container cpu=1 container cpu=1
        job c cpu=1 guaranteed
    "), @r"
    a runs on n1@z0+z1
    b runs on n1@z0+z1
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores.
    ");
}

#[test]
fn preemption_frees_a_zone_or_evicts_no_pod() {
    assert_snapshot!(plan_of("
        node n1 cpu=64 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
        job low cpu=3 priority=49 guaranteed on n1@z0
        job mid cpu=3 priority=50 guaranteed on n1@z1
        job high cpu=3 priority=100 guaranteed
    "), @r"
    low leaves n1 for high (preempt)
    high waits for n1@z0
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_of("
        node n1 cpu=64 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
        job low cpu=3 priority=49 guaranteed on n1@z0
        job mid cpu=3 priority=50 guaranteed on n1@z1
        job high cpu=5 priority=100 guaranteed
    "), @"high pending: Resources were not found for pod default/high due to: no nodes with enough resources were found: 1 node cannot NUMA-align the pod's resources under its Topology Manager policy.");
}

#[test]
fn a_leaving_pod_frees_its_zone_for_a_pending_one() {
    assert_snapshot!(plan_of("
        node n1 cpu=64 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
        job a cpu=3 guaranteed releasing on n1@z0
        job b cpu=3 guaranteed on n1@z1
        job c cpu=3 guaranteed
        job d cpu=1 guaranteed
    "), @r"
    c waits for n1@z0
    d runs on n1@z0
    c pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn published_zone_usage_counts_for_pods_of_unknown_alignment() {
    assert_snapshot!(plan_of("
        node n1 cpu=64 numa=single/pod zone z0:cpu=4 zone z1:cpu=4/cpu=1
        foreign x cpu=3 guaranteed on n1
        job a cpu=3 guaranteed
        job b cpu=3 guaranteed
    "), @r"
    a runs on n1@z0
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node cannot NUMA-align the pod's resources under its Topology Manager policy.
    ");
    assert_snapshot!(plan_of("
        node n1 cpu=64 numa=single/pod zone z0:cpu=4 zone z1:cpu=4/cpu=1
        job known cpu=3 guaranteed on n1@z0
        job a cpu=3 guaranteed
    "), @"a runs on n1@z1");
}

#[test]
fn a_pod_that_cannot_be_aligned_gets_a_reason_and_a_suggestion() {
    let cluster = "
        node n1 cpu=64 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
        node n2 cpu=64 numa=single/pod zone z0:cpu=2
        job a cpu=3 guaranteed non-preemptible on n1@z0
        job b cpu=3 guaranteed non-preemptible on n1@z1
        job c cpu=3 guaranteed
    ";
    assert_snapshot!(suggestions_of(cluster, "c"), @r"
    PodSchedulingErrors
    delete pods of one NUMA zone of a node, or add a node
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(explained(cluster, "c"), @r"
    pod group default/c is pending
      pods: 0 with a node, 1 pending, 1 required to run
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/c due to: no nodes with enough resources were found: 2 node cannot NUMA-align the pod's resources under its Topology Manager policy.

    remedy: delete pods of one NUMA zone of a node, or add a node
      simulated: it runs on (new node) at once

    queues, from leaf to root
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 0

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/c, which requests 3 CPU cores
      n1: Numa rejects: node cannot NUMA-align the pod's resources under its Topology Manager policy
        free 58 of 64 CPU cores
      n2: Numa rejects: node cannot NUMA-align the pod's resources under its Topology Manager policy
        free 64 of 64 CPU cores
    ");
    let too_large = "
        node n1 cpu=64 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
        job d cpu=5 guaranteed
    ";
    assert_snapshot!(suggestions_of(too_large, "d"), @r"
    PodSchedulingErrors
    request what the kubelet can align with the NUMA zones of a node, or add a node with larger zones
      then it runs on (new node) (Now)
    ");
}

#[test]
fn zones_that_were_filled_in_one_cycle_are_full_in_the_next() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 cpu=64 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
        queue left cpu-quota=3
        queue right cpu-quota=3
        job a pods=3 min=1 cpu=3 guaranteed queue=left
        job b cpu=3 guaranteed queue=right
    "), @r"
    1: a runs on n1@z0
    1: b runs on n1@z1
    steady after 1
    ");
}

#[test]
fn pipelined_zone_capacity_is_not_given_to_other_pods() {
    assert_snapshot!(plan_of("
        node n1 cpu=6 numa=single/pod zone z0:cpu=4 zone z1:cpu=1 zone z2:cpu=1
        job leaving cpu=2 guaranteed releasing on n1@z0
        job large cpu=4 guaranteed
        job small cpu=2 guaranteed
    "), @r"
    large waits for n1@z0
    large pending: Pipelined to n1: waiting for terminating pods to release capacity
    small pending: Resources were not found for pod default/small due to: no nodes with enough resources were found: 1 node cannot NUMA-align the pod's resources under its Topology Manager policy.
    ");
}
