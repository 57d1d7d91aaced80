//! A plan into API calls: decisions first, in the plan's own order as far as they wait for each
//! other; then what is told of them; then why others wait. Everything can be done again: a
//! scheduler that dies at any line is followed by one that sees what was done, decides the same
//! for the rest, and tells what was left untold.

pub(crate) mod claims;
mod events;
mod evictions;
mod pending;
mod placements;
mod pod_groups;
mod queue_details;
mod requests;
mod untold;
pub(crate) mod volumes;
mod waits;
mod warnings;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::fmt::temporal::DateTimePrinter;
use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{Name, PodGroupId, PodId, Time},
};

use crate::{
    api::Api,
    config::{Binding, Config, Flavor, NodePool},
    mirror::{Key, Mirror, PodRecord},
    pacing::Pacing,
    translate::Translation,
};

pub(crate) use events::{About, Event, Level};
use evictions::Together;
pub(crate) use placements::share;
use waits::Words;

/// What applying left to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Something has to be tried again.
    pub(crate) retry: bool,
    /// Nobody knows whether a write was done: the pods have to be listed anew.
    pub(crate) in_doubt: bool,
    /// Pods are not bound before their volumes are: news of those come.
    pub(crate) held: bool,
    /// The last thing that the server refused.
    pub(crate) failure: Option<String>,
}

/// Writes plans, and remembers what it has told so as not to repeat it.
pub(crate) struct Applier {
    api: Api,
    flavor: Flavor,
    binding: Binding,
    node_pool: Option<NodePool>,
    /// What conditions and events call our node pool.
    pool: String,
    /// Seconds that evicted pods have at least.
    grace_secs: Option<i64>,
    pacing: Pacing,
    /// Pods may stand bound without having been told: we have just begun, or lost an answer.
    untold: bool,
    /// How long each binding took, since somebody last asked.
    binding_times: Vec<Duration>,
    /// Pods bound in this cycle.
    bound: BTreeSet<Key>,
    /// Why the server bound others not.
    refused: BTreeMap<Key, String>,
    /// What pods are told that are not bound before their volumes are.
    unbound: BTreeMap<Key, String>,
    /// Promises told, by pod: the name of the event.
    promised: BTreeMap<Key, String>,
    /// Warnings told, by the names of their events.
    warned: BTreeSet<String>,
    /// Pods that have no group yet, and how long they are not told so.
    new: BTreeMap<Key, Duration>,
    /// Why groups waited.
    words: Words,
    /// The last pod whose reason was told anew.
    refreshed: Option<Key>,
    outcome: Outcome,
}

/// One cycle, as everything that is applied sees it.
pub(crate) struct Cycle<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) plan: &'a Plan,
    pub(crate) now: Time,
}

impl Cycle<'_> {
    fn group(&self, pod: PodId) -> Option<PodGroupId> {
        self.snapshot.pods[pod.0 as usize].group
    }

    fn key(&self, pod: PodId) -> Key {
        let pod = &self.snapshot.pods[pod.0 as usize];
        Key { namespace: Name::clone(&pod.namespace), name: Name::clone(&pod.name) }
    }
}

impl Applier {
    pub(crate) fn new(api: Api, config: &Config) -> Self {
        let (bound, refused, unbound, promised) = Default::default();
        let (warned, new, words, refreshed, outcome) = Default::default();
        let (flavor, pacing) = (config.flavor, Pacing::up_to(config.writes_at_once));
        let (untold, binding_times) = (true, Vec::new());
        let grace = config.eviction_grace.map(|grace| grace.as_secs_f64().ceil());
        #[expect(clippy::cast_possible_truncation, reason = "saturates, as is meant")]
        let grace_secs = grace.map(|grace| grace as i64);
        let (binding, node_pool) = (config.binding, config.node_pool.clone());
        let pool = NodePool::name(node_pool.as_ref()).to_owned();
        Self {
            api,
            flavor,
            binding,
            node_pool,
            pool,
            grace_secs,
            pacing,
            untold,
            binding_times,
            bound,
            refused,
            unbound,
            promised,
            warned,
            new,
            words,
            refreshed,
            outcome,
        }
    }

    /// Applies a plan, and keeps the mirror up with what was written.
    pub(crate) async fn apply(
        &mut self,
        mirror: &mut Mirror,
        translation: &Translation,
        plan: &Plan,
    ) -> Outcome {
        self.outcome = Outcome::default();
        let snapshot = &translation.snapshot;
        let cycle = Cycle { snapshot, plan, now: snapshot.now };
        self.promised.retain(|key, _| mirror.pods.get(key).is_some_and(PodRecord::waits));
        self.catch_up(mirror, &cycle).await;
        self.clear_requests(mirror).await;
        self.warn(mirror, cycle.now).await;
        self.mark_stale(mirror, &cycle).await;
        self.decide(mirror, &cycle).await;
        self.explain(mirror, &cycle, &translation.troubles).await;
        self.untold |= self.outcome.in_doubt;
        std::mem::take(&mut self.outcome)
    }

    /// How long each binding took, since this was last asked.
    pub(crate) fn take_binding_times(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.binding_times)
    }

    async fn decide(&mut self, mirror: &mut Mirror, cycle: &Cycle<'_>) {
        self.unbound.clear();
        let mut blocked = self.allocate_claims(mirror, cycle).await;
        blocked.extend(self.bind_volumes(mirror, cycle, &blocked).await);
        let (mut losing, together) = (BTreeSet::new(), Together::of(cycle));
        let mut chains = Vec::new();
        for decision in &cycle.plan.decisions {
            chains.extend(match decision {
                Decision::Bind { pod, .. } if blocked.contains(&cycle.group(*pod)) => None,
                Decision::Bind { pod, node } => Some(match self.binding {
                    Binding::Direct => self.bind(mirror, cycle, (*pod, *node)),
                    Binding::Requests => self.request(cycle, *pod, *node),
                }),
                Decision::Evict { pod, cause } => {
                    // Its group is marked before the first of it is asked to leave.
                    let group = cycle.group(*pod).filter(|group| losing.insert(*group));
                    let group = group.map(|group| &cycle.snapshot.pod_groups[group.0 as usize]);
                    let mark = group.and_then(|group| self.mark_eviction(group, cycle.now));
                    let evict = self.evict(mirror, cycle, (*pod, cause), &together);
                    Some(mark.into_iter().chain(evict).collect())
                }
                Decision::Pipeline { pod, node } => self.promise(mirror, cycle, *pod, *node),
            });
        }
        self.bound.clear();
        self.refused.clear();
        self.write(mirror, chains).await;
        self.tell_bound(mirror, cycle).await;
    }
}

/// As Kubernetes writes times: whole seconds.
const SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));

/// A moment as Kubernetes writes it.
pub(crate) fn rfc3339(at: Time) -> String {
    let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    SECONDS.timestamp_to_string(&at)
}

#[cfg(test)]
mod tests;
