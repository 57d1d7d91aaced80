//! What a scheduler that died between a binding and its news left untold: the event, and when
//! the pod's group started. The next one tells it, once, before it decides anything.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::model::{Name, Time};

use super::{About, Applier, Cycle, placements::scheduled, pod_groups, writes::Chain};
use crate::{
    api::ApiError,
    config::Flavor,
    mirror::{Key, Mirror, PodRecord},
    parse::{list, text},
};

/// Events live for an hour: what was bound earlier is told no more.
const NEWS_MILLIS: i64 = 3_600_000;

/// A group that lost all pods and started anew within this time of its last start is not told
/// apart from one that did not.
const START_MILLIS: i64 = 60_000;

const EVENTS: &str = "/api/v1/events?fieldSelector=reason%3DScheduled";

/// A pod that has got a node, of which no event tells.
struct Untold {
    pod: Key,
    uid: Name,
    node: Name,
}

impl Applier {
    pub(super) async fn catch_up(&mut self, mirror: &mut Mirror, cycle: &Cycle<'_>) {
        if !self.untold {
            return;
        }
        let untold = match self.untold_pods(mirror, cycle.now).await {
            Ok(untold) => untold,
            // Who may not read events cannot know which are missing.
            Err(ApiError::Refused(message)) => {
                self.outcome.failure = Some(message);
                Vec::new()
            }
            Err(error) => return self.failed(error),
        };
        // As when it is told at once: a start before the event of who started.
        self.write(mirror, self.untold_starts(mirror, cycle, &untold)).await;
        let events = untold
            .iter()
            .map(|Untold { pod, uid, node }| vec![self.scheduled((pod, uid), node, cycle.now)]);
        self.write(mirror, events.collect()).await;
        self.untold = false;
    }

    async fn untold_pods(&self, mirror: &Mirror, now: Time) -> Result<Vec<Untold>, ApiError> {
        let is_news = |pod: &PodRecord| {
            let is_new = pod.told.bound_at.is_some_and(|at| at.0 > now.0 - NEWS_MILLIS);
            pod.ours && (pod.is_requested() || is_new)
        };
        let news = mirror.pods.iter().filter(|(_, pod)| is_news(pod));
        let news: Vec<(&Key, &PodRecord, &Name)> =
            news.filter_map(|(key, pod)| Some((key, pod, pod.node.as_ref()?))).collect();
        if news.is_empty() {
            return Ok(Vec::new());
        }
        let events = self.api.get(EVENTS).await?;
        let names = list(&events, "/items").iter();
        let told: BTreeSet<&str> =
            names.filter_map(|event| text(event, "/metadata/name")).collect();
        let is_untold = |(key, pod, node): &(&Key, &PodRecord, &Name)| {
            let (about, message) = (About::pod(key, &pod.uid), self.scheduled_message(key, node));
            !told.contains(&*scheduled(&about, &message).name())
        };
        let untold = news.into_iter().filter(is_untold);
        let untold = untold.map(|(key, pod, node)| Untold {
            pod: key.clone(),
            uid: Name::clone(&pod.uid),
            node: Name::clone(node),
        });
        Ok(untold.collect())
    }

    /// Groups of which nothing tells that they started, or whose first pods were bound long after
    /// their last start that was told, and nothing tells of these: others lost an older pod.
    fn untold_starts(&self, mirror: &Mirror, cycle: &Cycle<'_>, untold: &[Untold]) -> Vec<Chain> {
        if self.flavor == Flavor::Kube {
            return Vec::new();
        }
        let untold: BTreeSet<&Key> = untold.iter().map(|untold| &untold.pod).collect();
        let mut first: BTreeMap<Key, (Time, &Key)> = BTreeMap::new();
        for (key, pod) in mirror.pods.iter().filter(|(_, pod)| pod.ours && !pod.is_finished()) {
            let at = pod.told.bound_at.or_else(|| pod.is_requested().then_some(cycle.now));
            if let (Some(group), Some(at)) = (&pod.group, at) {
                let namespace = Name::clone(&key.namespace);
                let group = Key { namespace, name: Name::clone(group) };
                let since = first.entry(group).or_insert((at, key));
                *since = (at, key).min(*since);
            }
        }
        let groups = cycle.snapshot.pod_groups.iter();
        let started = groups.filter_map(|group| {
            let (at, pod) = *first.get(&pod_groups::key(group))?;
            let is_told = group
                .last_start
                .is_some_and(|told| at.0 < told.0 + START_MILLIS || !untold.contains(pod));
            if is_told { None } else { self.mark_start(group, at) }
        });
        started.collect()
    }
}
