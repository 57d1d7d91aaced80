//! Rewrites requests of a scenario for the cluster: adds its prefix to names.

use http::{Method, Uri};
use schedlab_api::{Map, Value, annotations, json, labels};

use super::names::{
    DEFAULT_NAMESPACE, KWOK_NODE_ANNOTATION, SIMULATED_TAINT, TenantNames, is_node_lease,
};
use super::rewrite_selectors::query_to_cluster;
use super::{Subscription, node_pool};
use crate::cluster_scoped::{POLICY_BINDINGS, is_tenant_collection, is_tenant_kind};

/// Labels and annotations whose values are queue names.
const QUEUE_NAME_KEYS: [&str; 3] =
    [labels::QUEUE, "runai/queue", "scheduling.volcano.sh/queue-name"];

/// The queue above all queues of Volcano, which all scenarios share.
const VOLCANO_ROOT_QUEUE: &str = "root";

/// What a request addresses: a collection, an object or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTarget {
    /// The namespace, without the scenario's prefix.
    pub namespace: Option<String>,
    /// The plural name of the collection.
    pub plural: String,
    /// The name of the object, without the scenario's prefix.
    pub name: Option<String>,
    /// The subresource, for example `status` or `binding`.
    pub subresource: Option<String>,
    /// Whether the response is a watch stream.
    pub(crate) is_watch: bool,
}

/// The URI of the request in the cluster, and the request's target with names as the scenario knows
/// them.
pub(super) fn rewrite_uri(names: &TenantNames, uri: &Uri) -> (Uri, RequestTarget) {
    let mut parts: Vec<String> = uri.path().split('/').map(str::to_owned).collect();
    let mut target = parse_target(&parts);
    let root = if parts.get(1).is_some_and(|root| root == "api") { 3 } else { 4 };
    if !target.plural.is_empty() {
        if let Some(namespace) = &target.namespace {
            parts[root + 1] = names.namespace_in_cluster(&target.plural, namespace);
            if is_node_lease(&target.plural, namespace)
                && let Some(name) = parts.get_mut(root + 3)
            {
                *name = names.with_prefix(name);
            }
        } else if is_tenant_collection(&target.plural)
            && let Some(name) = parts.get_mut(root + 1)
        {
            *name = names.object_in_cluster(&target.plural, name);
        }
    }
    let query = uri.query().map(|query| query_to_cluster(names, &target, query));
    let watches = |pair: &str| matches!(pair, "watch=1" | "watch=true");
    target.is_watch = query.as_ref().is_some_and(|query| query.split('&').any(watches));
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    let text = format!("{}{query}", parts.join("/"));
    (text.parse().unwrap_or_else(|_| uri.clone()), target)
}

/// Parses the parts of a path `/api/v1/…` or `/apis/group/version/…`. The target of any other path
/// is empty.
fn parse_target(parts: &[String]) -> RequestTarget {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (["", "api", _, rest @ ..] | ["", "apis", _, _, rest @ ..]) = parts.as_slice() else {
        return RequestTarget::default();
    };
    let text = |text: &&str| (*text).to_owned();
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] => (Some(namespace), rest),
        rest => (None, rest),
    };
    RequestTarget {
        namespace: namespace.map(text),
        plural: rest.first().map(text).unwrap_or_default(),
        name: rest.get(1).map(text),
        subresource: rest.get(2).map(text),
        is_watch: false,
    }
}

/// The subscription to a shared watch for a watch request; `None` unless the request is for a whole
/// collection, from a `resourceVersion` on and without selectors.
pub(super) fn subscription_for(
    names: &TenantNames,
    target: &RequestTarget,
    uri: &Uri,
) -> Option<Subscription> {
    if !target.is_watch || target.namespace.is_some() || target.name.is_some() {
        return None;
    }
    let (mut from, mut bookmarks) = (None, false);
    for pair in uri.query()?.split('&') {
        match pair.split_once('=')? {
            ("watch" | "timeout" | "timeoutSeconds", _) => {}
            ("resourceVersion", revision) => from = revision.parse().ok().filter(|from| *from > 0),
            ("allowWatchBookmarks", value) => bookmarks = matches!(value, "1" | "true"),
            _ => return None,
        }
    }
    let (path, prefix) = (uri.path().to_owned(), names.prefix.clone());
    Some(Subscription { path, from_revision: from?, prefix, wants_bookmarks: bookmarks })
}

