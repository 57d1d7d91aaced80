//! What is told on pod groups: when they started, lost a pod, became stale, and why they wait.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    Reason,
    model::{Name, PodGroup, PodGroupId, StalenessGrace, Time},
};

use super::{
    About, Applier, Cycle, Event, Level,
    queue_details::details,
    rfc3339,
    waits::{Waits, comes_before, is_of},
    writes::{Chain, Write},
};
use crate::{
    api::{Merge, path},
    config::Flavor,
    mirror::{BINDING_ERROR, GroupRecord, Key, Mirror, Tries, Unbound, marks},
    parse::text,
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
    /// The group's first pod has got a node.
    pub(super) fn mark_start(&self, group: &PodGroup, at: Time) -> Option<Chain> {
        let annotation = ("kai.scheduler/last-start-timestamp", json!(rfc3339(at)));
        self.annotate(group, annotation).map(|write| vec![write])
    }

    /// The group's first pod of this cycle is about to be evicted.
    pub(super) fn mark_eviction(&self, group: &PodGroup, at: Time) -> Option<Write> {
        self.annotate(group, ("kai.scheduler/last-eviction-timestamp", json!(rfc3339(at))))
    }

    /// Groups that became stale, or recovered.
    pub(super) async fn mark_stale(&mut self, mirror: &mut Mirror, cycle: &Cycle<'_>) {
        let mut chains = Vec::new();
        for (id, stale) in &cycle.plan.stale {
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            let at = if *stale { json!(rfc3339(cycle.now)) } else { Value::Null };
            let annotation = ("kai.scheduler/stale-podgroup-timestamp", at);
            let mut chain: Chain = self.annotate(group, annotation).into_iter().collect();
            if *stale {
                let event = Event {
                    about: &about(&key(group), &group.uid),
                    level: Level::Warning,
                    reason: "StaleJob",
                    message: stale_message(group),
                    gist: None,
                    occasion: &rfc3339(cycle.now),
                };
                chain.push(Write::event(&event, &self.api.name, cycle.now));
            }
            chains.push(chain);
        }
        self.write(mirror, chains).await;
    }

    fn annotate(&self, group: &PodGroup, (annotation, value): (&str, Value)) -> Option<Write> {
        if self.flavor == Flavor::Kube {
            return None;
        }
        let change = json!({ "metadata": { "annotations": { annotation: value } } });
        let path = path(GROUPS, &group.namespace, "podgroups", &group.name);
        Some(Write::patch(Kind::PodGroup, path, Merge::Plain, change))
    }

    /// Why groups wait; what does not hold any more is taken away.
    pub(super) async fn explain_groups(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        words: &BTreeMap<PodGroupId, Arc<Waits>>,
    ) {
        let chains = self.told_groups(mirror, cycle, words);
        self.write(mirror, chains).await;
    }

    pub(super) fn told_groups(
        &self,
        mirror: &Mirror,
        cycle: &Cycle<'_>,
        words: &BTreeMap<PodGroupId, Arc<Waits>>,
    ) -> Vec<Chain> {
        let groups = (0..).map(PodGroupId).zip(&cycle.snapshot.pod_groups);
        let tried = self.refused.keys().cloned().collect();
        let mut unbound = Unbound::by_group(mirror, &tried);
        // Both are in the order of names.
        let mut records = mirror.groups.iter().peekable();
        let chains = groups.filter_map(|(id, group)| {
            while records.next_if(|(key, _)| comes_before(key, group)).is_some() {}
            let (key, record) = records.next_if(|(key, _)| is_of(key, group))?;
            let own = Waits::malformed((key, record))
                .or_else(|| Some(Waits::unbound(&unbound.remove(key)?)));
            let waits = own.as_ref().or_else(|| words.get(&id).map(|waits| &**waits));
            self.explain_group(
                cycle,
                (id, record),
                waits.filter(|_| !runs_once(mirror, (key, record))),
            )
        });
        chains.collect()
    }

    fn explain_group(
        &self,
        cycle: &Cycle<'_>,
        (id, record): (PodGroupId, &GroupRecord),
        waits: Option<&Waits>,
    ) -> Option<Chain> {
        let (group, told) = (&cycle.snapshot.pod_groups[id.0 as usize], &record.told);
        let is_left_alone = record.tries == (Tries::Once { was_in_vain: true });
        if waits.is_some_and(|waits| is_left_alone && waits.code != Reason::LeftAlone.code()) {
            // Nothing else takes the place of the mark.
            return None;
        }
        let only_try = waits.filter(|waits| {
            record.tries == (Tries::Once { was_in_vain: false }) && marks(waits.code)
        });
        let only_try = only_try.map(Waits::of_only_try);
        let waits = only_try.as_ref().or(waits);
        let stands = told.waits.as_ref().map(|(code, text)| (&**code, &**text));
        if stands == waits.map(|waits| (waits.code, waits.message.as_str())) {
            return None;
        }
        let mut chain = Chain::new();
        // Of a group that cannot be read, an event tells already.
        let news = waits.filter(|_| record.malformed.is_none());
        if let Some(Waits { code, message, .. }) = news {
            let (level, reason) = match *code {
                "NotReady" => (Level::Normal, "NotReady"),
                BINDING_ERROR => (Level::Warning, BINDING_ERROR),
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
            chain.push(Write::event(&event, &self.api.name, cycle.now));
        }
        let transition = told.transition.saturating_add(1);
        let before: &[Value] = if is_left_alone { &told.reasons } else { &[] };
        let ours = waits.map(|waits| self.condition(cycle, (id, waits), (transition, before)));
        let conditions: Value = told.of_others.iter().cloned().chain(ours).collect();
        let change = json!({ "status": { "schedulingConditions": conditions } });
        let path = path(GROUPS, &group.namespace, "podgroups", &group.name);
        chain.push(Write::patch(Kind::PodGroup, format!("{path}/status"), Merge::Plain, change));
        Some(chain)
    }

    /// What it was tried for in vain (`before`) is told beside why it is not tried again.
    fn condition(
        &self,
        cycle: &Cycle<'_>,
        (id, waits): (PodGroupId, &Waits),
        (transition, before): (u64, &[Value]),
    ) -> Value {
        let Waits { code, reason, message } = waits;
        let mut explained = json!({ "reason": code, "message": reason });
        let before = before.iter().filter(|before| text(before, "/reason") != Some(code)).cloned();
        let waiting = cycle.plan.waiting.get(&id).filter(|reason| reason.code() == *code);
        if let Some(details) = waiting.and_then(|reason| details(cycle, reason)) {
            explained["details"] = details;
        }
        json!({
            "type": "UnschedulableOnNodePool",
            "nodePool": &*self.pool,
            "status": "True",
            "reason": code,
            "message": message,
            "reasons": [explained].into_iter().chain(before).collect::<Value>(),
            "transitionID": transition.to_string(),
            "lastTransitionTime": rfc3339(cycle.now),
        })
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

/// The group is tried once on each node pool, and has pods that run: it is not marked while it
/// does, or it would be left alone when they are gone.
fn runs_once(mirror: &Mirror, (key, group): (&Key, &GroupRecord)) -> bool {
    let runs = || mirror.pods_of(key).any(|(_, pod)| pod.node.is_some() && !pod.is_finished());
    group.tries != Tries::All && runs()
}
