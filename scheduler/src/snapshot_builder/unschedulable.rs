//! Waiting pods that cannot be scheduled, listed in their pod groups as unschedulable members. (KAI
//! counts them like other members.)

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::model::{Name, ShapeId, UnschedulableMember};

use super::{
    SnapshotBuilder, UnschedulableReason,
    groups::{find_group, group_key},
    sub_groups::sub_group_index,
};
use crate::{
    cache::ClusterCache,
    config::Flavor,
    records::{ObjectKey, PodRecord},
};

impl UnschedulableReason {
    /// The unschedulable member of a pod group for the pod that has this problem.
    pub(crate) fn unschedulable_member(
        &self,
        pod: Name,
        sub_group: Option<usize>,
        shape: ShapeId,
    ) -> UnschedulableMember {
        // That the pod cannot be scheduled, and which one, is part of the message already.
        let (problem, cure) = if let Self::MalformedPod(malformed) = self {
            let allowed = format!("{}: expected {}", malformed.field, malformed.allowed);
            (malformed.to_string(), allowed)
        } else {
            (self.to_string(), self.remedy())
        };
        let (problem, cure) = (problem.into(), cure.into());
        UnschedulableMember { pod, sub_group, gated: false, shape, problem, fix: cure }
    }
}

impl SnapshotBuilder {
    /// Records the unschedulable members of all groups, after a rebuild.
    pub(super) fn record_all_unschedulable_members(&mut self, cache: &ClusterCache) {
        let group = |pod: &ObjectKey| Some(group_key(pod, cache.pods.get(pod)?.group.as_ref()?));
        let groups: BTreeSet<ObjectKey> =
            self.built.unschedulable.keys().filter_map(group).collect();
        for key in groups {
            self.record_unschedulable_members(cache, &key);
        }
    }

    /// Records the unschedulable members of a group that has none recorded yet. A malformed group
    /// has a message of its own instead.
    pub(super) fn record_unschedulable_members(&mut self, cache: &ClusterCache, key: &ObjectKey) {
        let (snapshot, reasons) = (&mut self.built.snapshot, &self.built.unschedulable);
        let is_malformed =
            |key| cache.groups.get(key).is_none_or(|group| group.malformed.is_some());
        if self.flavor == Flavor::Kube || reasons.is_empty() || is_malformed(key) {
            return;
        }
        let Ok(at) = find_group(&snapshot.pod_groups, key) else { return };
        let group = &mut snapshot.pod_groups[at];
        for (pod, record, reason) in unschedulable_members(cache, reasons, key) {
            let sub_group = sub_group_index(&group.sub_groups, record.sub_group()).ok();
            let shape = self.shapes.id(&record.shape, &mut snapshot.shapes);
            let member = reason.unschedulable_member(pod.name, sub_group, shape);
            group
                .unschedulable_members
                .push(UnschedulableMember { gated: record.is_gated, ..member });
        }
    }
}

/// The unschedulable members of a group, by name. Iterates over the smaller of two sets: few pods
/// are unschedulable, and few groups have many pods.
fn unschedulable_members<'a>(
    cache: &'a ClusterCache,
    reasons: &'a BTreeMap<ObjectKey, UnschedulableReason>,
    group: &ObjectKey,
) -> Vec<(ObjectKey, &'a PodRecord, &'a UnschedulableReason)> {
    let Some(members) = cache.members.get(group) else { return Vec::new() };
    let first = ObjectKey { namespace: Name::clone(&group.namespace), name: "".into() };
    let near = reasons.range(first..).take_while(|(pod, _)| pod.namespace == group.namespace);
    if near.clone().nth(members.len()).is_none() {
        let of_group = near.filter(|(pod, _)| members.contains(&pod.name));
        let known =
            of_group.filter_map(|(pod, reason)| Some((pod.clone(), cache.pods.get(pod)?, reason)));
        return known.collect();
    }
    let known = cache.pods_of_group(group).filter_map(|(pod, record)| {
        let reason = reasons.get(&pod)?;
        Some((pod, record, reason))
    });
    known.collect()
}
