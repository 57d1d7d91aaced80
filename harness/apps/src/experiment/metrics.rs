//! Metrics of an experiment, updated with every write: waiting times, allocation and usage of the
//! fleet and of each queue, evictions. Events for the workload driver are left in the outbox.

mod job;
mod usage;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schedlab_api::{pointer::text, resources};
use schedlab_audit::eviction_message;
use schedlab_emulator::store::{EventKind, LogEntry};

use super::{
    monitor::Progress,
    objects::{self, TargetScheduler},
};
use crate::inputs::{Trace, to_f64};
use schedlab_conformance::history::requests_deletion;

pub(super) use job::JobMetrics;
use job::{BoundPod, Eviction};
pub(super) use usage::{QueueUsage, UsageClock};

/// An event that the workload driver has to handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DriverEvent {
    /// A pod has finished and can be deleted.
    Finished(String),
    /// The last pod of an evicted job is gone: the job starts over.
    Displaced(usize),
}

/// Metrics of the experiment so far.
pub(super) struct Metrics {
    scheduler: String,
    jobs: Vec<JobMetrics>,
    pods: BTreeMap<String, PodEntry>,
    nodes: BTreeMap<String, NodeUsage>,
    usage: UsageClock,
    frame: TimeFrame,
    progress: Progress,
    pub(super) outbox: Vec<DriverEvent>,
    /// Number of bound pods that finish by themselves.
    pub(super) finite: usize,
    /// How often a pod was bound or left its node.
    pub(super) placements: u64,
}

/// A pod that the workload driver has created.
struct PodEntry {
    job: usize,
    /// Whether the pod exists and is not bound.
    is_pending: bool,
}

#[derive(Clone, Debug, Default)]
struct NodeUsage {
    milli: u64,
    taken_milli: u64,
}

/// What is measured over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeFrame {
    /// Interval of the series.
    pub(super) series_every: Option<Duration>,
    /// End of figures over time, in seconds since the first arrival.
    pub(super) window_secs: Option<f64>,
    /// Waits are rounded to multiples of this many seconds.
    pub(super) resolution_secs: Option<f64>,
    /// Seconds of the trace in a second of the cluster.
    pub(super) speed: f64,
}

impl TimeFrame {
    /// A wait of this many seconds, as exact as the experiment can tell.
    fn wait_secs(self, secs: f64) -> f64 {
        match self.resolution_secs {
            Some(unit) if unit > 0.0 => (secs / unit).round() * unit,
            Some(_) | None => secs,
        }
    }
}

