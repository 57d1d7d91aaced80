//! The Job controller.
//!
//! An ended pod is counted in the job's status and released in one step; until then the finalizer
//! `batch.kubernetes.io/job-tracking` keeps it. A pod that is deleted while it runs counts as
//! failed and is replaced at once, unless the job waits for the end of pods (`podReplacementPolicy:
//! Failed`, or a pod failure policy). A pod that the job itself removes, because it is suspended,
//! scaled down or has succeeded, is released first and does not count. An indexed job whose
//! completions fall forgets the indexes beyond them.

mod finish;
mod index_backoff;
mod indexes;
mod job_status;
mod pods;
mod policy;
mod scheduling;

use jiff::Timestamp;

use super::adoption::{adopt_and_release_objects, adopting_owners};
use super::workload::{delete_pod, is_managed_elsewhere, owner_keys};
use crate::reconcile::fields::{
    Condition, find_condition, flag_at, format_time, set_condition, set_condition_time,
    time_after_secs, time_at,
};
use crate::reconcile::resources::{JOBS, POD_GROUPS, PODS, WORKLOADS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
    controller_reference,
};
use crate::store::{Key, Object, Op};
use schedlab_api::{
    Value, json,
    object::{condition, finalizers, is_deleting, number, remove, set, text, uid},
};

use job_status::JobStatus;

pub(super) const COMPONENT: &str = "job-controller";
const MANAGED_BY: &str = "kubernetes.io/job-controller";
/// The finalizer that keeps a pod until its end is counted.
const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The gate with which a suspended Job loses its start time.
const START_TIME_GATE: &str = "MutableSchedulingDirectivesForSuspendedJobs";

/// The Job controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&JOBS, &PODS, &WORKLOADS, &POD_GROUPS]),
    keys_to_reconcile,
    reconcile,
};

/// A changed Job, the owner or adopters of a changed pod, and a pod whose Job is gone, so that its
/// tracking finalizer must be removed.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource == *JOBS && change.after.is_none() {
        let Some(before) = &change.before else { return Vec::new() };
        let left = cache.dependents(uid(before)).filter(|(key, _)| key.resource == *PODS);
        return left.map(|(key, _)| key.clone()).collect();
    }
    let lost = change.after.as_ref().filter(|after| is_orphaned_pod(&change.key, after, cache));
    if lost.is_some() {
        return vec![change.key.clone()];
    }
    for kind in [&WORKLOADS, &POD_GROUPS] {
        if change.key.resource == **kind {
            return owner_keys(change, cache, &JOBS, kind);
        }
    }
    let mut keys = owner_keys(change, cache, &JOBS, &PODS);
    keys.extend(adopting_owners(change, cache, &JOBS, &PODS));
    keys
}

/// Whether a pod with the tracking finalizer has lost its Job.
fn is_orphaned_pod(key: &Key, pod: &Value, cache: &InformerCache) -> bool {
    key.resource == *PODS
        && has_tracking_finalizer(pod)
        && controller_reference(pod).is_none_or(|owner| cache.key_of_uid(owner.uid).is_none())
}

fn has_tracking_finalizer(pod: &Value) -> bool {
    finalizers(pod).any(|one| one == TRACKING_FINALIZER)
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, object)) = ctx.cache.entry(key) else { return ReconcileResult::nothing_to_do() };
    if key.resource == *PODS {
        let lost = is_orphaned_pod(key, object, ctx.cache);
        let freed = lost.then(|| ApiRequest::remove_finalizer(key, object, TRACKING_FINALIZER));
        return ReconcileResult::from_writes(freed);
    }
    if is_managed_elsewhere(object, &["spec", "managedBy"], MANAGED_BY) {
        // The TTL applies to finished jobs of any controller.
        let expires = has_job_finished(object) && !is_deleting(object);
        return if expires {
            finish::delete_after_ttl(key, object, ctx)
        } else {
            ReconcileResult::nothing_to_do()
        };
    }
    let all: Vec<(&Key, &Object)> = ctx.cache.controlled_by(uid(object), &PODS).collect();
    if is_deleting(object) {
        return ReconcileResult::from_writes(remove_tracking_finalizers(all.iter().copied()));
    }
    if has_job_finished(object) {
        let released = remove_tracking_finalizers(all.iter().copied());
        return if released.is_empty() {
            finish::delete_after_ttl(key, object, ctx)
        } else {
            ReconcileResult::from_writes(released)
        };
    }
    let claims = adopt_and_release_pods(object, ctx);
    if !claims.is_empty() {
        return ReconcileResult::from_writes(claims);
    }
    let groups = scheduling::sync_groups(object, !all.is_empty(), ctx);
    if groups.is_empty() {
        sync_running(key, object, &all, ctx)
    } else {
        ReconcileResult::from_writes(groups)
    }
}

/// The updates by which a Job adopts and releases pods; adopted pods get the tracking finalizer,
/// released ones lose it.
fn adopt_and_release_pods(job: &Value, ctx: &Context) -> Vec<ApiRequest> {
    let mut claims = adopt_and_release_objects(job, &PODS, |_| true, ctx);
    for claim in &mut claims {
        let Op::Update(_, pod) = &mut claim.op else { continue };
        let others = finalizers(pod).filter(|one| *one != TRACKING_FINALIZER);
        let is_own = controller_reference(pod).map(|_| TRACKING_FINALIZER);
        let left: Vec<Value> = others.chain(is_own).map(Value::from).collect();
        set(pod, &["metadata", "finalizers"], left.into());
    }
    claims
}

