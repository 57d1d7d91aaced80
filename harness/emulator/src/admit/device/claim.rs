//! What is asked of devices, in claims and in templates of claims: each request is of one form
//! and names a class, and a name stands once.

use std::collections::BTreeSet;

use super::{
    ITEMS_MAX, bounded, check_label, check_once, check_opaque, check_qualified, check_selectors,
};
use crate::admit::Admission;
use crate::error::FieldErrors;
use crate::error::in_go::{Field, in_go};
use crate::kinds::Resource;
use crate::kinds::metadata::check_labels;
use crate::names;
use crate::object::{self, list, text};
use crate::store::Key;
use schedlab_json::Value;

const ALTERNATIVES_MAX: usize = 8;
const MODES: [&str; 2] = ["All", "ExactCount"];
/// The label of namespaces whose claims may be on devices that others use.
const ADMIN: &str = "resource.kubernetes.io/admin-access";

const REQUEST: &[Field] = &[
    Field("deviceClassName", &[]),
    Field("selectors", &[Field("cel", &[Field("expression", &[])])]),
    Field("allocationMode", &[]),
    Field("count", &[]),
    Field("adminAccess", &[]),
    Field("tolerations", &[]),
    Field("capacity", &[]),
];
const ALTERNATIVE: &[Field] = &[
    Field("name", &[]),
    Field("deviceClassName", &[]),
    Field("selectors", &[Field("cel", &[Field("expression", &[])])]),
    Field("allocationMode", &[]),
    Field("count", &[]),
    Field("tolerations", &[]),
    Field("capacity", &[]),
];
const SPEC: &[Field] = &[Field(
    "devices",
    &[
        Field(
            "requests",
            &[Field("name", &[]), Field("exactly", REQUEST), Field("firstAvailable", ALTERNATIVE)],
        ),
        Field(
            "constraints",
            &[
                Field("requests", &[]),
                Field("matchAttribute", &[]),
                Field("distinctAttribute", &[]),
            ],
        ),
        Field("config", &[Field("requests", &[]), Field("opaque", &[])]),
    ],
)];

/// Old state, if there is one, and new.
type Change<'c> = (Option<&'c Value>, &'c Value);

pub(super) fn check(admission: &Admission<'_>, (old, new): Change<'_>, errors: &mut FieldErrors) {
    let spec = &new["spec"];
    match old {
        None => check_rights(admission, spec, errors),
        Some(old) if old["spec"] != *spec => {
            errors.invalid_in_go("spec", &in_go(spec, SPEC), "field is immutable");
        }
        Some(_) => {}
    }
    check_spec(spec, "spec", errors);
}

pub(super) fn check_template(
    admission: &Admission<'_>,
    (old, new): Change<'_>,
    errors: &mut FieldErrors,
) {
    let spec = &new["spec"];
    if old.is_none() {
        check_rights(admission, &spec["spec"], errors);
    }
    check_labels(spec, "spec.metadata.labels", errors);
    for field in ["name", "generateName"] {
        if !text(spec, &["metadata", field]).is_empty() {
            errors.forbidden(format!("spec.metadata.{field}"), "cannot be set");
        }
    }
    check_spec(&spec["spec"], "spec.spec", errors);
    if old.is_some_and(|old| old["spec"] != *spec) {
        // Metadata has in Go the names that it has in JSON, and is not shown where it is empty.
        let metadata = spec["metadata"].to_string();
        let metadata = metadata.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let metadata = metadata.filter(|inner| !inner.is_empty()).map(|inner| format!("{inner},"));
        let inner = in_go(&spec["spec"], SPEC);
        let shown = format!("{{{}\"Spec\":{inner}}}", metadata.unwrap_or_default());
        errors.invalid_in_go("spec", &shown, "field is immutable");
    }
}

/// Whether who writes into this namespace may see devices that others use. The API server calls
/// the field of a template as it stands in a claim.
fn check_rights(admission: &Admission<'_>, spec: &Value, errors: &mut FieldErrors) {
    let asks = |request: &Value| request["exactly"]["adminAccess"] == true;
    let requests = list(spec, &["devices", "requests"]);
    if let Some(index) = requests.iter().position(asks) {
        demand_rights(admission, format!("spec.devices.requests[{index}].adminAccess"), errors);
    }
}

/// In this field somebody asks for devices that others use, or gets some.
pub(super) fn demand_rights(admission: &Admission<'_>, field: String, errors: &mut FieldErrors) {
    let namespace = Key::new(Resource::new("", "namespaces"), "", &admission.key.namespace);
    let namespace = admission.store.find(&namespace);
    if namespace.and_then(|namespace| object::label(namespace, ADMIN)) != Some("true") {
        let rule = format!(
            "admin access to devices requires the `{ADMIN}: true` label on the containing namespace"
        );
        errors.forbidden(field, &rule);
    }
}

