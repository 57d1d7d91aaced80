//! Nodes that the scheduler excludes because of their labels.

use std::collections::BTreeSet;

use super::{CPU_WORKER, GPU_WORKER, Name, PodShape};

/// Nodes that are excluded from scheduling because of the same label mismatches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludedNodes {
    /// Names of the nodes.
    pub nodes: Vec<Name>,
    /// How the nodes' labels differ from what the scheduler requires.
    pub mismatches: BTreeSet<LabelMismatch>,
}

impl ExcludedNodes {
    /// Those label mismatches that keep pods of the shape away from the nodes.
    pub fn mismatches_for(&self, shape: &PodShape) -> BTreeSet<LabelMismatch> {
        self.mismatches.iter().filter(|mismatch| mismatch.excludes_shape(shape)).cloned().collect()
    }

    /// Why the nodes are excluded, as text. A node without either worker role needs only one of
    /// them.
    pub fn exclusion_reason(&self) -> String {
        let roles = [LabelMismatch::NotGpuWorker, LabelMismatch::NotCpuWorker]
            .iter()
            .all(|mismatch| self.mismatches.contains(mismatch));
        let role = roles.then(|| format!("for lack of label {GPU_WORKER} or {CPU_WORKER}"));
        let of_pool = self.mismatches.iter().find_map(|mismatch| match mismatch {
            LabelMismatch::Missing { key, value } => {
                Some(format!("for lack of label {key}={value}"))
            }
            LabelMismatch::Unwanted { key } => Some(format!("because of label {key}")),
            LabelMismatch::NotGpuWorker | LabelMismatch::NotCpuWorker => None,
        });
        of_pool.into_iter().chain(role).collect::<Vec<_>>().join(" and ")
    }
}

/// How a node's label differs from what the scheduler requires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelMismatch {
    /// The node lacks the label of the scheduler's node pool.
    Missing {
        /// Key of the label.
        key: Name,
        /// Value of the label.
        value: Name,
    },
    /// The node has a node pool label, and the scheduler serves nodes without one.
    Unwanted {
        /// Key of the label.
        key: Name,
    },
    /// The node is not labelled as a GPU worker.
    NotGpuWorker,
    /// The node is not labelled as a CPU worker.
    NotCpuWorker,
}

impl LabelMismatch {
    /// Whether the mismatch keeps pods of the shape away from the node.
    fn excludes_shape(&self, shape: &PodShape) -> bool {
        match self {
            Self::Missing { .. } | Self::Unwanted { .. } => true,
            Self::NotGpuWorker => shape.requests_gpus(),
            Self::NotCpuWorker => !shape.requests_gpus(),
        }
    }

    /// The label to add to the node; `None` when one must be removed.
    pub fn label_to_add(&self) -> Option<String> {
        match self {
            Self::Missing { key, value } => Some(format!("{key}={value}")),
            Self::Unwanted { .. } => None,
            Self::NotGpuWorker => Some(GPU_WORKER.to_owned()),
            Self::NotCpuWorker => Some(CPU_WORKER.to_owned()),
        }
    }

    /// The label to remove from the node.
    pub fn label_to_remove(&self) -> Option<&str> {
        match self {
            Self::Unwanted { key } => Some(key),
            Self::Missing { .. } | Self::NotGpuWorker | Self::NotCpuWorker => None,
        }
    }
}
