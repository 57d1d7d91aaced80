//! ImageLocality: prefers nodes that already have the images of the pod, weighted by size and by
//! the fraction of nodes that have them.

use crate::{
    framework::{NodeScore, ResultInputs, Score, Session},
    model::{Name, NodeId, PodId},
};

const MIB: i64 = 1024 * 1024;
/// Image size per container up to which the score is 0.
const MIN_SIZE: i64 = 23 * MIB;
/// Image size per container from which the score is maximal.
const MAX_SIZE_PER_CONTAINER: i64 = 1000 * MIB;

/// Scores nodes by images.
#[derive(Debug)]
pub(super) struct ImageLocality;

impl Score for ImageLocality {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        let images = &session.shape_of(pod).images;
        images.iter().any(|image| nodes_with(session, image) > 0)
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let images = &session.shape_of(pod).images;
        let nodes = count(session.snapshot.nodes.len());
        let spread_factors = |image| count(nodes_with(session, image)) / nodes;
        let spread: Vec<(&Name, f64)> =
            images.iter().map(|image| (image, spread_factors(image))).collect();
        let containers = i64::try_from(images.len()).unwrap_or(1).max(1);
        Box::new(move |node| {
            let images_on_node = &session.node(node).images;
            let sizes = spread
                .iter()
                .filter_map(|(image, factor)| Some(scaled(*images_on_node.get(*image)?, *factor)));
            let (min_size, max_size) = (MIN_SIZE, MAX_SIZE_PER_CONTAINER * containers);
            let sum = sizes.fold(0, i64::saturating_add).clamp(min_size, max_size);
            100 * (sum - min_size) / (max_size - min_size)
        })
    }
}

fn nodes_with(session: &Session<'_>, image: &Name) -> usize {
    session.snapshot.nodes.iter().filter(|node| node.images.contains_key(image)).count()
}

fn count(nodes: usize) -> f64 {
    f64::from(u32::try_from(nodes).unwrap_or(u32::MAX))
}

/// In floating point, to round like kube-scheduler.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a fraction of a size"
)]
fn scaled(size: i64, factor: f64) -> i64 {
    (size as f64 * factor) as i64
}
