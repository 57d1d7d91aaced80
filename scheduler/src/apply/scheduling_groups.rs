//! Condition `PodGroupInitiallyScheduled` of the PodGroups of Kubernetes, with the reasons of
//! kube-scheduler: `Scheduled` once the minimum has nodes, `Unschedulable` while it fits on none. A
//! group that was placed once keeps the condition. Like kube-scheduler, nothing is written while
//! pods are missing.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_api::{Value, api_versions, conditions, json};
use schedlab_scheduler_core::{
    Reason,
    model::{PodGroup, PodGroupId},
    reason::ReasonKind,
};

use super::{
    Applier, Cycle,
    pending_messages::PendingMessage,
    pod_groups::group_key,
    rfc3339,
    writes::{Write, WriteSequence},
};
use crate::{
    api::{PatchKind, object_path},
    cache::{ClusterCache, SchedulingGroupRecord, scheduling_group_key},
    config::Flavor,
    records::{ObjectKey, PodRecord},
    watch::Kind,
};

/// Reasons to wait that kube-scheduler does not report, as it does not try such groups.
const UNTRIED: [&str; 1] = ["NotReady"];

impl Applier {
    /// Writes the conditions that changed.
    pub(super) async fn report_scheduling_groups(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
        messages: &BTreeMap<PodGroupId, Arc<PendingMessage>>,
    ) {
        let chains = self.scheduling_group_updates(cache, cycle, messages);
        self.write(cache, chains).await;
    }

    pub(super) fn scheduling_group_updates(
        &self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        messages: &BTreeMap<PodGroupId, Arc<PendingMessage>>,
    ) -> Vec<WriteSequence> {
        if cache.scheduling_groups.groups.is_empty() {
            return Vec::new();
        }
        let groups = (0..).map(PodGroupId).zip(&cycle.snapshot.pod_groups);
        let updates = groups.filter_map(|(id, group)| {
            let key = self.scheduling_group_of(cache, group)?;
            let record = cache.scheduling_groups.groups.get(&key)?;
            let condition = condition(cache, &key, record, messages.get(&id).map(|text| &**text))?;
            Some(vec![update(&key, record, &condition, &rfc3339(cycle.now))])
        });
        updates.collect()
    }

    /// The PodGroup of Kubernetes of a group of the snapshot.
    fn scheduling_group_of(&self, cache: &ClusterCache, group: &PodGroup) -> Option<ObjectKey> {
        let key = group_key(group);
        match self.flavor {
            Flavor::Kai => Some(key.sibling(cache.groups.get(&key)?.scheduling_group()?)),
            Flavor::Kube => scheduling_group_key(&key),
        }
    }
}

/// Status, reason and message of the condition.
struct GroupCondition<'m> {
    status: &'static str,
    reason: &'static str,
    message: &'m str,
}

/// The condition, if it differs from the one that the PodGroup has.
fn condition<'m>(
    cache: &ClusterCache,
    key: &ObjectKey,
    record: &SchedulingGroupRecord,
    pending: Option<&'m PendingMessage>,
) -> Option<GroupCondition<'m>> {
    let reported = record.reported.initially_scheduled.as_ref();
    if reported.is_some_and(|reported| &*reported.status == "True") {
        return None;
    }
    let pods =
        cache.scheduling_groups.members(key).filter_map(|pod| cache.pods.get(&key.sibling(pod)));
    let placed = pods.filter(|pod| has_node(pod)).count();
    let is_placed = u32::try_from(placed).is_ok_and(|placed| placed >= record.minimum());
    let condition = if is_placed {
        GroupCondition { status: "True", reason: "Scheduled", message: "" }
    } else {
        let pending = pending.filter(|pending| !UNTRIED.contains(&pending.code))?;
        let is_error = pending.code == ReasonKind::SchedulerError.as_str();
        let reason = if is_error { "SchedulerError" } else { "Unschedulable" };
        GroupCondition { status: "False", reason, message: &pending.reason }
    };
    let is_same = reported.is_some_and(|reported| {
        *reported.status == *condition.status
            && *reported.reason == *condition.reason
            && *reported.message == *condition.message
    });
    (!is_same).then_some(condition)
}

fn has_node(pod: &PodRecord) -> bool {
    pod.node.is_some() && pod.releasing_since.is_none()
}

fn update(
    key: &ObjectKey,
    record: &SchedulingGroupRecord,
    condition: &GroupCondition<'_>,
    now: &str,
) -> Write {
    let reported = &record.reported;
    let is_changed =
        reported.initially_scheduled.as_ref().is_none_or(|was| *was.status != *condition.status);
    let since = reported.since.as_deref().filter(|_| !is_changed).unwrap_or(now);
    let ours = json!({
        "type": conditions::POD_GROUP_INITIALLY_SCHEDULED,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": record.generation,
        "lastTransitionTime": since,
    });
    let conditions: Value = reported.other_conditions.iter().cloned().chain([ours]).collect();
    let change = json!({ "status": { "conditions": conditions } });
    let path = object_path(api_versions::WORKLOAD, &key.namespace, "podgroups", &key.name);
    Write::patch(Kind::SchedulingGroup, format!("{path}/status"), PatchKind::Merge, change)
}

/// Like kube-scheduler, nothing is written to the pods of an incomplete gang.
pub(super) fn is_untried(reason: &Reason) -> bool {
    UNTRIED.contains(&reason.code())
}
