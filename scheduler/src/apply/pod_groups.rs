//! Writes to pod groups: when they started, lost a pod or became stale, and why they wait.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map},
    iter::Peekable,
    sync::Arc,
};

use schedlab_api::{Value, annotations, api_versions, conditions::BINDING_ERROR, json};
use schedlab_scheduler_core::{
    Reason,
    model::{Name, PodGroup, PodGroupId, StalenessGrace, Time},
};

use super::{
    Applier, Cycle, Event, EventType, InvolvedObject,
    pending_messages::{PendingMessage, is_before_group, is_key_of},
    queue_details::queue_details,
    rfc3339,
    writes::{Write, WriteSequence},
};
use crate::{
    api::{PatchKind, object_path},
    cache::{
        BindFailure, ClusterCache, GroupMark, PodGroupRecord, SchedulingAttempts, is_failed_attempt,
    },
    config::Flavor,
    parse::text,
    records::ObjectKey,
    snapshot_builder::find_group,
    watch::Kind,
};

pub(super) fn involved_object(key: &ObjectKey, uid: &Name) -> InvolvedObject {
    InvolvedObject {
        api_version: api_versions::POD_GROUP,
        kind: "PodGroup",
        key: key.clone(),
        uid: Name::clone(uid),
    }
}

pub(super) fn group_key(group: &PodGroup) -> ObjectKey {
    ObjectKey { namespace: group.namespace.clone(), name: group.name.clone() }
}

impl Applier {
    /// The write of annotation `last-start-timestamp`, when the first pod of a group got a node.
    pub(super) fn start_annotation(&self, group: &PodGroup, at: Time) -> Option<WriteSequence> {
        let write =
            self.annotation_write(group, annotations::LAST_START_TIMESTAMP, &json!(rfc3339(at)))?;
        Some(vec![write])
    }

    /// The write of annotation `last-eviction-timestamp`, before the first pod of a group is
    /// evicted in this cycle.
    pub(super) fn eviction_annotation(&self, group: &PodGroup, at: Time) -> Option<Write> {
        self.annotation_write(group, annotations::LAST_EVICTION_TIMESTAMP, &json!(rfc3339(at)))
    }

    /// Annotates groups that became stale or recovered.
    pub(super) async fn annotate_staleness(&mut self, cache: &mut ClusterCache, cycle: &Cycle<'_>) {
        let mut chains = Vec::new();
        for (id, stale) in &cycle.plan.staleness_changes {
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            let at = if *stale { json!(rfc3339(cycle.now)) } else { Value::Null };
            let annotate = self.annotation_write(group, annotations::STALE_SINCE_TIMESTAMP, &at);
            let mut chain: WriteSequence = annotate.into_iter().collect();
            if *stale {
                let event = Event {
                    involved: &involved_object(&group_key(group), &group.uid),
                    event_type: EventType::Warning,
                    reason: "StaleJob",
                    message: stale_message(group),
                    dedup_key: None,
                    dedup_scope: &rfc3339(cycle.now),
                };
                chain.push(Write::create_event(&event, &self.api.name, cycle.now));
            }
            chains.push(chain);
        }
        self.write(cache, chains).await;
    }

    fn annotation_write(&self, group: &PodGroup, annotation: &str, value: &Value) -> Option<Write> {
        if self.flavor == Flavor::Kube {
            return None;
        }
        let change = json!({ "metadata": { "annotations": { annotation: value } } });
        let path = object_path(api_versions::POD_GROUP, &group.namespace, "podgroups", &group.name);
        Some(Write::patch(Kind::PodGroup, path, PatchKind::Merge, change))
    }

    /// Writes why groups wait, and removes outdated conditions.
    pub(super) async fn report_pending_groups(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
        messages: &BTreeMap<PodGroupId, Arc<PendingMessage>>,
    ) {
        let chains = self.group_status_updates(cache, cycle, messages);
        self.write(cache, chains).await;
    }

    pub(super) fn group_status_updates(
        &self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        messages: &BTreeMap<PodGroupId, Arc<PendingMessage>>,
    ) -> Vec<WriteSequence> {
        let groups = &cycle.snapshot.pod_groups;
        let refused_pods = self.refused.keys().cloned().collect();
        let mut bind_failures = BindFailure::first_failure_by_group(cache, &refused_pods);
        // Other groups neither wait nor did so before.
        let reported = cache.groups.marked(GroupMark::Pending).chain(bind_failures.keys());
        let reported = reported.filter_map(|key| find_group(groups, key).ok());
        let reported = reported.map(|at| PodGroupId(u32::try_from(at).expect("ids are 32 bits")));
        let affected: BTreeSet<PodGroupId> = reported.chain(messages.keys().copied()).collect();
        let mut records = RecordsInOrder::new(cache, affected.len());
        let chains = affected.into_iter().filter_map(|id| {
            let (key, record) = records.record_of(&groups[id.0 as usize])?;
            let own = PendingMessage::for_malformed_group(key, record)
                .or_else(|| Some(PendingMessage::for_bind_failure(&bind_failures.remove(key)?)));
            let pending = own.as_ref().or_else(|| messages.get(&id).map(|pending| &**pending));
            self.group_status_update(
                cycle,
                id,
                record,
                pending.filter(|_| !is_running_single_attempt(cache, key, record)),
            )
        });
        chains.collect()
    }

