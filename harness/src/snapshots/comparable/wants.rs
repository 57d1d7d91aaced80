//! What a scheduler goes by, as text that is equal on every cluster: without names, uids and times,
//! without what schedulers write, and without what only some clusters add.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schedlab_emulator::store::LogEntry;
use schedlab_json::{Value, json};

use crate::fields::{at, list, text};

/// Labels and annotations that wish for something begin so.
const WISHES: [&str; 4] = ["kai.scheduler/", "gpu-", "kueue.x-k8s.io/podset-", "priorityClassName"];

/// Those that begin otherwise.
const OTHER_WISHES: [&str; 2] = ["kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"];

/// Those that schedulers and groupers write: names, times and what was decided.
const WRITTEN: [&str; 7] = [
    "kai.scheduler/subgroup-name",
    "kai.scheduler/top-owner-metadata",
    "kai.scheduler/last-start-timestamp",
    "kai.scheduler/last-eviction-timestamp",
    "kai.scheduler/stale-podgroup-timestamp",
    "kai.scheduler/numa-placement-predicted",
    "kai.scheduler/numa-placement-observed",
];

/// Fields of a pod's `spec` as they are.
const AS_THEY_ARE: [&str; 6] = [
    "affinity",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "topologySpreadConstraints",
];

/// What all pods of a log choose other pods by: to be chosen by it makes a difference.
#[derive(Debug, Default)]
pub(super) struct Choices(BTreeSet<Choice>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    label: String,
    /// Whatever the value is, where there are none.
    values: Vec<String>,
}

impl Choices {
    pub(super) fn of<'a>(pods: impl Iterator<Item = &'a Value>) -> Self {
        let mut choices = BTreeSet::new();
        for pod in pods {
            for field in ["affinity", "topologySpreadConstraints"] {
                gather(&pod["spec"][field], &mut choices);
            }
        }
        Self(choices)
    }

    fn that_mean(&self, pod: &Value) -> Vec<String> {
        let labels = at(pod, "/metadata/labels").and_then(Value::as_object);
        let label = |key: &str| labels?.get(key)?.as_str();
        let meant = self.0.iter().filter(|choice| {
            label(&choice.label).is_some_and(|value| {
                choice.values.is_empty() || choice.values.iter().any(|one| one == value)
            })
        });
        meant.map(|choice| format!("{choice:?}")).collect()
    }
}

/// Adds the choices of all selectors of pods in a value.
fn gather(value: &Value, choices: &mut BTreeSet<Choice>) {
    for item in value.as_array().into_iter().flatten() {
        gather(item, choices);
    }
    for (key, inner) in value.as_object().into_iter().flat_map(|fields| fields.iter()) {
        if key != "labelSelector" {
            gather(inner, choices);
            continue;
        }
        let labels = inner["matchLabels"].as_object().into_iter().flat_map(|all| all.iter());
        choices.extend(labels.map(|(label, value)| Choice {
            label: label.to_string(),
            values: value.as_str().into_iter().map(str::to_owned).collect(),
        }));
        choices.extend(list(inner, "/matchExpressions").iter().map(|one| Choice {
            label: text(one, "/key").unwrap_or_default().to_owned(),
            values:
                list(one, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        }));
    }
}

/// What a pod asks for by itself.
pub(super) fn of_pod(pod: &Value, choices: &Choices) -> Value {
    let spec = &pod["spec"];
    let containers = |field| list(spec, field).iter().map(asked).collect::<Vec<_>>();
    let volumes = list(spec, "/volumes").iter().filter(|volume| {
        !volume["persistentVolumeClaim"].is_null() || !volume["ephemeral"].is_null()
    });
    let gates = list(spec, "/schedulingGates").iter().map(|gate| &gate["name"]);
    let as_they_are: Vec<&Value> = AS_THEY_ARE.iter().map(|field| &spec[*field]).collect();
    json!({
        "asks": containers("/containers"),
        "asks first": containers("/initContainers"),
        "spec": as_they_are,
        "tolerates": tolerations(pod),
        "gates": gates.collect::<Vec<_>>(),
        "disks": volumes.count(),
        "claims": list(spec, "/resourceClaims").len(),
        "marks": marks(pod),
        "chosen by": choices.that_mean(pod),
    })
}

fn asked(container: &Value) -> Value {
    let ports = list(container, "/ports").iter().filter_map(|port| port["hostPort"].as_i64());
    let ports: Vec<i64> = ports.filter(|port| *port > 0).collect();
    json!([container["resources"], container["restartPolicy"], ports])
}

/// Those that somebody wrote. Servers add that a pod stays five minutes on a node that is lost.
fn tolerations(pod: &Value) -> Vec<&Value> {
    let added = |one: &&Value| {
        matches!(
            text(one, "/key"),
            Some("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
        ) && one["tolerationSeconds"] == 300
    };
    let written = list(pod, "/spec/tolerations").iter().filter(|one| !added(one));
    let mut written: Vec<&Value> = written.collect();
    written.sort_by_cached_key(ToString::to_string);
    written
}

/// Labels and annotations that wish for something.
fn marks(object: &Value) -> BTreeMap<String, &Value> {
    let wish = |key: &str| {
        (WISHES.iter().any(|start| key.starts_with(start)) || OTHER_WISHES.contains(&key))
            && !WRITTEN.contains(&key)
    };
    let of = |field: &'static str| {
        let marks = object["metadata"][field].as_object().into_iter().flat_map(|all| all.iter());
        let wishes = marks.filter(move |(key, _)| wish(key));
        wishes.map(move |(key, value)| (format!("{field} {key}"), value))
    };
    of("labels").chain(of("annotations")).collect()
}

/// What a log tells of the objects that go with a pod, by namespace and name.
#[derive(Debug)]
pub(super) struct Company<'a> {
    groups: BTreeMap<(&'a str, &'a str), &'a Value>,
    claims: BTreeMap<(&'a str, &'a str), &'a Value>,
}

