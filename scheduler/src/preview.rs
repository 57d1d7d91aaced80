//! What a scheduler would look at if it had to place one pod now: the nodes on which it fits,
//! and how each of them is scored. Nothing is written.

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::{
    model::PodId,
    session::{ScoredNode, Session},
};

use crate::{config::Config, mirror::Mirror, translate::Translator, watch::Kind};

/// Weighted scores by plugin, by the names of the nodes on which the pod fits.
pub type Scores = BTreeMap<String, BTreeMap<String, i128>>;

/// Scores the nodes for one pod of a cluster, both as the API shows them.
///
/// # Errors
/// The pod is not there, or cannot be scheduled as it stands.
pub fn preview(
    config: &Config,
    nodes: &[Value],
    pods: &[Value],
    (namespace, name): (&str, &str),
) -> Result<Scores, String> {
    let mut mirror = Mirror::new(&config.scheduler_name).of_flavor(config.flavor);
    mirror.relist(Kind::Node, nodes);
    mirror.relist(Kind::Pod, pods);
    let mut translator = Translator::of(config);
    translator.refresh(&mut mirror);
    let snapshot = &translator.translation.snapshot;
    let named =
        |(key, _): &(&crate::mirror::Key, _)| *key.namespace == *namespace && *key.name == *name;
    if let Some((_, trouble)) = translator.translation.troubles.iter().find(named) {
        return Err(trouble.to_string());
    }
    let found = (0..).map(PodId).zip(&snapshot.pods);
    let mut found = found.filter(|(_, pod)| *pod.namespace == *namespace && *pod.name == *name);
    let Some((id, _)) = found.next() else {
        return Err(format!("there is no pod {namespace}/{name} that waits"));
    };
    let session = Session::new(snapshot, &config.profile);
    let by_name = |scored: ScoredNode| {
        let node = &snapshot.nodes[scored.node.0 as usize].name;
        (node.to_string(), scored.scores.into_iter().collect())
    };
    Ok(session.scored_nodes(id).into_iter().map(by_name).collect())
}
