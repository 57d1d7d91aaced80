//! The jobs of a set.

use super::{ATTEMPT, REPLICATED, Set, is_suspended, with_suspend};
use crate::actors::kinds::JOBS;
use crate::actors::workload::{count_at, from_template, mark};
use crate::actors::{Context, Request};
use crate::object::{list, name, set, set_default, text};
use schedlab_json::{Value, json};

/// The jobs a set should have, as they would be made now.
pub(super) fn wanted(job_set: &Value) -> Vec<Value> {
    let restarts = count_at(job_set, &["status", "restarts"], 0).to_string();
    let groups = list(job_set, &["spec", "replicatedJobs"]);
    let total: i64 = groups.iter().map(|group| count_at(group, &["replicas"], 1)).sum();
    let mut all = Vec::new();
    for group in groups {
        for index in 0..count_at(group, &["replicas"], 1) {
            let place = Place { index, global: all.len(), total, restarts: &restarts };
            all.push(job(job_set, group, &place));
        }
    }
    all
}

/// Where a job stands in its set.
struct Place<'a> {
    /// Among the jobs of its group.
    index: i64,
    /// Among all.
    global: usize,
    /// How many there are.
    total: i64,
    restarts: &'a str,
}

fn job(job_set: &Value, group: &Value, place: &Place) -> Value {
    let group_name = text(group, &["name"]);
    let job_name = format!("{}-{group_name}-{}", name(job_set), place.index);
    let marks = [
        ("jobset.sigs.k8s.io/jobset-name", name(job_set)),
        ("jobset.sigs.k8s.io/jobset-uid", crate::object::uid(job_set)),
        (REPLICATED, group_name),
        (
            "jobset.sigs.k8s.io/replicatedjob-replicas",
            &count_at(group, &["replicas"], 1).to_string(),
        ),
        ("jobset.sigs.k8s.io/job-index", &place.index.to_string()),
        ("jobset.sigs.k8s.io/job-global-index", &place.global.to_string()),
        ("jobset.sigs.k8s.io/global-replicas", &place.total.to_string()),
        (ATTEMPT, place.restarts),
    ];
    let mut made = from_template(&group["template"], job_set, &job_name);
    set(&mut made, &["apiVersion"], json!("batch/v1"));
    set(&mut made, &["kind"], json!("Job"));
    set_default(&mut made, &["spec", "completionMode"], "Indexed");
    set(&mut made, &["spec", "suspend"], json!(is_suspended(job_set)));
    let template = &mut made["spec"]["template"];
    for field in ["labels", "annotations"] {
        mark(template, field, &marks);
    }
    set_default(template, &["spec", "subdomain"], name(job_set));
    set_default(template, &["spec", "restartPolicy"], "OnFailure");
    for field in ["labels", "annotations"] {
        mark(&mut made, field, &marks);
    }
    let parallelism = count_at(&made, &["spec", "parallelism"], 1);
    set_default(&mut made, &["spec", "parallelism"], parallelism);
    set_default(&mut made, &["spec", "completions"], parallelism);
    made
}

/// Makes the jobs that are missing, and suspends or resumes those that are there.
pub(super) fn keep(job_set: &Set, _: &Context) -> Vec<Request> {
    let mut writes = Vec::new();
    for wanted in wanted(job_set.object) {
        let is_it = |job: &Value| name(job) == name(&wanted);
        // A job of an earlier attempt holds the name until its pods are gone.
        if job_set.stale.iter().any(|(_, job)| is_it(job)) {
            continue;
        }
        let Some((key, job)) = job_set.jobs.iter().find(|(_, job)| is_it(job)) else {
            writes.push(Request::create(&JOBS, wanted));
            continue;
        };
        if is_suspended(job) != is_suspended(job_set.object) {
            let suspend = json!(is_suspended(job_set.object));
            writes.push(Request::update(key, with_suspend(job, &suspend)));
        }
    }
    writes
}
