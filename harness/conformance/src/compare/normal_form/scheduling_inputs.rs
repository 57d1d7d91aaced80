//! The inputs of scheduling decisions, as text that is equal on every cluster: without names, uids
//! and times, without what schedulers write, and without what only some clusters add.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schedlab_api::{
    Value, annotations, json, labels,
    object::annotation,
    pointer::{at, list, text},
    taints,
};
use schedlab_emulator::store::LogEntry;

/// Prefixes of labels and annotations that are scheduling inputs.
const INPUT_KEY_PREFIXES: [&str; 4] =
    ["kai.scheduler/", "gpu-", "kueue.x-k8s.io/podset-", labels::PRIORITY_CLASS];

/// Further labels and annotations that are scheduling inputs.
const INPUT_KEYS: [&str; 2] = ["kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"];

/// Labels and annotations that schedulers and pod groupers write (names, times and decisions), and
/// which are therefore no inputs.
const SCHEDULER_WRITTEN_KEYS: [&str; 7] = [
    labels::SUB_GROUP,
    annotations::TOP_OWNER_METADATA,
    annotations::LAST_START_TIMESTAMP,
    annotations::LAST_EVICTION_TIMESTAMP,
    annotations::STALE_SINCE_TIMESTAMP,
    annotations::NUMA_PLACEMENT_PREDICTED,
    annotations::NUMA_PLACEMENT_OBSERVED,
];

/// Fields of a pod's `spec` that are scheduling inputs as they are.
const POD_SPEC_INPUT_FIELDS: [&str; 6] = [
    "affinity",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "topologySpreadConstraints",
];

/// The selectors by which pods of a log refer to other pods: whether a pod matches one is a
/// scheduling input.
#[derive(Debug, Default)]
pub(super) struct PodSelectors(BTreeSet<PodSelector>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PodSelector {
    label: String,
    /// Values of the label that match; empty if any value matches.
    values: Vec<String>,
}

impl PodSelectors {
    pub(super) fn from_pods<'a>(pods: impl Iterator<Item = &'a Value>) -> Self {
        let mut selectors = BTreeSet::new();
        for pod in pods {
            for field in ["affinity", "topologySpreadConstraints"] {
                collect_selectors(&pod["spec"][field], &mut selectors);
            }
        }
        Self(selectors)
    }

    fn matching_selectors(&self, pod: &Value) -> Vec<String> {
        let labels = at(pod, "/metadata/labels").and_then(Value::as_object);
        let label = |key: &str| labels?.get(key)?.as_str();
        let matching = self.0.iter().filter(|selector| {
            label(&selector.label).is_some_and(|value| {
                selector.values.is_empty() || selector.values.iter().any(|one| one == value)
            })
        });
        // The text is part of reports, which `schedlab diff` compares across versions.
        let text = |PodSelector { label, values }: &PodSelector| {
            format!("Choice {{ label: {label:?}, values: {values:?} }}")
        };
        matching.map(text).collect()
    }
}

/// Collects all pod selectors in a value.
fn collect_selectors(value: &Value, selectors: &mut BTreeSet<PodSelector>) {
    for item in value.as_array().into_iter().flatten() {
        collect_selectors(item, selectors);
    }
    for (key, inner) in value.as_object().into_iter().flat_map(|fields| fields.iter()) {
        if key != "labelSelector" {
            collect_selectors(inner, selectors);
            continue;
        }
        let labels = inner["matchLabels"].as_object().into_iter().flat_map(|all| all.iter());
        selectors.extend(labels.map(|(label, value)| PodSelector {
            label: label.to_string(),
            values: value.as_str().into_iter().map(str::to_owned).collect(),
        }));
        selectors.extend(list(inner, "/matchExpressions").iter().map(|one| PodSelector {
            label: text(one, "/key").unwrap_or_default().to_owned(),
            values:
                list(one, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        }));
    }
}

/// The scheduling inputs in the pod itself, such as its requests and affinity.
pub(super) fn pod_inputs(pod: &Value, selectors: &PodSelectors) -> Value {
    let spec = &pod["spec"];
    let containers = |field| list(spec, field).iter().map(container_inputs).collect::<Vec<_>>();
    let volumes = list(spec, "/volumes").iter().filter(|volume| {
        !volume["persistentVolumeClaim"].is_null() || !volume["ephemeral"].is_null()
    });
    let gates = list(spec, "/schedulingGates").iter().map(|gate| &gate["name"]);
    let as_they_are: Vec<&Value> =
        POD_SPEC_INPUT_FIELDS.iter().map(|field| &spec[*field]).collect();
    json!({
        "asks": containers("/containers"),
        "asks first": containers("/initContainers"),
        "spec": as_they_are,
        "tolerates": input_tolerations(pod),
        "gates": gates.collect::<Vec<_>>(),
        "disks": volumes.count(),
        "claims": list(spec, "/resourceClaims").len(),
        "marks": input_metadata(pod),
        "chosen by": selectors.matching_selectors(pod),
    })
}

fn container_inputs(container: &Value) -> Value {
    let ports = list(container, "/ports").iter().filter_map(|port| port["hostPort"].as_i64());
    let ports: Vec<i64> = ports.filter(|port| *port > 0).collect();
    json!([container["resources"], container["restartPolicy"], ports])
}

/// The tolerations that the pod's author wrote: without those for 300 s on unreachable and unready
/// nodes, which API servers add.
fn input_tolerations(pod: &Value) -> Vec<&Value> {
    let added = |one: &&Value| {
        matches!(text(one, "/key"), Some(taints::NOT_READY | taints::UNREACHABLE))
            && one["tolerationSeconds"] == 300
    };
    let written = list(pod, "/spec/tolerations").iter().filter(|one| !added(one));
    let mut written: Vec<&Value> = written.collect();
    written.sort_by_cached_key(ToString::to_string);
    written
}

/// The labels and annotations of an object that are scheduling inputs.
fn input_metadata(object: &Value) -> BTreeMap<String, &Value> {
    let is_input = |key: &str| {
        (INPUT_KEY_PREFIXES.iter().any(|start| key.starts_with(start)) || INPUT_KEYS.contains(&key))
            && !SCHEDULER_WRITTEN_KEYS.contains(&key)
    };
    let of = |field: &'static str| {
        let marks = object["metadata"][field].as_object().into_iter().flat_map(|all| all.iter());
        let inputs = marks.filter(move |(key, _)| is_input(key));
        inputs.map(move |(key, value)| (format!("{field} {key}"), value))
    };
    of("labels").chain(of("annotations")).collect()
}

