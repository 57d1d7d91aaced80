//! The audit of a replay: the objects of a case and the decisions of its replay, as writes to the API
//! that the rules of the audit judge. Rules about what only a running cluster has are left out: the
//! GPUs that a pod gets, and the statuses of queues.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use schedlab_api::{Value, annotations, conditions, json, object};
use schedlab_audit::{Audit, BoundLevels, ObjectKey, Rule, Rules, Violation, Write, WriteKind};
use schedlab_scheduler::{
    replay::{Replay, ReplayedDecision, replay_loaded},
    snapshot_file::{LoadedSnapshot, Overrides},
};

use crate::{Case, CaseError, KINDS};

/// The claim that the audit reports a rule: `audit 5`, or `audit quota and limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditClaim {
    /// The rule that is broken.
    pub rule: Rule,
}

/// Rules that a replay does not show.
const NOT_REPLAYED: [Rule; 2] = [Rule::Devices, Rule::Accounts];

/// Arrays of objects that the rules are about. Claims on devices are left out: a replay does not
/// write which devices they get.
const AUDITED: [&str; 5] = ["priorityClasses", "nodes", "queues", "podGroups", "pods"];

/// Time between two cycles: none of the writes of a cycle belongs to the next one.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);

impl AuditClaim {
    /// The prefix of such claims.
    pub const PREFIX: &'static str = "audit ";
}

impl FromStr for AuditClaim {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix(Self::PREFIX).unwrap_or(text).trim();
        let rules = || Rule::ALL.into_iter().filter(|rule| !NOT_REPLAYED.contains(rule));
        let is_it =
            |rule: &Rule| rule.rule_name() == name || rule.invariant_number().to_string() == name;
        let known = || {
            let names =
                rules().map(|rule| format!("{} ({})", rule.invariant_number(), rule.rule_name()));
            names.collect::<Vec<_>>().join(", ")
        };
        let found = rules().find(is_it);
        found.map(|rule| Self { rule }).ok_or_else(|| {
            format!("got audit {name}, expected audit and the number or name of a rule that a replay shows: {}", known())
        })
    }
}

impl fmt::Display for AuditClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.rule.rule_name())
    }
}

impl Case {
    /// Runs at most `cycles` scheduling cycles over the case, and audits the captured state and the
    /// decisions.
    ///
    /// # Errors
    /// A setting of the case is invalid.
    pub fn audited_replay(
        &self,
        overrides: &Overrides,
        cycles: u32,
    ) -> Result<(Replay, Vec<Violation>), CaseError> {
        let loaded = self.cluster.load(overrides)?;
        let mut writer = AuditedCluster::new(&loaded);
        let replay = replay_loaded(loaded, cycles);
        writer.create_objects(self);
        for decisions in &replay.cycles {
            writer.start_cycle();
            for decision in decisions {
                writer.apply(decision);
            }
            writer.remove_evicted();
        }
        let is_at_rest = replay.cycles.last().is_some_and(Vec::is_empty);
        Ok((replay, writer.finish(is_at_rest)))
    }
}

/// A cluster whose writes are audited.
struct AuditedCluster {
    audit: Audit,
    scheduler: Arc<str>,
    now: Timestamp,
    revision: u64,
    /// Pods by namespace and name, as they are now.
    pods: BTreeMap<String, Arc<Value>>,
    /// Pods that are evicted in this cycle.
    evicted: Vec<String>,
}

impl AuditedCluster {
    fn new(loaded: &LoadedSnapshot) -> Self {
        let config = loaded.config();
        let bounds = match (config.profile.uses_fair_shares, config.full_hierarchy_fairness) {
            (true, true) => BoundLevels::All,
            (true, false) => BoundLevels::LeafOnly,
            (false, _) => BoundLevels::None,
        };
        let rules = Rules { bounds, ..Rules::kai() };
        Self {
            audit: Audit::new(rules, &config.scheduler_name),
            scheduler: config.scheduler_name.as_str().into(),
            now: Timestamp::UNIX_EPOCH,
            revision: 0,
            pods: BTreeMap::new(),
            evicted: Vec::new(),
        }
    }

    /// Creates the objects of the case, as another client than the scheduler.
    fn create_objects(&mut self, case: &Case) {
        for kind in AUDITED.iter().filter_map(|array| KINDS.iter().find(|it| it.array == *array)) {
            for shared in case.cluster.objects.get(kind.array).into_iter().flatten() {
                let key = ObjectKey {
                    group: kind.group().into(),
                    plural: kind.plural.into(),
                    namespace: object::namespace(shared).into(),
                    name: object::name(shared).into(),
                };
                self.write(WriteKind::Create, key, Arc::clone(shared), None);
            }
        }
        let pods = case.cluster.objects.get("pods").into_iter().flatten();
        self.pods.extend(pods.map(|pod| (pod_key(pod), Arc::clone(pod))));
    }

