//! Where capacity must be freed for pods.

use std::fmt;

use super::count_with_noun;
use crate::{
    model::{Name, NodeSelection},
    reason::{FitErrors, NodeRefusal, format::join_list},
};

/// Nodes on which freed capacity would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapacityLocation {
    /// Any node, also a new one.
    AnyNode,
    /// New nodes only, because pods of the own gang use the existing nodes. The pod selects nodes
    /// like this.
    NewNodes(NodeSelection),
    /// Existing nodes that are only too full. A new node might not help, because the pod is tied to
    /// locations by pod affinity, topology spread, claims or volumes, or it selects nodes by name.
    FullNodes {
        /// Number of existing nodes that are only too full.
        nodes: u32,
    },
    /// Existing nodes that are only too full, or new nodes that the pod selects.
    FullOrNewNodes {
        /// Number of existing nodes that are only too full.
        nodes: u32,
        /// How the pod selects nodes.
        node_selection: NodeSelection,
    },
}

/// Domains in which freed capacity would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainHint {
    /// Separate domains: for a pod with anti-affinity when other pods are in some of the domains.
    SeparateDomains {
        /// Key of the label whose values are the domains.
        label: Name,
        /// Domains whose nodes are only too full.
        domains: Vec<Name>,
    },
    /// Single domains: for a gang whose sub-groups must be in one domain each.
    SingleDomains(Vec<SingleDomain>),
}

/// Pods that must be placed in one topology domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleDomain {
    /// Number of pods.
    pub pods: u32,
    /// The required topology level.
    pub level: Name,
}

impl DomainHint {
    pub(super) fn from_fit_errors(fit_errors: &FitErrors) -> Option<Self> {
        let is_kept_away = |refusal: &NodeRefusal| refusal.worst.is_anti_affinity();
        let requirements = fit_errors
            .node_requirements
            .as_ref()
            .filter(|requirements| !requirements.full_domains.is_empty());
        let separate = requirements.filter(|_| fit_errors.refusals.keys().any(is_kept_away)).map(
            |requirements| {
                let label = requirements
                    .exclusion_labels
                    .first()
                    .expect("full domains have a label")
                    .clone();
                Self::SeparateDomains {
                    label,
                    domains: requirements.full_domains.iter().cloned().collect(),
                }
            },
        );
        let in_one =
            fit_errors.domain_requirements.as_ref().map(|domains| domains.single_domains.clone());
        let in_one = in_one.filter(|in_one| !in_one.is_empty());
        separate.or_else(|| in_one.map(Self::SingleDomains))
    }

    /// Key of the label of which each pod needs a value of its own; `None` if there is none.
    pub const fn separating_label(&self) -> Option<&Name> {
        match self {
            Self::SeparateDomains { label, .. } => Some(label),
            Self::SingleDomains(_) => None,
        }
    }
}

fn fmt_separate_domains(
    f: &mut fmt::Formatter<'_>,
    label: &Name,
    full: &[Name],
    pods: u32,
) -> fmt::Result {
    let listed: Vec<&str> = full.iter().take(LISTED_DOMAINS_MAX).map(|domain| &**domain).collect();
    write!(f, " in {label} {}", listed.join(" or "))?;
    if let Some(more) = full.len().checked_sub(LISTED_DOMAINS_MAX).filter(|more| *more > 0) {
        write!(f, " or {more} more")?;
    }
    f.write_str(if pods > 1 { ", each in one of its own" } else { "" })
}

fn fmt_single_domains(f: &mut fmt::Formatter<'_>, all: &[SingleDomain]) -> fmt::Result {
    let each = all.iter().map(|SingleDomain { pods, level }| format!("{pods} in one {level}"));
    write!(f, ", of which {}", join_list(&each.collect::<Vec<_>>(), "and"))
}

/// Maximum number of domains that are listed by name.
const LISTED_DOMAINS_MAX: usize = 3;

impl CapacityLocation {
    /// Whether adding nodes helps as well.
    pub(super) const fn allows_new_nodes(&self) -> bool {
        match self {
            Self::AnyNode | Self::NewNodes(_) | Self::FullOrNewNodes { .. } => true,
            Self::FullNodes { .. } => false,
        }
    }

