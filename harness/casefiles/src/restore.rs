//! The objects of a case as they can be created in another cluster: without what only the API server
//! and controllers set, and without owners, which would be missing there.

use std::collections::BTreeSet;

use schedlab_api::{
    Map, Value,
    annotations::{POD_GROUP_NAME, SKIP_POD_GROUPER},
    json, object,
};

use crate::{Case, CaseKind, KINDS};

/// Priority classes that each cluster of KAI has.
const BUILT_IN_CLASSES: [&str; 6] = [
    "train",
    "build",
    "build-preemptible",
    "inference",
    "system-cluster-critical",
    "system-node-critical",
];

impl Case {
    /// The objects of the case and their namespaces in the order of their creation, for a cluster in which `scheduler`
    /// schedules. Pods that have a node keep it; finished pods are left out.
    pub fn objects_to_create(&self, scheduler: &str) -> Vec<Value> {
        // Bind requests are of the past: their pods wait again.
        let kinds = KINDS.iter().filter(|kind| kind.array != "bindRequests");
        let objects = kinds.flat_map(|kind| {
            let mut objects: Vec<&Value> = self.objects(kind.array).collect();
            objects.sort_by_key(|it| object::text(it, &["metadata", "creationTimestamp"]));
            objects.into_iter().filter(|it| !is_finished(it)).map(|it| plain_object(kind, it))
        });
        let mut objects: Vec<Value> = objects.collect();
        let named =
            objects.iter().map(object::namespace).filter(|it| !["", "default"].contains(it));
        let names: BTreeSet<&str> = named.collect();
        let namespaces = names.into_iter().map(
            |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        );
        let namespaces: Vec<Value> = namespaces.collect();
        objects.splice(0..0, namespaces);
        let classes: Vec<String> = self
            .objects("priorityClasses")
            .map(|class| object::name(class).to_owned())
            .chain(BUILT_IN_CLASSES.map(str::to_owned))
            .collect();
        for pod in objects.iter_mut().filter(|it| it["kind"] == "Pod") {
            prepare_pod(pod, scheduler, &classes);
        }
        objects
    }
}

fn is_finished(object: &Value) -> bool {
    matches!(object::text(object, &["status", "phase"]), "Succeeded" | "Failed")
}

fn plain_object(kind: &CaseKind, object: &Value) -> Value {
    let mut plain = object.clone();
    plain["apiVersion"] = json!(kind.api_version);
    plain["kind"] = json!(kind.kind);
    let metadata = object.get("metadata").and_then(Value::as_object);
    let kept = ["name", "namespace", "labels", "annotations"];
    let kept: Map = metadata
        .into_iter()
        .flatten()
        .filter(|(key, _)| kept.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<Value>()
        .as_object()
        .cloned()
        .unwrap_or_default();
    plain["metadata"] = Value::Object(kept);
    match kind.array {
        // Simulated kubelets publish what the status says.
        "nodes" => {
            let allocatable = object::at(object, &["status", "allocatable"]).cloned();
            plain["status"]["capacity"] = allocatable.unwrap_or_default();
        }
        "resourceClaims" => {}
        _ => drop(object::remove(&mut plain, &["status"])),
    }
    plain
}

fn prepare_pod(pod: &mut Value, scheduler: &str, classes: &[String]) {
    if object::annotation(pod, POD_GROUP_NAME).is_some() {
        pod["metadata"]["annotations"][SKIP_POD_GROUPER] = json!("true");
    }
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let is_class_known = spec
        .get("priorityClassName")
        .and_then(Value::as_str)
        .is_some_and(|class| classes.iter().any(|known| known == class));
    if !is_class_known {
        spec.remove("priorityClassName");
    }
    // Admission derives it from the class.
    spec.remove("priority");
    spec.remove("preemptionPolicy");
    spec.insert("schedulerName", json!(scheduler));
    spec.insert("restartPolicy", json!("Never"));
    if let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) {
        for (container, number) in containers.iter_mut().zip(1..) {
            object::set_default(container, &["name"], format!("container-{number}"));
            object::set_default(container, &["image"], "registry.k8s.io/pause:3.10");
        }
    }
}
