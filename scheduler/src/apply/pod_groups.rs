//! What is told on pod groups: when they started, lost a pod, became stale, and why they wait.

use schedlab_scheduler_core::model::{Name, PodGroup, PodGroupId};
use serde_json::{Value, json};

use super::{About, Applier, Cycle, Event, Level, rfc3339};
use crate::{
    api::{Merge, path},
    config::Flavor,
    mirror::{Key, Mirror},
    watch::Kind,
};

const GROUPS: &str = "scheduling.run.ai/v2alpha2";

pub(super) fn about(key: &Key, uid: &Name) -> About {
    About { api_version: GROUPS, kind: "PodGroup", key: key.clone(), uid: Name::clone(uid) }
}

pub(super) fn key(group: &PodGroup) -> Key {
    Key { namespace: group.namespace.clone(), name: group.name.clone() }
}

impl Applier {
    /// The group's first pod, if it is, is about to be bound.
    pub(super) async fn mark_start(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        group: Option<PodGroupId>,
    ) {
        let Some(group) = group else {
            return;
        };
        let at = json!(rfc3339(cycle.now));
        self.annotate(mirror, cycle, group, ("kai.scheduler/last-start-timestamp", at)).await;
    }

    /// The group's first pod in this cycle, if it is, is about to be evicted.
    pub(super) async fn mark_eviction(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        group: Option<PodGroupId>,
    ) {
        let Some(group) = group else {
            return;
        };
        let at = json!(rfc3339(cycle.now));
        self.annotate(mirror, cycle, group, ("kai.scheduler/last-eviction-timestamp", at)).await;
    }

    /// Groups that became stale, or recovered.
    pub(super) async fn mark_stale(&mut self, mirror: &mut Mirror, cycle: &Cycle<'_>) {
        for (id, stale) in &cycle.plan.stale {
            let at = if *stale { json!(rfc3339(cycle.now)) } else { Value::Null };
            let annotation = ("kai.scheduler/stale-podgroup-timestamp", at);
            self.annotate(mirror, cycle, *id, annotation).await;
            if *stale {
                let group = &cycle.snapshot.pod_groups[id.0 as usize];
                let event = Event {
                    about: &about(&key(group), &group.uid),
                    level: Level::Warning,
                    reason: "StaleJob",
                    message: "Job has fewer pods than its minimum and will be evicted unless they return",
                    gist: None,
                    occasion: &rfc3339(cycle.now),
                };
                self.tell(&event, cycle.now).await;
            }
        }
    }

    async fn annotate(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        group: PodGroupId,
        (annotation, value): (&str, Value),
    ) {
        if self.flavor == Flavor::Kube {
            return;
        }
        let group = &cycle.snapshot.pod_groups[group.0 as usize];
        let change = json!({ "metadata": { "annotations": { annotation: value } } });
        let path = path(GROUPS, &group.namespace, "podgroups", &group.name);
        let answer = self.api.patch(&path, Merge::Plain, &change).await;
        if let Some(object) = self.done(answer) {
            mirror.upsert(Kind::PodGroup, &object);
        }
    }

    /// Why groups wait; what does not hold any more is taken away.
    pub(super) async fn explain_groups(&mut self, mirror: &mut Mirror, cycle: &Cycle<'_>) {
        for (id, group) in (0..).map(PodGroupId).zip(&cycle.snapshot.pod_groups) {
            if self.outcome.in_doubt {
                return;
            }
            let reason = cycle.plan.waiting.get(&id);
            let waits = reason.map(|reason| (reason.code(), reason.to_string()));
            self.explain_group(mirror, cycle, group, waits.as_ref()).await;
        }
    }

    async fn explain_group(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        group: &PodGroup,
        waits: Option<&(&str, String)>,
    ) {
        let Some(told) = mirror.groups.get(&key(group)).map(|record| record.told.clone()) else {
            return;
        };
        let stands = told.waits.as_ref().map(|(code, text)| (&**code, &**text));
        if stands == waits.map(|(code, text)| (*code, text.as_str())) {
            return;
        }
        if let Some((code, message)) = waits {
            let (level, reason) = match *code {
                "NotReady" => (Level::Normal, "NotReady"),
                _ => (Level::Warning, "Unschedulable"),
            };
            let occasion = &told.version.to_string();
            let event = Event {
                about: &about(&key(group), &group.uid),
                level,
                reason,
                message,
                gist: None,
                occasion,
            };
            self.tell(&event, cycle.now).await;
        }
        let conditions = match waits {
            Some(reason) => json!([condition(reason, told.transition + 1, cycle)]),
            None => json!([]),
        };
        self.write_conditions(mirror, group, &conditions).await;
    }

    async fn write_conditions(&mut self, mirror: &mut Mirror, group: &PodGroup, list: &Value) {
        let change = json!({ "status": { "schedulingConditions": list } });
        let path = path(GROUPS, &group.namespace, "podgroups", &group.name);
        let answer = self.api.patch(&format!("{path}/status"), Merge::Plain, &change).await;
        if let Some(object) = self.done(answer) {
            mirror.upsert(Kind::PodGroup, &object);
        }
    }
}

fn condition((code, message): &(&str, String), transition: u64, cycle: &Cycle<'_>) -> Value {
    json!({
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "status": "True",
        "reason": code,
        "message": message,
        "reasons": [{ "reason": code, "message": message }],
        "transitionID": transition.to_string(),
        "lastTransitionTime": rfc3339(cycle.now),
    })
}
