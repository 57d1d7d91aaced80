//! The LeaderWorkerSet controller.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    json,
    object::{label, list, set, uid},
};

const LEADER_WORKER_SET: &str = "
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        metadata: {name: llm}
        spec:
          replicas: 2
          leaderWorkerTemplate:
            size: 3
            workerTemplate: {spec: {containers: [{name: c, image: i}]}}
        ";

async fn cluster_with(set: &str) -> TestCluster {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(set);
    cluster.bind_and_run(3).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn each_group_has_a_leader_and_its_workers() {
    let cluster = cluster_with(LEADER_WORKER_SET).await;
    let names = ["llm-0", "llm-0-1", "llm-0-2", "llm-1", "llm-1-1", "llm-1-2"];
    assert_eq!(
        (cluster.object_names_of("pods"), cluster.count_pods_in_phase("Running")),
        (names.map(str::to_owned).to_vec(), 6)
    );
    let worker = cluster.get("pods", "llm-1-2");
    let place = ["group-index", "worker-index", "name"].map(|field| {
        label(&worker, &format!("leaderworkerset.sigs.k8s.io/{field}")).unwrap().to_owned()
    });
    assert_eq!(place, ["1", "2", "llm"]);
    assert_eq!(worker["metadata"]["ownerReferences"][0]["name"], "llm-1");
    let env = list(&worker["spec"]["containers"][0], &["env"]);
    assert!(env.contains(&json!({"name": "LWS_LEADER_ADDRESS", "value": "llm-1.llm.default"})));
    assert_eq!(cluster.status_count("leaderworkersets", "llm", "readyReplicas"), 2);
    assert!(cluster.has_true_condition("leaderworkersets", "llm", "Available"));
}

#[tokio::test(start_paused = true)]
async fn fewer_replicas_stop_the_last_groups_and_more_start_new_ones() {
    let cluster = cluster_with(LEADER_WORKER_SET).await;
    for (replicas, pods) in [(1, 3), (3, 9), (0, 0)] {
        cluster.edit("leaderworkersets", "llm", |set| set["spec"]["replicas"] = json!(replicas));
        cluster.bind_and_run(5).await;
        assert_eq!(
            (cluster.count_pods_in_phase("Running"), cluster.objects_of("pods").len()),
            (pods, pods)
        );
        assert_eq!(cluster.status_count("leaderworkersets", "llm", "replicas"), replicas);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_loses_a_pod_is_recreated_whole_unless_its_policy_says_otherwise() {
    for (policy, is_recreated) in [("RecreateGroupOnPodRestart", true), ("None", false)] {
        let policy = format!("size: 3\n            restartPolicy: {policy}");
        let cluster = cluster_with(&LEADER_WORKER_SET.replace("size: 3", &policy)).await;
        let uids = |group: &str| {
            [group.to_owned(), format!("{group}-2")]
                .map(|pod| uid(&cluster.get("pods", &pod)).to_owned())
        };
        let (first, second) = (uids("llm-0"), uids("llm-1"));
        cluster.delete("pods", "llm-0-1");
        cluster.bind_and_run(8).await;
        assert_eq!(cluster.count_pods_in_phase("Running"), 6, "{policy}");
        assert_eq!((uids("llm-0") != first, uids("llm-1") == second), (is_recreated, true));
    }
}

#[tokio::test(start_paused = true)]
async fn workers_wait_for_a_ready_leader_if_the_startup_policy_says_so() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        &LEADER_WORKER_SET
            .replace("replicas: 2", "replicas: 1\n          startupPolicy: LeaderReady"),
    );
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("pods"), ["llm-0"]);
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
}

#[tokio::test(start_paused = true)]
async fn another_size_replaces_the_groups_one_by_one() {
    let cluster = cluster_with(LEADER_WORKER_SET).await;
    cluster.edit("leaderworkersets", "llm", |object| {
        set(object, &["spec", "leaderWorkerTemplate", "size"], json!(2));
    });
    cluster.settle().await;
    let leaving = |pod: &str| cluster.get("pods", pod)["metadata"]["deletionTimestamp"].is_string();
    assert_eq!((leaving("llm-0"), leaving("llm-1")), (false, true));
    cluster.bind_and_run(10).await;
    assert_eq!(cluster.object_names_of("pods"), ["llm-0", "llm-0-1", "llm-1", "llm-1-1"]);
    assert!(cluster.has_true_condition("leaderworkersets", "llm", "Available"));
}
