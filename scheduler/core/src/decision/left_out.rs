//! Words for nodes that the scheduler leaves out, and for the labels that would let them in.

use std::{collections::BTreeSet, fmt};

use super::{Lacking, Remedy};
use crate::model::{CPU_WORKER, GPU_WORKER, Lack, LeftOut, Name};

/// `nodes labelled pool=b; 3 others are left out`.
impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (with, without) = self.lacks();
        let with = (!with.is_empty()).then(|| format!("labelled {}", with.join(" and ")));
        let without =
            (!without.is_empty()).then(|| format!("without label {}", without.join(" or ")));
        let like: Vec<String> = with.into_iter().chain(without).collect();
        write!(f, "nodes {}; ", like.join(" and "))?;
        match self.nodes() {
            1 => f.write_str("another one is left out"),
            others => write!(f, "{others} others are left out"),
        }
    }
}

impl Lacking {
    /// Beside nodes of which something else is told.
    pub(super) fn besides(&self) -> String {
        let (with, without) = self.lacks();
        let with = (!with.is_empty()).then(|| format!("not labelled {}", with.join(" and ")));
        let without = (!without.is_empty()).then(|| format!("labelled {}", without.join(" or ")));
        let like: Vec<String> = with.into_iter().chain(without).collect();
        let like = like.join(" or ");
        match self.nodes() {
            1 => format!("Another one is left out, which is {like}"),
            others => format!("{others} others are left out, which are {like}"),
        }
    }

    fn nodes(&self) -> u32 {
        self.0.values().map(|(nodes, _)| nodes).sum()
    }

    /// Labels that they should have, and that they should not.
    fn lacks(&self) -> (Vec<String>, Vec<&str>) {
        let lacks: BTreeSet<&Lack> = self.0.keys().flatten().collect();
        let with = lacks.iter().filter_map(|lack| lack.label()).collect();
        (with, lacks.iter().filter_map(|lack| lack.unwanted()).collect())
    }

    /// Those are labelled that lack least, of equals those of which there are most.
    pub(super) fn let_in(&self, pods: u32) -> Option<Remedy> {
        let all = self.0.iter();
        let nearest = all.min_by_key(|(lacks, (nodes, _))| (lacks.len(), u32::MAX - nodes));
        nearest.map(|(lacks, (nodes, first))| Remedy::LetIn {
            lacks: lacks.clone(),
            nodes: *nodes,
            pods,
            first: Name::clone(first),
        })
    }
}

/// What is to be done for it; some may lack more than the one that is named.
pub(super) fn label(
    f: &mut fmt::Formatter<'_>,
    lacks: &BTreeSet<Lack>,
    (nodes, first, pods): (u32, &str, u32),
) -> fmt::Result {
    let (of, it) = match (nodes, pods) {
        (1, _) => (format!("node {first}, which is left out"), "it"),
        (_, 0 | 1) => (format!("one of {nodes} nodes that are left out, such as {first}"), "it"),
        (_, _) => {
            let such = format!("as many of {nodes} nodes that are left out as its pods need");
            (format!("{such}, such as {first}"), "them")
        }
    };
    let with: Vec<String> = lacks.iter().filter_map(Lack::label).collect();
    let without: Vec<&str> = lacks.iter().filter_map(Lack::unwanted).collect();
    let (put, take) = (with.join(" and "), without.join(" and "));
    match (with.is_empty(), without.is_empty()) {
        (false, true) => write!(f, "put label {put} on {of}"),
        (true, _) => write!(f, "take label {take} off {of}"),
        (false, false) => write!(f, "put label {put} on {of}, and take label {take} off {it}"),
    }
}

impl LeftOut {
    /// For what; either role would do.
    pub fn why(&self) -> String {
        let roles = [Lack::GpuWorker, Lack::CpuWorker].iter().all(|lack| self.lacks.contains(lack));
        let role = roles.then(|| format!("for want of label {GPU_WORKER} or {CPU_WORKER}"));
        let of_pool = self.lacks.iter().find_map(|lack| match lack {
            Lack::Label { key, value } => Some(format!("for want of label {key}={value}")),
            Lack::NoLabel { key } => Some(format!("for label {key}")),
            Lack::GpuWorker | Lack::CpuWorker => None,
        });
        of_pool.into_iter().chain(role).collect::<Vec<_>>().join(" and ")
    }
}
