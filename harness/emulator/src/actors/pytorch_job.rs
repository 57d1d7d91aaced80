//! PyTorchJobs: one master and its workers, pods of their own.
//!
//! Left out: services, elastic policies, the `nprocPerNode` launcher. A pod that is being deleted
//! counts neither as running nor as failed; it is made anew when it is gone.

mod pods;
mod status;

use super::fields::{Condition, after_secs, flag, set_condition, stamp, time};
use super::kinds::{PODS, PYTORCH_JOBS};
use super::step::Notice;
use super::workload::{concern, is_active, is_managed_elsewhere};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{condition, is_deleting, number, set, text, uid};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

const COMPONENT: &str = "pytorchjob-controller";
const MANAGER: &str = "kubeflow.org/training-operator";

/// The PyTorchJob controller.
pub(super) const ACTOR: Actor = Actor {
    name: COMPONENT,
    manager: COMPONENT,
    watches: Watched::Kinds(&[&PYTORCH_JOBS, &PODS]),
    concerns: |change: &Change, view: &View| concern(change, view, &PYTORCH_JOBS, &PODS),
    step,
};

/// A job and its pods.
struct Job<'v> {
    key: &'v Key,
    object: &'v Object,
    pods: Vec<(&'v Key, &'v Object)>,
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some((key, job)) = ctx.view.entry(key) else { return Step::rest() };
    let is_elsewhere = is_managed_elsewhere(job, &["spec", "runPolicy", "managedBy"], MANAGER);
    if is_deleting(job) || is_elsewhere {
        return Step::rest();
    }
    let job = Job { key, object: job, pods: ctx.view.controlled(uid(job), &PODS).collect() };
    if status::is_done(job.object) {
        return clean(&job, ctx);
    }
    if flag(job.object, &["spec", "runPolicy", "suspend"]) {
        return suspend(&job, ctx);
    }
    let started = time(job.object, &["status", "startTime"]);
    let Some(started) = started.filter(|_| condition(job.object, "Suspended") != Some("True"))
    else {
        return Step::of(start(&job, ctx));
    };
    let limit = number(job.object, &["spec", "runPolicy", "activeDeadlineSeconds"]);
    let deadline = limit.map(|secs| after_secs(started, secs));
    if let Some(verdict) = status::verdict(&job, deadline.is_some_and(|at| at <= ctx.now)) {
        return end(&job, &verdict, ctx);
    }
    let writes = pods::keep(&job, ctx);
    let step =
        if writes.is_empty() { Step::of(status::observe(&job, ctx)) } else { Step::of(writes) };
    step.by(deadline)
}

fn start(job: &Job, ctx: &Context) -> Option<Request> {
    let mut started = Value::clone(job.object);
    set(&mut started, &["status", "startTime"], json!(stamp(ctx.now)));
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
    Request::status(job.key, job.object, started)
}

fn suspend(job: &Job, ctx: &Context) -> Step {
    let active = job.pods.iter().filter(|(_, pod)| is_active(pod));
    let stopped: Vec<Request> = active.map(|(key, pod)| Request::delete(key, pod)).collect();
    if !stopped.is_empty() {
        return Step::of(stopped);
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
        status::count(job, &mut seen);
    }
    set_condition(&mut seen, &suspended, ctx.now);
    crate::object::remove(&mut seen, &["status", "startTime"]);
    Step::of(Request::status(job.key, job.object, seen))
}

fn end(job: &Job, verdict: &status::Verdict, ctx: &Context) -> Step {
    let mut ended = Value::clone(job.object);
    status::count(job, &mut ended);
    if verdict.kind == "Succeeded" {
        status::count_all_as_succeeded(&mut ended);
    }
    let running = Condition {
        kind: "Running",
        status: "False",
        reason: verdict.reason,
        message: &verdict.message,
    };
    set_condition(&mut ended, &running, ctx.now);
    set_condition(
        &mut ended,
        &Condition { kind: verdict.kind, status: "True", ..running },
        ctx.now,
    );
    set(&mut ended, &["status", "completionTime"], json!(stamp(ctx.now)));
    let event = if verdict.kind == "Failed" { "Warning" } else { "Normal" };
    let notice = Notice {
        component: COMPONENT,
        kind: event,
        reason: verdict.reason,
        message: verdict.message.clone(),
    };
    let written = Request::status(job.key, job.object, ended);
    Step::of(written.into_iter().chain([notice.about(job.object, ctx)]))
}

/// After the end: pods go as the clean-up policy says, the job when its time is over.
fn clean(job: &Job, ctx: &Context) -> Step {
    let policy = text(job.object, &["spec", "runPolicy", "cleanPodPolicy"]);
    let goes = |pod: &Value| match policy {
        "All" => !is_deleting(pod),
        "Running" => is_active(pod),
        _ => false,
    };
    let gone: Vec<Request> = job
        .pods
        .iter()
        .filter(|(_, pod)| goes(pod))
        .map(|(key, pod)| Request::delete(key, pod))
        .collect();
    if !gone.is_empty() {
        return Step::of(gone);
    }
    let Some(secs) = number(job.object, &["spec", "runPolicy", "ttlSecondsAfterFinished"]) else {
        return Step::rest();
    };
    let ended = time(job.object, &["status", "completionTime"]).unwrap_or(ctx.now);
    let due = after_secs(ended, secs);
    if ctx.now < due {
        return Step::at(due);
    }
    Step::of([Request::delete(job.key, job.object)])
}
