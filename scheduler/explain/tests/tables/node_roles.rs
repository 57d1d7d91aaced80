//! GPU and CPU jobs on nodes with role labels.

use insta::assert_snapshot;

use crate::texts::suggestions_with;
use schedlab_scheduler_core::Profile;
use schedlab_testkit::{plan_of, plan_with};

const NODES: &str = "
    node n1 gpus=8 cpu=8 label node-role.kubernetes.io/gpu-worker=
    node n2 gpus=8 cpu=8 label node-role.kubernetes.io/cpu-worker=
    node n3 gpus=8 cpu=8
";

fn restricted() -> Profile {
    let mut profile = Profile::kai();
    profile.plugins.enforce_node_roles();
    profile
}

#[test]
fn work_with_gpus_goes_to_gpu_workers_and_work_without_to_cpu_workers() {
    let jobs = "
        job a gpus=8
        job b cpu=8
        job c part=0.5
        job d cpu=1
    ";
    assert_snapshot!(plan_with(&restricted(), &format!("{NODES}{jobs}")), @r"
    a runs on n1
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 2 node(s) were not labelled as GPU workers.
    d pending: Resources were not found for pod default/d due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores, 2 node(s) were not labelled as CPU workers.
    ");
}

#[test]
fn roles_are_ignored_unless_enforced() {
    assert_snapshot!(plan_of(&format!("{NODES}\n job a pods=3 min=1 gpus=8")), @"a runs on n1, n2, n3");
}

#[test]
fn labelling_a_node_with_the_missing_role_is_suggested() {
    assert_snapshot!(suggestions_with(&restricted(), "
        node n1 gpus=8
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    label the node with node-role.kubernetes.io/gpu-worker if it is for GPU workloads
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_with(&restricted(), "
        node n1 cpu=8
        job a cpu=1
    ", "a"), @r"
    PodSchedulingErrors
    label the node with node-role.kubernetes.io/cpu-worker if it is for workloads without GPUs
      then it runs on n1 (Now)
    ");
}
