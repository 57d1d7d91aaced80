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
    views::{self, Devices},
    write::{Object, Write, WriteKind, update_object},
};

/// Returns the number of cycles that the scheduler has completed.
pub type CycleCounter = Box<dyn Fn() -> u64 + Send>;

/// The audit of one cluster. Clones share their state, so one can observe and another be queried.
#[derive(Clone)]
pub struct Audit {
    state: Arc<Mutex<State>>,
}

/// A violated rule, and the history that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// When, as an offset from the first observed write.
    pub at: String,
    /// What was observed and what is allowed.
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
        writeln!(f, "rule {} ({}) was violated at {at}: {detail}", rule.number(), rule.name())?;
        write!(f, "  history:")?;
        history.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

struct State {
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
    devices: Devices,
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
        let state = State {
            scheduler: scheduler.to_owned(),
            profile: rules.profile,
            auditor: Auditor::new(rules),
            eviction_causes: EvictionCauses::default(),
            priorities: BTreeMap::new(),
            pod_groups: BTreeMap::new(),
            queues: BTreeMap::new(),
            nodes: BTreeMap::new(),
            topologies: BTreeMap::new(),
            devices: Devices::default(),
            gpu_memory: BTreeMap::new(),
            history: History::default(),
            deletions: PodDeletions::default(),
            violations: Vec::new(),
            cycle_counter: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the source of the scheduler's cycle count: in real time, the writes of one cycle may
    /// take a while.
    pub fn follow_cycles(&self, counter: CycleCounter) {
        self.state().cycle_counter = Some(counter);
    }

    /// Observes one write. Writes are observed in the order of revisions.
    pub fn observe(&self, write: &Write) {
        let mut state = self.state();
        if let Some(cycles) = state.cycle_counter.as_ref().map(|counter| counter()) {
            state.auditor.cycles_ended(cycles);
        }
        state.history.push(write);
        let State { deletions, scheduler, .. } = &mut *state;
        deletions.observe(write, scheduler);
        state.apply(write);
        state.collect_breaches();
    }

    /// Checks rules that hold only when the cluster is idle and the scheduler had time to act: an
    /// incomplete gang or a wrong queue status is a violation now.
    pub fn at_rest(&self, now: Timestamp) {
        let mut state = self.state();
        let at = to_time(now);
        state.auditor.quiescent(at);
        let allocations: Vec<_> = state
            .queues
            .iter()
            .filter_map(|(name, queue)| Some((name.clone(), views::reported_allocation(queue)?)))
            .collect();
        for (queue, allocated) in allocations {
            state.auditor.queue_status(at, &queue, &allocated);
        }
        state.collect_breaches();
    }

    /// The scheduler was killed at this moment: whatever it was doing may stay incomplete until the
    /// next [`Self::at_rest`].
    pub fn scheduler_killed(&self, now: Timestamp) {
        self.state().auditor.scheduler_killed(to_time(now));
    }

    /// Running pods that were deleted although nobody but the scheduler had a reason.
    pub fn unexplained_deletions(&self, now: Timestamp) -> Vec<PodDeletion> {
        self.state().deletions.unexplained(now).cloned().collect()
    }

    /// All violations so far, in the order of their discovery.
    pub fn violations(&self) -> Vec<Violation> {
        self.state().violations.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, write: &Write) {
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
                    self.auditor.queue(at, &key.name, object.map(|queue| views::queue_view(queue)));
                }
                self.auditor.advance_to(at);
            }
            (api_versions::SCHEDULING_GROUP, "podgroups") => {
                let name = full_name(write);
                if update_object(&mut self.pod_groups, &name, object) {
                    let group = object.map(|group| views::group_view(group, &self.priorities));
                    self.auditor.group(at, &name, group);
                }
                self.auditor.advance_to(at);
            }
            ("resource.k8s.io", "resourceclaims") => {
                let name = full_name(write);
                self.devices.update_claim(&name, object);
                self.auditor.claim(at, &name, object.map(|claim| views::claim_view(claim)));
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
        self.auditor.node(at, name, view);
    }

    fn apply_pod(&mut self, at: Time, write: &Write, object: Option<&Object>) {
        let name = full_name(write);
        let read = |pod| self.devices.add_claims(views::pod_view(pod), pod);
        let pod = object.map(|pod| views::add_fractions(read(pod), pod, &self.gpu_memory));
        // A DELETE has no field manager; the scheduler announces an eviction in the pod's
        // condition.
        let cause = eviction_message(&write.object).filter(|_| requests_deletion(write));
        let scheduler = cause.is_some() || *write.manager == *self.scheduler;
        let writer = if scheduler { Writer::Scheduler } else { Writer::Other };
        if let Some(cause) = cause.filter(|_| self.profile == AuditProfile::Kai) {
            self.apply_eviction(at, &name, &write.object, cause);
        }
        self.auditor.pod(at, &name, pod.as_ref(), writer);
        if object.is_none() {
            self.eviction_causes.forget(&write.object);
        }
    }

    fn apply_eviction(&mut self, at: Time, name: &Name, pod: &Value, message: &str) {
        match self.eviction_causes.cause(pod, message) {
            Ok(EvictionCause::Preemptor { kind, preemptor }) => {
                self.auditor.eviction(at, &Eviction { pod: name.clone(), preemptor, kind });
            }
            Ok(EvictionCause::StaleGang) => {}
            Err(unknown) => self.auditor.unknown_cause(at, name, &unknown.to_string()),
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
            self.auditor.group(at, name, Some(views::group_view(group, &self.priorities)));
        }
    }

    /// Copies new violations from the auditor, with the history so far.
    fn collect_breaches(&mut self) {
        for breach in &self.auditor.breaches()[self.violations.len()..] {
            self.violations.push(Violation {
                rule: breach.rule,
                at: self.history.offset(breach.at),
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
