//! Where two schedulers differ about one pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use schedlab_json::Value;

use crate::real::{Fate, Scores};

/// What ours calls its plugins, where kube-scheduler calls them otherwise.
const NAMES: [(&str, &str); 2] = [
    ("LeastAllocated", "NodeResourcesFit"),
    ("BalancedAllocation", "NodeResourcesBalancedAllocation"),
];

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bound: usize,
    pub(crate) scored: usize,
    pub(crate) nowhere: usize,
    /// What differs, with all that was seen.
    pub(crate) wrong: Vec<(String, String)>,
}

impl Tally {
    /// Takes one pod's comparison.
    pub(crate) fn count(&mut self, fate: &Fate) {
        match fate {
            Fate::Bound { scored, .. } => {
                self.bound += 1;
                self.scored += usize::from(!scored.is_empty());
            }
            Fate::Nowhere { .. } => self.nowhere += 1,
        }
    }

    /// Adds what was found in another cluster.
    pub(crate) fn add(&mut self, other: Self) {
        self.bound += other.bound;
        self.scored += other.scored;
        self.nowhere += other.nowhere;
        self.wrong.extend(other.wrong);
    }

    /// Remembers a difference, with the nodes and pods that both saw.
    pub(crate) fn differs(&mut self, words: String, (nodes, pods): (&[Value], &[Value])) {
        self.wrong.push((words, seen(nodes, pods)));
    }

    /// All that differs in a line each, and all that was seen of the first.
    pub(crate) fn first_wrong(&self) -> String {
        let lines: Vec<&str> = self.wrong.iter().map(|(words, _)| words.as_str()).collect();
        let seen = self.wrong.first().map_or("", |(_, seen)| seen);
        format!("{}\n{}\n{seen}\n{self}", lines.join("\n"), lines.first().unwrap_or(&""))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.bound + self.nowhere;
        let Self { bound, scored, nowhere, wrong } = self;
        write!(
            f,
            "{all} decisions compared: {bound} bound ({scored} with a choice), {nowhere} nowhere; \
             {} differ",
            wrong.len()
        )
    }
}

/// In which respects ours differs from what the real one did.
pub(crate) fn differences(fate: &Fate, ours: &Scores) -> Vec<String> {
    let (node, scored) = match fate {
        Fate::Nowhere { message } => {
            let fits: Vec<&str> = ours.keys().map(String::as_str).collect();
            return match fits.as_slice() {
                [] => Vec::new(),
                fits => vec![format!("theirs fits nowhere ({message}), ours on {fits:?}")],
            };
        }
        Fate::Bound { node, scored } => (node, scored),
    };
    let fits: BTreeSet<&String> =
        if scored.is_empty() { BTreeSet::from([node]) } else { scored.keys().collect() };
    let our_fits: BTreeSet<&String> = ours.keys().collect();
    if fits != our_fits {
        return vec![format!("theirs fits on {fits:?}, ours on {our_fits:?}")];
    }
    if scored.is_empty() {
        return Vec::new();
    }
    let (theirs, our_rows) = (rows(scored, false), rows(ours, true));
    let plugins: BTreeSet<&String> = theirs.keys().chain(our_rows.keys()).collect();
    let differ = plugins.into_iter().filter(|plugin| theirs.get(*plugin) != our_rows.get(*plugin));
    let mut found: Vec<String> = differ
        .map(|plugin| {
            format!("{plugin}: theirs {:?}, ours {:?}", theirs.get(plugin), our_rows.get(plugin))
        })
        .collect();
    let total = |node: &String| ours.get(node).map(|scores| scores.values().sum::<i128>());
    let best = ours.keys().map(total).max().flatten();
    if total(node) != best {
        found.push(format!("theirs went to {node}, which is none of our best"));
    }
    found
}

/// Scores by plugin, without those that make no difference: whether a plugin with nothing to say
/// is skipped or gives everybody the same does not matter.
fn rows(scores: &Scores, ours: bool) -> BTreeMap<String, BTreeMap<&String, i128>> {
    let mut rows: BTreeMap<String, BTreeMap<&String, i128>> = BTreeMap::new();
    for (node, by_plugin) in scores {
        for (plugin, score) in by_plugin {
            let known = NAMES.iter().find(|(own, _)| ours && own == plugin);
            let name = known.map_or(plugin.as_str(), |(_, theirs)| theirs);
            rows.entry(name.to_owned()).or_default().insert(node, *score);
        }
    }
    rows.retain(|_, row| row.values().collect::<BTreeSet<_>>().len() > 1);
    rows
}

/// Nodes and pods as far as they matter, a line each.
fn seen(nodes: &[Value], pods: &[Value]) -> String {
    let nodes = nodes.iter().map(|node| {
        let (meta, spec, status) = (&node["metadata"], &node["spec"], &node["status"]);
        let offers = &status["allocatable"];
        format!("node {} {} {spec} {offers} {}", meta["name"], meta["labels"], status["images"])
    });
    let pods = pods.iter().map(|pod| {
        let meta = &pod["metadata"];
        let gone = &meta["deletionTimestamp"];
        format!(
            "pod {}/{} {} {gone} {}",
            meta["namespace"], meta["name"], meta["labels"], pod["spec"]
        )
    });
    nodes.chain(pods).collect::<Vec<_>>().join("\n")
}
