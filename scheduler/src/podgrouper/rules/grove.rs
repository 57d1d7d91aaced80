//! Grove's gangs: cliques of pods, groups of cliques, and places of a topology for each of them and
//! for the whole.

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, SubGroup, TopologyConstraint};

use super::{
    Case,
    parts::{Parts, count_or, inner, leaf},
    wishes::{self, TOPOLOGY_ANNOTATION},
};
use crate::parse::{Malformed, list, name, text};

/// On gangs, before KAI's own annotation: the topology in whose places they are packed.
const TOPOLOGY_NAME: &str = "grove.io/topology-name";

/// Each clique with its minimum, below the group of cliques that names it; cliques name their pods.
pub(super) fn gang(case: &Case<'_>) -> Result<Parts, Malformed> {
    let cliques = match list(case.top.object, "/spec/podgroups") {
        [] => list(case.top.object, "/spec/podGroups"),
        cliques => cliques,
    };
    let Some(of_pod) = cliques.iter().find(|clique| names(clique, case)) else {
        let found = "a PodGang that does not name the pod";
        let field = "spec.podgroups[].podReferences";
        return Err(Malformed::new(field, found, "every pod of the gang"));
    };
    let (mut sub_groups, parents) = groups_of_cliques(case, cliques)?;
    for (position, clique) in cliques.iter().enumerate() {
        let called = text(clique, "/name").unwrap_or_default();
        sub_groups.push(SubGroup {
            parent: parents.get(called).copied(),
            topology: packed(case, clique, &format!("spec.podgroups[{position}]"))?,
            ..leaf(called, count_or(clique, "/minReplicas", 1))
        });
    }
    Ok(Parts::of(sub_groups, name(of_pod, "/name")))
}

fn names(clique: &Value, case: &Case<'_>) -> bool {
    list(clique, "/podReferences").iter().any(|pod| {
        let namespace = text(pod, "/namespace").unwrap_or(&case.key.namespace);
        text(pod, "/name") == Some(&case.key.name) && *namespace == *case.key.namespace
    })
}

/// Groups of cliques that are packed together, and the position of the group of each clique.
fn groups_of_cliques<'a>(
    case: &Case<'a>,
    cliques: &[Value],
) -> Result<(Vec<SubGroup>, BTreeMap<&'a str, usize>), Malformed> {
    let mut groups = Vec::new();
    let mut parents = BTreeMap::new();
    let stated = list(case.top.object, "/spec/topologyConstraintGroupConfigs");
    for (position, group) in stated.iter().enumerate() {
        let field = format!("spec.topologyConstraintGroupConfigs[{position}]");
        let members = list(group, "/podGroupNames");
        if members.is_empty() {
            continue;
        }
        for member in members {
            let is_there = |name: &&str| cliques.iter().any(|of| text(of, "/name") == Some(name));
            let called = member.as_str().filter(is_there);
            if called.is_none_or(|called| parents.insert(called, groups.len()).is_some()) {
                let allowed = "the name of a pod group of the gang that stands in no other one";
                return Err(Malformed::new(format!("{field}.podGroupNames"), member, allowed));
            }
        }
        let Some(called) = name(group, "/name") else {
            return Err(Malformed::new(format!("{field}.name"), "nothing", "a name"));
        };
        let topology = packed(case, group, &field)?;
        let all = u32::try_from(members.len()).unwrap_or(u32::MAX);
        groups.push(SubGroup { topology, ..inner(called, Some(all)) });
    }
    Ok((groups, parents))
}

/// Where the whole gang runs: as it says itself; for a level of which it says nothing, as
/// annotations say.
pub(super) fn topology(case: &Case<'_>) -> Result<Option<TopologyConstraint>, Malformed> {
    let spec = case.top.object.get("spec").unwrap_or(&Value::Null);
    let annotations = &case.top.annotations;
    let topology = case.top.annotation(TOPOLOGY_ANNOTATION).or_else(|| topology_name(case));
    let annotated = wishes::levels(annotations, TOPOLOGY_ANNOTATION, topology)?;
    Ok(match (packed(case, spec, "spec")?, annotated) {
        (Some(packed), Some(annotated)) => Some(TopologyConstraint {
            topology: packed.topology,
            required: packed.required.or(annotated.required),
            preferred: packed.preferred.or(annotated.preferred),
        }),
        (packed, annotated) => packed.or(annotated),
    })
}

fn topology_name<'a>(case: &'a Case<'_>) -> Option<&'a Name> {
    case.top.annotation(TOPOLOGY_NAME).or_else(|| case.top.annotation(TOPOLOGY_ANNOTATION))
}

/// The places in which the gang or a part of it is packed.
fn packed(
    case: &Case<'_>,
    of: &Value,
    field: &str,
) -> Result<Option<TopologyConstraint>, Malformed> {
    let level = |which: &str| name(of, &format!("/topologyConstraint/packConstraint/{which}"));
    let (required, preferred) = (level("required"), level("preferred"));
    if required.is_none() && preferred.is_none() {
        return Ok(None);
    }
    let Some(topology) = topology_name(case).cloned() else {
        let found = format!("nothing beside {field}.topologyConstraint");
        let field = format!("annotation {TOPOLOGY_NAME}");
        return Err(Malformed::new(field, found, "the name of a Topology"));
    };
    Ok(Some(TopologyConstraint { topology, required, preferred }))
}
