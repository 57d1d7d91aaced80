//! What happened to the trace's work, counted write by write: who waited how long, how much of
//! the fleet was given away and used, and what was evicted. What the player has to react to is
//! left in the outbox.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schedlab_emulator::store::{EventKind, LogEntry};
use schedlab_json::Value;

use super::{
    objects::{self, Scheduler},
    trace::TraceJob,
};
use crate::{
    fields::text,
    happenings::{asked_to_leave, eviction_cause, waiting_reason},
};

/// Something for the player to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// A pod has finished: it can be cleaned away.
    Finished(String),
    /// The last pod of a job that was evicted is gone: it starts over.
    Displaced(usize),
}

/// The counts so far.
pub(super) struct Tally {
    scheduler: String,
    jobs: Vec<JobTally>,
    /// Which job a pod belongs to.
    pods: BTreeMap<String, usize>,
    nodes: BTreeMap<String, Node>,
    pub(super) fleet: Fleet,
    pub(super) outbox: Vec<Note>,
    /// Bound pods that will finish by themselves.
    pub(super) finite: usize,
    last: Option<Timestamp>,
}

/// One job.
#[derive(Clone, Debug, Default)]
pub(super) struct JobTally {
    taken_milli: u64,
    used_milli: u64,
    finite: bool,
    pods: u64,
    bound: BTreeMap<String, Bound>,
    came: Option<Timestamp>,
    evicted: bool,
    /// Seconds from coming to being bound whole, each time that happened.
    pub(super) waits: Vec<f64>,
    pub(super) evictions: u64,
    /// What one of its pods was told last while it waited.
    pub(super) told: String,
}

#[derive(Clone, Debug)]
struct Bound {
    node: String,
    running: bool,
}

#[derive(Clone, Debug, Default)]
struct Node {
    milli: u64,
    taken_milli: u64,
}

/// The fleet's GPUs over time, in thousandths of one.
#[derive(Clone, Debug, Default)]
pub(super) struct Fleet {
    pub(super) milli: u64,
    /// Bound to pods.
    pub(super) taken_milli: u64,
    pub(super) taken_peak_milli: u64,
    /// Really used by running pods.
    busy_milli: u64,
    /// Free, but on a node of which something is taken.
    stranded_milli: u64,
    pub(super) secs: f64,
    /// GPUs times seconds, here and below.
    pub(super) taken_secs: f64,
    pub(super) busy_secs: f64,
    pub(super) stranded_secs: f64,
}

