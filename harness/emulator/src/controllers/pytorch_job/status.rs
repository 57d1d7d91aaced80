//! The status and the outcome of a PyTorchJob.

use super::PyTorchJobState;
use super::pods::{ROLES, is_failed_pod_retried, pods_of_role, role_replicas, role_spec};
use crate::controllers::workload::{api_count, clamped_count_at};
use crate::reconcile::fields::{Condition, set_condition};
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object};
use schedlab_api::{
    Map, Value, json,
    object::{condition, is_deleting, list, name, remove, set, text},
};

/// The final outcome of a PyTorchJob.
pub(super) struct PyTorchJobOutcome {
    pub(super) kind: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Whether a job has finished.
pub(super) fn has_job_finished(job: &Value) -> bool {
    condition(job, "Succeeded") == Some("True") || condition(job, "Failed") == Some("True")
}

fn count_pods_in_phase(pods: &[(&Key, &Object)], phase: &str) -> i64 {
    let counting = pods.iter().filter(|(_, pod)| !is_deleting(pod));
    api_count(counting.filter(|(_, pod)| text(pod, &["status", "phase"]) == phase))
}

/// The outcome, if it is decided: the master succeeded (or all workers, without a master), a pod
/// failed that is not retried, or the deadline or backoff limit was exceeded.
pub(super) fn decided_outcome(
    job: &PyTorchJobState,
    is_overdue: bool,
) -> Option<PyTorchJobOutcome> {
    let job_name = name(job.object);
    let leader = if role_spec(job.object, "Master").is_some() { "Master" } else { "Worker" };
    let leaders = role_replicas(job.object, leader);
    if leaders > 0 && count_pods_in_phase(&pods_of_role(job, leader), "Succeeded") >= leaders {
        let message = format!("PyTorchJob {job_name} is successfully completed.");
        return Some(PyTorchJobOutcome {
            kind: "Succeeded",
            reason: "PyTorchJobSucceeded",
            message,
        });
    }
    let failed =
        |message| Some(PyTorchJobOutcome { kind: "Failed", reason: "PyTorchJobFailed", message });
    if is_overdue {
        let message = format!(
            "Job {job_name} has failed because it was active longer than specified deadline"
        );
        return failed(message);
    }
    for role in ROLES {
        let pods = pods_of_role(job, role);
        let lost = |pod: &Value| {
            text(pod, &["status", "phase"]) == "Failed"
                && !is_deleting(pod)
                && !is_failed_pod_retried(job.object, role, pod)
        };
        let count = api_count(pods.iter().filter(|(_, pod)| lost(pod)));
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
        .map(|one| clamped_count_at(one, &["restartCount"], 0))
        .sum();
    let limit = schedlab_api::object::number(job.object, &["spec", "runPolicy", "backoffLimit"])?;
    if restarts > 0 && restarts >= limit {
        return failed(format!(
            "Job {job_name} has failed because it has reached the specified backoff limit"
        ));
    }
    None
}

/// Writes the pod counts of each role to the status.
pub(super) fn write_replica_counts(job: &PyTorchJobState, updated: &mut Value) {
    let mut all = Map::new();
    for role_name in ROLES.into_iter().filter(|one| role_spec(job.object, one).is_some()) {
        let pods = pods_of_role(job, role_name);
        let mut counts = Map::new();
        for (field, phase) in
            [("active", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed")]
        {
            let count = count_pods_in_phase(&pods, phase);
            if count > 0 {
                counts.insert(field.to_owned(), json!(count));
            }
        }
        all.insert(role_name.to_owned(), Value::Object(counts));
    }
    set(updated, &["status", "replicaStatuses"], Value::Object(all));
}

/// Counts running pods as succeeded in the status, because the job has succeeded.
pub(super) fn count_all_as_succeeded(updated: &mut Value) {
    for role in ROLES {
        let at = |field| ["status", "replicaStatuses", role, field];
        let Some(active) = remove(updated, &at("active")).and_then(|active| active.as_i64()) else {
            continue;
        };
        let succeeded = clamped_count_at(updated, &at("succeeded"), 0) + active;
        set(updated, &at("succeeded"), json!(succeeded));
    }
}

/// The status update of a job that has not finished.
pub(super) fn sync_status(job: &PyTorchJobState, ctx: &Context) -> Option<ApiRequest> {
    let mut seen = Value::clone(job.object);
    write_replica_counts(job, &mut seen);
    let running: i64 =
        ROLES.iter().map(|role| count_pods_in_phase(&pods_of_role(job, role), "Running")).sum();
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
    ApiRequest::status_update(job.key, job.object, seen)
}
