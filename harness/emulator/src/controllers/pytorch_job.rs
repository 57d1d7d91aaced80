//! The PyTorchJob controller: creates the pods of a master and its workers. A terminating pod
//! counts neither as running nor as failed, and is recreated when it is gone.
//!
//! Left out: services, elastic policies, the `nprocPerNode` launcher.

mod pods;
mod status;

use super::workload::{is_active, is_managed_elsewhere, owner_keys};
use crate::reconcile::fields::{
    Condition, flag_at, format_time, set_condition, time_after_secs, time_at,
};
use crate::reconcile::resources::{PODS, PYTORCH_JOBS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{condition, is_deleting, number, set, text, uid},
};

const COMPONENT: &str = "pytorchjob-controller";
const MANAGED_BY: &str = "kubeflow.org/training-operator";

/// The PyTorchJob controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: COMPONENT,
    watches: WatchedKinds::Kinds(&[&PYTORCH_JOBS, &PODS]),
    keys_to_reconcile: |change: &ObjectChange, cache: &InformerCache| {
        owner_keys(change, cache, &PYTORCH_JOBS, &PODS)
    },
    reconcile,
};

/// A PyTorchJob and its pods.
struct PyTorchJobState<'v> {
    key: &'v Key,
    object: &'v Object,
    pods: Vec<(&'v Key, &'v Object)>,
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, job)) = ctx.cache.entry(key) else { return ReconcileResult::nothing_to_do() };
    let is_elsewhere = is_managed_elsewhere(job, &["spec", "runPolicy", "managedBy"], MANAGED_BY);
    if is_deleting(job) || is_elsewhere {
        return ReconcileResult::nothing_to_do();
    }
    let job = PyTorchJobState {
        key,
        object: job,
        pods: ctx.cache.controlled_by(uid(job), &PODS).collect(),
    };
    if status::has_job_finished(job.object) {
        return clean_up_finished_job(&job, ctx);
    }
    if flag_at(job.object, &["spec", "runPolicy", "suspend"]) {
        return suspend_job(&job, ctx);
    }
    let started = time_at(job.object, &["status", "startTime"]);
    let Some(started) = started.filter(|_| condition(job.object, "Suspended") != Some("True"))
    else {
        return ReconcileResult::from_writes(start_job(&job, ctx));
    };
    let limit = number(job.object, &["spec", "runPolicy", "activeDeadlineSeconds"]);
    let deadline = limit.map(|secs| time_after_secs(started, secs));
    if let Some(outcome) = status::decided_outcome(&job, deadline.is_some_and(|at| at <= ctx.now)) {
        return finish_job(&job, &outcome, ctx);
    }
    let writes = pods::sync_pods(&job, ctx);
    let step = if writes.is_empty() {
        ReconcileResult::from_writes(status::sync_status(&job, ctx))
    } else {
        ReconcileResult::from_writes(writes)
    };
    step.requeue_by(deadline)
}

fn start_job(job: &PyTorchJobState, ctx: &Context) -> Option<ApiRequest> {
    let mut started = Value::clone(job.object);
    set(&mut started, &["status", "startTime"], json!(format_time(ctx.now)));
    let created = Condition {
        kind: "Created",
        status: "True",
        reason: "PyTorchJobCreated",
        message: "PyTorchJob is created.",
    };
    set_condition(&mut started, &created, ctx.now);
    if condition(job.object, "Suspended") == Some("True") {
        let resumed = Condition {
            kind: "Suspended",
            status: "False",
            reason: "PyTorchJobResumed",
            message: "PyTorchJob is resumed.",
        };
        set_condition(&mut started, &resumed, ctx.now);
    }
    ApiRequest::status_update(job.key, job.object, started)
}

fn suspend_job(job: &PyTorchJobState, ctx: &Context) -> ReconcileResult {
    let active = job.pods.iter().filter(|(_, pod)| is_active(pod));
    let stopped: Vec<ApiRequest> = active.map(|(key, pod)| ApiRequest::delete(key, pod)).collect();
    if !stopped.is_empty() {
        return ReconcileResult::from_writes(stopped);
    }
    let mut seen = Value::clone(job.object);
    let suspended = Condition {
        kind: "Suspended",
        status: "True",
        reason: "PyTorchJobSuspended",
        message: "PyTorchJob is suspended.",
    };
    if condition(job.object, "Running") == Some("True") {
        set_condition(
            &mut seen,
            &Condition { kind: "Running", status: "False", ..suspended },
            ctx.now,
        );
        status::write_replica_counts(job, &mut seen);
    }
    set_condition(&mut seen, &suspended, ctx.now);
    schedlab_api::object::remove(&mut seen, &["status", "startTime"]);
    ReconcileResult::from_writes(ApiRequest::status_update(job.key, job.object, seen))
}

fn finish_job(
    job: &PyTorchJobState,
    outcome: &status::PyTorchJobOutcome,
    ctx: &Context,
) -> ReconcileResult {
    let mut ended = Value::clone(job.object);
    status::write_replica_counts(job, &mut ended);
    if outcome.kind == "Succeeded" {
        status::count_all_as_succeeded(&mut ended);
    }
    let running = Condition {
        kind: "Running",
        status: "False",
        reason: outcome.reason,
        message: &outcome.message,
    };
    set_condition(&mut ended, &running, ctx.now);
    set_condition(
        &mut ended,
        &Condition { kind: outcome.kind, status: "True", ..running },
        ctx.now,
    );
    set(&mut ended, &["status", "completionTime"], json!(format_time(ctx.now)));
    let event = if outcome.kind == "Failed" { "Warning" } else { "Normal" };
    let notice = EventSpec {
        component: COMPONENT,
        kind: event,
        reason: outcome.reason,
        message: outcome.message.clone(),
    };
    let written = ApiRequest::status_update(job.key, job.object, ended);
    ReconcileResult::from_writes(written.into_iter().chain([notice.record(job.object, ctx)]))
}

/// Deletes the pods of a finished job by its `cleanPodPolicy`, and the job after its TTL.
fn clean_up_finished_job(job: &PyTorchJobState, ctx: &Context) -> ReconcileResult {
    let policy = text(job.object, &["spec", "runPolicy", "cleanPodPolicy"]);
    let goes = |pod: &Value| match policy {
        "All" => !is_deleting(pod),
        "Running" => is_active(pod),
        _ => false,
    };
    let gone: Vec<ApiRequest> = job
        .pods
        .iter()
        .filter(|(_, pod)| goes(pod))
        .map(|(key, pod)| ApiRequest::delete(key, pod))
        .collect();
    if !gone.is_empty() {
        return ReconcileResult::from_writes(gone);
    }
    let Some(secs) = number(job.object, &["spec", "runPolicy", "ttlSecondsAfterFinished"]) else {
        return ReconcileResult::nothing_to_do();
    };
    let ended = time_at(job.object, &["status", "completionTime"]).unwrap_or(ctx.now);
    let due = time_after_secs(ended, secs);
    if ctx.now < due {
        return ReconcileResult::requeue_at(due);
    }
    ReconcileResult::from_writes([ApiRequest::delete(job.key, job.object)])
}