    fn group_status_update(
        &self,
        cycle: &Cycle<'_>,
        id: PodGroupId,
        record: &PodGroupRecord,
        pending: Option<&PendingMessage>,
    ) -> Option<WriteSequence> {
        let (group, reported) = (&cycle.snapshot.pod_groups[id.0 as usize], &record.reported);
        let is_skipped = record.attempts == (SchedulingAttempts::Single { has_failed: true });
        if pending
            .is_some_and(|pending| is_skipped && pending.code != Reason::SchedulingBackoff.code())
        {
            // The condition of the failed attempt stays.
            return None;
        }
        let only_attempt = pending.filter(|pending| {
            record.attempts == (SchedulingAttempts::Single { has_failed: false })
                && is_failed_attempt(pending.code)
        });
        let only_attempt = only_attempt.map(PendingMessage::with_retry_hint);
        let pending = only_attempt.as_ref().or(pending);
        let current = reported.pending.as_ref().map(|(code, text)| (&**code, &**text));
        if current == pending.map(|pending| (pending.code, pending.message.as_str())) {
            return None;
        }
        let mut chain = WriteSequence::new();
        // A malformed group already has a warning event.
        let event_message = pending.filter(|_| record.malformed.is_none());
        if let Some(PendingMessage { code, message, .. }) = event_message {
            let (level, reason) = match *code {
                "NotReady" => (EventType::Normal, "NotReady"),
                BINDING_ERROR => (EventType::Warning, BINDING_ERROR),
                _ => (EventType::Warning, "Unschedulable"),
            };
            let dedup_scope = &reported.version.to_string();
            let event = Event {
                involved: &involved_object(&group_key(group), &group.uid),
                event_type: level,
                reason,
                message,
                dedup_key: None,
                dedup_scope,
            };
            chain.push(Write::create_event(&event, &self.api.name, cycle.now));
        }
        let transition = reported.last_transition_id.saturating_add(1);
        let failed_reasons: &[Value] = if is_skipped { &reported.reasons } else { &[] };
        let ours = pending.map(|pending| {
            self.unschedulable_condition(cycle, id, pending, transition, failed_reasons)
        });
        let conditions: Value = reported.foreign_conditions.iter().cloned().chain(ours).collect();
        let change = json!({ "status": { "schedulingConditions": conditions } });
        let path = object_path(api_versions::POD_GROUP, &group.namespace, "podgroups", &group.name);
        chain.push(Write::patch(
            Kind::PodGroup,
            format!("{path}/status"),
            PatchKind::Merge,
            change,
        ));
        Some(chain)
    }

    /// Builds the scheduling condition of our node pool. `failed_reasons`, the reasons of the last
    /// attempt, follow the reason why the group is not retried.
    fn unschedulable_condition(
        &self,
        cycle: &Cycle<'_>,
        id: PodGroupId,
        pending: &PendingMessage,
        transition: u64,
        failed_reasons: &[Value],
    ) -> Value {
        let PendingMessage { code, reason, message } = pending;
        let mut current_reason = json!({ "reason": code, "message": reason });
        let failed_reasons =
            failed_reasons.iter().filter(|failed| text(failed, "/reason") != Some(code)).cloned();
        let waiting = cycle.plan.waiting.get(&id).filter(|reason| reason.code() == *code);
        if let Some(details) = waiting.and_then(|reason| queue_details(cycle, reason)) {
            current_reason["details"] = details;
        }
        json!({
            "type": "UnschedulableOnNodePool",
            "nodePool": &*self.pool,
            "status": "True",
            "reason": code,
            "message": message,
            "reasons": [current_reason].into_iter().chain(failed_reasons).collect::<Value>(),
            "transitionID": transition.to_string(),
            "lastTransitionTime": rfc3339(cycle.now),
        })
    }
}

/// The records of groups that are asked for in the order of their names: few are looked up one by
/// one, of many all records are passed through.
enum RecordsInOrder<'c> {
    OneByOne(&'c ClusterCache),
    All(Peekable<btree_map::Iter<'c, ObjectKey, PodGroupRecord>>),
}

/// At most one in so many groups is asked for if they are looked up one by one.
const FEW_GROUPS: usize = 16;

impl<'c> RecordsInOrder<'c> {
    fn new(cache: &'c ClusterCache, count: usize) -> Self {
        if count * FEW_GROUPS > cache.groups.len() {
            Self::All(cache.groups.iter().peekable())
        } else {
            Self::OneByOne(cache)
        }
    }

    fn record_of(&mut self, group: &PodGroup) -> Option<(&'c ObjectKey, &'c PodGroupRecord)> {
        match self {
            Self::OneByOne(cache) => cache.groups.get_key_value(&group_key(group)),
            Self::All(records) => {
                while records.next_if(|(key, _)| is_before_group(key, group)).is_some() {}
                records.next_if(|(key, _)| is_key_of(key, group))
            }
        }
    }
}

fn stale_message(group: &PodGroup) -> &'static str {
    match group.staleness_grace {
        Some(StalenessGrace::Never) => "Job has fewer pods than its minimum",
        Some(StalenessGrace::After(_)) | None => {
            "Job has fewer pods than its minimum and will be evicted unless they return"
        }
    }
}

/// Whether the group is tried once on each node pool and has running pods. Such a group is not
/// marked, since otherwise it would be skipped after its pods end.
fn is_running_single_attempt(
    cache: &ClusterCache,
    key: &ObjectKey,
    group: &PodGroupRecord,
) -> bool {
    let runs = || cache.pods_of_group(key).any(|(_, pod)| pod.node.is_some() && !pod.is_finished());
    group.attempts != SchedulingAttempts::Unlimited && runs()
}
