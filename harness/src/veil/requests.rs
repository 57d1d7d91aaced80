//! What a scenario asks, with the names that the cluster knows.

use http::{Method, Uri};
use schedlab_json::{Map, Value, json};

use super::names::{KWOK_NODE, Names, RUN, SHARED, SIMULATED, is_lease};
use super::{Wanted, pool};
use crate::fenced::{is_fenced, is_fenced_kind};

/// Labels and annotations whose values are queues.
const QUEUE_KEYS: [&str; 2] = ["kai.scheduler/queue", "runai/queue"];

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The namespace, as the scenario has it.
    pub(crate) namespace: Option<String>,
    /// The collection.
    pub(crate) plural: String,
    /// The object, as the scenario has it.
    pub(crate) name: Option<String>,
    /// `status`, `binding` …
    pub(crate) part: Option<String>,
    /// Whether the answer is a stream of changes.
    pub(crate) is_watch: bool,
}

/// The cluster's address of what a scenario asks for.
pub(super) fn uri(names: &Names, uri: &Uri) -> (Uri, Place) {
    let mut parts: Vec<String> = uri.path().split('/').map(str::to_owned).collect();
    let mut place = place(&parts);
    let root = if parts.get(1).is_some_and(|root| root == "api") { 3 } else { 4 };
    if !place.plural.is_empty() {
        if let Some(namespace) = &place.namespace {
            parts[root + 1] = names.real_namespace(&place.plural, namespace);
            if is_lease(&place.plural, namespace)
                && let Some(name) = parts.get_mut(root + 3)
            {
                *name = names.real(name);
            }
        } else if is_fenced(&place.plural)
            && let Some(name) = parts.get_mut(root + 1)
        {
            *name = names.real_object(&place.plural, name);
        }
    }
    let query = uri.query().map(|query| selected(names, &place, query));
    let watches = |pair: &str| matches!(pair, "watch=1" | "watch=true");
    place.is_watch = query.as_ref().is_some_and(|query| query.split('&').any(watches));
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    let text = format!("{}{query}", parts.join("/"));
    (text.parse().unwrap_or_else(|_| uri.clone()), place)
}

/// Reads `/api/v1/…` and `/apis/group/version/…`; anything else is about no object.
fn place(parts: &[String]) -> Place {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (["", "api", _, rest @ ..] | ["", "apis", _, _, rest @ ..]) = parts.as_slice() else {
        return Place::default();
    };
    let text = |text: &&str| (*text).to_owned();
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] => (Some(namespace), rest),
        rest => (None, rest),
    };
    Place {
        namespace: namespace.map(text),
        plural: rest.first().map(text).unwrap_or_default(),
        name: rest.get(1).map(text),
        part: rest.get(2).map(text),
        is_watch: false,
    }
}