/// Whether a job has finished.
pub(super) fn has_job_finished(job: &Value) -> bool {
    condition(job, "Complete") == Some("True") || condition(job, "Failed") == Some("True")
}

/// Removes the tracking finalizer of pods.
fn remove_tracking_finalizers<'v>(
    pods: impl Iterator<Item = (&'v Key, &'v Object)>,
) -> Vec<ApiRequest> {
    let held = pods.filter(|(_, pod)| has_tracking_finalizer(pod));
    held.map(|(key, pod)| ApiRequest::remove_finalizer(key, pod, TRACKING_FINALIZER)).collect()
}

/// Reconciles a job that has not finished.
fn sync_running(
    key: &Key,
    job: &Object,
    all: &[(&Key, &Object)],
    ctx: &Context,
) -> ReconcileResult {
    let job_status = JobStatus::from_pods(job, all);
    if !job_status.uncounted.is_empty() {
        let mut counted = Value::clone(job);
        job_status.write_counts(&mut counted);
        finish::record_policy_failure(&mut counted, &job_status, ctx);
        let freed = remove_tracking_finalizers(job_status.uncounted.iter().copied());
        return ReconcileResult::from_writes(
            ApiRequest::status_update(key, job, counted).into_iter().chain(freed),
        );
    }
    if let Some(step) = finish::finish_job(key, job, &job_status, ctx) {
        return step;
    }
    if flag_at(job, &["spec", "suspend"]) {
        return suspend_job(key, job, &job_status, ctx);
    }
    if time_at(job, &["status", "startTime"]).is_none()
        || condition(job, "Suspended") == Some("True")
    {
        return ReconcileResult::from_writes(start_job(key, job, &job_status, ctx));
    }
    let mut step = pods::sync_pods(job, &job_status, ctx);
    if step.writes.is_empty() {
        let mut seen = Value::clone(job);
        job_status.write_counts(&mut seen);
        step.writes.extend(ApiRequest::status_update(key, job, seen));
    }
    step.requeue_by(active_deadline(job))
}

/// When `activeDeadlineSeconds` ends; `None` while the job is suspended.
fn active_deadline(job: &Value) -> Option<Timestamp> {
    if flag_at(job, &["spec", "suspend"]) {
        return None;
    }
    let secs = number(job, &["spec", "activeDeadlineSeconds"])?;
    Some(time_after_secs(time_at(job, &["status", "startTime"])?, secs))
}

fn start_job(key: &Key, job: &Value, job_status: &JobStatus, ctx: &Context) -> Vec<ApiRequest> {
    let mut started = job.clone();
    job_status.write_counts(&mut started);
    set(&mut started, &["status", "startTime"], json!(format_time(ctx.now)));
    let mut event = None;
    if condition(job, "Suspended") == Some("True") {
        let resumed = Condition {
            kind: "Suspended",
            status: "False",
            reason: "JobResumed",
            message: "Job resumed",
        };
        set_job_condition(&mut started, &resumed, ctx.now);
        event = Some(job_event("Resumed", &resumed).record(job, ctx));
    }
    ApiRequest::status_update(key, job, started).into_iter().chain(event).collect()
}

fn suspend_job(key: &Key, job: &Value, job_status: &JobStatus, ctx: &Context) -> ReconcileResult {
    if !job_status.active.is_empty() {
        return ReconcileResult::from_writes(
            job_status.active.iter().flat_map(|(key, pod)| delete_uncounted(key, pod, job, ctx)),
        );
    }
    let mut suspended = job.clone();
    job_status.write_counts(&mut suspended);
    let is = Condition {
        kind: "Suspended",
        status: "True",
        reason: "JobSuspended",
        message: "Job suspended",
    };
    set_job_condition(&mut suspended, &is, ctx.now);
    if ctx.feature_gates.is_enabled(START_TIME_GATE) {
        remove(&mut suspended, &["status", "startTime"]);
    }
    let event = condition(job, "Suspended") != Some("True");
    let event = event.then(|| job_event("Suspended", &is).record(job, ctx));
    ReconcileResult::from_writes(
        ApiRequest::status_update(key, job, suspended).into_iter().chain(event),
    )
}

fn job_event<'a>(reason: &'a str, condition: &Condition) -> EventSpec<'a> {
    EventSpec {
        component: COMPONENT,
        kind: "Normal",
        reason,
        message: condition.message.to_owned(),
    }
}

/// Sets a condition of a Job, including `lastProbeTime`.
fn set_job_condition(job: &mut Value, new: &Condition, now: Timestamp) {
    let stands = find_condition(job, new.kind).is_some_and(|one| {
        [("status", new.status), ("reason", new.reason), ("message", new.message)]
            .iter()
            .all(|(field, is)| text(one, &[field]) == *is)
    });
    if !stands {
        set_condition(job, new, now);
        set_condition_time(job, new.kind, "lastProbeTime", now);
    }
}

/// Removes the tracking finalizer of a pod and deletes the pod, so that it counts neither as failed
/// nor as succeeded.
fn delete_uncounted(key: &Key, pod: &Object, job: &Value, ctx: &Context) -> Vec<ApiRequest> {
    let freed = has_tracking_finalizer(pod)
        .then(|| ApiRequest::remove_finalizer(key, pod, TRACKING_FINALIZER));
    freed.into_iter().chain(delete_pod(key, pod, job, COMPONENT, ctx)).collect()
}
