//! The status of a JobSet.

use super::{JobSetState, is_suspended};
use crate::controllers::workload::{api_count, clamped_count_at};
use crate::reconcile::fields::{Condition, set_condition};
use crate::reconcile::{ApiRequest, Context};
use schedlab_api::{
    Value, json, labels,
    object::{condition, label, list, set, text},
};

/// The status update of a JobSet that has not finished.
pub(super) fn sync_status(job_set: &JobSetState, ctx: &Context) -> Option<ApiRequest> {
    let mut seen = Value::clone(job_set.object);
    write_replicated_job_counts(job_set, &mut seen);
    let current = condition(job_set.object, "Suspended");
    let suspended = is_suspended(job_set.object);
    if suspended || current == Some("True") {
        let (status, reason, message) = if suspended {
            ("True", "SuspendedJobs", "jobset is suspended")
        } else {
            ("False", "ResumeJobs", "jobset is resumed")
        };
        set_condition(
            &mut seen,
            &Condition { kind: "Suspended", status, reason, message },
            ctx.now,
        );
    }
    ApiRequest::status_update(job_set.key, job_set.object, seen)
}

/// Writes the counts of each replicated job.
pub(super) fn write_replicated_job_counts(job_set: &JobSetState, updated: &mut Value) {
    let groups = list(job_set.object, &["spec", "replicatedJobs"]).iter();
    let all: Vec<Value> = groups.map(|group| replicated_job_status(job_set, group)).collect();
    set(updated, &["status", "restarts"], json!(job_set.restarts));
    set(updated, &["status", "replicatedJobsStatus"], Value::Array(all));
}

fn replicated_job_status(job_set: &JobSetState, group: &Value) -> Value {
    let group_name = text(group, &["name"]);
    let jobs = || {
        let all = job_set.jobs.iter().map(|(_, job)| job);
        all.filter(|job| label(job, labels::JOB_SET_REPLICATED_JOB) == Some(group_name))
    };
    let in_state = |kind| api_count(jobs().filter(|job| condition(job, kind) == Some("True")));
    let is_ready = |job: &Value| {
        let parallelism = clamped_count_at(job, &["spec", "parallelism"], 1);
        clamped_count_at(job, &["status", "ready"], 0)
            + clamped_count_at(job, &["status", "succeeded"], 0)
            >= parallelism
    };
    json!({
        "name": group_name,
        "ready": api_count(jobs().filter(|job| is_ready(job))),
        "succeeded": in_state("Complete"),
        "failed": in_state("Failed"),
        "active": api_count(jobs().filter(|job| clamped_count_at(job, &["status", "active"], 0) > 0)),
        "suspended": in_state("Suspended"),
    })
}
