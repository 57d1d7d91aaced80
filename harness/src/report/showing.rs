//! What a scenario showed, in a form in which two runs can be compared that differ in clock,
//! cluster or scheduler: who ran where and what happened to whom, without times and without
//! names that chance made. What is equal counts as one: pods of a workload that ask for the same,
//! nodes of the same kind, GPUs of a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a scenario showed by its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Showing {
    /// By workload, as `train` or `team-a/train (2 GPUs)`.
    pub workloads: BTreeMap<String, WorkloadShowing>,
    /// By the names of nodes of one kind: what each that is in use holds, sorted, as
    /// `4 infer, 4 train`.
    pub nodes: BTreeMap<String, Vec<String>>,
    /// What happened for the first time to a workload, in that order.
    pub order: Vec<String>,
}

/// Pods of a workload that ask for the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadShowing {
    /// What a scheduler goes by, as text: workloads of which it is equal are alike.
    #[serde(default)]
    pub wants: String,
    /// How many are in which state at the end; why, for those that wait.
    pub pods: BTreeMap<String, usize>,
    /// How many of all that there ever were had which story, as
    /// `bound, started, evicted for train (reclaim)`.
    pub stories: BTreeMap<String, usize>,
}
