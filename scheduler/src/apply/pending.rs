//! Why pods wait: a condition and an event, written only when the words differ from those that
//! stand on the pod. The condition comes last: it says that the event was written.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    Decision,
    model::{PodId, PodStatus},
};
use serde_json::{Value, json};

use super::{
    About, Applier, Cycle, Event, Level, rfc3339,
    writes::{Chain, Write},
};
use crate::{
    api::{Merge, path},
    config::Flavor,
    mirror::{Key, Mirror},
    translate::Trouble,
    watch::Kind,
};

/// Most pods whose words are only brought up to date in one cycle; the rest follow.
const REFRESH_MAX: usize = 256;

impl Applier {
    /// Tells every waiting pod and group why.
    pub(super) async fn explain(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        troubles: &BTreeMap<Key, Trouble>,
    ) {
        if self.flavor == Flavor::Kai {
            self.explain_groups(mirror, cycle).await;
        }
        let mut reasons = reasons(cycle);
        reasons.extend(troubles.iter().map(|(key, trouble)| (key.clone(), trouble.to_string())));
        reasons.retain(|key, text| differs(mirror, key, text));
        let due = self.due(mirror, &reasons);
        let chains =
            due.iter().filter_map(|key| self.explain_pod(mirror, cycle, key, &reasons[key]));
        let chains = chains.collect();
        self.write(mirror, chains).await;
    }

    /// All pods that were told nothing yet, and a bounded number of those whose words changed:
    /// those after the last one first, so that all get their turn.
    fn due(&mut self, mirror: &Mirror, reasons: &BTreeMap<Key, String>) -> Vec<Key> {
        let told = |key: &&Key| {
            let pod = mirror.pods.get(*key);
            pod.and_then(|pod| pod.told.scheduled.as_ref())
                .is_some_and(|told| &*told.status == "False")
        };
        let (stale, mut due): (Vec<_>, Vec<_>) = reasons.keys().partition(told);
        let after = stale.partition_point(|key| Some(*key) <= self.refreshed.as_ref());
        let in_turn = stale[after..].iter().chain(&stale[..after]);
        due.extend(in_turn.take(REFRESH_MAX));
        if stale.len() > REFRESH_MAX {
            self.outcome.retry = true;
            self.refreshed = due.last().map(|key| Key::clone(key));
        }
        due.into_iter().cloned().collect()
    }

    fn explain_pod(
        &self,
        mirror: &Mirror,
        cycle: &Cycle<'_>,
        key: &Key,
        text: &str,
    ) -> Option<Chain> {
        let pod = mirror.pods.get(key)?;
        let was_false = pod.told.scheduled.as_ref().is_some_and(|told| &*told.status == "False");
        let about = About::pod(key, &pod.uid);
        let event = Event {
            about: &about,
            level: Level::Warning,
            reason: match self.flavor {
                Flavor::Kai => "Unschedulable",
                Flavor::Kube => "FailedScheduling",
            },
            message: text,
            gist: None,
            occasion: &pod.told.version.to_string(),
        };
        let mut condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
        });
        if !was_false {
            condition["lastTransitionTime"] = Value::String(rfc3339(cycle.now));
        }
        let change = json!({ "status": { "conditions": [condition] } });
        let path = format!("{}/status", path("v1", &key.namespace, "pods", &key.name));
        Some(vec![
            Write::event(&event, &self.api.name, cycle.now),
            Write::patch(Kind::Pod, path, Merge::Strategic, change),
        ])
    }
}

fn differs(mirror: &Mirror, key: &Key, text: &str) -> bool {
    mirror.pods.get(key).is_some_and(|pod| {
        let told = pod.told.scheduled.as_ref();
        pod.waits() && told.is_none_or(|told| &*told.status != "False" || *told.message != *text)
    })
}

/// The words for each pod that waits after this cycle.
fn reasons(cycle: &Cycle<'_>) -> BTreeMap<Key, String> {
    let mut placed = BTreeSet::new();
    let mut promised = BTreeMap::new();
    for decision in &cycle.plan.decisions {
        match decision {
            Decision::Bind { pod, .. } => {
                placed.insert(*pod);
            }
            Decision::Pipeline { pod, node } => {
                promised.insert(*pod, *node);
            }
            Decision::Evict { .. } => {}
        }
    }
    let mut reasons = BTreeMap::new();
    for (id, pod) in (0..).map(PodId).zip(&cycle.snapshot.pods) {
        if pod.status != PodStatus::Pending || placed.contains(&id) {
            continue;
        }
        let of_group = pod.group.and_then(|group| cycle.plan.waiting.get(&group));
        let reason = cycle.plan.waiting_pods.get(&id).or(of_group);
        let promise = promised.get(&id).map(|node| {
            let node = &cycle.snapshot.nodes[node.0 as usize].name;
            format!("Waits until pods have left node {node}, where room is promised to it")
        });
        if let Some(text) = reason.map(ToString::to_string).or(promise) {
            reasons.insert(cycle.key(id), text);
        }
    }
    reasons
}
