//! Creation and deletion of the pods of a job.

use std::time::Duration;

use jiff::Timestamp;

use super::index_backoff::{FAILURE_COUNT_ANNOTATION, FailedPod, IGNORED_FAILURE_COUNT_ANNOTATION};
use super::job_status::{
    COMPLETION_INDEX_ANNOTATION, JobStatus, completion_index, finish_time, is_in_range, is_indexed,
    replaces_only_terminated,
};
use super::scheduling::{group_of, join_group};
use super::{COMPONENT, TRACKING_FINALIZER, delete_uncounted};
use crate::controllers::workload::{
    NEW_PODS_MAX, api_count, clamped_count_at, create_pod, free_object_name, free_pod_names,
    pod_with_generated_name, pods_to_delete, set_env, set_metadata_entries, to_usize,
};
use crate::reconcile::fields::time_after;
use crate::reconcile::{Context, ReconcileResult};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{finalizers, name, number, set, uid},
};

/// The delay after the first failure of a pod. The delay doubles with every further failure.
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_mins(10);

/// Creates or deletes pods to reach the desired number of active pods.
pub(super) fn sync_pods(job: &Value, job_status: &JobStatus, ctx: &Context) -> ReconcileResult {
    let desired = desired_active_pods(job, job_status);
    let existing = api_count(&job_status.active);
    let surplus = surplus_pods(job, job_status, to_usize(existing - desired));
    if !surplus.is_empty() {
        let gone = surplus.into_iter().flat_map(|(key, pod)| delete_uncounted(key, pod, job, ctx));
        return ReconcileResult::from_writes(gone);
    }
    let waited_for =
        if replaces_only_terminated(job) { api_count(&job_status.terminating) } else { 0 };
    let missing = to_usize(desired - existing - waited_for).min(NEW_PODS_MAX);
    if missing == 0 {
        return ReconcileResult::nothing_to_do();
    }
    let ready =
        if job_status.per_index.is_some() { Timestamp::MIN } else { backoff_end(job_status) };
    if ctx.now < ready {
        return ReconcileResult::requeue_at(ready);
    }
    let made = if is_indexed(job) {
        match new_indexed_pods(job, job_status, missing, ctx) {
            Ok(made) => made,
            Err(ready) => return ReconcileResult::requeue_at(ready),
        }
    } else {
        let prefix = format!("{}-", name(job));
        let names = free_pod_names(job, &prefix, missing, ctx);
        names.iter().map(|name| new_pod(job, [&prefix, name])).collect()
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
fn desired_active_pods(job: &Value, job_status: &JobStatus) -> i64 {
    let parallel = clamped_count_at(job, &["spec", "parallelism"], 1);
    match number(job, &["spec", "completions"]) {
        Some(completions) => parallel.min((completions - job_status.succeeded).max(0)),
        // In a work queue, the first success means that no work is left.
        None if job_status.succeeded > 0 => parallel.min(api_count(&job_status.active)),
        None => parallel,
    }
}

/// The pods to delete. In an indexed Job these are the pods with the highest indexes, and those
/// with indexes beyond `completions`.
fn surplus_pods<'v>(
    job: &Value,
    job_status: &JobStatus<'v>,
    count: usize,
) -> Vec<(&'v Key, &'v Object)> {
    let is_beyond = |pod: &Value| {
        is_indexed(job) && completion_index(pod).is_some_and(|index| !is_in_range(job, index))
    };
    let beyond = job_status.active.iter().filter(|(_, pod)| is_beyond(pod)).count();
    let count = count.max(beyond);
    if count == 0 {
        return Vec::new();
    }
    if !is_indexed(job) {
        return pods_to_delete(job_status.active.clone(), count);
    }
    let mut all = job_status.active.clone();
    all.sort_by_key(|(key, pod)| (std::cmp::Reverse(completion_index(pod)), Key::clone(key)));
    all.truncate(count);
    all
}

/// The time from which the next pod may be created: each existing failed pod doubles the delay.
/// Unlike in Kubernetes, deleted pods do not count.
fn backoff_end(job_status: &JobStatus) -> Timestamp {
    let ends = job_status.failures.iter().map(|pod| finish_time(pod));
    let Some(last) = ends.clone().max() else { return Timestamp::MIN };
    retry_time(api_count(ends), last)
}

/// The time from which a pod may be created again after `failures` failures.
fn retry_time(failures: i64, last_failure: Timestamp) -> Timestamp {
    let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX);
    let wait = BACKOFF_FIRST.saturating_mul(2_u32.saturating_pow(doublings));
    time_after(last_failure, wait.min(BACKOFF_MAX))
}

