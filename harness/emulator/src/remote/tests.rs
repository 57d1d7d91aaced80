//! The same actors through a client: on a cluster whose own do not act.

use std::sync::{Arc, Mutex};

use super::{Cast, Collection, Troupe};
use crate::actors::KubeletDefaults;
use crate::clock::Clock;
use crate::http::Router;
use crate::object::{condition, text};
use crate::shared::SharedStore;
use crate::store::{FieldValidation, Key, LogEntry, Op, Resource, Store, Write};
use schedlab_json::json;

fn collections() -> Vec<Collection> {
    vec![
        Collection::new("v1", "nodes", "Node"),
        Collection::new("v1", "pods", "Pod"),
        Collection::new("v1", "events", "Event"),
        Collection::new("coordination.k8s.io/v1", "leases", "Lease"),
        Collection::new("nowhere.example/v1", "unknowns", "Unknown"),
    ]
}

fn create(store: &SharedStore, resource: &Resource, object: schedlab_json::Value) {
    let key = crate::actors::key_of(resource, &object);
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
    let heard = Arc::clone(&seen);
    let troupe = Troupe::start(Cast {
        client: Router::new(store.clone()).client(),
        clock: store.clock().clone(),
        actors: vec!["node", "kubelet"],
        collections: collections(),
        defaults: KubeletDefaults::default(),
        observe: Box::new(move |entry| heard.lock().unwrap().push(entry)),
    });
    let troupe = troupe.await.unwrap();
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
    let told = seen.lock().unwrap();
    let last = told.iter().rev().find(|entry| entry.key.resource.is("", "pods")).unwrap();
    assert_eq!(last.object, pod);
    assert!(last.previous.is_some());
    drop(troupe);
}

/// A pod that mounts a Secret which is not there, where kubelets see `more`, too: its phase.
async fn phase_without_its_secret(more: Vec<Collection>) -> String {
    let store = SharedStore::new(Store::new(1), Clock::real());
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    create(&store, &Resource::new("", "namespaces"), namespace);
    let troupe = Troupe::start(Cast {
        client: Router::new(store.clone()).client(),
        clock: store.clock().clone(),
        actors: vec!["kubelet"],
        collections: [collections(), more].concat(),
        defaults: KubeletDefaults::default(),
        observe: Box::new(drop),
    });
    let _troupe = troupe.await.unwrap();
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
async fn a_secret_is_missed_only_where_secrets_are_watched() {
    assert_eq!(phase_without_its_secret(Vec::new()).await, "Running");
    let secrets = vec![Collection::new("v1", "secrets", "Secret")];
    assert_eq!(phase_without_its_secret(secrets).await, "Pending");
}
