//! Validation of workloads: selectors, pod templates and immutable fields.

mod rollout;

use super::Admission;
use super::checks::check_timing_annotations;
use crate::admission::batch;
use crate::admission::core::pod::{check_spec, check_template_metadata};
use crate::admission::core::volume;
use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::Kind;
use crate::api_types::label_selector::LabelSelector;
use crate::api_types::names;
use schedlab_api::{
    Map, Text, Value,
    object::{self, text},
};

const SELECTOR_MISMATCH: &str = "`selector` does not match template `labels`";

/// Sets the generated selector and labels of a new Job (by its uid), and the template generation of
/// a DaemonSet.
pub(super) fn complete(admission: &Admission<'_>, object: &mut Value) {
    if admission.kind.is("apps", "DaemonSet") {
        let key = "deprecated.daemonset.template.generation";
        object::set(object, &["metadata", "annotations", key], "1".into());
    }
    if !admission.kind.is("batch", "Job") || object["spec"]["manualSelector"] == true {
        return;
    }
    let uid = Value::from(object::uid(object));
    let name = Value::from(object::name(object));
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        let path = ["spec", "template", "metadata", "labels", key];
        object::set(object, &path, value.clone());
    }
    let path = ["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"];
    object::set(object, &path, uid);
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    object::set_default(object, &["metadata", "labels"], labels);
}

pub(super) fn check(kind: &Kind, old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    match &*kind.kind {
        "CronJob" => return batch::cron_job::check(new, errors),
        "ControllerRevision" => return,
        "Job" => {
            let old_template = old.map(|old| &old["spec"]["template"]);
            let template = &new["spec"]["template"];
            let field = "spec.template.metadata.annotations";
            check_timing_annotations(old_template, template, field, errors);
            batch::check(new, errors);
            check_selector(kind, new, errors);
            check_immutable_fields_if_update(kind, old, new, errors);
            return;
        }
        _ => {}
    }
    let is_set = kind.is("apps", "StatefulSet");
    if is_set {
        rollout::check_stateful_set(new, errors);
        let service = text(new, &["spec", "serviceName"]);
        if !service.is_empty()
            && let Some(rule) = names::dns_label_violation(service)
        {
            errors.invalid("spec.serviceName", &service.into(), &rule);
        }
    }
    rollout::check_count(new, &["replicas"], errors);
    if !kind.is("apps", "Deployment") {
        rollout::check_count(new, &["minReadySeconds"], errors);
    }
    if is_set {
        rollout::check_count(new, &["ordinals", "start"], errors);
    }
    if kind.is("", "ReplicationController") {
        return check_replication_controller(new, errors);
    }
    check_selector(kind, new, errors);
    check_template(kind, old, new, errors);
    if kind.is("apps", "Deployment") {
        rollout::check_deployment(new, errors);
    }
    check_immutable_fields_if_update(kind, old, new, errors);
}

fn check_immutable_fields_if_update(
    kind: &Kind,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    if let Some(old) = old {
        check_immutable_fields(kind, old, new, errors);
    }
}

fn check_selector(kind: &Kind, new: &Value, errors: &mut FieldErrors) {
    let selector = &new["spec"]["selector"];
    if selector.is_null() {
        errors.required("spec.selector", "");
        let labels = &new["spec"]["template"]["metadata"]["labels"];
        errors.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH);
        return;
    }
    check_generated_selector(kind, new, errors);
    let selects = match LabelSelector::from_object(selector) {
        Ok(selector) if selector.is_empty() => {
            let rule = format!("empty selector is invalid for {}", kind_in_message(kind));
            errors.invalid("spec.selector", &new["spec"]["selector"], &rule);
            return;
        }
        Ok(selector) => selector.matches(&new["spec"]["template"]),
        Err(why) => {
            errors.invalid("spec.selector", &new["spec"]["selector"], &why.message);
            return;
        }
    };
    if !selects {
        let labels = &new["spec"]["template"]["metadata"]["labels"];
        errors.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH);
    }
}

fn check_replication_controller(new: &Value, errors: &mut FieldErrors) {
    let (selector, template) = (&new["spec"]["selector"], &new["spec"]["template"]);
    let has =
        |(key, value): (&Text, &Value)| template["metadata"]["labels"][key.as_str()] == *value;
    if selector.as_object().is_none_or(Map::is_empty) {
        errors.required("spec.selector", "");
    } else if template.is_object() && !selector.as_object().into_iter().flatten().all(has) {
        let labels = &template["metadata"]["labels"];
        errors.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH);
    }
    if template.is_object() {
        check_template_metadata(template, "spec.template", errors);
        check_spec(&template["spec"], "spec.template.spec", errors);
    } else {
        errors.required("spec.template", "");
    }
}

