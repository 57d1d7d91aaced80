//! Why pods wait: a condition and an event, written only when the words differ from those that
//! stand on the pod. The condition comes last: it says that the event was written.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use schedlab_json::json;
use schedlab_scheduler_core::{
    Decision,
    model::{PodGroupId, PodId, PodStatus, Time},
};

use super::{
    About, Applier, Cycle, Event, Level, rfc3339,
    waits::Waits,
    writes::{Chain, Write},
};
use crate::{
    api::{Merge, path},
    config::Flavor,
    mirror::{Key, Mirror},
    translate::Trouble,
    watch::Kind,
};

/// So long a new pod is told nothing of having no group: a grouper in another process, which may
/// just be taking over, gives it one.
const GROUPING_MILLIS: i64 = 10_000;

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
        let words = self.words.of(cycle);
        if self.flavor == Flavor::Kai {
            self.explain_groups(mirror, cycle, &words).await;
        }
        let mut reasons = reasons(mirror, cycle, &words);
        let unbound = self.unbound.iter().filter(|(key, text)| differs(mirror, key, text));
        reasons.extend(unbound.map(|(key, text)| (key.clone(), text.clone())));
        self.note_new(mirror, cycle.now, troubles);
        let troubles = troubles.iter().filter(|(key, _)| !self.new.contains_key(*key));
        let troubles = troubles.map(|(key, trouble)| (key, trouble.to_string()));
        let untold = troubles.filter(|(key, text)| differs(mirror, key, text));
        reasons.extend(untold.map(|(key, text)| (key.clone(), text)));
        let due = self.due(mirror, &reasons);
        let chains =
            due.iter().filter_map(|key| self.explain_pod(mirror, cycle, key, &reasons[key]));
        let chains = chains.collect();
        self.write(mirror, chains).await;
    }

    /// Pods without a group that are too new to be told so, and for how long they are.
    fn note_new(&mut self, mirror: &Mirror, now: Time, troubles: &BTreeMap<Key, Trouble>) {
        let ungrouped = troubles.iter().filter(|(_, trouble)| **trouble == Trouble::NoGroup);
        let remaining = ungrouped.filter_map(|(key, _)| {
            let age = now.0.saturating_sub(mirror.pods.get(key)?.created.0);
            let millis = u64::try_from(GROUPING_MILLIS.saturating_sub(age)).ok()?;
            (millis > 0).then(|| (key.clone(), Duration::from_millis(millis)))
        });
        self.new = remaining.collect();
    }

    /// How long until a pod is told that it has no group, if none comes.
    pub(crate) fn look_again_after(&self) -> Option<Duration> {
        self.new.values().min().copied()
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
            condition["lastTransitionTime"] = rfc3339(cycle.now).into();
        }
        let mut change = json!({ "status": { "conditions": [condition] } });
        // The status of a pod takes annotations along: the mark of its group needs no write of
        // its own.
        if self.flavor == Flavor::Kai
            && let Some(group) = pod.group.as_ref().filter(|_| pod.lacks_mark())
        {
            change["metadata"] = json!({ "annotations": { "pod-group-name": &**group } });
        }
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

/// Unless the group of the pod wants its pods unmarked.
fn is_marked(mirror: &Mirror, key: &Key) -> bool {
    let group = mirror.pods.get(key).and_then(|pod| pod.group.as_ref());
    let group = group.map(|name| Key { namespace: key.namespace.clone(), name: name.clone() });
    group.and_then(|key| mirror.groups.get(&key)).is_none_or(|group| group.marks_pods)
}

/// The words for each pod that waits after this cycle, where others stand on it.
pub(super) fn reasons(
    mirror: &Mirror,
    cycle: &Cycle<'_>,
    words: &BTreeMap<PodGroupId, Arc<Waits>>,
) -> BTreeMap<Key, String> {
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
        let own = cycle.plan.waiting_pods.get(&id).map(|reason| Cow::Owned(reason.to_string()));
        let of_group = || Some(Cow::Borrowed(words.get(&pod.group?)?.reason.as_str()));
        let promise = || {
            let node = &cycle.snapshot.nodes[promised.get(&id)?.0 as usize].name;
            let words = "Waits until pods have left node";
            Some(Cow::Owned(format!("{words} {node}, where room is promised to it")))
        };
        let Some(text) = own.or_else(of_group).or_else(promise) else { continue };
        let key = cycle.key(id);
        if differs(mirror, &key, &text) && is_marked(mirror, &key) {
            reasons.insert(key, text.into_owned());
        }
    }
    reasons
}
