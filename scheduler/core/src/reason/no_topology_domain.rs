//! Why no topology domain holds pods that must be placed together.

use std::fmt;

use crate::model::{Name, NodeSelection, PodId, TopologyConstraint};

/// No topology domain holds pods that must be placed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTopologyDomain {
    /// Name of the topology.
    pub topology: Name,
    /// The required level, otherwise the preferred one.
    pub level: Name,
    /// Number of pods.
    pub pods: u32,
    /// Usable domains of that level, and the number of pods that fit in each.
    pub domains: Vec<(Name, u64)>,
    /// Pods of the group already run in these domains, so that no others are usable.
    pub are_in_use: bool,
    /// The only domains of that level that the pods select; any when empty.
    pub selected_domains: Vec<Name>,
    /// How the pods select nodes.
    pub node_selection: NodeSelection,
    /// The pods would fit if the level were only preferred.
    pub would_fit_unconstrained: bool,
    /// Set when the constraint cannot be satisfied even on an empty cluster.
    pub invalid_level: Option<Box<InvalidLevel>>,
}

/// Why a constraint can never be satisfied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidLevel {
    /// The topology or the level does not exist.
    Unknown {
        /// The missing level.
        level: Name,
    },
    /// The preferred level is wider than the required one, so that every usable domain of the
    /// required level is in one domain of the preferred level.
    PreferredIsWider {
        /// The required level.
        required: Name,
        /// The preferred level.
        preferred: Name,
    },
    /// No domain can hold two of the pods.
    PodsConflict {
        /// Names of the two pods.
        pods: [Name; 2],
        /// The anti-affinity label; `None` when they use the same host port.
        over: Option<Name>,
        /// A wider level with a domain that holds all of them at present.
        wider: Option<Name>,
    },
}

impl NoTopologyDomain {
    /// The pods fit in no domain, for a reason that is not known yet.
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

    /// Adds what another domain showed.
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
        for (domain, fitting) in domains.iter().take(LISTED_MAX) {
            write!(f, "node-group {domain} can allocate only {fitting} of {pods} required pods. ")?;
        }
        if let Some(more) = domains.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
            write!(f, "The same holds for {more} more. ")?;
        }
        write!(f, "topology {topology}, requirement {level} couldn't be satisfied.")
    }
}

/// Number of domains that are listed by name.
const LISTED_MAX: usize = 3;
