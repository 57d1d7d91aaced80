//! The API `metrics.k8s.io`, which `kubectl top` reads. It is served while its kinds are
//! registered. Use is simulated: a running container uses what it requests, or a little if it
//! requests nothing. Nothing is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::http::{Method, StatusCode};

use super::RequestContext;
use super::response::{self, ApiResponse};
use crate::api_types::error::ApiError;
use crate::api_types::label_selector::LabelSelector;
use crate::store::{Object, Resource};
use schedlab_api::{Value, json, object, pointer, quantity};

/// The API group.
pub(super) const GROUP: &str = "metrics.k8s.io";

/// Length of the time over which use is averaged.
const WINDOW: &str = "30s";

/// Use of a container that requests nothing: thousandths of a core, and bytes.
const LEAST: Use = Use { cpu_milli: 1, memory: 16 << 20 };

/// The definitions of the kinds of `metrics.k8s.io`. A cluster on which they are created serves the
/// API, as one with a metrics-server does.
pub fn resource_metrics_crds() -> Vec<Value> {
    let crd = |(plural, kind, scope): (&str, &str, &str)| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{GROUP}"),
                "annotations": {"api-approved.kubernetes.io": "unapproved, simulated by schedlab"},
            },
            "spec": {
                "group": GROUP,
                "scope": scope,
                "names": {
                    "plural": plural, "singular": "", "kind": kind,
                    "listKind": format!("{kind}List"),
                },
                "versions": [{
                    "name": "v1beta1",
                    "served": true,
                    "storage": true,
                    "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    }},
                }],
            },
        })
    };
    [("nodes", "NodeMetrics", "Cluster"), ("pods", "PodMetrics", "Namespaced")].map(crd).into()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    cpu_milli: i128,
    memory: i128,
}

impl Use {
    /// What a container uses: its request.
    fn of_container(container: &Value) -> Self {
        let amount = |resource: &str| {
            let requests = pointer::at(container, "/resources/requests")?;
            object::field(requests, resource).and_then(quantity::thousandths)
        };
        Self {
            cpu_milli: amount("cpu").unwrap_or(LEAST.cpu_milli),
            memory: amount("memory").map_or(LEAST.memory, |milli| milli / 1000),
        }
    }

    /// Adds what the containers of the pod use.
    fn add_containers(&mut self, pod: &Object) {
        for (_, amounts) in container_uses(pod) {
            self.cpu_milli += amounts.cpu_milli;
            self.memory += amounts.memory;
        }
    }

    fn to_json(self) -> Value {
        json!({
            "cpu": format!("{}m", self.cpu_milli),
            "memory": format!("{}Ki", self.memory / 1024),
        })
    }
}

impl RequestContext<'_> {
    /// The response to a request for metrics.
    pub(super) fn respond_with_metrics(&self, method: &Method) -> Result<ApiResponse, ApiError> {
        if method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let selector = self.query.get("labelSelector").map(LabelSelector::parse).transpose()?;
        let is_selected =
            |object: &Object| selector.as_ref().is_none_or(|selector| selector.matches(object));
        let target = self.target;
        let core = |plural: &str| Resource::new("", plural);
        let pods: Vec<Object> = self.store.read(|store| {
            store.list(&core("pods"), target.namespace.as_deref()).cloned().collect()
        });
        let items: Vec<Value> = if target.plural == "nodes" {
            let mut used: BTreeMap<&str, Use> = BTreeMap::new();
            for pod in pods.iter().filter(|pod| is_running(pod)) {
                let node = pointer::text(pod, "/spec/nodeName").unwrap_or_default();
                used.entry(node).or_default().add_containers(pod);
            }
            let nodes: Vec<Object> =
                self.store.read(|store| store.list(&core("nodes"), None).cloned().collect());
            let named = nodes.iter().filter(|node| is_selected(node));
            named
                .map(|node| {
                    let sum = used.get(object::name(node)).copied().unwrap_or_default();
                    self.metrics_of(node, "NodeMetrics", "usage", sum.to_json())
                })
                .collect()
        } else {
            let running = pods.iter().filter(|pod| is_running(pod) && is_selected(pod));
            running
                .map(|pod| {
                    let containers: Vec<Value> = container_uses(pod)
                        .map(|(name, amounts)| json!({"name": name, "usage": amounts.to_json()}))
                        .collect();
                    self.metrics_of(pod, "PodMetrics", "containers", json!(containers))
                })
                .collect()
        };
        self.metrics_response(items)
    }

    fn metrics_of(&self, of: &Value, kind: &str, field: &str, value: Value) -> Value {
        let mut metadata = json!({"name": object::name(of)});
        if !object::namespace(of).is_empty() {
            metadata["namespace"] = json!(object::namespace(of));
        }
        if let Some(labels) = pointer::at(of, "/metadata/labels") {
            metadata["labels"] = labels.clone();
        }
        let now = self.store.clock().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut metrics = json!({
            "kind": kind,
            "apiVersion": format!("{GROUP}/v1beta1"),
            "metadata": metadata,
            "timestamp": now,
            "window": WINDOW,
        });
        metrics[field] = value;
        metrics
    }

    fn metrics_response(&self, items: Vec<Value>) -> Result<ApiResponse, ApiError> {
        let (encoding, kind) = (self.accept.encoding, &*self.kind.list_kind);
        let Some(name) = &self.target.name else {
            let list = json!({
                "kind": kind,
                "apiVersion": format!("{GROUP}/v1beta1"),
                "metadata": {},
                "items": items,
            });
            return Ok(response::object_response(StatusCode::OK, encoding, &list));
        };
        let found = items.into_iter().find(|item| object::name(item) == name);
        let resource = Resource::new(GROUP, &self.target.plural);
        let found = found.ok_or_else(|| ApiError::not_found(&resource, name))?;
        Ok(response::object_response(StatusCode::OK, encoding, &found))
    }
}

fn is_running(pod: &Value) -> bool {
    pointer::text(pod, "/status/phase") == Some("Running")
}

/// The names of a pod's containers and what they use.
fn container_uses(pod: &Value) -> impl Iterator<Item = (Arc<str>, Use)> {
    let containers = pointer::list(pod, "/spec/containers").iter();
    containers.map(|container| {
        let name = pointer::text(container, "/name").unwrap_or_default();
        (Arc::from(name), Use::of_container(container))
    })
}
