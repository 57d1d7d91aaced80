//! Histories as text with one write a line, such as `+1s bind a n1`. Each line becomes the
//! write that an API server would report.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use schedlab_api::{Value, json};
use schedlab_audit::{Audit, Object, ObjectKey, Rules, Violation, Write, WriteKind};

const SCHEDULER: &str = "kai-scheduler";

/// The violations that the audit finds with the rules for KAI, one a line.
pub(crate) fn violations_in(history: &str) -> String {
    lines(&audit(history, Rules::kai()))
}

/// Like [`violations_in`], in real time: a decision may take 5 seconds.
pub(crate) fn violations_in_real_time(history: &str) -> String {
    lines(&audit(history, Rules { window: Duration::from_secs(5), ..Rules::kai() }))
}

/// Like [`violations_in`], with the rules of profile `kube`.
pub(crate) fn violations_under_kube(history: &str) -> String {
    lines(&audit(history, Rules::kube()))
}

/// The first violation in the format of a failed scenario.
pub(crate) fn first_violation_in_full(history: &str) -> String {
    audit(history, Rules::kai()).first().map(ToString::to_string).unwrap_or_default()
}

fn lines(violations: &[Violation]) -> String {
    let line = |violation: &Violation| {
        format!(
            "rule {} ({}): {}",
            violation.rule.invariant_number(),
            violation.rule.rule_name(),
            violation.detail
        )
    };
    violations.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn audit(history: &str, rules: Rules) -> Vec<Violation> {
    let audit = Audit::new(rules, SCHEDULER);
    let mut player =
        HistoryPlayer { audit, objects: BTreeMap::new(), revision: 0, cycles: Arc::default() };
    if history.contains(" cycle") {
        let cycles = Arc::clone(&player.cycles);
        player.audit.set_cycle_counter(Box::new(move || cycles.load(Ordering::Relaxed)));
    }
    for line in history.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (at, write) = line.split_once(' ').expect("a line has a time and a write");
        let offset: f64 = at.trim_matches(['+', 's']).parse().expect("the time is in seconds");
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("the time is valid");
        let time = start + SignedDuration::from_secs_f64(offset);
        player.play(time, write);
    }
    // A later write makes the audit check the last ones.
    let later: Timestamp = "2026-01-02T00:00:00Z".parse().expect("the time is valid");
    player.write(later, "someone", &key_of("", "namespaces", "later"), Some(json!({})));
    player.audit.violations()
}

/// Applies the lines of a history to the audit.
struct HistoryPlayer {
    audit: Audit,
    objects: BTreeMap<ObjectKey, Object>,
    revision: u64,
    /// The number of completed cycles that the scheduler reports.
    cycles: Arc<AtomicU64>,
}

/// The arguments of a line: `key=value`, or a flag.
struct Arguments<'a>(Vec<&'a str>);

impl<'a> Arguments<'a> {
    fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn flag(&self, word: &str) -> bool {
        self.0.contains(&word)
    }
}

impl HistoryPlayer {
    fn play(&mut self, at: Timestamp, write: &str) {
        let mut arguments = write.split_whitespace();
        let verb = arguments.next().expect("a write has a verb");
        let name = arguments.next().unwrap_or_default();
        let arguments = Arguments(arguments.collect());
        match verb {
            "node" => {
                self.write(at, "admin", &key_of("", "nodes", name), Some(node(name, &arguments)));
            }
            "remove" => self.write(at, "admin", &key_of("", "nodes", name), None),
            "queue" => {
                let key = key_of("scheduling.run.ai", "queues", name);
                self.write(at, "admin", &key, Some(queue(name, &arguments)));
            }
            "group" => {
                let key = key_of("scheduling.run.ai", "podgroups", name);
                self.write(at, "admin", &key, Some(group(name, &arguments)));
            }
            "pod" => {
                let pod = pod(name, &arguments, self.revision);
                self.write(at, "admin", &key_of("", "pods", name), Some(pod));
            }
            "claim" => {
                let key = key_of("resource.k8s.io", "resourceclaims", name);
                let user = arguments
                    .value("for")
                    .map(|pod| self.objects[&key_of("", "pods", pod)].clone());
                self.write(at, SCHEDULER, &key, Some(claim(name, &arguments, user.as_deref())));
            }
            "status" => {
                let key = key_of("scheduling.run.ai", "queues", name);
                self.edit(at, &key, SCHEDULER, |queue| {
                    let gpus = arguments.value("gpus").expect("status has gpus=");
                    queue["status"] = json!({"allocated": {"nvidia.com/gpu": gpus}});
                });
            }
            "kill" => self.audit.record_scheduler_kill(at),
            "rest" => self.audit.check_at_rest(at),
            "cycle" => {
                self.cycles.fetch_add(1, Ordering::Relaxed);
            }
            verb => self.pod_verb(at, verb, name, &arguments),
        }
    }

