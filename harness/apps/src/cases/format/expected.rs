//! Expected outcomes of jobs, tasks and nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The expected outcome of a case. Objects that are not listed are not compared.
#[derive(Clone, Debug, Default, Deserialize)]
pub(in super::super) struct ExpectedOutcome {
    #[serde(default)]
    pub(in super::super) jobs: BTreeMap<String, ExpectedTasks>,
    #[serde(default)]
    pub(in super::super) tasks: BTreeMap<String, ExpectedTasks>,
    #[serde(default)]
    pub(in super::super) nodes: BTreeMap<String, ExpectedNode>,
    #[serde(default)]
    pub(in super::super) dead_task_ids: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(in super::super) struct ExpectedTasks {
    pub(in super::super) status: String,
    #[serde(default)]
    pub(in super::super) node: Option<String>,
    pub(in super::super) gpus_requested_sum: f64,
    #[serde(flatten)]
    pub(in super::super) sums: ExpectedSums,
    /// The expected message about why the job or task is pending.
    #[serde(default, rename = "error_message")]
    pub(in super::super) message: Option<String>,
    #[serde(default)]
    pub(in super::super) running_for_more_than_s: Option<u64>,
    /// The expected positions of the NUMA zones in use; `None` if they are not compared.
    #[serde(default)]
    pub(in super::super) numa_zones: Option<BTreeSet<usize>>,
}

/// Expected sums over the tasks of a job. A sum of `None` is not compared.
#[derive(Clone, Debug, Default, Deserialize)]
pub(in super::super) struct ExpectedSums {
    /// GPUs of placed tasks; GPU memory counts as a fraction of the node's GPUs.
    #[serde(default, rename = "gpus_accepted_sum")]
    pub(in super::super) gpus_accepted: Option<f64>,
    #[serde(default, rename = "cpu_millis_sum")]
    pub(in super::super) cpu_millis: Option<f64>,
    #[serde(default, rename = "memory_bytes_sum")]
    pub(in super::super) memory_bytes: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(in super::super) struct ExpectedNode {
    pub(in super::super) idle_gpus: f64,
    pub(in super::super) releasing_gpus: f64,
    /// The expected available quantities by resource, for each position of a NUMA zone.
    #[serde(default)]
    pub(in super::super) numa_zones_available: BTreeMap<usize, BTreeMap<String, String>>,
}

impl ExpectedOutcome {
    pub(in super::super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.tasks.is_empty() && self.nodes.is_empty()
    }
}
