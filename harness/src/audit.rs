//! The audit of a running cluster: are the scheduler's rules kept, after every write? The rules
//! themselves are the core's ([`schedlab_scheduler_core::audit`]); here their view is read from
//! raw API objects, never through the scheduler's own translation, and a breach is told with
//! the history that led to it.
//!
//! What a write costs depends on what it changes, not on the size of the cluster. Left out:
//! everything that no rule asks for.

mod apart;
mod departures;
mod devices;
mod history;
mod parts;
mod queue_status;
mod read;
mod zones;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use schedlab_emulator::Observer;
use schedlab_emulator::store::{EventKind, LogEntry, Object};
use schedlab_json::Value;
use schedlab_scheduler::Status;
use schedlab_scheduler_core::{
    audit::{Auditor, Rule, Rules, Writer},
    model::{Name, Time},
};
use tokio::sync::watch;

use crate::happenings::{asked_to_leave, eviction_cause};
pub(crate) use apart::Apart;
pub(crate) use departures::Departure;
use departures::Departures;
use devices::Devices;
pub(crate) use devices::{gpu_milli as gpu_milli_claimed, names as claim_names};
use history::History;
pub(crate) use parts::{gpu_memory_mib, paid_milli, reserves, shared_devices};
pub(crate) use read::{eviction, requests};

/// Follows one cluster. Clones share what they know, so one can observe and another be asked.
#[derive(Clone, Debug)]
pub struct Audit {
    state: Arc<Mutex<State>>,
}

/// A rule that was not kept, and how it came to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which rule.
    pub rule: Rule,
    /// When, as an offset from the first thing seen.
    pub at: String,
    /// What was found and what is allowed.
    pub detail: String,
    /// The last lines of the log about the objects involved, oldest first.
    pub history: Vec<String>,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, at, detail, history } = self;
        writeln!(f, "rule {} ({}) was broken at {at}: {detail}", rule.number(), rule.name())?;
        write!(f, "  how it came to this:")?;
        history.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

#[derive(Debug)]
struct State {
    scheduler: String,
    auditor: Auditor,
    /// Values of priority classes by name.
    priorities: BTreeMap<String, i32>,
    /// Pod groups as they came, to be read again when a priority class changes.
    groups: BTreeMap<Name, Object>,
    /// Queues as they came: what they say of themselves is judged at rest.
    queues: BTreeMap<Name, Object>,
    /// Nodes as they came, to be read again when their devices change.
    nodes: BTreeMap<Name, Object>,
    /// `NodeResourceTopology` objects as they came.
    topologies: BTreeMap<Name, Object>,
    devices: Devices,
    /// MiB of each GPU, by node.
    gpu_memory: BTreeMap<Name, i64>,
    history: History,
    departures: Departures,
    breaches: Vec<Breach>,
    /// What the scheduler tells of its cycles.
    pulse: Option<watch::Receiver<Status>>,
}

