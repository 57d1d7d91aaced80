//! GPU demand of the cluster: its most frequent shapes.

use std::cmp::Reverse;

use crate::{
    Snapshot,
    model::{PodStatus, ShapeId},
};

/// Number of shapes that represent all.
const SHAPES_MAX: usize = 64;

/// The most frequent shapes that request GPUs, each with its number of unfinished pods. Equally
/// frequent shapes are in order of first use.
pub(super) fn gpu_demand(snapshot: &Snapshot) -> Vec<(ShapeId, i64)> {
    let mut counts: Vec<(ShapeId, i64)> =
        (0..).map(ShapeId).zip(snapshot.shapes.iter().map(|_| 0)).collect();
    for pod in &snapshot.pods {
        let ended = matches!(pod.status, PodStatus::Succeeded | PodStatus::Failed);
        counts[pod.shape.0 as usize].1 += i64::from(!ended);
    }
    let asks_gpus = |shape: ShapeId| snapshot.shapes[shape.0 as usize].requests_plain_gpus();
    counts.retain(|(shape, count)| *count > 0 && asks_gpus(*shape));
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.truncate(SHAPES_MAX);
    counts
}
