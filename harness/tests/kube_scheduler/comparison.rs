//! Differences between the decisions of kube-scheduler and of our scheduler.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::Context as _;
use schedlab_scheduler::{ClusterObjects, Config, FeatureGates, build_snapshot};
use schedlab_scheduler_core::{
    Snapshot,
    framework::{FilterResults, GroupPlacement, ScoredNode, Session, Statement},
    model::{Node, NodeId, Pod, PodId},
};

use crate::{
    gangs::Gang,
    log::GroupOutcome,
    reference::{Outcome, Scores},
};

/// Our plugin names that differ from those of kube-scheduler: ours, and kube-scheduler's.
const PLUGIN_NAMES: [(&str, &str); 2] = [
    ("LeastAllocated", "NodeResourcesFit"),
    ("BalancedAllocation", "NodeResourcesBalancedAllocation"),
];

/// The weighted scores of our profile `kube` for a waiting pod.
pub(crate) fn our_scores(objects: &ClusterObjects, namespace: &str, name: &str) -> Scores {
    let config = config();
    let snapshot = build_snapshot(&config, objects);
    let Some(pod) = find_pod(&snapshot, namespace, name) else { return Scores::new() };
    let session = Session::new(&snapshot, &config.profile);
    by_node_name(&snapshot, session.scored_nodes(pod))
}

/// Why our profile `kube` rejects nodes for a waiting pod.
pub(crate) fn our_fit_errors(objects: &ClusterObjects, namespace: &str, name: &str) -> String {
    let config = config();
    let snapshot = build_snapshot(&config, objects);
    let Some(pod) = find_pod(&snapshot, namespace, name) else {
        return "ours: the snapshot lacks the pod".to_owned();
    };
    let session = Session::new(&snapshot, &config.profile);
    let error = |(node, results): (&Node, FilterResults)| {
        let (plugin, error) =
            results.into_iter().find_map(|(plugin, fit)| Some((plugin, fit.err()?)))?;
        Some(format!("{}: {plugin}: {error:?}", node.name))
    };
    let errors = snapshot.nodes.iter().zip(session.filter_results(pod)).filter_map(error);
    format!("ours: {}", errors.collect::<Vec<_>>().join("; "))
}

/// Profile `kube` with the feature gates of kube-scheduler.
fn config() -> Config {
    let feature_gates = FeatureGates { generic_workload: true, topology_aware: true };
    Config { feature_gates, ..Config::kube() }
}

/// A pod that may be scheduled; `None` if it is invalid as it stands.
fn find_pod(snapshot: &Snapshot, namespace: &str, name: &str) -> Option<PodId> {
    let mut found = (0..).map(PodId).zip(&snapshot.pods);
    let is_it = |pod: &Pod| *pod.namespace == *namespace && *pod.name == *name;
    found.find(|(_, pod)| is_it(pod)).map(|(id, _)| id)
}

fn by_node_name(snapshot: &Snapshot, nodes: Vec<ScoredNode>) -> Scores {
    let by_name = |scored: ScoredNode| {
        let node = &snapshot.nodes[scored.node.0 as usize].name;
        (node.to_string(), scored.scores.into_iter().collect())
    };
    nodes.into_iter().map(by_name).collect()
}

/// Describes how our placements of a PodGroup differ from those of kube-scheduler. The nodes that
/// kube-scheduler chose are taken over pod by pod, so that equal scores do not matter.
pub(crate) fn group_differences(
    objects: &ClusterObjects,
    gang: &Gang,
    outcome: &GroupOutcome,
) -> anyhow::Result<Vec<String>> {
    let config = config();
    let snapshot = build_snapshot(&config, objects);
    let namespace = gang.namespace();
    let first = gang.pod_names().into_iter().find_map(|name| find_pod(&snapshot, namespace, &name));
    let group = first.and_then(|pod| snapshot.pods[pod.0 as usize].group);
    let mut statement = Statement::new(Session::new(&snapshot, &config.profile));
    let ours = group.map(|group| statement.group_placements(group)).unwrap_or_default();
    if outcome.nodes.is_empty() {
        let placements: Vec<_> = ours.iter().map(|ours| &ours.domain).collect();
        return Ok(if ours.is_empty() {
            Vec::new()
        } else {
            vec![format!("kube-scheduler: no placement, ours {placements:?}")]
        });
    }
    let mut found = placement_differences(outcome, &ours);
    let node_of = |name: &str| {
        let found = snapshot.nodes.iter().position(|node| *node.name == *name);
        found.and_then(|at| u32::try_from(at).ok()).map(NodeId)
    };
    let chosen = outcome.nodes.values().next().and_then(|node| node_of(node));
    let ours = ours.into_iter().find(|ours| chosen.is_some_and(|node| ours.nodes.contains(&node)));
    let Some(ours) = ours else {
        found.push(format!("our placements lack the one of {:?}", outcome.nodes));
        return Ok(found);
    };
    let name = ours.domain.as_deref().unwrap_or_default();
    let Some(tried) = outcome.placements.iter().find(|tried| tried.name == name) else {
        let tried: Vec<_> = outcome.placements.iter().map(|tried| &tried.name).collect();
        found.push(format!("kube-scheduler tried the placements {tried:?}, not {name:?}"));
        return Ok(found);
    };
    for (pod, scores) in &tried.pods {
        let (id, node) = (find_pod(&snapshot, namespace, pod), outcome.nodes.get(pod));
        let id = id.with_context(|| format!("the snapshot lacks {pod}"))?;
        let real = match node {
            Some(node) => Outcome::Bound { node: node.clone(), scores: scores.clone() },
            None => Outcome::Unschedulable { message: "left out of its group".to_owned() },
        };
        let nodes = statement.scored_nodes_within(id, Some(&ours.nodes));
        let of_pod = differences(&real, &by_node_name(&snapshot, nodes));
        found.extend(of_pod.into_iter().map(|text| format!("{pod}: {text}")));
        if let (Some(node), true) = (node.and_then(|node| node_of(node)), found.is_empty()) {
            statement.allocate(id, node);
        }
    }
    Ok(found)
}

