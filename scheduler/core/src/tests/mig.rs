//! MIG instances, and nodes whose GPUs are split.

use insta::assert_snapshot;

use crate::{
    Profile, schedule,
    testing::{plan_of, remedies_of, snapshot_of},
};

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
    b pending: Room was promised on n1 and is being released by pods that are leaving
    ");
}

#[test]
fn where_instances_look_like_gpus_there_are_no_parts_of_them() {
    assert_snapshot!(plan_of(&format!("
        node n1 gpus=2 {SINGLE}
        job a part=0.5
        job b gpus=1
    ")), @r"
    b runs on n1
    a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) give whole GPUs only (MIG strategy single).
    ");
}

#[test]
fn where_instances_look_like_gpus_nobody_gets_one_by_its_profile() {
    assert_snapshot!(plan_of(&format!("
        node n1 gpus=2 extended nvidia.com/mig-1g.5gb=2 {SINGLE}
        job a extended nvidia.com/mig-1g.5gb=1
    ")), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) give whole GPUs only (MIG strategy single).");
}

#[test]
fn a_node_is_split_as_its_label_says_or_else_as_its_instances_do() {
    let instances = "node n1 gpus=1 extended nvidia.com/mig-1g.5gb=1";
    let asks = "job a extended nvidia.com/mig-1g.5gb=1";
    let enabled = "label node-role.kubernetes.io/mig-enabled";
    assert_snapshot!(remedies_of(&format!("\n{instances} {enabled}=false\n{asks}"), "a"), @"
    PodSchedulingErrors
    add a node that gives MIG instances
      not tried
    ");
    assert_snapshot!(plan_of(&format!("\n{instances} {enabled}=True\n{asks}")), @"a runs on n1");
    let mixed = "label nvidia.com/mig.strategy=mixed";
    assert_snapshot!(plan_of(&format!("\n{instances} {mixed}\n{asks}\njob b gpus=1")), @"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) give MIG instances only (MIG strategy mixed).
    ");
    assert_snapshot!(plan_of(&format!("\n{instances}\n{asks}\njob b gpus=1")), @"
    a runs on n1
    b runs on n1
    ");
    assert_snapshot!(plan_of(&format!("\nnode n1 gpus=1 {mixed}\njob b gpus=1")), @"b runs on n1");
    let none = "node n1 gpus=1 extended nvidia.com/mig-1g.5gb=0";
    assert_snapshot!(plan_of(&format!("\n{none} {mixed}\njob b gpus=1")), @"b runs on n1");
    // A node like it that is added for whole GPUs is not split.
    assert_snapshot!(remedies_of("
        node n1 extended nvidia.com/mig-1g.5gb=1 label nvidia.com/mig.strategy=mixed
        job b gpus=1
    ", "b"), @"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn where_profiles_are_mixed_there_are_no_whole_gpus() {
    assert_snapshot!(plan_of(&format!("
        node n1 gpus=2 {MIXED}
        job a gpus=1
    ")), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) give MIG instances only (MIG strategy mixed).");
}

#[test]
fn pods_that_ask_by_annotation_are_placed_no_more_and_keep_others_away() {
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
    more pending: Resources were not found for pod default/more due to: no nodes with enough resources were found: 2 node(s) take no pods that ask for MIG by annotation.
    ");
}

#[test]
fn queues_share_instances_as_gpus_and_nothing_that_others_take() {
    let gpus = |text: &str| schedule(&snapshot_of(text), &Profile::kai()).shared.gpu;
    assert_eq!(gpus(&format!("\nnode n1 extended nvidia.com/mig-1g.10gb=4 {MIXED}")), 4000);
    let both = format!("\nnode n1 extended nvidia.com/mig-2g.10gb=3 {MIXED}\nnode n2 gpus=2");
    assert_eq!(gpus(&both), 8000);
    assert_eq!(gpus(&format!("{both}\nforeign x gpus=1 on n2")), 7000);
    assert_eq!(gpus(&format!("{both}\nforeign x extended nvidia.com/mig-2g.10gb=1 on n1")), 6000);
}