/// A new pod of the Job. `names` are the prefix of the pod's name (`generateName`) and the name
/// itself.
fn new_pod(job: &Value, names: [&str; 2]) -> Value {
    let mut pod = pod_with_generated_name(&job["spec"]["template"], job, names);
    let marks = [
        ("batch.kubernetes.io/controller-uid", uid(job)),
        ("batch.kubernetes.io/job-name", name(job)),
        ("controller-uid", uid(job)),
        ("job-name", name(job)),
    ];
    set_metadata_entries(&mut pod, "labels", &marks);
    let mut held: Vec<&str> = finalizers(&job["spec"]["template"]).collect();
    held.push(TRACKING_FINALIZER);
    set(&mut pod, &["metadata", "finalizers"], json!(held));
    pod
}

/// New pods for the lowest free indexes, or the time of the first possible retry.
fn new_indexed_pods(
    job: &Value,
    job_status: &JobStatus,
    missing: usize,
    ctx: &Context,
) -> Result<Vec<Value>, Timestamp> {
    let taken = job_status.occupied_indexes(job);
    let all = 0..clamped_count_at(job, &["spec", "completions"], 0);
    let free: Vec<i64> = all.filter(|index| !taken.contains(index)).take(missing).collect();
    let ready = |index: &i64| {
        let (failures, last) = job_status.per_index.as_ref()?.retry_state(*index)?;
        Some(retry_time(failures, last)).filter(|ready| ctx.now < *ready)
    };
    if let Some(first) = free.iter().map(ready).min().flatten() {
        return Err(first);
    }
    let now = free.iter().filter(|index| ready(index).is_none());
    Ok(now.map(|index| new_indexed_pod(job, *index, job_status, ctx)).collect())
}

fn new_indexed_pod(job: &Value, index: i64, job_status: &JobStatus, ctx: &Context) -> Value {
    let host = format!("{}-{index}", name(job));
    let prefix = format!("{host}-");
    let pod_name = free_object_name(&crate::reconcile::resources::PODS, job, &prefix, ctx);
    let mut pod = new_pod(job, [&prefix, &pod_name]);
    let number = index.to_string();
    set_metadata_entries(&mut pod, "annotations", &[(COMPLETION_INDEX_ANNOTATION, &number)]);
    set_metadata_entries(&mut pod, "labels", &[(COMPLETION_INDEX_ANNOTATION, &number)]);
    if let Some(per_index) = &job_status.per_index {
        let [failures, ignored] =
            per_index.awaiting_retry.get(&index).map_or([0, 0], FailedPod::failure_counts);
        set_metadata_entries(
            &mut pod,
            "annotations",
            &[(FAILURE_COUNT_ANNOTATION, &failures.to_string())],
        );
        if ignored > 0 {
            set_metadata_entries(
                &mut pod,
                "annotations",
                &[(IGNORED_FAILURE_COUNT_ANNOTATION, &ignored.to_string())],
            );
        }
    }
    set(&mut pod, &["spec", "hostname"], json!(host));
    set_env(&mut pod, &[("JOB_COMPLETION_INDEX", number)]);
    pod
}
