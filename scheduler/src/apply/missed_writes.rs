//! Writes that a scheduler missed which died after a binding: the `Scheduled` event, and the start
//! of the group. Its successor writes them once, before its first decision.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::model::{Name, Time};

use super::{
    Applier, Cycle, InvolvedObject, placements::scheduled_event, pod_groups, writes::WriteSequence,
};
use crate::{
    api::ApiError,
    cache::ClusterCache,
    config::Flavor,
    parse::{list, text},
    records::{ObjectKey, PodRecord},
};

/// Events expire after an hour, so older bindings are not reported.
const EVENT_LIFETIME_MILLIS: i64 = 3_600_000;

/// A group whose last start is more recent than this does not count as restarted.
const RESTART_MIN_MILLIS: i64 = 60_000;

const SCHEDULED_EVENTS_PATH: &str = "/api/v1/events?fieldSelector=reason%3DScheduled";

/// A pod that has a node and no `Scheduled` event.
struct MissedEvent {
    pod: ObjectKey,
    uid: Name,
    node: Name,
}

impl Applier {
    pub(super) async fn recover_missed_writes(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
    ) {
        if !self.needs_recovery {
            return;
        }
        let missed = match self.missed_scheduled_events(cache, cycle.now).await {
            Ok(missed) => missed,
            // Without permission to list events, missing ones cannot be detected.
            Err(ApiError::Refused(message)) => {
                self.outcome.failure = Some(message);
                Vec::new()
            }
            Err(error) => return self.record_failure(error),
        };
        // As in a normal cycle, the start is written before the event.
        self.write(cache, self.missed_start_annotations(cache, cycle, &missed)).await;
        let events = missed.iter().map(|MissedEvent { pod, uid, node }| {
            vec![self.scheduled_write(pod, uid, node, cycle.now)]
        });
        self.write(cache, events.collect()).await;
        self.needs_recovery = false;
    }

    async fn missed_scheduled_events(
        &self,
        cache: &ClusterCache,
        now: Time,
    ) -> Result<Vec<MissedEvent>, ApiError> {
        let is_recent = |pod: &PodRecord| {
            let is_new =
                pod.reported.bound_at.is_some_and(|at| at.0 > now.0 - EVENT_LIFETIME_MILLIS);
            pod.is_ours && (pod.is_bind_requested() || is_new)
        };
        let recent = cache.pods.iter().filter(|(_, pod)| is_recent(pod));
        let recent: Vec<(&ObjectKey, &PodRecord, &Name)> =
            recent.filter_map(|(key, pod)| Some((key, pod, pod.node.as_ref()?))).collect();
        if recent.is_empty() {
            return Ok(Vec::new());
        }
        let events = self.api.get(SCHEDULED_EVENTS_PATH).await?;
        let names = list(&events, "/items").iter();
        let event_names: BTreeSet<&str> =
            names.filter_map(|event| text(event, "/metadata/name")).collect();
        let is_missed = |(key, pod, node): &(&ObjectKey, &PodRecord, &Name)| {
            let (about, message) =
                (InvolvedObject::for_pod(key, &pod.uid), self.scheduled_message(key, node));
            !event_names.contains(&*scheduled_event(&about, &message).object_name())
        };
        let missed = recent.into_iter().filter(is_missed);
        let missed = missed.map(|(key, pod, node)| MissedEvent {
            pod: key.clone(),
            uid: Name::clone(&pod.uid),
            node: Name::clone(node),
        });
        Ok(missed.collect())
    }

    /// The writes of annotation `last-start-timestamp` for groups that have none, or whose first
    /// pods were bound long after it and have no event. (Otherwise the group just lost an older
    /// pod.)
    fn missed_start_annotations(
        &self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        missed: &[MissedEvent],
    ) -> Vec<WriteSequence> {
        if self.flavor == Flavor::Kube {
            return Vec::new();
        }
        let missed: BTreeSet<&ObjectKey> = missed.iter().map(|missed| &missed.pod).collect();
        let mut first: BTreeMap<ObjectKey, (Time, &ObjectKey)> = BTreeMap::new();
        for (key, pod) in cache.pods.iter().filter(|(_, pod)| pod.is_ours && !pod.is_finished()) {
            let at = pod.reported.bound_at.or_else(|| pod.is_bind_requested().then_some(cycle.now));
            if let (Some(group), Some(at)) = (&pod.group, at) {
                let namespace = Name::clone(&key.namespace);
                let group = ObjectKey { namespace, name: Name::clone(group) };
                let since = first.entry(group).or_insert((at, key));
                *since = (at, key).min(*since);
            }
        }
        let groups = cycle.snapshot.pod_groups.iter();
        let started = groups.filter_map(|group| {
            let (at, pod) = *first.get(&pod_groups::group_key(group))?;
            let is_recorded = group
                .last_start
                .is_some_and(|last| at.0 < last.0 + RESTART_MIN_MILLIS || !missed.contains(pod));
            if is_recorded { None } else { self.start_annotation(group, at) }
        });
        started.collect()
    }
}
