//! Why no topology domain holds pods that must be placed together.

use std::fmt;

use crate::model::{Name, NodeSelection, PodId, TopologyConstraint};

/// The reason when no topology domain holds the pods that must be placed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTopologyDomain {
    /// Name of the topology.
    pub topology: Name,
    /// Name of the required level; without one, of the preferred level.
    pub level: Name,
    /// Number of pods that must be placed together.
    pub pods: u32,
    /// Usable domains of that level, each with the number of pods that fit in it.
    pub domains: Vec<(Name, u64)>,
    /// Whether pods of the group already run in these domains, so that no other domain is usable.
    pub are_in_use: bool,
    /// The only domains of that level that the pods select; empty: they select any.
    pub selected_domains: Vec<Name>,
    /// How the pods select nodes.
    pub node_selection: NodeSelection,
    /// Whether the pods would fit if the level were only preferred.
    pub would_fit_unconstrained: bool,
    /// Why the constraint cannot be satisfied even on an empty cluster; `None` if it can.
    pub invalid_level: Option<Box<InvalidLevel>>,
}

/// Why a topology constraint can never be satisfied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidLevel {
    /// The topology or the level does not exist.
    Unknown {
        /// Name of the missing level, or of the missing topology.
        level: Name,
    },
    /// The preferred level is wider than the required one, so that every usable domain of the
    /// required level is in one domain of the preferred level.
    PreferredIsWider {
        /// Name of the required level.
        required: Name,
        /// Name of the preferred level.
        preferred: Name,
    },
    /// No domain of the required level can hold two of the pods together.
    PodsConflict {
        /// Names of the two pods.
        pods: [Name; 2],
        /// Key of the anti-affinity label; `None` when the pods use the same host port.
        over: Option<Name>,
        /// A wider level with a domain that holds all the pods at present.
        wider: Option<Name>,
    },
}

impl NoTopologyDomain {
    /// The reason for pods that fit in no domain, before the cause is known.
    pub(crate) fn new(constraint: &TopologyConstraint, pods: &[PodId]) -> Self {
        let levels = [&constraint.required, &constraint.preferred];
        let level = levels.into_iter().flatten().next().unwrap_or(&constraint.topology);
        Self {
            topology: constraint.topology.clone(),
            level: level.clone(),
            pods: u32::try_from(pods.len()).expect("pod ids are 32 bits"),
            domains: Vec::new(),
            are_in_use: false,
            selected_domains: Vec::new(),
            node_selection: NodeSelection::All,
            would_fit_unconstrained: false,
            invalid_level: None,
        }
    }

    /// Adds the failure in another domain.
    pub(crate) fn merge(&mut self, other: Self) {
        self.domains.extend(other.domains);
        self.would_fit_unconstrained |= other.would_fit_unconstrained;
    }
}

impl fmt::Display for NoTopologyDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topology, level, pods, domains, invalid_level, .. } = self;
        match invalid_level.as_deref() {
            None => {}
            Some(InvalidLevel::Unknown { level }) => {
                return write!(f, "topology {topology} with level {level} does not exist");
            }
            Some(InvalidLevel::PreferredIsWider { required, preferred }) => {
                return write!(
                    f,
                    "preferredTopologyLevel {preferred} of topology {topology} is wider than \
                     requiredTopologyLevel {required}"
                );
            }
            Some(InvalidLevel::PodsConflict { pods: [one, other], over, .. }) => {
                write!(
                    f,
                    "requiredTopologyLevel {level} of topology {topology} requires one domain \
                     for {one} and {other}, "
                )?;
                return match over {
                    Some(label) => write!(f, "but anti-affinity over {label} keeps them apart"),
                    None => f.write_str("but they use the same host port"),
                };
            }
        }
        for (domain, fitting) in domains.iter().take(LISTED_DOMAINS_MAX) {
            write!(f, "node-group {domain} can allocate only {fitting} of {pods} required pods. ")?;
        }
        if let Some(more) = domains.len().checked_sub(LISTED_DOMAINS_MAX).filter(|more| *more > 0) {
            write!(f, "The same holds for {more} more. ")?;
        }
        write!(f, "topology {topology}, requirement {level} couldn't be satisfied.")
    }
}

/// Maximum number of domains that are listed by name.
const LISTED_DOMAINS_MAX: usize = 3;