/// Checks that a job without `manualSelector` selects by its uid only.
fn check_generated_selector(kind: &Kind, new: &Value, errors: &mut FieldErrors) {
    if !kind.is("batch", "Job") || new["spec"]["manualSelector"] == true {
        return;
    }
    let selector = &new["spec"]["selector"];
    let labels = object::map(selector, &["matchLabels"]).map_or(0, Map::len);
    if labels != 1 || !object::list(selector, &["matchExpressions"]).is_empty() {
        errors.invalid("spec.selector", selector, "`selector` not auto-generated");
    }
}

fn kind_in_message(kind: &Kind) -> &'static str {
    match &*kind.kind {
        "Deployment" => "deployment",
        "StatefulSet" => "statefulset",
        "DaemonSet" => "daemonset",
        "Job" => "job",
        _ => "replicaset",
    }
}

fn check_template(kind: &Kind, old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    let old = old.map(|old| &old["spec"]["template"]);
    let template = &new["spec"]["template"];
    check_timing_annotations(old, template, "spec.template.metadata.annotations", errors);
    check_template_metadata(template, "spec.template", errors);
    let field = "spec.template.spec";
    if !template.is_object() {
        errors.required("spec.template.spec.containers", "");
        return;
    }
    let spec = &template["spec"];
    if kind.is("apps", "StatefulSet") {
        if !spec["activeDeadlineSeconds"].is_null() {
            let rule = "activeDeadlineSeconds in StatefulSet is not Supported";
            errors.forbidden(format!("{field}.activeDeadlineSeconds"), rule);
        }
        check_spec(&volume::with_claim_volumes(&new["spec"], spec), field, errors);
    } else {
        check_spec(spec, field, errors);
    }
    let policy = text(spec, &["restartPolicy"]);
    let field_path = format!("{field}.restartPolicy");
    if policy != "Always" {
        errors.unsupported(field_path, &policy.into(), &["Always"]);
    }
    for (index, claim) in object::list(new, &["spec", "volumeClaimTemplates"]).iter().enumerate() {
        volume::check_claim(
            &claim["spec"],
            &format!("spec.volumeClaimTemplates[{index}].spec"),
            errors,
        );
    }
}

fn check_immutable_fields(kind: &Kind, old: &Value, new: &Value, errors: &mut FieldErrors) {
    let (before, after) = (&old["spec"], &new["spec"]);
    let keep = |field: &str, errors: &mut FieldErrors| {
        if before[field] != after[field] {
            errors.invalid(format!("spec.{field}"), &after[field], "field is immutable");
        }
    };
    match &*kind.kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" => keep("selector", errors),
        "Job" => {
            let is_elastic = after["completionMode"] == "Indexed"
                && after["completions"] == after["parallelism"];
            if !is_elastic {
                keep("completions", errors);
            }
            keep("selector", errors);
            // A suspended job that never started may change its scheduling directives.
            let waits = before["suspend"] == true && old["status"]["startTime"].is_null();
            if !waits {
                keep("template", errors);
            } else if without_scheduling_directives(&before["template"])
                != without_scheduling_directives(&after["template"])
            {
                errors.invalid("spec.template", &after["template"], "field is immutable");
            }
            keep("completionMode", errors);
            batch::check_policies_unchanged(before, after, errors);
        }
        "StatefulSet" => check_stateful_set_update(before, after, errors),
        _ => {}
    }
}

/// A pod template without its mutable scheduling directives.
fn without_scheduling_directives(template: &Value) -> Value {
    let mut template = template.clone();
    for path in [
        &["metadata", "annotations"][..],
        &["metadata", "labels"],
        &["spec", "nodeSelector"],
        &["spec", "tolerations"],
        &["spec", "schedulingGates"],
        &["spec", "affinity", "nodeAffinity"],
    ] {
        object::remove(&mut template, path);
    }
    if template["spec"]["affinity"] == Value::Object(Map::new()) {
        object::remove(&mut template, &["spec", "affinity"]);
    }
    template
}

fn check_stateful_set_update(before: &Value, after: &Value, errors: &mut FieldErrors) {
    for field in ["selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
        if before[field] != after[field] {
            errors.invalid(format!("spec.{field}"), &after[field], "field is immutable");
        }
    }
}
