//! What a server of an older version of Kubernetes knows, and what its gates drop.

use jiff::Timestamp;
use schedlab_api::{Value, json};
use schedlab_emulator::KubernetesVersion::{self, V1_35, V1_37};
use schedlab_emulator::error::ApiError;
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::store::{FieldValidation, Key, Object, Op, Resource, Store, Write};

/// Creates a pod on a server of a version with feature gates.
fn create_pod(version: KubernetesVersion, gates: &str, spec: &Value) -> Result<Object, ApiError> {
    let gates = FeatureGates::parse(version, gates).expect("valid gates");
    let mut store = Store::with_feature_gates(1, gates);
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let mut create = |group: &str, plural: &str, object: Value| {
        let mut key = Key::new(Resource::new(group, plural), "", "");
        if object["metadata"]["namespace"].is_string() {
            key.namespace = "default".into();
        }
        let strict = FieldValidation::Strict;
        let write =
            Write { field_validation: strict, ..Write::new(key, Op::Create(object), "test") };
        store.write(write, now).map(|written| written.object)
    };
    create("", "namespaces", json!({"metadata": {"name": "default"}}))?;
    let metadata = json!({"name": "p", "namespace": "default"});
    create("", "pods", json!({"metadata": metadata, "spec": spec}))
}

fn spec(field: &str, value: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    spec[field] = value;
    spec
}

#[test]
fn a_field_of_another_version_is_unknown() {
    let group = || spec("schedulingGroup", json!({"podGroupName": "g"}));
    let workload = || spec("workloadRef", json!({"name": "w", "podGroup": "g"}));
    let unknown = |result: Result<Object, ApiError>| result.unwrap_err().message;
    let message = unknown(create_pod(V1_35, "", &group()));
    assert!(message.contains("unknown field \"spec.schedulingGroup\""), "{message}");
    let message = unknown(create_pod(V1_37, "", &workload()));
    assert!(message.contains("unknown field \"spec.workloadRef\""), "{message}");
    assert_eq!(
        create_pod(V1_35, "GenericWorkload=true", &workload()).unwrap()["spec"]["workloadRef"]["name"],
        "w"
    );
}

#[test]
fn the_field_of_a_gate_is_kept_only_with_the_gate() {
    let group = || spec("schedulingGroup", json!({"podGroupName": "g"}));
    let without = create_pod(V1_37, "", &group()).unwrap();
    assert!(without["spec"].get("schedulingGroup").is_none());
    let with = create_pod(V1_37, "GenericWorkload=true", &group()).unwrap();
    assert_eq!(with["spec"]["schedulingGroup"]["podGroupName"], "g");
}

#[test]
fn a_kind_is_served_from_its_version_on() {
    let serves_taint_rules = |version: KubernetesVersion, gates: &str| {
        let gates = FeatureGates::parse(version, gates).unwrap();
        let store = Store::with_feature_gates(1, gates);
        store.kinds().by_path("resource.k8s.io", "v1", "devicetaintrules").is_some()
    };
    assert!(serves_taint_rules(V1_37, ""));
    assert!(!serves_taint_rules(V1_37, "DRADeviceTaintRules=false"));
    assert!(!serves_taint_rules(V1_35, ""));
}
