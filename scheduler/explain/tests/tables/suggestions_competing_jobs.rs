//! Suggested capacity suffices for the job and for other jobs that take part of it first.

use insta::assert_snapshot;

use crate::texts::suggestions_of;

#[test]
fn earlier_cpu_pods_take_new_nodes_of_its_size() {
    assert_snapshot!(suggestions_of("
        node m0 gpus=8 cpu=64
        node m1 gpus=8 cpu=64
        job full cpu=40 non-preemptible on m0
        job el pods=4 min=1 cpu=30 priority=60
        job one gpus=8 cpu=30
    ", "one"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of CPU cores
      in all: free capacity for 3 more pods of its size, or add nodes that have it: short of CPU cores
      then it runs on (new node) (Now)
    ");
}

#[test]
fn earlier_pods_with_anti_affinity_take_one_new_node_each() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8
        node n4 gpus=8
        queue a quota=64
        queue c quota=24 priority=200 limit=24
        job full pods=4 min=4 gpus=8 queue=a non-preemptible on n1 n2 n3 n4
        gang oth pods=3 gpus=2 queue=c non-preemptible label app=oth far app=oth/kubernetes.io/hostname
        gang mine pods=4 gpus=8 queue=a non-preemptible
    ", "mine"), @r"
    PodSchedulingErrors
    free capacity for 4 more pods of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 7 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node 4) (Now)
    ");
}

/// On one node for all pods the huge job would come first; no node of the pod size holds it.
#[test]
fn nodes_of_its_size_are_suggested_if_larger_ones_would_admit_others() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 cpu=64
        node n2 gpus=8 cpu=64
        job full pods=2 min=2 gpus=8 non-preemptible on n1 n2
        job huge gpus=14 priority=60
        job oth pods=4 gpus=1 cpu=8 priority=60
        gang mine pods=2 gpus=4 cpu=8
    ", "mine"), @r"
    PodSchedulingErrors
    free capacity for 2 more pods of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 6 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node 5) (Now, on small nodes)
    ");
}

#[test]
fn a_bound_is_raised_again_when_new_capacity_admits_others() {
    assert_snapshot!(suggestions_of("
        node n0 gpus=8 label rack=r0
        node n1 gpus=8 label rack=r0
        node n2 gpus=8 label rack=r1
        node n3 gpus=8 label rack=r1
        topology t levels rack
        queue b quota=16 limit=12
        queue c quota=24
        job f pods=3 gpus=8 queue=c non-preemptible on n0 n1 n2
        job e1 gpus=8 queue=b on n3
        job e2 gpus=8 queue=b priority=60
        gang g pods=4 gpus=8 queue=b together=t/rack
    ", "g"), @r"
    OverLimit
    raise the limit of queue b by 28 GPUs to 40 GPUs
      in all: raise the limit of queue b by 36 GPUs to 48 GPUs
      then it waits: node-group r0 can allocate only 0 of 4 required pods. node-group r1 can allocate only 0 of 4 required pods. topology t, requirement rack couldn't be satisfied.
    free capacity for 4 pods in one rack of topology t
      in all: free capacity for 5 pods in one rack of topology t
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_bound_is_raised_for_all_jobs_that_new_capacity_admits_earlier() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8 taint k=v:NoSchedule
        queue a quota=8 priority=200
        queue b quota=8 limit=8
        job r gpus=8 queue=b non-preemptible on n1
        job o gpus=4 queue=a
        job j4 gpus=12 queue=b priority=60
        gang j7 pods=2 gpus=8 queue=b tolerates k=v:NoSchedule
    ", "j7"), @r"
    OverLimit
    raise the limit of queue b by 16 GPUs to 24 GPUs
      in all: raise the limit of queue b by 28 GPUs to 36 GPUs
      then it waits: Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on n2 (Now)
    ");
}
