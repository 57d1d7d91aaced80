//! Metrics of a replay, updated with every write: waiting times, allocation and usage of the fleet,
//! evictions. Events for the workload driver are left in the outbox.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schedlab_api::{Value, pointer::text, resources};
use schedlab_audit::{eviction_message, unschedulable_message};
use schedlab_emulator::store::{EventKind, LogEntry};

use super::{
    objects::{self, TargetScheduler},
    trace::TraceJob,
};
use schedlab_conformance::history::requests_deletion;

/// An event that the workload driver has to handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DriverEvent {
    /// A pod has finished and can be deleted.
    Finished(String),
    /// The last pod of an evicted job is gone: the job starts over.
    Displaced(usize),
}

/// Metrics of the replay so far.
pub(super) struct Metrics {
    scheduler: String,
    jobs: Vec<JobMetrics>,
    /// Index of the job by pod name.
    pods: BTreeMap<String, usize>,
    nodes: BTreeMap<String, NodeUsage>,
    pub(super) fleet: FleetMetrics,
    pub(super) outbox: Vec<DriverEvent>,
    /// Number of bound pods that finish by themselves.
    pub(super) finite: usize,
    last: Option<Timestamp>,
}

/// Metrics of one job.
#[derive(Clone, Debug, Default)]
pub(super) struct JobMetrics {
    taken_milli: u64,
    used_milli: u64,
    finite: bool,
    pods: u64,
    bound: BTreeMap<String, BoundPod>,
    arrived_at: Option<Timestamp>,
    evicted: bool,
    /// For each attempt to run the job: seconds from arrival until all pods were bound.
    pub(super) waits: Vec<f64>,
    pub(super) evictions: u64,
    /// The last pending reason of one of the job's pods.
    pub(super) last_reason: String,
}

#[derive(Clone, Debug)]
struct BoundPod {
    node: String,
    running: bool,
}

#[derive(Clone, Debug, Default)]
struct NodeUsage {
    milli: u64,
    taken_milli: u64,
}

/// GPUs of the fleet over time, in thousandths.
#[derive(Clone, Debug, Default)]
pub(super) struct FleetMetrics {
    pub(super) milli: u64,
    /// GPUs bound to pods, in thousandths.
    pub(super) taken_milli: u64,
    pub(super) taken_peak_milli: u64,
    /// GPUs used by running pods, in thousandths.
    busy_milli: u64,
    /// Free GPUs on partly used nodes, in thousandths.
    stranded_milli: u64,
    pub(super) secs: f64,
    /// GPU-seconds, as in the following fields.
    pub(super) taken_secs: f64,
    pub(super) busy_secs: f64,
    pub(super) stranded_secs: f64,
}

