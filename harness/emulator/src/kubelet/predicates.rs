//! The predicates that a kubelet checks before it starts a pod: `spec.nodeName` may name a node
//! that must not run the pod.

use super::admission::PodRejection;
use crate::api_types::label_selector::LabelSelector;
use crate::reconcile::InformerCache;
use crate::reconcile::pod_status::no_execute_taints;
use crate::reconcile::pod_status::{is_finished, node_name};
use crate::store::Key;
use schedlab_api::{
    Value, json,
    object::{list, name, number, text},
    toleration::tolerates,
};

/// Checks the kubelet's admission predicates; returns the rejection by the first predicate that
/// fails.
pub(super) fn check_predicates(
    key: &Key,
    pod: &Value,
    node: &Value,
    cache: &InformerCache,
) -> Result<(), PodRejection> {
    if !matches_node_affinity(pod, node) {
        let why = "node(s) didn't match Pod's node affinity/selector";
        return Err(predicate_rejection("NodeAffinity", why));
    }
    if !has_free_ports(key, pod, cache) {
        let why = "node(s) didn't have free ports for the requested pod ports";
        return Err(predicate_rejection("NodePorts", why));
    }
    let tolerations = list(pod, &["spec", "tolerations"]);
    let tolerated = |taint| tolerations.iter().any(|toleration| tolerates(toleration, taint));
    if !no_execute_taints(node).all(tolerated) {
        return Err(predicate_rejection(
            "TaintToleration",
            "node(s) had taints that the pod didn't tolerate",
        ));
    }
    Ok(())
}

fn predicate_rejection(predicate: &str, why: &str) -> PodRejection {
    PodRejection {
        reason: predicate.to_owned(),
        message: format!("Pod was rejected: Predicate {predicate} failed: {why}"),
    }
}

/// Whether a node matches a pod's node selector and any term of the required node affinity.
fn matches_node_affinity(pod: &Value, node: &Value) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let required = &pod["spec"]["affinity"]["nodeAffinity"][REQUIRED];
    let terms = || list(required, &["nodeSelectorTerms"]).iter();
    LabelSelector::from_map(&pod["spec"]["nodeSelector"]).matches(node)
        && (required.is_null() || terms().any(|term| does_term_select(term, node)))
}

/// Whether a node selector term matches. An empty term matches no node.
fn does_term_select(term: &Value, node: &Value) -> bool {
    let [by_label, by_field] =
        ["matchExpressions", "matchFields"].map(|of| list(term, &[of]).to_vec());
    let is_empty = by_label.is_empty() && by_field.is_empty();
    // The only supported field is the name.
    let named = json!({ "metadata": { "labels": { "metadata.name": name(node) } } });
    let holds = |expressions: Vec<Value>, of: &Value| {
        let selector = LabelSelector::from_object(&json!({ "matchExpressions": expressions }));
        selector.is_ok_and(|selector| selector.matches(of))
    };
    !is_empty && holds(by_label, node) && holds(by_field, &named)
}

/// A host port: protocol, number and host address.
type HostPort<'v> = (&'v str, i64, &'v str);

fn has_free_ports(key: &Key, pod: &Value, cache: &InformerCache) -> bool {
    let others = cache.pods_on(node_name(pod)).filter(|(other, _)| *other != key);
    let running = others.filter(|(_, other)| {
        !is_finished(other) && !text(other, &["status", "startTime"]).is_empty()
    });
    let taken: Vec<HostPort<'_>> = running.flat_map(|(_, other)| host_ports(other)).collect();
    let clash = |(protocol, port, address): HostPort<'_>, other: &HostPort<'_>| {
        let meet = address == other.2 || [address, other.2].contains(&"0.0.0.0");
        (protocol, port) == (other.0, other.1) && meet
    };
    host_ports(pod).all(|port| !taken.iter().any(|other| clash(port, other)))
}

/// The host ports of the containers and sidecars.
fn host_ports(pod: &Value) -> impl Iterator<Item = HostPort<'_>> {
    let first = list(pod, &["spec", "initContainers"]).iter();
    let stay = first.filter(|container| text(container, &["restartPolicy"]) == "Always");
    let containers = list(pod, &["spec", "containers"]).iter().chain(stay);
    let ports = containers.flat_map(|container| list(container, &["ports"]));
    ports.filter_map(|port| {
        let number = number(port, &["hostPort"]).filter(|number| *number > 0)?;
        Some((
            text_or_default(text(port, &["protocol"]), "TCP"),
            number,
            text_or_default(text(port, &["hostIP"]), "0.0.0.0"),
        ))
    })
}

fn text_or_default<'v>(text: &'v str, default: &'v str) -> &'v str {
    if text.is_empty() { default } else { text }
}
