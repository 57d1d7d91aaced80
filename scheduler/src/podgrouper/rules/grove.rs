//! Groups of Grove's PodGang: cliques of pods, groups of cliques, and topology constraints for each
//! of them and for the whole gang.

use std::collections::BTreeMap;

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, SubGroup, TopologyConstraint};

use super::{
    GroupingInput,
    annotations::{self, TOPOLOGY_ANNOTATION},
    sub_groups::{GroupShape, count_or, inner_sub_group, leaf_sub_group},
};
use crate::parse::{Malformed, list, name, text};

/// Annotation of a PodGang that names its Topology; takes precedence over KAI's own annotation.
const TOPOLOGY_NAME: &str = "grove.io/topology-name";

/// The shape of a PodGang: a sub-group per clique with its minimum, below the group of cliques that
/// lists it. Each clique lists its pods.
pub(super) fn gang_shape(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let cliques = match list(input.top.object, "/spec/podgroups") {
        [] => list(input.top.object, "/spec/podGroups"),
        cliques => cliques,
    };
    let Some(of_pod) = cliques.iter().find(|clique| names_pod(clique, input)) else {
        let found = "no reference to the pod";
        let field = "spec.podgroups[].podReferences";
        return Err(Malformed::new(field, found, "a reference to every pod of the gang"));
    };
    let (mut sub_groups, parents) = groups_of_cliques(input, cliques)?;
    for (position, clique) in cliques.iter().enumerate() {
        let called = text(clique, "/name").unwrap_or_default();
        sub_groups.push(SubGroup {
            parent: parents.get(called).copied(),
            topology: pack_constraint(input, clique, &format!("spec.podgroups[{position}]"))?,
            ..leaf_sub_group(called, count_or(clique, "/minReplicas", 1))
        });
    }
    Ok(GroupShape::from_sub_groups(sub_groups, name(of_pod, "/name")))
}

fn names_pod(clique: &Value, input: &GroupingInput<'_>) -> bool {
    list(clique, "/podReferences").iter().any(|pod| {
        let namespace = text(pod, "/namespace").unwrap_or(&input.key.namespace);
        text(pod, "/name") == Some(&input.key.name) && *namespace == *input.key.namespace
    })
}

/// A sub-group for each group of cliques, and for each clique the index of its group.
fn groups_of_cliques<'a>(
    input: &GroupingInput<'a>,
    cliques: &[Value],
) -> Result<(Vec<SubGroup>, BTreeMap<&'a str, usize>), Malformed> {
    let mut groups = Vec::new();
    let mut parents = BTreeMap::new();
    let stated = list(input.top.object, "/spec/topologyConstraintGroupConfigs");
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
                let allowed = "the name of a pod group of the gang that is in no other one";
                return Err(Malformed::new(format!("{field}.podGroupNames"), member, allowed));
            }
        }
        let Some(called) = name(group, "/name") else {
            return Err(Malformed::new(format!("{field}.name"), "nothing", "a name"));
        };
        let topology = pack_constraint(input, group, &field)?;
        let all = u32::try_from(members.len()).unwrap_or(u32::MAX);
        groups.push(SubGroup { topology, ..inner_sub_group(called, Some(all)) });
    }
    Ok((groups, parents))
}

/// Topology constraint of the whole gang: its own, and from annotations the levels that it leaves
/// out.
pub(super) fn gang_topology(
    input: &GroupingInput<'_>,
) -> Result<Option<TopologyConstraint>, Malformed> {
    let spec = input.top.object.get("spec").unwrap_or(&Value::Null);
    let annotations = &input.top.annotations;
    let topology = input.top.annotation(TOPOLOGY_ANNOTATION).or_else(|| topology_name(input));
    let annotated = annotations::topology_levels(annotations, TOPOLOGY_ANNOTATION, topology)?;
    Ok(match (pack_constraint(input, spec, "spec")?, annotated) {
        (Some(packed), Some(annotated)) => Some(TopologyConstraint {
            topology: packed.topology,
            required: packed.required.or(annotated.required),
            preferred: packed.preferred.or(annotated.preferred),
        }),
        (packed, annotated) => packed.or(annotated),
    })
}

fn topology_name<'a>(input: &'a GroupingInput<'_>) -> Option<&'a Name> {
    input.top.annotation(TOPOLOGY_NAME).or_else(|| input.top.annotation(TOPOLOGY_ANNOTATION))
}

/// Topology constraint of the gang or of a part of it.
fn pack_constraint(
    input: &GroupingInput<'_>,
    part: &Value,
    field: &str,
) -> Result<Option<TopologyConstraint>, Malformed> {
    let level = |which: &str| name(part, &format!("/topologyConstraint/packConstraint/{which}"));
    let (required, preferred) = (level("required"), level("preferred"));
    if required.is_none() && preferred.is_none() {
        return Ok(None);
    }
    let Some(topology) = topology_name(input).cloned() else {
        let found = format!("nothing with {field}.topologyConstraint set");
        let field = format!("annotation {TOPOLOGY_NAME}");
        return Err(Malformed::new(field, found, "the name of a Topology"));
    };
    Ok(Some(TopologyConstraint { topology, required, preferred }))
}
