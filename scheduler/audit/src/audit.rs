//! The audit of a running cluster: checks the rules after every write. Their view of the cluster is
//! read from raw API objects, and a violation comes with the history that led to it.
//!
//! The cost of a write depends on what it changes, not on the size of the cluster. Fields that no
//! rule needs are not read.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use schedlab_api::{Value, api_versions};

use crate::{
    change::{eviction_message, requests_deletion},
    eviction_causes::{EvictionCause, EvictionCauses},
    history::History,
    rules::{AuditProfile, Auditor, Eviction, Name, Rule, Rules, Time, Writer},
    unexplained_deletions::{PodDeletion, PodDeletions},
    views::{self, ObservedDevices},
    write::{Object, Write, WriteKind, update_object},
};

/// A function that returns the number of cycles that the scheduler has completed.
pub type CycleCounter = Box<dyn Fn() -> u64 + Send>;

/// The audit of one cluster. Clones share their state, so one can observe and another be queried.
#[derive(Clone)]
pub struct Audit {
    state: Arc<Mutex<AuditState>>,
}

/// A violated rule, and the history that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that was violated.
    pub rule: Rule,
    /// Time of the violation, as an offset from the first observed write, such as `+1.5s`.
    pub at: String,
    /// The observed state and the allowed state, with numbers.
    pub detail: String,
    /// The last log lines about the objects involved, oldest first.
    pub history: Vec<String>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, at, detail, history } = self;
        writeln!(
            f,
            "rule {} ({}) was violated at {at}: {detail}",
            rule.invariant_number(),
            rule.rule_name()
        )?;
        write!(f, "  history:")?;
        history.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

struct AuditState {
    scheduler: String,
    profile: AuditProfile,
    auditor: Auditor,
    eviction_causes: EvictionCauses,
    /// Values of priority classes by name.
    priorities: BTreeMap<String, i32>,
    /// Pod groups as last observed, to be converted again when a priority class changes.
    pod_groups: BTreeMap<Name, Object>,
    /// Queues as last observed; their status is checked when the cluster is idle.
    queues: BTreeMap<Name, Object>,
    /// Nodes as last observed, to be converted again when their devices change.
    nodes: BTreeMap<Name, Object>,
    /// `NodeResourceTopology` objects as last observed.
    topologies: BTreeMap<Name, Object>,
    devices: ObservedDevices,
    /// Memory of each GPU in MiB, by node.
    gpu_memory: BTreeMap<Name, i64>,
    history: History,
    deletions: PodDeletions,
    violations: Vec<Violation>,
    cycle_counter: Option<CycleCounter>,
}

