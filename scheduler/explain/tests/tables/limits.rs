//! Queue limits and quotas, and the reasons when they are exceeded.

use insta::assert_snapshot;

use crate::texts::suggestions_of;
use schedlab_scheduler_core::{Profile, profile::Action};
use schedlab_testkit::{plan_of, plan_with};

#[test]
fn a_queue_stops_at_its_limit_while_gpus_are_idle() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q quota=1 limit=2
        job a gpus=1 queue=q on n1
        job b gpus=1 queue=q
        job c gpus=1 queue=q
    "), @r"
    b runs on n1
    c pending: q quota has reached the allowable limit of GPUs. Limit is 2 GPUs, currently 2 GPUs allocated and workload requested 1 GPUs
    ");
}

#[test]
fn the_limit_of_the_parent_holds_for_its_children_together() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue lab limit=3
        queue left parent=lab
        queue right parent=lab
        job a gpus=2 queue=left
        job b gpus=2 queue=right
    "), @r"
    a runs on n1
    b pending: lab quota has reached the allowable limit of GPUs. Limit is 3 GPUs, currently 2 GPUs allocated and workload requested 2 GPUs
    ");
}

#[test]
fn a_limit_counts_a_gang_as_a_whole() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q limit=3
        gang a pods=4 gpus=1 queue=q
        job b gpus=1 queue=q
    "), @r"
    b runs on n1
    a pending: q quota has reached the allowable limit of GPUs. Limit is 3 GPUs, currently 0 GPUs allocated and workload requested 4 GPUs
    ");
}

#[test]
fn idle_gpus_go_to_anyone_even_over_quota() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q quota=1
        job a pods=8 min=1 gpus=1 queue=q
    "), @"a runs on n1 x8");
}

#[test]
fn non_preemptible_jobs_stay_within_the_quota() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q quota=1
        job a gpus=1 queue=q priority=100
        job b gpus=1 queue=q priority=100
        job c gpus=1 queue=q priority=100 preemptible
    "), @r"
    a runs on n1
    c runs on n1
    b pending: Non-preemptible workload is over quota. Workload requested 1 GPUs, but q quota is 1 GPUs, while 1 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.
    ");
}

#[test]
fn the_parent_quota_binds_non_preemptible_jobs() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue lab quota=1
        queue left parent=lab quota=4
        job a gpus=2 queue=left non-preemptible
    "), @"a pending: Non-preemptible workload is over quota. Workload requested 2 GPUs, but lab quota is 1 GPUs, while 0 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.");
}

#[test]
fn preemptible_jobs_do_not_use_the_non_preemptible_quota() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q quota=1
        job a gpus=1 queue=q on n1
        job b gpus=1 queue=q non-preemptible
    "), @"b runs on n1");
}

#[test]
fn a_limit_on_cpu_holds_as_one_on_gpus_does() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q cpu-limit=1.5
        job a cpu=1 queue=q
        job b cpu=1 queue=q
    "), @"
    a runs on n1
    b pending: q quota has reached the allowable limit of CPU cores. Limit is 1.5 cores, currently 1 cores allocated and workload requested 1 cores
    ");
}

#[test]
fn a_memory_limit_is_printed_in_gigabytes() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q memory-limit=1G
        job a cpu=1 memory=2G queue=q
    "), @"a pending: q quota has reached the allowable limit of memory. Limit is 1 GB, currently 0 GB allocated and workload requested 2 GB");
}

#[test]
fn a_job_without_gpus_ignores_the_gpu_limit() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q limit=0
        job a cpu=1 queue=q
        job b gpus=1 queue=q
    "), @r"
    a runs on n1
    b pending: q quota has reached the allowable limit of GPUs. Limit is 0 GPUs, currently 0 GPUs allocated and workload requested 1 GPUs
    ");
}

#[test]
fn a_missing_queue_is_named() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q quota=1
        job a gpus=1 queue=other
    "), @"a pending: Queue 'other' does not exist");
}

#[test]
fn a_job_in_an_inner_queue_is_pointed_to_a_leaf_queue() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue lab quota=1
        queue team parent=lab quota=1
        job a gpus=1 queue=lab
    "), @"a pending: Queue 'lab' accepts no workloads: it has child queues, such as 'team'");
}

