//! Validation of custom resources against their schema, and of `CustomResourceDefinition`s.

use std::sync::Arc;

use super::Admission;
use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::format_go_value;
use crate::api_types::kinds;
use crate::api_types::kinds::schema::Schema;
use crate::store::{PendingRules, RuleEvaluation, WriteError};
use schedlab_api::{Value, json, object};

/// The annotation that approves a CRD in the groups `k8s.io` and `kubernetes.io`.
const APPROVAL_ANNOTATION: &str = "api-approved.kubernetes.io";

/// Rejects a custom resource that violates its schema, and an invalid CRD.
pub(super) fn check_custom_resource_or_crd(
    admission: &Admission<'_>,
    is_status: bool,
    old: Option<&Value>,
    new: &mut Value,
) -> Result<(), WriteError> {
    if let Some(schema) = admission.schema {
        let broken = |object: &Value| schema_errors(admission, schema, is_status, object);
        let mut errors = broken(new);
        if let Some(old) = old.filter(|_| !errors.is_empty()) {
            // Errors of the old object are tolerated (ratcheting).
            errors = errors.without(&broken(old));
        }
        if !errors.blocks_cel_rules() {
            errors.extend(rule_violations(admission, schema, old, new)?);
        } else if schema.has_rules() {
            let rule = "some validation rules were not checked because the object was invalid; \
                        correct the existing errors to complete validation";
            errors.invalid("<nil>", &Value::Null, rule);
        }
        return Ok(errors.into_result(admission.kind, &admission.key.name)?);
    }
    if !admission.kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        return Ok(());
    }
    set_crd_defaults(new);
    let (_, mut errors) = kinds::from_crd(new);
    check_api_approval(old, new, &mut errors);
    if let Some(old) = old {
        check_immutable_crd_fields(old, new, &mut errors);
        if !is_status {
            check_stored_versions(new, &mut errors);
        }
    }
    Ok(errors.into_result(admission.kind, &admission.key.name)?)
}

/// The CEL rules that an object violates; an error if costly rules must be evaluated outside the
/// store's lock first.
fn rule_violations(
    admission: &Admission<'_>,
    schema: &Arc<Schema>,
    old: Option<&Value>,
    new: &Value,
) -> Result<FieldErrors, WriteError> {
    match admission.rules {
        RuleEvaluation::Known(verdict) if verdict.new == *new && verdict.old.as_deref() == old => {
            Ok(verdict.violations.clone())
        }
        RuleEvaluation::Here | RuleEvaluation::Known(_) => Ok(schema.rule_violations(old, new)),
        RuleEvaluation::Deferred => schema.quick_rule_violations(old, new).map_err(|_| {
            WriteError::NeedsRules(Box::new(PendingRules {
                schema: Arc::clone(schema),
                old: old.map(|old| Arc::new(old.clone())),
                new: new.clone(),
                first_attempt: None,
            }))
        }),
    }
}

/// The schema violations of the written part (all but the status, or the status), and of the fields
/// that `/scale` reads.
fn schema_errors(
    admission: &Admission<'_>,
    schema: &Schema,
    is_status: bool,
    object: &Value,
) -> FieldErrors {
    if is_status {
        let mut errors = FieldErrors::new();
        if let (Some(part), Some(status)) = (schema.field_schema("status"), object.get("status")) {
            errors.extend_below("status", part.validate(status));
            errors.extend_below("status", part.check_embedded(status));
        }
        return errors;
    }
    let mut errors = schema.validate(object);
    errors.extend(schema.check_embedded(object));
    if let Some(scale) = &admission.kind.stored().scale {
        check_scale_replicas(object, &scale.spec_replicas, &mut errors);
        check_scale_replicas(object, &scale.status_replicas, &mut errors);
    }
    errors
}