impl Audit {
    /// An audit of the scheduler that writes with the field manager `scheduler`.
    pub fn new(rules: Rules, scheduler: &str) -> Self {
        let state = AuditState {
            scheduler: scheduler.to_owned(),
            profile: rules.profile,
            auditor: Auditor::new(rules),
            eviction_causes: EvictionCauses::default(),
            priorities: BTreeMap::new(),
            pod_groups: BTreeMap::new(),
            queues: BTreeMap::new(),
            nodes: BTreeMap::new(),
            topologies: BTreeMap::new(),
            devices: ObservedDevices::default(),
            gpu_memory: BTreeMap::new(),
            history: History::default(),
            deletions: PodDeletions::default(),
            violations: Vec::new(),
            cycle_counter: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the function that counts the scheduler's completed cycles. In real time, the writes of
    /// one cycle may take a while, so gangs are checked by cycles instead of by time.
    pub fn set_cycle_counter(&self, counter: CycleCounter) {
        self.lock_state().cycle_counter = Some(counter);
    }

    /// Observes one write. Callers pass writes in the order of their revisions.
    pub fn observe_write(&self, write: &Write) {
        let mut state = self.lock_state();
        if let Some(cycles) = state.cycle_counter.as_ref().map(|counter| counter()) {
            state.auditor.observe_completed_cycles(cycles);
        }
        state.history.push_write(write);
        let AuditState { deletions, scheduler, .. } = &mut *state;
        deletions.observe_write(write, scheduler);
        state.apply_write(write);
        state.collect_breaches();
    }

    /// Observes that no write happened until `now`: changes of gangs that are older are checked.
    pub fn advance_to(&self, now: Timestamp) {
        let mut state = self.lock_state();
        state.auditor.advance_to(to_time(now));
        state.collect_breaches();
    }

    /// Checks rules that hold only when the cluster is idle and the scheduler had time to act: an
    /// incomplete gang or a wrong queue status is a violation now.
    pub fn check_at_rest(&self, now: Timestamp) {
        let mut state = self.lock_state();
        let at = to_time(now);
        state.auditor.check_quiescent_cluster(at);
        let allocations: Vec<_> = state
            .queues
            .iter()
            .filter_map(|(name, queue)| Some((name.clone(), views::reported_allocation(queue)?)))
            .collect();
        for (queue, allocated) in allocations {
            state.auditor.check_queue_status(at, &queue, &allocated);
        }
        state.collect_breaches();
    }

    /// Records that the scheduler was killed at `now`: its unfinished changes may stay incomplete
    /// until the next [`Self::check_at_rest`].
    pub fn record_scheduler_kill(&self, now: Timestamp) {
        self.lock_state().auditor.record_scheduler_kill(to_time(now));
    }

    /// Running pods that were deleted although no controller, node or user gave a reason to delete
    /// them.
    pub fn unexplained_deletions(&self, now: Timestamp) -> Vec<PodDeletion> {
        self.lock_state().deletions.unexplained_deletions(now).cloned().collect()
    }

    /// All violations so far, in the order of their discovery.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock_state().violations.clone()
    }

    fn lock_state(&self) -> MutexGuard<'_, AuditState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditState {
    fn apply_write(&mut self, write: &Write) {
        let (at, key) = (to_time(write.time), &write.key);
        let gone = write.kind == WriteKind::Delete;
        let object = (!gone).then_some(&write.object);
        match (&*key.group, &*key.plural) {
            ("", "pods") => self.apply_pod(at, write, object),
            (_, "events") => {
                if let Some(event) = object {
                    self.eviction_causes.observe_event(event);
                }
                self.auditor.advance_to(at);
            }
            ("", "nodes") => {
                if let Some(node) = object {
                    self.gpu_memory.insert(key.name.clone(), views::gpu_memory_mib(node));
                }
                update_object(&mut self.nodes, &key.name, object);
                self.apply_node(at, &key.name);
            }
            (api_versions::SCHEDULING_GROUP, "queues") => {
                if update_object(&mut self.queues, &key.name, object) {
                    self.auditor.observe_queue(
                        at,
                        &key.name,
                        object.map(|queue| views::queue_view(queue)),
                    );
                }
                self.auditor.advance_to(at);
            }
            (api_versions::SCHEDULING_GROUP, "podgroups") => {
                let name = full_name(write);
                if update_object(&mut self.pod_groups, &name, object) {
                    let group = object.map(|group| views::group_view(group, &self.priorities));
                    self.auditor.observe_pod_group(at, &name, group);
                }
                self.auditor.advance_to(at);
            }
            ("resource.k8s.io", "resourceclaims") => {
                let name = full_name(write);
                self.devices.update_claim(&name, object);
                self.auditor.observe_claim(at, &name, object.map(|claim| views::claim_view(claim)));
            }
            ("resource.k8s.io", "resourceslices") => {
                for node in self.devices.update_slice(&key.name, object) {
                    self.apply_node(at, &node);
                }
            }
            ("topology.node.k8s.io", "noderesourcetopologies") => {
                update_object(&mut self.topologies, &key.name, object);
                self.apply_node(at, &key.name);
            }
            ("scheduling.k8s.io", "priorityclasses") => self.apply_priority_class(at, write),
            _ => self.auditor.advance_to(at),
        }
    }

    fn apply_node(&mut self, at: Time, name: &Name) {
        let node = self.nodes.get(name);
        let topology = self.topologies.get(name).map(|topology| &**topology);
        let view = node.map(|node| self.devices.add_published_gpus(views::node_view(node), name));
        let view = view.map(|view| views::add_numa_zones(view, topology));
        self.auditor.observe_node(at, name, view);
    }

    fn apply_pod(&mut self, at: Time, write: &Write, object: Option<&Object>) {
        let name = full_name(write);
        let read = |pod| self.devices.add_claimed_devices(views::pod_view(pod), pod);
        let pod = object.map(|pod| views::add_gpu_fractions(read(pod), pod, &self.gpu_memory));
        // A DELETE has no field manager; the scheduler announces an eviction in the pod's
        // condition.
        let cause = eviction_message(&write.object).filter(|_| requests_deletion(write));
        let scheduler = cause.is_some() || *write.manager == *self.scheduler;
        let writer = if scheduler { Writer::Scheduler } else { Writer::Other };
        if let Some(cause) = cause.filter(|_| self.profile == AuditProfile::Kai) {
            self.apply_eviction(at, &name, &write.object, cause);
        }
        self.auditor.observe_pod(at, &name, pod.as_ref(), writer);
        if object.is_none() {
            self.eviction_causes.forget_pod(&write.object);
        }
    }

    fn apply_eviction(&mut self, at: Time, name: &Name, pod: &Value, message: &str) {
        match self.eviction_causes.cause_of_eviction(pod, message) {
            Ok(EvictionCause::Preemptor { kind, preemptor }) => {
                self.auditor.observe_eviction(at, &Eviction { pod: name.clone(), preemptor, kind });
            }
            Ok(EvictionCause::StaleGang) => {}
            Err(unknown) => self.auditor.report_unknown_cause(at, name, &unknown.to_string()),
        }
    }

    fn apply_priority_class(&mut self, at: Time, write: &Write) {
        let name = write.key.name.to_string();
        match write.kind {
            WriteKind::Create | WriteKind::Update => {
                let value = write.object.get("value").and_then(Value::as_i64).unwrap_or(0);
                self.priorities.insert(name, i32::try_from(value).unwrap_or(i32::MAX));
            }
            WriteKind::Delete => {
                self.priorities.remove(&name);
            }
        }
        for (name, group) in &self.pod_groups {
            self.auditor.observe_pod_group(
                at,
                name,
                Some(views::group_view(group, &self.priorities)),
            );
        }
    }

    /// Copies new violations from the auditor, with the history so far.
    fn collect_breaches(&mut self) {
        for breach in &self.auditor.breaches()[self.violations.len()..] {
            self.violations.push(Violation {
                rule: breach.rule,
                at: self.history.offset_text(breach.at),
                detail: breach.detail.clone(),
                history: self.history.lines_about(&breach.objects),
            });
        }
    }
}

fn full_name(write: &Write) -> Name {
    format!("{}/{}", write.key.namespace, write.key.name).into()
}

fn to_time(time: Timestamp) -> Time {
    Time(time.as_millisecond())
}
