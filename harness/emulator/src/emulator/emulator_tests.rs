//! The public API of the emulator.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use super::SettleTimeout;
use crate::emulator::test_cluster::TestCluster;
use crate::fleet::Fleet;
use schedlab_api::{
    json,
    object::{set, text},
};

#[tokio::test(start_paused = true)]
async fn an_in_process_client_sees_its_pod_run_and_terminate() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.emulator.client());
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    pods.create(&PostParams::default(), &schedlab_api::from_value(pod).unwrap()).await.unwrap();
    cluster.settle().await;
    let status = pods.get("p").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert!(status.container_statuses.unwrap()[0].ready);
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    cluster.advance_secs(2).await;
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fleet_is_added_atomically() {
    let cluster = TestCluster::new();
    let fleet = Fleet::parse("lab.yaml", include_str!("../../../../fixtures/fleets/lab.yaml"));
    cluster.emulator.add_fleet(&fleet.unwrap()).unwrap();
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("nodes"), ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]);
    let clashing =
        Fleet::parse("more.yaml", "pools: [{name: new}, {name: gpu, count: 2}]").unwrap();
    let error = cluster.emulator.add_fleet(&clashing).unwrap_err();
    assert!(error.to_string().ends_with("already exists"), "{error}");
    assert_eq!(cluster.object_names_of("nodes").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_realistic_fleet_comes_up_like_a_slim_one() {
    let cluster = TestCluster::new();
    let fleet = Fleet::parse("f", "pools: [{name: dgx, count: 2, gpus: 8, objects: realistic}]");
    cluster.emulator.add_fleet(&fleet.unwrap()).unwrap();
    cluster.settle().await;
    for node in cluster.objects_of("nodes") {
        assert_eq!(schedlab_api::object::condition(&node, "Ready"), Some("True"));
        assert!(node.to_string().len() > 27_000);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_every_write_in_order() {
    let cluster = TestCluster::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observed = Arc::clone(&seen);
    let before = cluster.emulator.revision();
    cluster
        .emulator
        .observe_writes(Box::new(move |entry| observed.lock().unwrap().push(entry.revision)));
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("p", "n1", 1, "schedlab.dev/run-time: 1s");
    cluster.advance_secs(2).await;
    let expected: Vec<u64> = (before + 1..=cluster.emulator.revision()).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn controllers_survive_log_compaction() {
    let cluster =
        TestCluster::with_options(|options| options.log_retention = Some(Duration::from_secs(5)));
    cluster.create_gpu_nodes(&["n1", "n2"]).await;
    for round in 0..10 {
        cluster.create_pod_on_node(&format!("p{round}"), "n1", 0, "schedlab.dev/run-time: 1s");
        cluster.advance_secs(2).await;
    }
    assert_eq!(cluster.count_pods_in_phase("Succeeded"), 10);
    let now = cluster.emulator.clock().now();
    let ages = cluster.emulator.store().read(|store| {
        let last = store.revision() - store.log_len() as u64;
        let retained = store.log_since(last).unwrap();
        retained.iter().map(|entry| now.duration_since(entry.time).as_secs()).collect::<Vec<_>>()
    });
    assert!(ages.iter().filter(|age| **age > 5).count() <= ages.len() / 2, "{ages:?}");
    assert!(ages.contains(&5), "{ages:?}");
    assert!(cluster.emulator.log_since(0).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_recorded_and_retried_with_backoff() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: apps/v1
        kind: ReplicaSet
        metadata: {name: web}
        spec:
          replicas: 1
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {priorityClassName: missing, containers: [{name: c, image: i}]}
        ",
    );
    cluster.advance_secs(3600).await;
    assert_eq!(cluster.object_names_of("pods"), [""; 0]);
    assert_eq!(cluster.event_reasons("web"), ["FailedCreate"]);
    cluster.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: missing}, value: 7}");
    cluster.advance_secs(1000).await;
    let pod = &cluster.objects_of("pods")[0];
    assert_eq!(pod["spec"]["priority"], 7);
}

#[tokio::test(start_paused = true)]
async fn settle_returns_when_quiet_and_fails_at_its_limit() {
    let cluster = TestCluster::new();
    let [quiet, limit] = [Duration::from_millis(1), Duration::from_secs(30)];
    assert_eq!(cluster.emulator.settle(quiet, limit).await, Ok(()));
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p, annotations: {schedlab.dev/run-time: 11m}}
        spec: {nodeName: n1, restartPolicy: Always, containers: [{name: c, image: i}]}
        ",
    );
    // After a long run a restart is immediate, so the cluster is never quiet for 12 min.
    let limit = Duration::from_hours(2);
    let settled = cluster.emulator.settle(Duration::from_mins(12), limit).await;
    assert_eq!(settled, Err(SettleTimeout { limit }));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_emulator_stops_its_controllers() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    let store = cluster.emulator.store().clone();
    drop(cluster);
    tokio::task::yield_now().await;
    let nodes = crate::store::Resource::new("", "nodes");
    let mut node = store.read(|store| {
        schedlab_api::Value::clone(store.list(&nodes, None).next().expect("the node"))
    });
    set(&mut node, &["spec", "unschedulable"], true.into());
    let key = crate::reconcile::key_of(&nodes, &node);
    store
        .change(|store, now| {
            let op = crate::store::Op::Update(crate::store::Subresource::None, node);
            store.write(crate::store::Write::new(key, op, "test"), now)
        })
        .unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let node = store.read(|store| store.list(&nodes, None).next().cloned()).unwrap();
    assert_eq!(text(&node, &["spec", "taints", "0"]), "");
    assert_eq!(schedlab_api::object::list(&node, &["spec", "taints"]).len(), 0);
}
