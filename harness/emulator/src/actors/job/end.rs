//! How a job ends, and what becomes of it then.

use super::tally::Tally;
use super::{COMPONENT, deadline, dismiss, indexes, note};
use crate::actors::fields::{Condition, after_secs, find_condition, stamp, time};
use crate::actors::step::Notice;
use crate::actors::workload::{count_at, counted, delete_pod};
use crate::actors::{Context, Request, Step};
use crate::object::{condition, list, number, set, text};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

/// Why a job ends.
struct Verdict {
    succeeds: bool,
    reason: String,
    message: String,
}

impl Verdict {
    fn failed([reason, message]: [&str; 2]) -> Self {
        Self { succeeds: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn succeeded([reason, message]: [&str; 2]) -> Self {
        Self { succeeds: true, ..Self::failed([reason, message]) }
    }

    /// What a condition that is met says.
    fn noted(job: &Value, kind: &str) -> Option<Self> {
        let found = find_condition(job, kind).filter(|one| text(one, &["status"]) == "True")?;
        let said = ["reason", "message"].map(|field| text(found, &[field]));
        Some(Self { succeeds: kind == "SuccessCriteriaMet", ..Self::failed(said) })
    }

    fn target(&self) -> &'static str {
        if self.succeeds { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    fn condition(&self, kind: &'static str) -> Condition<'_> {
        Condition { kind, status: "True", reason: &self.reason, message: &self.message }
    }

    fn notice(&self) -> Notice<'_> {
        let (kind, reason, message) = if self.succeeds {
            ("Normal", "Completed", "Job completed")
        } else {
            ("Warning", &*self.reason, &*self.message)
        };
        Notice { component: COMPONENT, kind, reason, message: message.to_owned() }
    }
}

/// Ends a job whose end has come: says why, stops its pods, and closes it when they are gone.
pub(super) fn finish(key: &Key, job: &Object, tally: &Tally, ctx: &Context) -> Option<Step> {
    let verdict = verdict(job, tally, ctx)?;
    let mut ended = Value::clone(job);
    tally.write(&mut ended);
    note(&mut ended, &verdict.condition(verdict.target()), ctx.now);
    let stop = |pod: &(&Key, &Object)| {
        if verdict.succeeds {
            dismiss(*pod, job, ctx)
        } else {
            delete_pod(*pod, job, COMPONENT, ctx)
        }
    };
    let mut writes: Vec<Request> = tally.active.iter().flat_map(stop).collect();
    let holds = tally.per_index.as_ref().is_some_and(|per_index| !per_index.held.is_empty());
    if tally.active.is_empty() && tally.terminating.is_empty() && !holds {
        let done = if verdict.succeeds { "Complete" } else { "Failed" };
        note(&mut ended, &verdict.condition(done), ctx.now);
        if verdict.succeeds {
            set(&mut ended, &["status", "completionTime"], json!(stamp(ctx.now)));
        }
        writes.push(verdict.notice().about(job, ctx));
    }
    writes.extend(Request::status(key, job, ended));
    Some(Step::of(writes))
}

/// Notes that a pod's failure is the job's: before the pod is let go of, for it tells why.
pub(super) fn note_failure(job: &mut Value, tally: &Tally, ctx: &Context) {
    let is_settled = ["SuccessCriteriaMet", "FailureTarget"]
        .into_iter()
        .any(|kind| condition(job, kind) == Some("True"));
    if let Some(why) = tally.broken.as_ref().filter(|_| !is_settled) {
        let verdict = Verdict::failed(["PodFailurePolicy", why]);
        note(job, &verdict.condition(verdict.target()), ctx.now);
    }
}

/// What is settled holds; then failures come before success, as Kubernetes looks at them.
fn verdict(job: &Value, tally: &Tally, ctx: &Context) -> Option<Verdict> {
    let mut settled = ["SuccessCriteriaMet", "FailureTarget"].into_iter();
    if let Some(verdict) = settled.find_map(|kind| Verdict::noted(job, kind)) {
        return Some(verdict);
    }
    if let Some(why) = &tally.broken {
        return Some(Verdict::failed(["PodFailurePolicy", why]));
    }
    let limit = count_at(job, &["spec", "backoffLimit"], 6);
    let held = tally.per_index.as_ref().map_or(0, |per_index| counted(&per_index.held));
    if tally.failed + held > limit || restarts_beyond(job, tally, limit) {
        let message = "Job has reached the specified backoff limit";
        return Some(Verdict::failed(["BackoffLimitExceeded", message]));
    }
    if deadline(job).is_some_and(|deadline| deadline <= ctx.now) {
        let message = "Job was active longer than specified deadline";
        return Some(Verdict::failed(["DeadlineExceeded", message]));
    }
    let per_index = tally.per_index.as_ref();
    if let Some(said) = per_index.and_then(|one| one.verdict(job, tally.succeeded)) {
        return Some(Verdict::failed(said));
    }
    if let Some(index) = success_rule(job, tally) {
        let message = format!("Matched rules at index {index}");
        return Some(Verdict::succeeded(["SuccessPolicy", &message]));
    }
    let said = ["CompletionsReached", "Reached expected number of succeeded pods"];
    completed(job, tally).then(|| Verdict::succeeded(said))
}

/// Which rule of its success policy a job has met.
fn success_rule(job: &Value, tally: &Tally) -> Option<usize> {
    let is_met = |rule: &Value| {
        let count = number(rule, &["succeededCount"]);
        let Some(wanted) = rule["succeededIndexes"].as_str() else {
            return count.is_some_and(|count| tally.succeeded >= count);
        };
        let wanted = indexes::parse(wanted);
        let done = counted(wanted.intersection(&tally.completed));
        !wanted.is_empty() && (done == counted(&wanted) || count.is_some_and(|count| done >= count))
    };
    let rules = list(job, &["spec", "successPolicy", "rules"]);
    rules.iter().position(is_met).filter(|_| tally.succeeded > 0)
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
