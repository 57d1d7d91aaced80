//! Work with and without GPUs on nodes that are labelled for it.

use insta::assert_snapshot;

use crate::{
    Profile,
    testing::{plan_of, plan_with, remedies_with},
};

const NODES: &str = "
    node n1 gpus=8 cpu=8 label node-role.kubernetes.io/gpu-worker=
    node n2 gpus=8 cpu=8 label node-role.kubernetes.io/cpu-worker=
    node n3 gpus=8 cpu=8
";

fn restricted() -> Profile {
    let mut profile = Profile::kai();
    profile.plugins.keep_to_roles();
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
fn roles_mean_nothing_unless_they_are_to_be_kept() {
    assert_snapshot!(plan_of(&format!("{NODES}\n job a pods=3 min=1 gpus=8")), @"a runs on n1, n2, n3");
}

#[test]
fn a_node_is_labelled_for_work_that_no_node_is_labelled_for() {
    assert_snapshot!(remedies_with(&restricted(), "
        node n1 gpus=8
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    label the node node-role.kubernetes.io/gpu-worker, if it is for work with GPUs
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_with(&restricted(), "
        node n1 cpu=8
        job a cpu=1
    ", "a"), @r"
    PodSchedulingErrors
    label the node node-role.kubernetes.io/cpu-worker, if it is for work without GPUs
      then it runs on n1 (Now)
    ");
}
