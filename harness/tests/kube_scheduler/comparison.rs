//! Differences between the decisions of kube-scheduler and of our scheduler.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::Context as _;
use schedlab_api::Value;
use schedlab_scheduler::{Config, build_snapshot};
use schedlab_scheduler_core::{
    framework::{ScoredNode, Session},
    model::PodId,
};

use crate::reference::{Outcome, Scores};

/// Our plugin names that differ from those of kube-scheduler: ours, and kube-scheduler's.
const PLUGIN_NAMES: [(&str, &str); 2] = [
    ("LeastAllocated", "NodeResourcesFit"),
    ("BalancedAllocation", "NodeResourcesBalancedAllocation"),
];

/// The weighted scores of our profile `kube` for a waiting pod.
pub(crate) fn our_scores(
    nodes: &[Value],
    pods: &[Value],
    namespace: &str,
    name: &str,
) -> anyhow::Result<Scores> {
    let config = Config::kube();
    let snapshot = build_snapshot(&config, nodes, pods);
    let mut found = (0..).map(PodId).zip(&snapshot.pods);
    let found = found.find(|(_, pod)| *pod.namespace == *namespace && *pod.name == *name);
    let (id, _) = found.with_context(|| format!("there is no waiting pod {namespace}/{name}"))?;
    let session = Session::new(&snapshot, &config.profile);
    let by_name = |scored: ScoredNode| {
        let node = &snapshot.nodes[scored.node.0 as usize].name;
        (node.to_string(), scored.scores.into_iter().collect())
    };
    Ok(session.scored_nodes(id).into_iter().map(by_name).collect())
}

/// Counts of the compared decisions.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bound: usize,
    pub(crate) scored: usize,
    pub(crate) unschedulable: usize,
    /// Each difference, with the cluster in which it occurred.
    pub(crate) differences: Vec<(String, String)>,
}

impl Tally {
    /// Counts the decision for one pod.
    pub(crate) fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Bound { scores, .. } => {
                self.bound += 1;
                self.scored += usize::from(!scores.is_empty());
            }
            Outcome::Unschedulable { .. } => self.unschedulable += 1,
        }
    }

    /// Adds the counts of another cluster.
    pub(crate) fn add(&mut self, other: Self) {
        self.bound += other.bound;
        self.scored += other.scored;
        self.unschedulable += other.unschedulable;
        self.differences.extend(other.differences);
    }

    /// Records a difference, with the nodes and pods of the cluster.
    pub(crate) fn add_difference(&mut self, description: String, nodes: &[Value], pods: &[Value]) {
        self.differences.push((description, describe_cluster(nodes, pods)));
    }

    /// All differences, one a line, and the cluster of the first one.
    pub(crate) fn describe_differences(&self) -> String {
        let lines: Vec<&str> =
            self.differences.iter().map(|(description, _)| description.as_str()).collect();
        let cluster = self.differences.first().map_or("", |(_, cluster)| cluster);
        format!("{}\n{}\n{cluster}\n{self}", lines.join("\n"), lines.first().unwrap_or(&""))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.bound + self.unschedulable;
        let Self { bound, scored, unschedulable, differences } = self;
        write!(
            f,
            "{all} decisions compared: {bound} bound ({scored} with several feasible nodes), {unschedulable} \
             unschedulable; {} differences",
            differences.len()
        )
    }
}

/// Describes how our feasible nodes and scores differ from the decision of kube-scheduler.
pub(crate) fn differences(outcome: &Outcome, ours: &Scores) -> Vec<String> {
    let (node, scores) = match outcome {
        Outcome::Unschedulable { message } => {
            let fits: Vec<&str> = ours.keys().map(String::as_str).collect();
            return match fits.as_slice() {
                [] => Vec::new(),
                fits => {
                    vec![format!("kube-scheduler: no feasible node ({message}), ours: {fits:?}")]
                }
            };
        }
        Outcome::Bound { node, scores } => (node, scores),
    };
    let fits: BTreeSet<&String> =
        if scores.is_empty() { BTreeSet::from([node]) } else { scores.keys().collect() };
    let our_fits: BTreeSet<&String> = ours.keys().collect();
    if fits != our_fits {
        return vec![format!("feasible nodes: kube-scheduler {fits:?}, ours {our_fits:?}")];
    }
    if scores.is_empty() {
        return Vec::new();
    }
    let (theirs, our_rows) = (rows(scores, false), rows(ours, true));
    let plugins: BTreeSet<&String> = theirs.keys().chain(our_rows.keys()).collect();
    let differ = plugins.into_iter().filter(|plugin| theirs.get(*plugin) != our_rows.get(*plugin));
    let mut found: Vec<String> = differ
        .map(|plugin| {
            format!(
                "{plugin}: kube-scheduler {:?}, ours {:?}",
                theirs.get(plugin),
                our_rows.get(plugin)
            )
        })
        .collect();
    let total = |node: &String| ours.get(node).map(|scores| scores.values().sum::<i128>());
    let best = ours.keys().map(total).max().flatten();
    if total(node) != best {
        found.push(format!("kube-scheduler chose {node}, which does not have our highest score"));
    }
    found
}

/// Scores by plugin and node. Plugins with equal scores for all nodes are left out: it does not
/// matter whether such a plugin is skipped.
fn rows(scores: &Scores, ours: bool) -> BTreeMap<String, BTreeMap<&String, i128>> {
    let mut rows: BTreeMap<String, BTreeMap<&String, i128>> = BTreeMap::new();
    for (node, by_plugin) in scores {
        for (plugin, score) in by_plugin {
            let renamed = PLUGIN_NAMES.iter().find(|(own, _)| ours && own == plugin);
            let name = renamed.map_or(plugin.as_str(), |(_, theirs)| theirs);
            rows.entry(name.to_owned()).or_default().insert(node, *score);
        }
    }
    rows.retain(|_, row| row.values().collect::<BTreeSet<_>>().len() > 1);
    rows
}

/// Describes nodes and pods, one a line.
fn describe_cluster(nodes: &[Value], pods: &[Value]) -> String {
    let nodes = nodes.iter().map(|node| {
        let (meta, spec, status) = (&node["metadata"], &node["spec"], &node["status"]);
        let allocatable = &status["allocatable"];
        format!(
            "node {} {} {spec} {allocatable} {}",
            meta["name"], meta["labels"], status["images"]
        )
    });
    let pods = pods.iter().map(|pod| {
        let meta = &pod["metadata"];
        let deletion = &meta["deletionTimestamp"];
        format!(
            "pod {}/{} {} {deletion} {}",
            meta["namespace"], meta["name"], meta["labels"], pod["spec"]
        )
    });
    nodes.chain(pods).collect::<Vec<_>>().join("\n")
}
