//! A store with a namespace, and helpers for tests.

use jiff::Timestamp;
use schedlab_api::{Value, json, object};
use schedlab_emulator::KubernetesVersion;
use schedlab_emulator::error::ApiError;
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::store::{
    DeleteOptions, Key, Object, Op, PatchBody, Store, Subresource, Write, WriteOutcome,
};

/// Code, reason and message of an error, or `accepted`.
pub(crate) fn outcome<T>(result: Result<T, ApiError>) -> String {
    match result {
        Ok(_) => "accepted".to_owned(),
        Err(error) => format!("{} {}: {}", error.code, error.reason, error.message),
    }
}

/// A store and its time.
pub(crate) struct TestStore {
    pub(crate) store: Store,
    pub(crate) now: Timestamp,
}

impl TestStore {
    /// A store with the namespace `default`.
    pub(crate) fn new() -> Self {
        Self::with_store(Store::new(1))
    }

    /// A store with feature gates that are off by default.
    pub(crate) fn with_gates(gates: &[&str]) -> Self {
        let changes: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
        let gates = FeatureGates::parse(KubernetesVersion::V1_37, &changes.join(","));
        Self::with_store(Store::with_feature_gates(1, gates.expect("gates of 1.37")))
    }

    fn with_store(store: Store) -> Self {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let mut fixture = Self { store, now };
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "default"}});
        fixture.create(namespace).expect("a first namespace");
        fixture
    }

    /// The key of an object, in `default` if its kind is namespaced.
    pub(crate) fn key(&self, group: &str, kind: &str, name: &str) -> Key {
        let kind = self.store.kinds().by_kind(group, kind).expect("a known kind");
        Key::new(kind.resource.clone(), if kind.namespaced { "default" } else { "" }, name)
    }

    pub(crate) fn write(&mut self, key: Key, op: Op) -> Result<WriteOutcome, ApiError> {
        self.store.write(Write::new(key, op, "test"), self.now)
    }

    /// Creates an object; `apiVersion` names its group.
    pub(crate) fn create(&mut self, body: Value) -> Result<Object, ApiError> {
        let version = object::text(&body, &["apiVersion"]);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let mut key = self.key(group, object::text(&body, &["kind"]), "");
        if !object::namespace(&body).is_empty() {
            key.namespace = object::namespace(&body).into();
        }
        self.write(key, Op::Create(body)).map(|written| written.object)
    }

    pub(crate) fn update(&mut self, key: Key, body: Value) -> Result<Object, ApiError> {
        self.write(key, Op::Update(Subresource::None, body)).map(|written| written.object)
    }

    /// Reads an object, sets a field and writes it back.
    pub(crate) fn edit(
        &mut self,
        key: Key,
        path: &[&str],
        value: Value,
    ) -> Result<Object, ApiError> {
        let current = self.store.get(&key)?;
        let mut body = Value::clone(&current);
        object::set(&mut body, path, value);
        self.update(key, body)
    }

    pub(crate) fn set_status(&mut self, key: Key, status: Value) -> Result<Object, ApiError> {
        let current = self.store.get(&key)?;
        let mut body = Value::clone(&current);
        object::set(&mut body, &["status"], status);
        self.write(key, Op::Update(Subresource::Status, body)).map(|written| written.object)
    }

    pub(crate) fn merge(&mut self, key: Key, patch: Value) -> Result<Object, ApiError> {
        let op = Op::Patch(Subresource::None, PatchBody::Merge(patch));
        self.write(key, op).map(|written| written.object)
    }

    pub(crate) fn delete(&mut self, key: Key) -> Result<WriteOutcome, ApiError> {
        self.write(key, Op::Delete(DeleteOptions::default()))
    }

    pub(crate) fn bind(&mut self, name: &str, node: &str) -> Result<Object, ApiError> {
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
        self.write(self.key("", "Pod", name), Op::Bind(binding)).map(|written| written.object)
    }
}

/// A pod with one container.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    })
}

/// A pod whose container has these resources.
pub(crate) fn pod_with(name: &str, resources: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = resources;
    pod
}

/// A pod with another field in its spec.
pub(crate) fn pod_spec(name: &str, field: &str, value: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"][field] = value;
    pod
}
