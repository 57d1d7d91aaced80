//! Texts for nodes that are excluded from scheduling, and for the labels that would include them.

use std::{collections::BTreeSet, fmt};

use super::{ExcludedNodeCounts, Suggestion};
use crate::model::{LabelMismatch, Name};

/// Prints which nodes are left out, such as `nodes labelled pool=b; 3 others are left out`.
impl fmt::Display for ExcludedNodeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (with, without) = self.mismatching_labels();
        let with = (!with.is_empty()).then(|| format!("labelled {}", with.join(" and ")));
        let without =
            (!without.is_empty()).then(|| format!("without label {}", without.join(" or ")));
        let like: Vec<String> = with.into_iter().chain(without).collect();
        write!(f, "nodes {}; ", like.join(" and "))?;
        match self.node_count() {
            1 => f.write_str("another one is excluded"),
            others => write!(f, "{others} others are excluded"),
        }
    }
}

impl ExcludedNodeCounts {
    /// The excluded nodes as a sentence that follows the errors of other nodes.
    pub(super) fn appended_sentence(&self) -> String {
        let (with, without) = self.mismatching_labels();
        let with = (!with.is_empty()).then(|| format!("not labelled {}", with.join(" and ")));
        let without = (!without.is_empty()).then(|| format!("labelled {}", without.join(" or ")));
        let like: Vec<String> = with.into_iter().chain(without).collect();
        let like = like.join(" or ");
        match self.node_count() {
            1 => format!("Another one is excluded: it is {like}"),
            others => format!("{others} others are excluded: they are {like}"),
        }
    }

    fn node_count(&self) -> u32 {
        self.0.values().map(|(nodes, _)| nodes).sum()
    }

    /// Labels that the excluded nodes lack, and label keys that they should not have.
    fn mismatching_labels(&self) -> (Vec<String>, Vec<&str>) {
        let mismatches: BTreeSet<&LabelMismatch> = self.0.keys().flatten().collect();
        let with = mismatches.iter().filter_map(|mismatch| mismatch.label_to_add()).collect();
        (with, mismatches.iter().filter_map(|mismatch| mismatch.label_to_remove()).collect())
    }

    /// Suggests to relabel the nodes with the fewest label mismatches; among equals, the largest
    /// set of nodes.
    pub(super) fn relabel_suggestion(&self, pods: u32) -> Option<Suggestion> {
        let all = self.0.iter();
        let nearest =
            all.min_by_key(|(mismatches, (nodes, _))| (mismatches.len(), u32::MAX - nodes));
        nearest.map(|(mismatches, (nodes, first))| Suggestion::RelabelExcludedNode {
            mismatches: mismatches.clone(),
            nodes: *nodes,
            pods,
            first: Name::clone(first),
        })
    }
}

/// Writes which labels to change on the node `first`; other nodes may have more mismatches.
pub(super) fn fmt_relabel(
    f: &mut fmt::Formatter<'_>,
    mismatches: &BTreeSet<LabelMismatch>,
    nodes: u32,
    first: &str,
    pods: u32,
) -> fmt::Result {
    let (of, it) = match (nodes, pods) {
        (1, _) => (format!("excluded node {first}"), "it"),
        (_, 0 | 1) => (format!("one of {nodes} excluded nodes, such as {first}"), "it"),
        (_, _) => {
            let such = format!("as many of {nodes} excluded nodes as its pods need");
            (format!("{such}, such as {first}"), "them")
        }
    };
    let with: Vec<String> = mismatches.iter().filter_map(LabelMismatch::label_to_add).collect();
    let without: Vec<&str> = mismatches.iter().filter_map(LabelMismatch::label_to_remove).collect();
    let (added, removed) = (with.join(" and "), without.join(" and "));
    match (with.is_empty(), without.is_empty()) {
        (false, true) => write!(f, "add label {added} to {of}"),
        (true, _) => write!(f, "remove label {removed} from {of}"),
        (false, false) => {
            write!(f, "add label {added} to {of}, and remove label {removed} from {it}")
        }
    }
}
