//! How a job ends, and what becomes of it then.

use serde_json::{Value, json};

use super::tally::Tally;
use super::{COMPONENT, deadline};
use crate::actors::fields::{Condition, after_secs, find_condition, set_condition, stamp, time};
use crate::actors::step::Notice;
use crate::actors::workload::{count_at, delete_pod};
use crate::actors::{Context, Request, Step};
use crate::object::{condition, list, number, set, text};
use crate::store::{Key, Object};

/// Why a job ends.
#[derive(Clone, Copy)]
enum Verdict {
    Complete,
    Failed { reason: &'static str, message: &'static str },
}

/// Ends a job whose end has come: says why, stops its pods, and closes it when they are gone.
pub(super) fn finish(key: &Key, job: &Object, tally: &Tally, ctx: &Context) -> Option<Step> {
    let verdict = verdict(job, tally, ctx)?;
    let (target, done) = match verdict {
        Verdict::Complete => ("SuccessCriteriaMet", "Complete"),
        Verdict::Failed { .. } => ("FailureTarget", "Failed"),
    };
    let mut ended = Value::clone(job);
    tally.write(&mut ended);
    let (reason, message) = words(verdict);
    let say = |kind| Condition { kind, status: "True", reason, message };
    set_condition(&mut ended, &say(target), ctx.now);
    let mut writes: Vec<Request> =
        tally.active.iter().flat_map(|pod| delete_pod(*pod, job, COMPONENT, ctx)).collect();
    if tally.active.is_empty() && tally.terminating.is_empty() {
        set_condition(&mut ended, &say(done), ctx.now);
        if let Verdict::Complete = verdict {
            set(&mut ended, &["status", "completionTime"], json!(stamp(ctx.now)));
        }
        writes.extend(notice(verdict).about(job, ctx));
    }
    writes.extend(Request::status(key, job, ended));
    Some(Step::of(writes))
}

fn words(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Complete => ("CompletionsReached", "Reached expected number of succeeded pods"),
        Verdict::Failed { reason, message } => (reason, message),
    }
}

fn notice(verdict: Verdict) -> Notice<'static> {
    match verdict {
        Verdict::Complete => Notice {
            component: COMPONENT,
            kind: "Normal",
            reason: "Completed",
            message: "Job completed".to_owned(),
        },
        Verdict::Failed { reason, message } => {
            Notice { component: COMPONENT, kind: "Warning", reason, message: message.to_owned() }
        }
    }
}

fn verdict(job: &Value, tally: &Tally, ctx: &Context) -> Option<Verdict> {
    if condition(job, "SuccessCriteriaMet") == Some("True") || completed(job, tally) {
        return Some(Verdict::Complete);
    }
    let overdue = Verdict::Failed {
        reason: "DeadlineExceeded",
        message: "Job was active longer than specified deadline",
    };
    let beyond = Verdict::Failed {
        reason: "BackoffLimitExceeded",
        message: "Job has reached the specified backoff limit",
    };
    let target = find_condition(job, "FailureTarget").map(|one| text(one, &["reason"]));
    match target {
        Some("DeadlineExceeded") => return Some(overdue),
        Some(_) => return Some(beyond),
        None => {}
    }
    if deadline(job).is_some_and(|deadline| deadline <= ctx.now) {
        return Some(overdue);
    }
    let limit = count_at(job, &["spec", "backoffLimit"], 6);
    (tally.failed > limit || restarts_beyond(job, tally, limit)).then_some(beyond)
}

fn completed(job: &Value, tally: &Tally) -> bool {
    match number(job, &["spec", "completions"]) {
        Some(completions) => tally.succeeded >= completions,
        None => tally.succeeded > 0 && tally.active.is_empty(),
    }
}

/// Whether containers that are restarted in place have failed too often.
fn restarts_beyond(job: &Value, tally: &Tally, limit: i64) -> bool {
    if text(job, &["spec", "template", "spec", "restartPolicy"]) != "OnFailure" {
        return false;
    }
    let containers =
        tally.active.iter().flat_map(|(_, pod)| list(pod, &["status", "containerStatuses"]));
    let restarts: i64 = containers.map(|one| count_at(one, &["restartCount"], 0)).sum();
    restarts > 0 && restarts >= limit
}

/// Deletes a job that ended long enough ago.
pub(super) fn expire(key: &Key, job: &Value, ctx: &Context) -> Step {
    let Some(secs) = number(job, &["spec", "ttlSecondsAfterFinished"]) else {
        return Step::rest();
    };
    let ended = ["Complete", "Failed"].into_iter().find_map(|kind| find_condition(job, kind));
    let ended = ended.and_then(|one| time(one, &["lastTransitionTime"])).unwrap_or(ctx.now);
    let due = after_secs(ended, secs);
    if ctx.now < due {
        return Step::at(due);
    }
    Step::of([Request::delete_foreground(key, job)])
}
