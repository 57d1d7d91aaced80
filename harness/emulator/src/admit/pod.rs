//! Pods: what the server adds to a new one, and what may be written into one.

mod quality;
mod update;

use serde_json::{Value, json};

use super::affinity::check_placement;
use super::container::check_containers;
use super::{Admission, limits, priority};
use crate::error::{ApiError, FieldErrors};
use crate::kinds::Resource;
use crate::names;
use crate::object::{self, list, map, set_default, text};
use crate::store::Key;

const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";

/// What a new pod gets.
pub(super) fn complete(admission: &Admission<'_>, pod: &mut Value) -> Result<(), ApiError> {
    if !admission.kind.is("", "Pod") {
        return Ok(());
    }
    limits::fill(admission, pod);
    set_default(pod, &["spec", "serviceAccountName"], "default");
    let account = pod["spec"]["serviceAccountName"].clone();
    set_default(pod, &["spec", "serviceAccount"], account);
    tolerate_short_outages(pod);
    priority::complete(admission, pod)?;
    add_overhead(admission, pod)?;
    let quality = quality::of(&pod["spec"]);
    object::set(pod, &["status"], json!({"phase": "Pending", "qosClass": quality}));
    if !list(pod, &["spec", "schedulingGates"]).is_empty() {
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": GATED,
            "lastProbeTime": null,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        });
        object::set(pod, &["status", "conditions"], json!([condition]));
    }
    limits::check(admission, pod)
}

/// What a pod gets anew with every write: who applies a manifest again does not name it.
pub(super) fn complete_update(admission: &Admission<'_>, pod: &mut Value) {
    if admission.kind.is("", "Pod") {
        tolerate_short_outages(pod);
    }
}

/// Five minutes on a node that fails, unless the pod says otherwise.
fn tolerate_short_outages(pod: &mut Value) {
    let mut tolerations = list(pod, &["spec", "tolerations"]).to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_tolerated = tolerations.iter().any(|toleration| {
            let (own, effect) = (text(toleration, &["key"]), text(toleration, &["effect"]));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !is_tolerated {
            tolerations.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }));
        }
    }
    object::set(pod, &["spec", "tolerations"], tolerations.into());
}

/// What the pod's runtime class costs beside its containers.
fn add_overhead(admission: &Admission<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let name = text(pod, &["spec", "runtimeClassName"]);
    if name.is_empty() {
        return Ok(());
    }
    let refuse =
        |why: String| ApiError::forbidden(&admission.key.resource, &admission.key.name, &why);
    let classes = Resource::new("node.k8s.io", "runtimeclasses");
    let Some(class) = admission.store.find(&Key::new(classes, "", name)) else {
        return Err(refuse(format!("pod rejected: RuntimeClass \"{name}\" not found")));
    };
    if let Some(overhead) = object::at(class, &["overhead", "podFixed"]) {
        let own = &pod["spec"]["overhead"];
        if !own.is_null() && own != overhead {
            return Err(refuse(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                    .to_owned(),
            ));
        }
        object::set(pod, &["spec", "overhead"], overhead.clone());
    }
    for (key, value) in map(class, &["scheduling", "nodeSelector"]).into_iter().flatten() {
        object::set(pod, &["spec", "nodeSelector", key], value.clone());
    }
    let more = list(class, &["scheduling", "tolerations"]);
    if !more.is_empty() {
        let mut tolerations = list(pod, &["spec", "tolerations"]).to_vec();
        tolerations.extend(more.iter().cloned());
        object::set(pod, &["spec", "tolerations"], tolerations.into());
    }
    Ok(())
}

/// What a writer of a pod's status cannot take away.
pub(super) fn complete_status(admission: &Admission<'_>, old: &Value, new: &mut Value) {
    if !admission.kind.is("", "Pod") {
        return;
    }
    if let Some(quality) = object::at(old, &["status", "qosClass"]) {
        object::set(new, &["status", "qosClass"], quality.clone());
    }
}

pub(super) fn check(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    check_spec(&new["spec"], "spec", errors);
    if let Some(old) = old {
        update::check(&old["spec"], &new["spec"], errors);
    }
}

/// Checks a pod spec that stands at `field`: a pod's own, or a template's.
pub(super) fn check_spec(spec: &Value, field: &str, errors: &mut FieldErrors) {
    check_containers(spec, field, errors);
    check_placement(spec, field, errors);
    let choices: [(&str, &[&str]); 3] = [
        ("restartPolicy", &["Always", "OnFailure", "Never"]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
        ("preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ];
    for (name, allowed) in choices {
        let value = text(spec, &[name]);
        if !value.is_empty() && !allowed.contains(&value) {
            errors.unsupported(format!("{field}.{name}"), &value.into(), allowed);
        }
    }
    let deadline = object::number(spec, &["activeDeadlineSeconds"]);
    if let Some(seconds) = deadline.filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds)) {
        let rule = "must be between 1 and 2147483647, inclusive";
        errors.invalid(format!("{field}.activeDeadlineSeconds"), &seconds.into(), rule);
    }
    for name in ["nodeName", "serviceAccountName", "priorityClassName"] {
        let value = text(spec, &[name]);
        if value.is_empty() {
            continue;
        }
        if let Some(rule) = names::dns_subdomain(value) {
            errors.invalid(format!("{field}.{name}"), &value.into(), &rule);
        }
    }
}