/// The pod groups and claims in a log, by namespace and name.
#[derive(Debug)]
pub(super) struct RelatedObjects<'a> {
    groups: BTreeMap<(&'a str, &'a str), &'a Value>,
    claims: BTreeMap<(&'a str, &'a str), &'a Value>,
}

impl<'a> RelatedObjects<'a> {
    pub(super) fn from_log(log: &'a [Arc<LogEntry>]) -> Self {
        let all = |plural: &str| {
            let entries = log.iter().filter(|entry| &*entry.key.resource.plural == plural);
            let named = |entry: &'a Arc<LogEntry>| {
                ((&*entry.key.namespace, &*entry.key.name), &*entry.object)
            };
            entries.map(named).collect()
        };
        Self { groups: all("podgroups"), claims: all("resourceclaims") }
    }

    /// The scheduling inputs in a pod's pod group and in its claims.
    pub(super) fn related_inputs_of_pod(&self, pod: &Value) -> Vec<Value> {
        let namespace = text(pod, "/metadata/namespace").unwrap_or_default();
        let group = annotation(pod, annotations::POD_GROUP_NAME);
        let group = group.and_then(|name| self.groups.get(&(namespace, name)));
        let generated = list(pod, "/status/resourceClaimStatuses").iter();
        let named = list(pod, "/spec/resourceClaims").iter();
        let claims = generated.chain(named).filter_map(|claim| {
            let name = text(claim, "/resourceClaimName")?;
            self.claims.get(&(namespace, name))
        });
        let claims = claims.map(|claim| json!({"claim": claim["spec"]}));
        group.map(|group| pod_group_inputs(group)).into_iter().chain(claims).collect()
    }
}

/// The scheduling inputs of a pod group, without the names of its sub-groups.
fn pod_group_inputs(group: &Value) -> Value {
    let mut parts: Vec<String> =
        list(group, "/spec/subGroups").iter().map(sub_group_inputs).collect();
    parts.sort();
    let fields = group["spec"].as_object().into_iter().flat_map(|fields| fields.iter());
    let fields = fields.filter(|(name, value)| **name != *"subGroups" && !is_empty_value(value));
    let spec: BTreeMap<String, &Value> =
        fields.map(|(name, value)| (name.to_string(), value)).collect();
    json!({"group": spec, "parts": parts, "marks": input_metadata(group)})
}

/// Whether a field counts as absent: some pod groupers write empty fields, others leave them out.
fn is_empty_value(value: &Value) -> bool {
    value.is_null()
        || value.as_object().is_some_and(|fields| fields.iter().next().is_none())
        || value.as_array().is_some_and(Vec::is_empty)
}

fn sub_group_inputs(sub_group: &Value) -> String {
    let has_parent = !sub_group["parent"].is_null();
    let topology =
        Some(&sub_group["topologyConstraint"]).filter(|topology| !is_empty_value(topology));
    json!([sub_group["minMember"], sub_group["minSubGroup"], topology, has_parent]).to_string()
}