impl Metrics {
    pub(super) fn new(trace: &Trace, scheduler: &TargetScheduler, frame: TimeFrame) -> Self {
        let queues: BTreeMap<&str, usize> =
            trace.queues.iter().enumerate().map(|(at, queue)| (queue.name.as_str(), at)).collect();
        let queue_of = |name: &str| queues.get(name).copied().unwrap_or_default();
        let job = |job| JobMetrics::new(job, scheduler, queue_of(&job.queue));
        Self {
            scheduler: scheduler.name.clone(),
            jobs: trace.jobs.iter().map(job).collect(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            usage: UsageClock::new(&trace.queues, frame),
            frame,
            progress: Progress { jobs: trace.jobs.len(), ..Progress::default() },
            outbox: Vec::new(),
            finite: 0,
            placements: 0,
        }
    }

    pub(super) fn jobs(&self) -> &[JobMetrics] {
        &self.jobs
    }

    pub(super) fn usage(&self) -> &UsageClock {
        &self.usage
    }

    /// Ends all figures: at this time if the experiment was stopped, else with the last change.
    pub(super) fn finish(&mut self, stopped_at: Option<Timestamp>) {
        if let Some(now) = stopped_at {
            self.usage.advance_to(now);
        }
        let (now, window) = (self.usage.secs, self.usage.window());
        for job in &mut self.jobs {
            let came = job.arrived_at.map(|came| self.usage.secs_at(came));
            job.still_waits_secs = came.map(|came| self.frame.wait_secs(now - came));
            job.record_open_runs(now, window);
        }
        self.usage.finish_series();
    }

    /// Whether all jobs have ended by themselves.
    pub(super) fn has_ended(&self) -> bool {
        self.progress.ended == self.progress.jobs
    }

    /// The progress so far.
    pub(super) fn progress(&self) -> Progress {
        let fleet = &self.usage.fleet;
        let pending: u64 = self.usage.queues.iter().map(|queue| queue.pending_milli).sum();
        let busy = to_f64(fleet.busy_milli);
        Progress {
            virtual_secs: self.usage.secs,
            utilisation_percent: 100.0 * busy / to_f64(fleet.milli.max(1)),
            pending_gpus: to_f64(pending) / 1000.0,
            ..self.progress
        }
    }

    /// Registers a pod of the job with this index, before the pod is created.
    pub(super) fn register_pod(&mut self, pod: &str, job: usize) {
        self.pods.insert(pod.to_owned(), PodEntry { job, is_pending: false });
    }

    pub(super) fn observe_entry(&mut self, entry: &LogEntry) {
        match (&*entry.key.resource.group, &*entry.key.resource.plural) {
            ("", "nodes") => self.observe_node(entry),
            ("", "pods") if &*entry.key.namespace == objects::NAMESPACE => self.observe_pod(entry),
            _ => {}
        }
    }

    fn observe_node(&mut self, entry: &LogEntry) {
        let gpus = entry.object["status"]["allocatable"][resources::GPU].as_str();
        let milli = 1000 * gpus.and_then(|gpus| gpus.parse::<u64>().ok()).unwrap_or(0);
        let node = self.nodes.entry(entry.key.name.to_string()).or_default();
        self.usage.fleet.milli = self.usage.fleet.milli - node.milli + milli;
        node.milli = milli;
    }

    fn observe_pod(&mut self, entry: &LogEntry) {
        let name = &*entry.key.name;
        let Some(at) = self.pods.get(name).map(|pod| pod.job) else { return };
        self.usage.advance_to(entry.time);
        match entry.kind {
            EventKind::Added => {
                let is_first = self.jobs[at].waits.is_empty() && self.jobs[at].evictions == 0;
                let has_arrived = self.jobs[at].record_arrival(entry.time);
                self.progress.arrived += usize::from(is_first && has_arrived);
                self.set_pending(name, true);
            }
            EventKind::Modified => self.observe_change(at, entry),
            EventKind::Deleted => {
                self.observe_eviction(at, entry);
                self.set_pending(name, false);
                self.release_pod(at, name, entry.time);
                self.pods.remove(name);
                let job = &mut self.jobs[at];
                if job.eviction == Eviction::UnderWay && job.bound.is_empty() {
                    job.eviction = Eviction::None;
                    self.outbox.push(DriverEvent::Displaced(at));
                } else if job.bound.is_empty() {
                    // A job that its owner removed does not wait any more.
                    job.arrived_at = None;
                }
            }
        }
    }

    fn observe_change(&mut self, at: usize, entry: &LogEntry) {
        let (name, pod) = (&*entry.key.name, &entry.object);
        self.jobs[at].record_pending_reason(name, pod);
        self.observe_eviction(at, entry);
        let phase = text(pod, "/status/phase").unwrap_or_default();
        if matches!(phase, "Succeeded" | "Failed") {
            self.release_pod(at, name, entry.time);
            let leaves = pod.pointer("/metadata/deletionTimestamp").is_some();
            if !leaves {
                self.progress.ended += usize::from(self.jobs[at].bound.is_empty());
                self.outbox.push(DriverEvent::Finished(name.to_owned()));
            }
        } else if let Some(node) = text(pod, "/spec/nodeName") {
            self.record_binding(at, name, node, entry.time);
            self.set_running(at, name, phase == "Running", entry.time);
        }
    }

    fn observe_eviction(&mut self, job_index: usize, entry: &LogEntry) {
        let ours = *entry.manager == *self.scheduler || eviction_message(&entry.object).is_some();
        if ours && requests_deletion(entry) {
            self.jobs[job_index].evictions += 1;
            self.jobs[job_index].eviction = Eviction::UnderWay;
        }
    }

    fn set_pending(&mut self, name: &str, pending: bool) {
        let Some(pod) = self.pods.get_mut(name) else { return };
        let job = &self.jobs[pod.job];
        let queue = &mut self.usage.queues[job.queue];
        match (pod.is_pending, pending) {
            (false, true) => {
                queue.add_pending(job);
                self.usage.fleet.pending_pods += 1;
            }
            (true, false) => {
                queue.remove_pending(job);
                self.usage.fleet.pending_pods -= 1;
            }
            (true, true) | (false, false) => {}
        }
        pod.is_pending = pending;
    }

    fn record_binding(&mut self, job_index: usize, name: &str, node: &str, now: Timestamp) {
        if self.jobs[job_index].bound.contains_key(name) {
            return;
        }
        self.set_pending(name, false);
        let job = &mut self.jobs[job_index];
        job.bound.insert(name.to_owned(), BoundPod { node: node.to_owned(), runs_since: None });
        if to_f64(job.bound.len()) >= to_f64(job.pods)
            && let Some(came) = job.arrived_at.take()
        {
            self.progress.started += usize::from(job.waits.is_empty());
            let secs = self.frame.speed * now.duration_since(came).as_secs_f64();
            job.waits.push(self.frame.wait_secs(secs));
        }
        self.finite += usize::from(job.finite);
        self.placements += 1;
        let milli = job.taken_milli;
        self.usage.queues[job.queue].taken_milli += milli;
        self.change_node_usage(node, |taken| taken + milli);
    }

    fn set_running(&mut self, job_index: usize, name: &str, running: bool, now: Timestamp) {
        let (now, window) = (self.usage.secs_at(now), self.usage.window());
        let job = &mut self.jobs[job_index];
        let (used, queue) = (job.used_milli, &mut self.usage.queues[job.queue]);
        let Some(bound) = job.bound.get_mut(name) else { return };
        match (bound.runs_since, running) {
            (None, true) => {
                self.usage.fleet.busy_milli += used;
                queue.busy_milli += used;
                bound.runs_since = Some(now);
            }
            (Some(since), false) => {
                self.usage.fleet.busy_milli -= used;
                queue.busy_milli -= used;
                bound.runs_since = None;
                job.record_run(since, now, window);
            }
            (Some(_), true) | (None, false) => {}
        }
    }

    fn release_pod(&mut self, job_index: usize, name: &str, now: Timestamp) {
        self.set_running(job_index, name, false, now);
        let job = &mut self.jobs[job_index];
        let Some(bound) = job.bound.remove(name) else { return };
        self.finite -= usize::from(job.finite);
        self.placements += 1;
        let milli = job.taken_milli;
        self.usage.queues[job.queue].taken_milli -= milli;
        self.change_node_usage(&bound.node, |taken| taken - milli);
    }

    fn change_node_usage(&mut self, name: &str, change: impl FnOnce(u64) -> u64) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let stranded = |node: &NodeUsage| match node.taken_milli {
            0 => 0,
            taken => node.milli.saturating_sub(taken),
        };
        let fleet = &mut self.usage.fleet;
        fleet.taken_milli -= node.taken_milli;
        fleet.stranded_milli -= stranded(node);
        node.taken_milli = change(node.taken_milli);
        fleet.taken_milli += node.taken_milli;
        fleet.stranded_milli += stranded(node);
        fleet.taken_peak_milli = fleet.taken_peak_milli.max(fleet.taken_milli);
    }
}
