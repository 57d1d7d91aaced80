//! Pods of the snapshot, with status and shape.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_api::annotations;
use schedlab_scheduler_core::model::{
    Name, NodeId, Pod, PodGroup, PodGroupId, PodShape, PodStatus, ShapeId,
};

use super::{
    UnschedulableReason,
    groups::{find_group, group_key, to_position},
    sub_groups::{first_leaf_index, sub_group_index},
};
use crate::{
    cache::{ClusterCache, PodGroupRecord, gang_key},
    config::Flavor,
    dra::ClaimedResources,
    parse::Malformed,
    records::{ObjectKey, Phase, PodRecord},
};

/// The inputs for building the entry of a pod, besides its record.
pub(super) struct PodContext<'a> {
    pub(super) cache: &'a ClusterCache,
    pub(super) flavor: Flavor,
    pub(super) nodes: &'a BTreeMap<Name, NodeId>,
    pub(super) groups: &'a [PodGroup],
}

/// What the snapshot builder makes of a pod.
pub(super) enum PodEntry {
    /// The pod does not affect scheduling.
    Absent,
    /// The pod waits and cannot be scheduled.
    Unschedulable(UnschedulableReason),
    /// The pod is in the snapshot.
    Present(Pod),
}

/// IDs of pod shapes by address. The shapes are retained, so that no address is reused.
#[derive(Debug, Default)]
pub(super) struct ShapeIds {
    ids: BTreeMap<usize, ShapeId>,
    retained: Vec<Arc<PodShape>>,
    /// Shapes with claims, by address and claimed resources.
    claimed: BTreeMap<(usize, ClaimedResources), ShapeId>,
}

impl ShapeIds {
    /// Number of shapes, in use or not.
    pub(super) fn len(&self) -> usize {
        self.retained.len()
    }

    pub(super) fn id(&mut self, shape: &Arc<PodShape>, shapes: &mut Vec<PodShape>) -> ShapeId {
        *self.ids.entry(Arc::as_ptr(shape).addr()).or_insert_with(|| {
            self.retained.push(Arc::clone(shape));
            shapes.push(PodShape::clone(shape));
            ShapeId(to_position(shapes.len() - 1))
        })
    }
}

impl ShapeIds {
    /// The ID of a pod's shape with the resources of its claims added.
    fn shape_with_claims(
        &mut self,
        shape: &Arc<PodShape>,
        claimed: ClaimedResources,
        shapes: &mut Vec<PodShape>,
    ) -> ShapeId {
        if claimed == ClaimedResources::default() {
            return self.id(shape, shapes);
        }
        let key = (Arc::as_ptr(shape).addr(), claimed);
        if let Some(known) = self.claimed.get(&key) {
            return *known;
        }
        let mut with = PodShape::clone(shape);
        with.gpus_via_dra = key.1.own.gpu_milli > 0;
        with.gpu_classes = key.1.gpu_classes.iter().cloned().collect();
        with.requests.subtract(&key.1.served);
        with.requests.extended.retain(|_, amount| *amount != 0);
        with.requests.add(&key.1.own);
        with.claims.clone_from(&key.1.shared);
        with.own_claims.clone_from(&key.1.own_requests);
        with.volumes.clone_from(&key.1.volumes);
        self.retained.push(Arc::clone(shape));
        shapes.push(with);
        let id = ShapeId(to_position(shapes.len() - 1));
        self.claimed.insert(key, id);
        id
    }
}

/// Builds the entry of a pod.
pub(super) fn build_pod(
    key: &ObjectKey,
    context: &PodContext<'_>,
    ids: &mut ShapeIds,
    shapes: &mut Vec<PodShape>,
) -> PodEntry {
    let Some(record) = context.cache.pods.get(key) else {
        return PodEntry::Absent;
    };
    let Some((status, node)) = pod_status(record, context) else {
        return PodEntry::Absent;
    };
    let (group, sub_group) = match group_and_sub_group(key, record, context) {
        Ok((group, sub_group)) => (Some(group), sub_group),
        Err(reason) if record.is_waiting() && record.is_ours => {
            return PodEntry::Unschedulable(reason);
        }
        // Of other pods only those with a node matter, since they use its resources.
        Err(_) if record.is_waiting() || status == PodStatus::Succeeded => return PodEntry::Absent,
        Err(_) => (None, 0),
    };
    let claims =
        context.cache.resource_claims.resources_claimed_by(key, record, &context.cache.pods);
    let mut claimed = match claims {
        Err(problem) if record.is_waiting() && record.is_ours => {
            return PodEntry::Unschedulable(UnschedulableReason::Claim(problem));
        }
        claims => claims.unwrap_or_default(),
    };
    if context.flavor == Flavor::Kai && record.is_waiting() && record.is_ours {
        let missing = context.cache.config_maps.missing_config_maps(key, record);
        if !missing.is_empty() {
            return PodEntry::Unschedulable(UnschedulableReason::MissingConfigMaps(missing));
        }
    }
    if let Some(error) = context.cache.bind_backoff_message(key, record).filter(|_| record.is_ours)
    {
        return PodEntry::Unschedulable(UnschedulableReason::BindBackoff(error));
    }
    let volumes = match record.volumes.first() {
        None => Vec::new(),
        Some(_) => context.cache.volumes.claims_of_pod(key, record),
    };
    let own_claims = std::mem::take(&mut claimed.own_names);
    let claimed = ClaimedResources { volumes, ..claimed };
    let nominated =
        record.nominated_node.as_ref().and_then(|node| context.nodes.get(node).copied());
    PodEntry::Present(Pod {
        namespace: Name::clone(&key.namespace),
        name: Name::clone(&key.name),
        uid: Name::clone(&record.uid),
        labels: record.labels.clone(),
        group,
        sub_group,
        shape: ids.shape_with_claims(&record.shape, claimed, shapes),
        priority: record.priority,
        preemption_policy: record.preemption_policy,
        status,
        node,
        gpu_groups: record.gpu_groups.clone(),
        own_claims,
        numa_allocations: record.numa.clone(),
        nominated_node: nominated,
        task_priority: record.task_priority(),
        leader_role: record.leader_role(),
        created: record.created,
        started: record.node.is_some().then_some(record.started).flatten(),
        releasing_since: record.releasing_since,
        binding_failed: record.bind_failure.is_some(),
    })
}