impl<'a> Company<'a> {
    pub(super) fn of(log: &'a [Arc<LogEntry>]) -> Self {
        let all = |plural: &str| {
            let entries = log.iter().filter(|entry| &*entry.key.resource.plural == plural);
            let named = |entry: &'a Arc<LogEntry>| {
                ((&*entry.key.namespace, &*entry.key.name), &*entry.object)
            };
            entries.map(named).collect()
        };
        Self { groups: all("podgroups"), claims: all("resourceclaims") }
    }

    /// What a pod's group and its claims add to what it asks for.
    pub(super) fn wants(&self, pod: &Value) -> Vec<Value> {
        let namespace = text(pod, "/metadata/namespace").unwrap_or_default();
        let group = text(pod, "/metadata/annotations/pod-group-name");
        let group = group.and_then(|name| self.groups.get(&(namespace, name)));
        let drawn = list(pod, "/status/resourceClaimStatuses").iter();
        let named = list(pod, "/spec/resourceClaims").iter();
        let claims = drawn.chain(named).filter_map(|claim| {
            let name = text(claim, "/resourceClaimName")?;
            self.claims.get(&(namespace, name))
        });
        let claims = claims.map(|claim| json!({"claim": claim["spec"]}));
        group.map(|group| shape(group)).into_iter().chain(claims).collect()
    }
}

/// What a pod group says, but for the names of its parts.
fn shape(group: &Value) -> Value {
    let mut parts: Vec<String> = list(group, "/spec/subGroups").iter().map(part).collect();
    parts.sort();
    let fields = group["spec"].as_object().into_iter().flat_map(|fields| fields.iter());
    let fields = fields.filter(|(name, value)| **name != *"subGroups" && !is_empty(value));
    let spec: BTreeMap<String, &Value> =
        fields.map(|(name, value)| (name.to_string(), value)).collect();
    json!({"group": spec, "parts": parts, "marks": marks(group)})
}

/// Groupers write some fields that say nothing, others leave them out.
fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_object().is_some_and(|fields| fields.iter().next().is_none())
        || value.as_array().is_some_and(Vec::is_empty)
}

fn part(part: &Value) -> String {
    let is_below = !part["parent"].is_null();
    let place = Some(&part["topologyConstraint"]).filter(|place| !is_empty(place));
    json!([part["minMember"], part["minSubGroup"], place, is_below]).to_string()
}