impl Metrics {
    pub(super) fn new(jobs: &[TraceJob], scheduler: &TargetScheduler) -> Self {
        let whole = |job: &TraceJob| job.gpus.saturating_mul(1000);
        let shares = |job: &TraceJob| job.gpu_share_milli().filter(|_| scheduler.shares_gpus);
        let job = |job: &TraceJob| JobMetrics {
            taken_milli: shares(job).map_or(whole(job), |each| each * job.gpus),
            used_milli: job.gpu_milli,
            finite: matches!(job.end, super::trace::JobEnd::RunsSecs(_)),
            pods: job.pods,
            ..JobMetrics::default()
        };
        Self {
            scheduler: scheduler.name.clone(),
            jobs: jobs.iter().map(job).collect(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            fleet: FleetMetrics::default(),
            outbox: Vec::new(),
            finite: 0,
            last: None,
        }
    }

    pub(super) fn jobs(&self) -> &[JobMetrics] {
        &self.jobs
    }

    /// Registers a pod of the job with this index, before the pod is created.
    pub(super) fn register_pod(&mut self, pod: &str, job: usize) {
        self.pods.insert(pod.to_owned(), job);
    }

    pub(super) fn observe_entry(&mut self, entry: &LogEntry) {
        match (&*entry.key.resource.group, &*entry.key.resource.plural) {
            ("", "nodes") => self.observe_node(entry),
            ("", "pods") if &*entry.key.namespace == objects::NAMESPACE => self.observe_pod(entry),
            _ => {}
        }
    }

    /// Advances the integrals over time, such as GPU-seconds, to `now`.
    fn advance_to(&mut self, now: Timestamp) {
        let secs = self.last.map_or(0.0, |last| now.duration_since(last).as_secs_f64());
        self.last = Some(now);
        let fleet = &mut self.fleet;
        fleet.secs += secs;
        fleet.taken_secs += secs * to_f64(fleet.taken_milli) / 1000.0;
        fleet.busy_secs += secs * to_f64(fleet.busy_milli) / 1000.0;
        fleet.stranded_secs += secs * to_f64(fleet.stranded_milli) / 1000.0;
    }

    fn observe_node(&mut self, entry: &LogEntry) {
        let gpus = entry.object["status"]["allocatable"][resources::GPU].as_str();
        let milli = 1000 * gpus.and_then(|gpus| gpus.parse::<u64>().ok()).unwrap_or(0);
        let node = self.nodes.entry(entry.key.name.to_string()).or_default();
        self.fleet.milli = self.fleet.milli - node.milli + milli;
        node.milli = milli;
    }

    fn observe_pod(&mut self, entry: &LogEntry) {
        let name = &*entry.key.name;
        let Some(at) = self.pods.get(name).copied() else { return };
        self.advance_to(entry.time);
        let pod = &entry.object;
        let phase = text(pod, "/status/phase").unwrap_or_default();
        let finished = matches!(phase, "Succeeded" | "Failed");
        match entry.kind {
            EventKind::Added => self.jobs[at].record_arrival(entry.time),
            EventKind::Modified => {
                self.jobs[at].record_pending_reason(name, pod);
                self.observe_eviction(at, entry);
                if finished {
                    self.release_pod(at, name);
                    let leaves = pod.pointer("/metadata/deletionTimestamp").is_some();
                    self.outbox.extend((!leaves).then(|| DriverEvent::Finished(name.to_owned())));
                } else if let Some(node) = text(pod, "/spec/nodeName") {
                    self.record_binding(at, name, node, entry.time);
                    self.set_running(at, name, phase == "Running");
                }
            }
            EventKind::Deleted => {
                self.observe_eviction(at, entry);
                self.release_pod(at, name);
                self.pods.remove(name);
                let job = &mut self.jobs[at];
                if job.evicted && job.bound.is_empty() {
                    job.evicted = false;
                    self.outbox.push(DriverEvent::Displaced(at));
                }
            }
        }
    }

    fn observe_eviction(&mut self, job_index: usize, entry: &LogEntry) {
        let ours = *entry.manager == *self.scheduler || eviction_message(&entry.object).is_some();
        if ours && requests_deletion(entry) {
            self.jobs[job_index].evictions += 1;
            self.jobs[job_index].evicted = true;
        }
    }

    fn record_binding(&mut self, job_index: usize, name: &str, node: &str, now: Timestamp) {
        let job = &mut self.jobs[job_index];
        if job.bound.contains_key(name) {
            return;
        }
        job.bound.insert(name.to_owned(), BoundPod { node: node.to_owned(), running: false });
        if to_f64(job.bound.len()) >= to_f64(job.pods)
            && let Some(came) = job.arrived_at.take()
        {
            job.waits.push(now.duration_since(came).as_secs_f64());
        }
        self.finite += usize::from(job.finite);
        let milli = job.taken_milli;
        self.change_node_usage(node, |taken| taken + milli);
    }

    fn set_running(&mut self, job_index: usize, name: &str, running: bool) {
        let job = &mut self.jobs[job_index];
        let Some(bound) = job.bound.get_mut(name) else { return };
        match (bound.running, running) {
            (false, true) => self.fleet.busy_milli += job.used_milli,
            (true, false) => self.fleet.busy_milli -= job.used_milli,
            (true, true) | (false, false) => {}
        }
        bound.running = running;
    }

    fn release_pod(&mut self, job_index: usize, name: &str) {
        self.set_running(job_index, name, false);
        let job = &mut self.jobs[job_index];
        let Some(bound) = job.bound.remove(name) else { return };
        self.finite -= usize::from(job.finite);
        let milli = job.taken_milli;
        self.change_node_usage(&bound.node, |taken| taken - milli);
    }

    fn change_node_usage(&mut self, name: &str, change: impl FnOnce(u64) -> u64) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let stranded = |node: &NodeUsage| match node.taken_milli {
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

impl JobMetrics {
    fn record_arrival(&mut self, now: Timestamp) {
        self.arrived_at.get_or_insert(now);
    }

    /// Records a pod's pending reason without the pod's own name, so that equal reasons compare
    /// equal.
    fn record_pending_reason(&mut self, name: &str, pod: &Value) {
        if let Some(reason) = unschedulable_message(pod) {
            let own = format!("pod {}/{name} ", objects::NAMESPACE);
            self.last_reason = reason.replace(&own, "the pod ");
        }
    }
}

/// Converts a count to a float.
#[expect(clippy::cast_precision_loss, reason = "counts of GPUs and pods are far below 2^52")]
pub(super) fn to_f64(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}
