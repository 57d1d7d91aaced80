//! Metrics of one job.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schedlab_api::Value;
use schedlab_audit::unschedulable_message;

use super::super::objects::{self, TargetScheduler};
use crate::inputs::{JobEnd, TraceJob, to_f64};

/// Metrics of one job.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct JobMetrics {
    /// GPUs that a pod of the job takes from a node, in thousandths.
    pub(super) taken_milli: u64,
    /// GPUs that a pod of the job uses, in thousandths.
    pub(super) used_milli: u64,
    pub(super) finite: bool,
    pub(super) pods: u64,
    /// Index of the job's queue in the trace.
    pub(in super::super) queue: usize,
    pub(super) bound: BTreeMap<String, BoundPod>,
    /// Whether the job has arrived; a stopped experiment leaves out those that have not.
    pub(in super::super) has_arrived: bool,
    /// When the current attempt to run the job arrived, until all its pods are bound.
    pub(super) arrived_at: Option<Timestamp>,
    pub(super) eviction: Eviction,
    /// For each attempt to run the job: seconds from arrival until all pods were bound.
    pub(in super::super) waits: Vec<f64>,
    /// Seconds that the job had waited when the experiment ended, if it still waited.
    pub(in super::super) still_waits_secs: Option<f64>,
    pub(in super::super) evictions: u64,
    /// GPU-seconds that the job's pods used within the window.
    pub(in super::super) gpu_secs: f64,
    /// GPU-seconds of evicted pods: work that was done again.
    pub(in super::super) lost_gpu_secs: f64,
    /// The last pending reason of one of the job's pods.
    pub(in super::super) last_reason: String,
}

/// Whether the scheduler has evicted pods of the job's current attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Eviction {
    #[default]
    None,
    /// Pods were evicted, and not all pods of the job are gone.
    UnderWay,
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub(super) struct BoundPod {
    pub(super) node: String,
    /// Start of the pod, in seconds since the first arrival.
    pub(super) runs_since: Option<f64>,
}

impl JobMetrics {
    pub(super) fn new(job: &TraceJob, scheduler: &TargetScheduler, queue: usize) -> Self {
        let whole = job.gpus.saturating_mul(1000);
        let share = job.gpu_share_milli().filter(|_| scheduler.shares_gpus);
        Self {
            taken_milli: share.map_or(whole, |each| each * job.gpus),
            used_milli: job.gpu_milli,
            finite: matches!(job.end, JobEnd::RunsSecs(_)),
            pods: job.pods,
            queue,
            ..Self::default()
        }
    }

    /// Records the arrival of an attempt with its first pod; returns whether this pod is the first.
    pub(super) fn record_arrival(&mut self, now: Timestamp) -> bool {
        let is_first = self.arrived_at.is_none();
        self.has_arrived = true;
        self.arrived_at.get_or_insert(now);
        is_first
    }

    /// Records that a pod of the job ran from `since` to `now`.
    pub(super) fn record_run(&mut self, since: f64, now: f64, window: f64) {
        let gpus = to_f64(self.used_milli) / 1000.0;
        self.gpu_secs += gpus * (now.min(window) - since).max(0.0);
        if self.eviction == Eviction::UnderWay {
            self.lost_gpu_secs += gpus * (now - since);
        }
    }

    /// Records the runs of pods that still run at the end of the experiment.
    pub(super) fn record_open_runs(&mut self, now: f64, window: f64) {
        let running: Vec<f64> = self.bound.values().filter_map(|pod| pod.runs_since).collect();
        for since in running {
            self.record_run(since, now, window);
        }
    }

    /// Records a pod's pending reason without the pod's own name, so that equal reasons compare
    /// equal.
    pub(super) fn record_pending_reason(&mut self, name: &str, pod: &Value) {
        if let Some(reason) = unschedulable_message(pod) {
            let own = format!("pod {}/{name} ", objects::NAMESPACE);
            self.last_reason = reason.replace(&own, "the pod ");
        }
    }
}
