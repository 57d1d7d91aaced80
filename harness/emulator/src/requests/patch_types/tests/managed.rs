//! Owners of fields after updates.

use super::super::{WriteAuthor, builtin_shape, record_update};
use super::object;
use schedlab_api::{Value, json};

fn author<'m>(manager: &'m str, subresource: &'m str) -> WriteAuthor<'m> {
    let now = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    WriteAuthor { manager, api_version: "v1", subresource, now }
}

/// The entries of `managedFields` after an update.
fn owners(before: Option<&Value>, after: &mut Value, author: &WriteAuthor<'_>) -> Vec<String> {
    record_update(before, after, &builtin_shape("", "Pod"), author);
    let entries = after["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let line = |entry: &Value| format!("{} {}", entry["manager"], entry["fieldsV1"]);
    entries.iter().map(line).collect()
}

#[test]
fn a_create_owns_everything_but_what_the_server_sets() {
    let mut pod = object(
        "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u, labels: {a: b}}, \
          spec: {containers: [{name: c}]}}",
    );
    assert_eq!(
        owners(None, &mut pod, &author("kubectl-create", "")),
        [concat!(
            r#""kubectl-create" {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"#,
            r#""f:spec":{"f:containers":{".":{},"k:{\"name\":\"c\"}":{".":{},"f:name":{}}}}}"#
        )]
    );
    assert_eq!(
        pod["metadata"]["managedFields"][0],
        json!({
            "manager": "kubectl-create", "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": pod["metadata"]["managedFields"][0]["fieldsV1"],
        })
    );
}

#[test]
fn an_update_owns_only_what_it_changes() {
    let before = object("{spec: {nodeName: a, priority: 1}}");
    let mut after = object("{spec: {nodeName: a, priority: 2}}");
    assert_eq!(
        owners(Some(&before), &mut after, &author("m", "")),
        [r#""m" {"f:spec":{"f:priority":{}}}"#]
    );
}

#[test]
fn a_write_without_change_leaves_the_records_alone() {
    let before = object("{metadata: {managedFields: [{manager: x, operation: Update}]}, spec: {}}");
    let mut after = before.clone();
    record_update(Some(&before), &mut after, &builtin_shape("", "Pod"), &author("m", ""));
    assert_eq!(after, before);
    let mut without = object("{metadata: {}, spec: {}}");
    record_update(Some(&before), &mut without, &builtin_shape("", "Pod"), &author("m", ""));
    assert_eq!(without, before);
}

#[test]
fn removed_fields_leave_every_owner() {
    let mut first = object("{spec: {nodeName: a, priority: 1}}");
    record_update(None, &mut first, &builtin_shape("", "Pod"), &author("one", ""));
    let mut after = first.clone();
    after["spec"].as_object_mut().unwrap().remove("priority");
    assert_eq!(
        owners(Some(&first), &mut after, &author("two", "")),
        [r#""one" {"f:spec":{"f:nodeName":{}}}"#]
    );
}

#[test]
fn subresources_have_entries_of_their_own() {
    let mut pod = object("{spec: {nodeName: a}}");
    record_update(None, &mut pod, &builtin_shape("", "Pod"), &author("kubelet", ""));
    let mut after = pod.clone();
    after["status"] = json!({"phase": "Running"});
    let lines = owners(Some(&pod), &mut after, &author("kubelet", "status"));
    assert_eq!(
        lines,
        [r#""kubelet" {"f:spec":{"f:nodeName":{}}}"#, r#""kubelet" {"f:status":{"f:phase":{}}}"#]
    );
    assert_eq!(after["metadata"]["managedFields"][1]["subresource"], "status");
}

#[test]
fn a_lone_empty_entry_clears_the_records() {
    let mut before = object("{spec: {nodeName: a}}");
    record_update(None, &mut before, &builtin_shape("", "Pod"), &author("m", ""));
    let mut after = before.clone();
    after["metadata"]["managedFields"] = json!([{}]);
    record_update(Some(&before), &mut after, &builtin_shape("", "Pod"), &author("m", ""));
    assert_eq!(after["metadata"].get("managedFields"), None);
}
