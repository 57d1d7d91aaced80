//! Histories as text, one write a line: `+1s bind a n1`. Each becomes the log entry that a
//! store would write.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use schedlab::audit::{Audit, Violation};
use schedlab_emulator::store::{EventKind, Key, LogEntry, Object, Resource, Subresource};
use schedlab_json::{Value, json};
use schedlab_scheduler::Progress;
use schedlab_scheduler_core::audit::Rules;
use tokio::sync::watch;

const SCHEDULER: &str = "kai-scheduler";

/// What the audit finds, one breach a line.
pub(crate) fn breaches_of(history: &str) -> String {
    told(&audit_of(history, Rules::kai()))
}

/// As [`breaches_of`], where time is real and a moment has some length.
pub(crate) fn breaches_in_real_time(history: &str) -> String {
    told(&audit_of(history, Rules { window: Duration::from_secs(5), ..Rules::kai() }))
}

/// As [`breaches_of`], by the lights of profile `kube`.
pub(crate) fn breaches_under_kube(history: &str) -> String {
    told(&audit_of(history, Rules::kube()))
}

/// The first breach as a failed scenario would show it.
pub(crate) fn first_breach_in_full(history: &str) -> String {
    audit_of(history, Rules::kai()).first().map(ToString::to_string).unwrap_or_default()
}

fn told(breaches: &[Violation]) -> String {
    let line = |breach: &Violation| {
        format!("rule {} ({}): {}", breach.rule.number(), breach.rule.name(), breach.detail)
    };
    breaches.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn audit_of(history: &str, rules: Rules) -> Vec<Violation> {
    let audit = Audit::new(rules, SCHEDULER);
    let mut teller =
        Teller { audit, objects: BTreeMap::new(), revision: 0, status: watch::Sender::default() };
    if history.contains(" cycle") {
        teller.audit.follow_status(teller.status.subscribe());
    }
    for line in history.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (at, what) = line.split_once(' ').expect("a time and a write");
        let offset: f64 = at.trim_matches(['+', 's']).parse().expect("seconds");
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let time = start + SignedDuration::from_secs_f64(offset);
        teller.tell(time, what);
    }
    // What comes last is judged when its moment is over.
    let later: Timestamp = "2026-01-02T00:00:00Z".parse().expect("a time");
    teller.write(later, "someone", ("", "namespaces", "later"), Some(json!({})));
    teller.audit.violations()
}

struct Teller {
    audit: Audit,
    objects: BTreeMap<Key, Object>,
    revision: u64,
    /// What the scheduler tells of itself.
    status: watch::Sender<Progress>,
}

/// `key=value` words of a line; a bare word is a flag.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn flag(&self, word: &str) -> bool {
        self.0.contains(&word)
    }
}

impl Teller {
    fn tell(&mut self, at: Timestamp, what: &str) {
        let mut words = what.split_whitespace();
        let verb = words.next().expect("a verb");
        let name = words.next().unwrap_or_default();
        let words = Words(words.collect());
        match verb {
            "node" => self.write(at, "admin", ("", "nodes", name), Some(node(name, &words))),
            "remove" => self.write(at, "admin", ("", "nodes", name), None),
            "queue" => {
                let key = ("scheduling.run.ai", "queues", name);
                self.write(at, "admin", key, Some(queue(name, &words)));
            }
            "group" => {
                let key = ("scheduling.run.ai", "podgroups", name);
                self.write(at, "admin", key, Some(group(name, &words)));
            }
            "pod" => {
                let pod = pod(name, &words, self.revision);
                self.write(at, "admin", ("", "pods", name), Some(pod));
            }
            "claim" => {
                let key = ("resource.k8s.io", "resourceclaims", name);
                let user = words
                    .value("for")
                    .map(|pod| self.objects[&full_key(("", "pods", pod))].clone());
                self.write(at, SCHEDULER, key, Some(claim(name, &words, user.as_deref())));
            }
            "status" => self.edit(at, ("scheduling.run.ai", "queues", name), SCHEDULER, |queue| {
                let gpus = words.value("gpus").expect("gpus");
                queue["status"] = json!({"allocated": {"nvidia.com/gpu": gpus}});
            }),
            "kill" => self.audit.scheduler_killed(at),
            "rest" => self.audit.at_rest(at),
            "cycle" => self.status.send_modify(|status| status.cycles += 1),
            verb => self.pod_verb(at, verb, name, &words),
        }
    }

    fn pod_verb(&mut self, at: Timestamp, verb: &str, name: &str, words: &Words<'_>) {
        let key = ("", "pods", name);
        let first = words.0.first().copied().unwrap_or_default();
        let leave = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!(at.to_string());
        match verb {
            "bind" => self.edit(at, key, SCHEDULER, |pod| pod["spec"]["nodeName"] = json!(first)),
            "devices" => self.edit(at, key, "kubelet", |pod| {
                pod["metadata"]["annotations"]["schedlab.dev/gpu-devices"] = json!(first);
            }),
            "finish" => self.edit(at, key, "kubelet", |pod| pod["status"] = phase("Succeeded")),
            "fail" => self.edit(at, key, "kubelet", |pod| pod["status"] = phase("Failed")),
            // As a DELETE comes: without a field manager, after the pod was told.
            "disrupt" => {
                let told = json!([{
                    "type": "DisruptionTarget", "status": "True",
                    "reason": "PreemptionByScheduler", "message": words.0.join(" "),
                }]);
                self.edit(at, key, SCHEDULER, |pod| pod["status"]["conditions"] = told);
                self.edit(at, key, "", leave);
            }
            "evict" => self.edit(at, key, SCHEDULER, leave),
            "cancel" => self.edit(at, key, "kubectl", leave),
            "delete" => self.write(at, "kubelet", key, None),
            verb => panic!("no such verb: {verb}"),
        }
    }

