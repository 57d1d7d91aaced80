//! Jobs: pods that run to completion, so many at a time.
//!
//! A pod that ended is counted in the job's status and let go of in one step: until then the
//! finalizer `batch.kubernetes.io/job-tracking` holds it. A pod that is deleted while it runs
//! counts as failed and is replaced, unless the job waits for ends (`podReplacementPolicy: Failed`,
//! and always with a pod failure policy). One that the job itself has no use for any more (it is
//! suspended, shrinks or has succeeded) is let go of first, and counts as nothing.
//!
//! Left out: elastic indexed jobs.

mod end;
mod indexes;
mod per_index;
mod pods;
mod policy;
mod tally;

use jiff::Timestamp;

use super::adoption::{adopters, claim};
use super::fields::{
    Condition, after_secs, find_condition, flag, set_condition, stamp, stamp_condition, time,
};
use super::kinds::{JOBS, PODS};
use super::step::Notice;
use super::workload::{concern, delete_pod, is_managed_elsewhere};
use super::{Actor, Change, Context, Request, Step, View, Watched, controller};
use crate::object::{condition, finalizers, is_deleting, number, set, text, uid};
use crate::store::{Key, Object, Op};
use schedlab_json::{Value, json};

use tally::Tally;

pub(super) const COMPONENT: &str = "job-controller";
const MANAGER: &str = "kubernetes.io/job-controller";
/// Holds a pod until its end is counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The Job controller.
pub(super) const ACTOR: Actor = Actor {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&JOBS, &PODS]),
    concerns,
    step,
};

/// A job and its pods; a pod whose job is gone concerns itself: its finalizer must go.
fn concerns(change: &Change, view: &View) -> Vec<Key> {
    if change.key.resource == *JOBS && change.after.is_none() {
        let Some(before) = &change.before else { return Vec::new() };
        let left = view.dependents(uid(before)).filter(|(key, _)| key.resource == *PODS);
        return left.map(|(key, _)| key.clone()).collect();
    }
    let lost = change.after.as_ref().filter(|after| is_lost(&change.key, after, view));
    if lost.is_some() {
        return vec![change.key.clone()];
    }
    let mut keys = concern(change, view, &JOBS, &PODS);
    keys.extend(adopters(change, view, &JOBS, &PODS));
    keys
}

/// Whether a pod is held for a job that is no more.
fn is_lost(key: &Key, pod: &Value, view: &View) -> bool {
    key.resource == *PODS
        && is_tracked(pod)
        && controller(pod).is_none_or(|owner| view.by_uid(owner.uid).is_none())
}

fn is_tracked(pod: &Value) -> bool {
    finalizers(pod).any(|one| one == TRACKING)
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some((key, object)) = ctx.view.entry(key) else { return Step::rest() };
    if key.resource == *PODS {
        let lost = is_lost(key, object, ctx.view);
        let freed = lost.then(|| Request::drop_finalizer(key, object, TRACKING));
        return Step::of(freed);
    }
    if is_managed_elsewhere(object, &["spec", "managedBy"], MANAGER) {
        // Who removes old jobs asks only whether they are done.
        let expires = is_done(object) && !is_deleting(object);
        return if expires { end::expire(key, object, ctx) } else { Step::rest() };
    }
    let all: Vec<(&Key, &Object)> = ctx.view.controlled(uid(object), &PODS).collect();
    if is_deleting(object) {
        return Step::of(release(all.iter().copied()));
    }
    if is_done(object) {
        let released = release(all.iter().copied());
        return if released.is_empty() {
            end::expire(key, object, ctx)
        } else {
            Step::of(released)
        };
    }
    let claims = claimed(object, ctx);
    if claims.is_empty() { live(key, object, &all, ctx) } else { Step::of(claims) }
}

/// Pods that the job takes, to be tracked, and those that it lets go of.
fn claimed(job: &Value, ctx: &Context) -> Vec<Request> {
    let mut claims = claim(job, &PODS, |_| true, ctx);
    for claim in &mut claims {
        let Op::Update(_, pod) = &mut claim.op else { continue };
        let others = finalizers(pod).filter(|one| *one != TRACKING);
        let is_own = controller(pod).map(|_| TRACKING);
        let left: Vec<Value> = others.chain(is_own).map(Value::from).collect();
        set(pod, &["metadata", "finalizers"], left.into());
    }
    claims
}

