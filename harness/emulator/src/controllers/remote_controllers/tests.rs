//! Controllers through a client, on an emulator without controllers.

use std::sync::{Arc, Mutex};

use super::{Collection, RemoteControllers, RemoteOptions};
use crate::api_types::feature_gates::FeatureGates;
use crate::clock::Clock;
use crate::http::Router;
use crate::reconcile::KubeletDefaults;
use crate::store::shared::SharedStore;
use crate::store::{FieldValidation, Key, LogEntry, Op, Resource, Store, Write};
use schedlab_api::{
    json,
    object::{condition, text},
};

fn collections() -> Vec<Collection> {
    vec![
        Collection::new("v1", "nodes", "Node"),
        Collection::new("v1", "pods", "Pod"),
        Collection::new("v1", "events", "Event"),
        Collection::new("coordination.k8s.io/v1", "leases", "Lease"),
        Collection::new("nowhere.example/v1", "unknowns", "Unknown"),
    ]
}

fn create(store: &SharedStore, resource: &Resource, object: schedlab_api::Value) {
    let key = crate::reconcile::key_of(resource, &object);
    let write = Write {
        field_validation: FieldValidation::Strict,
        ..Write::new(key, Op::Create(object), "test")
    };
    store.write(write).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_runs_and_a_new_node_is_ready_through_the_api_alone() {
    let store = SharedStore::new(Store::new(1), Clock::real());
    let (nodes, pods) = (Resource::new("", "nodes"), Resource::new("", "pods"));
    for name in ["default", "kube-node-lease"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(&store, &Resource::new("", "namespaces"), namespace);
    }
    let seen: Arc<Mutex<Vec<LogEntry>>> = Arc::default();
    let recorded = Arc::clone(&seen);
    let controllers = RemoteControllers::start(RemoteOptions {
        client: Router::new(store.clone()).client(),
        clock: store.clock().clone(),
        controllers: vec!["node", "kubelet"],
        collections: collections(),
        kubelet_defaults: KubeletDefaults::default(),
        feature_gates: FeatureGates::default(),
        observe: Box::new(move |entry| recorded.lock().unwrap().push(entry)),
    });
    let controllers = controllers.await.unwrap();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"capacity": {"nvidia.com/gpu": "2", "cpu": "8", "memory": "8Gi", "pods": "10"}},
    });
    create(&store, &nodes, node);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i",
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    });
    create(&store, &pods, pod);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let node = store.read(|store| store.get(&Key::new(nodes, "", "n")).unwrap());
    assert_eq!(condition(&node, "Ready"), Some("True"));
    let pod = store.read(|store| store.get(&Key::new(pods, "default", "p")).unwrap());
    assert_eq!(text(&pod, &["status", "phase"]), "Running");
    assert_eq!(text(&pod, &["metadata", "annotations", "schedlab.dev/gpu-devices"]), "0");
    let entries = seen.lock().unwrap();
    let last = entries.iter().rev().find(|entry| entry.key.resource.is("", "pods")).unwrap();
    assert_eq!(last.object, pod);
    assert!(last.previous.is_some());
    drop(controllers);
}

/// The phase of a pod that mounts a missing Secret, if the kubelet also watches `more`.
async fn phase_without_its_secret(more: Vec<Collection>) -> String {
    let store = SharedStore::new(Store::new(1), Clock::real());
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    create(&store, &Resource::new("", "namespaces"), namespace);
    let controllers = RemoteControllers::start(RemoteOptions {
        client: Router::new(store.clone()).client(),
        clock: store.clock().clone(),
        controllers: vec!["kubelet"],
        collections: [collections(), more].concat(),
        kubelet_defaults: KubeletDefaults::default(),
        feature_gates: FeatureGates::default(),
        observe: Box::new(drop),
    });
    let _controllers = controllers.await.unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
                      "status": {"capacity": {"pods": "10"}}});
    create(&store, &Resource::new("", "nodes"), node);
    let pods = Resource::new("", "pods");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}],
                 "volumes": [{"name": "key", "secret": {"secretName": "key"}}]},
    });
    create(&store, &pods, pod);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let pod = store.read(|store| store.get(&Key::new(pods, "default", "p")).unwrap());
    text(&pod, &["status", "phase"]).to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_blocks_a_pod_only_when_secrets_are_watched() {
    assert_eq!(phase_without_its_secret(Vec::new()).await, "Running");
    let secrets = vec![Collection::new("v1", "secrets", "Secret")];
    assert_eq!(phase_without_its_secret(secrets).await, "Pending");
}
