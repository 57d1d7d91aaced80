//! Nodes that the scheduler excludes because of their labels.

use std::collections::BTreeSet;

use super::{CPU_WORKER, GPU_WORKER, Name, PodShape};

/// Nodes that are excluded for the same label mismatches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludedNodes {
    /// Names of the nodes.
    pub nodes: Vec<Name>,
    /// How their labels differ from what the scheduler requires.
    pub mismatches: BTreeSet<LabelMismatch>,
}

impl ExcludedNodes {
    /// The mismatches that keep pods of the shape away.
    pub(crate) fn mismatches_for(&self, shape: &PodShape) -> BTreeSet<LabelMismatch> {
        self.mismatches.iter().filter(|mismatch| mismatch.excludes(shape)).cloned().collect()
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
    /// It keeps pods of the shape away from the node.
    fn excludes(&self, shape: &PodShape) -> bool {
        match self {
            Self::Missing { .. } | Self::Unwanted { .. } => true,
            Self::NotGpuWorker => shape.requests_gpus(),
            Self::NotCpuWorker => !shape.requests_gpus(),
        }
    }

    /// The label to add to the node; `None` when one must be removed.
    pub(crate) fn label_to_add(&self) -> Option<String> {
        match self {
            Self::Missing { key, value } => Some(format!("{key}={value}")),
            Self::Unwanted { .. } => None,
            Self::NotGpuWorker => Some(GPU_WORKER.to_owned()),
            Self::NotCpuWorker => Some(CPU_WORKER.to_owned()),
        }
    }

    /// The label to remove from the node.
    pub(crate) fn label_to_remove(&self) -> Option<&str> {
        match self {
            Self::Unwanted { key } => Some(key),
            Self::Missing { .. } | Self::NotGpuWorker | Self::NotCpuWorker => None,
        }
    }
}
