//! What a set says of its jobs.

use super::{REPLICATED, Set, is_suspended};
use crate::actors::fields::{Condition, set_condition};
use crate::actors::workload::{count_at, counted};
use crate::actors::{Context, Request};
use crate::object::{condition, label, list, set, text};
use schedlab_json::{Value, json};

/// The status of a set on its way.
pub(super) fn observe(job_set: &Set, ctx: &Context) -> Option<Request> {
    let mut seen = Value::clone(job_set.object);
    write(job_set, &mut seen);
    let said = condition(job_set.object, "Suspended");
    let suspended = is_suspended(job_set.object);
    if suspended || said == Some("True") {
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
    Request::status(job_set.key, job_set.object, seen)
}

/// Counts the jobs of each group.
pub(super) fn write(job_set: &Set, seen: &mut Value) {
    let groups = list(job_set.object, &["spec", "replicatedJobs"]).iter();
    let all: Vec<Value> = groups.map(|group| group_status(job_set, group)).collect();
    set(seen, &["status", "restarts"], json!(job_set.restarts));
    set(seen, &["status", "replicatedJobsStatus"], Value::Array(all));
}

fn group_status(job_set: &Set, group: &Value) -> Value {
    let group_name = text(group, &["name"]);
    let jobs = || {
        let all = job_set.jobs.iter().map(|(_, job)| job);
        all.filter(|job| label(job, REPLICATED) == Some(group_name))
    };
    let in_state = |kind| counted(jobs().filter(|job| condition(job, kind) == Some("True")));
    let is_ready = |job: &Value| {
        let wanted = count_at(job, &["spec", "parallelism"], 1);
        count_at(job, &["status", "ready"], 0) + count_at(job, &["status", "succeeded"], 0)
            >= wanted
    };
    json!({
        "name": group_name,
        "ready": counted(jobs().filter(|job| is_ready(job))),
        "succeeded": in_state("Complete"),
        "failed": in_state("Failed"),
        "active": counted(jobs().filter(|job| count_at(job, &["status", "active"], 0) > 0)),
        "suspended": in_state("Suspended"),
    })
}
