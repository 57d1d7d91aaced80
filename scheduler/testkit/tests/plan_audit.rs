//! Audits of decisions that no scheduler should make, rule by rule. The cluster is a table; the
//! decisions are `a on n1` (optionally with `/g1` or `@z0`) and `a leaves for b by reclaim`.

use insta::assert_snapshot;
use schedlab_audit::Rules;
use schedlab_scheduler_core::{
    Decision, EvictionCause, Plan, QueueUsage, Snapshot,
    model::{
        NodeId, NodeSelectorTerm, NumaAllocation, Operator, PodGroupId, PodId, QueueId, Requirement,
    },
    resources::Resources,
};
use schedlab_testkit::{audit_plan, kube_snapshot_of, snapshot_of};

/// The breaches of the decisions under profile `kai`.
fn audited(cluster: &str, output: &str) -> String {
    judge(&snapshot_of(cluster), output, Rules::kai())
}

fn judge(snapshot: &Snapshot, output: &str, rules: Rules) -> String {
    let mut plan = Plan::default();
    for line in output.split(',').map(str::trim).filter(|line| !line.is_empty()) {
        decide(snapshot, line, &mut plan);
    }
    let breaches = audit_plan(snapshot, &plan, rules);
    breaches.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn decide(snapshot: &Snapshot, line: &str, plan: &mut Plan) {
    let id = |at: Option<usize>| {
        u32::try_from(at.expect("the table has this name")).expect("ids are 32 bits")
    };
    let (name, rest) = line.split_once(' ').expect("a line has a pod and a decision");
    let pod = PodId(id(snapshot.pods.iter().position(|pod| *pod.name == *name)));
    let group = |name: &str| {
        PodGroupId(id(snapshot.pod_groups.iter().position(|group| *group.name == *name)))
    };
    if let Some(place) = rest.strip_prefix("on ") {
        let (place, zone) = place.split_once('@').map_or((place, None), |(a, b)| (a, Some(b)));
        let (node, device) = place.split_once('/').map_or((place, None), |(a, b)| (a, Some(b)));
        let node = NodeId(id(snapshot.nodes.iter().position(|known| *known.name == *node)));
        plan.gpu_groups.extend(device.map(|device| (pod, vec![device.into()])));
        let shape = &snapshot.shapes[snapshot.pods[pod.0 as usize].shape.0 as usize];
        let amount = Resources { pods: 0, ..shape.requests.clone() };
        let all_of = |zone: &str| vec![NumaAllocation { zone: zone.into(), amount }];
        plan.numa_allocations.extend(zone.map(|zone| (pod, all_of(zone))));
        plan.decisions.push(Decision::Bind { pod, node });
        return;
    }
    let (preemptor, why) =
        rest.strip_prefix("leaves for ").and_then(|rest| rest.split_once(" by ")).expect(line);
    let preemptor = group(preemptor);
    let cause = match why {
        "preempt" => EvictionCause::Preempt { preemptor },
        "reclaim" => EvictionCause::Reclaim { preemptor, usage: "".into() },
        "consolidate" => EvictionCause::Consolidate { preemptor },
        other => panic!("unknown cause {other}"),
    };
    plan.decisions.push(Decision::Evict { pod, cause });
}

#[test]
fn only_pods_that_live_and_wait_are_bound() {
    let cluster = "
        node n1 gpus=8
        node n2 gpus=8
        job a gated=1
        job b succeeded=1
        job c on n1
        job d releasing on n1
        job e
    ";
    assert_snapshot!(audited(cluster, "a on n1"), @"rule 3 (valid binding): pod default/a was bound to n1, but it has scheduling gates");
    assert_snapshot!(audited(cluster, "b on n1"), @"rule 3 (valid binding): pod default/b was bound to n1, but it has finished");
    assert_snapshot!(audited(cluster, "c on n2"), @"rule 3 (valid binding): pod default/c is on node n1 and was bound again, to n2");
    assert_snapshot!(audited(cluster, "d on n2"), @"rule 3 (valid binding): pod default/d is on node n1 and was bound again, to n2");
    assert_snapshot!(audited(cluster, "e on n1"), @"");
}

#[test]
fn a_node_accepts_pods_that_tolerate_and_select_it() {
    let cluster = "
        node cordoned cordoned
        node dark not-ready label zone=a
        node soft taint dedicated=x:PreferNoSchedule
        node hard taint dedicated=x:NoSchedule
        job plain
        job choosy needs zone=b
        job close needs zone=a
        job stays tolerates node.kubernetes.io/unschedulable
        job ours tolerates dedicated=x
        job other tolerates dedicated=y
        job late tolerates dedicated=x:NoExecute
    ";
    assert_snapshot!(audited(cluster, "plain on cordoned"), @"rule 3 (valid binding): pod default/plain was bound to node cordoned, which is cordoned");
    assert_snapshot!(audited(cluster, "plain on dark"), @"rule 3 (valid binding): pod default/plain was bound to node dark, which is not ready");
    assert_snapshot!(audited(cluster, "plain on soft"), @"");
    assert_snapshot!(audited(cluster, "plain on hard"), @"rule 3 (valid binding): pod default/plain was bound to node hard, whose taint dedicated the pod does not tolerate");
    assert_snapshot!(audited(cluster, "choosy on soft"), @"rule 3 (valid binding): pod default/choosy was bound to node soft, which lacks the label zone=b of the pod's node selector");
    assert_snapshot!(audited(cluster, "stays on cordoned"), @"");
    assert_snapshot!(audited(cluster, "ours on hard"), @"");
    assert_snapshot!(audited(cluster, "other on hard"), @"rule 3 (valid binding): pod default/other was bound to node hard, whose taint dedicated the pod does not tolerate");
    assert_snapshot!(audited(cluster, "late on hard"), @"rule 3 (valid binding): pod default/late was bound to node hard, whose taint dedicated the pod does not tolerate");
    let snapshot = kube_snapshot_of(cluster);
    assert_snapshot!(judge(&snapshot, "close on dark", Rules::kube()), @"");
}

#[test]
fn node_affinity_operators_are_evaluated() {
    let takes = |operator, values: &[&str], label: &str| {
        let mut snapshot = snapshot_of(&format!("\nnode n1 {label}\njob a"));
        let values = values.iter().map(|value| (*value).into()).collect();
        let rule = Requirement { key: "size".into(), operator, values };
        let term = NodeSelectorTerm { labels: vec![rule], fields: Vec::new() };
        snapshot.shapes[0].node_affinity = Some(vec![term]);
        judge(&snapshot, "a on n1", Rules::kai()).is_empty()
    };
    let of = |operator, values: &[&str]| {
        ["label size=4", "label size=5", "label size=6", ""]
            .map(|label| takes(operator, values, label))
    };
    assert_eq!(of(Operator::In, &["4", "5"]), [true, true, false, false]);
    assert_eq!(of(Operator::NotIn, &["4", "5"]), [false, false, true, true]);
    assert_eq!(of(Operator::Exists, &[]), [true, true, true, false]);
    assert_eq!(of(Operator::DoesNotExist, &[]), [false, false, false, true]);
    assert_eq!(of(Operator::Gt, &["5"]), [false, false, true, false]);
    assert_eq!(of(Operator::Lt, &["5"]), [true, false, false, false]);
    let mut snapshot = snapshot_of("\nnode n1\njob a");
    snapshot.shapes[0].node_affinity = Some(vec![NodeSelectorTerm::default()]);
    assert_snapshot!(judge(&snapshot, "a on n1", Rules::kai()), @"rule 3 (valid binding): pod default/a was bound to node n1, which the pod's node affinity does not select");
}

#[test]
fn requests_on_a_node_stay_within_its_capacity() {
    let cluster = "
        node n1 gpus=2 cpu=4 memory=8Gi pods=2 extended nic=1
        job cpu cpu=3 on n1
        job gpus gpus=3
        job more cpu=2
        job just cpu=1 memory=8Gi extended nic=1
        job much memory=9Gi
        job nics extended nic=2
        job none extended fpga=1
    ";
    assert_snapshot!(audited(cluster, "just on n1"), @"");
    assert_snapshot!(audited(cluster, "gpus on n1"), @"rule 1 (capacity): with pod default/gpus, pods on node n1 request 3 nvidia.com/gpu; the node has 2");
    assert_snapshot!(audited(cluster, "more on n1"), @"rule 1 (capacity): with pod default/more, pods on node n1 request 5 cpu; the node has 4");
    assert_snapshot!(audited(cluster, "much on n1"), @"rule 1 (capacity): with pod default/much, pods on node n1 request 9663676416 memory; the node has 8589934592");
    assert_snapshot!(audited(cluster, "nics on n1"), @"rule 1 (capacity): with pod default/nics, pods on node n1 request 2 nic; the node has 1");
    assert_snapshot!(audited(cluster, "none on n1"), @"rule 1 (capacity): with pod default/none, pods on node n1 request 1 fpga; the node has 0");
    let crowded = "
        node n1 pods=1
        job a cpu=1
        job b cpu=1
    ";
    assert_snapshot!(audited(crowded, "a on n1, b on n1"), @"rule 1 (capacity): with pod default/b, pods on node n1 request 2 pods; the node has 1");
}

#[test]
fn an_existing_shortage_is_no_breach_of_a_pod_that_does_not_request_it() {
    let cluster = "
        node n1 gpus=1 cpu=4
        queue q quota=-1 limit=1 cpu-limit=4
        job a gpus=2 cpu=1 queue=q on n1
        job b cpu=3 queue=q
        job c cpu=3 gpus=1 queue=q
    ";
    assert_snapshot!(audited(cluster, "b on n1"), @"");
    assert_snapshot!(audited(cluster, "c on n1"), @r"
    rule 1 (capacity): with pod default/c, pods on node n1 request 3 nvidia.com/gpu; the node has 1
    rule 5 (quota and limit): with pod default/c, queue q uses 3 nvidia.com/gpu; its limit is 1
    ");
}

#[test]
fn limits_bind_all_pods_and_quotas_non_preemptible_ones_at_every_level() {
    let cluster = "
        node n1 gpus=8 cpu=64 memory=64Gi
        queue lab quota=3 limit=4
        queue team parent=lab quota=2 limit=3 cpu-limit=8 memory-limit=8Gi
        queue other parent=lab quota=8
        job a gpus=1 queue=team on n1
        job b gpus=2 queue=team
        job c gpus=3 queue=team
        job d gpus=3 queue=other
        job e gpus=4 queue=other
        job f gpus=2 queue=team non-preemptible
        job g gpus=3 queue=other non-preemptible
        job h gpus=1 queue=team non-preemptible
        job i cpu=9 queue=team
        job j memory=9Gi queue=team
        job k cpu=8 memory=8Gi queue=team
    ";
    assert_snapshot!(audited(cluster, "b on n1"), @"");
    assert_snapshot!(audited(cluster, "c on n1"), @"rule 5 (quota and limit): with pod default/c, queue team uses 4 nvidia.com/gpu; its limit is 3");
    assert_snapshot!(audited(cluster, "d on n1"), @"");
    assert_snapshot!(audited(cluster, "e on n1"), @"rule 5 (quota and limit): with pod default/e, queue lab uses 5 nvidia.com/gpu; its limit is 4");
    assert_snapshot!(audited(cluster, "f on n1"), @"");
    assert_snapshot!(audited(cluster, "g on n1, h on n1"), @r"
    rule 5 (quota and limit): with pod default/h, queue lab uses 5 nvidia.com/gpu; its limit is 4
    rule 5 (quota and limit): with pod default/h, non-preemptible pods of queue lab use 4 nvidia.com/gpu; its quota is 3
    ");
    assert_snapshot!(audited(cluster, "i on n1"), @"rule 5 (quota and limit): with pod default/i, queue team uses 9 cpu; its limit is 8");
    assert_snapshot!(audited(cluster, "j on n1"), @"rule 5 (quota and limit): with pod default/j, queue team uses 9663676416 memory; its limit is 8589934592");
    assert_snapshot!(audited(cluster, "k on n1"), @"");
}

#[test]
fn numa_zones_stay_within_capacity_and_one_zone_serves_a_pod() {
    let cluster = "
        node n1 gpus=4 cpu=8 numa=single/pod zone z0:cpu=4,gpus=1 zone z1:cpu=4,gpus=1
        node n2 cpu=8 numa=restricted/pod zone z0:cpu=4 zone z1:cpu=4
        job a cpu=3 guaranteed on n1@z0
        job b cpu=1 guaranteed
        job c cpu=2 guaranteed
        job d cpu=2
        job e gpus=1
        job f gpus=1 cpu=9
    ";
    assert_snapshot!(audited(cluster, "b on n1@z0"), @"");
    assert_snapshot!(audited(cluster, "c on n1@z0"), @"rule 1 (capacity): with pod default/c, pods on node n1 use 5 cpu of NUMA zone z0, which has 4");
    assert_snapshot!(audited(cluster, "c on n1"), @"rule 1 (capacity): with pod default/c, pods on node n1 have no NUMA zone with 2 cpu for the pod");
    assert_snapshot!(audited(cluster, "c on n2"), @"");
    assert_snapshot!(audited(cluster, "c on n2@z9"), @"rule 1 (capacity): with pod default/c, pods on node n2 use 2 cpu of NUMA zone z9, which has 0");
    assert_snapshot!(audited(cluster, "d on n1"), @"");
    assert_snapshot!(audited(cluster, "e on n1"), @"rule 1 (capacity): with pod default/e, pods on node n1 have no NUMA zone with 1 nvidia.com/gpu for the pod");
    assert_snapshot!(audited(cluster, "e on n1@z1"), @"");
}

#[test]
fn a_shared_device_is_not_oversubscribed() {
    let cluster = "
        node n1 gpus=2
        job a part=0.6 on n1/g1
        job b part=0.4
        job c part=0.5
        job d gpus=1
        job e gpus=2
    ";
    assert_snapshot!(audited(cluster, "b on n1/g1, d on n1"), @"");
    assert_snapshot!(audited(cluster, "c on n1/g1"), @"rule 2 (devices): with pod default/c, pods on node n1 use 1.1 of shared GPU g1");
    assert_snapshot!(audited(cluster, "d on n1, c on n1/g2"), @"rule 2 (devices): with pod default/c, pods on node n1 use 1 whole and 2 shared GPUs; the node has 2");
    assert_snapshot!(audited(cluster, "e on n1, b on n1/g1"), @"rule 2 (devices): with pod default/b, pods on node n1 use 2 whole and 1 shared GPUs; the node has 2");
}

#[test]
fn an_eviction_is_checked_against_its_cause() {
    let cluster = "
        node n1 gpus=8
        queue left quota=4
        queue right quota=4
        job low priority=40 gpus=1 queue=left on n1
        job same priority=50 gpus=1 queue=left on n1
        job fixed priority=40 gpus=1 queue=left non-preemptible on n1
        job high priority=50 gpus=1 queue=left
        job owner priority=30 gpus=1 queue=right
    ";
    assert_snapshot!(audited(cluster, "low leaves for high by preempt"), @"");
    assert_snapshot!(audited(cluster, "same leaves for high by preempt"), @"rule 9 (valid victim): pod default/same was evicted for default/high, whose priority 50 is not above the victim's 50");
    assert_snapshot!(audited(cluster, "low leaves for owner by preempt"), @"rule 9 (valid victim): pod default/low was evicted for default/owner, which is in queue right, not in the victim's queue left: priority counts within one queue");
    assert_snapshot!(audited(cluster, "low leaves for owner by reclaim"), @"");
    assert_snapshot!(audited(cluster, "low leaves for high by reclaim"), @"rule 9 (valid victim): pod default/low was evicted for default/high, which is in the same queue left: nothing to reclaim");
    assert_snapshot!(audited(cluster, "low leaves for low by consolidate"), @"rule 9 (valid victim): pod default/low was evicted for default/low, its own job");
    assert_snapshot!(audited(cluster, "low leaves for high by consolidate"), @"");
    assert_snapshot!(audited(cluster, "fixed leaves for high by preempt"), @"rule 9 (valid victim): pod default/fixed was evicted, but it is not preemptible and its gang is whole");
}

#[test]
fn the_rest_of_a_non_preemptible_gang_may_be_evicted() {
    let cluster = "
        node n1 gpus=8
        queue left quota=4
        gang stump pods=3 gpus=1 priority=40 queue=left non-preemptible on n1 n1
        gang whole pods=2 gpus=1 priority=40 queue=left non-preemptible on n1 n1
        job high priority=50 gpus=1 queue=left
    ";
    assert_snapshot!(audited(cluster, "stump-0 leaves for high by preempt, stump-1 leaves for high by preempt"), @"rule 4 (gang atomicity): gang default/stump was bound in part: 2 of 3 required pods bound");
    assert_snapshot!(audited(cluster, "whole-0 leaves for high by preempt, whole-1 leaves for high by preempt"), @r"
    rule 4 (gang atomicity): gang default/stump was bound in part: 2 of 3 required pods bound
    rule 9 (valid victim): pod default/whole-0 was evicted, but it is not preemptible and its gang is whole
    ");
}

#[test]
fn the_rest_of_a_sub_group_may_be_evicted() {
    let cluster = "
        node n1 gpus=8
        queue q quota=8
        gang split queue=q priority=40 non-preemptible
          part left pods=2 gpus=1 on n1
          part right gpus=1 on n1
        job high priority=50 gpus=1 queue=q
    ";
    let of_victims = |output: &str| {
        let output = audited(cluster, output);
        let lines = output.lines().filter(|line| line.starts_with("rule 9 "));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(of_victims("split-left-0 leaves for high by preempt"), @"");
    assert_snapshot!(of_victims("split-right leaves for high by preempt"), @"rule 9 (valid victim): pod default/split-right was evicted for default/high, although the pod is not preemptible and its sub-group is whole");
}

#[test]
fn a_gang_is_bound_and_evicted_whole() {
    let cluster = "
        node n1 gpus=16
        queue q quota=-1
        gang new pods=3 gpus=1 queue=q
        gang old pods=2 gpus=1 queue=q on n1 n1
        job wide pods=3 min=2 gpus=1 queue=q on n1 n1 n1
        gang split queue=q
          part head gpus=1
          part rack needs=1
          part left parent=rack pods=2 gpus=1
          part right parent=rack pods=2 gpus=1
        job high priority=60 gpus=1 queue=q
    ";
    assert_snapshot!(audited(cluster, "new-0 on n1, new-1 on n1"), @"rule 4 (gang atomicity): gang default/new was bound in part: 2 of 3 required pods bound");
    assert_snapshot!(audited(cluster, "new-0 on n1, new-1 on n1, new-2 on n1"), @"");
    assert_snapshot!(audited(cluster, "split-head on n1"), @"rule 4 (gang atomicity): gang default/split was bound in part: 1 of 2 required sub-groups whole");
    assert_snapshot!(audited(cluster, "split-left-0 on n1, split-left-1 on n1"), @"rule 4 (gang atomicity): gang default/split was bound in part: 1 of 2 required sub-groups whole");
    assert_snapshot!(audited(cluster, "split-head on n1, split-left-0 on n1, split-left-1 on n1"), @"");
    assert_snapshot!(audited(cluster, "split-head on n1, split-left-0 on n1, split-right-1 on n1"), @"rule 4 (gang atomicity): gang default/split was bound in part: 1 of 2 required pods of sub-group left bound");
    assert_snapshot!(audited(cluster, "old-0 leaves for high by preempt"), @"rule 12 (whole-gang eviction): gang default/old was evicted in part: 1 of 2 required pods bound");
    assert_snapshot!(audited(cluster, "old-0 leaves for high by consolidate"), @"");
    assert_snapshot!(audited(cluster, "old-0 leaves for high by preempt, old-1 leaves for high by preempt"), @"");
    assert_snapshot!(audited(cluster, "wide-0 leaves for high by preempt"), @"");
    assert_snapshot!(audited(cluster, "wide-0 leaves for high by preempt, wide-1 leaves for high by preempt"), @"rule 12 (whole-gang eviction): gang default/wide was evicted in part: 1 of 2 required pods bound");
}

#[test]
fn a_queue_status_is_the_sum_of_its_pods_with_or_without_leaving_ones() {
    let snapshot = snapshot_of(
        "
        node n1 gpus=8
        queue q quota=-1
        job a gpus=2 cpu=1 memory=1Gi queue=q on n1
        job b gpus=1 cpu=0 memory=0 queue=q releasing on n1
    ",
    );
    let reported = |gpu_milli, cpu_milli, memory_bytes| {
        let allocated = Resources { gpu_milli, cpu_milli, memory_bytes, ..Resources::default() };
        let output = QueueUsage { allocated, ..QueueUsage::default() };
        let plan = Plan { queues: [(QueueId(0), output)].into(), ..Plan::default() };
        let breaches = audit_plan(&snapshot, &plan, Rules::kai());
        breaches.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(reported(2000, 1000, 1 << 30), @"");
    assert_snapshot!(reported(3000, 1000, 1 << 30), @"");
    assert_snapshot!(reported(1000, 1000, 1 << 30), @"rule 6 (queue status): status of queue q reports 1 nvidia.com/gpu in use; its bound pods use 2");
    assert_snapshot!(reported(-2000, 1000, 1 << 30), @r"
    rule 6 (queue status): status of queue q reports -2 nvidia.com/gpu in use; its bound pods use 2
    rule 29 (no negative amounts): status of queue q reports -2 nvidia.com/gpu in use
    ");
    assert_snapshot!(reported(2000, 1000, (1 << 30) - 1), @"rule 6 (queue status): status of queue q reports 1073741823 memory in use; its bound pods use 1073741824");
}
