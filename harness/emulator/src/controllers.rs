//! The controllers of a cluster: kubelets, node lifecycle, garbage collection and workloads.
//!
//! Each controller is a pure function of the cache and the time: [`Controller::reconcile`] gets the
//! key of an object and returns writes and a requeue time. [`Controller::keys_to_reconcile`] maps a
//! change to the keys to reconcile. Controllers keep no state between calls, so they can be stopped
//! at any time and continue from the objects. They do not know what fills the [`InformerCache`] and
//! applies the writes: `controller_manager`, or [`crate::remote_controllers`] on a real cluster.
//!
//! Left out: `CronJobs`, `DaemonSets`, volume provisioning and services.

mod cache;
mod fields;
mod reconcile_result;
mod resources;

mod device_driver;
mod kubelet;
mod node;
mod node_lifecycle;
mod taint_eviction;

mod garbage;
mod namespace_defaults;
mod namespaces;
mod pod_gc;

mod adoption;
mod deployment;
mod disruption;
mod job;
mod job_set;
mod pytorch_job;
mod quota;
mod replica_set;
mod resource_claim;
mod stateful_set;
mod train_job;
mod volume;
mod workload;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;

use crate::error::ApiError;
use crate::store::{Key, Resource};

pub use crate::kubelet_timing::parse_duration;
pub(crate) use crate::kubelet_timing::{EXIT_CODE, RUN_TIME, STARTUP, TERMINATION};
pub use cache::{
    InformerCache, ObjectChange, OwnerReference, OwnerScope, controller_of, key_of, owners,
};
pub(crate) use device_driver::PUBLISHED;
pub use kubelet::NODE_DOWN;
pub(crate) use namespace_defaults::missing_in_store as namespace_defaults;
pub use reconcile_result::{ApiRequest, ReconcileResult};

/// A controller.
#[derive(Debug)]
pub struct Controller {
    /// The name in events and configuration.
    pub name: &'static str,
    /// The field manager of its writes.
    pub manager: &'static str,
    /// The kinds whose changes it handles.
    pub watches: WatchedKinds,
    /// Maps a change of a watched kind to the keys to reconcile.
    pub keys_to_reconcile: fn(&ObjectChange, &InformerCache) -> Vec<Key>,
    /// Reconciles one object.
    pub reconcile: fn(&Key, &Context) -> ReconcileResult,
}

/// The kinds that a controller watches.
#[derive(Debug)]
pub enum WatchedKinds {
    /// All kinds, including custom ones.
    All,
    /// These kinds.
    Kinds(&'static [&'static LazyLock<Resource>]),
}

impl WatchedKinds {
    /// The listed kinds; empty for `All`.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Resource> {
        let kinds = match self {
            Self::All => &[][..],
            Self::Kinds(kinds) => kinds,
        };
        kinds.iter().map(|kind| &***kind)
    }

    fn contains(&self, resource: &Resource) -> bool {
        match self {
            Self::All => true,
            Self::Kinds(kinds) => kinds.iter().any(|kind| ***kind == *resource),
        }
    }
}

/// The controllers that watch a kind, as indexes into [`CONTROLLERS`].
pub(crate) fn controllers_watching(resource: &Resource) -> Vec<usize> {
    let named = CONTROLLERS.iter().enumerate();
    named
        .filter(|(_, controller)| controller.watches.contains(resource))
        .map(|(at, _)| at)
        .collect()
}

/// The input of a reconciliation.
#[derive(Debug)]
pub struct Context<'a> {
    /// The state of the cluster.
    pub cache: &'a InformerCache,
    /// The current time.
    pub now: Timestamp,
    /// The timing of pods without annotations.
    pub kubelet_defaults: &'a KubeletDefaults,
}

/// The timing of pods if neither their annotations nor those of their node define it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletDefaults {
    /// The time from binding to running.
    pub startup: Duration,
    /// The time from running to exit; `None` runs forever.
    pub run_time: Option<Duration>,
    /// The time from the deletion until the containers have ended, at most the grace period.
    pub termination: Duration,
}

impl Default for KubeletDefaults {
    fn default() -> Self {
        Self { startup: Duration::ZERO, run_time: None, termination: Duration::from_secs(1) }
    }
}

/// The event and status that report a refused write on the reconciled object. Generated names do
/// not count as differences, so that retries yield one event.
pub(crate) fn report_refusal(
    controller: &Controller,
    key: &Key,
    refusal: &WriteRefusal,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let Some(object) = ctx.cache.get(key) else { return Vec::new() };
    let makes_sets = refusal.is_create && controller.name == deployment::CONTROLLER.name;
    let (reason, message) = match (makes_sets, refusal.is_create) {
        (true, _) => ("ReplicaSetCreateError", deployment::creation_failure(refusal)),
        (false, true) => ("FailedCreate", format!("Error creating: {}", refusal.error)),
        (false, false) => ("FailedUpdate", format!("Error writing: {}", refusal.error)),
    };
    let notice = reconcile_result::EventSpec {
        component: controller.name,
        kind: "Warning",
        reason,
        message,
    };
    let gist = refusal.error.message.replace(&*refusal.name, "*");
    let status = if makes_sets {
        deployment::failure_status(key, refusal, ctx)
    } else if key.resource == *resources::REPLICA_SETS
        && controller.name == replica_set::CONTROLLER.name
    {
        replica_set::failure_status(key, refusal, ctx)
    } else {
        None
    };
    [notice.record_as(&gist, object, ctx)].into_iter().chain(status).collect()
}

/// A write that the API refused.
#[derive(Debug)]
pub(crate) struct WriteRefusal {
    /// The name of the object in the write.
    pub(crate) name: Arc<str>,
    /// The write was to create the object.
    pub(crate) is_create: bool,
    /// The error of the API.
    pub(crate) error: ApiError,
}

/// Replaces the kubelet on real clusters whose nodes are simulated by kwok: adds what kwok lacks.
pub static KWOK_COMPANION: &Controller = &kubelet::kwok_companion::CONTROLLER;

/// All controllers, in the order in which they run when several have work.
pub static CONTROLLERS: &[Controller] = &[
    node::CONTROLLER,
    node_lifecycle::CONTROLLER,
    kubelet::CONTROLLER,
    device_driver::CONTROLLER,
    resource_claim::CONTROLLER,
    taint_eviction::CONTROLLER,
    pod_gc::CONTROLLER,
    garbage::CONTROLLER,
    namespaces::CONTROLLER,
    namespace_defaults::CONTROLLER,
    replica_set::CONTROLLER,
    deployment::CONTROLLER,
    stateful_set::CONTROLLER,
    job::CONTROLLER,
    job_set::CONTROLLER,
    train_job::CONTROLLER,
    pytorch_job::CONTROLLER,
    disruption::CONTROLLER,
    quota::CONTROLLER,
    volume::CONTROLLER,
];

#[cfg(test)]
mod tests;
