//! Evictions: events on pod and group and a condition with the reason, then the deletion of the
//! pod.

use std::collections::BTreeMap;

use schedlab_api::{annotations, conditions, json};
use schedlab_scheduler_core::{
    Decision, EvictionCause,
    model::{NodeId, PodGroupId, PodId},
    plan::eviction_message,
};

use super::{
    Applier, Cycle, Event, EventType, InvolvedObject, pod_groups, rfc3339,
    writes::{OnSuccess, Request, Write, WriteSequence},
};
use crate::{
    api::{PatchKind, object_path},
    cache::ClusterCache,
    config::Flavor,
    records::ObjectKey,
    watch::Kind,
};

/// The sizes of groups of pods that are evicted together: by the same action for the same
/// preemptor, or as the rest of a stale gang. The key is action, and preemptor or gang.
pub(super) struct EvictionGroupSizes(BTreeMap<(&'static str, Option<PodGroupId>), usize>);

impl EvictionGroupSizes {
    pub(super) fn new(cycle: &Cycle<'_>) -> Self {
        let mut counts = BTreeMap::new();
        for decision in &cycle.plan.decisions {
            if let Decision::Evict { pod, cause } = decision {
                *counts.entry(Self::size_key(cycle, *pod, cause)).or_default() += 1;
            }
        }
        Self(counts)
    }

    fn size_key(
        cycle: &Cycle<'_>,
        pod: PodId,
        cause: &EvictionCause,
    ) -> (&'static str, Option<PodGroupId>) {
        (cause.kai_action_name(), cause.preemptor().or_else(|| cycle.group(pod)))
    }

    fn group_size(&self, cycle: &Cycle<'_>, pod: PodId, cause: &EvictionCause) -> usize {
        self.0.get(&Self::size_key(cycle, pod, cause)).copied().unwrap_or(1)
    }
}

impl Applier {
    pub(super) fn eviction_writes(
        &self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        pod: PodId,
        cause: &EvictionCause,
        group_sizes: &EvictionGroupSizes,
    ) -> WriteSequence {
        let key = cycle.key(pod);
        let (reason, message) = match self.flavor {
            Flavor::Kai => ("Evict", eviction_message(cycle.snapshot, pod, cause)),
            Flavor::Kube => ("Preempted", preemption_message(cycle, pod, cause)),
        };
        let victim = &cycle.snapshot.pods[pod.0 as usize];
        let on_pod = InvolvedObject::for_pod(&key, &victim.uid);
        let on_group = victim
            .group
            .filter(|_| self.flavor == Flavor::Kai)
            .map(|group| &cycle.snapshot.pod_groups[group.0 as usize])
            .map(|group| pod_groups::involved_object(&pod_groups::group_key(group), &group.uid));
        // The successor of a scheduler that died here may see other amounts in use, so messages may
        // differ.
        let preemptor = cause.preemptor().map(|group| {
            let group = &cycle.snapshot.pod_groups[group.0 as usize];
            format!("{} {}", cause.kai_action_name(), group.uid)
        });
        let gist = preemptor.as_deref();
        let event = |about| {
            let (level, message, occasion) = (EventType::Normal, &*message, &*victim.uid);
            Event {
                involved: about,
                event_type: level,
                reason,
                message,
                dedup_key: gist,
                dedup_scope: occasion,
            }
        };
        let mut chain = vec![Write::create_event(&event(&on_pod), &self.api.name, cycle.now)];
        if let Some(on_group) = &on_group {
            let count = group_sizes.group_size(cycle, pod, cause).to_string();
            let annotations = eviction_event_annotations(cycle, cause, &count);
            let (path, body) =
                event(on_group).to_annotated_request(annotations, &self.api.name, cycle.now);
            chain.push(Write::event_request(path, body));
        }
        chain.extend(self.disruption_target_write(cache, cycle, &key, &message));
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": &*victim.uid },
        });
        // The grace period is only extended, never shortened. Stale gangs have no preemptor and
        // keep theirs.
        let own = cache.pods.get(&key).map_or(0, |pod| pod.grace_period_secs);
        if let Some(grace) = self.grace_secs.filter(|grace| *grace > own)
            && cause.preemptor().is_some()
        {
            options["gracePeriodSeconds"] = json!(grace);
        }
        let path = object_path("v1", &key.namespace, "pods", &key.name);
        let request = Request::Delete { path, options };
        let cause = cause.kai_action_name();
        let on_success = OnSuccess::Evicted { pod: key, since: cycle.now, cause };
        chain.push(Write { request, on_success });
        chain
    }

    /// The write of condition `DisruptionTarget`; `None` if the pod has it already.
    fn disruption_target_write(
        &self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        key: &ObjectKey,
        message: &str,
    ) -> Option<Write> {
        let message = match self.flavor {
            Flavor::Kai => message.to_owned(),
            Flavor::Kube => {
                format!("{}: preempting to accommodate a higher priority pod", self.api.name)
            }
        };
        let condition = cache.pods.get(key).and_then(|pod| pod.reported.disruption_target.as_ref());
        if condition
            .is_some_and(|condition| &*condition.status == "True" && *condition.message == *message)
        {
            return None;
        }
        let change = json!({ "status": { "conditions": [{
            "type": conditions::DISRUPTION_TARGET,
            "status": "True",
            "reason": conditions::PREEMPTION_BY_SCHEDULER,
            "message": message,
            "lastTransitionTime": rfc3339(cycle.now),
        }] } });
        let path = format!("{}/status", object_path("v1", &key.namespace, "pods", &key.name));
        Some(Write::patch(Kind::Pod, path, PatchKind::Strategic, change))
    }
}

/// The annotations of an eviction event, as KAI writes them.
fn eviction_event_annotations<'a>(
    cycle: &'a Cycle<'_>,
    cause: &EvictionCause,
    count: &'a str,
) -> BTreeMap<&'static str, &'a str> {
    let mut annotations = BTreeMap::from([
        (annotations::EVICTED_PODS, count),
        (annotations::EVICTOR_ACTION, cause.kai_action_name()),
    ]);
    if let Some(preemptor) = cause.preemptor() {
        let preemptor = &cycle.snapshot.pod_groups[preemptor.0 as usize];
        annotations.insert(annotations::EVICTOR_POD_GROUP_NAME, &preemptor.name);
        annotations.insert(annotations::EVICTOR_POD_GROUP_NAMESPACE, &preemptor.namespace);
    }
    annotations
}

/// kube-scheduler's message on a preempted pod.
fn preemption_message(cycle: &Cycle<'_>, pod: PodId, cause: &EvictionCause) -> String {
    let uid = |group: &PodGroupId| &cycle.snapshot.pod_groups[group.0 as usize].uid;
    let node = |NodeId(node)| &cycle.snapshot.nodes[node as usize].name;
    match cause {
        EvictionCause::Preempt { preemptor }
        | EvictionCause::Reclaim { preemptor, .. }
        | EvictionCause::Consolidate { preemptor } => {
            let on = cycle.snapshot.pods[pod.0 as usize].node.map(node);
            let on = on.map(|node| format!(" on node {node}")).unwrap_or_default();
            format!("Preempted by pod {}{on}", uid(preemptor))
        }
        EvictionCause::StaleGang { .. } => eviction_message(cycle.snapshot, pod, cause),
    }
}
