//! The JobSet controller: groups of jobs that are restarted together.
//!
//! Left out: startup order, coordinators, services, failure policy rules (only `maxRestarts`
//! applies), and exclusive placement.

mod jobs;
mod status;

use super::workload::{clamped_count_at, is_managed_elsewhere, owner_keys};
use crate::reconcile::fields::{
    Condition, find_condition, flag_at, set_condition, time_after_secs, time_at,
};
use crate::reconcile::resources::{JOB_SETS, JOBS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json, labels,
    object::{condition, is_deleting, label, list, number, text, uid},
};

pub(super) const COMPONENT: &str = "jobset-controller";
const MANAGED_BY: &str = "jobset.sigs.k8s.io/jobset-controller";
/// The label with the restart count of the JobSet when the job was created.
const RESTART_ATTEMPT_LABEL: &str = "jobset.sigs.k8s.io/restart-attempt";

/// The JobSet controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: COMPONENT,
    watches: WatchedKinds::Kinds(&[&JOB_SETS, &JOBS]),
    keys_to_reconcile: |change: &ObjectChange, cache: &InformerCache| {
        owner_keys(change, cache, &JOB_SETS, &JOBS)
    },
    reconcile,
};

/// A JobSet and its jobs.
struct JobSetState<'v> {
    key: &'v Key,
    object: &'v Object,
    restarts: i64,
    jobs: Vec<(&'v Key, &'v Object)>,
    /// Jobs from before the last restart.
    stale: Vec<(&'v Key, &'v Object)>,
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, set)) = ctx.cache.entry(key) else { return ReconcileResult::nothing_to_do() };
    let is_elsewhere = is_managed_elsewhere(set, &["spec", "managedBy"], MANAGED_BY);
    if is_deleting(set) || is_elsewhere {
        return ReconcileResult::nothing_to_do();
    }
    let restarts = clamped_count_at(set, &["status", "restarts"], 0);
    let current = restarts.to_string();
    let (jobs, stale) = ctx.cache.controlled_by(uid(set), &JOBS).partition(|(_, job)| {
        label(job, RESTART_ATTEMPT_LABEL) == Some(current.as_str()) && !is_deleting(job)
    });
    let set = JobSetState { key, object: set, restarts, jobs, stale };
    if has_job_set_finished(set.object) {
        let mut seen = Value::clone(set.object);
        status::write_replicated_job_counts(&set, &mut seen);
        let counted = ApiRequest::status_update(key, set.object, seen);
        return counted.map_or_else(
            || delete_after_ttl(key, set.object, ctx),
            |one| ReconcileResult::from_writes([one]),
        );
    }
    let clean = set.stale.iter().filter(|(_, job)| !is_deleting(job));
    let clean: Vec<ApiRequest> =
        clean.map(|(key, job)| ApiRequest::delete_foreground(key, job)).collect();
    if !clean.is_empty() {
        return ReconcileResult::from_writes(clean);
    }
    if let Some(step) = finish_or_restart(&set, ctx) {
        return step;
    }
    let writes = jobs::sync_jobs(&set, ctx);
    if writes.is_empty() {
        ReconcileResult::from_writes(status::sync_status(&set, ctx))
    } else {
        ReconcileResult::from_writes(writes)
    }
}

/// Whether a JobSet has finished.
fn has_job_set_finished(set: &Value) -> bool {
    condition(set, "Completed") == Some("True") || condition(set, "Failed") == Some("True")
}

/// Whether a job counts for the success policy.
fn counts_for_success(set: &Value, job: &Value) -> bool {
    let targets = list(set, &["spec", "successPolicy", "targetReplicatedJobs"]);
    let of = label(job, labels::JOB_SET_REPLICATED_JOB);
    targets.is_empty() || targets.iter().any(|target| target.as_str() == of)
}

/// Finishes or restarts a JobSet if the results of its jobs require it.
fn finish_or_restart(set: &JobSetState, ctx: &Context) -> Option<ReconcileResult> {
    let failed = set.jobs.iter().find(|(_, job)| condition(job, "Failed") == Some("True"));
    if let Some((_, job)) = failed {
        let most = clamped_count_at(set.object, &["spec", "failurePolicy", "maxRestarts"], 0);
        if set.restarts < most {
            return Some(restart_job_set(set));
        }
        let why = if most == 0 { "FailedJobs" } else { "ReachedMaxRestarts" };
        let message = format!(
            "jobset failed due to one or more job failures (first failed job: {})",
            schedlab_api::object::name(job)
        );
        return Some(finish_job_set(set, "Failed", [why, &message], ctx));
    }
    let any = text(set.object, &["spec", "successPolicy", "operator"]) == "Any";
    let complete = |(_, job): &&(&Key, &Object)| condition(job, "Complete") == Some("True");
    let counting = || set.jobs.iter().filter(|(_, job)| counts_for_success(set.object, job));
    let expected = jobs::desired_jobs(set.object)
        .iter()
        .filter(|one| counts_for_success(set.object, one))
        .count();
    let done = counting().filter(complete).count();
    let enough = if any { done > 0 } else { done >= expected && expected > 0 };
    let message = "jobset completed successfully";
    enough.then(|| finish_job_set(set, "Completed", ["AllJobsCompleted", message], ctx))
}

fn restart_job_set(set: &JobSetState) -> ReconcileResult {
    let mut again = Value::clone(set.object);
    schedlab_api::object::set(&mut again, &["status", "restarts"], json!(set.restarts + 1));
    ReconcileResult::from_writes(ApiRequest::status_update(set.key, set.object, again))
}

/// Finishes a JobSet and deletes its running jobs.
fn finish_job_set(
    set: &JobSetState,
    kind: &str,
    [reason, message]: [&str; 2],
    ctx: &Context,
) -> ReconcileResult {
    let mut ended = Value::clone(set.object);
    status::write_replicated_job_counts(set, &mut ended);
    schedlab_api::object::set(&mut ended, &["status", "terminalState"], json!(kind));
    set_condition(&mut ended, &Condition { kind, status: "True", reason, message }, ctx.now);
    let event = if kind == "Failed" { "Warning" } else { "Normal" };
    let notice =
        EventSpec { component: COMPONENT, kind: event, reason, message: message.to_owned() };
    let running = set.jobs.iter().filter(|(_, job)| !super::job::has_job_finished(job));
    let stopped = running.map(|(key, job)| ApiRequest::delete_foreground(key, job));
    let writes = ApiRequest::status_update(set.key, set.object, ended).into_iter();
    ReconcileResult::from_writes(writes.chain([notice.record(set.object, ctx)]).chain(stopped))
}

/// Deletes a finished JobSet after `ttlSecondsAfterFinished`.
fn delete_after_ttl(key: &Key, set: &Value, ctx: &Context) -> ReconcileResult {
    let Some(secs) = number(set, &["spec", "ttlSecondsAfterFinished"]) else {
        return ReconcileResult::nothing_to_do();
    };
    let ended = ["Completed", "Failed"].into_iter().find_map(|kind| find_condition(set, kind));
    let ended = ended.and_then(|one| time_at(one, &["lastTransitionTime"])).unwrap_or(ctx.now);
    let due = time_after_secs(ended, secs);
    if ctx.now < due {
        return ReconcileResult::requeue_at(due);
    }
    ReconcileResult::from_writes([ApiRequest::delete_foreground(key, set)])
}

/// Whether `spec.suspend` of a JobSet or Job is true.
fn is_suspended(object: &Value) -> bool {
    flag_at(object, &["spec", "suspend"])
}
