//! The objects of a case as they can be created in another cluster: without what only the API server
//! and controllers set, and without owners, which would be missing there.

use std::collections::BTreeSet;

use schedlab_api::{
    Map, Value,
    annotations::{POD_GROUP_NAME, SKIP_POD_GROUPER},
    json, object, object_names,
};

use crate::{
    Case, CaseKind, KINDS,
    pod_spec::{drop_default_tolerations, portable_pod},
};

/// Priority classes that each cluster of KAI has.
const BUILT_IN_CLASSES: [&str; 6] = [
    "train",
    "build",
    "build-preemptible",
    "inference",
    "system-cluster-critical",
    "system-node-critical",
];

/// Namespaces that each cluster has.
const OWN_NAMESPACES: [&str; 5] = ["", "default", "kube-system", "kube-public", "kube-node-lease"];

/// Sources of a persistent volume that are kept.
const PV_SOURCES: [&str; 5] = ["csi", "hostPath", "local", "nfs", "iscsi"];

impl Case {
    /// The objects of the case and their namespaces in the order of their creation, for a cluster in which `scheduler`
    /// schedules. Pods that have a node keep it; finished pods are left out.
    pub fn objects_to_create(&self, scheduler: &str) -> Vec<Value> {
        let mut objects: Vec<Value> =
            KINDS.iter().flat_map(|kind| self.plain_objects(kind)).collect();
        let named = objects.iter().map(object::namespace).filter(|it| !OWN_NAMESPACES.contains(it));
        let names: BTreeSet<&str> = named.collect();
        let namespaces = names.into_iter().map(
            |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        );
        let namespaces: Vec<Value> = namespaces.collect();
        let classes: Vec<String> = self
            .objects("priorityClasses")
            .map(|class| object::name(class).to_owned())
            .chain(BUILT_IN_CLASSES.map(str::to_owned))
            .collect();
        let mut overheads = Vec::new();
        for pod in objects.iter_mut().filter(|it| it["kind"] == "Pod") {
            prepare_pod(pod, scheduler, &classes);
            set_runtime_class(pod, &mut overheads);
        }
        let runtimes = overheads.iter().enumerate().map(|(at, overhead)| {
            json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                    "metadata": { "name": runtime_class_name(at) }, "handler": "runc",
                    "overhead": { "podFixed": overhead } })
        });
        let first = namespaces.into_iter().chain(runtimes).collect::<Vec<_>>();
        objects.splice(0..0, first);
        objects
    }

    /// The objects of a kind in the order of their creation.
    fn plain_objects(&self, kind: &CaseKind) -> Vec<Value> {
        // Bind requests are of the past: their pods wait again.
        if kind.array == "bindRequests" {
            return Vec::new();
        }
        let mut objects: Vec<&Value> = self.objects(kind.array).collect();
        objects.sort_by_key(|it| object::text(it, &["metadata", "creationTimestamp"]));
        let is_of_cluster = |object: &Value| {
            kind.array == "configMaps" && object::name(object) == object_names::ROOT_CA_CONFIG_MAP
        };
        let created = objects.into_iter().filter(|it| !is_finished(it) && !is_of_cluster(it));
        created.map(|object| plain_object(kind, object)).collect()
    }
}

fn is_finished(object: &Value) -> bool {
    matches!(object::text(object, &["status", "phase"]), "Succeeded" | "Failed")
}

fn plain_object(kind: &CaseKind, object: &Value) -> Value {
    let mut plain = if kind.array == "pods" { portable_pod(object) } else { object.clone() };
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
        "persistentVolumes" => {
            object::remove(&mut plain, &["status"]);
            // The API requires a source, which decisions do not depend on.
            if PV_SOURCES.iter().all(|source| object::at(&plain, &["spec", source]).is_none()) {
                plain["spec"]["hostPath"] = json!({ "path": "/volume" });
            }
        }
        _ => drop(object::remove(&mut plain, &["status"])),
    }
    plain
}

/// Gives a pod with an overhead a runtime class that defines it: the API server admits no other one.
fn set_runtime_class(pod: &mut Value, overheads: &mut Vec<Value>) {
    let Some(overhead) = object::at(pod, &["spec", "overhead"]).cloned() else { return };
    if overhead.as_object().is_none_or(Map::is_empty) {
        object::remove(pod, &["spec", "overhead"]);
        return;
    }
    let known = overheads.iter().position(|known| *known == overhead);
    let at = known.unwrap_or_else(|| {
        overheads.push(overhead);
        overheads.len() - 1
    });
    pod["spec"]["runtimeClassName"] = json!(runtime_class_name(at));
}

fn runtime_class_name(at: usize) -> String {
    format!("overhead-{}", at + 1)
}

fn prepare_pod(pod: &mut Value, scheduler: &str, classes: &[String]) {
    if object::annotation(pod, POD_GROUP_NAME).is_some() {
        pod["metadata"]["annotations"][SKIP_POD_GROUPER] = json!("true");
    }
    drop_default_tolerations(pod);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// What is created for a case with one object of each of these arrays.
    fn created(objects: &[(&str, Value)]) -> Vec<Value> {
        let mut case = Case::default();
        for (array, object) in objects {
            let all = case.cluster.objects.entry((*array).to_owned()).or_default();
            all.push(Arc::new(object.clone()));
        }
        case.objects_to_create("kai-scheduler")
    }

    #[test]
    fn what_each_cluster_has_is_not_created() {
        let root =
            json!({ "metadata": { "namespace": "kube-system", "name": "kube-root-ca.crt" } });
        let own = json!({ "metadata": { "namespace": "team", "name": "kube-root-ca.crt" } });
        assert_eq!(created(&[("configMaps", root), ("configMaps", own)]), Vec::<Value>::new());
    }

    #[test]
    fn an_overhead_comes_from_a_runtime_class() {
        let pod = |name: &str, cpu: &str| {
            json!({ "metadata": { "namespace": "default", "name": name },
                    "spec": { "runtimeClassName": "kata", "overhead": { "cpu": cpu }, "containers": [{}] } })
        };
        let all =
            created(&[("pods", pod("a", "1")), ("pods", pod("b", "2")), ("pods", pod("c", "1"))]);
        let classes: Vec<&str> =
            all.iter().map(|it| object::text(it, &["spec", "runtimeClassName"])).collect();
        assert_eq!(classes, ["", "", "overhead-1", "overhead-2", "overhead-1"]);
        assert_eq!(all[0]["overhead"]["podFixed"], json!({ "cpu": "1" }));
    }

    #[test]
    fn a_volume_without_its_source_gets_one() {
        let volume =
            json!({ "metadata": { "name": "v" }, "spec": { "capacity": { "storage": "1Gi" } } });
        let all = created(&[("persistentVolumes", volume)]);
        assert_eq!(all[0]["spec"]["hostPath"]["path"], "/volume");
    }
}