/// Checks the spec of a claim that stands at `field`.
fn check_spec(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let devices = &spec["devices"];
    let field = format!("{field}.devices");
    let mut seen = BTreeSet::new();
    for (place, request) in bounded(devices, (&field, "requests"), ITEMS_MAX, errors) {
        check_label(text(request, &["name"]), &format!("{place}.name"), errors);
        check_form(request, &place, errors);
        check_once(text(request, &["name"]), (&place, &mut seen), errors);
    }
    let names = references(devices);
    for (place, constraint) in bounded(devices, (&field, "constraints"), ITEMS_MAX, errors) {
        check_references(constraint, (&place, &names), errors);
        check_attribute(&constraint["matchAttribute"], &place, errors);
    }
    for (place, configuration) in bounded(devices, (&field, "config"), ITEMS_MAX, errors) {
        check_references(configuration, (&place, &names), errors);
        check_opaque(configuration, &place, errors);
    }
}

fn check_form(request: &Value, field: &str, errors: &mut FieldErrors) {
    const RULE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    let exactly = &request["exactly"];
    match (exactly.is_null(), list(request, &["firstAvailable"]).is_empty()) {
        (true, true) => errors.required(field, RULE),
        (false, false) => {
            let rule = format!("{RULE}, but multiple fields are set");
            errors.invalid(field, &Value::Null, &rule);
        }
        (false, true) => check_request(exactly, &format!("{field}.exactly"), errors),
        (true, false) => {
            let mut seen = BTreeSet::new();
            let at = (field, "firstAvailable");
            for (place, choice) in bounded(request, at, ALTERNATIVES_MAX, errors) {
                let name = text(choice, &["name"]);
                check_label(name, &format!("{place}.name"), errors);
                check_request(choice, &place, errors);
                check_once(name, (&place, &mut seen), errors);
            }
        }
    }
}

fn check_request(request: &Value, field: &str, errors: &mut FieldErrors) {
    check_class(request, field, errors);
    check_selectors(request, field, errors);
    let count = request["count"].as_i64();
    let place = format!("{field}.count");
    match text(request, &["allocationMode"]) {
        "" | "ExactCount" => {
            if let Some(count) = count.filter(|count| *count <= 0) {
                errors.invalid(place, &count.into(), "must be greater than zero");
            }
        }
        "All" => {
            if let Some(count) = count.filter(|count| *count != 0) {
                let rule = "must not be specified when allocationMode is 'All'";
                errors.invalid(place, &count.into(), rule);
            }
        }
        mode => errors.unsupported(format!("{field}.allocationMode"), &mode.into(), &MODES),
    }
}

fn check_class(request: &Value, field: &str, errors: &mut FieldErrors) {
    let field = format!("{field}.deviceClassName");
    let name = text(request, &["deviceClassName"]);
    if name.is_empty() {
        errors.required(field, "");
    } else if let Some(rule) = names::dns_subdomain(name) {
        errors.invalid(field, &name.into(), &rule);
    }
}

/// What may be said of the requests of a claim, under its own name or those of its alternatives.
pub(super) fn references(devices: &Value) -> BTreeSet<String> {
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

/// What is said of requests is said of some that are there.
pub(super) fn check_references(
    owner: &Value,
    (place, names): (&str, &BTreeSet<String>),
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (place, name) in bounded(owner, (place, "requests"), ITEMS_MAX, errors) {
        let name = name.as_str().unwrap_or_default();
        check_reference(name, (&place, names), errors);
        check_once(name, (&place, &mut seen), errors);
    }
}

pub(super) fn check_reference(
    name: &str,
    (place, names): (&str, &BTreeSet<String>),
    errors: &mut FieldErrors,
) {
    for part in name.splitn(2, '/') {
        check_label(part, place, errors);
    }
    if !names.contains(name) {
        let rule = "must be the name of a request in the claim or the name of a request and a \
                    subrequest separated by '/'";
        errors.invalid(place, &name.into(), rule);
    }
}

fn check_attribute(attribute: &Value, place: &str, errors: &mut FieldErrors) {
    let place = format!("{place}.matchAttribute");
    let Some(name) = attribute.as_str() else {
        return errors.required(place, "");
    };
    check_qualified(name, &place, errors);
    if !name.contains('/') {
        let rule = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(place, &name.into(), rule);
    }
}
