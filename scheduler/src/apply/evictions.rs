//! Evictions: the pod and its group are told for whom and why, then the pod is asked to leave.

use schedlab_json::json;
use schedlab_scheduler_core::{
    EvictionCause,
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

impl Applier {
    pub(super) fn evict(
        &self,
        mirror: &Mirror,
        cycle: &Cycle<'_>,
        pod: PodId,
        cause: &EvictionCause,
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
        let event = |about: &About| {
            let (level, message, occasion) = (Level::Normal, &*message, &*victim.uid);
            let event = Event { about, level, reason, message, gist, occasion };
            Write::event(&event, &self.api.name, cycle.now)
        };
        let mut chain: Chain = [Some(on_pod), on_group].iter().flatten().map(event).collect();
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
