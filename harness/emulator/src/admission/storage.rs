//! Validation of `CSIDriver`, `CSINode`, `CSIStorageCapacity` and `VolumeAttachment`.

use std::collections::BTreeSet;

use super::checks::amount;
use super::selector;
use crate::admission::core::volume_source;
use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::Kind;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, number, text},
};

const GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLES: [&str; 2] = ["Persistent", "Ephemeral"];

pub(super) fn check(kind: &Kind, object: &Value, errors: &mut FieldErrors) {
    match &*kind.kind {
        "CSIDriver" => check_driver(&object["spec"], errors),
        "CSINode" => check_node(&object["spec"], errors),
        "CSIStorageCapacity" => check_capacity(object, errors),
        "VolumeAttachment" => check_attachment(&object["spec"], errors),
        _ => {}
    }
}

fn check_driver(spec: &Value, errors: &mut FieldErrors) {
    let policy = text(spec, &["fsGroupPolicy"]);
    if !policy.is_empty() && !GROUP_POLICIES.contains(&policy) {
        errors.unsupported("spec.fsGroupPolicy", &policy.into(), &GROUP_POLICIES);
    }
    for mode in list(spec, &["volumeLifecycleModes"]) {
        if !mode.as_str().is_some_and(|mode| LIFECYCLES.contains(&mode)) {
            errors.unsupported("spec.volumeLifecycleModes", mode, &LIFECYCLES);
        }
    }
}

fn check_node(spec: &Value, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, driver) in list(spec, &["drivers"]).iter().enumerate() {
        let path = format!("spec.drivers[{index}]");
        let name = text(driver, &["name"]);
        volume_source::check_driver(name, &format!("{path}.name"), errors);
        if text(driver, &["nodeID"]).is_empty() {
            errors.required(format!("{path}.nodeID"), "");
        }
        if let Some(count) = number(driver, &["allocatable", "count"]).filter(|count| *count < 0) {
            let rule = "must be greater than or equal to 0";
            errors.invalid(format!("{path}.allocatable.count"), &count.into(), rule);
        }
        if !seen.insert(name) {
            errors.duplicate(format!("{path}.name"), &name.into());
        }
    }
}

fn check_capacity(capacity: &Value, errors: &mut FieldErrors) {
    let class = text(capacity, &["storageClassName"]);
    if let Some(rule) = names::dns_subdomain_violation(class) {
        errors.invalid("storageClassName", &class.into(), &rule);
    }
    selector::check(&capacity["nodeTopology"], "nodeTopology", errors);
    if amount(&capacity["capacity"]) < 0 {
        let rule = "must be greater than or equal to 0";
        errors.invalid("capacity", &capacity["capacity"], rule);
    }
}

fn check_attachment(spec: &Value, errors: &mut FieldErrors) {
    let attacher = text(spec, &["attacher"]);
    if attacher.is_empty() {
        errors.required("spec.attacher", "");
    } else if names::dns_subdomain_violation(&attacher.to_lowercase()).is_some() {
        errors.invalid("spec.attacher", &attacher.into(), names::CASELESS_SUBDOMAIN_RULE);
    }
    let node = text(spec, &["nodeName"]);
    if let Some(rule) = names::dns_subdomain_violation(node) {
        errors.invalid("spec.nodeName", &node.into(), &rule);
    }
    let rule = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let fields = ["inlineVolumeSpec", "persistentVolumeName"];
    match fields.iter().filter(|field| !spec["source"][**field].is_null()).count() {
        0 => errors.required("spec.source", rule),
        1 => {}
        _ => errors.forbidden("spec.source", rule),
    }
}
