//! Evictions: the pod and its group are told for whom and why, then the pod is asked to leave.

use std::collections::BTreeMap;

use schedlab_json::json;
use schedlab_scheduler_core::{
    Decision, EvictionCause,
    model::{NodeId, PodGroupId, PodId},
    words::eviction_message,
};

use super::{
    About, Applier, Cycle, Event, Level, pod_groups, rfc3339,
    writes::{Call, Chain, Then, Write},
};
use crate::{
    api::{Merge, path},
    config::Flavor,
    mirror::{Key, Mirror},
    watch::Kind,
};

/// How many pods leave together: for one workload by one action, or of one stale gang.
pub(super) struct Together(BTreeMap<(&'static str, Option<PodGroupId>), usize>);

impl Together {
    pub(super) fn of(cycle: &Cycle<'_>) -> Self {
        let mut counts = BTreeMap::new();
        for decision in &cycle.plan.decisions {
            if let Decision::Evict { pod, cause } = decision {
                *counts.entry(Self::key(cycle, *pod, cause)).or_default() += 1;
            }
        }
        Self(counts)
    }

    fn key(
        cycle: &Cycle<'_>,
        pod: PodId,
        cause: &EvictionCause,
    ) -> (&'static str, Option<PodGroupId>) {
        (cause.action(), cause.preemptor().or_else(|| cycle.group(pod)))
    }

    fn count(&self, cycle: &Cycle<'_>, pod: PodId, cause: &EvictionCause) -> usize {
        self.0.get(&Self::key(cycle, pod, cause)).copied().unwrap_or(1)
    }
}

impl Applier {
    pub(super) fn evict(
        &self,
        mirror: &Mirror,
        cycle: &Cycle<'_>,
        (pod, cause): (PodId, &EvictionCause),
        together: &Together,
    ) -> Chain {
        let key = cycle.key(pod);
        let (reason, message) = match self.flavor {
            Flavor::Kai => ("Evict", eviction_message(cycle.snapshot, pod, cause)),
            Flavor::Kube => ("Preempted", preempted(cycle, pod, cause)),
        };
        let victim = &cycle.snapshot.pods[pod.0 as usize];
        let on_pod = About::pod(&key, &victim.uid);
        let on_group = victim
            .group
            .filter(|_| self.flavor == Flavor::Kai)
            .map(|group| &cycle.snapshot.pod_groups[group.0 as usize])
            .map(|group| pod_groups::about(&pod_groups::key(group), &group.uid));
        // A scheduler that follows one that died here may find other amounts in use.
        let preemptor = cause.preemptor().map(|group| {
            let group = &cycle.snapshot.pod_groups[group.0 as usize];
            format!("{} {}", cause.action(), group.uid)
        });
        let gist = preemptor.as_deref();
        let event = |about| {
            let (level, message, occasion) = (Level::Normal, &*message, &*victim.uid);
            Event { about, level, reason, message, gist, occasion }
        };
        let mut chain = vec![Write::event(&event(&on_pod), &self.api.name, cycle.now)];
        if let Some(on_group) = &on_group {
            let count = together.count(cycle, pod, cause).to_string();
            let annotations = annotations(cycle, cause, &count);
            let annotated = event(on_group).annotated(annotations, &self.api.name, cycle.now);
            chain.push(Write::told(annotated));
        }
        chain.extend(self.mark_disrupted(mirror, cycle, &key, &message));
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": &*victim.uid },
        });
        // Nobody's own time is shortened. What is left of a gang is evicted for no one.
        let own = mirror.pods.get(&key).map_or(0, |pod| pod.grace_secs);
        if let Some(grace) = self.grace_secs.filter(|grace| *grace > own)
            && cause.preemptor().is_some()
        {
            options["gracePeriodSeconds"] = json!(grace);
        }
        let path = path("v1", &key.namespace, "pods", &key.name);
        let call = Call::Delete { path, options };
        chain.push(Write { call, then: Then::Leaving(key, cycle.now) });
        chain
    }

    /// Condition `DisruptionTarget`, unless it stands.
    fn mark_disrupted(
        &self,
        mirror: &Mirror,
        cycle: &Cycle<'_>,
        key: &Key,
        message: &str,
    ) -> Option<Write> {
        let message = match self.flavor {
            Flavor::Kai => message.to_owned(),
            Flavor::Kube => {
                format!("{}: preempting to accommodate a higher priority pod", self.api.name)
            }
        };
        let told = mirror.pods.get(key).and_then(|pod| pod.told.disruption.as_ref());
        if told.is_some_and(|told| &*told.status == "True" && *told.message == *message) {
            return None;
        }
        let change = json!({ "status": { "conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": message,
            "lastTransitionTime": rfc3339(cycle.now),
        }] } });
        let path = format!("{}/status", path("v1", &key.namespace, "pods", &key.name));
        Some(Write::patch(Kind::Pod, path, Merge::Strategic, change))
    }
}

/// KAI's, for programs that follow who had to leave for whom.
fn annotations<'a>(
    cycle: &'a Cycle<'_>,
    cause: &EvictionCause,
    count: &'a str,
) -> BTreeMap<&'static str, &'a str> {
    let mut annotations =
        BTreeMap::from([("num-evicted-pods", count), ("evictor-action-type", cause.action())]);
    if let Some(preemptor) = cause.preemptor() {
        let preemptor = &cycle.snapshot.pod_groups[preemptor.0 as usize];
        annotations.insert("evictor-pod-group-name", &preemptor.name);
        annotations.insert("evictor-pod-group-namespace", &preemptor.namespace);
    }
    annotations
}

/// kube-scheduler's words.
fn preempted(cycle: &Cycle<'_>, pod: PodId, cause: &EvictionCause) -> String {
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