impl Audit {
    /// An audit by `rules` of the scheduler that writes under the field manager `scheduler`.
    pub fn new(rules: Rules, scheduler: &str) -> Self {
        let state = State {
            scheduler: scheduler.to_owned(),
            auditor: Auditor::new(rules),
            priorities: BTreeMap::new(),
            groups: BTreeMap::new(),
            queues: BTreeMap::new(),
            nodes: BTreeMap::new(),
            topologies: BTreeMap::new(),
            devices: Devices::default(),
            gpu_memory: BTreeMap::new(),
            history: History::default(),
            departures: Departures::default(),
            breaches: Vec::new(),
            pulse: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Has it hear when cycles end: in real time the writes of one may take their time.
    pub fn listen(&self, pulse: watch::Receiver<Status>) {
        self.state().pulse = Some(pulse);
    }

    /// What to hand to the store: it sees every write, in the order of revisions.
    pub fn observer(&self) -> Observer {
        let audit = self.clone();
        Box::new(move |entry| audit.observe(entry))
    }

    /// One write.
    pub fn observe(&self, entry: &Arc<LogEntry>) {
        let mut state = self.state();
        if let Some(cycles) = state.pulse.as_ref().map(|pulse| pulse.borrow().cycles) {
            state.auditor.cycles_ended(cycles);
        }
        state.history.push(entry);
        let State { departures, scheduler, .. } = &mut *state;
        departures.observe(entry, scheduler);
        state.tell(entry);
        state.collect();
    }

    /// Nothing has been moving, with a scheduler that has had its say: half a gang or a queue
    /// status that does not add up is a breach now.
    pub fn at_rest(&self, now: Timestamp) {
        let mut state = self.state();
        let at = moment(now);
        state.auditor.at_rest(at);
        let said: Vec<_> = state
            .queues
            .iter()
            .filter_map(|(name, queue)| Some((name.clone(), queue_status::allocated(queue)?)))
            .collect();
        for (queue, allocated) in said {
            state.auditor.queue_status(at, &queue, &allocated);
        }
        state.collect();
    }

    /// The scheduler was killed at this moment: what it was in the middle of may stay half done
    /// until the next [`Self::at_rest`].
    pub fn scheduler_killed(&self, now: Timestamp) {
        self.state().auditor.scheduler_killed(moment(now));
    }

    /// Running pods that were taken away for no reason that anybody but the scheduler had.
    pub(crate) fn unexplained(&self, now: Timestamp) -> Vec<Departure> {
        self.state().departures.unexplained(now).cloned().collect()
    }

    /// Everything broken so far, in the order in which it was noticed.
    pub fn breaches(&self) -> Vec<Breach> {
        self.state().breaches.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&mut self, entry: &LogEntry) {
        let (at, key) = (moment(entry.time), &entry.key);
        let gone = entry.kind == EventKind::Deleted;
        let object = (!gone).then_some(&entry.object);
        match (&*key.resource.group, &*key.resource.plural) {
            ("", "pods") => self.pod(at, entry, object),
            ("", "nodes") => {
                if let Some(node) = object {
                    self.gpu_memory.insert(key.name.clone(), gpu_memory_mib(node));
                }
                keep(&mut self.nodes, &key.name, object);
                self.node(at, &key.name);
            }
            ("scheduling.run.ai", "queues") => {
                if keep(&mut self.queues, &key.name, object) {
                    self.auditor.queue(at, &key.name, object.map(|queue| read::queue(queue)));
                }
                self.auditor.passed(at);
            }
            ("scheduling.run.ai", "podgroups") => {
                let name = full_name(entry);
                if keep(&mut self.groups, &name, object) {
                    let group = object.map(|group| read::group(group, &self.priorities));
                    self.auditor.group(at, &name, group);
                }
                self.auditor.passed(at);
            }
            ("resource.k8s.io", "resourceclaims") => {
                let name = full_name(entry);
                self.devices.claim(&name, object);
                self.auditor.claim(at, &name, object.map(|claim| devices::claim(claim)));
            }
            ("resource.k8s.io", "resourceslices") => {
                if let Some(node) = self.devices.slice(&key.name, object) {
                    self.node(at, &node);
                }
            }
            ("topology.node.k8s.io", "noderesourcetopologies") => {
                keep(&mut self.topologies, &key.name, object);
                self.node(at, &key.name);
            }
            ("scheduling.k8s.io", "priorityclasses") => self.priority_class(at, entry),
            _ => self.auditor.passed(at),
        }
    }

    fn node(&mut self, at: Time, name: &Name) {
        let node = self.nodes.get(name);
        let topology = self.topologies.get(name).map(|topology| &**topology);
        let view = node.map(|node| self.devices.add_to(read::node(node), name));
        let view = view.map(|view| zones::add_to(view, topology));
        self.auditor.node(at, name, view);
    }

    fn pod(&mut self, at: Time, entry: &LogEntry, object: Option<&Object>) {
        let name = full_name(entry);
        let read = |pod| self.devices.add_claims(read::pod(pod), pod);
        let pod = object.map(|pod| parts::add(read(pod), pod, &self.gpu_memory));
        // A DELETE names no field manager; the pod was told who evicts it.
        let cause = eviction_cause(&entry.object).filter(|_| asked_to_leave(entry));
        let scheduler = cause.is_some() || *entry.manager == *self.scheduler;
        let writer = if scheduler { Writer::Scheduler } else { Writer::Other };
        if let Some(eviction) = cause.and_then(|cause| eviction(&name, cause)) {
            self.auditor.evicted_for(at, &eviction);
        }
        self.auditor.pod(at, &name, pod.as_ref(), writer);
    }

    fn priority_class(&mut self, at: Time, entry: &LogEntry) {
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
        for (name, group) in &self.groups {
            self.auditor.group(at, name, Some(read::group(group, &self.priorities)));
        }
    }

    /// Takes over what the auditor has newly found, with the history as it is now.
    fn collect(&mut self) {
        for breach in &self.auditor.breaches()[self.breaches.len()..] {
            self.breaches.push(Breach {
                rule: breach.rule,
                at: self.history.offset(breach.at),
                detail: breach.detail.clone(),
                history: self.history.about(&breach.concerns),
            });
        }
    }
}

/// Keeps an object. Answers whether its spec is another now: most writes change a status only.
fn keep(objects: &mut BTreeMap<Name, Object>, name: &Name, object: Option<&Object>) -> bool {
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

fn moment(time: Timestamp) -> Time {
    Time(time.as_millisecond())
}
