//! Validation of `CustomResourceDefinition` except its schemas: names, subresources, printer
//! columns, selectable fields.

use super::schema::path::{BracketKeys, resolve_json_path};
use crate::api_types::error::FieldErrors;
use crate::api_types::names::{dns_1035_label_violation, dns_subdomain_violation};
use schedlab_api::{
    Value,
    object::{list, text},
};

/// Checks a CRD, except its schemas.
pub(super) fn check_crd(crd: &Value, errors: &mut FieldErrors) {
    check_group_and_names(crd, errors);
    check_names(crd, errors);
    if crd["spec"]["preserveUnknownFields"] == true {
        let rule = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                    spec.versions[*].schema instead";
        errors.invalid("spec.preserveUnknownFields", &true.into(), rule);
    }
    let versions = list(crd, &["spec", "versions"]);
    check_shared_parts(versions, errors);
    for (index, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        check_deprecation_warning(version, &field, errors);
        for (part, check) in VERSION_PARTS {
            // Parts that all versions share are reported at the top level of the CRD.
            let is_shared = is_shared(versions, part);
            let field_path = if is_shared { "spec" } else { &*field };
            if !is_shared || index == 0 {
                check(version, field_path, errors);
            }
        }
    }
}

fn is_shared(versions: &[Value], part: &str) -> bool {
    versions.iter().all(|version| version[part] == versions[0][part])
}

type PartCheck = fn(&Value, &str, &mut FieldErrors);

const VERSION_PARTS: [(&str, PartCheck); 3] = [
    ("subresources", check_scale),
    ("additionalPrinterColumns", check_columns),
    ("selectableFields", check_selectable_fields),
];

/// Checks that `selectableFields` and `schema` are both set for all versions together, or both set
/// per version.
fn check_shared_parts(versions: &[Value], errors: &mut FieldErrors) {
    let homes = ["selectableFields", "schema"].map(|part| is_shared(versions, part));
    let selects = |version: &Value| !list(version, &["selectableFields"]).is_empty();
    if homes == [true, false] && versions.first().is_some_and(selects) {
        let rule = "may only be set when validations.schema is included";
        errors.invalid("spec.selectableFields", &"".into(), rule);
    }
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| selects(version)) {
        if homes == [false, true] {
            let field_path = format!("spec.versions[{index}].selectableFields");
            let rule = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.invalid(field_path, &"".into(), rule);
        }
    }
}

fn check_group_and_names(crd: &Value, errors: &mut FieldErrors) {
    let group = text(crd, &["spec", "group"]);
    let expected_name = format!("{}.{group}", text(crd, &["spec", "names", "plural"]));
    let name = schedlab_api::object::name(crd);
    if name != expected_name {
        let rule = "must be spec.names.plural+\".\"+spec.group";
        errors.invalid("metadata.name", &name.into(), rule);
    }
    if group.is_empty() {
        errors.required("spec.group", "");
    } else if let Some(rule) = dns_subdomain_violation(group) {
        errors.invalid("spec.group", &group.into(), &rule);
    } else if !group.contains('.') {
        let rule = "should be a domain with at least one dot";
        errors.invalid("spec.group", &group.into(), rule);
    }
    match text(crd, &["spec", "scope"]) {
        "Namespaced" | "Cluster" => {}
        "" => errors.required("spec.scope", ""),
        other => errors.unsupported("spec.scope", &other.into(), &["Cluster", "Namespaced"]),
    }
    match text(crd, &["spec", "conversion", "strategy"]) {
        "" | "None" => {}
        other => errors.unsupported("spec.conversion.strategy", &other.into(), &["None"]),
    }
}

fn check_names(crd: &Value, errors: &mut FieldErrors) {
    let names = &crd["spec"]["names"];
    let mut check = |field: &str, name: &str, rule: Option<String>| {
        if let Some(rule) = rule {
            errors.invalid(format!("spec.names.{field}"), &name.into(), &rule);
        }
    };
    for field in ["plural", "singular"] {
        let name = text(names, &[field]);
        check(field, name, dns_1035_label_violation(name).filter(|_| !name.is_empty()));
    }
    for field in ["kind", "listKind"] {
        let name = text(names, &[field]);
        let rule = dns_1035_label_violation(&name.to_lowercase()).filter(|_| !name.is_empty());
        let but = "may have mixed case, but should otherwise match";
        check(field, name, rule.map(|rule| format!("{but}: {rule}")));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(names, &[field]).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            check(&format!("{field}[{index}]"), name, dns_1035_label_violation(name));
        }
    }
    let (kind, list_kind) = (text(names, &["kind"]), text(names, &["listKind"]));
    let is_same = !kind.is_empty() && kind == list_kind;
    let rule = "kind and listKind may not be the same";
    check("listKind", list_kind, is_same.then(|| rule.to_owned()));
    for field in ["plural", "kind"] {
        if text(names, &[field]).is_empty() {
            errors.required(format!("spec.names.{field}"), "");
        }
    }
}

