use insta::assert_snapshot;
use schedlab_api::json;

use super::*;

fn rendered(kind: Kind, object: &Value) -> String {
    type_error(kind, object).map(|wrong| wrong.to_string()).unwrap_or_default()
}

#[test]
fn a_value_of_the_wrong_type_is_reported_with_its_field() {
    let pod = |spec: Value| rendered(Kind::Pod, &json!({ "spec": spec }));
    assert_snapshot!(pod(json!("str")), @r#"spec: got "str", expected an object"#);
    assert_snapshot!(pod(json!({ "schedulerName": {} })), @"spec.schedulerName: got {}, expected a string");
    assert_snapshot!(pod(json!({ "containers": {} })), @"spec.containers: got {}, expected an array");
    assert_snapshot!(pod(json!({ "containers": [{}, null] })), @"spec.containers[1]: got null, expected an object");
    assert_snapshot!(pod(json!({ "containers": [{ "resources": "str" }] })), @r#"spec.containers[0].resources: got "str", expected an object"#);
    assert_snapshot!(pod(json!({ "containers": [{ "resources": { "limits": { "x/y": [] } } }] })), @"spec.containers[0].resources.limits.x/y: got [], expected a string or a number");
    assert_snapshot!(pod(json!({ "hostNetwork": "yes" })), @r#"spec.hostNetwork: got "yes", expected true or false"#);
    assert_snapshot!(pod(json!({ "topologySpreadConstraints": [{ "maxSkew": "1" }] })), @r#"spec.topologySpreadConstraints[0].maxSkew: got "1", expected an integer from -2147483648 to 2147483647"#);
    assert_snapshot!(pod(json!({ "terminationGracePeriodSeconds": 1.5 })), @"spec.terminationGracePeriodSeconds: got 1.5, expected an integer");
    let leaving = json!({ "metadata": { "deletionTimestamp": "soon" } });
    assert_snapshot!(rendered(Kind::Pod, &leaving), @r#"metadata.deletionTimestamp: got "soon", expected a time such as 2026-01-31T12:00:00Z"#);
    let labels = json!({ "metadata": { "labels": { "rack": 1 } } });
    assert_snapshot!(rendered(Kind::Node, &labels), @"metadata.labels.rack: got 1, expected a string");
    let quota = json!({ "spec": { "resources": { "gpu": { "quota": "8" } } } });
    assert_snapshot!(rendered(Kind::Queue, &quota), @r#"spec.resources.gpu.quota: got "8", expected a number"#);
    let group = json!({ "spec": { "subGroups": [{ "topologyConstraint": "t/rack" }] } });
    assert_snapshot!(rendered(Kind::PodGroup, &group), @r#"spec.subGroups[0].topologyConstraint: got "t/rack", expected an object"#);
    let zone = json!({ "zones": [{ "resources": [{ "name": "cpu", "available": {} }] }] });
    assert_snapshot!(rendered(Kind::NodeResourceTopology, &zone), @"zones[0].resources[0].available: got {}, expected a string or a number");
}

#[test]
fn every_kind_declares_the_types_of_its_fields() {
    for kind in Kind::watched(crate::config::Flavor::Kai) {
        let labels = json!({ "metadata": { "labels": "str" } });
        let wrong = rendered(*kind, &labels);
        assert_eq!(wrong, r#"metadata.labels: got "str", expected an object"#, "{kind:?}");
    }
    for kind in [Kind::Queue, Kind::PodGroup, Kind::Topology, Kind::BindRequest] {
        let conditions = rendered(kind, &json!({ "status": "str" }));
        assert_eq!(conditions, r#"status: got "str", expected an object"#, "{kind:?}");
    }
}

#[test]
fn unknown_fields_and_nulls_are_ignored() {
    let pod = json!({
        "metadata": { "creationTimestamp": null, "future": 1,
                      "managedFields": [{ "fieldsV1": { "f:spec": {} } }] },
        "spec": { "future": {}, "containers": [{ "resources": { "limits": { "cpu": 1, "memory": "1Gi" } },
                                                 "future": [] }],
                  "nodeSelector": null },
    });
    assert_eq!(rendered(Kind::Pod, &pod), "");
    let status = json!({ "conditions": [{ "type": "X", "status": "True", "transitionID": "1",
                                          "lastTransitionTime": null }],
                         "resourcesStatus": { "requested": { "cpu": 1.5, "memory": "1Gi" } } });
    let group = json!({ "spec": { "minMember": 1, "preemptibility": "", "queue": null }, "status": status });
    assert_eq!(rendered(Kind::PodGroup, &group), "");
    // These fields have notes of their own.
    let class = json!({ "metadata": { "creationTimestamp": 3 }, "value": "high" });
    assert_eq!(rendered(Kind::PriorityClass, &class), "");
}
