//! Why topology constraints keep a pod from a node.

use std::fmt;

use super::{InvalidLevel, NoTopologyDomain, Suggestion, suggestion::count_with_noun};
use crate::model::{Name, NodeSelection};

/// Why topology constraints keep a pod from a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyFitError {
    /// The node's domain cannot hold the pods that must run together.
    DomainTooFull {
        /// Name of the topology.
        topology: Name,
        /// Name of the required level.
        level: Name,
        /// Number of pods that must run together.
        pods: u32,
    },
    /// The node's domain is not the one in which pods of the gang already run.
    OtherDomain {
        /// Name of the topology.
        topology: Name,
        /// Name of the required level.
        level: Name,
    },
    /// The node lacks a label of the topology, so that it is in no domain.
    MissingLabels {
        /// Name of the topology.
        topology: Name,
    },
}

impl TopologyFitError {
    /// Whether evictions could resolve the error.
    pub(super) const fn is_resolvable_by_eviction(&self) -> bool {
        match self {
            Self::DomainTooFull { .. } => true,
            Self::OtherDomain { .. } | Self::MissingLabels { .. } => false,
        }
    }

    /// Writes what an operator can do about the error.
    pub(super) fn fmt_suggestion(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DomainTooFull { topology, level, pods } => {
                fmt_free_domain(f, *pods, level, &[], topology)
            }
            Self::OtherDomain { topology, level } => write!(
                f,
                "free capacity in the {level} of topology {topology} in which its other pods run, \
                 or only prefer that level"
            ),
            Self::MissingLabels { topology } => {
                write!(f, "label nodes with all levels of topology {topology}")
            }
        }
    }
}

/// The suggestion for pods that no topology domain holds.
pub(super) fn suggestion_for_no_domain(no_domain: &NoTopologyDomain) -> Suggestion {
    let NoTopologyDomain { topology, level, pods, domains, are_in_use, invalid_level, .. } =
        no_domain;
    let topology = Name::clone(topology);
    match invalid_level.as_deref().cloned() {
        Some(InvalidLevel::Unknown { level }) => {
            return Suggestion::CreateTopology { topology, level };
        }
        Some(InvalidLevel::PreferredIsWider { required, preferred }) => {
            return Suggestion::PreferInnerLevel { required, preferred };
        }
        Some(InvalidLevel::PodsConflict { wider, .. }) => {
            return Suggestion::OnlyPreferLevel { topology, level: Name::clone(level), wider };
        }
        None => {}
    }
    let in_use = domains.iter().map(|(domain, _)| Name::clone(domain));
    let usable = if *are_in_use { in_use.collect() } else { no_domain.selected_domains.clone() };
    let is_listed =
        |selected: &Name| usable.iter().any(|domain| **selected == *format!("{level}={domain}"));
    let node_selection = no_domain.node_selection.clone();
    let is_listed =
        matches!(&node_selection, NodeSelection::Label(selected) if is_listed(selected));
    let node_selection = if is_listed { NodeSelection::All } else { node_selection };
    let (level, pods, or_prefer) = (Name::clone(level), *pods, no_domain.would_fit_unconstrained);
    Suggestion::FreeDomain { topology, level, pods, domains: usable, node_selection, or_prefer }
}

/// Writes to prefer a level inside the required one, because the preferred level must not be wider
/// than the required one.
pub(super) fn fmt_prefer_inner_level(
    f: &mut fmt::Formatter<'_>,
    required: &str,
    wider: &str,
) -> fmt::Result {
    write!(f, "prefer {required} or a level inside it, or require {wider} or none")
}

/// Writes to only prefer the level, because no domain of the required level can ever hold all the
/// pods.
pub(super) fn fmt_only_prefer_level(
    f: &mut fmt::Formatter<'_>,
    level: &str,
    topology: &str,
    wider: Option<&Name>,
) -> fmt::Result {
    write!(f, "only prefer {level} of topology {topology}")?;
    wider.map_or(Ok(()), |wider| write!(f, ", or require {wider} instead"))
}

/// Writes to free capacity in any domain of the level, or in one of `domains`.
pub(super) fn fmt_free_domain(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    level: &str,
    domains: &[Name],
    topology: &str,
) -> fmt::Result {
    let domain = match domains {
        [] => format!("one {level}"),
        names => format!("{level} {}", names.join(" or ")),
    };
    write!(
        f,
        "free capacity for {} in {domain} of topology {topology}",
        count_with_noun(pods, "pod")
    )
}

/// Writes that the capacity must be on nodes that the pods select, and offers to only prefer the
/// level.
pub(super) fn fmt_selected_nodes(
    f: &mut fmt::Formatter<'_>,
    node_selection: &NodeSelection,
    or_prefer: bool,
) -> fmt::Result {
    match node_selection {
        NodeSelection::All | NodeSelection::Names => {}
        NodeSelection::Label(label) => {
            write!(f, " on nodes labelled {label}, as its node selector requires")?;
        }
        NodeSelection::Labels => {
            f.write_str(" on nodes that its node selector and affinity select")?;
        }
    }
    f.write_str(if or_prefer { ", or only prefer that level" } else { "" })
}

impl fmt::Display for TopologyFitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DomainTooFull { topology, level, pods } => write!(
                f,
                "node(s) are in no {level} of topology {topology} that holds {}",
                count_with_noun(*pods, "required pod")
            ),
            Self::OtherDomain { topology, level } => write!(
                f,
                "node(s) are in another {level} of topology {topology} than the pods it \
                 must run with"
            ),
            Self::MissingLabels { topology } => {
                write!(f, "node(s) didn't have all labels of topology {topology}")
            }
        }
    }
}
