//! Jobs of a trace as objects that are submitted at once, for decisions that no time changes.

use std::collections::BTreeSet;

use schedlab_api::{Value, object, object_names};
use schedlab_traces::{JobEnd, TraceJob, TraceQueue};

use super::objects::{TargetScheduler, group_objects, queue_object};

/// Parent of the queues that only jobs name.
const PARENT: &str = "trace";

/// The objects of jobs, which never end, after queues that they name and that `queues` lacks. Jobs
/// without a queue are assigned to the leaf queues in turn. Each job has its pod group: pod groups
/// that a scheduler creates meanwhile are of an age that differs from run to run.
pub fn submitted_objects(
    jobs: &mut [TraceJob],
    queues: &[Value],
    scheduler_name: &str,
) -> Vec<Value> {
    let parent = |queue: &Value| object::text(queue, &["spec", "parentQueue"]).to_owned();
    let parents: BTreeSet<String> = queues.iter().map(parent).collect();
    let names = queues.iter().map(|queue| object::name(queue).to_owned());
    let known: BTreeSet<String> = names.collect();
    let mut leaves: Vec<&str> =
        known.iter().filter(|name| !parents.contains(*name)).map(String::as_str).collect();
    if leaves.is_empty() {
        leaves.push(object_names::DEFAULT_QUEUE);
    }
    let without_queue = jobs.iter_mut().filter(|job| job.queue.is_empty());
    for (job, leaf) in without_queue.zip(leaves.iter().cycle()) {
        job.queue = (*leaf).into();
    }
    let named = jobs.iter().map(|job| job.queue.as_str());
    let unknown: BTreeSet<&str> = named.filter(|queue| !known.contains(*queue)).collect();
    let parent = Some(unlimited_queue(PARENT, "")).filter(|_| !unknown.is_empty());
    let parent = parent.filter(|_| !known.contains(PARENT)).into_iter();
    let queues = parent.chain(unknown.into_iter().map(|name| unlimited_queue(name, PARENT)));
    let mut objects: Vec<Value> = queues.map(|queue| queue_object(&queue)).collect();
    let scheduler = TargetScheduler { name: scheduler_name.to_owned(), shares_gpus: true };
    for job in jobs {
        let job = TraceJob { end: JobEnd::Never, ..job.clone() };
        let of_job = group_objects(&job, &job.name, &scheduler);
        objects.extend(of_job.into_iter().map(|(_, object)| object));
    }
    objects
}

fn unlimited_queue(name: &str, parent: &str) -> TraceQueue {
    TraceQueue {
        line: 0,
        name: name.to_owned(),
        parent: parent.to_owned(),
        quota: -1.0,
        weight: 1.0,
        limit: -1.0,
        priority: 100,
    }
}