/// Status and node of a pod; `None` if the pod does not affect scheduling.
fn pod_status(record: &PodRecord, context: &PodContext<'_>) -> Option<(PodStatus, Option<NodeId>)> {
    match record.phase {
        Phase::Failed => return None,
        Phase::Succeeded => return record.is_ours.then_some((PodStatus::Succeeded, None)),
        Phase::Pending | Phase::Running => {}
    }
    let Some(node) = &record.node else {
        let status = if record.is_gated { PodStatus::Gated } else { PodStatus::Pending };
        return record.is_waiting().then_some((status, None));
    };
    // A pod on a deleted node is charged to its queue until it is deleted, too.
    let (name, node) = (node, context.nodes.get(node).copied());
    let status = match (record.releasing_since, record.phase) {
        (Some(_), _) => PodStatus::Releasing,
        (None, _) if node.is_none() && context.cache.excluded_nodes.contains_key(name) => {
            PodStatus::OnExcludedNode
        }
        (None, Phase::Running) => PodStatus::Running,
        (None, Phase::Pending | Phase::Succeeded | Phase::Failed) => PodStatus::Bound,
    };
    Some((status, node))
}

/// The pod group of a pod of this scheduler, and the index of its sub-group.
fn group_and_sub_group(
    key: &ObjectKey,
    record: &PodRecord,
    context: &PodContext<'_>,
) -> Result<(PodGroupId, usize), UnschedulableReason> {
    if !record.is_ours {
        return Err(UnschedulableReason::NoGroup);
    }
    if let (Some(malformed), true) = (&record.malformed, record.is_waiting()) {
        return Err(UnschedulableReason::MalformedPod(malformed.clone()));
    }
    let id =
        |key: &ObjectKey| find_group(context.groups, key).map(|at| PodGroupId(to_position(at)));
    if context.flavor == Flavor::Kube {
        let gang = record.scheduling_group.as_ref().filter(|_| context.cache.is_in_gang(record));
        let key = &gang.map_or_else(|| key.clone(), |gang| gang_key(&key.sibling(gang)));
        return id(key).map(|id| (id, 0)).map_err(|_| UnschedulableReason::NoGroup);
    }
    let Some(name) = &record.group else {
        let ungrouped = context.cache.grouping_errors.get(key).map(|(_, wrong)| wrong.clone());
        return Err(
            ungrouped.map_or(UnschedulableReason::NoGroup, UnschedulableReason::MalformedOwners)
        );
    };
    let group_key = group_key(key, name);
    let missing = || UnschedulableReason::GroupMissing(Name::clone(name));
    let group = context.cache.groups.get(&group_key).ok_or_else(missing)?;
    if record.is_waiting()
        && let Some(wrong) = other_scheduling_group(record, group)
    {
        return Err(UnschedulableReason::MalformedPod(wrong));
    }
    let id = || id(&group_key).map_err(|_| missing());
    match (UnschedulableReason::for_malformed_group(name, group), record.is_waiting()) {
        (Some(reason), true) => Err(reason),
        (Some(_), false) => Ok((id()?, 0)),
        (None, waits) => match sub_group_index(&group.sub_groups, record.sub_group()) {
            Ok(at) => Ok((id()?, at)),
            Err(problem) if waits => Err(UnschedulableReason::SubGroup(Name::clone(name), problem)),
            // A running pod belongs to its queue and group whatever its label is.
            Err(_) => Ok((id()?, first_leaf_index(&group.sub_groups))),
        },
    }
}

/// The fault of a pod whose annotation names another group than `spec.schedulingGroup`.
fn other_scheduling_group(pod: &PodRecord, group: &PodGroupRecord) -> Option<Malformed> {
    let named = pod.scheduling_group.as_ref()?;
    let found = pod.group.as_ref().filter(|_| group.scheduling_group() != Some(named))?;
    let field = format!("annotation {}", annotations::POD_GROUP_NAME);
    let found = format!("{found}, with {named} in spec.schedulingGroup.podGroupName");
    Some(Malformed::new(field, found, "the group of that PodGroup, or no annotation"))
}
