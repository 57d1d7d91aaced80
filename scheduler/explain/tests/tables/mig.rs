//! MIG instances, and nodes with partitioned GPUs.

use insta::assert_snapshot;

use crate::texts::suggestions_of;
use schedlab_scheduler_core::{Profile, schedule};
use schedlab_testkit::{plan_of, snapshot_of};

const MIXED: &str =
    "label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed";
const SINGLE: &str =
    "label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=single";

#[test]
fn instances_of_a_profile_are_counted_by_node() {
    assert_snapshot!(plan_of(&format!("
        node n1 extended nvidia.com/mig-1g.5gb=2 {MIXED}
        node n2 extended nvidia.com/mig-2g.10gb=1 {MIXED}
        job a pods=3 min=1 extended nvidia.com/mig-1g.5gb=1
        job b extended nvidia.com/mig-2g.10gb=1
    ")), @r"
    a runs on n1
    b runs on n2
    a runs on n1
    a pending: Resources were not found for pod default/a-2 due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: nvidia.com/mig-1g.5gb.
    ");
}

#[test]
fn an_instance_costs_as_many_gpus_as_its_profile_has_slices() {
    assert_snapshot!(plan_of(&format!("
        node n1 extended nvidia.com/mig-2g.10gb=4 {MIXED}
        queue q limit=3
        job a pods=2 min=1 extended nvidia.com/mig-2g.10gb=1 queue=q
    ")), @r"
    a runs on n1
    a pending: q quota has reached the allowable limit of GPUs. Limit is 3 GPUs, currently 2 GPUs allocated and workload requested 2 GPUs
    ");
}

#[test]
fn instances_are_reclaimed_and_preempted_like_gpus() {
    assert_snapshot!(plan_of(&format!("
        node n1 extended nvidia.com/mig-1g.5gb=2 {MIXED}
        queue left quota=1
        queue right quota=1
        job a pods=2 min=1 extended nvidia.com/mig-1g.5gb=1 queue=left on n1 n1
        job b extended nvidia.com/mig-1g.5gb=1 queue=right
    ")), @r"
    a leaves n1 for b (reclaim)
    b waits for n1
    b pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn the_single_strategy_offers_no_gpu_fractions() {
    assert_snapshot!(plan_of(&format!("
        node n1 gpus=2 {SINGLE}
        job a part=0.5
        job b gpus=1
    ")), @r"
    b runs on n1
    a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) offer whole GPUs only (MIG strategy single).
    ");
}

#[test]
fn the_single_strategy_offers_no_instances_by_profile() {
    assert_snapshot!(plan_of(&format!("
        node n1 gpus=2 extended nvidia.com/mig-1g.5gb=2 {SINGLE}
        job a extended nvidia.com/mig-1g.5gb=1
    ")), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) offer whole GPUs only (MIG strategy single).");
}

#[test]
fn the_mig_strategy_comes_from_the_label_or_else_from_the_resources() {
    let instances = "node n1 gpus=1 extended nvidia.com/mig-1g.5gb=1";
    let job_fields = "job a extended nvidia.com/mig-1g.5gb=1";
    let enabled = "label node-role.kubernetes.io/mig-enabled";
    assert_snapshot!(suggestions_of(&format!("\n{instances} {enabled}=false\n{job_fields}"), "a"), @"
    PodSchedulingErrors
    add a node that offers MIG instances
      not tried
    ");
    assert_snapshot!(plan_of(&format!("\n{instances} {enabled}=True\n{job_fields}")), @"a runs on n1");
    let mixed = "label nvidia.com/mig.strategy=mixed";
    assert_snapshot!(plan_of(&format!("\n{instances} {mixed}\n{job_fields}\njob b gpus=1")), @"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) offer MIG instances only (MIG strategy mixed).
    ");
    assert_snapshot!(plan_of(&format!("\n{instances}\n{job_fields}\njob b gpus=1")), @"
    a runs on n1
    b runs on n1
    ");
    assert_snapshot!(plan_of(&format!("\nnode n1 gpus=1 {mixed}\njob b gpus=1")), @"b runs on n1");
    let none = "node n1 gpus=1 extended nvidia.com/mig-1g.5gb=0";
    assert_snapshot!(plan_of(&format!("\n{none} {mixed}\njob b gpus=1")), @"b runs on n1");
    // A similar node that is added for whole GPUs has no MIG.
    assert_snapshot!(suggestions_of("
        node n1 extended nvidia.com/mig-1g.5gb=1 label nvidia.com/mig.strategy=mixed
        job b gpus=1
    ", "b"), @"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn the_mixed_strategy_offers_no_whole_gpus() {
    assert_snapshot!(plan_of(&format!("
        node n1 gpus=2 {MIXED}
        job a gpus=1
    ")), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) offer MIG instances only (MIG strategy mixed).");
}

#[test]
fn legacy_annotation_pods_are_not_placed_and_block_their_node() {
    assert_snapshot!(plan_of(&format!("
        node n1 extended nvidia.com/mig-1g.5gb=2 {MIXED}
        node n2 extended nvidia.com/mig-1g.5gb=2 {MIXED}
        job old legacy-mig on n1
        job more legacy-mig
        job a extended nvidia.com/mig-1g.5gb=2
        job b extended nvidia.com/mig-1g.5gb=2
    ")), @r"
    a runs on n2
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: nvidia.com/mig-1g.5gb, 1 node(s) had pods that use MIG instances by annotation.
    more pending: Resources were not found for pod default/more due to: no nodes with enough resources were found: 2 node(s) accept no pods that request MIG by annotation.
    ");
}

#[test]
fn queues_share_mig_instances_as_gpus() {
    let gpus = |text: &str| schedule(&snapshot_of(text), &Profile::kai()).total_shared.gpu;
    assert_eq!(gpus(&format!("\nnode n1 extended nvidia.com/mig-1g.10gb=4 {MIXED}")), 4000);
    let both = format!("\nnode n1 extended nvidia.com/mig-2g.10gb=3 {MIXED}\nnode n2 gpus=2");
    assert_eq!(gpus(&both), 8000);
    assert_eq!(gpus(&format!("{both}\nforeign x gpus=1 on n2")), 7000);
    assert_eq!(gpus(&format!("{both}\nforeign x extended nvidia.com/mig-2g.10gb=1 on n1")), 6000);
}

#[test]
fn gpu_requests_are_classified_as_plain_claimed_or_mig() {
    let classify = |text: &str| {
        let snapshot = snapshot_of(&format!("\nnode n1\njob x {text}"));
        let shape = &snapshot.shapes[0];
        let (any, mig) = (shape.requests_gpus(), shape.requests_mig());
        (any, shape.requests_plain_gpus(), shape.requests_dra_gpus(), mig)
    };
    assert_eq!(classify("cpu=1 extended nic=1"), (false, false, false, false));
    assert_eq!(classify("gpus=1"), (true, true, false, false));
    assert_eq!(classify("part=0.5"), (true, true, false, false));
    assert_eq!(classify("gpus=1 by-claim"), (true, false, true, false));
    assert_eq!(classify("claim c:1"), (true, false, true, false));
    assert_eq!(classify("claim c:all"), (true, false, true, false));
    assert_eq!(classify("claim c:0"), (false, false, false, false));
    assert_eq!(classify("extended nvidia.com/mig-1g.5gb=1"), (true, false, false, true));
    assert_eq!(classify("extended nvidia.com/mig-1g.5gb=0"), (false, false, false, false));
}
