//! Tests of PodGroups of Kubernetes.

use insta::assert_snapshot;
use schedlab_api::{Value, json};

use super::{group_text_with, link};

/// The group of a pod with these labels that names PodGroup `train`.
fn group_of_pod(labels: &Value, group: Option<&Value>) -> String {
    let job = json!({ "metadata": { "labels": { "kai.scheduler/queue": "of-job" } } });
    let metadata = json!({ "labels": labels, "schedulingGroup": { "podGroupName": "train" } });
    group_text_with(&metadata, &[link("Job", job)], &[], group)
}

/// PodGroup `train` with these labels, annotations and fields of `spec`.
fn pod_group(labels: &Value, annotations: &Value, spec: &Value) -> Value {
    let metadata =
        json!({ "name": "train", "uid": "u9", "labels": labels, "annotations": annotations });
    json!({ "metadata": metadata, "spec": spec })
}

fn gang(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["schedulingPolicy"] = json!({ "gang": { "minCount": 4 } });
    pod_group(&json!({}), &json!({}), &spec)
}

#[test]
fn a_pod_group_of_kubernetes_defines_the_group_of_its_pods() {
    assert_snapshot!(group_of_pod(&json!({}), Some(&gang(&json!({})))), @"pg-train-u9 of PodGroup min=4 queue=of-job class=train");
    let basic = pod_group(&json!({}), &json!({}), &json!({ "schedulingPolicy": { "basic": {} } }));
    assert_snapshot!(group_of_pod(&json!({}), Some(&basic)), @"pg-train-u9 of PodGroup min=1 queue=of-job class=train");
    let spec = json!({
        "priorityClassName": "build",
        "schedulingConstraints": { "topology": [{ "key": "example.com/rack" }] },
    });
    assert_snapshot!(group_of_pod(&json!({}), Some(&gang(&spec))), @r#"
    pg-train-u9 of PodGroup min=4 queue=of-job class=build
      within {"requiredTopologyLevel":"example.com/rack","topology":"example.com/rack"}
    "#);
    assert_snapshot!(group_of_pod(&json!({}), None), @"spec.schedulingGroup.podGroupName: got train, expected the name of a PodGroup of scheduling.k8s.io that exists");
}

#[test]
fn the_queue_of_the_pod_group_comes_first() {
    let labels = json!({ "kai.scheduler/queue": "a" });
    let spec = json!({ "schedulingPolicy": { "gang": { "minCount": 2 } } });
    let group = pod_group(&labels, &json!({}), &spec);
    assert_snapshot!(group_of_pod(&json!({}), Some(&group)), @"pg-train-u9 of PodGroup min=2 queue=a class=train");
}

#[test]
fn labels_and_annotations_of_kai_must_not_contradict_the_pod_group() {
    let spec = json!({
        "schedulingPolicy": { "gang": { "minCount": 2 } },
        "priorityClassName": "train",
        "schedulingConstraints": { "topology": [{ "key": "rack" }] },
    });
    let labels = json!({ "kai.scheduler/queue": "a" });
    let group = pod_group(&labels, &json!({}), &spec);
    let pod = json!({ "kai.scheduler/queue": "b" });
    assert_snapshot!(group_of_pod(&pod, Some(&group)), @"label kai.scheduler/queue: got b, with a on PodGroup train, expected the queue of its PodGroup");
    let pod = json!({ "priorityClassName": "build" });
    assert_snapshot!(group_of_pod(&pod, Some(&group)), @"label priorityClassName: got build, with train on PodGroup train, expected spec.priorityClassName of its PodGroup");
    let annotations = json!({
        "kai.scheduler/topology": "cluster",
        "kai.scheduler/topology-required-placement": "zone",
    });
    let group = pod_group(&json!({}), &annotations, &spec);
    assert_snapshot!(group_of_pod(&json!({}), Some(&group)), @"annotation kai.scheduler/topology: got cluster, expected none beside spec.schedulingConstraints.topology of the PodGroup");
    let annotations = json!({ "kai.scheduler/batch-min-member": "3" });
    let group = pod_group(&json!({}), &annotations, &spec);
    assert_snapshot!(group_of_pod(&json!({}), Some(&group)), @"annotation kai.scheduler/batch-min-member: got 3, with 2 on PodGroup train, expected spec.schedulingPolicy.gang.minCount of its PodGroup");
    let spec = json!({ "schedulingPolicy": { "gang": { "minCount": 0 } } });
    let group = pod_group(&json!({}), &json!({}), &spec);
    assert_snapshot!(group_of_pod(&json!({}), Some(&group)), @"spec.schedulingPolicy.gang.minCount: got 0, expected an integer from 1 to 2147483647");
}