/// Describes how the feasible placements and their scores differ.
fn placement_differences(outcome: &GroupOutcome, ours: &[GroupPlacement]) -> Vec<String> {
    if outcome.scores.is_empty() {
        let ours: Vec<_> = ours.iter().map(|ours| &ours.domain).collect();
        return match ours.as_slice() {
            [_] => Vec::new(),
            _ => vec![format!("kube-scheduler: one placement, ours {ours:?}")],
        };
    }
    let ours: Scores = ours
        .iter()
        .map(|ours| {
            let name = ours.domain.as_deref().unwrap_or_default();
            (name.to_owned(), ours.scores.iter().cloned().collect())
        })
        .collect();
    if ours == outcome.scores {
        return Vec::new();
    }
    vec![format!("placements: kube-scheduler {:?}, ours {ours:?}", outcome.scores)]
}

/// Counts of the compared decisions.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bound: usize,
    pub(crate) scored: usize,
    pub(crate) unschedulable: usize,
    pub(crate) groups_bound: usize,
    pub(crate) groups_unschedulable: usize,
    /// Claims that got devices which several nodes can use.
    pub(crate) multi_node_claims: usize,
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
        self.groups_bound += other.groups_bound;
        self.groups_unschedulable += other.groups_unschedulable;
        self.multi_node_claims += other.multi_node_claims;
        self.differences.extend(other.differences);
    }

    /// Counts the decision for a PodGroup.
    pub(crate) fn count_group(&mut self, outcome: &GroupOutcome) {
        if outcome.nodes.is_empty() {
            self.groups_unschedulable += 1;
        } else {
            self.groups_bound += 1;
        }
    }

    /// Records a difference, with the objects of the cluster.
    pub(crate) fn add_difference(&mut self, description: String, objects: &ClusterObjects) {
        self.differences.push((description, describe_cluster(objects)));
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
        let Self { bound, scored, unschedulable, groups_bound, groups_unschedulable, .. } = self;
        let (pods, groups) = (bound + unschedulable, groups_bound + groups_unschedulable);
        write!(
            f,
            "{pods} decisions about pods compared: {bound} bound ({scored} with several feasible \
             nodes), {unschedulable} unschedulable; {groups} about PodGroups: {groups_bound} bound, \
             {groups_unschedulable} unschedulable; {} claims got devices of several nodes; {} \
             differences",
            self.multi_node_claims,
            self.differences.len()
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

/// Describes the objects of a cluster, one a line.
fn describe_cluster(objects: &ClusterObjects) -> String {
    let nodes = objects.nodes.iter().map(|node| {
        let (meta, spec, status) = (&node["metadata"], &node["spec"], &node["status"]);
        let allocatable = &status["allocatable"];
        format!(
            "node {} {} {spec} {allocatable} {}",
            meta["name"], meta["labels"], status["images"]
        )
    });
    let pods = objects.pods.iter().map(|pod| {
        let meta = &pod["metadata"];
        let deletion = &meta["deletionTimestamp"];
        format!(
            "pod {}/{} {} {deletion} {}",
            meta["namespace"], meta["name"], meta["labels"], pod["spec"]
        )
    });
    let others = [
        &objects.pod_groups,
        &objects.device_classes,
        &objects.resource_slices,
        &objects.resource_claims,
    ];
    let others = others.into_iter().flatten().map(|object| {
        let meta = &object["metadata"];
        let allocation = &object["status"]["allocation"];
        format!("object {}/{} {} {allocation}", meta["namespace"], meta["name"], object["spec"])
    });
    nodes.chain(pods).chain(others).collect::<Vec<_>>().join("\n")
}
