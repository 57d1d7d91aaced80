//! Admission of `PodGroup` and `CompositePodGroup`: the Priority and `PodGroupProtection` plugins,
//! and validation.

use super::{forbidden_error, resolve_priority};
use crate::admission::Admission;
use crate::admission::conditions::check_conditions;
use crate::admission::declarative::DeclarativeValidation;
use crate::api_types::error::{ApiError, FieldErrors};
use schedlab_api::{
    Value, finalizers,
    object::{self, list, number, text},
};

const PREEMPTION_POLICY_GATE: &str = "PodGroupPreemptionPolicy";

/// Sets the preemption policy of a group that has none.
pub(in crate::admission) fn set_defaults(admission: &Admission<'_>, group: &mut Value) {
    if is_group(admission) && admission.store.is_enabled(PREEMPTION_POLICY_GATE) {
        object::set_default(group, &["spec", "preemptionPolicy"], "PreemptLowerPriority");
    }
}

/// Runs the mutating admission plugins on a new group.
pub(in crate::admission) fn set_server_fields(
    admission: &Admission<'_>,
    group: &mut Value,
) -> Result<(), ApiError> {
    if !is_group(admission) {
        return Ok(());
    }
    set_priority(admission, group)?;
    let has_finalizer =
        object::finalizers(group).any(|one| one == finalizers::POD_GROUP_PROTECTION);
    if &*admission.kind.kind == "PodGroup" && !has_finalizer {
        let mut all = list(group, &["metadata", "finalizers"]).to_vec();
        all.push(finalizers::POD_GROUP_PROTECTION.into());
        object::set(group, &["metadata", "finalizers"], all.into());
    }
    Ok(())
}

fn is_group(admission: &Admission<'_>) -> bool {
    ["PodGroup", "CompositePodGroup"]
        .iter()
        .any(|kind| admission.kind.is("scheduling.k8s.io", kind))
}

/// Sets the group's priority from its class, or from the default class.
fn set_priority(admission: &Admission<'_>, group: &mut Value) -> Result<(), ApiError> {
    let is_composite = &*admission.kind.kind == "CompositePodGroup";
    let what = if is_composite { "composite pod group" } else { "pod group" };
    let priority = resolve_priority(admission, text(group, &["spec", "priorityClassName"]))?;
    let (value, policy) = (priority.value, priority.preemption_policy);
    let own = number(group, &["spec", "priority"]);
    if let Some(own) = own.filter(|own| *own != value) {
        let why = format!(
            "priority set in the {what} ({own}) must match the priority computed ({value}) based on \
             the priority class set in the spec"
        );
        return Err(forbidden_error(admission, &why));
    }
    object::set(group, &["spec", "priority"], value.into());
    if !priority.class_name.is_empty() {
        object::set(group, &["spec", "priorityClassName"], priority.class_name.into());
    }
    if !admission.store.is_enabled(PREEMPTION_POLICY_GATE) {
        return Ok(());
    }
    let own = text(group, &["spec", "preemptionPolicy"]);
    if !own.is_empty() && own != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in {what} spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden_error(admission, &why));
    }
    object::set(group, &["spec", "preemptionPolicy"], policy.into());
    Ok(())
}

/// Checks a group or its new status.
pub(in crate::admission) fn check(
    admission: &Admission<'_>,
    is_status: bool,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    let is_pod_group = &*admission.kind.kind == "PodGroup";
    let spec = &new["spec"];
    if is_status {
        check_conditions(&new["status"], "status.conditions", errors);
        check_claim_statuses(new, errors);
    } else if is_pod_group
        && old.is_none()
        && !spec["parentCompositePodGroupName"].is_null()
        && spec["workloadRef"].is_null()
    {
        let rule = "must be set when parentCompositePodGroupName is set";
        errors.required("spec.workloadRef", rule);
    }
    let is_enabled = |gate: &str| admission.store.is_enabled(gate);
    let validation = DeclarativeValidation { is_enabled: &is_enabled, is_update: old.is_some() };
    validation.check(&admission.kind.kind, "", old, new, errors);
}

/// Checks that every claim in the status is one of the group's claims.
fn check_claim_statuses(group: &Value, errors: &mut FieldErrors) {
    let claims = list(group, &["spec", "resourceClaims"]);
    let statuses = list(group, &["status", "resourceClaimStatuses"]);
    for (index, status) in statuses.iter().enumerate() {
        let name = &status["name"];
        if !claims.iter().any(|claim| claim["name"] == *name) {
            let path = format!("status.resourceClaimStatuses[{index}].name");
            let rule = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(path, name, rule);
        }
    }
}
