//! Why pods wait: a condition and an event, written only if the message differs from the one on the
//! pod. The condition is written last, since it implies that the event was written.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use schedlab_api::{annotations, conditions, json};
use schedlab_scheduler_core::{
    Decision, Snapshot,
    model::{PodGroupId, PodId, PodStatus, Time},
};

use super::{
    Applier, Cycle, Event, EventType, InvolvedObject,
    pending_messages::PendingMessage,
    rfc3339,
    scheduling_groups::is_untried,
    writes::{Write, WriteSequence},
};
use crate::{
    api::{PatchKind, object_path},
    cache::ClusterCache,
    config::Flavor,
    records::ObjectKey,
    snapshot_builder::{UnschedulableReason, pods_of_group},
    watch::Kind,
};

/// Grace period of a new pod before a missing group is reported. A pod grouper in another process,
/// which may just be taking over, may add the group.
const GROUPING_GRACE_MILLIS: i64 = 10_000;

/// Maximum number of pods per cycle whose existing message is updated; other pods follow in later
/// cycles.
const MESSAGE_UPDATES_MAX: usize = 256;

impl Applier {
    /// Writes conditions and events that report why pods and groups wait.
    pub(super) async fn report_pending(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
        unschedulable: &BTreeMap<ObjectKey, UnschedulableReason>,
    ) {
        let messages = self.messages.messages_of_cycle(cycle);
        if self.flavor == Flavor::Kai {
            self.report_pending_groups(cache, cycle, &messages).await;
        }
        self.report_scheduling_groups(cache, cycle, &messages).await;
        let mut reasons = pending_reasons(cache, cycle, &messages, self.flavor);
        let held = self.held_messages.iter().filter(|(key, text)| is_message_new(cache, key, text));
        reasons.extend(held.map(|(key, text)| (key.clone(), text.clone())));
        self.update_grouping_grace(cache, cycle.now, unschedulable);
        let unschedulable =
            unschedulable.iter().filter(|(key, _)| !self.grouping_grace.contains_key(*key));
        let unschedulable = unschedulable.map(|(key, reason)| (key, reason.to_string()));
        let changed = unschedulable.filter(|(key, text)| is_message_new(cache, key, text));
        reasons.extend(changed.map(|(key, text)| (key.clone(), text)));
        let due = self.pods_due_for_message(cache, &reasons);
        let chains =
            due.iter().filter_map(|key| self.pending_pod_updates(cache, cycle, key, &reasons[key]));
        let chains = chains.collect();
        self.write(cache, chains).await;
    }

    /// Recomputes which new pods have no group, with the rest of their grace period.
    fn update_grouping_grace(
        &mut self,
        cache: &ClusterCache,
        now: Time,
        unschedulable: &BTreeMap<ObjectKey, UnschedulableReason>,
    ) {
        let ungrouped =
            unschedulable.iter().filter(|(_, reason)| **reason == UnschedulableReason::NoGroup);
        let remaining = ungrouped.filter_map(|(key, _)| {
            let age = now.0.saturating_sub(cache.pods.get(key)?.created.0);
            let millis = u64::try_from(GROUPING_GRACE_MILLIS.saturating_sub(age)).ok()?;
            (millis > 0).then(|| (key.clone(), Duration::from_millis(millis)))
        });
        self.grouping_grace = remaining.collect();
    }

    /// Time until a missing group must be reported, or a pod gives up waiting for its volumes
    /// or devices.
    pub(crate) fn requeue_after(&self, now: Time) -> Option<Duration> {
        let grouping = self.grouping_grace.values().min().copied();
        let devices = self.next_device_timeout(now);
        grouping.into_iter().chain(self.next_volume_timeout(now)).chain(devices).min()
    }

    /// The pods whose condition is written now: all pods without a message yet, and a bounded
    /// number of those whose message changed. Those after the last updated pod come first, so that
    /// every pod gets its turn.
    fn pods_due_for_message(
        &mut self,
        cache: &ClusterCache,
        reasons: &BTreeMap<ObjectKey, String>,
    ) -> Vec<ObjectKey> {
        let has_message = |key: &&ObjectKey| {
            let pod = cache.pods.get(*key);
            pod.and_then(|pod| pod.reported.pod_scheduled.as_ref())
                .is_some_and(|condition| &*condition.status == "False")
        };
        let (stale, mut due): (Vec<_>, Vec<_>) = reasons.keys().partition(has_message);
        let after = stale.partition_point(|key| Some(*key) <= self.last_refreshed.as_ref());
        let in_turn = stale[after..].iter().chain(&stale[..after]);
        due.extend(in_turn.take(MESSAGE_UPDATES_MAX));
        if stale.len() > MESSAGE_UPDATES_MAX {
            self.outcome.retry = true;
            self.last_refreshed = due.last().map(|key| ObjectKey::clone(key));
        }
        due.into_iter().cloned().collect()
    }