fn check_deprecation_warning(version: &Value, field: &str, errors: &mut FieldErrors) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let mut refuse = |rule: &str| {
        errors.invalid(format!("{field}.deprecationWarning"), &warning.into(), rule);
    };
    if version["deprecated"] != true {
        return refuse("can only be set for deprecated versions");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, sign)| sign.is_control()) {
        let found = format!("non-printable character found at index {at}");
        refuse(&format!("must only contain printable UTF-8 characters; {found}"));
    }
}

/// Checks that a JSON path is simple and begins with one of the fields `allowed_roots`.
fn check_json_path(
    path: &str,
    field_path: String,
    allowed_roots: &[&str],
    errors: &mut FieldErrors,
) {
    let begins = |start: &&str| path.starts_with(&format!(".{start}."));
    if !path.starts_with('.') {
        errors.invalid(field_path, &path.into(), "must be a simple json path starting with .");
    } else if !allowed_roots.is_empty() && !allowed_roots.iter().any(begins) {
        let allowed_roots = match allowed_roots {
            [one] => format!("under .{one}"),
            several => format!("under either .{}", several.join(" or .")),
        };
        errors.invalid(field_path, &path.into(), &format!("should be a json path {allowed_roots}"));
    }
}

fn check_scale(version: &Value, field: &str, errors: &mut FieldErrors) {
    let Some(scale) = version["subresources"].get("scale").filter(|scale| scale.is_object()) else {
        return;
    };
    for (name, below) in [
        ("specReplicasPath", &["spec"][..]),
        ("statusReplicasPath", &["status"]),
        ("labelSelectorPath", &["spec", "status"]),
    ] {
        let field_path = format!("{field}.subresources.scale.{name}");
        match text(scale, &[name]) {
            "" if name == "labelSelectorPath" => {}
            "" => errors.required(field_path, ""),
            path => check_json_path(path, field_path, below, errors),
        }
    }
}

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

fn check_columns(version: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, column) in list(version, &["additionalPrinterColumns"]).iter().enumerate() {
        let of = |name: &str| text(column, &[name]);
        let field_path = |name: &str| format!("{field}.additionalPrinterColumns[{index}].{name}");
        if of("name").is_empty() {
            errors.required(field_path("name"), "");
        }
        let rule = format!("must be one of {}", COLUMN_TYPES.join(","));
        match of("type") {
            "" => errors.required(field_path("type"), &rule),
            kind if !COLUMN_TYPES.contains(&kind) => {
                errors.invalid(field_path("type"), &kind.into(), &rule);
            }
            _ => {}
        }
        let format = of("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let rule = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.invalid(field_path("format"), &format.into(), &rule);
        }
        match of("jsonPath") {
            "" => errors.required(field_path("JSONPath"), ""),
            path => check_json_path(path, field_path("JSONPath"), &[], errors),
        }
    }
}

/// The maximum number of selectable fields.
const SELECTABLE_FIELDS_MAX: usize = 8;

fn check_selectable_fields(version: &Value, field: &str, errors: &mut FieldErrors) {
    let Some(schema) = version["schema"].get("openAPIV3Schema") else { return };
    let mut known: Vec<Vec<String>> = Vec::new();
    for (index, selectable) in list(version, &["selectableFields"]).iter().enumerate() {
        let field_path = || format!("{field}.selectableFields[{index}].jsonPath");
        let path = text(selectable, &["jsonPath"]);
        let value = &path.into();
        if path.is_empty() {
            errors.required(field_path(), "");
            continue;
        }
        let (names, field_schema) = match resolve_json_path(path, schema, BracketKeys::Rejected) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(field_path(), value, &format!("is an invalid path: {why}"));
                continue;
            }
        };
        if names.first().is_some_and(|name| name == "metadata") {
            errors.invalid(field_path(), value, "must not point to fields in metadata");
        }
        if !matches!(text(field_schema, &["type"]), "string" | "boolean" | "integer") {
            let rule = "must point to a field of type string, boolean or integer. Enum string \
                        fields and strings with formats are allowed.";
            errors.invalid(field_path(), value, rule);
        }
        if known.contains(&names) {
            errors.duplicate(field_path(), value);
        } else {
            known.push(names);
        }
    }
    if known.len() > SELECTABLE_FIELDS_MAX {
        errors.too_many(format!("{field}.selectableFields"), known.len(), SELECTABLE_FIELDS_MAX);
    }
}
