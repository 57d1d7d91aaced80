//! Validation of resource claims and resource claim templates.

use std::collections::BTreeSet;

use super::device_features;
use super::{
    ITEMS_MAX, bounded_items, check_dns_label, check_fully_qualified_name, check_opaque,
    check_selectors, check_unique, check_unique_item,
};
use crate::admission::Admission;
use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, go_struct_json};
use crate::api_types::kinds::metadata::check_labels;
use crate::api_types::names;
use crate::api_types::resource::Resource;
use crate::store::Key;
use schedlab_api::{
    Value,
    object::{self, list, text},
};

const ALTERNATIVES_MAX: usize = 8;
const TOLERATIONS_MAX: usize = 16;
const ALLOCATION_MODES: [&str; 2] = ["All", "ExactCount"];
/// The label of namespaces in which claims may have admin access to devices.
const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";

const REQUEST: &[GoField] = &[
    GoField("deviceClassName", &[]),
    GoField("selectors", &[GoField("cel", &[GoField("expression", &[])])]),
    GoField("allocationMode", &[]),
    GoField("count", &[]),
    GoField("adminAccess", &[]),
    GoField("tolerations", &[]),
    GoField("capacity", &[]),
    GoField("derivedAttributes", &[]),
];
const ALTERNATIVE: &[GoField] = &[
    GoField("name", &[]),
    GoField("deviceClassName", &[]),
    GoField("selectors", &[GoField("cel", &[GoField("expression", &[])])]),
    GoField("allocationMode", &[]),
    GoField("count", &[]),
    GoField("tolerations", &[]),
    GoField("capacity", &[]),
    GoField("derivedAttributes", &[]),
];
const SPEC: &[GoField] = &[GoField(
    "devices",
    &[
        GoField(
            "requests",
            &[
                GoField("name", &[]),
                GoField("exactly", REQUEST),
                GoField("firstAvailable", ALTERNATIVE),
            ],
        ),
        GoField(
            "constraints",
            &[
                GoField("requests", &[]),
                GoField("matchAttribute", &[]),
                GoField("distinctAttribute", &[]),
            ],
        ),
        GoField("config", &[GoField("requests", &[]), GoField("opaque", &[])]),
    ],
)];

pub(super) fn check(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    let spec = &new["spec"];
    match old {
        None => check_admin_access(admission, spec, errors),
        Some(old) if old["spec"] != *spec => {
            errors.invalid("spec", &Value::Null, "field is immutable");
        }
        Some(_) => {}
    }
    check_spec(spec, "spec", errors);
}

pub(super) fn check_template(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    let spec = &new["spec"];
    if old.is_none() {
        check_admin_access(admission, &spec["spec"], errors);
    }
    check_labels(spec, "spec.metadata.labels", errors);
    for field in ["name", "generateName"] {
        if !text(spec, &["metadata", field]).is_empty() {
            errors.forbidden(format!("spec.metadata.{field}"), "cannot be set");
        }
    }
    check_spec(&spec["spec"], "spec.spec", errors);
    if old.is_some_and(|old| old["spec"] != *spec) {
        // In Go, metadata has its JSON names and is left out if empty.
        let metadata = spec["metadata"].to_string();
        let metadata = metadata.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let metadata = metadata.filter(|inner| !inner.is_empty()).map(|inner| format!("{inner},"));
        let inner = go_struct_json(&spec["spec"], SPEC);
        let shown = format!("{{{}\"Spec\":{inner}}}", metadata.unwrap_or_default());
        errors.invalid_as_shown("spec", &shown, "field is immutable");
    }
}

/// Checks that the namespace allows admin access. For a template the API server reports the path as
/// in a claim.
fn check_admin_access(admission: &Admission<'_>, spec: &Value, errors: &mut FieldErrors) {
    let has_admin_access = |request: &Value| request["exactly"]["adminAccess"] == true;
    let requests = list(spec, &["devices", "requests"]);
    if let Some(index) = requests.iter().position(has_admin_access) {
        require_admin_access(
            admission,
            format!("spec.devices.requests[{index}].adminAccess"),
            errors,
        );
    }
}

/// Reports `field` unless the namespace allows admin access to devices.
pub(super) fn require_admin_access(
    admission: &Admission<'_>,
    field: String,
    errors: &mut FieldErrors,
) {
    let namespace = Key::new(Resource::new("", "namespaces"), "", &admission.key.namespace);
    let namespace = admission.store.find(&namespace);
    if namespace.and_then(|namespace| object::label(namespace, ADMIN_ACCESS_LABEL)) != Some("true")
    {
        let rule = format!(
            "admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
        );
        errors.forbidden(field, &rule);
    }
}

