//! Validation of updates of a pod spec.

use crate::admission::defaults::pod_template::list_items_mut;
use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value,
    object::{self, list, number, text},
};

const MUTABLE_FIELDS_RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` \
                    (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
                    (allow it to be set to 1 if it was previously negative)";

pub(super) fn check_pod_update(old: &Value, new: &Value, errors: &mut FieldErrors) {
    if old == new {
        return;
    }
    for kind in ["containers", "initContainers"] {
        if list(old, &[kind]).len() != list(new, &[kind]).len() {
            let rule = "pod updates may not add or remove containers";
            errors.forbidden(format!("spec.{kind}"), rule);
            return;
        }
    }
    check_active_deadline(old, new, errors);
    check_tolerations(old, new, errors);
    check_scheduling_gates(old, new, errors);
    check_node_selector(old, new, errors);
    if with_mutable_fields_restored(old, new) != *old {
        errors.forbidden("spec", MUTABLE_FIELDS_RULE);
    }
}

/// The new spec with every mutable field set back to its old value.
fn with_mutable_fields_restored(old: &Value, new: &Value) -> Value {
    let mut frozen = new.clone();
    for kind in ["containers", "initContainers"] {
        let olds = list(old, &[kind]);
        for (container, old) in list_items_mut(&mut frozen, kind).zip(olds) {
            restore_field(container, old, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore_field(&mut frozen, old, field);
    }
    if !list(old, &["schedulingGates"]).is_empty() {
        // The scheduling directives of a gated pod may become narrower.
        for field in ["nodeSelector", "affinity"] {
            restore_field(&mut frozen, old, field);
        }
    }
    frozen
}

fn restore_field(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => object::set(new, &[field], value.clone()),
        None => {
            object::remove(new, &[field]);
        }
    }
}

fn check_active_deadline(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let of = |spec: &Value| number(spec, &["activeDeadlineSeconds"]);
    let field = "spec.activeDeadlineSeconds";
    match (of(old), of(new)) {
        (Some(old), Some(new)) if new > old => {
            let rule = "must be less than or equal to previous value";
            errors.invalid(field, &new.into(), rule);
        }
        (Some(_), None) => {
            errors.invalid(
                field,
                &Value::Null,
                "must not update from a positive integer to nil value",
            );
        }
        (Some(_) | None, Some(_)) | (None, None) => {}
    }
}

fn check_tolerations(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let bare = |toleration: &Value| {
        let mut toleration = toleration.clone();
        object::remove(&mut toleration, &["tolerationSeconds"]);
        toleration
    };
    let news: Vec<Value> = list(new, &["tolerations"]).iter().map(bare).collect();
    let is_kept = |old: &Value| news.contains(&bare(old));
    if !list(old, &["tolerations"]).iter().all(is_kept) {
        let rule = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden("spec.tolerations", rule);
    }
}

/// Checks that the node selector of a gated pod only grows.
fn check_node_selector(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let of = |spec: &Value| object::map(spec, &["nodeSelector"]).cloned().unwrap_or_default();
    let (before, after) = (of(old), of(new));
    let is_kept = before.iter().all(|(key, value)| after.get(key) == Some(value));
    if !is_kept && !list(old, &["schedulingGates"]).is_empty() {
        let rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid("spec.nodeSelector", &after.into(), rule);
    }
}

fn check_scheduling_gates(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let olds = list(old, &["schedulingGates"]);
    for (index, gate) in list(new, &["schedulingGates"]).iter().enumerate() {
        if !olds.iter().any(|old| old["name"] == gate["name"]) {
            let name = text(gate, &["name"]);
            let rule = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(format!("spec.schedulingGates[{index}].name"), &rule);
        }
    }
}
