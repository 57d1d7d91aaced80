//! The RayCluster and RayJob controllers.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    json,
    object::{label, set, text},
};

const RAY_CLUSTER: &str = "
        apiVersion: ray.io/v1
        kind: RayCluster
        metadata: {name: ray}
        spec:
          headGroupSpec: {template: {spec: {containers: [{name: ray-head, image: ray}]}}}
          workerGroupSpecs:
          - groupName: gpu
            replicas: 3
            template: {spec: {containers: [{name: ray-worker, image: ray}]}}
        ";

fn ray_cluster_state(cluster: &TestCluster) -> String {
    text(&cluster.get("rayclusters", "ray"), &["status", "state"]).to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_ray_cluster_runs_a_head_and_the_workers_of_each_group() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(RAY_CLUSTER);
    cluster.settle().await;
    assert!(!cluster.has_true_condition("rayclusters", "ray", "RayClusterProvisioned"));
    cluster.bind_and_run(3).await;
    let names = cluster.object_names_of("pods");
    assert_eq!(names.iter().filter(|name| name.starts_with("ray-gpu-worker-")).count(), 3);
    let head = cluster.get("pods", "ray-head");
    assert_eq!(label(&head, "ray.io/group"), Some("headgroup"));
    assert_eq!(head["metadata"]["ownerReferences"][0]["kind"], "RayCluster");
    let worker = cluster.get("pods", &names[0]);
    assert_eq!(label(&worker, "ray.io/group"), Some("gpu"));
    assert_eq!(ray_cluster_state(&cluster), "ready");
    assert_eq!(cluster.status_count("rayclusters", "ray", "readyWorkerReplicas"), 3);
    assert!(cluster.has_true_condition("rayclusters", "ray", "RayClusterProvisioned"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_group_follows_its_replicas_within_their_limits() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(RAY_CLUSTER);
    for (field, count, pods) in [("replicas", 1, 2), ("replicas", 5, 6), ("maxReplicas", 2, 3)] {
        cluster.edit("rayclusters", "ray", |cluster| {
            cluster["spec"]["workerGroupSpecs"][0][field] = json!(count);
        });
        cluster.bind_and_run(4).await;
        assert_eq!(cluster.count_pods_in_phase("Running"), pods, "{field} {count}");
    }
    let leaving = cluster.object_names_of("pods")[0].clone();
    cluster.edit("rayclusters", "ray", |cluster| {
        cluster["spec"]["workerGroupSpecs"][0]["scaleStrategy"] =
            json!({"workersToDelete": [leaving]});
    });
    cluster.bind_and_run(4).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
    assert!(!cluster.object_names_of("pods").contains(&leaving));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_ray_cluster_has_no_pods_until_it_is_resumed() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(RAY_CLUSTER);
    let suspend = |suspend: bool| {
        cluster.edit("rayclusters", "ray", |cluster| {
            set(cluster, &["spec", "suspend"], json!(suspend));
        });
    };
    cluster.bind_and_run(3).await;
    suspend(true);
    cluster.bind_and_run(4).await;
    assert_eq!((cluster.objects_of("pods").len(), &*ray_cluster_state(&cluster)), (0, "suspended"));
    assert!(cluster.has_true_condition("rayclusters", "ray", "RayClusterSuspended"));
    suspend(false);
    cluster.bind_and_run(4).await;
    assert_eq!(
        (cluster.count_pods_in_phase("Running"), &*ray_cluster_state(&cluster)),
        (4, "ready")
    );
    assert!(!cluster.has_true_condition("rayclusters", "ray", "RayClusterSuspended"));
}

const RAY_JOB: &str = "
        apiVersion: ray.io/v1
        kind: RayJob
        metadata: {name: train, labels: {kai.scheduler/queue: prod}}
        spec:
          entrypoint: python train.py
          shutdownAfterJobFinishes: true
          submitterPodTemplate:
            metadata: {annotations: {schedlab.dev/run-time: 20s}}
            spec: {containers: [{name: submitter, image: ray}]}
          rayClusterSpec:
            headGroupSpec: {template: {spec: {containers: [{name: ray-head, image: ray}]}}}
            workerGroupSpecs:
            - groupName: gpu
              replicas: 1
              template: {spec: {containers: [{name: ray-worker, image: ray}]}}
        ";

#[tokio::test(start_paused = true)]
async fn a_ray_job_makes_a_cluster_submits_when_it_is_ready_and_ends_with_its_submitter() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(RAY_JOB);
    cluster.settle().await;
    let status = |field| text(&cluster.get("rayjobs", "train"), &["status", field]).to_owned();
    assert_eq!(cluster.object_names_of("rayclusters"), [status("rayClusterName")]);
    assert_eq!(label(&cluster.objects_of("rayclusters")[0], "kai.scheduler/queue"), Some("prod"));
    assert_eq!(cluster.object_names_of("jobs"), [""; 0]);
    cluster.bind_and_run(5).await;
    assert_eq!(
        (cluster.count_pods_in_phase("Running"), status("jobDeploymentStatus")),
        (3, "Running".into())
    );
    cluster.bind_and_run(25).await;
    assert_eq!(status("jobStatus"), "SUCCEEDED");
    assert_eq!(cluster.object_names_of("rayclusters"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_ray_job_loses_its_cluster_and_starts_anew_when_it_is_resumed() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(RAY_JOB);
    let suspend = |suspend: bool| {
        cluster.edit("rayjobs", "train", |job| set(job, &["spec", "suspend"], json!(suspend)));
    };
    cluster.bind_and_run(5).await;
    suspend(true);
    cluster.bind_and_run(5).await;
    assert_eq!((cluster.objects_of("pods").len(), cluster.objects_of("rayclusters").len()), (0, 0));
    suspend(false);
    cluster.bind_and_run(5).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
}
