//! ImageLocality: prefers nodes that already have the images of the pod, weighted by size and by
//! the fraction of nodes that have them.

use crate::{
    framework::{NodeScore, ResultInputs, Score, Session},
    model::{Name, NodeId, PodId},
};

const MIB: i64 = 1024 * 1024;
/// Image size per container up to which the score is 0.
const MIN_SIZE_PER_CONTAINER: i64 = 23 * MIB;
/// Image size per container from which the score is maximal.
const MAX_SIZE_PER_CONTAINER: i64 = 1000 * MIB;

/// Scores nodes by the pod's container images that they already have.
#[derive(Debug)]
pub(super) struct ImageLocality;

impl Score for ImageLocality {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        let images = &session.shape_of(pod).images;
        images.iter().any(|image| count_nodes_with_image(session, image) > 0)
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let images = &session.shape_of(pod).images;
        let nodes = count_to_f64(session.snapshot.nodes.len());
        let spread_factors = |image| count_to_f64(count_nodes_with_image(session, image)) / nodes;
        let spread: Vec<(&Name, f64)> =
            images.iter().map(|image| (image, spread_factors(image))).collect();
        let containers = i64::try_from(images.len()).unwrap_or(1).max(1);
        Box::new(move |node| {
            let images_on_node = &session.node(node).images;
            let sizes = spread.iter().filter_map(|(image, factor)| {
                Some(scale_image_size(*images_on_node.get(*image)?, *factor))
            });
            let (min_size, max_size) =
                (MIN_SIZE_PER_CONTAINER, MAX_SIZE_PER_CONTAINER * containers);
            let sum = sizes.fold(0, i64::saturating_add).clamp(min_size, max_size);
            100 * (sum - min_size) / (max_size - min_size)
        })
    }
}

fn count_nodes_with_image(session: &Session<'_>, image: &Name) -> usize {
    session.snapshot.nodes.iter().filter(|node| node.images.contains_key(image)).count()
}

fn count_to_f64(nodes: usize) -> f64 {
    f64::from(u32::try_from(nodes).unwrap_or(u32::MAX))
}

/// Scales a size in floating point, to round like kube-scheduler.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a fraction of a size"
)]
fn scale_image_size(size: i64, factor: f64) -> i64 {
    (size as f64 * factor) as i64
}
