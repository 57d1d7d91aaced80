//! What is asked of the cluster: the shapes of which most pods are there.

use std::cmp::Reverse;

use crate::{
    Snapshot,
    model::{PodStatus, ShapeId},
};

/// So many shapes stand for all.
const SHAPES_MAX: usize = 64;

/// The most frequent shapes that ask for GPUs, with how many pods there are of each that have not
/// ended. Of two as frequent the one that was used first comes first.
pub(super) fn of_gpus(snapshot: &Snapshot) -> Vec<(ShapeId, i64)> {
    let mut counts: Vec<(ShapeId, i64)> =
        (0..).map(ShapeId).zip(snapshot.shapes.iter().map(|_| 0)).collect();
    for pod in &snapshot.pods {
        let ended = matches!(pod.status, PodStatus::Succeeded | PodStatus::Failed);
        counts[pod.shape.0 as usize].1 += i64::from(!ended);
    }
    let asks_gpus = |shape: ShapeId| snapshot.shapes[shape.0 as usize].asks_plain_gpus();
    counts.retain(|(shape, count)| *count > 0 && asks_gpus(*shape));
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.truncate(SHAPES_MAX);
    counts
}
