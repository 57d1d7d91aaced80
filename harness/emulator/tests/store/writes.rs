//! Basic writes.

use jiff::Timestamp;
use schedlab_api::{Value, json};
use schedlab_emulator::error::ApiError;
use schedlab_emulator::store::{
    DeleteOptions, EventKind, Key, Op, Resource, Store, Subresource, Write, WriteOutcome,
};

fn now() -> Timestamp {
    "2026-01-01T00:00:00.5Z".parse().expect("a time")
}

fn write(store: &mut Store, key: Key, op: Op) -> Result<WriteOutcome, ApiError> {
    store.write(Write::new(key, op, "test"), now())
}

fn config_map(name: &str) -> Key {
    Key::new(Resource::new("", "configmaps"), "default", name)
}

fn store() -> Store {
    let mut store = Store::new(1);
    let key = Key::new(Resource::new("", "namespaces"), "", "");
    write(&mut store, key, Op::Create(json!({"metadata": {"name": "default"}})))
        .expect("a first namespace");
    store
}

fn create(store: &mut Store, body: Value) -> Result<Value, ApiError> {
    write(store, config_map(""), Op::Create(body)).map(|written| (*written.object).clone())
}

#[test]
fn a_created_object_has_uid_time_revision_and_type() {
    let mut store = store();
    let created =
        create(&mut store, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).unwrap();
    assert_eq!(created["kind"], "ConfigMap");
    assert_eq!(created["apiVersion"], "v1");
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(created["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(created["metadata"]["resourceVersion"], store.revision().to_string());
    assert_eq!(created["metadata"]["uid"].as_str().unwrap().len(), 36);
}

#[test]
fn a_taken_name_is_refused() {
    let mut store = store();
    create(&mut store, json!({"metadata": {"name": "a"}})).unwrap();
    let error = create(&mut store, json!({"metadata": {"name": "a"}})).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (409, "configmaps \"a\" already exists"));
}

#[test]
fn a_stale_update_conflicts_and_changes_nothing() {
    let mut store = store();
    create(&mut store, json!({"metadata": {"name": "a"}})).unwrap();
    let before = store.revision();
    let body = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "data": {}});
    let error =
        write(&mut store, config_map("a"), Op::Update(Subresource::None, body)).unwrap_err();
    assert_eq!(
        error.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
         please apply your changes to the latest version and try again"
    );
    assert_eq!(store.revision(), before);
}

#[test]
fn an_update_that_changes_nothing_leaves_no_trace() {
    let mut store = store();
    let body = create(&mut store, json!({"metadata": {"name": "a"}})).unwrap();
    let before = store.revision();
    write(&mut store, config_map("a"), Op::Update(Subresource::None, body)).unwrap();
    assert_eq!(store.revision(), before);
}

#[test]
fn a_deleted_object_leaves_an_entry_with_its_own_revision() {
    let mut store = store();
    create(&mut store, json!({"metadata": {"name": "a"}})).unwrap();
    let before = store.revision();
    let deleted = write(&mut store, config_map("a"), Op::Delete(DeleteOptions::default())).unwrap();
    assert!(deleted.deleted);
    let entry = store.log_since(before).unwrap().first().unwrap();
    assert_eq!(entry.kind, EventKind::Deleted);
    assert_eq!(entry.object["metadata"]["resourceVersion"], entry.revision.to_string());
    assert_eq!(store.get(&config_map("a")).unwrap_err().code, 404);
}

fn pod(name: &str) -> Key {
    Key::new(Resource::new("", "pods"), "default", name)
}

fn create_pod(store: &mut Store, name: &str) -> Value {
    let body = json!({"metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]}});
    Value::clone(&write(store, pod(""), Op::Create(body)).expect("a valid pod").object)
}

fn bind(store: &mut Store, name: &str, node: &str) -> Result<WriteOutcome, ApiError> {
    let binding = json!({"metadata": {"name": name, "annotations": {"a": "b"}},
        "target": {"kind": "Node", "name": node}});
    write(store, pod(name), Op::Bind(binding))
}

#[test]
fn a_binding_sets_node_condition_and_annotations() {
    let mut store = store();
    create_pod(&mut store, "web-0");
    let bound = bind(&mut store, "web-0", "n1").unwrap().object;
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["annotations"]["a"], "b");
    assert_eq!(schedlab_api::object::condition(&bound, "PodScheduled"), Some("True"));
}

#[test]
fn a_pod_is_bound_once() {
    let mut store = store();
    create_pod(&mut store, "web-0");
    bind(&mut store, "web-0", "n1").unwrap();
    let error = bind(&mut store, "web-0", "n2").unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            409,
            "Operation cannot be fulfilled on pods/binding \"web-0\": \
             pod web-0 is already assigned to node \"n1\""
        )
    );
}

#[test]
fn a_bound_pod_gets_its_grace_period_and_an_unbound_pod_is_deleted_at_once() {
    let mut store = store();
    create_pod(&mut store, "bound");
    create_pod(&mut store, "unbound");
    bind(&mut store, "bound", "n1").unwrap();
    let delete = |store: &mut Store, name: &str, grace_secs| {
        let options = DeleteOptions { grace_secs, ..DeleteOptions::default() };
        write(store, pod(name), Op::Delete(options)).unwrap()
    };
    assert!(delete(&mut store, "unbound", None).deleted);
    let going = delete(&mut store, "bound", Some(30));
    assert!(!going.deleted);
    assert_eq!(going.object["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    let shortened = delete(&mut store, "bound", Some(5));
    assert_eq!(shortened.object["metadata"]["deletionTimestamp"], "2026-01-01T00:00:05Z");
    let before = store.revision();
    delete(&mut store, "bound", Some(60));
    assert_eq!(store.revision(), before, "a second delete only shortens");
    assert!(delete(&mut store, "bound", Some(0)).deleted);
}
