//! The end of a job, and its deletion after the TTL.

use super::job_status::JobStatus;
use super::{COMPONENT, active_deadline, delete_uncounted, indexes, set_job_condition};
use crate::controllers::workload::{api_count, clamped_count_at, delete_pod};
use crate::reconcile::fields::{Condition, find_condition, format_time, time_after_secs, time_at};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{ApiRequest, Context, ReconcileResult};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{condition, list, number, set, text},
};

/// The final outcome of a job.
struct JobOutcome {
    succeeds: bool,
    reason: String,
    message: String,
}

impl JobOutcome {
    fn failed([reason, message]: [&str; 2]) -> Self {
        Self { succeeds: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn succeeded([reason, message]: [&str; 2]) -> Self {
        Self { succeeds: true, ..Self::failed([reason, message]) }
    }

    /// The outcome that the condition `kind` of the Job records; `None` if the condition is not
    /// true.
    fn from_condition(job: &Value, kind: &str) -> Option<Self> {
        let found = find_condition(job, kind).filter(|one| text(one, &["status"]) == "True")?;
        let fields = ["reason", "message"].map(|field| text(found, &[field]));
        Some(Self { succeeds: kind == "SuccessCriteriaMet", ..Self::failed(fields) })
    }

    fn target_condition(&self) -> &'static str {
        if self.succeeds { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    fn condition(&self, kind: &'static str) -> Condition<'_> {
        Condition { kind, status: "True", reason: &self.reason, message: &self.message }
    }

    fn event(&self) -> EventSpec<'_> {
        let (kind, reason, message) = if self.succeeds {
            ("Normal", "Completed", "Job completed")
        } else {
            ("Warning", &*self.reason, &*self.message)
        };
        EventSpec { component: COMPONENT, kind, reason, message: message.to_owned() }
    }
}

/// Finishes a Job whose outcome is decided: records the outcome, stops the pods, and sets the final
/// condition when the pods are gone.
pub(super) fn finish_job(
    key: &Key,
    job: &Object,
    job_status: &JobStatus,
    ctx: &Context,
) -> Option<ReconcileResult> {
    let outcome = decided_outcome(job, job_status, ctx)?;
    let mut ended = Value::clone(job);
    job_status.write_counts(&mut ended);
    set_job_condition(&mut ended, &outcome.condition(outcome.target_condition()), ctx.now);
    let stop = |(key, pod): &(&Key, &Object)| {
        if outcome.succeeds {
            delete_uncounted(key, pod, job, ctx)
        } else {
            delete_pod(key, pod, job, COMPONENT, ctx)
        }
    };
    let mut writes: Vec<ApiRequest> = job_status.active.iter().flat_map(stop).collect();
    let holds =
        job_status.per_index.as_ref().is_some_and(|per_index| !per_index.awaiting_retry.is_empty());
    if job_status.active.is_empty() && job_status.terminating.is_empty() && !holds {
        let done = if outcome.succeeds { "Complete" } else { "Failed" };
        set_job_condition(&mut ended, &outcome.condition(done), ctx.now);
        if outcome.succeeds {
            set(&mut ended, &["status", "completionTime"], json!(format_time(ctx.now)));
        }
        writes.push(outcome.event().record(job, ctx));
    }
    writes.extend(ApiRequest::status_update(key, job, ended));
    Some(ReconcileResult::from_writes(writes))
}

/// Records a failure by the pod failure policy before its pod is released.
pub(super) fn record_policy_failure(job: &mut Value, job_status: &JobStatus, ctx: &Context) {
    let is_settled = ["SuccessCriteriaMet", "FailureTarget"]
        .into_iter()
        .any(|kind| condition(job, kind) == Some("True"));
    if let Some(why) = job_status.policy_failure.as_ref().filter(|_| !is_settled) {
        let outcome = JobOutcome::failed(["PodFailurePolicy", why]);
        set_job_condition(job, &outcome.condition(outcome.target_condition()), ctx.now);
    }
}

/// The outcome of a Job, if it is decided. A recorded outcome stands; otherwise failures take
/// precedence over success, in the order of Kubernetes.
fn decided_outcome(job: &Value, job_status: &JobStatus, ctx: &Context) -> Option<JobOutcome> {
    let mut settled = ["SuccessCriteriaMet", "FailureTarget"].into_iter();
    if let Some(outcome) = settled.find_map(|kind| JobOutcome::from_condition(job, kind)) {
        return Some(outcome);
    }
    if let Some(why) = &job_status.policy_failure {
        return Some(JobOutcome::failed(["PodFailurePolicy", why]));
    }
    let limit = clamped_count_at(job, &["spec", "backoffLimit"], 6);
    let held =
        job_status.per_index.as_ref().map_or(0, |per_index| api_count(&per_index.awaiting_retry));
    if job_status.failed + held > limit || exceeds_restart_limit(job, job_status, limit) {
        let message = "Job has reached the specified backoff limit";
        return Some(JobOutcome::failed(["BackoffLimitExceeded", message]));
    }
    if active_deadline(job).is_some_and(|deadline| deadline <= ctx.now) {
        let message = "Job was active longer than specified deadline";
        return Some(JobOutcome::failed(["DeadlineExceeded", message]));
    }
    let per_index = job_status.per_index.as_ref();
    if let Some(failure) = per_index.and_then(|one| one.failure_reason(job, job_status.succeeded)) {
        return Some(JobOutcome::failed(failure));
    }
    if let Some(index) = matching_success_rule(job, job_status) {
        let message = format!("Matched rules at index {index}");
        return Some(JobOutcome::succeeded(["SuccessPolicy", &message]));
    }
    let success = ["CompletionsReached", "Reached expected number of succeeded pods"];
    is_complete(job, job_status).then(|| JobOutcome::succeeded(success))
}

/// The index of the first success policy rule that the Job satisfies.
fn matching_success_rule(job: &Value, job_status: &JobStatus) -> Option<usize> {
    let is_met = |rule: &Value| {
        let count = number(rule, &["succeededCount"]);
        let Some(indexes) = rule["succeededIndexes"].as_str() else {
            return count.is_some_and(|count| job_status.succeeded >= count);
        };
        let indexes = indexes::parse_indexes(indexes);
        let done = api_count(indexes.intersection(&job_status.completed));
        !indexes.is_empty()
            && (done == api_count(&indexes) || count.is_some_and(|count| done >= count))
    };
    let rules = list(job, &["spec", "successPolicy", "rules"]);
    rules.iter().position(is_met).filter(|_| job_status.succeeded > 0)
}

fn is_complete(job: &Value, job_status: &JobStatus) -> bool {
    match number(job, &["spec", "completions"]) {
        Some(completions) => job_status.succeeded >= completions,
        None => job_status.succeeded > 0 && job_status.active.is_empty(),
    }
}

/// Whether in-place container restarts exceed the backoff limit.
fn exceeds_restart_limit(job: &Value, job_status: &JobStatus, limit: i64) -> bool {
    if text(job, &["spec", "template", "spec", "restartPolicy"]) != "OnFailure" {
        return false;
    }
    let containers =
        job_status.active.iter().flat_map(|(_, pod)| list(pod, &["status", "containerStatuses"]));
    let restarts: i64 = containers.map(|one| clamped_count_at(one, &["restartCount"], 0)).sum();
    restarts > 0 && restarts >= limit
}

/// Deletes a finished job after `ttlSecondsAfterFinished`.
pub(super) fn delete_after_ttl(key: &Key, job: &Value, ctx: &Context) -> ReconcileResult {
    let Some(secs) = number(job, &["spec", "ttlSecondsAfterFinished"]) else {
        return ReconcileResult::nothing_to_do();
    };
    let ended = ["Complete", "Failed"].into_iter().find_map(|kind| find_condition(job, kind));
    let ended = ended.and_then(|one| time_at(one, &["lastTransitionTime"])).unwrap_or(ctx.now);
    let due = time_after_secs(ended, secs);
    if ctx.now < due {
        return ReconcileResult::requeue_at(due);
    }
    ReconcileResult::from_writes([ApiRequest::delete_foreground(key, job)])
}
