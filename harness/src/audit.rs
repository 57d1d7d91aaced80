//! The audit of a running cluster: checks the scheduler's rules after every write. The rules are
//! the core's ([`schedlab_audit`]). Their view of the cluster is read here from raw
//! API objects, never through the scheduler's own conversion, and a violation comes with the
//! history that led to it.
//!
//! The cost of a write depends on what it changes, not on the size of the cluster. Fields that no
//! rule needs are not read.

mod background;
mod devices;
mod gpu_fractions;
mod history;
mod numa;
mod parse;
mod queue_status;
mod unexplained_deletions;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use schedlab_api::Value;
use schedlab_audit::{Auditor, Name, Rule, Rules, Time, Writer};
use schedlab_emulator::Observer;
use schedlab_emulator::store::{EventKind, LogEntry, Object};
use schedlab_scheduler::Progress;
use tokio::sync::watch;

use crate::change::{eviction_message, requests_deletion};
pub(crate) use background::BackgroundAudit;
use devices::Devices;
pub(crate) use devices::{claim_names, claimed_gpu_milli};
pub(crate) use gpu_fractions::{charged_milli, gpu_memory_mib, is_reservation_pod, shared_devices};
use history::History;
pub(crate) use parse::{parse_eviction, pod_requests};
pub(crate) use unexplained_deletions::PodDeletion;
use unexplained_deletions::PodDeletions;

/// The audit of one cluster. Clones share their state, so one can observe and another be queried.
#[derive(Clone, Debug)]
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

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, at, detail, history } = self;
        writeln!(f, "rule {} ({}) was violated at {at}: {detail}", rule.number(), rule.name())?;
        write!(f, "  history:")?;
        history.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

#[derive(Debug)]
struct State {
    scheduler: String,
    auditor: Auditor,
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
    /// The scheduler's status, reported after each cycle.
    status: Option<watch::Receiver<Progress>>,
}

