//! Deletion: finalizers, propagation, preconditions, evictions, namespaces.

use insta::assert_snapshot;
use schedlab_api::{Value, json, object};
use schedlab_emulator::store::{
    DeleteOptions, EventKind, ListQuery, Op, Preconditions, Propagation, Resource, Subresource,
    Write,
};

use crate::test_store::{TestStore, outcome, pod};

fn config_map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name}})
}

fn delete_with(fixture: &mut TestStore, kind: &str, options: DeleteOptions) -> String {
    let key = fixture.key("", kind, "a");
    match fixture.write(key, Op::Delete(options)) {
        Ok(written) if written.deleted => "gone".to_owned(),
        Ok(written) => format!("held by {}", written.object["metadata"]["finalizers"]),
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

#[test]
fn finalizers_hold_an_object_until_the_last_one_is_removed() {
    let mut fixture = TestStore::new();
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["lab.dev/x", "lab.dev/y"]);
    fixture.create(body).unwrap();
    let key = fixture.key("", "ConfigMap", "a");
    let held = fixture.delete(key.clone()).unwrap();
    assert!(!held.deleted && object::is_deleting(&held.object));
    assert_snapshot!(
        outcome(fixture.edit(key.clone(), &["metadata", "finalizers"], json!(["lab.dev/x", "lab.dev/z"]))),
        @r#"422 Invalid: ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"lab.dev/z"}"#
    );
    fixture.edit(key.clone(), &["metadata", "finalizers"], json!(["lab.dev/y"])).unwrap();
    fixture.edit(key.clone(), &["metadata", "finalizers"], json!([])).unwrap();
    assert_eq!(fixture.store.get(&key).unwrap_err().code, 404);
}

#[test]
fn the_propagation_policy_becomes_a_finalizer() {
    let mut fixture = TestStore::new();
    fixture.create(config_map("a")).unwrap();
    let with = |propagation| DeleteOptions { propagation: Some(propagation), ..Default::default() };
    assert_eq!(
        delete_with(&mut fixture, "ConfigMap", with(Propagation::Foreground)),
        "held by [\"foregroundDeletion\"]"
    );
    assert_eq!(
        delete_with(&mut fixture, "ConfigMap", with(Propagation::Orphan)),
        "held by [\"orphan\"]"
    );
    assert_eq!(delete_with(&mut fixture, "ConfigMap", with(Propagation::Background)), "gone");
}

#[test]
fn a_delete_of_another_state_or_another_object_conflicts() {
    let mut fixture = TestStore::new();
    let created = fixture.create(config_map("a")).unwrap();
    let of = |uid: &str, resource_version: &str| {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let preconditions =
            Preconditions { uid: some(uid), resource_version: some(resource_version) };
        DeleteOptions { preconditions, ..Default::default() }
    };
    let uid = object::uid(&created).to_owned();
    assert_eq!(
        delete_with(&mut fixture, "ConfigMap", of("other", "")),
        format!(
            "409 Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) \
             does not match the UID in record ({uid}). The object might have been deleted and then \
             recreated"
        )
    );
    assert_snapshot!(delete_with(&mut fixture, "ConfigMap", of("", "1")), @r#"409 Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (3). The object might have been modified"#);
    assert_eq!(delete_with(&mut fixture, "ConfigMap", of(&uid, "3")), "gone");
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut fixture = TestStore::new();
    fixture.create(config_map("a")).unwrap();
    let before = fixture.store.revision();
    let key = fixture.key("", "ConfigMap", "a");
    let mut write = Write::new(key.clone(), Op::Delete(DeleteOptions::default()), "test");
    write.dry_run = true;
    assert!(fixture.store.write(write, fixture.now).unwrap().deleted);
    let mut write = Write::new(fixture.key("", "Pod", ""), Op::Create(pod("a")), "test");
    write.dry_run = true;
    assert_eq!(fixture.store.write(write, fixture.now).unwrap().object["spec"]["priority"], 0);
    assert_eq!(fixture.store.revision(), before);
    assert!(fixture.store.get(&key).is_ok());
}

#[test]
fn a_collection_is_deleted_by_selector() {
    let mut fixture = TestStore::new();
    for name in ["a", "b"] {
        fixture.create(config_map(name)).unwrap();
    }
    let mut marked = config_map("c");
    marked["metadata"]["labels"] = json!({"keep": "no"});
    fixture.create(marked).unwrap();
    let labels = schedlab_emulator::LabelSelector::parse("keep=no").unwrap();
    let query = ListQuery { labels, ..ListQuery::default() };
    let write =
        Write::new(fixture.key("", "ConfigMap", ""), Op::Delete(DeleteOptions::default()), "test");
    let deleted = fixture.store.delete_collection(&write, &query, fixture.now).unwrap();
    assert_eq!(deleted.len(), 1);
    assert_eq!(fixture.store.count(&Resource::new("", "configmaps")), 2);
}

/// A store with three ready pods and a budget with `minAvailable: least`.
fn budgeted(least: &Value) -> TestStore {
    let mut fixture = TestStore::new();
    for name in ["a", "b", "c"] {
        fixture.create(pod(name)).expect("a valid pod");
        fixture.bind(name, "n1").expect("a pod that is not bound");
        let ready =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        fixture.set_status(fixture.key("", "Pod", name), ready).expect("a valid status");
    }
    fixture
        .create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}}))
        .expect("a valid budget");
    fixture
}

