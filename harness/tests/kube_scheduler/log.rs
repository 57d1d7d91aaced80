//! Decisions in the log of kube-scheduler. At verbosity 10 it has every feasible node, and the score of
//! every plugin.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::reference::Scores;

/// The decision for a PodGroup in its first cycle that tried a placement.
#[derive(Clone, Debug)]
pub(crate) struct GroupOutcome {
    /// The node of each bound pod.
    pub(crate) nodes: BTreeMap<String, String>,
    /// The placements that were tried. A group without topology constraint has one without a name.
    pub(crate) placements: Vec<TriedPlacement>,
    /// Weighted scores by feasible placement and plugin; empty unless several are feasible.
    pub(crate) scores: Scores,
}

/// A placement that was tried.
#[derive(Clone, Debug)]
pub(crate) struct TriedPlacement {
    pub(crate) name: String,
    /// The pods in the order in which they were tried, with the scores of their nodes.
    pub(crate) pods: Vec<(String, Scores)>,
}

/// The weighted scores of the feasible nodes for a pod (`NAMESPACE/NAME`), if there are several.
pub(crate) fn scores_of(text: &str, pod: &str) -> anyhow::Result<Scores> {
    let of_pod = |line: &&str| field(line, "pod") == Some(pod);
    let lines = text.lines().filter(|line| line.contains("\"Plugin scored node for pod\""));
    read_scores(lines.filter(of_pod), "node")
}

fn read_scores<'t>(lines: impl Iterator<Item = &'t str>, subject: &str) -> anyhow::Result<Scores> {
    let mut scores = Scores::new();
    for line in lines {
        let fields = (field(line, subject), field(line, "plugin"), field(line, "score"));
        if let (Some(subject), Some(plugin), Some(score)) = fields {
            let score = score.parse().with_context(|| line.to_owned())?;
            scores.entry(subject.to_owned()).or_default().insert(plugin.to_owned(), score);
        }
    }
    Ok(scores)
}

/// The last value of a field of a line: values of the logger come before those of the message.
fn field<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let (_, after) = line.rsplit_once(&format!(" {name}="))?;
    Some(after.split_whitespace().next()?.trim_matches('"'))
}

impl GroupOutcome {
    /// Reads the first cycle of a group (`NAMESPACE/NAME`) that tried a placement. The log may begin
    /// with cycles that failed before, or that belong to a deleted group of this name.
    pub(crate) fn from_log(
        text: &str,
        group: &str,
        nodes: BTreeMap<String, String>,
    ) -> anyhow::Result<Self> {
        let of_group = |line: &&str| field(line, "podGroup") == Some(group);
        let starts_placement = |line: &&str| line.contains("\"Assuming placement in snapshot\"");
        let is_end = |line: &&str| {
            line.contains("Successfully scheduled a pod group")
                || line.contains("Unable to schedule a pod group")
                || line.contains("Error scheduling pod group")
        };
        let lines: Vec<&str> = text.lines().filter(of_group).collect();
        let mut cycles = lines.split(is_end);
        let cycle = cycles.find(|cycle| cycle.iter().any(starts_placement)).unwrap_or_default();
        let mut placements: Vec<TriedPlacement> = Vec::new();
        let (mut lines_of_pod, mut tried) = (Vec::new(), Vec::new());
        for line in cycle.iter().chain([&"end"]) {
            let starts_pod = line.contains("Attempting to schedule a pod belonging to a pod group");
            if (starts_placement(line) || starts_pod || *line == "end")
                && let Some(pod) = tried.pop()
                && let Some(placement) = placements.last_mut()
            {
                let scores = read_scores(std::mem::take(&mut lines_of_pod).into_iter(), "node")?;
                placement.pods.push((pod, scores));
            }
            if starts_placement(line) {
                let name = field(line, "placement").unwrap_or_default().to_owned();
                placements.push(TriedPlacement { name, pods: Vec::new() });
            } else if starts_pod {
                let pod = field(line, "pod").unwrap_or_default();
                tried.push(pod.split_once('/').map_or(pod, |(_, name)| name).to_owned());
            } else if line.contains("\"Plugin scored node for pod\"") {
                lines_of_pod.push(*line);
            }
        }
        let lines = cycle.iter().copied();
        let of_placements =
            lines.filter(|line| line.contains("\"Plugin scored placement for podGroup\""));
        let scores = read_scores(of_placements, "placement")?;
        Ok(Self { nodes, placements, scores })
    }
}
