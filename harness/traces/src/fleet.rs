//! Nodes and queues on which a trace is replayed.

/// A node of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceNode {
    /// Line of the node in its file.
    pub line: u64,
    /// Name of the node.
    pub name: String,
    /// CPU of the node in millicores.
    pub cpu_milli: u64,
    /// Memory of the node in MiB.
    pub memory_mib: u64,
    /// Number of GPUs of the node.
    pub gpus: u64,
    /// GPU model; empty when unknown.
    pub model: String,
}

/// A queue with its GPU quota and limit; CPU and memory are unlimited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceQueue {
    /// Line of the queue in its file.
    pub line: u64,
    /// Name of the queue.
    pub name: String,
    /// Name of the parent queue; empty for a root queue.
    pub parent: String,
    /// GPU quota of the queue; -1 means unlimited.
    pub quota: f64,
    /// Over-quota weight of the queue.
    pub weight: f64,
    /// GPU limit of the queue; -1 means unlimited.
    pub limit: f64,
    /// Queue priority; higher is served first.
    pub priority: i64,
}