impl Tally {
    pub(super) fn new(jobs: &[TraceJob], scheduler: &Scheduler) -> Self {
        let whole = |job: &TraceJob| job.gpus.saturating_mul(1000);
        let shares = |job: &TraceJob| job.share().filter(|_| scheduler.shares_gpus);
        let job = |job: &TraceJob| JobTally {
            taken_milli: shares(job).map_or(whole(job), |each| each * job.gpus),
            used_milli: job.gpu_milli,
            finite: matches!(job.end, super::trace::End::RunsSecs(_)),
            pods: job.pods,
            ..JobTally::default()
        };
        Self {
            scheduler: scheduler.name.clone(),
            jobs: jobs.iter().map(job).collect(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            fleet: Fleet::default(),
            outbox: Vec::new(),
            finite: 0,
            last: None,
        }
    }

    pub(super) fn jobs(&self) -> &[JobTally] {
        &self.jobs
    }

    /// A pod of this job is about to be created.
    pub(super) fn expect(&mut self, pod: &str, job: usize) {
        self.pods.insert(pod.to_owned(), job);
    }

    pub(super) fn observe(&mut self, entry: &LogEntry) {
        match (&*entry.key.resource.group, &*entry.key.resource.plural) {
            ("", "nodes") => self.node(entry),
            ("", "pods") if &*entry.key.namespace == objects::NAMESPACE => self.pod(entry),
            _ => {}
        }
    }

    /// Lets time pass up to `now`.
    fn pass(&mut self, now: Timestamp) {
        let secs = self.last.map_or(0.0, |last| now.duration_since(last).as_secs_f64());
        self.last = Some(now);
        let fleet = &mut self.fleet;
        fleet.secs += secs;
        fleet.taken_secs += secs * figure(fleet.taken_milli) / 1000.0;
        fleet.busy_secs += secs * figure(fleet.busy_milli) / 1000.0;
        fleet.stranded_secs += secs * figure(fleet.stranded_milli) / 1000.0;
    }

    fn node(&mut self, entry: &LogEntry) {
        let gpus = text(&entry.object, "/status/allocatable/nvidia.com~1gpu");
        let milli = 1000 * gpus.and_then(|gpus| gpus.parse::<u64>().ok()).unwrap_or(0);
        let node = self.nodes.entry(entry.key.name.to_string()).or_default();
        self.fleet.milli = self.fleet.milli - node.milli + milli;
        node.milli = milli;
    }

    fn pod(&mut self, entry: &LogEntry) {
        let name = &*entry.key.name;
        let Some(at) = self.pods.get(name).copied() else { return };
        self.pass(entry.time);
        let pod = &entry.object;
        let phase = text(pod, "/status/phase").unwrap_or_default();
        let finished = matches!(phase, "Succeeded" | "Failed");
        match entry.kind {
            EventKind::Added => self.jobs[at].come(entry.time),
            EventKind::Modified => {
                self.jobs[at].hear(name, pod);
                self.evicted(at, entry);
                if finished {
                    self.release(at, name);
                    let leaves = pod.pointer("/metadata/deletionTimestamp").is_some();
                    self.outbox.extend((!leaves).then(|| Note::Finished(name.to_owned())));
                } else if let Some(node) = text(pod, "/spec/nodeName") {
                    self.bind(at, name, node, entry.time);
                    self.run(at, name, phase == "Running");
                }
            }
            EventKind::Deleted => {
                self.evicted(at, entry);
                self.release(at, name);
                self.pods.remove(name);
                let job = &mut self.jobs[at];
                if job.evicted && job.bound.is_empty() {
                    job.evicted = false;
                    self.outbox.push(Note::Displaced(at));
                }
            }
        }
    }

    fn evicted(&mut self, at: usize, entry: &LogEntry) {
        let ours = *entry.manager == *self.scheduler || eviction_cause(&entry.object).is_some();
        if ours && asked_to_leave(entry) {
            self.jobs[at].evictions += 1;
            self.jobs[at].evicted = true;
        }
    }

    fn bind(&mut self, at: usize, name: &str, node: &str, now: Timestamp) {
        let job = &mut self.jobs[at];
        if job.bound.contains_key(name) {
            return;
        }
        job.bound.insert(name.to_owned(), Bound { node: node.to_owned(), running: false });
        if figure(job.bound.len()) >= figure(job.pods)
            && let Some(came) = job.came.take()
        {
            job.waits.push(now.duration_since(came).as_secs_f64());
        }
        self.finite += usize::from(job.finite);
        let milli = job.taken_milli;
        self.change_node(node, |taken| taken + milli);
    }

    fn run(&mut self, at: usize, name: &str, running: bool) {
        let job = &mut self.jobs[at];
        let Some(bound) = job.bound.get_mut(name) else { return };
        match (bound.running, running) {
            (false, true) => self.fleet.busy_milli += job.used_milli,
            (true, false) => self.fleet.busy_milli -= job.used_milli,
            (true, true) | (false, false) => {}
        }
        bound.running = running;
    }

    fn release(&mut self, at: usize, name: &str) {
        self.run(at, name, false);
        let job = &mut self.jobs[at];
        let Some(bound) = job.bound.remove(name) else { return };
        self.finite -= usize::from(job.finite);
        let milli = job.taken_milli;
        self.change_node(&bound.node, |taken| taken - milli);
    }

    fn change_node(&mut self, name: &str, change: impl FnOnce(u64) -> u64) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let stranded = |node: &Node| match node.taken_milli {
            0 => 0,
            taken => node.milli.saturating_sub(taken),
        };
        let fleet = &mut self.fleet;
        fleet.taken_milli -= node.taken_milli;
        fleet.stranded_milli -= stranded(node);
        node.taken_milli = change(node.taken_milli);
        fleet.taken_milli += node.taken_milli;
        fleet.stranded_milli += stranded(node);
        fleet.taken_peak_milli = fleet.taken_peak_milli.max(fleet.taken_milli);
    }
}

impl JobTally {
    fn come(&mut self, now: Timestamp) {
        self.came.get_or_insert(now);
    }

    /// Without the pod's own name, equal reasons are equal.
    fn hear(&mut self, name: &str, pod: &Value) {
        if let Some(reason) = waiting_reason(pod) {
            let own = format!("pod {}/{name} ", objects::NAMESPACE);
            self.told = reason.replace(&own, "the pod ");
        }
    }
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts of GPUs and pods are far below 2^52")]
pub(super) fn figure(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}
