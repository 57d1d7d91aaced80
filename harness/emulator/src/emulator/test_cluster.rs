//! A test cluster: objects as YAML in, their state as text out.

use std::time::Duration;

use super::{Emulator, Options};
use crate::api_types::error::ApiError;
use crate::clock::Clock;
use crate::reconcile::key_of;
use crate::store::{
    DeleteOptions, FieldValidation, Key, LogEntry, Object, Op, Propagation, Resource, Subresource,
    Write, WriteOutcome,
};
use schedlab_api::{
    Value, annotations,
    object::{annotation, condition, is_deleting, list, name, namespace, number, set, text},
    object_names,
};

/// A cluster that starts at the beginning of 2026 in the virtual time of the test's runtime.
pub(crate) struct TestCluster {
    pub(crate) emulator: Emulator,
}

impl TestCluster {
    pub(crate) fn new() -> Self {
        Self::with_options(|_| ())
    }

    pub(crate) fn with_options(change: impl FnOnce(&mut Options)) -> Self {
        let mut options =
            Options::with_clock(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        change(&mut options);
        Self { emulator: Emulator::start(options) }
    }

    /// Creates nodes with eight GPUs and plenty of cpu and memory.
    pub(crate) async fn create_gpu_nodes(&self, names: &[&str]) {
        for name in names {
            self.apply(&format!(
                "
                apiVersion: v1
                kind: Node
                metadata: {{name: {name}}}
                status: {{capacity: {{cpu: '64', memory: 512Gi, pods: '110', nvidia.com/gpu: '8'}}}}
                "
            ));
        }
        self.settle().await;
    }

    /// Creates the objects of a YAML text; the default namespace is `default`.
    pub(crate) fn apply(&self, yaml: &str) {
        for document in yaml.split("\n---\n") {
            self.try_apply(document).unwrap();
        }
    }

    pub(crate) fn try_apply(&self, document: &str) -> Result<WriteOutcome, ApiError> {
        let mut object: Value = serde_saphyr::from_str(document).unwrap();
        let (group, _) = text(&object, &["apiVersion"]).rsplit_once('/').unwrap_or_default();
        let kind = text(&object, &["kind"]).to_owned();
        let (resource, namespaced) = self.emulator.store().read(|store| {
            let found = store.kinds().by_kind(group, &kind).expect("a known kind");
            (found.resource.clone(), found.namespaced)
        });
        if namespaced && namespace(&object).is_empty() {
            set(&mut object, &["metadata", "namespace"], "default".into());
        }
        self.emulator.create(&resource, object)
    }

    pub(crate) fn resource(&self, plural: &str) -> Resource {
        self.emulator.store().read(|store| {
            let mut kinds = store.kinds().iter();
            let known = kinds.find(|kind| &*kind.resource.plural == plural);
            known.expect("a known plural").resource.clone()
        })
    }

    fn object_key(&self, plural: &str, path: &str) -> Key {
        let (ns, name) = path.split_once('/').unwrap_or((
            if plural == "nodes" || plural == "namespaces" { "" } else { "default" },
            path,
        ));
        Key { resource: self.resource(plural), namespace: ns.into(), name: name.into() }
    }

    pub(crate) fn get(&self, plural: &str, path: &str) -> Object {
        let key = self.object_key(plural, path);
        self.emulator.store().read(|store| store.get(&key)).unwrap()
    }

    pub(crate) fn objects_of(&self, plural: &str) -> Vec<Object> {
        let resource = self.resource(plural);
        self.emulator.store().read(|store| store.list(&resource, None).cloned().collect())
    }

    /// Updates an object as a user.
    pub(crate) fn edit(&self, plural: &str, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = Value::clone(&self.get(plural, path));
        change(&mut object);
        let key = key_of(&self.resource(plural), &object);
        self.write(key, Op::Update(Subresource::None, object)).unwrap();
    }

    pub(crate) fn set_annotation(&self, plural: &str, path: &str, key: &str, value: &str) {
        self.edit(plural, path, |object| {
            set(object, &["metadata", "annotations", key], value.into());
        });
    }

    pub(crate) fn delete(&self, plural: &str, path: &str) {
        self.delete_with(plural, path, Propagation::Background);
    }

    pub(crate) fn delete_with(&self, plural: &str, path: &str, propagation: Propagation) {
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        self.write(self.object_key(plural, path), Op::Delete(options)).unwrap();
    }

    /// Updates the status of an object as a controller.
    pub(crate) fn update_status(&self, plural: &str, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = Value::clone(&self.get(plural, path));
        change(&mut object);
        let key = key_of(&self.resource(plural), &object);
        self.write(key, Op::Update(Subresource::Status, object)).unwrap();
    }

    pub(crate) fn write(&self, key: Key, op: Op) -> Result<WriteOutcome, ApiError> {
        let write = Write::new(key, op, "test");
        self.emulator.store().write(Write { field_validation: FieldValidation::Strict, ..write })
    }

    /// Creates a running pod that requests `gpus` GPUs and is bound to `node`.
    pub(crate) fn create_pod_on_node(&self, name: &str, node: &str, gpus: u32, annotations: &str) {
        self.apply(&format!(
            "
            apiVersion: v1
            kind: Pod
            metadata: {{name: {name}, annotations: {{{annotations}}}}}
            spec:
              nodeName: {node}
              restartPolicy: Never
              containers: [{{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: '{gpus}'}}}}}}]
            "
        ));
    }

    /// Lets the controllers finish their current work.
    pub(crate) async fn settle(&self) {
        self.advance_time(Duration::from_millis(1)).await;
    }

    pub(crate) async fn advance_time(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) async fn advance_secs(&self, secs: u64) {
        self.advance_time(Duration::from_secs(secs)).await;
    }

    /// Binds every pod that has no node to `node`.
    pub(crate) fn bind_all(&self, node: &str) {
        for pod in self.objects_of("pods") {
            if text(&pod, &["spec", "nodeName"]).is_empty() && !is_deleting(&pod) {
                let key = key_of(&self.resource("pods"), &pod);
                let target = schedlab_api::json!({"kind": "Node", "name": node});
                let binding = schedlab_api::json!({
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name(&pod), "namespace": namespace(&pod)},
                    "target": target,
                });
                self.write(key, Op::Bind(binding)).unwrap();
            }
        }
    }

    /// All pods as lines: name, phase (or waiting reason, or `Terminating`), node, GPUs.
    pub(crate) fn pod_lines(&self) -> String {
        let line = |pod: &Object| {
            let status = |field| text(pod, &["status", field]).to_owned();
            let waiting = list(pod, &["status", "containerStatuses"])
                .first()
                .map_or("", |one| text(one, &["state", "waiting", "reason"]));
            let state = match (is_deleting(pod), status("reason"), waiting) {
                (true, _, _) => "Terminating".to_owned(),
                (false, reason, "") if reason.is_empty() => status("phase"),
                (false, reason, "") => format!("{} {reason}", status("phase")),
                (false, _, waiting) => waiting.to_owned(),
            };
            let node = text(pod, &["spec", "nodeName"]);
            let gpus = annotation(pod, annotations::GPU_DEVICES).unwrap_or_default();
            format!("{} {state} {node} {gpus}", name(pod)).trim_end().to_owned()
        };
        self.objects_of("pods").iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The names of the objects of a kind, except the root CA ConfigMap that every namespace has.
    pub(crate) fn object_names_of(&self, plural: &str) -> Vec<String> {
        let all = self.objects_of(plural);
        let names = all.iter().map(|object| name(object).to_owned());
        names.filter(|name| name != object_names::ROOT_CA_CONFIG_MAP).collect()
    }

    /// The reasons of the events about an object.
    pub(crate) fn event_reasons(&self, about: &str) -> Vec<String> {
        let events = self.objects_of("events");
        let about = events.iter().filter(|one| text(one, &["involvedObject", "name"]) == about);
        about.map(|one| text(one, &["reason"]).to_owned()).collect()
    }

    pub(crate) fn change_log(&self) -> Vec<std::sync::Arc<LogEntry>> {
        self.emulator.log_since(1).unwrap()
    }
}

