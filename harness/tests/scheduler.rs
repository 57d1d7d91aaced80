//! End-to-end tests of the scheduler on the emulator: the objects and events that it writes, and
//! that it can crash before any of its writes.

#[path = "scheduler/admission.rs"]
mod admission;
#[path = "scheduler/binder.rs"]
mod binder;
#[path = "scheduler/case_files.rs"]
mod case_files;
#[path = "scheduler/components.rs"]
mod components;
#[path = "scheduler/excluded_nodes.rs"]
mod excluded_nodes;
#[path = "scheduler/explain.rs"]
mod explain;
#[path = "scheduler/foreign.rs"]
mod foreign;
#[path = "scheduler/gangs.rs"]
mod gangs;
#[path = "scheduler/installation.rs"]
mod installation;
#[path = "scheduler/kartas.rs"]
mod kartas;
#[path = "scheduler/lab.rs"]
mod lab;
#[path = "scheduler/leader.rs"]
mod leader;
#[path = "scheduler/malformed.rs"]
mod malformed;
#[path = "scheduler/owner_changes.rs"]
mod owner_changes;
#[path = "scheduler/owners.rs"]
mod owners;
#[path = "scheduler/real_pods.rs"]
mod real_pods;
#[path = "scheduler/replay.rs"]
mod replay;
#[path = "scheduler/sharing.rs"]
mod sharing;
#[path = "scheduler/stopping.rs"]
mod stopping;
#[path = "scheduler/usage.rs"]
mod usage;
#[path = "scheduler/writes.rs"]
mod writes;

use std::sync::atomic::Ordering;

use insta::assert_snapshot;
use lab::Lab;
use schedlab_scheduler::Progress;
use tokio::sync::watch;

#[test]
fn a_job_is_grouped_and_bound_and_gets_events() {
    Lab::run(async |mut lab| {
        lab.nodes(2, 8);
        lab.queue("q", 8, -1);
        lab.start();
        lab.job("train", "q", 3, 3);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r#"
        train-0 Running n-0
        train-1 Running n-0
        train-2 Running n-0
        "#);
        assert_snapshot!(lab.events(), @r"
        Pod Scheduled Successfully assigned pod default/train-0 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/train-1 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/train-2 to node n-0 at node-pool default
        ");
        assert_snapshot!(lab.pod_groups(), @r#"
        pg-train {"minMember":3,"priorityClassName":"train","queue":"q"}
        "#);
        assert_snapshot!(lab.queues(), @r#"
        q {"allocated":{"nvidia.com/gpu":"3"},"allocatedNonPreemptible":{},"childQueues":[],"fairShare":{"nvidia.com/gpu":"3"},"pending":{},"requested":{"nvidia.com/gpu":"3"}}
        "#);
    });
}

#[test]
fn the_reason_why_a_job_is_pending_is_written_once() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 4, 4);
        let status = lab.start();
        lab.job("small", "q", 3, 3);
        lab.job("second", "q", 3, 3);
        lab.job("lost", "nowhere", 1, 1);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r#"
        lost-0 Pending -: Queue 'nowhere' does not exist
        second-0 Pending -: q quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 3 GPUs allocated and workload requested 3 GPUs
        second-1 Pending -: q quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 3 GPUs allocated and workload requested 3 GPUs
        second-2 Pending -: q quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 3 GPUs allocated and workload requested 3 GPUs
        small-0 Running n-0
        small-1 Running n-0
        small-2 Running n-0
        "#);
        assert_snapshot!(lab.events(), @r"
        Pod Scheduled Successfully assigned pod default/small-0 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/small-1 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/small-2 to node n-0 at node-pool default
        Pod Unschedulable Queue 'nowhere' does not exist
        3 × Pod Unschedulable q quota has reached the allowable limit of GPUs
        PodGroup Unschedulable Queue 'nowhere' does not exist
        PodGroup Unschedulable q quota has reached the allowable limit of GPUs
        ");
        assert_snapshot!(lab.pod_groups(), @r#"
        pg-lost {"minMember":1,"priorityClassName":"train","queue":"nowhere"} "QueueDoesNotExist": "Queue 'nowhere' does not exist. Remedy: create queue nowhere, or name one that exists in the pod group's spec.queue"
        pg-second {"minMember":3,"priorityClassName":"train","queue":"q"} "OverLimit": "q quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 3 GPUs allocated and workload requested 3 GPUs. Remedy: raise the limit of queue q by 2 GPUs to 6 GPUs"
        pg-small {"minMember":3,"priorityClassName":"train","queue":"q"}
        "#);
        let (writes, cycles, plans) = progress_of(&lab, &status);
        lab.advance(100).await;
        let expected = (writes, cycles + 100, plans);
        assert_eq!(progress_of(&lab, &status), expected, "nothing is left to decide or write");
        lab.job("late", "q", 1, 1);
        lab.advance(5).await;
        assert_eq!(lab.pods().matches("late-0 Running").count(), 1);
    });
}

/// Number of writes to the cluster, and of cycles and plans of the scheduler.
fn progress_of(lab: &Lab, status: &watch::Receiver<Progress>) -> (usize, u64, u64) {
    let status = status.borrow();
    (lab.writes(), status.cycles, status.plans)
}

#[test]
fn a_restarted_scheduler_repeats_no_writes() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 4);
        lab.queue("q", 8, -1);
        lab.start();
        lab.job("small", "q", 3, 3);
        lab.job("large", "q", 5, 5);
        lab.advance(5).await;
        let writes = lab.writes();
        lab.stop().await;
        lab.start();
        lab.advance(20).await;
        assert_eq!(lab.writes(), writes);
    });
}