/// Field selectors that name objects of the scenario.
fn selected(names: &Names, place: &Place, query: &str) -> String {
    let pairs = query.split('&').map(|pair| {
        let Some(selector) = pair.strip_prefix("fieldSelector=") else { return pair.to_owned() };
        let mut selector = selector.replace("%3D", "=").replace("%3d", "=");
        let fenced = is_fenced(&place.plural) && place.namespace.is_none();
        let own = if fenced { "metadata.name=" } else { "metadata.namespace=" };
        for key in ["spec.nodeName=", "metadata.namespace=", own] {
            if let Some(at) = selector.find(key).map(|at| at + key.len())
                && selector.get(at..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
                && !selector.get(at..).is_some_and(|rest| names.is_ours(rest))
            {
                selector.insert_str(at, &names.prefix);
            }
        }
        format!("fieldSelector={selector}")
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// A watch that can be one for all: of a whole collection, from a revision on.
pub(super) fn shared_watch(names: &Names, place: &Place, uri: &Uri) -> Option<Wanted> {
    if !place.is_watch || place.namespace.is_some() || place.name.is_some() {
        return None;
    }
    let (mut from, mut bookmarks) = (None, false);
    for pair in uri.query()?.split('&') {
        match pair.split_once('=')? {
            ("watch" | "timeout" | "timeoutSeconds", _) => {}
            ("resourceVersion", revision) => from = revision.parse().ok().filter(|from| *from > 0),
            ("allowWatchBookmarks", asked) => bookmarks = matches!(asked, "1" | "true"),
            _ => return None,
        }
    }
    let (path, prefix) = (uri.path().to_owned(), names.prefix.clone());
    Some(Wanted { path, from: from?, prefix, bookmarks })
}

/// Gives an object that is on its way to the cluster the cluster's names.
pub(super) fn hide(names: &Names, place: &Place, method: &Method, object: &mut Value) {
    let whole = matches!(*method, Method::POST | Method::PUT);
    let fenced = is_fenced(&place.plural) && place.namespace.is_none();
    let lease = place.namespace.as_ref().is_some_and(|ns| is_lease(&place.plural, ns));
    if fenced || lease {
        if let Some(Value::String(name)) = object.pointer_mut("/metadata/name") {
            *name = names.real_object(&place.plural, name).into();
        }
        // Also of a status: that of a node brings its labels.
        if whole && object["metadata"].is_object() {
            object["metadata"]["labels"][RUN] = json!(names.run);
        }
        if whole && place.plural == "nodes" {
            claim_node(names, object);
        }
    }
    if whole
        && matches!(&*place.plural, "nodes" | "queues" | "podgroups")
        && object["metadata"].is_object()
    {
        pool::put(names, &mut object["metadata"]);
    }
    Hider { names, place, whole }.walk(object);
}

/// Says whose a node is.
fn claim_node(names: &Names, node: &mut Value) {
    if node["spec"]["taints"].is_null() {
        node["spec"]["taints"] = json!([]);
    }
    if names.kwok && node["metadata"].is_object() {
        node["metadata"]["annotations"][KWOK_NODE] = json!("fake");
    }
}

/// Kubernetes takes events about what has no namespace in the one called `default` alone, and
/// that one all scenarios share. Answers where such an event goes; its name tells whose it is.
pub(super) fn news_of_cluster(
    names: &Names,
    place: &Place,
    method: &Method,
    event: &mut Value,
) -> Option<Uri> {
    if place.plural != "events" || *method != Method::POST {
        return None;
    }
    let about = ["involvedObject", "regarding"].into_iter().find(|key| event[key].is_object())?;
    if event[about]["namespace"].as_str().is_some_and(|namespace| !namespace.is_empty()) {
        return None;
    }
    event["metadata"]["namespace"] = json!(SHARED);
    event["metadata"]["labels"][RUN] = json!(names.run);
    if let Some(Value::String(name)) = event.pointer_mut("/metadata/name") {
        *name = names.real(name).into();
    }
    let root = if about == "regarding" { "/apis/events.k8s.io/v1" } else { "/api/v1" };
    format!("{root}/namespaces/{SHARED}/events").parse().ok()
}

/// On a claim of a volume that is made for it.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

struct Hider<'a> {
    names: &'a Names,
    place: &'a Place,
    /// The object is whole, not a patch.
    whole: bool,
}

impl Hider<'_> {
    fn walk(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item)),
            Value::Object(fields) => {
                self.reference(fields);
                self.pod(fields);
                self.pod_spec(fields);
                for (key, value) in fields {
                    self.field(key, value);
                    self.walk(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn field(&self, key: &str, value: &mut Value) {
        let names = self.names;
        match value {
            Value::String(text) if !text.is_empty() => {
                let real = match key {
                    "nodeName" | "nominatedNodeName" | "selectedNode" | SELECTED_NODE
                    | "parentQueue" | "cohortName" | "clusterQueue" | "storageClassName"
                    | "volumeName" | "deviceClassName" => names.real(text),
                    "queue" if self.place.plural == "podgroups" => names.real(text),
                    "parentName" if self.place.plural == "cohorts" => names.real(text),
                    "namespace" => names.real_namespace(&self.place.plural, text),
                    "priorityClassName" => names.real_object("priorityclasses", text),
                    "schedulerName" => names.real_scheduler(text),
                    key if QUEUE_KEYS.contains(&key) => names.real(text),
                    _ => return,
                };
                *text = real.into();
            }
            Value::Array(items) => match key {
                "namespaces" => items.iter_mut().for_each(|item| self.real(item)),
                "flavors" if matches!(&*self.place.plural, "cohorts" | "clusterqueues") => {
                    let names = items.iter_mut().map(|item| &mut item["name"]);
                    names.for_each(|name| self.real(name));
                }
                "taints" => fence(items, names.taint()),
                "tolerations" => fence(items, names.toleration()),
                "matchFields" => {
                    let values = items.iter_mut().filter_map(|item| item["values"].as_array_mut());
                    values.flatten().for_each(|value| self.real(value));
                }
                _ => {}
            },
            Value::Object(fields) if key == "runtimeRef" => {
                if let Some(name) = fields.get_mut("name") {
                    self.real(name);
                }
            }
            Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => {}
        }
    }

    fn real(&self, value: &mut Value) {
        if let Value::String(text) = value {
            *text = self.names.real(text).into();
        }
    }

    /// A reference to a cluster-scoped object: owner, binding target, what an event is about.
    fn reference(&self, fields: &mut Map) {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        // An object itself has metadata, and its name there.
        if !is_fenced_kind(kind) || fields.contains_key("metadata") {
            return;
        }
        let class = kind == "PriorityClass";
        if let Some(Value::String(name)) = fields.get_mut("name") {
            let plural = if class { "priorityclasses" } else { "" };
            *name = self.names.real_object(plural, name).into();
        }
    }

    /// A pod, or what pods are made from.
    fn pod(&self, fields: &mut Map) {
        let has_containers = fields.get("spec").is_some_and(|spec| spec["containers"].is_array());
        if self.whole && has_containers && self.names.pool.is_some() {
            pool::put(self.names, fields.entry("metadata").or_insert_with(|| json!({})));
        }
    }

    /// A pod that names no scheduler is one of the scenario's all the same.
    fn pod_spec(&self, fields: &mut Map) {
        if !self.whole || !fields.get("containers").is_some_and(Value::is_array) {
            return;
        }
        if self.place.plural != "pods" || self.place.part.is_none() {
            fields.entry("schedulerName").or_insert_with(|| json!("default-scheduler"));
        }
        if self.names.toleration().is_some() {
            fields.entry("tolerations").or_insert_with(|| json!([]));
        }
        if self.names.picks_nodes() {
            let selector = fields.entry("nodeSelector").or_insert_with(|| json!({}));
            selector[RUN] = json!(self.names.run);
        }
    }
}

fn fence(items: &mut Vec<Value>, fence: Option<Value>) {
    if let Some(fence) = fence
        && !items.iter().any(|item| item["key"] == SIMULATED)
    {
        items.push(fence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::veil::Fence;

    fn names() -> Names {
        Names { shared: ["train".to_owned()].into(), ..Names::of_a_test() }
    }

    #[test]
    fn an_event_about_a_cluster_scoped_object_goes_where_kubernetes_takes_it() {
        let names = names();
        let (_, place) = uri(&names, &"/api/v1/namespaces/default/events".parse().unwrap());
        let mut event = json!({
            "metadata": {"name": "team.1", "namespace": "default"},
            "involvedObject": {"kind": "Queue", "name": "team"},
        });
        hide(&names, &place, &Method::POST, &mut event);
        let uri = news_of_cluster(&names, &place, &Method::POST, &mut event).unwrap();
        assert_eq!(uri.path(), "/api/v1/namespaces/default/events");
        assert_eq!(event["metadata"]["name"], "qx1-team.1");
        assert_eq!(event["metadata"]["namespace"], "default");
        assert_eq!(event["involvedObject"]["name"], "qx1-team");
        assert!(super::super::belongs(
            &names,
            &self::place(&["", "api", "v1", "events"].map(str::to_owned)),
            &event
        ));
        event["metadata"]["name"] = json!("other.1");
        assert!(!super::super::belongs(
            &names,
            &self::place(&["", "api", "v1", "events"].map(str::to_owned)),
            &event
        ));
    }

    #[test]
    fn a_watch_of_a_whole_collection_is_shared_and_no_other() {
        let names = names();
        let shared = |text: &str| {
            let (uri, place) = uri(&names, &text.parse().unwrap());
            shared_watch(&names, &place, &uri)
                .map(|wanted| (wanted.path, wanted.from, wanted.prefix, wanted.bookmarks))
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
    fn what_a_scenario_names_gets_its_prefix_but_shared_classes() {
        let names = names();
        let real = |path: &str| uri(&names, &path.parse().unwrap()).0.to_string();
        assert_eq!(real("/api/v1/nodes/n"), "/api/v1/nodes/qx1-n");
        assert_eq!(real("/api/v1/namespaces/a/pods/p"), "/api/v1/namespaces/qx1-a/pods/p");
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
        assert_eq!(real(&format!("{classes}/train")), format!("{classes}/train"));
        assert_eq!(real(&format!("{classes}/own")), format!("{classes}/qx1-own"));
        let mut pod = json!({
            "metadata": {"name": "p", "labels": {"kai.scheduler/queue": "team"}},
            "spec": {"priorityClassName": "train", "nodeName": "n", "containers": []},
        });
        let (_, place) = uri(&names, &"/api/v1/namespaces/a/pods".parse().unwrap());
        hide(&names, &place, &Method::POST, &mut pod);
        assert_eq!(pod["metadata"]["name"], "p");
        assert_eq!(pod["metadata"]["labels"]["kai.scheduler/queue"], "qx1-team");
        assert_eq!(pod["spec"]["priorityClassName"], "train");
        assert_eq!(pod["spec"]["nodeName"], "qx1-n");
        assert_eq!(pod["spec"]["schedulerName"], "qx1-default-scheduler");
    }

    #[test]
    fn what_kueue_is_told_of_queues_is_the_scenarios_own() {
        let names = names();
        let hidden = |path: &str, mut object: Value| {
            let path = format!("/apis/kueue.x-k8s.io/v1beta2/{path}");
            let (uri, place) = uri(&names, &path.parse().unwrap());
            hide(&names, &place, &Method::POST, &mut object);
            (uri.path().to_owned(), object)
        };
        let groups = json!([{"flavors": [{"name": "nodes"}]}]);
        let (_, cohort) = hidden(
            "cohorts",
            json!({"metadata": {"name": "all"},
                   "spec": {"parentName": "top", "resourceGroups": groups}}),
        );
        assert_eq!(cohort["metadata"]["name"], "qx1-all");
        assert_eq!(cohort["metadata"]["labels"][RUN], "r");
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
    fn a_scheduler_that_is_installed_gets_the_pods_that_are_for_it_and_no_others() {
        let names = Names { scheduler: Some("mine".to_owned()), ..names() };
        let real = |name| names.real_scheduler(name);
        assert_eq!([real("kai-scheduler"), real("mine")], ["mine", "mine"]);
        assert_eq!(real("another"), "qx1-another");
    }

    /// A scheduler that sees the whole cluster puts nothing on nodes of others, whether they are
    /// people's own or of another run.
    #[test]
    fn pods_for_an_installed_scheduler_are_kept_on_the_nodes_of_their_run() {
        let names = Names { scheduler: Some("mine".to_owned()), fence: Fence::Taint, ..names() };
        let (_, place) = uri(&names, &"/api/v1/namespaces/a/pods".parse().unwrap());
        let asked = json!({
            "metadata": {"name": "p"},
            "spec": {"schedulerName": "mine", "containers": [], "nodeSelector": {"zone": "z"}},
        });
        let mut pod = asked.clone();
        hide(&names, &place, &Method::POST, &mut pod);
        assert_eq!(pod["spec"]["nodeSelector"], json!({"zone": "z", RUN: "r"}));
        assert_eq!(
            pod["spec"]["tolerations"],
            json!([{"key": SIMULATED, "operator": "Equal", "value": "r"}])
        );
        super::super::answers::show(&names, &place, &mut pod);
        assert_eq!(pod, asked);
        let (_, place) = uri(&names, &"/api/v1/nodes".parse().unwrap());
        let mut node = json!({"metadata": {"name": "n"}, "spec": {}});
        hide(&names, &place, &Method::POST, &mut node);
        assert_eq!(node["metadata"]["labels"], json!({RUN: "r"}));
        assert_eq!(node["spec"]["taints"][0]["value"], json!("r"));
    }

    /// The label of a node goes with its status: where that is written whole, what is not in it
    /// is gone, and nobody finds the node after a crash.
    #[test]
    fn what_is_written_whole_keeps_the_label_of_its_run() {
        let names = names();
        for part in ["", "/status"] {
            let path = format!("/api/v1/nodes/n{part}");
            let (_, place) = uri(&names, &path.parse().unwrap());
            let mut node = json!({"metadata": {"name": "n", "labels": {}}, "spec": {}});
            hide(&names, &place, &Method::PUT, &mut node);
            assert_eq!(node["metadata"]["labels"][RUN], json!(names.run), "{path}");
        }
    }
}
