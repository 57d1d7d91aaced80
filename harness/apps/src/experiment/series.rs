//! Figures over time: what the fleet and each queue used and waited for, in equal intervals.

use serde::{Deserialize, Serialize};

/// Figures over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of an interval, in seconds.
    pub every_secs: f64,
    /// One point for each interval; the last interval may be shorter.
    pub points: Vec<SeriesPoint>,
    /// Figures of each queue, by the number of the interval.
    pub queues: Vec<QueueSeries>,
}

/// The fleet in one interval. All amounts are means over the interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// End of the interval, in virtual seconds since the first arrival.
    pub at_secs: f64,
    /// GPUs used by running pods.
    pub used_gpus: f64,
    /// GPUs bound to pods.
    pub allocated_gpus: f64,
    /// GPUs that pending pods request.
    pub pending_gpus: f64,
    /// Number of pending pods at the end of the interval.
    pub pending_pods: u64,
    /// Free GPUs on partly used nodes ÷ all free GPUs, in percent; 0 if no GPU is free.
    pub fragmentation_percent: f64,
}

/// A queue in all intervals. All amounts are means over an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueSeries {
    /// Name of the queue.
    pub queue: String,
    /// GPUs used by running pods.
    pub used_gpus: Vec<f64>,
    /// GPUs that pending pods request.
    pub pending_gpus: Vec<f64>,
}