#[test]
fn borrowed_gpus_are_reclaimed_and_victim_events_name_the_preemptor() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 4);
        lab.queue("a", 2, -1);
        lab.queue("b", 2, -1);
        lab.start();
        lab.job("borrower", "a", 4, 1);
        lab.advance(5).await;
        lab.job("owner", "b", 2, 2);
        lab.advance(60).await;
        assert_snapshot!(lab.pods(), @r"
        borrower-0 Pending -: Resources were not found for pod default/borrower-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        borrower-1 Running n-0
        borrower-2 Running n-0
        borrower-3 Pending -: Resources were not found for pod default/borrower-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        owner-0 Running n-0
        owner-1 Running n-0
        ");
        assert_snapshot!(lab.events(), @r"
        Pod Evict Pod default/borrower-0 was preempted by workload default/pg-owner
        Pod Evict Pod default/borrower-3 was preempted by workload default/pg-owner
        2 × Pod Killing Stopping container main
        Pod Pipelined Pod default/owner-0 was pipelined to node n-0
        Pod Pipelined Pod default/owner-1 was pipelined to node n-0
        Pod Scheduled Successfully assigned pod default/borrower-0 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/borrower-1 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/borrower-2 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/borrower-3 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/owner-0 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/owner-1 to node n-0 at node-pool default
        2 × Pod Unschedulable Pipelined to n-0: waiting for terminating pods to release capacity
        2 × Pod Unschedulable Resources were not found for pod default/borrower-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        PodGroup Evict Pod default/borrower-0 was preempted by workload default/pg-owner
        PodGroup Evict Pod default/borrower-3 was preempted by workload default/pg-owner
        PodGroup Unschedulable Pipelined to n-0: waiting for terminating pods to release capacity
        PodGroup Unschedulable Resources were not found for pod default/borrower-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs
        ");
    });
}

