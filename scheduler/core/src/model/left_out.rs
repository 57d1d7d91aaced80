//! Nodes that a scheduler does not look at, for their labels.

use std::collections::BTreeSet;

use super::{CPU_WORKER, GPU_WORKER, Name, PodShape};

/// Nodes that are there and left out for the same labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Their names.
    pub nodes: Vec<Name>,
    /// What of their labels is not as this scheduler wants it.
    pub lacks: BTreeSet<Lack>,
}

impl LeftOut {
    /// What of it keeps pods of the shape away.
    pub(crate) fn lacks_for(&self, shape: &PodShape) -> BTreeSet<Lack> {
        self.lacks.iter().filter(|lack| lack.keeps_away(shape)).cloned().collect()
    }
}

/// What a scheduler wants of the labels of a node, and one has not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// A label of this value: that of the node pool that is served.
    Label {
        /// Its key.
        key: Name,
        /// Its value.
        value: Name,
    },
    /// To be without this label: served are those without a node pool.
    NoLabel {
        /// Its key.
        key: Name,
    },
    /// To be labelled for work with GPUs.
    GpuWorker,
    /// To be labelled for work without GPUs.
    CpuWorker,
}

impl Lack {
    /// Pods of the shape do not run where it is lacking.
    fn keeps_away(&self, shape: &PodShape) -> bool {
        match self {
            Self::Label { .. } | Self::NoLabel { .. } => true,
            Self::GpuWorker => shape.asks_gpus(),
            Self::CpuWorker => !shape.asks_gpus(),
        }
    }

    /// The label that a node is to get; `None`: it is to lose one.
    pub(crate) fn label(&self) -> Option<String> {
        match self {
            Self::Label { key, value } => Some(format!("{key}={value}")),
            Self::NoLabel { .. } => None,
            Self::GpuWorker => Some(GPU_WORKER.to_owned()),
            Self::CpuWorker => Some(CPU_WORKER.to_owned()),
        }
    }

    /// The label that it is to lose.
    pub(crate) fn unwanted(&self) -> Option<&str> {
        match self {
            Self::NoLabel { key } => Some(key),
            Self::Label { .. } | Self::GpuWorker | Self::CpuWorker => None,
        }
    }
}