/// Checks the claim spec at `field`.
fn check_spec(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let devices = &spec["devices"];
    let field = format!("{field}.devices");
    let mut seen = BTreeSet::new();
    for (path, request) in bounded_items(devices, &field, "requests", ITEMS_MAX, errors) {
        check_dns_label(text(request, &["name"]), &format!("{path}.name"), errors);
        check_request_kind(request, &path, errors);
        check_unique_item(text(request, &["name"]), request, &path, &mut seen, errors);
    }
    let names = request_names(devices);
    for (path, constraint) in bounded_items(devices, &field, "constraints", ITEMS_MAX, errors) {
        check_references(constraint, &path, &names, errors);
        check_constraint(constraint, &path, errors);
    }
    for (path, configuration) in bounded_items(devices, &field, "config", ITEMS_MAX, errors) {
        check_references(configuration, &path, &names, errors);
        check_opaque(configuration, &path, errors);
    }
}

fn check_request_kind(request: &Value, field: &str, errors: &mut FieldErrors) {
    const RULE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    let exactly = &request["exactly"];
    match (exactly.is_null(), list(request, &["firstAvailable"]).is_empty()) {
        (true, true) => errors.required(field, RULE),
        (false, false) => {
            let rule = format!("{RULE}, but multiple fields are set");
            errors.invalid(field, &Value::Null, &rule);
            for (index, choice) in list(request, &["firstAvailable"]).iter().enumerate() {
                if text(choice, &["deviceClassName"]).is_empty() {
                    let path = format!("{field}.firstAvailable[{index}].deviceClassName");
                    errors.required(path, "");
                }
            }
        }
        (false, true) => check_request(exactly, &format!("{field}.exactly"), errors),
        (true, false) => {
            let mut seen = BTreeSet::new();
            for (path, choice) in
                bounded_items(request, field, "firstAvailable", ALTERNATIVES_MAX, errors)
            {
                let name = text(choice, &["name"]);
                check_dns_label(name, &format!("{path}.name"), errors);
                check_request(choice, &path, errors);
                check_unique_item(name, choice, &path, &mut seen, errors);
            }
        }
    }
}

fn check_request(request: &Value, field: &str, errors: &mut FieldErrors) {
    check_device_class_name(request, field, errors);
    check_selectors(request, field, errors);
    for (path, toleration) in bounded_items(request, field, "tolerations", TOLERATIONS_MAX, errors)
    {
        device_features::check_toleration(toleration, &path, errors);
    }
    let count = request["count"].as_i64();
    let path = format!("{field}.count");
    match text(request, &["allocationMode"]) {
        "" | "ExactCount" => {
            if let Some(count) = count.filter(|count| *count <= 0) {
                errors.invalid(path, &count.into(), "must be greater than zero");
            }
        }
        "All" => {
            if let Some(count) = count.filter(|count| *count != 0) {
                let rule = "must not be specified when allocationMode is 'All'";
                errors.invalid(path, &count.into(), rule);
            }
        }
        mode => {
            errors.unsupported(format!("{field}.allocationMode"), &mode.into(), &ALLOCATION_MODES);
        }
    }
}

fn check_device_class_name(request: &Value, field: &str, errors: &mut FieldErrors) {
    let field = format!("{field}.deviceClassName");
    let name = text(request, &["deviceClassName"]);
    if name.is_empty() {
        errors.required(field, "");
    } else if let Some(rule) = names::dns_subdomain_violation(name) {
        errors.invalid(field, &name.into(), &rule);
    }
}

/// The names by which the requests of a claim can be referenced: `request` and
/// `request/subrequest`.
pub(super) fn request_names(devices: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for request in list(devices, &["requests"]) {
        let name = text(request, &["name"]);
        names.insert(name.to_owned());
        for choice in list(request, &["firstAvailable"]) {
            names.insert(format!("{name}/{}", text(choice, &["name"])));
        }
    }
    names
}

/// Checks that `requests` of a constraint or a configuration references existing requests.
pub(super) fn check_references(
    owner: &Value,
    path: &str,
    names: &BTreeSet<String>,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (path, name) in bounded_items(owner, path, "requests", ITEMS_MAX, errors) {
        let name = name.as_str().unwrap_or_default();
        check_reference(name, &path, names, errors);
        check_unique(name, &path, &mut seen, errors);
    }
}

pub(super) fn check_reference(
    name: &str,
    path: &str,
    names: &BTreeSet<String>,
    errors: &mut FieldErrors,
) {
    for part in name.splitn(2, '/') {
        check_dns_label(part, path, errors);
    }
    if !names.contains(name) {
        let rule = "must be the name of a request in the claim or the name of a request and a \
                    subrequest separated by '/'";
        errors.invalid(path, &name.into(), rule);
    }
}

/// Checks that a constraint names an attribute.
fn check_constraint(constraint: &Value, path: &str, errors: &mut FieldErrors) {
    for field in ["matchAttribute", "distinctAttribute"] {
        if let Some(name) = constraint[field].as_str() {
            return check_fully_qualified_name(name, &format!("{path}.{field}"), errors);
        }
    }
    // The text is that of kube-apiserver.
    let rule = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but \
                multiple fields are set";
    errors.required(path, rule);
}