    fn start_cycle(&mut self) {
        self.now += PERIOD;
    }

    fn apply(&mut self, decision: &ReplayedDecision) {
        match decision {
            ReplayedDecision::Bind { pod, node } => self.update_pod(pod, |pod| {
                pod["spec"]["nodeName"] = json!(node);
            }),
            ReplayedDecision::Evict { pod, preemptor, action } => {
                self.announce_eviction(pod, preemptor.as_deref(), action);
                let time = self.now.to_string();
                self.update_pod(pod, |object| {
                    object["metadata"]["deletionTimestamp"] = json!(time);
                    let condition = json!({ "type": conditions::DISRUPTION_TARGET, "status": "True",
                        "reason": conditions::PREEMPTION_BY_SCHEDULER, "message": pod });
                    object["status"]["conditions"] = json!([condition]);
                });
                self.evicted.push(pod.clone());
            }
            ReplayedDecision::Pipeline { .. } => {}
        }
    }

    /// Writes the event that tells why the scheduler evicts a pod. Its message is the name of the pod.
    fn announce_eviction(&mut self, pod: &str, preemptor: Option<&str>, action: &str) {
        let mut notes = json!({ (annotations::EVICTOR_ACTION): action });
        if let Some((namespace, name)) = preemptor.and_then(|group| group.split_once('/')) {
            notes[annotations::EVICTOR_POD_GROUP_NAMESPACE] = json!(namespace);
            notes[annotations::EVICTOR_POD_GROUP_NAME] = json!(name);
        }
        let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
        let event = json!({ "metadata": { "namespace": namespace, "name": name, "annotations": notes },
            "reason": "Evict", "message": pod, "involvedObject": { "kind": "PodGroup" } });
        let key = key_of("", "events", &event);
        self.write(WriteKind::Create, key, Arc::new(event), None);
    }

    /// Deletes the pods that were evicted, and creates them anew: they wait in the next cycle.
    fn remove_evicted(&mut self) {
        for name in std::mem::take(&mut self.evicted) {
            let Some(pod) = self.pods.remove(&name) else { continue };
            let key = key_of("", "pods", &pod);
            self.write(WriteKind::Delete, key.clone(), Arc::clone(&pod), Some(Arc::clone(&pod)));
            let mut new = Value::clone(&pod);
            new["status"] = json!({ "phase": "Pending" });
            object::remove(&mut new, &["metadata", "deletionTimestamp"]);
            object::remove(&mut new, &["spec", "nodeName"]);
            let new = Arc::new(new);
            self.pods.insert(name, Arc::clone(&new));
            self.write(WriteKind::Create, key, new, None);
        }
    }

    /// Changes a pod as the scheduler.
    fn update_pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(before) = self.pods.get(name).cloned() else { return };
        let mut after = Value::clone(&before);
        change(&mut after);
        let after = Arc::new(after);
        self.pods.insert(name.to_owned(), Arc::clone(&after));
        let key = key_of("", "pods", &after);
        self.write(WriteKind::Update, key, after, Some(before));
    }

    fn write(
        &mut self,
        kind: WriteKind,
        key: ObjectKey,
        object: Arc<Value>,
        previous: Option<Arc<Value>>,
    ) {
        self.revision += 1;
        let manager =
            if kind == WriteKind::Update { Arc::clone(&self.scheduler) } else { Arc::default() };
        let (revision, time) = (self.revision, self.now);
        self.audit.observe_write(&Write { revision, time, kind, key, object, previous, manager });
    }

    /// The violations. `is_at_rest`: the scheduler has nothing left to do.
    fn finish(mut self, is_at_rest: bool) -> Vec<Violation> {
        self.now += PERIOD;
        self.audit.advance_to(self.now);
        if is_at_rest {
            self.audit.check_at_rest(self.now);
        }
        let mut violations = self.audit.violations();
        violations.retain(|violation| !NOT_REPLAYED.contains(&violation.rule));
        violations
    }
}

fn pod_key(pod: &Value) -> String {
    format!("{}/{}", object::namespace(pod), object::name(pod))
}

fn key_of(group: &str, plural: &str, of: &Value) -> ObjectKey {
    ObjectKey {
        group: group.into(),
        plural: plural.into(),
        namespace: object::namespace(of).into(),
        name: object::name(of).into(),
    }
}

#[cfg(test)]
mod tests;