impl Audit {
    /// An audit of the scheduler that writes with the field manager `scheduler`.
    pub fn new(rules: Rules, scheduler: &str) -> Self {
        let state = State {
            scheduler: scheduler.to_owned(),
            auditor: Auditor::new(rules),
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
            status: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the source of the scheduler's cycle count: in real time, the writes of one cycle may
    /// take a while.
    pub fn follow_status(&self, status: watch::Receiver<Progress>) {
        self.state().status = Some(status);
    }

    /// An observer for the store, which calls it for every write in the order of revisions.
    pub fn observer(&self) -> Observer {
        let audit = self.clone();
        Box::new(move |entry| audit.observe(entry))
    }

    /// Observes one write.
    pub fn observe(&self, entry: &Arc<LogEntry>) {
        let mut state = self.state();
        if let Some(cycles) = state.status.as_ref().map(|status| status.borrow().cycles) {
            state.auditor.cycles_ended(cycles);
        }
        state.history.push(entry);
        let State { deletions: departures, scheduler, .. } = &mut *state;
        departures.observe(entry, scheduler);
        state.apply(entry);
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
            .filter_map(|(name, queue)| Some((name.clone(), queue_status::allocated(queue)?)))
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
    pub(crate) fn unexplained_deletions(&self, now: Timestamp) -> Vec<PodDeletion> {
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
    fn apply(&mut self, entry: &LogEntry) {
        let (at, key) = (to_time(entry.time), &entry.key);
        let gone = entry.kind == EventKind::Deleted;
        let object = (!gone).then_some(&entry.object);
        match (&*key.resource.group, &*key.resource.plural) {
            ("", "pods") => self.apply_pod(at, entry, object),
            ("", "nodes") => {
                if let Some(node) = object {
                    self.gpu_memory.insert(key.name.clone(), gpu_memory_mib(node));
                }
                update_object(&mut self.nodes, &key.name, object);
                self.apply_node(at, &key.name);
            }
            ("scheduling.run.ai", "queues") => {
                if update_object(&mut self.queues, &key.name, object) {
                    self.auditor.queue(at, &key.name, object.map(|queue| parse::queue_view(queue)));
                }
                self.auditor.advance_to(at);
            }
            ("scheduling.run.ai", "podgroups") => {
                let name = full_name(entry);
                if update_object(&mut self.pod_groups, &name, object) {
                    let group = object.map(|group| parse::group_view(group, &self.priorities));
                    self.auditor.group(at, &name, group);
                }
                self.auditor.advance_to(at);
            }
            ("resource.k8s.io", "resourceclaims") => {
                let name = full_name(entry);
                self.devices.update_claim(&name, object);
                self.auditor.claim(at, &name, object.map(|claim| devices::claim_view(claim)));
            }
            ("resource.k8s.io", "resourceslices") => {
                if let Some(node) = self.devices.update_slice(&key.name, object) {
                    self.apply_node(at, &node);
                }
            }
            ("topology.node.k8s.io", "noderesourcetopologies") => {
                update_object(&mut self.topologies, &key.name, object);
                self.apply_node(at, &key.name);
            }
            ("scheduling.k8s.io", "priorityclasses") => self.apply_priority_class(at, entry),
            _ => self.auditor.advance_to(at),
        }
    }

    fn apply_node(&mut self, at: Time, name: &Name) {
        let node = self.nodes.get(name);
        let topology = self.topologies.get(name).map(|topology| &**topology);
        let view = node.map(|node| self.devices.add_published_gpus(parse::node_view(node), name));
        let view = view.map(|view| numa::add_numa_zones(view, topology));
        self.auditor.node(at, name, view);
    }

    fn apply_pod(&mut self, at: Time, entry: &LogEntry, object: Option<&Object>) {
        let name = full_name(entry);
        let read = |pod| self.devices.add_claims(parse::pod_view(pod), pod);
        let pod = object.map(|pod| gpu_fractions::add_fractions(read(pod), pod, &self.gpu_memory));
        // A DELETE has no field manager; the scheduler announces an eviction in the pod's
        // condition.
        let cause = eviction_message(&entry.object).filter(|_| requests_deletion(entry));
        let scheduler = cause.is_some() || *entry.manager == *self.scheduler;
        let writer = if scheduler { Writer::Scheduler } else { Writer::Other };
        if let Some(eviction) = cause.and_then(|cause| parse_eviction(&name, cause)) {
            self.auditor.eviction(at, &eviction);
        }
        self.auditor.pod(at, &name, pod.as_ref(), writer);
    }

    fn apply_priority_class(&mut self, at: Time, entry: &LogEntry) {
        let name = entry.key.name.to_string();
        match entry.kind {
            EventKind::Added | EventKind::Modified => {
                let value = entry.object.get("value").and_then(Value::as_i64).unwrap_or(0);
                self.priorities.insert(name, i32::try_from(value).unwrap_or(i32::MAX));
            }
            EventKind::Deleted => {
                self.priorities.remove(&name);
            }
        }
        for (name, group) in &self.pod_groups {
            self.auditor.group(at, name, Some(parse::group_view(group, &self.priorities)));
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

/// Stores an object's new state. Returns whether its spec changed: most writes change only the
/// status.
fn update_object(
    objects: &mut BTreeMap<Name, Object>,
    name: &Name,
    object: Option<&Object>,
) -> bool {
    let known = match object {
        Some(object) => objects.insert(name.clone(), object.clone()),
        None => objects.remove(name),
    };
    match (known, object) {
        (Some(known), Some(now)) => known.get("spec") != now.get("spec"),
        (known, now) => known.is_some() || now.is_some(),
    }
}

fn full_name(entry: &LogEntry) -> Name {
    format!("{}/{}", entry.key.namespace, entry.key.name).into()
}

fn to_time(time: Timestamp) -> Time {
    Time(time.as_millisecond())
}
