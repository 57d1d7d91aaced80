//! A workload trace: nodes, queues and jobs with their arrival times. Read by [`schedlab_traces`],
//! transformed by [`super::transform`].

pub(crate) use schedlab_traces::{JobEnd, TraceError, TraceJob, TraceNode, TraceQueue};

/// A trace of jobs, with the nodes and queues on which it is replayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trace {
    /// Nodes of the fleet, in the order of the file.
    pub nodes: Vec<TraceNode>,
    /// Queues of the trace.
    pub queues: Vec<TraceQueue>,
    /// Jobs, in the order of their arrival.
    pub jobs: Vec<TraceJob>,
}

impl Trace {
    /// Number of GPUs of all nodes.
    pub(crate) fn gpus(&self) -> u64 {
        self.nodes.iter().map(|node| node.gpus).sum()
    }

    /// The trace, played this many times as fast.
    pub(crate) fn at_speed(&self, speed: f64) -> Self {
        let mut faster = self.clone();
        for job in &mut faster.jobs {
            job.arrives_secs /= speed;
            job.end = match job.end {
                JobEnd::RunsSecs(secs) => JobEnd::RunsSecs(secs / speed),
                JobEnd::LeavesAfterSecs(secs) => JobEnd::LeavesAfterSecs(secs / speed),
                JobEnd::Never => JobEnd::Never,
            };
        }
        faster
    }
}
