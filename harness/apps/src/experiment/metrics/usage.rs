//! Usage of the fleet and of each queue over time: integrals, and a series of their means.

use jiff::Timestamp;

use super::super::series::{QueueSeries, Series, SeriesPoint};
use super::{JobMetrics, TimeFrame};
use crate::inputs::{TraceQueue, to_f64};

/// Integrates usage over virtual time.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct UsageClock {
    pub(in super::super) fleet: FleetUsage,
    /// Usage of each queue of the trace.
    pub(in super::super) queues: Vec<QueueUsage>,
    /// Seconds since the first arrival.
    pub(in super::super) secs: f64,
    origin: Option<Timestamp>,
    /// Seconds of the trace in a second of the cluster.
    speed: f64,
    window_secs: Option<f64>,
    recorder: Option<SeriesRecorder>,
}

/// GPUs of the fleet over time, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct FleetUsage {
    pub(in super::super) milli: u64,
    /// GPUs bound to pods, in thousandths.
    pub(in super::super) taken_milli: u64,
    pub(in super::super) taken_peak_milli: u64,
    /// GPUs used by running pods, in thousandths.
    pub(super) busy_milli: u64,
    /// Free GPUs on partly used nodes, in thousandths.
    pub(super) stranded_milli: u64,
    /// Number of pending pods.
    pub(super) pending_pods: u64,
    /// Seconds within the window.
    pub(in super::super) secs: f64,
    /// GPU-seconds within the window, as in the following fields.
    pub(in super::super) taken_secs: f64,
    pub(in super::super) busy_secs: f64,
    pub(in super::super) stranded_secs: f64,
}

/// GPUs of one queue over time, in thousandths.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct QueueUsage {
    pub(in super::super) name: String,
    /// The quota in GPUs; `None`: unlimited.
    pub(in super::super) quota: Option<f64>,
    pub(super) taken_milli: u64,
    pub(super) busy_milli: u64,
    pub(super) pending_milli: u64,
    /// The part of it that the quota promises: of jobs that are not larger than the quota.
    promised_pending_milli: u64,
    /// GPU-seconds within the quota that the queue's pods requested, pending or bound.
    pub(in super::super) promised_secs: f64,
    /// GPU-seconds within the quota that the queue's bound pods had.
    pub(in super::super) kept_secs: f64,
}

/// Records the series: sums of the current interval, and the finished intervals.
#[derive(Clone, Debug, Default)]
struct SeriesRecorder {
    series: Series,
    /// Index of each queue of the series: the leaf queues.
    queues: Vec<usize>,
    /// End of the current interval.
    next_secs: f64,
    current: IntervalSums,
}

/// GPU-seconds of the current interval.
#[derive(Clone, Debug, Default)]
struct IntervalSums {
    secs: f64,
    busy: f64,
    taken: f64,
    pending: f64,
    free: f64,
    stranded: f64,
    queue_busy: Vec<f64>,
    queue_pending: Vec<f64>,
}

impl UsageClock {
    pub(super) fn new(queues: &[TraceQueue], frame: TimeFrame) -> Self {
        let usage = |queue: &TraceQueue| QueueUsage {
            name: queue.name.clone(),
            quota: (queue.quota >= 0.0).then_some(queue.quota),
            ..QueueUsage::default()
        };
        let recorder = frame.series_every.map(|every| SeriesRecorder::new(queues, every));
        Self {
            queues: queues.iter().map(usage).collect(),
            speed: frame.speed,
            window_secs: frame.window_secs,
            recorder,
            ..Self::default()
        }
    }

    /// End of the window, in seconds since the first arrival.
    pub(super) fn window(&self) -> f64 {
        self.window_secs.unwrap_or(f64::INFINITY)
    }

    /// Seconds of the trace from the first arrival to this time.
    pub(super) fn secs_at(&self, time: Timestamp) -> f64 {
        let secs = |origin| time.duration_since(origin).as_secs_f64();
        self.origin.map_or(0.0, |origin| self.speed * secs(origin))
    }

    /// Advances all integrals to this time.
    pub(super) fn advance_to(&mut self, now: Timestamp) {
        self.origin.get_or_insert(now);
        let end = self.secs_at(now);
        let last = end.min(self.window());
        while let Some(next) = self.recorder.as_ref().map(|recorder| recorder.next_secs)
            && next <= last
        {
            self.advance_by(next - self.secs);
            self.secs = next;
            self.finish_interval();
        }
        self.advance_by(end - self.secs);
        self.secs = end;
    }