#[test]
fn a_job_at_its_limit_does_not_hold_up_others() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue full quota=8 limit=0
        queue other
        job a gpus=1 queue=full
        job b gpus=1 queue=other
    "), @r"
    b runs on n1
    a pending: full quota has reached the allowable limit of GPUs. Limit is 0 GPUs, currently 0 GPUs allocated and workload requested 1 GPUs
    ");
}

#[test]
fn a_job_that_does_not_fit_does_not_hold_up_smaller_ones() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        job a gpus=8
        job b gpus=2
    "), @r"
    b runs on n1
    a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn absurd_requests_neither_fit_nor_wrap() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue q quota=8 limit=16
        job a pods=3 min=3 memory=9223372036854775807 queue=q
        job b memory=9223372036854775807 gpus=1 queue=q
        job c gpus=1 queue=q
    "), @r"
    c runs on n1
    a pending: The workload cannot run on this cluster as it is: 3 pods that must run together request 9223372036.854 GB memory, and all nodes on which they may run offer 1099.511 GB memory.
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: memory.
    ");
}

#[test]
fn the_queue_depth_bounds_the_jobs_of_each_queue() {
    let profile = Profile { queue_depth: [(Action::Allocate, 1)].into(), ..Profile::kai() };
    assert_snapshot!(plan_with(&profile, "
        node n1 gpus=8
        queue left
        queue right
        job a gpus=1 queue=left
        job b gpus=1 queue=left
        job c gpus=1 queue=right
    "), @r"
    a runs on n1
    c runs on n1
    b pending: Other jobs of its queue come first, and only the first 1 jobs of a queue are considered per cycle
    ");
}

#[test]
fn gpu_memory_of_a_gang_is_charged_by_the_device_size_of_its_nodes() {
    let pods_of = |limit: &str| {
        plan_of(&format!(
            "
            node n1 gpus=2 gpu-memory=40000
            node n2 gpus=1 gpu-memory=80000
            queue q limit={limit}
            job blocker gpus=1 queue=r on n2
            queue r
            gang a queue=q
            part s0 part-memory=20000
            part s1 gpus=1
            "
        ))
    };
    assert_snapshot!(pods_of("1.5"), @"a runs on n1/a-s0, n1");
    assert_snapshot!(pods_of("1.4"), @"a pending: Resources were found for 1 pods from all sub-groups while sub-group s1 requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 1 node(s) exceed a queue bound: q quota has reached the allowable limit of GPUs. Limit is 1.4 GPUs, currently 0.5 GPUs allocated and workload requested 1 GPUs.");
}

#[test]
fn the_first_of_several_exceeded_bounds_is_reported() {
    let both = |queues: &str| {
        suggestions_of(&format!("node n1 gpus=8 cpu=64\n{queues}\njob w gpus=2 cpu=4 queue=q"), "w")
    };
    // Another resource of the same queue, and its parent queue.
    assert_snapshot!(both("queue q quota=1 limit=1 cpu-limit=2"), @"
    OverLimit
    raise the limit of queue q by 1 GPU to 2 GPUs; another bound is too low as well
      then it waits: q quota has reached the allowable limit of CPU cores. Limit is 2 cores, currently 0 cores allocated and workload requested 4 cores
    raise the limit of queue q by 2 CPU cores to 4 CPU cores
      then it runs on n1 (Now)
    ");
    assert_snapshot!(both("queue p quota=1 limit=1\nqueue q parent=p quota=1 limit=1"), @r"
    OverLimit
    raise the limit of queue q by 1 GPU to 2 GPUs; another bound is too low as well
      then it waits: p quota has reached the allowable limit of GPUs. Limit is 1 GPUs, currently 0 GPUs allocated and workload requested 2 GPUs
    raise the limit of queue p by 1 GPU to 2 GPUs
      then it runs on n1 (Now)
    ");
    // A non-preemptible job has a limit and a quota.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue q quota=1 limit=1
        job w gpus=2 queue=q non-preemptible
    ", "w"), @r"
    OverLimit
    raise the limit of queue q by 1 GPU to 2 GPUs; another bound is too low as well
      then it waits: Non-preemptible workload is over quota. Workload requested 2 GPUs, but q quota is 1 GPUs, while 0 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.
    raise the quota of queue q by 1 GPU to 2 GPUs
      then it runs on n1 (Now)
    ");
}
