//! Scores of all nodes that fit one pod, without writing anything. Tests compare them with those of
//! kube-scheduler.

use std::collections::BTreeMap;

use schedlab_api::Value;
use schedlab_scheduler_core::{
    framework::{ScoredNode, Session},
    model::PodId,
};

use crate::{cache::ClusterCache, config::Config, snapshot_builder::SnapshotBuilder, watch::Kind};

/// Weighted scores by plugin, by the name of the node.
pub type Scores = BTreeMap<String, BTreeMap<String, i128>>;

/// Scores the nodes for one pod of a cluster given as API objects.
///
/// # Errors
/// The pod is missing, has a node, or cannot be scheduled.
pub fn score_nodes(
    config: &Config,
    nodes: &[Value],
    pods: &[Value],
    namespace: &str,
    name: &str,
) -> Result<Scores, String> {
    let mut cache = ClusterCache::new(&config.scheduler_name).with_flavor(config.flavor);
    cache.relist(Kind::Node, nodes);
    cache.relist(Kind::Pod, pods);
    let mut builder = SnapshotBuilder::from_config(config);
    builder.refresh(&mut cache);
    let snapshot = &builder.built.snapshot;
    let named = |(key, _): &(&crate::cache::ObjectKey, _)| {
        *key.namespace == *namespace && *key.name == *name
    };
    if let Some((_, reason)) = builder.built.unschedulable.iter().find(named) {
        return Err(reason.to_string());
    }
    let found = (0..).map(PodId).zip(&snapshot.pods);
    let mut found = found.filter(|(_, pod)| *pod.namespace == *namespace && *pod.name == *name);
    let Some((id, _)) = found.next() else {
        return Err(format!("there is no waiting pod {namespace}/{name}"));
    };
    let session = Session::new(snapshot, &config.profile);
    let by_name = |scored: ScoredNode| {
        let node = &snapshot.nodes[scored.node.0 as usize].name;
        (node.to_string(), scored.scores.into_iter().collect())
    };
    Ok(session.scored_nodes(id).into_iter().map(by_name).collect())
}
