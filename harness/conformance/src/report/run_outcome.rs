//! The outcome of a scenario in a normal form that can be compared across clocks, clusters and
//! schedulers: placements and pod histories without times and generated names. Equivalent things
//! are counted, not named: pods of a workload with equal requests, nodes of the same kind, GPUs of
//! a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a scenario ended with, for the comparison with other runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The outcome of each workload, such as `train` or `team-a/train (2 GPUs)`.
    pub workloads: BTreeMap<String, WorkloadOutcome>,
    /// For each kind of node, the pods on each node in use, sorted, such as `4 infer, 4 train`.
    pub nodes: BTreeMap<String, Vec<String>>,
    /// The first event of each workload, in the order of time.
    pub order: Vec<String>,
}

/// The outcome of the pods of a workload that have equal requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadOutcome {
    /// The scheduling inputs as text: workloads with equal inputs are interchangeable.
    #[serde(rename = "wants", default)]
    pub scheduling_inputs: String,
    /// Number of pods by final state; pending ones with the reason.
    pub pods: BTreeMap<String, usize>,
    /// Number of pods, including deleted ones, by history, such as `bound, started, evicted for
    /// train (reclaim)`.
    #[serde(rename = "stories")]
    pub histories: BTreeMap<String, usize>,
}