    fn advance_by(&mut self, secs: f64) {
        if secs <= 0.0 {
            return;
        }
        let secs = (self.window() - self.secs).clamp(0.0, secs);
        if let Some(recorder) = &mut self.recorder {
            recorder.add(secs, &self.fleet, &self.queues);
        }
        let fleet = &mut self.fleet;
        fleet.secs += secs;
        fleet.taken_secs += secs * to_f64(fleet.taken_milli) / 1000.0;
        fleet.busy_secs += secs * to_f64(fleet.busy_milli) / 1000.0;
        fleet.stranded_secs += secs * to_f64(fleet.stranded_milli) / 1000.0;
        for queue in &mut self.queues {
            let Some(quota) = queue.quota else { continue };
            let taken = to_f64(queue.taken_milli) / 1000.0;
            let asked = taken + to_f64(queue.promised_pending_milli) / 1000.0;
            queue.promised_secs += secs * asked.min(quota);
            queue.kept_secs += secs * taken.min(quota);
        }
    }

    fn finish_interval(&mut self) {
        let end = self.secs.min(self.window());
        let Some(recorder) = &mut self.recorder else { return };
        recorder.finish_interval(end, self.fleet.pending_pods);
    }

    /// Ends the series with the interval that has begun.
    pub(super) fn finish_series(&mut self) {
        let has_begun = |recorder: &SeriesRecorder| recorder.current.secs > 0.0;
        if self.recorder.as_ref().is_some_and(has_begun) {
            self.finish_interval();
        }
    }

    /// The series, if one was recorded.
    pub(in super::super) fn series(&self) -> Option<&Series> {
        self.recorder.as_ref().map(|recorder| &recorder.series)
    }
}

impl QueueUsage {
    /// Counts a pod of this job as pending.
    pub(super) fn add_pending(&mut self, job: &JobMetrics) {
        self.pending_milli += job.taken_milli;
        if self.promises(job) {
            self.promised_pending_milli += job.taken_milli;
        }
    }

    /// Counts a pod of this job as no longer pending.
    pub(super) fn remove_pending(&mut self, job: &JobMetrics) {
        self.pending_milli -= job.taken_milli;
        if self.promises(job) {
            self.promised_pending_milli -= job.taken_milli;
        }
    }

    /// Whether the quota is large enough for the job. A quota promises nothing to a larger job.
    fn promises(&self, job: &JobMetrics) -> bool {
        let milli = to_f64(job.taken_milli.saturating_mul(job.pods));
        self.quota.is_some_and(|quota| milli <= quota * 1000.0)
    }
}

impl SeriesRecorder {
    fn new(queues: &[TraceQueue], every: std::time::Duration) -> Self {
        let is_leaf = |queue: &TraceQueue| !queues.iter().any(|one| one.parent == queue.name);
        let leaves: Vec<usize> = (0..queues.len()).filter(|at| is_leaf(&queues[*at])).collect();
        let series_of =
            |at: &usize| QueueSeries { queue: queues[*at].name.clone(), ..QueueSeries::default() };
        let every_secs = every.as_secs_f64();
        let series = leaves.iter().map(series_of).collect();
        Self {
            series: Series { every_secs, queues: series, points: Vec::new() },
            current: IntervalSums::new(leaves.len()),
            queues: leaves,
            next_secs: every_secs,
        }
    }

    fn add(&mut self, secs: f64, fleet: &FleetUsage, queues: &[QueueUsage]) {
        let gpu_secs = |milli: u64| secs * to_f64(milli) / 1000.0;
        let sums = &mut self.current;
        sums.secs += secs;
        sums.busy += gpu_secs(fleet.busy_milli);
        sums.taken += gpu_secs(fleet.taken_milli);
        sums.free += gpu_secs(fleet.milli.saturating_sub(fleet.taken_milli));
        sums.stranded += gpu_secs(fleet.stranded_milli);
        for (at, queue) in self.queues.iter().enumerate() {
            let pending = gpu_secs(queues[*queue].pending_milli);
            sums.pending += pending;
            sums.queue_pending[at] += pending;
            sums.queue_busy[at] += gpu_secs(queues[*queue].busy_milli);
        }
    }

    fn finish_interval(&mut self, at_secs: f64, pending_pods: u64) {
        let fresh = IntervalSums::new(self.queues.len());
        let sums = std::mem::replace(&mut self.current, fresh);
        let mean = |sum: f64| rounded(sum / sums.secs);
        let part = if sums.free > 0.0 { sums.stranded / sums.free } else { 0.0 };
        self.series.points.push(SeriesPoint {
            at_secs: rounded(at_secs),
            used_gpus: mean(sums.busy),
            allocated_gpus: mean(sums.taken),
            pending_gpus: mean(sums.pending),
            pending_pods,
            fragmentation_percent: rounded(100.0 * part),
        });
        for (at, queue) in self.series.queues.iter_mut().enumerate() {
            queue.used_gpus.push(mean(sums.queue_busy[at]));
            queue.pending_gpus.push(mean(sums.queue_pending[at]));
        }
        self.next_secs += self.series.every_secs;
    }
}

impl IntervalSums {
    fn new(queues: usize) -> Self {
        let zeros = vec![0.0; queues];
        Self { queue_busy: zeros.clone(), queue_pending: zeros, ..Self::default() }
    }
}

/// Rounds to thousandths, which a series does not need more of.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