    fn pending_pod_updates(
        &self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        key: &ObjectKey,
        text: &str,
    ) -> Option<WriteSequence> {
        let pod = cache.pods.get(key)?;
        let was_false = pod
            .reported
            .pod_scheduled
            .as_ref()
            .is_some_and(|condition| &*condition.status == "False");
        let about = InvolvedObject::for_pod(key, &pod.uid);
        let event = Event {
            involved: &about,
            event_type: EventType::Warning,
            reason: match self.flavor {
                Flavor::Kai => "Unschedulable",
                Flavor::Kube => "FailedScheduling",
            },
            message: text,
            dedup_key: None,
            dedup_scope: &pod.reported.version.to_string(),
        };
        let mut condition = json!({
            "type": conditions::POD_SCHEDULED,
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
        });
        if !was_false {
            condition["lastTransitionTime"] = rfc3339(cycle.now).into();
        }
        let mut change = json!({ "status": { "conditions": [condition] } });
        // A status patch may also change annotations, which saves a write for the group.
        if self.flavor == Flavor::Kai
            && let Some(group) = pod.group.as_ref().filter(|_| pod.needs_group_annotation())
        {
            change["metadata"] =
                json!({ "annotations": { (annotations::POD_GROUP_NAME): &**group } });
        }
        let path = format!("{}/status", object_path("v1", &key.namespace, "pods", &key.name));
        Some(vec![
            Write::create_event(&event, &self.api.name, cycle.now),
            Write::patch(Kind::Pod, path, PatchKind::Strategic, change),
        ])
    }
}

fn is_message_new(cache: &ClusterCache, key: &ObjectKey, text: &str) -> bool {
    cache.pods.get(key).is_some_and(|pod| {
        let condition = pod.reported.pod_scheduled.as_ref();
        pod.is_waiting()
            && condition.is_none_or(|condition| {
                &*condition.status != "False" || *condition.message != *text
            })
    })
}

/// Whether the pod gets an `Unschedulable` condition: `markUnschedulable` of its group.
fn is_marked_unschedulable(cache: &ClusterCache, key: &ObjectKey) -> bool {
    let group = cache.pods.get(key).and_then(|pod| pod.group.as_ref());
    let group =
        group.map(|name| ObjectKey { namespace: key.namespace.clone(), name: name.clone() });
    group.and_then(|key| cache.groups.get(&key)).is_none_or(|group| group.marks_unschedulable)
}

/// The messages of pods that wait after this cycle. Pods whose condition has this message already
/// are left out.
pub(super) fn pending_reasons(
    cache: &ClusterCache,
    cycle: &Cycle<'_>,
    messages: &BTreeMap<PodGroupId, Arc<PendingMessage>>,
    flavor: Flavor,
) -> BTreeMap<ObjectKey, String> {
    let mut placed = BTreeSet::new();
    let mut pipelined = BTreeMap::new();
    for decision in &cycle.plan.decisions {
        match decision {
            Decision::Bind { pod, .. } => {
                placed.insert(*pod);
            }
            Decision::Pipeline { pod, node } => {
                pipelined.insert(*pod, *node);
            }
            Decision::Evict { .. } => {}
        }
    }
    let mut reasons = BTreeMap::new();
    for id in pods_that_may_wait(cache, cycle, pipelined.keys().copied()) {
        let pod = &cycle.snapshot.pods[id.0 as usize];
        if pod.status != PodStatus::Pending || placed.contains(&id) {
            continue;
        }
        let of_group = pod.group.and_then(|group| cycle.plan.waiting.get(&group));
        if flavor == Flavor::Kube && of_group.is_some_and(is_untried) {
            continue;
        }
        let own = cycle.plan.waiting_pods.get(&id).map(|reason| Cow::Owned(reason.to_string()));
        let of_group = || Some(Cow::Borrowed(messages.get(&pod.group?)?.reason.as_str()));
        let pipelined_reason = || {
            let node = &cycle.snapshot.nodes[pipelined.get(&id)?.0 as usize].name;
            let text = format!("Waits until pods have left node {node}, to which it is pipelined");
            Some(Cow::Owned(text))
        };
        let Some(text) = own.or_else(of_group).or_else(pipelined_reason) else { continue };
        let key = cycle.key(id);
        if is_message_new(cache, &key, &text) && is_marked_unschedulable(cache, &key) {
            reasons.insert(key, text.into_owned());
        }
    }
    reasons
}

/// At most one in so many groups waits if the pods of waiting groups are looked up one by one.
const FEW_GROUPS: usize = 16;

/// The pods that may wait, by position: all of them, or those of waiting groups and the pipelined
/// ones if these are few.
fn pods_that_may_wait(
    cache: &ClusterCache,
    cycle: &Cycle<'_>,
    pipelined: impl Iterator<Item = PodId>,
) -> Vec<PodId> {
    let Snapshot { pods, pod_groups, .. } = cycle.snapshot;
    if cycle.plan.waiting.len() * FEW_GROUPS > pod_groups.len() {
        return (0..).map(PodId).zip(pods).map(|(id, _)| id).collect();
    }
    let mut found: BTreeSet<PodId> =
        pipelined.chain(cycle.plan.waiting_pods.keys().copied()).collect();
    for group in cycle.plan.waiting.keys() {
        found.extend(pods_of_group(cache, cycle.snapshot, *group));
    }
    found.into_iter().collect()
}
