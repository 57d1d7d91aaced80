use insta::assert_snapshot;
use schedlab_json::json;

use super::*;

fn told(kind: Kind, object: &Value) -> String {
    fault(kind, object).map(|wrong| wrong.to_string()).unwrap_or_default()
}

#[test]
fn a_value_of_another_type_is_told_with_its_place() {
    let pod = |spec: Value| told(Kind::Pod, &json!({ "spec": spec }));
    assert_snapshot!(pod(json!("str")), @r#"spec: found "str", allowed: an object"#);
    assert_snapshot!(pod(json!({ "schedulerName": {} })), @"spec.schedulerName: found {}, allowed: a string");
    assert_snapshot!(pod(json!({ "containers": {} })), @"spec.containers: found {}, allowed: an array");
    assert_snapshot!(pod(json!({ "containers": [{}, null] })), @"spec.containers[1]: found null, allowed: an object");
    assert_snapshot!(pod(json!({ "containers": [{ "resources": "str" }] })), @r#"spec.containers[0].resources: found "str", allowed: an object"#);
    assert_snapshot!(pod(json!({ "containers": [{ "resources": { "limits": { "x/y": [] } } }] })), @"spec.containers[0].resources.limits.x/y: found [], allowed: a string or a number");
    assert_snapshot!(pod(json!({ "hostNetwork": "yes" })), @r#"spec.hostNetwork: found "yes", allowed: true or false"#);
    assert_snapshot!(pod(json!({ "topologySpreadConstraints": [{ "maxSkew": "1" }] })), @r#"spec.topologySpreadConstraints[0].maxSkew: found "1", allowed: an integer from -2147483648 to 2147483647"#);
    assert_snapshot!(pod(json!({ "terminationGracePeriodSeconds": 1.5 })), @"spec.terminationGracePeriodSeconds: found 1.5, allowed: an integer");
    let leaving = json!({ "metadata": { "deletionTimestamp": "soon" } });
    assert_snapshot!(told(Kind::Pod, &leaving), @r#"metadata.deletionTimestamp: found "soon", allowed: a time such as 2026-01-31T12:00:00Z"#);
    let labels = json!({ "metadata": { "labels": { "rack": 1 } } });
    assert_snapshot!(told(Kind::Node, &labels), @"metadata.labels.rack: found 1, allowed: a string");
    let quota = json!({ "spec": { "resources": { "gpu": { "quota": "8" } } } });
    assert_snapshot!(told(Kind::Queue, &quota), @r#"spec.resources.gpu.quota: found "8", allowed: a number"#);
    let group = json!({ "spec": { "subGroups": [{ "topologyConstraint": "t/rack" }] } });
    assert_snapshot!(told(Kind::PodGroup, &group), @r#"spec.subGroups[0].topologyConstraint: found "t/rack", allowed: an object"#);
    let zone = json!({ "zones": [{ "resources": [{ "name": "cpu", "available": {} }] }] });
    assert_snapshot!(told(Kind::NodeResourceTopology, &zone), @"zones[0].resources[0].available: found {}, allowed: a string or a number");
}

#[test]
fn every_kind_says_which_types_its_fields_have() {
    for kind in Kind::watched(crate::config::Flavor::Kai) {
        let labels = json!({ "metadata": { "labels": "str" } });
        let wrong = told(*kind, &labels);
        assert_eq!(wrong, r#"metadata.labels: found "str", allowed: an object"#, "{kind:?}");
    }
    for kind in [Kind::Queue, Kind::PodGroup, Kind::Topology, Kind::BindRequest] {
        let conditions = told(kind, &json!({ "status": "str" }));
        assert_eq!(conditions, r#"status: found "str", allowed: an object"#, "{kind:?}");
    }
}

#[test]
fn what_a_kind_does_not_have_and_what_is_null_is_passed_over() {
    let pod = json!({
        "metadata": { "creationTimestamp": null, "future": 1,
                      "managedFields": [{ "fieldsV1": { "f:spec": {} } }] },
        "spec": { "future": {}, "containers": [{ "resources": { "limits": { "cpu": 1, "memory": "1Gi" } },
                                                 "future": [] }],
                  "nodeSelector": null },
    });
    assert_eq!(told(Kind::Pod, &pod), "");
    let status = json!({ "conditions": [{ "type": "X", "status": "True", "transitionID": "1",
                                          "lastTransitionTime": null }],
                         "resourcesStatus": { "requested": { "cpu": 1.5, "memory": "1Gi" } } });
    let group = json!({ "spec": { "minMember": 1, "preemptibility": "", "queue": null }, "status": status });
    assert_eq!(told(Kind::PodGroup, &group), "");
    // Of these is told besides.
    let class = json!({ "metadata": { "creationTimestamp": 3 }, "value": "high" });
    assert_eq!(told(Kind::PriorityClass, &class), "");
}