fn check_scale_replicas(object: &Value, path: &[Arc<str>], errors: &mut FieldErrors) {
    let found = path.iter().try_fold(object, |value, field| value.get(&**field));
    let Some(found) = found.filter(|value| !value.is_null()) else { return };
    let field = format!(".{}", path.join("."));
    match found.as_i64() {
        None => {
            let (shown, kind) = (format_go_value(found), go_type_of(found));
            let rule =
                format!("{field} accessor error: {shown} is of the type {kind}, expected int64");
            errors.invalid(field, &0.into(), &rule);
        }
        Some(count) if count < 0 => {
            errors.invalid(field, &count.into(), "should be a non-negative integer");
        }
        Some(count) if count > i64::from(i32::MAX) => {
            let rule = format!("should be less than or equal to {}", i32::MAX);
            errors.invalid(field, &count.into(), &rule);
        }
        Some(_) => {}
    }
}

/// The Go type that Go's JSON decoder gives a value without a declared type.
fn go_type_of(value: &Value) -> &'static str {
    match object::go_type(value) {
        "number" => "float64",
        "array" => "[]interface {}",
        "object" => "map[string]interface {}",
        other => other,
    }
}

/// Fills in the CRD's defaults: conversion strategy, singular name and list kind.
fn set_crd_defaults(crd: &mut Value) {
    object::set_default(crd, &["spec", "conversion"], json!({"strategy": "None"}));
    let kind = object::text(crd, &["spec", "names", "kind"]).to_owned();
    object::set_default(crd, &["spec", "names", "singular"], kind.to_lowercase());
    object::set_default(crd, &["spec", "names", "listKind"], format!("{kind}List"));
}

/// Checks the approval annotation of a CRD in a protected API group. The error is tolerated if the
/// old CRD has it, too.
fn check_api_approval(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    let group = object::text(new, &["spec", "group"]);
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .filter_map(|domain| group.strip_suffix(domain))
        .any(|rest| rest.is_empty() || rest.ends_with('.'));
    let new_approval = parse_approval(new);
    if !is_protected || old.is_some_and(|old| parse_approval(old) == new_approval) {
        return;
    }
    let field_path = format!("metadata.annotations[{APPROVAL_ANNOTATION}]");
    let rule = format!("protected groups must have approval annotation \"{APPROVAL_ANNOTATION}\"");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match new_approval {
        Approval::Present => {}
        Approval::Missing => errors.required(field_path, &format!("{rule}, {see}")),
        Approval::Invalid => {
            let text = object::annotation(new, APPROVAL_ANNOTATION).unwrap_or_default();
            let allowed = "with either a URL or a reason starting with \"unapproved\"";
            errors.invalid(field_path, &text.into(), &format!("{rule} {allowed}, {see}"));
        }
    }
}

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Present,
}

fn parse_approval(crd: &Value) -> Approval {
    let is_url = |text: &str| {
        text.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
        })
    };
    match object::annotation(crd, APPROVAL_ANNOTATION) {
        None | Some("") => Approval::Missing,
        Some(text) if text.starts_with("unapproved") || is_url(text) => Approval::Present,
        Some(_) => Approval::Invalid,
    }
}

/// Rejects the removal of a version that is listed in `status.storedVersions`.
fn check_stored_versions(crd: &Value, errors: &mut FieldErrors) {
    let versions = object::list(crd, &["spec", "versions"]);
    for (index, stored) in object::list(crd, &["status", "storedVersions"]).iter().enumerate() {
        if versions.iter().all(|version| version["name"] != *stored) {
            let name = stored.as_str().unwrap_or_default();
            let rule = format!(
                "missing from spec.versions; {name} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(format!("status.storedVersions[{index}]"), stored, &rule);
        }
    }
}

fn check_immutable_crd_fields(old: &Value, new: &Value, errors: &mut FieldErrors) {
    for path in [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "kind"]] {
        let value = |crd: &Value| object::text(crd, path).to_owned();
        if value(old) != value(new) {
            errors.invalid(path.join("."), &value(new).into(), "field is immutable");
        }
    }
}
