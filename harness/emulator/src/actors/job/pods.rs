//! A job's pods: how many run at a time, and which.

use std::time::Duration;

use jiff::Timestamp;

use super::per_index::{FAILURES, IGNORED, Lost};
use super::tally::{INDEX, Tally, ended, index, is_indexed, waits_for_end};
use super::{COMPONENT, TRACKING, dismiss};
use crate::actors::fields::after;
use crate::actors::workload::{
    BURST, cheapest, count_at, counted, create_pod, free_name, free_names, generated_pod, mark,
    set_env, size,
};
use crate::actors::{Context, Step};
use crate::object::{finalizers, name, number, set, uid};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

/// The first wait after a failure; it doubles with every further one.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_mins(10);

/// Makes and stops pods until as many run as should.
pub(super) fn manage(job: &Value, tally: &Tally, ctx: &Context) -> Step {
    let wanted = wanted(job, tally);
    let there = counted(&tally.active);
    if there > wanted {
        let surplus = surplus(job, tally, size(there - wanted));
        let gone = surplus.into_iter().flat_map(|pod| dismiss(pod, job, ctx));
        return Step::of(gone);
    }
    let waited_for = if waits_for_end(job) { counted(&tally.terminating) } else { 0 };
    let missing = size(wanted - there - waited_for).min(BURST);
    if missing == 0 {
        return Step::rest();
    }
    let ready = if tally.per_index.is_some() { Timestamp::MIN } else { backed_off(tally) };
    if ctx.now < ready {
        return Step::at(ready);
    }
    let made = if is_indexed(job) {
        match numbered(job, tally, missing, ctx) {
            Ok(made) => made,
            Err(ready) => return Step::at(ready),
        }
    } else {
        let prefix = format!("{}-", name(job));
        let names = free_names(job, &prefix, missing, ctx);
        names.iter().map(|name| pod(job, [&prefix, name])).collect()
    };
    Step::of(made.into_iter().flat_map(|pod| create_pod(pod, job, COMPONENT, ctx)))
}

/// How many should run.
fn wanted(job: &Value, tally: &Tally) -> i64 {
    let parallel = count_at(job, &["spec", "parallelism"], 1);
    match number(job, &["spec", "completions"]) {
        Some(completions) => parallel.min((completions - tally.succeeded).max(0)),
        // A work queue: the first success says that there is no more work.
        None if tally.succeeded > 0 => parallel.min(counted(&tally.active)),
        None => parallel,
    }
}

/// The pods that are too many: of an indexed job those with the highest indexes.
fn surplus<'v>(job: &Value, tally: &Tally<'v>, count: usize) -> Vec<(&'v Key, &'v Object)> {
    if !is_indexed(job) {
        return cheapest(tally.active.clone(), count);
    }
    let mut all = tally.active.clone();
    all.sort_by_key(|(key, pod)| (std::cmp::Reverse(index(pod)), Key::clone(key)));
    all.truncate(count);
    all
}

/// When the next pod may be made: each failed pod that is still there doubles the wait. Unlike
/// Kubernetes, which remembers, a pod that is gone no longer counts.
fn backed_off(tally: &Tally) -> Timestamp {
    let ends = tally.failures.iter().map(|pod| ended(pod));
    let Some(last) = ends.clone().max() else { return Timestamp::MIN };
    again_after(counted(ends), last)
}

/// When a pod may be made again that failed so often, and then last.
fn again_after(failures: i64, last: Timestamp) -> Timestamp {
    let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX);
    let wait = BACK_OFF.saturating_mul(2_u32.saturating_pow(doublings));
    after(last, wait.min(BACK_OFF_MAX))
}

/// A pod of the job: the prefix of its name, and the name.
fn pod(job: &Value, names: [&str; 2]) -> Value {
    let mut pod = generated_pod(&job["spec"]["template"], job, names);
    let marks = [
        ("batch.kubernetes.io/controller-uid", uid(job)),
        ("batch.kubernetes.io/job-name", name(job)),
        ("controller-uid", uid(job)),
        ("job-name", name(job)),
    ];
    mark(&mut pod, "labels", &marks);
    let mut held: Vec<&str> = finalizers(&job["spec"]["template"]).collect();
    held.push(TRACKING);
    set(&mut pod, &["metadata", "finalizers"], json!(held));
    pod
}

/// Pods for the lowest indexes that nobody is at work on; else when the first of them may have
/// one again.
fn numbered(
    job: &Value,
    tally: &Tally,
    missing: usize,
    ctx: &Context,
) -> Result<Vec<Value>, Timestamp> {
    let taken = tally.taken_indexes(job);
    let all = 0..count_at(job, &["spec", "completions"], 0);
    let free: Vec<i64> = all.filter(|index| !taken.contains(index)).take(missing).collect();
    let ready = |index: &i64| {
        let (failures, last) = tally.per_index.as_ref()?.waits(*index)?;
        Some(again_after(failures, last)).filter(|ready| ctx.now < *ready)
    };
    if let Some(first) = free.iter().map(ready).min().flatten() {
        return Err(first);
    }
    let now = free.iter().filter(|index| ready(index).is_none());
    Ok(now.map(|index| numbered_pod(job, *index, tally, ctx)).collect())
}

fn numbered_pod(job: &Value, index: i64, tally: &Tally, ctx: &Context) -> Value {
    let host = format!("{}-{index}", name(job));
    let prefix = format!("{host}-");
    let pod_name = free_name(&crate::actors::kinds::PODS, job, &prefix, ctx);
    let mut pod = pod(job, [&prefix, &pod_name]);
    let number = index.to_string();
    mark(&mut pod, "annotations", &[(INDEX, &number)]);
    mark(&mut pod, "labels", &[(INDEX, &number)]);
    if let Some(per_index) = &tally.per_index {
        let [failures, ignored] = per_index.held.get(&index).map_or([0, 0], Lost::failures);
        mark(&mut pod, "annotations", &[(FAILURES, &failures.to_string())]);
        if ignored > 0 {
            mark(&mut pod, "annotations", &[(IGNORED, &ignored.to_string())]);
        }
    }
    set(&mut pod, &["spec", "hostname"], json!(host));
    set_env(&mut pod, &[("JOB_COMPLETION_INDEX", number)]);
    pod
}
