//! Pods of the snapshot, with status and shape.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_scheduler_core::model::{
    Name, NodeId, Pod, PodGroup, PodGroupId, PodShape, PodStatus, ShapeId,
};

use super::{
    UnschedulableReason,
    groups::{find, group_key, position},
    sub_groups::{first_leaf, sub_group_index},
};
use crate::{
    cache::ClusterCache,
    config::Flavor,
    dra::ClaimedResources,
    records::{ObjectKey, Phase, PodRecord},
};

/// The inputs of the entry of a pod, besides its record.
pub(super) struct PodContext<'a> {
    pub(super) cache: &'a ClusterCache,
    pub(super) flavor: Flavor,
    pub(super) nodes: &'a BTreeMap<Name, NodeId>,
    pub(super) groups: &'a [PodGroup],
}

/// The result for a pod.
pub(super) enum PodEntry {
    /// It does not affect scheduling.
    Absent,
    /// It waits and cannot be scheduled.
    Unschedulable(UnschedulableReason),
    /// It is in the snapshot.
    Present(Pod),
}

/// IDs of shapes by address. The shapes are retained, so that no address is reused.
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
            ShapeId(position(shapes.len() - 1))
        })
    }
}

impl ShapeIds {
    /// The shape of a pod including its claims.
    fn with_claims(
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
        let id = ShapeId(position(shapes.len() - 1));
        self.claimed.insert(key, id);
        id
    }
}

/// The entry of a pod.
pub(super) fn build(
    key: &ObjectKey,
    context: &PodContext<'_>,
    ids: &mut ShapeIds,
    shapes: &mut Vec<PodShape>,
) -> PodEntry {
    let Some(record) = context.cache.pods.get(key) else {
        return PodEntry::Absent;
    };
    let Some((status, node)) = status(record, context) else {
        return PodEntry::Absent;
    };
    let (group, sub_group) = match membership(key, record, context) {
        Ok((group, sub_group)) => (Some(group), sub_group),
        Err(reason) if record.is_waiting() && record.is_ours => {
            return PodEntry::Unschedulable(reason);
        }
        // Of other pods only those with a node matter, since they use its resources.
        Err(_) if record.is_waiting() || status == PodStatus::Succeeded => return PodEntry::Absent,
        Err(_) => (None, 0),
    };
    let claims = context.cache.resource_claims.claimed_by(key, record, &context.cache.pods);
    let mut claimed = match claims {
        Err(problem) if record.is_waiting() && record.is_ours => {
            return PodEntry::Unschedulable(UnschedulableReason::Claim(problem));
        }
        claims => claims.unwrap_or_default(),
    };
    if context.flavor == Flavor::Kai && record.is_waiting() && record.is_ours {
        let missing = context.cache.config_maps.missing(key, record);
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
        shape: ids.with_claims(&record.shape, claimed, shapes),
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

/// Status and node of a pod; `None` if it does not affect scheduling.
fn status(record: &PodRecord, context: &PodContext<'_>) -> Option<(PodStatus, Option<NodeId>)> {
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

/// The pod group and sub-group of a pod of this scheduler.
fn membership(
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
    let id = |key: &ObjectKey| find(context.groups, key).map(|at| PodGroupId(position(at)));
    if context.flavor == Flavor::Kube {
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
    let id = || id(&group_key).map_err(|_| missing());
    match (UnschedulableReason::for_malformed_group(name, group), record.is_waiting()) {
        (Some(reason), true) => Err(reason),
        (Some(_), false) => Ok((id()?, 0)),
        (None, waits) => match sub_group_index(&group.sub_groups, record.sub_group()) {
            Ok(at) => Ok((id()?, at)),
            Err(problem) if waits => Err(UnschedulableReason::SubGroup(Name::clone(name), problem)),
            // A running pod belongs to its queue and group whatever its label is.
            Err(_) => Ok((id()?, first_leaf(&group.sub_groups))),
        },
    }
}