#[test]
fn with_idle_policy_until_event_no_cycle_runs_without_a_change() {
    Lab::run(async |mut lab| {
        lab.sleep_until_events();
        lab.nodes(1, 4);
        lab.queue("q", 4, -1);
        let status = lab.start();
        lab.job("runs", "q", 3, 3);
        lab.job("waits", "q", 2, 2);
        lab.advance(10).await;
        let cycles = status.borrow().cycles;
        lab.advance(86_400).await;
        assert_eq!(status.borrow().cycles, cycles);
        lab.delete_in("default", "jobs", "batch", "runs");
        lab.advance(40).await;
        // The API server has removed the events of the day before.
        assert_eq!(lab.outcome(), "waits: 2 Running; 5 bound, 3 evicted; 2 Scheduled");
    });
}

#[test]
fn a_stale_gang_is_evicted_after_its_grace_period() {
    Lab::run(async |mut lab| {
        lab.sleep_until_events();
        lab.nodes(2, 2);
        lab.queue("q", 4, -1);
        lab.start();
        lab.job("gang", "q", 4, 4);
        lab.advance(10).await;
        lab.delete("nodes", "", "n-0");
        lab.advance(30).await;
        assert_snapshot!(lab.pods(), @r"
        gang-0 Running n-0
        gang-1 Running n-1
        gang-2 Running n-1
        gang-3 Running n-0
        ");
        lab.advance(120).await;
        assert_snapshot!(lab.pods(), @r"
        gang-0 Pending -: The workload cannot run on this cluster as it is: 4 pods that must run together request 4 GPUs, and all nodes on which they may run offer 2 GPUs.
        gang-1 Pending -: The workload cannot run on this cluster as it is: 4 pods that must run together request 4 GPUs, and all nodes on which they may run offer 2 GPUs.
        gang-2 Pending -: The workload cannot run on this cluster as it is: 4 pods that must run together request 4 GPUs, and all nodes on which they may run offer 2 GPUs.
        gang-3 Pending -: The workload cannot run on this cluster as it is: 4 pods that must run together request 4 GPUs, and all nodes on which they may run offer 2 GPUs.
        ");
        assert_snapshot!(lab.events(), @r"
        Pod Evict Workload doesn't meet the minimum required number of pods (4), evicting remaining pod: default/gang-1
        Pod Evict Workload doesn't meet the minimum required number of pods (4), evicting remaining pod: default/gang-2
        2 × Pod Killing Stopping container main
        Pod Scheduled Successfully assigned pod default/gang-0 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-1 to node n-1 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-2 to node n-1 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-3 to node n-0 at node-pool default
        2 × Pod Unschedulable Resources were found for 2 pods while 4 are required for gang scheduling
        4 × Pod Unschedulable The workload cannot run on this cluster as it is: 4 pods that must run together request 4 GPUs, and all nodes on which they may run offer 2 GPUs.
        PodGroup Evict Workload doesn't meet the minimum required number of pods (4), evicting remaining pod: default/gang-1
        PodGroup Evict Workload doesn't meet the minimum required number of pods (4), evicting remaining pod: default/gang-2
        PodGroup StaleJob Job has fewer pods than its minimum and will be evicted unless they return
        PodGroup Unschedulable Resources were found for 2 pods while 4 are required for gang scheduling
        PodGroup Unschedulable The workload cannot run on this cluster as it is: 4 pods that must run together request 4 GPUs, and all nodes on which they may run offer 2 GPUs
        Queue GuaranteesAboveCapacity Quotas of the top-level queues add up to more than the cluster capacity: 4 of 2 GPUs
        ");
    });
}

/// Profile `kube`: single pods, no queues.
#[test]
fn profile_kube_binds_pods_one_by_one_with_the_messages_of_kube_scheduler() {
    Lab::run(async |mut lab| {
        lab.use_kube_profile();
        lab.nodes(1, 4);
        lab.start();
        lab.job("first", "any", 3, 3);
        lab.advance(5).await;
        lab.job("second", "any", 2, 2);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        first-0 Running n-0
        first-1 Running n-0
        first-2 Running n-0
        second-0 Running n-0
        second-1 Pending -: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
        ");
        assert_snapshot!(lab.events(), @r"
        Pod FailedScheduling 0/1 nodes are available: 1 Insufficient nvidia.com/gpu
        Pod Scheduled Successfully assigned default/first-0 to n-0
        Pod Scheduled Successfully assigned default/first-1 to n-0
        Pod Scheduled Successfully assigned default/first-2 to n-0
        Pod Scheduled Successfully assigned default/second-0 to n-0
        ");
        assert_eq!(lab.pod_groups(), "");
    });
}

#[test]
fn pods_of_a_deleted_node_are_replaced_on_other_nodes() {
    Lab::run(async |mut lab| {
        lab.nodes(2, 4);
        lab.queue("q", 8, -1);
        lab.start();
        lab.job("gang", "q", 4, 4);
        lab.advance(5).await;
        lab.delete("nodes", "", "n-0");
        lab.advance(120).await;
        assert_snapshot!(lab.pods(), @r"
        gang-0 Running n-1
        gang-1 Running n-1
        gang-2 Running n-1
        gang-3 Running n-1
        ");
        assert_snapshot!(lab.events(), @r"
        Pod Scheduled Successfully assigned pod default/gang-0 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-0 to node n-1 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-1 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-1 to node n-1 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-2 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-2 to node n-1 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-3 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/gang-3 to node n-1 at node-pool default
        Queue GuaranteesAboveCapacity Quotas of the top-level queues add up to more than the cluster capacity: 8 of 4 GPUs
        ");
    });
}

#[test]
fn a_deleted_and_recreated_queue_is_used_again() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 4);
        lab.queue("q", 4, -1);
        lab.start();
        lab.job("runs", "q", 2, 1);
        lab.advance(5).await;
        lab.delete("queues", "scheduling.run.ai", "q");
        lab.job("waits", "q", 2, 2);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        runs-0 Running n-0
        runs-1 Running n-0
        waits-0 Pending -: Queue 'q' does not exist
        waits-1 Pending -: Queue 'q' does not exist
        ");
        lab.queue("q", 4, -1);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        runs-0 Running n-0
        runs-1 Running n-0
        waits-0 Running n-0
        waits-1 Running n-0
        ");
        assert_snapshot!(lab.queues(), @r#"q {"allocated":{"nvidia.com/gpu":"4"},"allocatedNonPreemptible":{},"childQueues":[],"fairShare":{"nvidia.com/gpu":"4"},"pending":{},"requested":{"nvidia.com/gpu":"4"}}"#);
    });
}

const WORKLOADS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {kai.scheduler/queue: q}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, labels: {project: q}}
spec:
  replicas: 2
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set, labels: {kai.scheduler/queue: q}}
spec:
  replicatedJobs:
  - name: leader
    template: {spec: {template: {spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}}}}
  - name: worker
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        template: {spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {numProcPerNode: auto}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          spec: {template: {spec: {schedulerName: kai-scheduler, containers: [{name: node, image: torch}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tj, labels: {kai.scheduler/queue: q}}
spec:
  runtimeRef: {name: torch}
  trainer: {numNodes: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pt, labels: {kai.scheduler/queue: q, kai.scheduler/preemptibility: non-preemptible}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: {spec: {schedulerName: kai-scheduler, containers: [{name: pytorch, image: i}]}}
    Worker:
      replicas: 3
      template: {spec: {schedulerName: kai-scheduler, containers: [{name: pytorch, image: i}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: alone, labels: {kai.scheduler/queue: q, priorityClassName: build}}
spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}
";

#[test]
fn workloads_are_grouped_by_their_top_owners() {
    Lab::run(async |mut lab| {
        lab.nodes(2, 8);
        lab.queue("q", 8, -1);
        lab.start();
        lab.apply(WORKLOADS);
        lab.advance(5).await;
        assert_snapshot!(lab.pod_groups(), @r#"
        pg-alone {"minMember":1,"priorityClassName":"build","queue":"q"}
        pg-db {"minMember":1,"priorityClassName":"train","queue":"q"}
        pg-pt {"minMember":4,"preemptibility":"non-preemptible","priorityClassName":"train","queue":"q","subGroups":[{"minMember":1,"name":"master"},{"minMember":3,"name":"worker"}]}
        pg-set {"minSubGroup":2,"priorityClassName":"train","queue":"q","subGroups":[{"minSubGroup":1,"name":"leader"},{"minMember":1,"name":"leader-replica-0","parent":"leader"},{"minSubGroup":2,"name":"worker"},{"minMember":2,"name":"worker-replica-0","parent":"worker"},{"minMember":2,"name":"worker-replica-1","parent":"worker"}]}
        pg-tj {"minSubGroup":1,"priorityClassName":"train","queue":"q","subGroups":[{"minSubGroup":1,"name":"node"},{"minMember":4,"name":"node-replica-0","parent":"node"}]}
        pg-web {"minMember":1,"priorityClassName":"inference","queue":"q"}
        pg-web {"minMember":1,"priorityClassName":"inference","queue":"q"}
        "#);
        assert!(lab.pods().lines().all(|pod| pod.contains("Running")), "{}", lab.pods());
    });
}

#[test]
fn equal_runs_write_equal_bytes() {
    let history = || {
        Lab::run(async |mut lab| {
            lab.nodes(2, 4);
            lab.queue("q", 4, -1);
            lab.queue("r", 4, -1);
            lab.start();
            lab.apply(WORKLOADS);
            lab.job("borrower", "r", 9, 1);
            lab.advance(30).await;
            lab.history()
        })
    };
    let first = history();
    assert!(first.lines().count() > 200);
    assert!(first == history(), "two runs differ");
}

/// Repeats a scenario with a crash of the scheduler before each of its writes in turn. A new
/// scheduler takes over at once, and the outcome must be `expected` each time. Returns the number
/// of writes without a crash.
fn crash_before_each_write(
    prepare: &impl AsyncFn(&mut Lab),
    submit: &impl Fn(&Lab),
    expected: &str,
) -> u32 {
    for writes in 0.. {
        let (attempted, outcome) = Lab::run(async |mut lab| {
            lab.nodes(1, 8);
            lab.queue("a", 4, -1);
            lab.queue("b", 4, -1);
            prepare(&mut lab).await;
            let attempted = lab.start_hanging_after(writes);
            submit(&lab);
            lab.wait_until(|| attempted.load(Ordering::Relaxed) > writes).await;
            lab.stop().await;
            lab.start();
            lab.advance(10).await;
            (attempted.load(Ordering::Relaxed), lab.outcome())
        });
        assert_eq!(outcome, expected, "after {writes} writes");
        if attempted <= writes {
            return writes;
        }
    }
    unreachable!("a scenario has fewer than 2^32 writes")
}

#[test]
fn a_gang_is_bound_whole_and_once_although_the_scheduler_crashes() {
    let writes = crash_before_each_write(
        &async |_| {},
        &|lab| lab.job("gang", "a", 4, 4),
        "gang: 4 Running; 4 bound, 0 evicted; 4 Scheduled",
    );
    assert!(writes >= 10, "a group, four bindings, four events and a start: {writes}");
}

#[test]
fn gpus_are_reclaimed_once_although_the_scheduler_crashes() {
    let writes = crash_before_each_write(
        &async |lab| {
            lab.start();
            lab.job("borrower", "a", 8, 1);
            lab.advance(10).await;
            lab.stop().await;
        },
        &|lab| lab.job("owner", "b", 4, 4),
        "borrower: 4 Pending, 4 Running; owner: 4 Running; 12 bound, 4 evicted; 12 Scheduled",
    );
    assert!(writes > 20, "four evictions and four bindings: {writes}");
}
