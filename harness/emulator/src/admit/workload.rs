//! Workloads: their selectors, their templates, and what of them can change.

use super::pod::{check_pace, check_spec};
use super::{Admission, job, storage, strategy};
use crate::error::FieldErrors;
use crate::kinds::Kind;
use crate::names;
use crate::object::{self, text};
use crate::select::LabelSelector;
use schedlab_json::{Map, Text, Value};

const MISMATCH: &str = "`selector` does not match template `labels`";

/// A new Job selects its own pods by its uid.
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

/// Old state, if there is one, and new.
type Change<'c> = (Option<&'c Value>, &'c Value);

pub(super) fn check(kind: &Kind, (old, new): Change<'_>, errors: &mut FieldErrors) {
    match &*kind.kind {
        "CronJob" => return super::schedule::check(new, errors),
        "ControllerRevision" => return,
        "Job" => {
            let change = (old.map(|old| &old["spec"]["template"]), &new["spec"]["template"]);
            check_pace(change, "spec.template.metadata.annotations", errors);
            job::check(new, errors);
            check_selector(kind, new, errors);
            check_unchanged_of(kind, (old, new), errors);
            return;
        }
        _ => {}
    }
    let is_set = kind.is("apps", "StatefulSet");
    if is_set {
        strategy::check_stateful_set(new, errors);
        let service = text(new, &["spec", "serviceName"]);
        if !service.is_empty()
            && let Some(rule) = names::dns_label(service)
        {
            errors.invalid("spec.serviceName", &service.into(), &rule);
        }
    }
    strategy::check_count(new, &["replicas"], errors);
    if !kind.is("apps", "Deployment") {
        strategy::check_count(new, &["minReadySeconds"], errors);
    }
    if is_set {
        strategy::check_count(new, &["ordinals", "start"], errors);
    }
    if kind.is("", "ReplicationController") {
        return check_replication(new, errors);
    }
    check_selector(kind, new, errors);
    check_template(kind, (old, new), errors);
    if kind.is("apps", "Deployment") {
        strategy::check_deployment(new, errors);
    }
    check_unchanged_of(kind, (old, new), errors);
}

fn check_unchanged_of(kind: &Kind, (old, new): Change<'_>, errors: &mut FieldErrors) {
    if let Some(old) = old {
        check_unchanged(kind, (old, new), errors);
    }
}

fn check_selector(kind: &Kind, new: &Value, errors: &mut FieldErrors) {
    let selector = &new["spec"]["selector"];
    if selector.is_null() {
        errors.required("spec.selector", "");
        let labels = &new["spec"]["template"]["metadata"]["labels"];
        errors.invalid("spec.template.metadata.labels", labels, MISMATCH);
        return;
    }
    check_generated(kind, new, errors);
    let selects = match LabelSelector::from_object(selector) {
        Ok(selector) if selector.is_empty() => {
            let rule = format!("empty selector is invalid for {}", in_words(kind));
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
        errors.invalid("spec.template.metadata.labels", labels, MISMATCH);
    }
}

fn check_replication(new: &Value, errors: &mut FieldErrors) {
    let (selector, template) = (&new["spec"]["selector"], &new["spec"]["template"]);
    let has =
        |(key, value): (&Text, &Value)| template["metadata"]["labels"][key.as_str()] == *value;
    if selector.as_object().is_none_or(Map::is_empty) {
        errors.required("spec.selector", "");
    } else if template.is_object() && !selector.as_object().into_iter().flatten().all(has) {
        let labels = &template["metadata"]["labels"];
        errors.invalid("spec.template.metadata.labels", labels, MISMATCH);
    }
    if template.is_object() {
        check_spec(&template["spec"], "spec.template.spec", errors);
    } else {
        errors.required("spec.template", "");
    }
}

/// A job that does not select by hand selects by its uid, and nothing else.
fn check_generated(kind: &Kind, new: &Value, errors: &mut FieldErrors) {
    if !kind.is("batch", "Job") || new["spec"]["manualSelector"] == true {
        return;
    }
    let selector = &new["spec"]["selector"];
    let labels = object::map(selector, &["matchLabels"]).map_or(0, Map::len);
    if labels != 1 || !object::list(selector, &["matchExpressions"]).is_empty() {
        errors.invalid("spec.selector", selector, "`selector` not auto-generated");
    }
}

fn in_words(kind: &Kind) -> &'static str {
    match &*kind.kind {
        "Deployment" => "deployment",
        "StatefulSet" => "statefulset",
        "DaemonSet" => "daemonset",
        "Job" => "job",
        _ => "replicaset",
    }
}

fn check_template(kind: &Kind, (old, new): Change<'_>, errors: &mut FieldErrors) {
    let old = old.map(|old| &old["spec"]["template"]);
    let template = &new["spec"]["template"];
    check_pace((old, template), "spec.template.metadata.annotations", errors);
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
        check_spec(&storage::with_claims(&new["spec"], spec), field, errors);
    } else {
        check_spec(spec, field, errors);
    }
    let policy = text(spec, &["restartPolicy"]);
    let place = format!("{field}.restartPolicy");
    if policy != "Always" {
        errors.unsupported(place, &policy.into(), &["Always"]);
    }
    for (index, claim) in object::list(new, &["spec", "volumeClaimTemplates"]).iter().enumerate() {
        storage::check_claim(
            &claim["spec"],
            &format!("spec.volumeClaimTemplates[{index}].spec"),
            errors,
        );
    }
}

fn check_unchanged(kind: &Kind, (old, new): (&Value, &Value), errors: &mut FieldErrors) {
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
            // A job that waits, and never began, may still be told where its pods go.
            let waits = before["suspend"] == true && old["status"]["startTime"].is_null();
            if !waits {
                keep("template", errors);
            } else if undirected(&before["template"]) != undirected(&after["template"]) {
                errors.invalid("spec.template", &after["template"], "field is immutable");
            }
            keep("completionMode", errors);
            job::check_unchanged(before, after, errors);
        }
        "StatefulSet" => check_stateful_set(before, after, errors),
        _ => {}
    }
}

/// A template without what says where its pods go.
fn undirected(template: &Value) -> Value {
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

fn check_stateful_set(before: &Value, after: &Value, errors: &mut FieldErrors) {
    let mutable = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        object::as_map(&mut spec).retain(|field, _| !mutable.contains(&field.as_str()));
        spec
    };
    if fixed(before) != fixed(after) {
        let rule = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                    'template', 'updateStrategy', 'revisionHistoryLimit', \
                    'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden("spec", rule);
    }
}
