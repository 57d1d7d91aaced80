//! JobSets: jobs that belong together, restarted together.
//!
//! Left out: start-up order, coordinators, services, the rules of failure policies (their
//! `maxRestarts` counts), exclusive placement.

mod jobs;
mod status;

use super::fields::{Condition, after_secs, find_condition, flag, set_condition, time};
use super::kinds::{JOB_SETS, JOBS};
use super::step::Notice;
use super::workload::{concern, count_at, is_managed_elsewhere};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{condition, is_deleting, label, list, number, set, text, uid};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

pub(super) const COMPONENT: &str = "jobset-controller";
const MANAGER: &str = "jobset.sigs.k8s.io/jobset-controller";
/// How often the set was restarted before the job was made.
const ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
const REPLICATED: &str = "jobset.sigs.k8s.io/replicatedjob-name";

/// The JobSet controller.
pub(super) const ACTOR: Actor = Actor {
    name: COMPONENT,
    manager: COMPONENT,
    watches: Watched::Kinds(&[&JOB_SETS, &JOBS]),
    concerns: |change: &Change, view: &View| concern(change, view, &JOB_SETS, &JOBS),
    step,
};

/// A set and the jobs of its present attempt.
struct Set<'v> {
    key: &'v Key,
    object: &'v Object,
    restarts: i64,
    jobs: Vec<(&'v Key, &'v Object)>,
    /// Jobs of earlier attempts.
    stale: Vec<(&'v Key, &'v Object)>,
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some((key, set)) = ctx.view.entry(key) else { return Step::rest() };
    let is_elsewhere = is_managed_elsewhere(set, &["spec", "managedBy"], MANAGER);
    if is_deleting(set) || is_elsewhere {
        return Step::rest();
    }
    let restarts = count_at(set, &["status", "restarts"], 0);
    let current = restarts.to_string();
    let (jobs, stale) = ctx
        .view
        .controlled(uid(set), &JOBS)
        .partition(|(_, job)| label(job, ATTEMPT) == Some(current.as_str()) && !is_deleting(job));
    let set = Set { key, object: set, restarts, jobs, stale };
    if is_done(set.object) {
        let mut seen = Value::clone(set.object);
        status::write(&set, &mut seen);
        let counted = Request::status(key, set.object, seen);
        return counted.map_or_else(|| expire(key, set.object, ctx), |one| Step::of([one]));
    }
    let clean = set.stale.iter().filter(|(_, job)| !is_deleting(job));
    let clean: Vec<Request> =
        clean.map(|(key, job)| Request::delete_foreground(key, job)).collect();
    if !clean.is_empty() {
        return Step::of(clean);
    }
    if let Some(step) = verdict(&set, ctx) {
        return step;
    }
    let writes = jobs::keep(&set, ctx);
    if writes.is_empty() { Step::of(status::observe(&set, ctx)) } else { Step::of(writes) }
}

/// Whether a set has come to its end.
fn is_done(set: &Value) -> bool {
    condition(set, "Completed") == Some("True") || condition(set, "Failed") == Some("True")
}

/// The jobs of a set that count for its success, by the success policy.
fn counts_for_success(set: &Value, job: &Value) -> bool {
    let targets = list(set, &["spec", "successPolicy", "targetReplicatedJobs"]);
    let of = label(job, REPLICATED);
    targets.is_empty() || targets.iter().any(|target| target.as_str() == of)
}

/// Ends or restarts a set whose jobs have decided it.
fn verdict(set: &Set, ctx: &Context) -> Option<Step> {
    let failed = set.jobs.iter().find(|(_, job)| condition(job, "Failed") == Some("True"));
    if let Some((_, job)) = failed {
        let most = count_at(set.object, &["spec", "failurePolicy", "maxRestarts"], 0);
        if set.restarts < most {
            return Some(restart(set));
        }
        let why = if most == 0 { "FailedJobs" } else { "ReachedMaxRestarts" };
        let message = format!(
            "jobset failed due to one or more job failures (first failed job: {})",
            crate::object::name(job)
        );
        return Some(end(set, "Failed", [why, &message], ctx));
    }
    let any = text(set.object, &["spec", "successPolicy", "operator"]) == "Any";
    let complete = |(_, job): &&(&Key, &Object)| condition(job, "Complete") == Some("True");
    let counting = || set.jobs.iter().filter(|(_, job)| counts_for_success(set.object, job));
    let expected =
        jobs::wanted(set.object).iter().filter(|one| counts_for_success(set.object, one)).count();
    let done = counting().filter(complete).count();
    let enough = if any { done > 0 } else { done >= expected && expected > 0 };
    let message = "jobset completed successfully";
    enough.then(|| end(set, "Completed", ["AllJobsCompleted", message], ctx))
}

fn restart(set: &Set) -> Step {
    let mut again = Value::clone(set.object);
    crate::object::set(&mut again, &["status", "restarts"], json!(set.restarts + 1));
    Step::of(Request::status(set.key, set.object, again))
}

/// Closes a set and stops what still runs of it.
fn end(set: &Set, kind: &str, [reason, message]: [&str; 2], ctx: &Context) -> Step {
    let mut ended = Value::clone(set.object);
    status::write(set, &mut ended);
    crate::object::set(&mut ended, &["status", "terminalState"], json!(kind));
    set_condition(&mut ended, &Condition { kind, status: "True", reason, message }, ctx.now);
    let event = if kind == "Failed" { "Warning" } else { "Normal" };
    let notice = Notice { component: COMPONENT, kind: event, reason, message: message.to_owned() };
    let running = set.jobs.iter().filter(|(_, job)| !super::job::is_done(job));
    let stopped = running.map(|(key, job)| Request::delete_foreground(key, job));
    let writes = Request::status(set.key, set.object, ended).into_iter();
    Step::of(writes.chain([notice.about(set.object, ctx)]).chain(stopped))
}

/// Deletes a set that ended long enough ago.
fn expire(key: &Key, set: &Value, ctx: &Context) -> Step {
    let Some(secs) = number(set, &["spec", "ttlSecondsAfterFinished"]) else {
        return Step::rest();
    };
    let ended = ["Completed", "Failed"].into_iter().find_map(|kind| find_condition(set, kind));
    let ended = ended.and_then(|one| time(one, &["lastTransitionTime"])).unwrap_or(ctx.now);
    let due = after_secs(ended, secs);
    if ctx.now < due {
        return Step::at(due);
    }
    Step::of([Request::delete_foreground(key, set)])
}

/// Whether a set is to wait.
fn is_suspended(object: &Value) -> bool {
    flag(object, &["spec", "suspend"])
}

/// Gives an object's `spec.suspend` a value.
fn with_suspend(object: &Value, suspend: &Value) -> Value {
    let mut object = object.clone();
    set(&mut object, &["spec", "suspend"], suspend.clone());
    object
}
