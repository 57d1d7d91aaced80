//! The controllers of a cluster: kubelets, node lifecycle, garbage collection and workloads.
//!
//! `controller_manager` runs them, or [`remote_controllers`] on a real cluster.
//!
//! Left out: `CronJobs`, `DaemonSets`, volume provisioning and services.

pub(crate) mod controller_manager;
pub mod remote_controllers;

mod device_taint_eviction;
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
mod leader_worker_set;
mod pod_group_protection;
mod pytorch_job;
mod quota;
mod ray_cluster;
mod ray_job;
mod replica_set;
mod resource_claim;
mod stateful_set;
mod train_job;
mod volume;
mod workload;

use std::sync::Arc;

use crate::api_types::error::ApiError;
use crate::store::{Key, Resource};

use crate::reconcile::{ApiRequest, Context, Controller};
pub(crate) use namespace_defaults::missing_in_store as namespace_defaults;

/// The controllers that watch a kind, as indexes into [`CONTROLLERS`].
pub(crate) fn controllers_watching(resource: &Resource) -> Vec<usize> {
    let named = CONTROLLERS.iter().enumerate();
    named
        .filter(|(_, controller)| controller.watches.contains(resource))
        .map(|(at, _)| at)
        .collect()
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
    let notice = crate::reconcile::result::EventSpec {
        component: controller.name,
        kind: "Warning",
        reason,
        message,
    };
    let gist = refusal.error.message.replace(&*refusal.name, "*");
    let status = if makes_sets {
        deployment::failure_status(key, refusal, ctx)
    } else if key.resource == *crate::reconcile::resources::REPLICA_SETS
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
pub static KWOK_COMPANION: &Controller = &crate::kubelet::kwok_companion::CONTROLLER;

/// All controllers, in the order in which they run when several have work.
pub static CONTROLLERS: &[Controller] = &[
    crate::kubelet::node::CONTROLLER,
    node_lifecycle::CONTROLLER,
    crate::kubelet::CONTROLLER,
    crate::kubelet::device_driver::CONTROLLER,
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
    ray_cluster::CONTROLLER,
    ray_job::CONTROLLER,
    leader_worker_set::CONTROLLER,
    disruption::CONTROLLER,
    quota::CONTROLLER,
    volume::CONTROLLER,
    pod_group_protection::CONTROLLER,
    device_taint_eviction::CONTROLLER,
];

#[cfg(test)]
mod tests;
