//! Pods: which are in the snapshot, in which state, with which shape.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_scheduler_core::model::{Name, NodeId, Pod, PodGroupId, PodShape, PodStatus, ShapeId};

use super::{
    Translation, Trouble,
    groups::{Memberships, group_key, position},
};
use crate::{
    config::Flavor,
    mirror::{Key, Mirror, Phase, PodRecord},
};

/// Where names stand in the snapshot.
pub(super) struct Places {
    pub(super) nodes: BTreeMap<Name, NodeId>,
    pub(super) memberships: Memberships,
    pub(super) flavor: Flavor,
}

/// Adds pods and shapes to the snapshot, and troubles beside it.
pub(super) fn translate(mirror: &Mirror, places: &Places, translation: &mut Translation) {
    let mut shapes: BTreeMap<*const PodShape, ShapeId> = BTreeMap::new();
    for (key, record) in &mirror.pods {
        let Some((status, node)) = status(record, places) else {
            continue;
        };
        let member = membership(key, record, mirror, places);
        let (group, sub_group) = match member {
            Ok(place) => (Some(place.0), place.1),
            Err(trouble) if record.waits() => {
                if record.ours {
                    translation.troubles.insert(key.clone(), trouble);
                }
                continue;
            }
            // It stands on a node, or stood there: the room is taken, or it does not matter.
            Err(_) if status == PodStatus::Succeeded => continue,
            Err(_) => (None, 0),
        };
        let snapshot = &mut translation.snapshot;
        let shape = *shapes.entry(Arc::as_ptr(&record.shape)).or_insert_with(|| {
            snapshot.shapes.push(PodShape::clone(&record.shape));
            ShapeId(position(snapshot.shapes.len() - 1))
        });
        snapshot.pods.push(Pod {
            namespace: Name::clone(&key.namespace),
            name: Name::clone(&key.name),
            uid: Name::clone(&record.uid),
            labels: record.labels.clone(),
            group,
            sub_group,
            shape,
            priority: record.priority,
            preemption_policy: record.preemption_policy,
            status,
            node,
            nominated: record.nominated.as_ref().and_then(|node| places.nodes.get(node).copied()),
            task_priority: record.task_priority(),
            created: record.created,
            started: record.node.is_some().then_some(record.started).flatten(),
            released_since: record.leaving_since,
        });
    }
}

/// State and node of a pod that matters; `None` for one that does not (any more).
fn status(record: &PodRecord, places: &Places) -> Option<(PodStatus, Option<NodeId>)> {
    match record.phase {
        Phase::Failed => return None,
        Phase::Succeeded => return record.ours.then_some((PodStatus::Succeeded, None)),
        Phase::Pending | Phase::Running => {}
    }
    let Some(node) = &record.node else {
        let status = if record.gated { PodStatus::Gated } else { PodStatus::Pending };
        return record.waits().then_some((status, None));
    };
    // A pod of a node that is gone holds nothing and is no member of anything.
    let node = *places.nodes.get(node)?;
    let status = match (record.leaving_since, record.phase) {
        (Some(_), _) => PodStatus::Releasing,
        (None, Phase::Running) => PodStatus::Running,
        (None, Phase::Pending | Phase::Succeeded | Phase::Failed) => PodStatus::Bound,
    };
    Some((status, Some(node)))
}

/// The pod group and sub-group of a pod of ours.
fn membership(
    key: &Key,
    record: &PodRecord,
    mirror: &Mirror,
    places: &Places,
) -> Result<(PodGroupId, usize), Trouble> {
    if !record.ours {
        return Err(Trouble::NoGroup);
    }
    if let (Some(malformed), true) = (&record.malformed, record.waits()) {
        return Err(Trouble::Pod(malformed.clone()));
    }
    if places.flavor == Flavor::Kube {
        return places.memberships.get(key).map(|id| (*id, 0)).ok_or(Trouble::NoGroup);
    }
    let Some(name) = &record.group else {
        let ungrouped = mirror.ungrouped.get(key).map(|(_, wrong)| wrong.clone());
        return Err(ungrouped.map_or(Trouble::NoGroup, Trouble::Grouping));
    };
    let group_key = group_key(key, name);
    let missing = || Trouble::GroupMissing(Name::clone(name));
    let group = mirror.groups.get(&group_key).ok_or_else(missing)?;
    if let Some(malformed) = &group.malformed {
        return Err(Trouble::Group(Name::clone(name), malformed.clone()));
    }
    let id = *places.memberships.get(&group_key).ok_or_else(missing)?;
    let sub_group = match record.sub_group() {
        None => 0,
        Some(wanted) => {
            group.sub_groups.iter().position(|has| has.name == *wanted).ok_or_else(|| {
                Trouble::SubGroupMissing {
                    group: Name::clone(name),
                    sub_group: Name::clone(wanted),
                }
            })?
        }
    };
    Ok((id, sub_group))
}