/// Sets the status of the budget as the disruption controller does.
fn set_budget_status(fixture: &mut TestStore, desired: i64, allowed: i64) {
    let status = json!({"observedGeneration": 1, "expectedPods": 3, "currentHealthy": 3,
        "desiredHealthy": desired, "disruptionsAllowed": allowed});
    fixture
        .set_status(fixture.key("policy", "PodDisruptionBudget", "web"), status)
        .expect("a status");
}

fn evict(fixture: &mut TestStore, name: &str) -> String {
    let op = Op::Evict(json!({"metadata": {"name": name}}));
    outcome(fixture.write(fixture.key("", "Pod", name), op))
}

#[test]
fn a_budget_lets_as_many_go_as_it_can_spare() {
    let mut fixture = budgeted(&json!(2));
    set_budget_status(&mut fixture, 2, 1);
    assert_eq!(evict(&mut fixture, "a"), "accepted");
    let evicted = fixture.store.get(&fixture.key("", "Pod", "a")).unwrap();
    assert_eq!(object::condition(&evicted, "DisruptionTarget"), Some("True"));
    assert!(object::is_deleting(&evicted));
    assert_snapshot!(evict(&mut fixture, "b"), @"429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget.");
    let budget = fixture.store.get(&fixture.key("policy", "PodDisruptionBudget", "web")).unwrap();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(budget["status"]["disruptedPods"], json!({"a": "2026-01-01T00:00:00Z"}));
    assert_eq!(object::condition(&budget, "DisruptionAllowed"), Some("False"));
}

#[test]
fn a_refused_eviction_names_the_budget() {
    let mut fixture = budgeted(&json!("100%"));
    let refusal = |fixture: &mut TestStore| {
        let op = Op::Evict(json!({"metadata": {"name": "a"}}));
        fixture.write(fixture.key("", "Pod", "a"), op).unwrap_err()
    };
    let details = refusal(&mut fixture).details.unwrap();
    let early = "The disruption budget web is still being processed by the server.";
    assert_eq!((&*details.causes[0].message, details.retry_after_seconds), (early, Some(10)));
    set_budget_status(&mut fixture, 3, 0);
    let error = refusal(&mut fixture);
    let cause = &error.details.as_ref().unwrap().causes[0];
    assert_eq!((error.code, cause.reason.as_str()), (429, "DisruptionBudget"));
    assert_eq!(cause.message, "The disruption budget web needs 3 healthy pods and has 3 currently");
    let failed = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "conditions": [
        {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed",
         "message": "why", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    fixture
        .set_status(fixture.key("policy", "PodDisruptionBudget", "web"), failed)
        .expect("a status");
    assert_eq!(
        refusal(&mut fixture).details.unwrap().causes[0].message,
        "The disruption budget web does not allow evicting pods currently because it failed sync: why"
    );
}

#[test]
fn a_pod_that_does_not_run_is_evicted_past_its_budget() {
    let mut fixture = budgeted(&json!(3));
    fixture.create(pod("d")).unwrap();
    assert_eq!(evict(&mut fixture, "d"), "accepted");
    assert_eq!(fixture.store.get(&fixture.key("", "Pod", "d")).unwrap_err().code, 404);
}

#[test]
fn a_terminating_namespace_takes_nothing_in_and_ends_when_finalized() {
    let mut fixture = TestStore::new();
    fixture.create(json!({"kind": "Namespace", "metadata": {"name": "team"}})).unwrap();
    let key = fixture.key("", "Namespace", "team");
    let held = fixture.delete(key.clone()).unwrap();
    assert!(!held.deleted);
    assert_eq!(held.object["status"]["phase"], "Terminating");
    let mut late = pod("late");
    late["metadata"]["namespace"] = "team".into();
    assert_snapshot!(outcome(fixture.create(late)), @r#"403 Forbidden: pods "late" is forbidden: unable to create new content in namespace team because it is being terminated"#);
    let mut body = Value::clone(&held.object);
    body["spec"]["finalizers"] = json!([]);
    let ended = fixture.write(key, Op::Update(Subresource::Finalize, body)).unwrap();
    assert!(ended.deleted);
}

#[test]
fn missing_and_protected_namespaces_are_refused() {
    let mut fixture = TestStore::new();
    let mut lost = pod("lost");
    lost["metadata"]["namespace"] = "nowhere".into();
    assert_snapshot!(outcome(fixture.create(lost)), @r#"404 NotFound: namespaces "nowhere" not found"#);
    assert_snapshot!(outcome(fixture.delete(fixture.key("", "Namespace", "default"))), @r#"403 Forbidden: namespaces "default" is forbidden: this namespace may not be deleted"#);
}

#[test]
fn a_forced_delete_of_a_bound_pod_is_first_a_change_and_then_an_end() {
    let mut fixture = TestStore::new();
    fixture.create(pod("a")).unwrap();
    fixture.bind("a", "n1").unwrap();
    let before = fixture.store.revision();
    let options = DeleteOptions { grace_secs: Some(0), ..Default::default() };
    fixture.write(fixture.key("", "Pod", "a"), Op::Delete(options)).unwrap();
    let kinds: Vec<EventKind> =
        fixture.store.log_since(before).unwrap().iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EventKind::Modified, EventKind::Deleted]);
}
