//! The jobs of a JobSet.

use super::{JobSetState, RESTART_ATTEMPT_LABEL, is_suspended};
use crate::controllers::job::has_job_finished;
use crate::controllers::workload::{clamped_count_at, object_from_template, set_metadata_entries};
use crate::reconcile::resources::JOBS;
use crate::reconcile::{ApiRequest, Context};
use schedlab_api::{
    Value, json, labels,
    object::{list, name, set, set_default, text},
};

/// The desired jobs of a JobSet.
pub(super) fn desired_jobs(job_set: &Value) -> Vec<Value> {
    let restarts = clamped_count_at(job_set, &["status", "restarts"], 0).to_string();
    let groups = list(job_set, &["spec", "replicatedJobs"]);
    let total: i64 = groups.iter().map(|group| clamped_count_at(group, &["replicas"], 1)).sum();
    let mut all = Vec::new();
    for group in groups {
        for index in 0..clamped_count_at(group, &["replicas"], 1) {
            let position = JobPosition { index, global: all.len(), total, restarts: &restarts };
            all.push(new_job(job_set, group, &position));
        }
    }
    all
}

/// The position of a job in its JobSet.
struct JobPosition<'a> {
    /// The index of the job in its replicated job.
    index: i64,
    /// The index of the job among all jobs of the JobSet.
    global: usize,
    /// The number of all jobs of the JobSet.
    total: i64,
    restarts: &'a str,
}

fn new_job(job_set: &Value, group: &Value, position: &JobPosition) -> Value {
    let group_name = text(group, &["name"]);
    let job_name = format!("{}-{group_name}-{}", name(job_set), position.index);
    let marks = [
        (labels::JOB_SET_NAME, name(job_set)),
        ("jobset.sigs.k8s.io/jobset-uid", schedlab_api::object::uid(job_set)),
        (labels::JOB_SET_REPLICATED_JOB, group_name),
        (
            "jobset.sigs.k8s.io/replicatedjob-replicas",
            &clamped_count_at(group, &["replicas"], 1).to_string(),
        ),
        (labels::JOB_SET_JOB_INDEX, &position.index.to_string()),
        ("jobset.sigs.k8s.io/job-global-index", &position.global.to_string()),
        ("jobset.sigs.k8s.io/global-replicas", &position.total.to_string()),
        (RESTART_ATTEMPT_LABEL, position.restarts),
    ];
    let mut made = object_from_template(&group["template"], job_set, &job_name);
    set(&mut made, &["apiVersion"], json!("batch/v1"));
    set(&mut made, &["kind"], json!("Job"));
    set_default(&mut made, &["spec", "completionMode"], "Indexed");
    set(&mut made, &["spec", "suspend"], json!(is_suspended(job_set)));
    let template = &mut made["spec"]["template"];
    for field in ["labels", "annotations"] {
        set_metadata_entries(template, field, &marks);
    }
    set_default(template, &["spec", "subdomain"], name(job_set));
    set_default(template, &["spec", "restartPolicy"], "OnFailure");
    for field in ["labels", "annotations"] {
        set_metadata_entries(&mut made, field, &marks);
    }
    let parallelism = clamped_count_at(&made, &["spec", "parallelism"], 1);
    set_default(&mut made, &["spec", "parallelism"], parallelism);
    set_default(&mut made, &["spec", "completions"], parallelism);
    made
}

/// Creates missing jobs, suspends, resumes and resizes existing ones, and deletes surplus ones.
pub(super) fn sync_jobs(job_set: &JobSetState, _: &Context) -> Vec<ApiRequest> {
    let all = desired_jobs(job_set.object);
    let is_desired = |job: &Value| all.iter().any(|desired| name(desired) == name(job));
    let surplus = job_set.jobs.iter().filter(|(_, job)| !is_desired(job));
    let mut writes: Vec<ApiRequest> =
        surplus.map(|(key, job)| ApiRequest::delete_foreground(key, job)).collect();
    for desired in all {
        let has_name = |job: &Value| name(job) == name(&desired);
        // A job from before the restart occupies the name until its pods are gone.
        if job_set.stale.iter().any(|(_, job)| has_name(job)) {
            continue;
        }
        let Some((key, job)) = job_set.jobs.iter().find(|(_, job)| has_name(job)) else {
            writes.push(ApiRequest::create(&JOBS, desired));
            continue;
        };
        let changed = with_size_and_suspend(job, &desired);
        if !has_job_finished(job) && changed != ***job {
            writes.push(ApiRequest::update(key, changed));
        }
    }
    writes
}

/// The existing job with `suspend` and the size of the desired job. Only an indexed job changes its
/// size, as with the feature gate `ElasticJobSet`.
fn with_size_and_suspend(job: &Value, desired: &Value) -> Value {
    let is_indexed = text(job, &["spec", "completionMode"]) == "Indexed";
    let sizes: &[&str] = if is_indexed { &["parallelism", "completions"] } else { &[] };
    let mut changed = job.clone();
    if is_suspended(job) != is_suspended(desired) {
        set(&mut changed, &["spec", "suspend"], desired["spec"]["suspend"].clone());
    }
    for field in sizes {
        set(&mut changed, &["spec", field], desired["spec"][field].clone());
    }
    changed
}