/// Whether a job has come to its end.
pub(super) fn is_done(job: &Value) -> bool {
    condition(job, "Complete") == Some("True") || condition(job, "Failed") == Some("True")
}

/// Lets go of pods whose end needs no counting any more.
fn release<'v>(pods: impl Iterator<Item = (&'v Key, &'v Object)>) -> Vec<Request> {
    let held = pods.filter(|(_, pod)| is_tracked(pod));
    held.map(|(key, pod)| Request::drop_finalizer(key, pod, TRACKING)).collect()
}

/// A job on its way.
fn live(key: &Key, job: &Object, all: &[(&Key, &Object)], ctx: &Context) -> Step {
    let tally = Tally::of(job, all);
    if !tally.ended.is_empty() {
        let mut counted = Value::clone(job);
        tally.write(&mut counted);
        end::note_failure(&mut counted, &tally, ctx);
        let freed = release(tally.ended.iter().copied());
        return Step::of(Request::status(key, job, counted).into_iter().chain(freed));
    }
    if let Some(step) = end::finish(key, job, &tally, ctx) {
        return step;
    }
    if flag(job, &["spec", "suspend"]) {
        return suspend(key, job, &tally, ctx);
    }
    if time(job, &["status", "startTime"]).is_none() || condition(job, "Suspended") == Some("True")
    {
        return Step::of(start(key, job, &tally, ctx));
    }
    let mut step = pods::manage(job, &tally, ctx);
    if step.writes.is_empty() {
        let mut seen = Value::clone(job);
        tally.write(&mut seen);
        step.writes.extend(Request::status(key, job, seen));
    }
    step.by(deadline(job))
}

/// When `activeDeadlineSeconds` are over. Time stands still for a job that is suspended.
fn deadline(job: &Value) -> Option<Timestamp> {
    if flag(job, &["spec", "suspend"]) {
        return None;
    }
    let secs = number(job, &["spec", "activeDeadlineSeconds"])?;
    Some(after_secs(time(job, &["status", "startTime"])?, secs))
}

fn start(key: &Key, job: &Value, tally: &Tally, ctx: &Context) -> Vec<Request> {
    let mut started = job.clone();
    tally.write(&mut started);
    set(&mut started, &["status", "startTime"], json!(stamp(ctx.now)));
    let mut said = None;
    if condition(job, "Suspended") == Some("True") {
        let resumed = Condition {
            kind: "Suspended",
            status: "False",
            reason: "JobResumed",
            message: "Job resumed",
        };
        note(&mut started, &resumed, ctx.now);
        said = Some(tell("Resumed", &resumed).about(job, ctx));
    }
    Request::status(key, job, started).into_iter().chain(said).collect()
}

fn suspend(key: &Key, job: &Value, tally: &Tally, ctx: &Context) -> Step {
    if !tally.active.is_empty() {
        return Step::of(tally.active.iter().flat_map(|pod| dismiss(*pod, job, ctx)));
    }
    let mut suspended = job.clone();
    tally.write(&mut suspended);
    let is = Condition {
        kind: "Suspended",
        status: "True",
        reason: "JobSuspended",
        message: "Job suspended",
    };
    note(&mut suspended, &is, ctx.now);
    let said = condition(job, "Suspended") != Some("True");
    let said = said.then(|| tell("Suspended", &is).about(job, ctx));
    Step::of(Request::status(key, job, suspended).into_iter().chain(said))
}

fn tell<'a>(reason: &'a str, is: &Condition) -> Notice<'a> {
    Notice { component: COMPONENT, kind: "Normal", reason, message: is.message.to_owned() }
}

/// Sets a condition; a job's conditions also say when they were looked at.
fn note(job: &mut Value, new: &Condition, now: Timestamp) {
    let stands = find_condition(job, new.kind).is_some_and(|one| {
        [("status", new.status), ("reason", new.reason), ("message", new.message)]
            .iter()
            .all(|(field, is)| text(one, &[field]) == *is)
    });
    if !stands {
        set_condition(job, new, now);
        stamp_condition(job, new.kind, "lastProbeTime", now);
    }
}

/// Stops a pod of which nothing is expected any more: let go of, it counts as nothing.
fn dismiss((key, pod): (&Key, &Object), job: &Value, ctx: &Context) -> Vec<Request> {
    let freed = is_tracked(pod).then(|| Request::drop_finalizer(key, pod, TRACKING));
    freed.into_iter().chain(delete_pod((key, pod), job, COMPONENT, ctx)).collect()
}