    fn pod_verb(&mut self, at: Timestamp, verb: &str, name: &str, arguments: &Arguments<'_>) {
        let key = &key_of("", "pods", name);
        let first = arguments.0.first().copied().unwrap_or_default();
        let terminate =
            |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!(at.to_string());
        match verb {
            "bind" => self.edit(at, key, SCHEDULER, |pod| pod["spec"]["nodeName"] = json!(first)),
            "devices" => self.edit(at, key, "kubelet", |pod| {
                pod["metadata"]["annotations"]["schedlab.dev/gpu-devices"] = json!(first);
            }),
            "refuse" => self.edit(at, key, SCHEDULER, |pod| {
                pod["status"]["conditions"] = json!([{
                    "type": "PodScheduled", "status": "False", "reason": "BindingError",
                    "message": "denied",
                }]);
            }),
            "finish" => self.edit(at, key, "kubelet", |pod| pod["status"] = phase("Succeeded")),
            "fail" => self.edit(at, key, "kubelet", |pod| pod["status"] = phase("Failed")),
            // As a DELETE request: without a field manager, after the condition was written.
            "disrupt" => {
                let message = format!("Pod default/{name} was evicted: {}", arguments.0.join(" "));
                self.announce_eviction(at, name, &message, arguments);
                let conditions = json!([{
                    "type": "DisruptionTarget", "status": "True",
                    "reason": "PreemptionByScheduler", "message": message,
                }]);
                self.edit(at, key, SCHEDULER, |pod| pod["status"]["conditions"] = conditions);
                self.edit(at, key, "", terminate);
            }
            "evict" => self.edit(at, key, SCHEDULER, terminate),
            "cancel" => self.edit(at, key, "kubectl", terminate),
            "delete" => self.write(at, "kubelet", key, None),
            verb => panic!("no such verb: {verb}"),
        }
    }

    /// The event of the victim's pod group: `disrupt a reclaim default/h`, or without a cause.
    fn announce_eviction(&mut self, at: Timestamp, pod: &str, message: &str, of: &Arguments<'_>) {
        let Some(action) = of.0.first() else { return };
        let mut annotations = json!({ "evictor-action-type": action });
        if let Some((namespace, name)) = of.0.get(1).and_then(|group| group.split_once('/')) {
            annotations["evictor-pod-group-namespace"] = json!(namespace);
            annotations["evictor-pod-group-name"] = json!(name);
        }
        let event = json!({
            "metadata": { "annotations": annotations }, "reason": "Evict", "message": message,
            "involvedObject": { "kind": "PodGroup" },
        });
        self.write(at, SCHEDULER, &key_of("", "events", pod), Some(event));
    }

    fn edit(
        &mut self,
        at: Timestamp,
        key: &ObjectKey,
        manager: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let mut object = Value::clone(&self.objects[key]);
        change(&mut object);
        self.write(at, manager, key, Some(object));
    }

    fn write(&mut self, time: Timestamp, manager: &str, key: &ObjectKey, new: Option<Value>) {
        self.revision += 1;
        let previous = self.objects.remove(key);
        let (kind, object) = match (new, &previous) {
            (Some(new), Some(_)) => (WriteKind::Update, Arc::new(new)),
            (Some(new), None) => (WriteKind::Create, Arc::new(new)),
            (None, old) => (WriteKind::Delete, old.clone().expect("a deleted object exists")),
        };
        if kind != WriteKind::Delete {
            self.objects.insert(key.clone(), object.clone());
        }
        let (revision, manager) = (self.revision, manager.into());
        let key = key.clone();
        self.audit.observe_write(&Write { revision, time, kind, key, object, previous, manager });
    }
}

