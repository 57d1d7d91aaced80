//! A plan into API calls, in the plan's own order. Each write either is the decision or leads
//! up to it, and everything can be done again: a scheduler that dies at any line is followed by
//! one that sees what was done, decides the same for the rest, and finds its events written.
//!
//! Binding is direct: no BindRequest is written.

mod events;
mod evictions;
mod pending;
mod placements;
mod pod_groups;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{Name, PodGroupId, PodId, PodStatus, Time},
};
use serde_json::Value;

use crate::{
    api::{Api, ApiError},
    config::Flavor,
    mirror::{Key, Mirror, PodRecord},
    translate::Translation,
};

pub(crate) use events::{About, Event, Level};

/// What applying left to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Something has to be tried again.
    pub(crate) retry: bool,
    /// Nobody knows whether a write was done: the pods have to be listed anew.
    pub(crate) in_doubt: bool,
    /// The last thing that the server refused.
    pub(crate) failure: Option<String>,
}

/// Writes plans, and remembers what it has told so as not to repeat it.
pub(crate) struct Applier {
    api: Api,
    flavor: Flavor,
    /// Promises told, by pod: the name of the event.
    promised: BTreeMap<Key, String>,
    /// Warnings told, by the names of their events.
    warned: BTreeSet<String>,
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
    pub(crate) fn new(api: Api, flavor: Flavor) -> Self {
        let (promised, warned, refreshed, outcome) = Default::default();
        Self { api, flavor, promised, warned, refreshed, outcome }
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
        self.warn(mirror, cycle.now).await;
        self.mark_stale(mirror, &cycle).await;
        self.decide(mirror, &cycle).await;
        self.explain(mirror, &cycle, &translation.troubles).await;
        std::mem::take(&mut self.outcome)
    }

    async fn decide(&mut self, mirror: &mut Mirror, cycle: &Cycle<'_>) {
        let pods = &cycle.snapshot.pods;
        let is_active = |status| matches!(status, PodStatus::Bound | PodStatus::Running);
        let mut active: BTreeSet<PodGroupId> =
            pods.iter().filter(|pod| is_active(pod.status)).filter_map(|pod| pod.group).collect();
        let mut losing = BTreeSet::new();
        for decision in &cycle.plan.decisions {
            if self.outcome.in_doubt {
                return;
            }
            match decision {
                Decision::Bind { pod, node } => {
                    let group = cycle.group(*pod).filter(|group| active.insert(*group));
                    self.mark_start(mirror, cycle, group).await;
                    self.bind(mirror, cycle, *pod, *node).await;
                }
                Decision::Evict { pod, cause } => {
                    let group = cycle.group(*pod).filter(|group| losing.insert(*group));
                    self.mark_eviction(mirror, cycle, group).await;
                    self.evict(mirror, cycle, *pod, cause).await;
                }
                Decision::Pipeline { pod, node } => {
                    self.promise(mirror, cycle, *pod, *node).await;
                }
            }
        }
    }

    /// The answer of a write that was done; what else happened is remembered.
    fn done(&mut self, answer: Result<Value, ApiError>) -> Option<Value> {
        let error = match answer {
            Ok(object) => return Some(object),
            Err(error) => error,
        };
        self.outcome.retry = true;
        match error {
            // It changed under our hands; the watch tells, and the next cycle decides.
            ApiError::NotFound(_) | ApiError::Conflict(_) | ApiError::Gone(_) => {}
            ApiError::Refused(message) => self.outcome.failure = Some(message),
            ApiError::Unknown(error) => {
                self.outcome.in_doubt = true;
                self.outcome.failure = Some(error.to_string());
            }
        }
        None
    }

    /// Writes an event. That it is there already, or cannot be written, changes nothing.
    async fn tell(&mut self, event: &Event<'_>, now: Time) {
        let (path, body) = event.request(&self.api.name, now);
        if let Err(ApiError::Unknown(error)) = self.api.create(&path, &body).await {
            self.outcome.retry = true;
            self.outcome.in_doubt = true;
            self.outcome.failure = Some(error.to_string());
        }
    }
}

/// A moment as Kubernetes writes it: whole seconds.
pub(crate) fn rfc3339(at: Time) -> String {
    let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