/// Adds the scenario's prefix to names in an object that is sent to the cluster, and the labels of
/// the run to the object.
pub(super) fn object_to_cluster(
    names: &TenantNames,
    target: &RequestTarget,
    method: &Method,
    object: &mut Value,
) {
    let is_whole = matches!(*method, Method::POST | Method::PUT);
    let is_cluster_scoped = is_tenant_collection(&target.plural) && target.namespace.is_none();
    let is_lease = target.namespace.as_ref().is_some_and(|ns| is_node_lease(&target.plural, ns));
    if is_cluster_scoped || is_lease {
        if let Some(Value::String(name)) = object.pointer_mut("/metadata/name") {
            *name = names.object_in_cluster(&target.plural, name).into();
        }
        // Also on `status`: a PUT of a node's status replaces its labels.
        if is_whole && object["metadata"].is_object() {
            object["metadata"]["labels"][labels::RUN] = json!(names.run);
        }
        if is_whole && target.plural == "nodes" {
            isolate_node(names, object);
        }
    }
    if is_whole
        && matches!(&*target.plural, "nodes" | "queues" | "podgroups")
        && object["metadata"].is_object()
    {
        node_pool::add_pool_label(names, &mut object["metadata"]);
    }
    RequestRewriter { names, target, is_whole }.rewrite_value(object);
}

/// Prepares a node for the taint that isolates it, and for kwok.
fn isolate_node(names: &TenantNames, node: &mut Value) {
    if node["spec"]["taints"].is_null() {
        node["spec"]["taints"] = json!([]);
    }
    if names.uses_kwok && node["metadata"].is_object() {
        node["metadata"]["annotations"][KWOK_NODE_ANNOTATION] = json!("fake");
    }
}

/// The URI for an event about a cluster-scoped object. Kubernetes accepts such events only in the
/// namespace `default`, which all scenarios share; the prefix of the event's name tells the
/// scenario.
pub(super) fn redirect_event(
    names: &TenantNames,
    target: &RequestTarget,
    method: &Method,
    event: &mut Value,
) -> Option<Uri> {
    if target.plural != "events" || *method != Method::POST {
        return None;
    }
    let reference =
        ["involvedObject", "regarding"].into_iter().find(|key| event[key].is_object())?;
    if event[reference]["namespace"].as_str().is_some_and(|namespace| !namespace.is_empty()) {
        return None;
    }
    event["metadata"]["namespace"] = json!(DEFAULT_NAMESPACE);
    event["metadata"]["labels"][labels::RUN] = json!(names.run);
    if let Some(Value::String(name)) = event.pointer_mut("/metadata/name") {
        *name = names.with_prefix(name).into();
    }
    let root = if reference == "regarding" { "/apis/events.k8s.io/v1" } else { "/api/v1" };
    format!("{root}/namespaces/{DEFAULT_NAMESPACE}/events").parse().ok()
}

struct RequestRewriter<'a> {
    names: &'a TenantNames,
    target: &'a RequestTarget,
    /// Whether the object is complete; otherwise it is a patch.
    is_whole: bool,
}

