//! Pods: which are in the snapshot, in which state, with which shape.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_scheduler_core::model::{
    Name, NodeId, Pod, PodGroup, PodGroupId, PodShape, PodStatus, ShapeId,
};

use super::{
    Trouble,
    groups::{find, group_key, position},
    sub_groups::{first_leaf, place},
};
use crate::{
    config::Flavor,
    mirror::{Claimed, Key, Mirror, Phase, PodRecord},
};

/// What a pod is looked at against.
pub(super) struct Context<'a> {
    pub(super) mirror: &'a Mirror,
    pub(super) flavor: Flavor,
    pub(super) nodes: &'a BTreeMap<Name, NodeId>,
    pub(super) groups: &'a [PodGroup],
}

/// What becomes of a pod.
pub(super) enum Entry {
    /// It does not matter (any more).
    Absent,
    /// It waits and cannot be scheduled.
    Trouble(Trouble),
    /// It stands in the snapshot.
    Present(Pod),
}

/// The shapes in use, by address. They are held, so that no other comes to lie where one of them lay.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    ids: BTreeMap<usize, ShapeId>,
    held: Vec<Arc<PodShape>>,
    /// With what is claimed besides, by the shape's address.
    claimed: BTreeMap<(usize, Claimed), ShapeId>,
}

impl Shapes {
    /// How many there are, in use or not.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn id(&mut self, shape: &Arc<PodShape>, shapes: &mut Vec<PodShape>) -> ShapeId {
        *self.ids.entry(Arc::as_ptr(shape).addr()).or_insert_with(|| {
            self.held.push(Arc::clone(shape));
            shapes.push(PodShape::clone(shape));
            ShapeId(position(shapes.len() - 1))
        })
    }
}

impl Shapes {
    /// The shape of a pod with what it claims.
    fn with_claims(
        &mut self,
        shape: &Arc<PodShape>,
        claimed: Claimed,
        shapes: &mut Vec<PodShape>,
    ) -> ShapeId {
        if claimed == Claimed::default() {
            return self.id(shape, shapes);
        }
        let key = (Arc::as_ptr(shape).addr(), claimed);
        if let Some(known) = self.claimed.get(&key) {
            return *known;
        }
        let mut with = PodShape::clone(shape);
        with.gpus_by_claim = key.1.own.gpu_milli > 0;
        with.gpu_classes = key.1.gpu_classes.iter().cloned().collect();
        with.requests.add(&key.1.own);
        with.claims.clone_from(&key.1.shared);
        with.volumes.clone_from(&key.1.volumes);
        self.held.push(Arc::clone(shape));
        shapes.push(with);
        let id = ShapeId(position(shapes.len() - 1));
        self.claimed.insert(key, id);
        id
    }
}

/// What becomes of a pod, by everything around it.
pub(super) fn translate(
    key: &Key,
    context: &Context<'_>,
    (ids, shapes): (&mut Shapes, &mut Vec<PodShape>),
) -> Entry {
    let Some(record) = context.mirror.pods.get(key) else {
        return Entry::Absent;
    };
    let Some((status, node)) = status(record, context) else {
        return Entry::Absent;
    };
    let (group, sub_group) = match membership(key, record, context) {
        Ok(place) => (Some(place.0), place.1),
        Err(trouble) if record.waits() && record.ours => return Entry::Trouble(trouble),
        // Of others, only what stands on a node matters: it takes room.
        Err(_) if record.waits() || status == PodStatus::Succeeded => return Entry::Absent,
        Err(_) => (None, 0),
    };
    let claims = context.mirror.claims.of_pod(key, record, &context.mirror.pods);
    let claimed = match claims {
        Err(problem) if record.waits() && record.ours => {
            return Entry::Trouble(Trouble::Claim(problem));
        }
        claims => claims.unwrap_or_default(),
    };
    if context.flavor == Flavor::Kai && record.waits() && record.ours {
        let missing = context.mirror.config_maps.missing(key, record);
        if !missing.is_empty() {
            return Entry::Trouble(Trouble::ConfigMaps(missing));
        }
    }
    let volumes = match record.volumes.first() {
        None => Vec::new(),
        Some(_) => context.mirror.volumes.of_pod(key, record),
    };
    let claimed = Claimed { volumes, ..claimed };
    let nominated = record.nominated.as_ref().and_then(|node| context.nodes.get(node).copied());
    Entry::Present(Pod {
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
        zones: record.zones.clone(),
        nominated,
        task_priority: record.task_priority(),
        leads: record.leads(),
        created: record.created,
        started: record.node.is_some().then_some(record.started).flatten(),
        released_since: record.leaving_since,
        unbindable: record.bind_failure.is_some(),
    })
}

/// State and node of a pod that matters; `None` for one that does not (any more).
fn status(record: &PodRecord, context: &Context<'_>) -> Option<(PodStatus, Option<NodeId>)> {
    match record.phase {
        Phase::Failed => return None,
        Phase::Succeeded => return record.ours.then_some((PodStatus::Succeeded, None)),
        Phase::Pending | Phase::Running => {}
    }
    let Some(node) = &record.node else {
        let status = if record.gated { PodStatus::Gated } else { PodStatus::Pending };
        return record.waits().then_some((status, None));
    };
    // A pod of a node that is gone is charged to its queue until it goes too, as the API has it.
    let (name, node) = (node, context.nodes.get(node).copied());
    let status = match (record.leaving_since, record.phase) {
        (Some(_), _) => PodStatus::Releasing,
        (None, _) if node.is_none() && context.mirror.other_nodes.contains_key(name) => {
            PodStatus::Away
        }
        (None, Phase::Running) => PodStatus::Running,
        (None, Phase::Pending | Phase::Succeeded | Phase::Failed) => PodStatus::Bound,
    };
    Some((status, node))
}

/// The pod group and sub-group of a pod of ours.
fn membership(
    key: &Key,
    record: &PodRecord,
    context: &Context<'_>,
) -> Result<(PodGroupId, usize), Trouble> {
    if !record.ours {
        return Err(Trouble::NoGroup);
    }
    if let (Some(malformed), true) = (&record.malformed, record.waits()) {
        return Err(Trouble::Pod(malformed.clone()));
    }
    let id = |key: &Key| find(context.groups, key).map(|at| PodGroupId(position(at)));
    if context.flavor == Flavor::Kube {
        return id(key).map(|id| (id, 0)).map_err(|_| Trouble::NoGroup);
    }
    let Some(name) = &record.group else {
        let ungrouped = context.mirror.ungrouped.get(key).map(|(_, wrong)| wrong.clone());
        return Err(ungrouped.map_or(Trouble::NoGroup, Trouble::Grouping));
    };
    let group_key = group_key(key, name);
    let missing = || Trouble::GroupMissing(Name::clone(name));
    let group = context.mirror.groups.get(&group_key).ok_or_else(missing)?;
    let id = || id(&group_key).map_err(|_| missing());
    match (Trouble::of_group(name, group), record.waits()) {
        (Some(trouble), true) => Err(trouble),
        (Some(_), false) => Ok((id()?, 0)),
        (None, waits) => match place(&group.sub_groups, record.sub_group()) {
            Ok(at) => Ok((id()?, at)),
            Err(problem) if waits => Err(Trouble::SubGroup(Name::clone(name), problem)),
            // Whatever its label says, it runs, and its queue and its group have it.
            Err(_) => Ok((id()?, first_leaf(&group.sub_groups))),
        },
    }
}
