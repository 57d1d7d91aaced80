//! ImageLocality: nodes that have the pod's images already, weighted by size and by how many
//! nodes have them.

use crate::{
    framework::{DependsOn, NodeScore, Score},
    model::{Name, NodeId, PodId},
    session::Session,
};

const MIB: i64 = 1024 * 1024;
/// Below this size of a container's image nothing is gained.
const LEAST: i64 = 23 * MIB;
/// Above this size of a container's image no more is gained.
const MOST: i64 = 1000 * MIB;

/// Scores nodes by images.
#[derive(Debug)]
pub(super) struct ImageLocality;

impl Score for ImageLocality {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        let images = &session.shape_of(pod).images;
        images.iter().any(|image| nodes_with(session, image) > 0)
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let images = &session.shape_of(pod).images;
        let nodes = count(session.snapshot.nodes.len());
        let spread = |image| count(nodes_with(session, image)) / nodes;
        let spread: Vec<(&Name, f64)> = images.iter().map(|image| (image, spread(image))).collect();
        let containers = i64::try_from(images.len()).unwrap_or(1).max(1);
        Box::new(move |node| {
            let here = &session.node(node).images;
            let sizes =
                spread.iter().filter_map(|(image, part)| Some(scaled(*here.get(*image)?, *part)));
            let (least, most) = (LEAST, MOST * containers);
            let sum = sizes.fold(0, i64::saturating_add).clamp(least, most);
            100 * (sum - least) / (most - least)
        })
    }
}

fn nodes_with(session: &Session<'_>, image: &Name) -> usize {
    session.snapshot.nodes.iter().filter(|node| node.images.contains_key(image)).count()
}

fn count(nodes: usize) -> f64 {
    f64::from(u32::try_from(nodes).unwrap_or(u32::MAX))
}

/// In floating point, as kube-scheduler has it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a part of a size"
)]
fn scaled(size: i64, part: f64) -> i64 {
    (size as f64 * part) as i64
}