impl RequestRewriter<'_> {
    fn rewrite_value(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.rewrite_value(item)),
            Value::Object(fields) => {
                self.rewrite_reference(fields);
                self.rewrite_match_expression(fields);
                self.rewrite_patch_operation(fields);
                self.add_node_pool_label(fields);
                self.rewrite_pod_spec(fields);
                for (key, value) in fields {
                    self.rewrite_field(key, value);
                    self.rewrite_value(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rewrite_field(&self, key: &str, value: &mut Value) {
        let names = self.names;
        match value {
            Value::String(text) => {
                if let Some(name) = name_in_cluster(names, self.target, key, text) {
                    *text = name.into();
                }
            }
            Value::Array(items) => match key {
                "namespaces" => items.iter_mut().for_each(|item| self.prefix_name_in(item)),
                "flavors" if matches!(&*self.target.plural, "cohorts" | "clusterqueues") => {
                    let names = items.iter_mut().map(|item| &mut item["name"]);
                    names.for_each(|name| self.prefix_name_in(name));
                }
                "taints" => add_isolation(items, names.simulated_taint()),
                "tolerations" => add_isolation(items, names.simulated_toleration()),
                "matchFields" => {
                    let values = items.iter_mut().filter_map(|item| item["values"].as_array_mut());
                    values.flatten().for_each(|value| self.prefix_name_in(value));
                }
                _ => {}
            },
            Value::Object(fields) if key == "runtimeRef" => {
                if let Some(name) = fields.get_mut("name") {
                    self.prefix_name_in(name);
                }
            }
            Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn prefix_name_in(&self, value: &mut Value) {
        if let Value::String(text) = value {
            *text = self.names.with_prefix(text).into();
        }
    }

    /// Rewrites a reference to a cluster-scoped object: an owner, the target of a binding, the
    /// subject of an event.
    fn rewrite_reference(&self, fields: &mut Map) {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        // An object itself has its name in `metadata`.
        if !is_tenant_kind(kind) || fields.contains_key("metadata") {
            return;
        }
        let class = kind == "PriorityClass";
        if let Some(Value::String(name)) = fields.get_mut("name") {
            let plural = if class { "priorityclasses" } else { "" };
            *name = self.names.object_in_cluster(plural, name).into();
        }
    }

    /// Rewrites the values of a label selector's requirement: `{key, operator, values}`.
    fn rewrite_match_expression(&self, fields: &mut Map) {
        let Some(Value::String(key)) = fields.get("key") else { return };
        let key = key.to_string();
        let values = fields.get_mut("values").and_then(Value::as_array_mut);
        values.into_iter().flatten().for_each(|value| self.rewrite_field(&key, value));
    }

    /// Rewrites the value of a JSON Patch operation: `{op, path, value}`.
    fn rewrite_patch_operation(&self, fields: &mut Map) {
        let Some(Value::String(path)) = fields.get("path") else { return };
        let key = path.rsplit('/').next().unwrap_or_default();
        let key = key.replace("~1", "/").replace("~0", "~");
        if fields.contains_key("op")
            && let Some(value) = fields.get_mut("value")
        {
            self.rewrite_field(&key, value);
        }
    }

    /// Adds the scenario's node pool to a pod or a pod template.
    fn add_node_pool_label(&self, fields: &mut Map) {
        let has_containers = fields.get("spec").is_some_and(|spec| spec["containers"].is_array());
        if self.is_whole && has_containers && self.names.node_pool.is_some() {
            node_pool::add_pool_label(
                self.names,
                fields.entry("metadata").or_insert_with(|| json!({})),
            );
        }
    }

    /// Sets the scheduler name of a pod that has none, and isolates the pod from foreign nodes.
    fn rewrite_pod_spec(&self, fields: &mut Map) {
        if !self.is_whole || !fields.get("containers").is_some_and(Value::is_array) {
            return;
        }
        if self.target.plural != "pods" || self.target.subresource.is_none() {
            fields.entry("schedulerName").or_insert_with(|| json!("default-scheduler"));
        }
        if self.names.simulated_toleration().is_some() {
            fields.entry("tolerations").or_insert_with(|| json!([]));
        }
        if self.names.needs_node_selector() {
            let selector = fields.entry("nodeSelector").or_insert_with(|| json!({}));
            selector[labels::RUN] = json!(self.names.run);
        }
    }
}

/// The value in the cluster of a field that contains a name; `None` for other fields. `key` is the
/// name of the field, or of a label or annotation.
pub(super) fn name_in_cluster(
    names: &TenantNames,
    target: &RequestTarget,
    key: &str,
    text: &str,
) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let plural = target.plural.as_str();
    Some(match key {
        "nodeName"
        | "nominatedNodeName"
        | "selectedNode"
        | annotations::SELECTED_NODE
        | "parentQueue"
        | "cohortName"
        | "clusterQueue"
        | "storageClassName"
        | "volumeName"
        | "deviceClassName"
        // Selects a namespace by its name.
        | "kubernetes.io/metadata.name" => names.with_prefix(text),
        "queue" if plural == "podgroups" => names.with_prefix(text),
        "parent" if plural == "queues" && text != VOLCANO_ROOT_QUEUE => names.with_prefix(text),
        "policyName" if plural == POLICY_BINDINGS => names.with_prefix(text),
        "parentName" if plural == "cohorts" => names.with_prefix(text),
        "namespace" => names.namespace_in_cluster(plural, text),
        "priorityClassName" => names.object_in_cluster("priorityclasses", text),
        "schedulerName" => names.scheduler_in_cluster(text),
        key if QUEUE_NAME_KEYS.contains(&key) => names.with_prefix(text),
        _ => return None,
    })
}

fn add_isolation(items: &mut Vec<Value>, isolation: Option<Value>) {
    if let Some(fence) = isolation
        && !items.iter().any(|item| item["key"] == SIMULATED_TAINT)
    {
        items.push(fence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeIsolation;

    fn names() -> TenantNames {
        TenantNames {
            shared_priority_classes: ["train".to_owned()].into(),
            ..TenantNames::for_test()
        }
    }

    #[test]
    fn events_about_cluster_scoped_objects_go_to_the_default_namespace() {
        let names = names();
        let (_, target) =
            rewrite_uri(&names, &"/api/v1/namespaces/default/events".parse().unwrap());
        let mut event = json!({
            "metadata": {"name": "team.1", "namespace": "default"},
            "involvedObject": {"kind": "Queue", "name": "team"},
        });
        object_to_cluster(&names, &target, &Method::POST, &mut event);
        let uri = redirect_event(&names, &target, &Method::POST, &mut event).unwrap();
        assert_eq!(uri.path(), "/api/v1/namespaces/default/events");
        assert_eq!(event["metadata"]["name"], "qx1-team.1");
        assert_eq!(event["metadata"]["namespace"], "default");
        assert_eq!(event["involvedObject"]["name"], "qx1-team");
        assert!(super::super::belongs_to_tenant(
            &names,
            &parse_target(&["", "api", "v1", "events"].map(str::to_owned)),
            &event
        ));
        event["metadata"]["name"] = json!("other.1");
        assert!(!super::super::belongs_to_tenant(
            &names,
            &parse_target(&["", "api", "v1", "events"].map(str::to_owned)),
            &event
        ));
    }

    #[test]
    fn only_watches_of_whole_collections_are_shared() {
        let names = names();
        let shared = |text: &str| {
            let (uri, target) = rewrite_uri(&names, &text.parse().unwrap());
            subscription_for(&names, &target, &uri).map(|subscription| {
                (
                    subscription.path,
                    subscription.from_revision,
                    subscription.prefix,
                    subscription.wants_bookmarks,
                )
            })
        };
        let (path, prefix) = ("/api/v1/pods".to_owned(), "qx1-".to_owned());
        let pods = "/api/v1/pods?watch=1&resourceVersion=7";
        assert_eq!(shared(pods), Some((path.clone(), 7, prefix.clone(), false)));
        let marked = format!("{pods}&allowWatchBookmarks=true&timeoutSeconds=300");
        assert_eq!(shared(&marked), Some((path, 7, prefix, true)));
        for other in [
            "/api/v1/pods?resourceVersion=7",
            "/api/v1/pods?watch=1",
            "/api/v1/pods?watch=1&resourceVersion=0",
            "/api/v1/pods?watch=1&resourceVersion=7&labelSelector=a%3Db",
            "/api/v1/pods?watch=1&resourceVersion=7&sendInitialEvents=true",
            "/api/v1/namespaces/a/pods?watch=1&resourceVersion=7",
            "/api/v1/nodes/n?watch=1&resourceVersion=7",
        ] {
            assert_eq!(shared(other), None, "{other}");
        }
    }

    #[test]
    fn names_get_the_prefix_except_shared_priority_classes() {
        let names = names();
        let real = |path: &str| rewrite_uri(&names, &path.parse().unwrap()).0.to_string();
        assert_eq!(real("/api/v1/nodes/n"), "/api/v1/nodes/qx1-n");
        assert_eq!(real("/api/v1/namespaces/a/pods/p"), "/api/v1/namespaces/qx1-a/pods/p");
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
        assert_eq!(real(&format!("{classes}/train")), format!("{classes}/train"));
        assert_eq!(real(&format!("{classes}/own")), format!("{classes}/qx1-own"));
        let mut pod = json!({
            "metadata": {"name": "p", "labels": {"kai.scheduler/queue": "team"}},
            "spec": {"priorityClassName": "train", "nodeName": "n", "containers": []},
        });
        let (_, target) = rewrite_uri(&names, &"/api/v1/namespaces/a/pods".parse().unwrap());
        object_to_cluster(&names, &target, &Method::POST, &mut pod);
        assert_eq!(pod["metadata"]["name"], "p");
        assert_eq!(pod["metadata"]["labels"]["kai.scheduler/queue"], "qx1-team");
        assert_eq!(pod["spec"]["priorityClassName"], "train");
        assert_eq!(pod["spec"]["nodeName"], "qx1-n");
        assert_eq!(pod["spec"]["schedulerName"], "qx1-default-scheduler");
    }

    #[test]
    fn names_in_json_patches_and_match_expressions_get_the_prefix() {
        let names = names();
        let (_, target) = rewrite_uri(&names, &"/api/v1/namespaces/a/pods/p".parse().unwrap());
        let queue = "/metadata/labels/kai.scheduler~1queue";
        let mut patch = json!([
            {"op": "add", "path": queue, "value": "team"},
            {"op": "replace", "path": "/spec/schedulerName", "value": "other"},
            {"op": "add", "path": "/metadata/labels", "value": {"kai.scheduler/queue": "team"}},
        ]);
        object_to_cluster(&names, &target, &Method::PATCH, &mut patch);
        assert_eq!(patch[0]["value"], "qx1-team");
        assert_eq!(patch[1]["value"], "qx1-other");
        assert_eq!(patch[2]["value"]["kai.scheduler/queue"], "qx1-team");
        let name = "kubernetes.io/metadata.name";
        let mut selector = json!({"namespaceSelector": {"matchExpressions": [
            {"key": name, "operator": "In", "values": ["a", "b"]},
            {"key": "tier", "operator": "In", "values": ["a"]},
        ]}});
        object_to_cluster(&names, &target, &Method::POST, &mut selector);
        let expressions = &selector["namespaceSelector"]["matchExpressions"];
        assert_eq!(expressions[0]["values"], json!(["qx1-a", "qx1-b"]));
        assert_eq!(expressions[1]["values"], json!(["a"]));
    }

    #[test]
    fn queues_of_volcano_get_the_prefix_below_the_shared_root() {
        let names = names();
        let sent = |path: &str, mut object: Value| {
            let path = format!("/apis/scheduling.volcano.sh/v1beta1/{path}");
            let (_, target) = rewrite_uri(&names, &path.parse().unwrap());
            object_to_cluster(&names, &target, &Method::POST, &mut object);
            object
        };
        let queue = |parent: &str| {
            let object =
                json!({"kind": "Queue", "metadata": {"name": "team"}, "spec": {"parent": parent}});
            sent("queues", object)
        };
        assert_eq!(queue("root")["spec"]["parent"], "root");
        assert_eq!(queue("top")["spec"]["parent"], "qx1-top");
        assert_eq!(queue("top")["metadata"]["name"], "qx1-team");
        let group =
            json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"queue": "team"}});
        let group = sent("namespaces/a/podgroups", group);
        assert_eq!(group["spec"]["queue"], "qx1-team");
    }

    #[test]
    fn kueue_objects_get_the_prefix() {
        let names = names();
        let hidden = |path: &str, mut object: Value| {
            let path = format!("/apis/kueue.x-k8s.io/v1beta2/{path}");
            let (uri, target) = rewrite_uri(&names, &path.parse().unwrap());
            object_to_cluster(&names, &target, &Method::POST, &mut object);
            (uri.path().to_owned(), object)
        };
        let groups = json!([{"flavors": [{"name": "nodes"}]}]);
        let (_, cohort) = hidden(
            "cohorts",
            json!({"metadata": {"name": "all"},
                   "spec": {"parentName": "top", "resourceGroups": groups}}),
        );
        assert_eq!(cohort["metadata"]["name"], "qx1-all");
        assert_eq!(cohort["metadata"]["labels"][labels::RUN], "r");
        assert_eq!(cohort["spec"]["parentName"], "qx1-top");
        let flavor = cohort.pointer("/spec/resourceGroups/0/flavors/0/name");
        assert_eq!(flavor, Some(&json!("qx1-nodes")));
        let (path, queue) = hidden("clusterqueues/team", json!({"spec": {"cohortName": "all"}}));
        assert!(path.ends_with("/clusterqueues/qx1-team"), "{path}");
        assert_eq!(queue["spec"]["cohortName"], "qx1-all");
        let (path, local) = hidden(
            "namespaces/a/localqueues",
            json!({"metadata": {"name": "team"}, "spec": {"clusterQueue": "team"}}),
        );
        assert!(path.ends_with("/namespaces/qx1-a/localqueues"), "{path}");
        assert_eq!(local["metadata"]["name"], "team");
        assert_eq!(local["spec"]["clusterQueue"], "qx1-team");
    }

    #[test]
    fn a_policy_binding_refers_to_the_policy_and_the_namespace_of_its_scenario() {
        let names = TenantNames::for_test();
        let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
        let (_, target) = rewrite_uri(&names, &path.parse().unwrap());
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
        let mut binding = json!({
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "guard"},
            "spec": {"policyName": "guard", "matchResources": {"namespaceSelector": selector}},
        });
        object_to_cluster(&names, &target, &Method::POST, &mut binding);
        assert_eq!(binding["metadata"]["name"], "qx1-guard");
        assert_eq!(binding["spec"]["policyName"], "qx1-guard");
        let labels = &binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"];
        assert_eq!(labels["kubernetes.io/metadata.name"], "qx1-default");
    }

    #[test]
    fn an_installed_scheduler_gets_only_the_pods_that_name_it() {
        let names = TenantNames { installed_scheduler: Some("mine".to_owned()), ..names() };
        let real = |name| names.scheduler_in_cluster(name);
        assert_eq!([real("kai-scheduler"), real("mine")], ["mine", "mine"]);
        assert_eq!(real("another"), "qx1-another");
    }

    /// An installed scheduler that sees the whole cluster must not use nodes of others: neither the
    /// cluster's own nor those of another run.
    #[test]
    fn pods_for_an_installed_scheduler_are_kept_on_the_nodes_of_their_run() {
        let names = TenantNames {
            installed_scheduler: Some("mine".to_owned()),
            node_isolation: NodeIsolation::Taint,
            ..names()
        };
        let (_, target) = rewrite_uri(&names, &"/api/v1/namespaces/a/pods".parse().unwrap());
        let original = json!({
            "metadata": {"name": "p"},
            "spec": {"schedulerName": "mine", "containers": [], "nodeSelector": {"zone": "z"}},
        });
        let mut pod = original.clone();
        object_to_cluster(&names, &target, &Method::POST, &mut pod);
        assert_eq!(pod["spec"]["nodeSelector"], json!({"zone": "z", (labels::RUN): "r"}));
        assert_eq!(
            pod["spec"]["tolerations"],
            json!([{"key": SIMULATED_TAINT, "operator": "Equal", "value": "r"}])
        );
        super::super::rewrite_response::object_to_tenant(&names, &target, &mut pod);
        assert_eq!(pod, original);
        let (_, target) = rewrite_uri(&names, &"/api/v1/nodes".parse().unwrap());
        let mut node = json!({"metadata": {"name": "n"}, "spec": {}});
        object_to_cluster(&names, &target, &Method::POST, &mut node);
        assert_eq!(node["metadata"]["labels"], json!({(labels::RUN): "r"}));
        assert_eq!(node["spec"]["taints"][0]["value"], json!("r"));
    }

    /// The API server takes a node's labels also from a PUT of its status. Without the label,
    /// `schedlab clean` would not find the node after a crash.
    #[test]
    fn a_put_keeps_the_run_label() {
        let names = names();
        for part in ["", "/status"] {
            let path = format!("/api/v1/nodes/n{part}");
            let (_, target) = rewrite_uri(&names, &path.parse().unwrap());
            let mut node = json!({"metadata": {"name": "n", "labels": {}}, "spec": {}});
            object_to_cluster(&names, &target, &Method::PUT, &mut node);
            assert_eq!(node["metadata"]["labels"][labels::RUN], json!(names.run), "{path}");
        }
    }
}