    /// Whether both name the same nodes. The number of nodes is not compared.
    pub fn is_same_location(&self, other: &Self) -> bool {
        if let (
            Self::FullOrNewNodes { node_selection: one, .. },
            Self::FullOrNewNodes { node_selection: two, .. },
        ) = (self, other)
        {
            return one == two;
        }
        self == other
    }
}

/// Where freed capacity would help, given the number of nearest nodes that are only too full.
pub(super) fn location_of_needed_capacity(fit_errors: &FitErrors, nodes: u32) -> CapacityLocation {
    let node_selection = fit_errors.node_selection.clone();
    if fit_errors.are_nearest_nodes_used_by_own_gang() {
        return CapacityLocation::NewNodes(node_selection);
    }
    match node_selection {
        _ if fit_errors.is_tied_to_location() => CapacityLocation::FullNodes { nodes },
        _ if nodes == 0 => CapacityLocation::AnyNode,
        NodeSelection::All if !some_nodes_exclude_pod(fit_errors) => CapacityLocation::AnyNode,
        NodeSelection::Names => CapacityLocation::FullNodes { nodes },
        NodeSelection::All | NodeSelection::Label(_) | NodeSelection::Labels => {
            CapacityLocation::FullOrNewNodes { nodes, node_selection }
        }
    }
}

/// Whether some nodes hold pods that exclude this one, so that freed capacity would not help there.
fn some_nodes_exclude_pod(fit_errors: &FitErrors) -> bool {
    fit_errors.refusals.keys().any(|refusal| refusal.worst.requires_separate_nodes())
}

pub(super) fn fmt_free_capacity(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    location: &CapacityLocation,
    domains: Option<&DomainHint>,
) -> fmt::Result {
    let begin =
        if matches!(location, CapacityLocation::NewNodes(_)) { "add nodes with" } else { "free" };
    write!(f, "{begin} capacity for {} of its size", count_with_noun(pods, "more pod"))?;
    let separate = match domains {
        Some(DomainHint::SeparateDomains { label, domains: full }) => Some((label, &full[..])),
        Some(DomainHint::SingleDomains(all)) => {
            fmt_single_domains(f, all)?;
            None
        }
        None => None,
    };
    match (location, separate) {
        (CapacityLocation::NewNodes(node_selection), _) => fmt_selected_labels(f, node_selection),
        (CapacityLocation::AnyNode, None) => f.write_str(OR_ADD_NODES_TEXT),
        (CapacityLocation::FullNodes { nodes }, None) => fmt_on_full_nodes(f, *nodes, pods),
        (CapacityLocation::FullOrNewNodes { nodes, node_selection }, None) => {
            fmt_on_full_nodes(f, *nodes, pods)?;
            f.write_str(OR_ADD_NODES_TEXT)?;
            fmt_selected_labels(f, node_selection)
        }
        (CapacityLocation::FullNodes { .. }, Some((label, full))) => {
            fmt_separate_domains(f, label, full, pods)
        }
        (CapacityLocation::AnyNode, Some((label, full))) => fmt_or_new_domain(f, pods, label, full),
        (CapacityLocation::FullOrNewNodes { node_selection, .. }, Some((label, full))) => {
            fmt_or_new_domain(f, pods, label, full)?;
            fmt_selected_labels(f, node_selection)
        }
    }
}

const OR_ADD_NODES_TEXT: &str = ", or add nodes that have it";

fn fmt_or_new_domain(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    label: &Name,
    full: &[Name],
) -> fmt::Result {
    fmt_separate_domains(f, label, full, pods)?;
    write!(f, "{OR_ADD_NODES_TEXT} there or in a new {label}")
}

fn fmt_on_full_nodes(f: &mut fmt::Formatter<'_>, nodes: u32, pods: u32) -> fmt::Result {
    match (nodes, pods) {
        (1, _) => f.write_str(" on the node that only lacks capacity"),
        (_, 1) => write!(f, " on one of {nodes} nodes that only lack capacity"),
        _ => f.write_str(" on nodes that only lack capacity"),
    }
}

pub(super) fn fmt_selected_labels(
    f: &mut fmt::Formatter<'_>,
    node_selection: &NodeSelection,
) -> fmt::Result {
    match node_selection {
        NodeSelection::All | NodeSelection::Names => Ok(()),
        NodeSelection::Label(label) => {
            write!(f, ", labelled {label} as its node selector requires")
        }
        NodeSelection::Labels => {
            f.write_str(", labelled as its node selector and affinity require")
        }
    }
}