    fn edit(
        &mut self,
        at: Timestamp,
        key: (&str, &str, &str),
        manager: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let mut object = Value::clone(&self.objects[&full_key(key)]);
        change(&mut object);
        self.write(at, manager, key, Some(object));
    }

    fn write(
        &mut self,
        time: Timestamp,
        manager: &str,
        key: (&str, &str, &str),
        new: Option<Value>,
    ) {
        self.revision += 1;
        let key = full_key(key);
        let previous = self.objects.remove(&key);
        let (kind, object) = match (new, &previous) {
            (Some(new), Some(_)) => (EventKind::Modified, Arc::new(new)),
            (Some(new), None) => (EventKind::Added, Arc::new(new)),
            (None, old) => (EventKind::Deleted, old.clone().expect("it was there")),
        };
        if kind != EventKind::Deleted {
            self.objects.insert(key.clone(), object.clone());
        }
        let (revision, manager, part) = (self.revision, manager.into(), Subresource::None);
        let entry =
            LogEntry { revision, time, kind, key, object, previous, manager, subresource: part };
        self.audit.observe(&Arc::new(entry));
    }
}

fn full_key((group, plural, name): (&str, &str, &str)) -> Key {
    let namespace =
        if matches!(plural, "pods" | "podgroups" | "resourceclaims") { "default" } else { "" };
    Key {
        resource: Resource { group: group.into(), plural: plural.into() },
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn phase(phase: &str) -> Value {
    json!({"phase": phase})
}

fn node(name: &str, words: &Words<'_>) -> Value {
    let label = words.value("label").and_then(|pair| pair.split_once(':'));
    let labels: BTreeMap<&str, &str> = label.into_iter().collect();
    let taints: Vec<Value> = words
        .value("taint")
        .map(|key| json!({"key": key, "effect": "NoSchedule"}))
        .into_iter()
        .collect();
    let ready = if words.flag("notready") { "False" } else { "True" };
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": words.flag("cordoned")},
        "status": {
            "allocatable": {"nvidia.com/gpu": words.value("gpus"), "cpu": "8", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    })
}

fn queue(name: &str, words: &Words<'_>) -> Value {
    let number = |key| words.value(key).map_or(-1.0, |text| text.parse::<f64>().expect("a number"));
    let none = json!({"quota": -1, "limit": -1});
    let gpu = json!({"quota": number("quota"), "limit": number("limit")});
    json!({
        "metadata": {"name": name},
        "spec": {
            "parentQueue": words.value("parent"),
            "resources": {"gpu": gpu, "cpu": none, "memory": none},
        },
    })
}

fn group(name: &str, words: &Words<'_>) -> Value {
    let number = |text: &str| text.parse::<u32>().expect("a count");
    let parts: Option<Vec<Value>> = words.value("parts").map(|parts| {
        let pairs = parts.split(',').filter_map(|part| part.split_once(':'));
        pairs.map(|(name, min)| json!({"name": name, "minMember": number(min)})).collect()
    });
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "queue": words.value("queue"),
            "minMember": words.value("min").map(number),
            "minSubGroup": words.value("minparts").map(number),
            "subGroups": parts,
            "priorityClassName": words.value("class").unwrap_or("train"),
        },
    })
}

fn pod(name: &str, words: &Words<'_>, revision: u64) -> Value {
    let selector: BTreeMap<&str, &str> =
        words.value("selector").and_then(|pair| pair.split_once(':')).into_iter().collect();
    let tolerations: Vec<Value> = words
        .value("tolerates")
        .map(|key| json!({"key": key, "operator": "Exists"}))
        .into_iter()
        .collect();
    let gates: Vec<Value> =
        words.flag("gated").then(|| json!({"name": "hold"})).into_iter().collect();
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{revision}"),
            "annotations": {"pod-group-name": words.value("group")},
            "labels": {"kai.scheduler/subgroup-name": words.value("part")},
        },
        "spec": {
            "nodeSelector": selector,
            "tolerations": tolerations,
            "schedulingGates": gates,
            "resourceClaims": [{"resourceClaimName": words.value("claim")}],
            "containers": [{"resources": {"requests": {"nvidia.com/gpu": words.value("gpus")}}}],
        },
        "status": {"phase": "Pending"},
    })
}

/// `device=0 on=n1 for=a`: allocated there, for pod `a`; `zone=x` for `on`: allocated for all nodes
/// of that zone.
fn claim(name: &str, words: &Words<'_>, user: Option<&Value>) -> Value {
    let one_of = |key, value| json!({"key": key, "operator": "In", "values": [value]});
    let (class, term) = match words.value("zone") {
        Some(zone) => ("nic", json!({"matchExpressions": [one_of("zone", zone)]})),
        None => (
            "gpu",
            json!({"matchFields": [one_of("metadata.name", words.value("on").unwrap_or_default())]}),
        ),
    };
    let device = |device| json!({"driver": "gpu", "pool": words.value("on"), "device": device});
    let allocation = words.value("device").map(|one| {
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
