//! Topologies and topology constraints in the cache.

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, Topology, TopologyConstraint, TopologyLevel};

use crate::parse::{list, name, text};

/// Parses a Topology. Levels without label are left out.
pub(super) fn from_object(object: &Value) -> Topology {
    let levels = list(object, "/spec/levels").iter().filter_map(|level| {
        Some(TopologyLevel { label: name(level, "/nodeLabel")?, alias: name(level, "/alias") })
    });
    Topology {
        name: text(object, "/metadata/name").unwrap_or_default().into(),
        levels: levels.collect(),
    }
}

/// Parses `topologyConstraint` of a pod group or sub-group; `None` without levels.
pub(super) fn topology_constraint(spec: &Value) -> Option<TopologyConstraint> {
    let constraint = spec.get("topologyConstraint")?;
    let level = |field| name(constraint, field).filter(|level: &Name| !level.is_empty());
    let (required, preferred) = (level("/requiredTopologyLevel"), level("/preferredTopologyLevel"));
    let topology = name(constraint, "/topology").unwrap_or_default();
    (required.is_some() || preferred.is_some()).then_some(TopologyConstraint {
        topology,
        required,
        preferred,
    })
}