/// The key of an object, in namespace `default` if its kind is namespaced.
fn key_of(group: &str, plural: &str, name: &str) -> ObjectKey {
    let namespace =
        if matches!(plural, "pods" | "podgroups" | "resourceclaims") { "default" } else { "" };
    ObjectKey {
        group: group.into(),
        plural: plural.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn phase(phase: &str) -> Value {
    json!({"phase": phase})
}

fn node(name: &str, arguments: &Arguments<'_>) -> Value {
    let label = arguments.value("label").and_then(|pair| pair.split_once(':'));
    let labels: BTreeMap<&str, &str> = label.into_iter().collect();
    let taints: Vec<Value> = arguments
        .value("taint")
        .map(|key| json!({"key": key, "effect": "NoSchedule"}))
        .into_iter()
        .collect();
    let ready = if arguments.flag("notready") { "False" } else { "True" };
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": arguments.flag("cordoned")},
        "status": {
            "allocatable": {"nvidia.com/gpu": arguments.value("gpus"), "cpu": "8", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    })
}

fn queue(name: &str, arguments: &Arguments<'_>) -> Value {
    let number = |key| {
        arguments
            .value(key)
            .map_or(-1.0, |text| text.parse::<f64>().expect("the value is a number"))
    };
    let none = json!({"quota": -1, "limit": -1});
    let gpu = json!({"quota": number("quota"), "limit": number("limit")});
    json!({
        "metadata": {"name": name},
        "spec": {
            "parentQueue": arguments.value("parent"),
            "resources": {"gpu": gpu, "cpu": none, "memory": none},
        },
    })
}

fn group(name: &str, arguments: &Arguments<'_>) -> Value {
    let number = |text: &str| text.parse::<u32>().expect("the value is a count");
    let parts: Option<Vec<Value>> = arguments.value("parts").map(|parts| {
        let pairs = parts.split(',').filter_map(|part| part.split_once(':'));
        pairs.map(|(name, min)| json!({"name": name, "minMember": number(min)})).collect()
    });
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "queue": arguments.value("queue"),
            "minMember": arguments.value("min").map(number),
            "minSubGroup": arguments.value("minparts").map(number),
            "subGroups": parts,
            "priorityClassName": arguments.value("class").unwrap_or("train"),
        },
    })
}

fn pod(name: &str, arguments: &Arguments<'_>, revision: u64) -> Value {
    let selector: BTreeMap<&str, &str> =
        arguments.value("selector").and_then(|pair| pair.split_once(':')).into_iter().collect();
    let tolerations: Vec<Value> = arguments
        .value("tolerates")
        .map(|key| json!({"key": key, "operator": "Exists"}))
        .into_iter()
        .collect();
    let gates: Vec<Value> =
        arguments.flag("gated").then(|| json!({"name": "hold"})).into_iter().collect();
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{revision}"),
            "annotations": {"pod-group-name": arguments.value("group")},
            "labels": {"kai.scheduler/subgroup-name": arguments.value("part")},
        },
        "spec": {
            "nodeSelector": selector,
            "tolerations": tolerations,
            "schedulingGates": gates,
            "resourceClaims": [{"resourceClaimName": arguments.value("claim")}],
            "containers": [{"resources": {"requests": {"nvidia.com/gpu": arguments.value("gpus")}}}],
        },
        "status": {"phase": "Pending"},
    })
}

/// `device=0 on=n1 for=a`: device 0 of node `n1` is allocated and reserved for pod `a`. With
/// `zone=x` instead of `on`, the device can be used on all nodes of zone `x`.
fn claim(name: &str, arguments: &Arguments<'_>, user: Option<&Value>) -> Value {
    let one_of = |key, value| json!({"key": key, "operator": "In", "values": [value]});
    let (class, term) = match arguments.value("zone") {
        Some(zone) => ("nic", json!({"matchExpressions": [one_of("zone", zone)]})),
        None => (
            "gpu",
            json!({"matchFields": [one_of("metadata.name", arguments.value("on").unwrap_or_default())]}),
        ),
    };
    let device = |device| json!({"driver": "gpu", "pool": arguments.value("on"), "device": device});
    let allocation = arguments.value("device").map(|one| {
        json!({
            "devices": {"results": [device(one)]},
            "nodeSelector": {"nodeSelectorTerms": [term]},
        })
    });
    let users: Vec<&Value> = user.map(|pod| &pod["metadata"]).into_iter().collect();
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"exactly": {"deviceClassName": class}}]}},
        "status": {"allocation": allocation, "reservedFor": users},
    })
}
