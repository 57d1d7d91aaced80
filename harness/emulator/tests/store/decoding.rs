//! Decoding of bodies of built-in kinds.

use schedlab_api::{Value, json};
use schedlab_emulator::error::ApiError;
use schedlab_emulator::store::{
    FieldValidation, Key, Op, PatchBody, Resource, Store, Subresource, Write, WriteOutcome,
};

use crate::test_store::{self, TestStore};

fn create(body: Value, field_validation: FieldValidation) -> Result<WriteOutcome, ApiError> {
    let mut store = Store::new(1);
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    let key = Key::new(Resource::new("", "namespaces"), "", "default");
    store.write(Write::new(key, Op::Create(json!({})), "test"), now).expect("a namespace");
    let key = Key::new(Resource::new("", "pods"), "default", "");
    let write = Write { field_validation, ..Write::new(key, Op::Create(body), "test") };
    store.write(write, now)
}

fn pod(container: &Value) -> Value {
    let mut container = container.clone();
    container["name"] = "main".into();
    container["image"] = "busybox".into();
    json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}})
}

#[test]
fn an_unknown_field_is_dropped_with_a_warning_or_refused() {
    let body = pod(&json!({"imagge": "x"}));
    let warned = create(body.clone(), FieldValidation::Warn).unwrap();
    assert_eq!(warned.warnings, ["unknown field \"spec.containers[0].imagge\""]);
    assert_eq!(warned.object["spec"]["containers"][0]["imagge"], Value::Null);
    assert!(create(body.clone(), FieldValidation::Ignore).unwrap().warnings.is_empty());
    let refused = create(body, FieldValidation::Strict).unwrap_err();
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.message,
        "Pod in version \"v1\" cannot be handled as a Pod: \
         strict decoding error: unknown field \"spec.containers[0].imagge\""
    );
}

/// As in kube-apiserver, the whole body is decoded, for every subresource.
#[test]
fn a_status_write_warns_about_unknown_fields_in_the_spec() {
    let mut fixture = TestStore::new();
    fixture.create(test_store::pod("a")).unwrap();
    let key = fixture.key("", "Pod", "a");
    let mut patched = |patch: Value| {
        let op = Op::Patch(Subresource::Status, PatchBody::Merge(patch));
        let write = Write {
            field_validation: FieldValidation::Warn,
            ..Write::new(key.clone(), op, "test")
        };
        fixture.store.write(write, fixture.now).unwrap()
    };
    let warned = patched(json!({"spec": {"odd": 1}, "status": {"message": "m", "odder": 2}}));
    assert_eq!(warned.warnings, ["unknown field \"spec.odd\"", "unknown field \"status.odder\""]);
    assert_eq!(warned.object["spec"]["odd"], Value::Null);
    assert!(patched(json!({"status": {"message": "n"}})).warnings.is_empty());
}

#[test]
fn a_value_of_another_type_is_refused() {
    let mut body = pod(&json!({}));
    body["spec"]["priority"] = "high".into();
    assert_eq!(
        create(body, FieldValidation::Warn).unwrap_err().message,
        "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal string into \
         Go struct field PodSpec.spec.priority of type int32"
    );
}

#[test]
fn quantities_are_stored_in_canonical_form() {
    let body = pod(&json!({"resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}}}));
    let written = create(body, FieldValidation::Warn).unwrap();
    let requests = &written.object["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(*requests, json!({"cpu": "500m", "memory": "1Gi"}));
}

#[test]
fn a_malformed_quantity_is_a_bad_request() {
    let body = pod(&json!({"resources": {"requests": {"cpu": "1.2.3"}}}));
    let error = create(body, FieldValidation::Warn).unwrap_err();
    assert_eq!(error.code, 400);
    assert!(error.message.contains("quantities must match the regular expression"));
}

#[test]
fn nulls_and_empty_lists_leave_no_trace() {
    let mut body = pod(&json!({"env": [], "args": null}));
    body["metadata"]["labels"] = json!({});
    body["metadata"]["creationTimestamp"] = Value::Null;
    let written = create(body, FieldValidation::Strict).unwrap();
    assert_eq!(written.object["metadata"].get("labels"), None);
    assert_eq!(written.object["spec"]["containers"][0].get("env"), None);
}

/// A `Lease` with this `renewTime`, as stored.
fn renewed(time: &str) -> Result<Value, ApiError> {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a"}, "spec": {"renewTime": time}});
    let written = TestStore::new().create(lease)?;
    Ok(written["spec"]["renewTime"].clone())
}

/// A Go client can read no other form.
#[test]
fn a_micro_time_is_stored_in_utc_with_six_fractional_digits() {
    assert_eq!(renewed("2026-01-01T01:00:00.100000+01:00").unwrap(), "2026-01-01T00:00:00.100000Z");
    for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.1234567Z"] {
        assert_eq!(renewed(time).unwrap_err().code, 400, "{time}");
    }
}

#[test]
fn a_time_is_stored_in_utc_and_whole_seconds() {
    let mut fixture = TestStore::new();
    fixture.create(test_store::pod("a")).unwrap();
    let key = fixture.key("", "Pod", "a");
    let status = json!({"startTime": "2026-01-01T01:00:00.9+01:00"});
    let written = fixture.set_status(key.clone(), status).unwrap();
    assert_eq!(written["status"]["startTime"], "2026-01-01T00:00:00Z");
    let refused = fixture.set_status(key, json!({"startTime": "2026-01-01 00:00:00Z"}));
    assert_eq!(refused.unwrap_err().code, 400);
}

#[test]
fn an_object_that_etcd_would_not_store_is_refused() {
    let revision = |bytes: usize| {
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"},
            "revision": 1, "data": {"a": "a".repeat(bytes)}})
    };
    assert!(TestStore::new().create(revision(1_400_000)).is_ok());
    let refused = TestStore::new().create(revision(1_700_000)).unwrap_err();
    assert_eq!((refused.code, &*refused.message), (500, "etcdserver: request is too large"));
}
