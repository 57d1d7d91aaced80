//! How a PyTorchJob stands and how it ends.

use super::Job;
use super::pods::{ROLES, is_retried, of_role, replicas, role};
use crate::actors::fields::{Condition, set_condition};
use crate::actors::workload::{count_at, counted};
use crate::actors::{Context, Request};
use crate::object::{condition, is_deleting, list, name, remove, set, text};
use crate::store::{Key, Object};
use schedlab_json::{Map, Value, json};

/// How a job ends.
pub(super) struct Verdict {
    pub(super) kind: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Whether a job has come to its end.
pub(super) fn is_done(job: &Value) -> bool {
    condition(job, "Succeeded") == Some("True") || condition(job, "Failed") == Some("True")
}

fn in_phase(pods: &[(&Key, &Object)], phase: &str) -> i64 {
    let counting = pods.iter().filter(|(_, pod)| !is_deleting(pod));
    counted(counting.filter(|(_, pod)| text(pod, &["status", "phase"]) == phase))
}

/// The end of a job, when it has come: the master's success, or without a master that of all
/// workers; the failure of a pod that is not tried again; the deadline.
pub(super) fn verdict(job: &Job, overdue: bool) -> Option<Verdict> {
    let job_name = name(job.object);
    let leader = if role(job.object, "Master").is_some() { "Master" } else { "Worker" };
    let leaders = replicas(job.object, leader);
    if leaders > 0 && in_phase(&of_role(job, leader), "Succeeded") >= leaders {
        let message = format!("PyTorchJob {job_name} is successfully completed.");
        return Some(Verdict { kind: "Succeeded", reason: "PyTorchJobSucceeded", message });
    }
    let failed = |message| Some(Verdict { kind: "Failed", reason: "PyTorchJobFailed", message });
    if overdue {
        let message = format!(
            "Job {job_name} has failed because it was active longer than specified deadline"
        );
        return failed(message);
    }
    for role in ROLES {
        let pods = of_role(job, role);
        let lost = |pod: &Value| {
            text(pod, &["status", "phase"]) == "Failed"
                && !is_deleting(pod)
                && !is_retried(job.object, role, pod)
        };
        let count = counted(pods.iter().filter(|(_, pod)| lost(pod)));
        if count > 0 {
            let message = format!(
                "PyTorchJob {job_name} is failed because {count} {role} replica(s) failed."
            );
            return failed(message);
        }
    }
    let restarts: i64 = job
        .pods
        .iter()
        .flat_map(|(_, pod)| list(pod, &["status", "containerStatuses"]))
        .map(|one| count_at(one, &["restartCount"], 0))
        .sum();
    let limit = crate::object::number(job.object, &["spec", "runPolicy", "backoffLimit"])?;
    if restarts > 0 && restarts >= limit {
        return failed(format!(
            "Job {job_name} has failed because it has reached the specified backoff limit"
        ));
    }
    None
}

/// Counts the pods of each role.
pub(super) fn count(job: &Job, seen: &mut Value) {
    let mut all = Map::new();
    for role_name in ROLES.into_iter().filter(|one| role(job.object, one).is_some()) {
        let pods = of_role(job, role_name);
        let mut counts = Map::new();
        for (field, phase) in
            [("active", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed")]
        {
            let count = in_phase(&pods, phase);
            if count > 0 {
                counts.insert(field.to_owned(), json!(count));
            }
        }
        all.insert(role_name.to_owned(), Value::Object(counts));
    }
    set(seen, &["status", "replicaStatuses"], Value::Object(all));
}

/// The pods that still run when a job has succeeded count with those that have.
pub(super) fn count_all_as_succeeded(seen: &mut Value) {
    for role in ROLES {
        let at = |field| ["status", "replicaStatuses", role, field];
        let Some(active) = remove(seen, &at("active")).and_then(|active| active.as_i64()) else {
            continue;
        };
        let succeeded = count_at(seen, &at("succeeded"), 0) + active;
        set(seen, &at("succeeded"), json!(succeeded));
    }
}

/// The status of a job on its way.
pub(super) fn observe(job: &Job, ctx: &Context) -> Option<Request> {
    let mut seen = Value::clone(job.object);
    count(job, &mut seen);
    let running: i64 = ROLES.iter().map(|role| in_phase(&of_role(job, role), "Running")).sum();
    if running > 0 {
        let message = format!("PyTorchJob {} is running.", name(job.object));
        let condition = Condition {
            kind: "Running",
            status: "True",
            reason: "PyTorchJobRunning",
            message: &message,
        };
        set_condition(&mut seen, &condition, ctx.now);
    }
    Request::status(job.key, job.object, seen)
}