impl TestCluster {
    /// Binds new pods to a node every second, for `secs` seconds.
    pub(crate) async fn bind_and_run(&self, secs: u64) {
        for _ in 0..secs {
            self.bind_all("n1");
            self.advance_secs(1).await;
        }
    }

    /// The number of pods in a phase that are not being deleted.
    pub(crate) fn count_pods_in_phase(&self, phase: &str) -> usize {
        let pods = self.objects_of("pods");
        let of = |pod: &&Object| text(pod, &["status", "phase"]) == phase && !is_deleting(pod);
        pods.iter().filter(of).count()
    }

    pub(crate) fn status_count(&self, plural: &str, name: &str, field: &str) -> i64 {
        number(&self.get(plural, name), &["status", field]).unwrap_or(0)
    }

    pub(crate) fn has_true_condition(&self, plural: &str, name: &str, kind: &str) -> bool {
        condition(&self.get(plural, name), kind) == Some("True")
    }
}

/// The YAML of a Job `train`. `lines` are lines of the spec, separated by semicolons; `annotations`
/// are those of the pods.
pub(crate) fn train_job(lines: &str, annotations: &str) -> String {
    format!(
        "
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: train}}
        spec:
          template:
            metadata: {{annotations: {{{annotations}}}}}
            spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}
          {}
        ",
        lines.replace("; ", "\n          ")
    )
}
