//! The cluster as its users hold it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use super::Unsettled;
use crate::emulator::lab::Lab;
use crate::fleet::Fleet;
use crate::object::{set, text};
use schedlab_json::json;

#[tokio::test(start_paused = true)]
async fn a_client_in_the_process_sees_its_pod_run_and_go() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    let pods: Api<Pod> = Api::default_namespaced(lab.emulator.client());
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    pods.create(&PostParams::default(), &schedlab_json::from_value(pod).unwrap()).await.unwrap();
    lab.rest().await;
    let status = pods.get("p").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert!(status.container_statuses.unwrap()[0].ready);
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    lab.secs(2).await;
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fleet_is_added_whole_or_not_at_all() {
    let lab = Lab::new();
    let fleet = Fleet::parse("lab.yaml", include_str!("../../../../fixtures/fleets/lab.yaml"));
    lab.emulator.add_fleet(&fleet.unwrap()).unwrap();
    lab.rest().await;
    assert_eq!(lab.names("nodes"), ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]);
    let clashing =
        Fleet::parse("more.yaml", "pools: [{name: new}, {name: gpu, count: 2}]").unwrap();
    let error = lab.emulator.add_fleet(&clashing).unwrap_err();
    assert!(error.to_string().ends_with("already exists"), "{error}");
    assert_eq!(lab.names("nodes").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_realistic_fleet_comes_up_like_a_slim_one() {
    let lab = Lab::new();
    let fleet = Fleet::parse("f", "pools: [{name: dgx, count: 2, gpus: 8, objects: realistic}]");
    lab.emulator.add_fleet(&fleet.unwrap()).unwrap();
    lab.rest().await;
    for node in lab.all("nodes") {
        assert_eq!(crate::object::condition(&node, "Ready"), Some("True"));
        assert!(node.to_string().len() > 27_000);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_every_write_in_order() {
    let lab = Lab::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let before = lab.emulator.revision();
    lab.emulator.on_write(Box::new(move |entry| told.lock().unwrap().push(entry.revision)));
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 1, "schedlab.dev/run-time: 1s");
    lab.secs(2).await;
    let expected: Vec<u64> = (before + 1..=lab.emulator.revision()).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn actors_go_on_when_the_log_forgets() {
    let lab = Lab::with(|options| options.log_keep = Some(Duration::from_secs(5)));
    lab.nodes(&["n1", "n2"]).await;
    for round in 0..10 {
        lab.pod(&format!("p{round}"), "n1", 0, "schedlab.dev/run-time: 1s");
        lab.secs(2).await;
    }
    assert_eq!(lab.in_phase("Succeeded"), 10);
    let now = lab.emulator.clock().now();
    let ages = lab.emulator.store().read(|store| {
        let last = store.revision() - store.log_len() as u64;
        let kept = store.log_since(last).unwrap();
        kept.iter().map(|entry| now.duration_since(entry.time).as_secs()).collect::<Vec<_>>()
    });
    assert!(ages.iter().filter(|age| **age > 5).count() <= ages.len() / 2, "{ages:?}");
    assert!(ages.contains(&5), "{ages:?}");
    assert!(lab.emulator.log_since(0).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_is_said_and_tried_again_less_and_less_often() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(
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
    lab.secs(3600).await;
    assert_eq!(lab.names("pods"), [""; 0]);
    assert_eq!(lab.events("web"), ["FailedCreate"]);
    lab.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: missing}, value: 7}");
    lab.secs(1000).await;
    let pod = &lab.all("pods")[0];
    assert_eq!(pod["spec"]["priority"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_settles_when_nothing_is_written_and_says_when_it_does_not() {
    let lab = Lab::new();
    let [quiet, limit] = [Duration::from_millis(1), Duration::from_secs(30)];
    assert_eq!(lab.emulator.settle(quiet, limit).await, Ok(()));
    lab.nodes(&["n1"]).await;
    lab.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p, annotations: {schedlab.dev/run-time: 11m}}
        spec: {nodeName: n1, restartPolicy: Always, containers: [{name: c, image: i}]}
        ",
    );
    // After a good run a restart is immediate: it is never quiet for twelve minutes.
    let limit = Duration::from_hours(2);
    let settled = lab.emulator.settle(Duration::from_mins(12), limit).await;
    assert_eq!(settled, Err(Unsettled { limit }));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_dropped_stops() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    let store = lab.emulator.store().clone();
    drop(lab);
    tokio::task::yield_now().await;
    let nodes = crate::store::Resource::new("", "nodes");
    let mut node = store.read(|store| {
        schedlab_json::Value::clone(store.list(&nodes, None).next().expect("the node"))
    });
    set(&mut node, &["spec", "unschedulable"], true.into());
    let key = crate::actors::key_of(&nodes, &node);
    store
        .change(|store, now| {
            let op = crate::store::Op::Update(crate::store::Subresource::None, node);
            store.write(crate::store::Write::new(key, op, "test"), now)
        })
        .unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let node = store.read(|store| store.list(&nodes, None).next().cloned()).unwrap();
    assert_eq!(text(&node, &["spec", "taints", "0"]), "");
    assert_eq!(crate::object::list(&node, &["spec", "taints"]).len(), 0);
}
