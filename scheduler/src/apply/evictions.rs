//! Evictions: the pod and its group are told for whom and why, then the pod is asked to leave.

use schedlab_scheduler_core::{
    EvictionCause,
    model::{NodeId, PodGroupId, PodId},
    words::eviction_message,
};
use serde_json::json;

use super::{About, Applier, Cycle, Event, Level, pod_groups, rfc3339};
use crate::{
    api::{Merge, path},
    config::Flavor,
    mirror::{Key, Mirror},
    watch::Kind,
};

impl Applier {
    pub(super) async fn evict(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        pod: PodId,
        cause: &EvictionCause,
    ) {
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
        for about in [Some(on_pod), on_group].iter().flatten() {
            let level = Level::Normal;
            let event =
                Event { about, level, reason, message: &message, gist, occasion: &victim.uid };
            self.tell(&event, cycle.now).await;
        }
        if !self.mark_disrupted(mirror, cycle, &key, &message).await {
            return;
        }
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": &*victim.uid },
        });
        let answer =
            self.api.delete(&path("v1", &key.namespace, "pods", &key.name), &options).await;
        if let Some(object) = self.done(answer) {
            if object["kind"] == "Pod" {
                mirror.upsert(Kind::Pod, &object);
            }
            mirror.assume_leaving(&key, cycle.now);
        }
    }

    /// Condition `DisruptionTarget`. Says whether the pod is still there.
    async fn mark_disrupted(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        key: &Key,
        message: &str,
    ) -> bool {
        let message = match self.flavor {
            Flavor::Kai => message.to_owned(),
            Flavor::Kube => {
                format!("{}: preempting to accommodate a higher priority pod", self.api.name)
            }
        };
        let told = mirror.pods.get(key).and_then(|pod| pod.told.disruption.as_ref());
        if told.is_some_and(|told| &*told.status == "True" && *told.message == *message) {
            return true;
        }
        let change = json!({ "status": { "conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": message,
            "lastTransitionTime": rfc3339(cycle.now),
        }] } });
        let path = path("v1", &key.namespace, "pods", &key.name);
        let answer = self.api.patch(&format!("{path}/status"), Merge::Strategic, &change).await;
        let Some(object) = self.done(answer) else {
            return false;
        };
        mirror.upsert(Kind::Pod, &object);
        true
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
