//! Creation and deletion of the pods of a job.

use std::time::Duration;

use jiff::Timestamp;

use super::index_backoff::{FAILURES, FailedPod, IGNORED};
use super::job_status::{
    INDEX, JobStatus, finish_time, index, is_in_range, is_indexed, replaces_only_terminated,
};
use super::scheduling::{group_of, join_group};
use super::{COMPONENT, TRACKING_FINALIZER, delete_uncounted};
use crate::controllers::workload::{
    BURST, api_count, count_at, create_pod, free_name, free_names, generated_pod, pods_to_delete,
    set_entries, set_env, to_size,
};
use crate::reconcile::fields::time_after;
use crate::reconcile::{Context, ReconcileResult};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{finalizers, name, number, set, uid},
};

/// The delay after the first failure; it doubles with every further one.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_mins(10);

/// Creates or deletes pods to reach the desired number of active pods.
pub(super) fn sync_pods(job: &Value, job_status: &JobStatus, ctx: &Context) -> ReconcileResult {
    let desired = desired_active(job, job_status);
    let existing = api_count(&job_status.active);
    let surplus = surplus(job, job_status, to_size(existing - desired));
    if !surplus.is_empty() {
        let gone = surplus.into_iter().flat_map(|(key, pod)| delete_uncounted(key, pod, job, ctx));
        return ReconcileResult::from_writes(gone);
    }
    let waited_for =
        if replaces_only_terminated(job) { api_count(&job_status.terminating) } else { 0 };
    let missing = to_size(desired - existing - waited_for).min(BURST);
    if missing == 0 {
        return ReconcileResult::done();
    }
    let ready =
        if job_status.per_index.is_some() { Timestamp::MIN } else { backoff_end(job_status) };
    if ctx.now < ready {
        return ReconcileResult::requeue_at(ready);
    }
    let made = if is_indexed(job) {
        match indexed_pods(job, job_status, missing, ctx) {
            Ok(made) => made,
            Err(ready) => return ReconcileResult::requeue_at(ready),
        }
    } else {
        let prefix = format!("{}-", name(job));
        let names = free_names(job, &prefix, missing, ctx);
        names.iter().map(|name| pod(job, [&prefix, name])).collect()
    };
    let group = group_of(job, ctx);
    let made = made.into_iter().map(|mut pod| {
        if let Some(group) = group {
            join_group(&mut pod, group);
        }
        pod
    });
    ReconcileResult::from_writes(made.flat_map(|pod| create_pod(pod, job, COMPONENT, ctx)))
}

/// The desired number of active pods.
fn desired_active(job: &Value, job_status: &JobStatus) -> i64 {
    let parallel = count_at(job, &["spec", "parallelism"], 1);
    match number(job, &["spec", "completions"]) {
        Some(completions) => parallel.min((completions - job_status.succeeded).max(0)),
        // In a work queue, the first success means that no work is left.
        None if job_status.succeeded > 0 => parallel.min(api_count(&job_status.active)),
        None => parallel,
    }
}

/// The pods to delete; in an indexed job those with the highest indexes, and those with indexes
/// beyond its completions.
fn surplus<'v>(
    job: &Value,
    job_status: &JobStatus<'v>,
    count: usize,
) -> Vec<(&'v Key, &'v Object)> {
    let is_beyond =
        |pod: &Value| is_indexed(job) && index(pod).is_some_and(|index| !is_in_range(job, index));
    let beyond = job_status.active.iter().filter(|(_, pod)| is_beyond(pod)).count();
    let count = count.max(beyond);
    if count == 0 {
        return Vec::new();
    }
    if !is_indexed(job) {
        return pods_to_delete(job_status.active.clone(), count);
    }
    let mut all = job_status.active.clone();
    all.sort_by_key(|(key, pod)| (std::cmp::Reverse(index(pod)), Key::clone(key)));
    all.truncate(count);
    all
}

/// When the next pod may be created: each existing failed pod doubles the delay. Unlike in
/// Kubernetes, deleted pods do not count.
fn backoff_end(job_status: &JobStatus) -> Timestamp {
    let ends = job_status.failures.iter().map(|pod| finish_time(pod));
    let Some(last) = ends.clone().max() else { return Timestamp::MIN };
    retry_time(api_count(ends), last)
}

/// When a pod may be created again after a number of failures.
fn retry_time(failures: i64, last: Timestamp) -> Timestamp {
    let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX);
    let wait = BACK_OFF.saturating_mul(2_u32.saturating_pow(doublings));
    time_after(last, wait.min(BACK_OFF_MAX))
}

/// A new pod of the job. `names` are the prefix of its name and the name.
fn pod(job: &Value, names: [&str; 2]) -> Value {
    let mut pod = generated_pod(&job["spec"]["template"], job, names);
    let marks = [
        ("batch.kubernetes.io/controller-uid", uid(job)),
        ("batch.kubernetes.io/job-name", name(job)),
        ("controller-uid", uid(job)),
        ("job-name", name(job)),
    ];
    set_entries(&mut pod, "labels", &marks);
    let mut held: Vec<&str> = finalizers(&job["spec"]["template"]).collect();
    held.push(TRACKING_FINALIZER);
    set(&mut pod, &["metadata", "finalizers"], json!(held));
    pod
}

/// New pods for the lowest free indexes, or the time of the first possible retry.
fn indexed_pods(
    job: &Value,
    job_status: &JobStatus,
    missing: usize,
    ctx: &Context,
) -> Result<Vec<Value>, Timestamp> {
    let taken = job_status.occupied_indexes(job);
    let all = 0..count_at(job, &["spec", "completions"], 0);
    let free: Vec<i64> = all.filter(|index| !taken.contains(index)).take(missing).collect();
    let ready = |index: &i64| {
        let (failures, last) = job_status.per_index.as_ref()?.retry_state(*index)?;
        Some(retry_time(failures, last)).filter(|ready| ctx.now < *ready)
    };
    if let Some(first) = free.iter().map(ready).min().flatten() {
        return Err(first);
    }
    let now = free.iter().filter(|index| ready(index).is_none());
    Ok(now.map(|index| indexed_pod(job, *index, job_status, ctx)).collect())
}

fn indexed_pod(job: &Value, index: i64, job_status: &JobStatus, ctx: &Context) -> Value {
    let host = format!("{}-{index}", name(job));
    let prefix = format!("{host}-");
    let pod_name = free_name(&crate::reconcile::resources::PODS, job, &prefix, ctx);
    let mut pod = pod(job, [&prefix, &pod_name]);
    let number = index.to_string();
    set_entries(&mut pod, "annotations", &[(INDEX, &number)]);
    set_entries(&mut pod, "labels", &[(INDEX, &number)]);
    if let Some(per_index) = &job_status.per_index {
        let [failures, ignored] =
            per_index.awaiting_retry.get(&index).map_or([0, 0], FailedPod::failures);
        set_entries(&mut pod, "annotations", &[(FAILURES, &failures.to_string())]);
        if ignored > 0 {
            set_entries(&mut pod, "annotations", &[(IGNORED, &ignored.to_string())]);
        }
    }
    set(&mut pod, &["spec", "hostname"], json!(host));
    set_env(&mut pod, &[("JOB_COMPLETION_INDEX", number)]);
    pod
}
