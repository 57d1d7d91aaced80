//! Validation of `spec.scheduling` of a job: the pod group that the Job controller creates for it.

use crate::admission::Admission;
use crate::admission::declarative::DeclarativeValidation;
use crate::api_types::error::FieldErrors;
use schedlab_api::{Value, object::number};

/// Checks `scheduling` of a job or of the job template of a `CronJob`.
pub(in crate::admission) fn check(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    let is_job = admission.kind.is("batch", "Job");
    let (old, spec) = (old.map(|old| job_spec(is_job, old)), job_spec(is_job, new));
    let path = if is_job { "spec" } else { "spec.jobTemplate.spec" };
    check_policy(spec, &format!("{path}.scheduling"), errors);
    if is_job && let Some(old) = old {
        check_variant(old, spec, errors);
    }
    let is_enabled = |gate: &str| admission.store.is_enabled(gate);
    let validation = DeclarativeValidation { is_enabled: &is_enabled, is_update: old.is_some() };
    validation.check("JobSpec", path, old, spec, errors);
}

/// The spec of a job, or of the job template of a `CronJob`.
fn job_spec(is_job: bool, object: &Value) -> &Value {
    if is_job { &object["spec"] } else { &object["spec"]["jobTemplate"]["spec"] }
}

/// Checks the policy against parallelism and disruption mode.
fn check_policy(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let scheduling = &spec["scheduling"];
    if scheduling.is_null() {
        return;
    }
    let policy = &scheduling["schedulingPolicy"];
    let parallelism = number(spec, &["parallelism"]).unwrap_or(1);
    let least = number(policy, &["gang", "minCount"]);
    if let Some(least) = least.filter(|least| *least > parallelism) {
        let rule = format!("must not be greater than parallelism ({parallelism})");
        errors.invalid(format!("{path}.schedulingPolicy.gang.minCount"), &least.into(), &rule);
    }
    let is_basic = policy.is_null() || policy["basic"].is_object();
    if is_basic && scheduling["disruptionMode"]["all"].is_object() {
        let rule = "the disruptionMode `all` is not supported with the Basic scheduling policy";
        errors.invalid(format!("{path}.disruptionMode"), &"".into(), rule);
    }
}

/// Checks that a gang stays a gang.
fn check_variant(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let [old, new] = [old, new].map(|spec| &spec["scheduling"]["schedulingPolicy"]);
    if old.is_object() && new.is_object() && old["basic"].is_object() != new["basic"].is_object() {
        let rule = "the basic/gang policy variant is immutable after creation; only \
                    schedulingPolicy.gang.minCount may be updated";
        errors.invalid("spec.scheduling.schedulingPolicy", &Value::Null, rule);
    }
}
