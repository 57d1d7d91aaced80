//! What a `CustomResourceDefinition` may say besides its schemas: names, columns, paths.

use super::schema::path::{Brackets, follow};
use crate::error::FieldErrors;
use crate::names::{dns_1035_label, dns_subdomain};
use crate::object::{list, text};
use schedlab_json::Value;

/// Refuses what is no definition, but for its schemas.
pub(super) fn check(crd: &Value, errors: &mut FieldErrors) {
    check_identity(crd, errors);
    check_names(crd, errors);
    if crd["spec"]["preserveUnknownFields"] == true {
        let rule = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                    spec.versions[*].schema instead";
        errors.invalid("spec.preserveUnknownFields", &true.into(), rule);
    }
    let versions = list(crd, &["spec", "versions"]);
    check_homes(versions, errors);
    for (index, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        check_warning(version, &field, errors);
        for (part, check) in PARTS {
            // What all versions have in common is spoken of as the definition's.
            let is_shared = is_shared(versions, part);
            let place = if is_shared { "spec" } else { &*field };
            if !is_shared || index == 0 {
                check(version, place, errors);
            }
        }
    }
}

fn is_shared(versions: &[Value], part: &str) -> bool {
    versions.iter().all(|version| version[part] == versions[0][part])
}

type Check = fn(&Value, &str, &mut FieldErrors);

const PARTS: [(&str, Check); 3] = [
    ("subresources", check_scale),
    ("additionalPrinterColumns", check_columns),
    ("selectableFields", check_selectable),
];

/// Selectable fields and the schema that they are of are both the versions' own, or neither is.
fn check_homes(versions: &[Value], errors: &mut FieldErrors) {
    let homes = ["selectableFields", "schema"].map(|part| is_shared(versions, part));
    let selects = |version: &Value| !list(version, &["selectableFields"]).is_empty();
    if homes == [true, false] && versions.first().is_some_and(selects) {
        let rule = "may only be set when validations.schema is included";
        errors.invalid("spec.selectableFields", &"".into(), rule);
    }
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| selects(version)) {
        if homes == [false, true] {
            let place = format!("spec.versions[{index}].selectableFields");
            let rule = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.invalid(place, &"".into(), rule);
        }
    }
}

fn check_identity(crd: &Value, errors: &mut FieldErrors) {
    let group = text(crd, &["spec", "group"]);
    let wanted = format!("{}.{group}", text(crd, &["spec", "names", "plural"]));
    let name = crate::object::name(crd);
    if name != wanted {
        let rule = "must be spec.names.plural+\".\"+spec.group";
        errors.invalid("metadata.name", &name.into(), rule);
    }
    if group.is_empty() {
        errors.required("spec.group", "");
    } else if let Some(rule) = dns_subdomain(group) {
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
        check(field, name, dns_1035_label(name).filter(|_| !name.is_empty()));
    }
    for field in ["kind", "listKind"] {
        let name = text(names, &[field]);
        let rule = dns_1035_label(&name.to_lowercase()).filter(|_| !name.is_empty());
        let but = "may have mixed case, but should otherwise match";
        check(field, name, rule.map(|rule| format!("{but}: {rule}")));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(names, &[field]).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            check(&format!("{field}[{index}]"), name, dns_1035_label(name));
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

fn check_warning(version: &Value, field: &str, errors: &mut FieldErrors) {
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

/// A path that begins as it must.
fn check_path(path: &str, place: String, below: &[&str], errors: &mut FieldErrors) {
    let begins = |start: &&str| path.starts_with(&format!(".{start}."));
    if !path.starts_with('.') {
        errors.invalid(place, &path.into(), "must be a simple json path starting with .");
    } else if !below.is_empty() && !below.iter().any(begins) {
        let below = match below {
            [one] => format!("under .{one}"),
            several => format!("under either .{}", several.join(" or .")),
        };
        errors.invalid(place, &path.into(), &format!("should be a json path {below}"));
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
        let place = format!("{field}.subresources.scale.{name}");
        match text(scale, &[name]) {
            "" if name == "labelSelectorPath" => {}
            "" => errors.required(place, ""),
            path => check_path(path, place, below, errors),
        }
    }
}

const COLUMNS: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

fn check_columns(version: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, column) in list(version, &["additionalPrinterColumns"]).iter().enumerate() {
        let of = |name: &str| text(column, &[name]);
        let place = |name: &str| format!("{field}.additionalPrinterColumns[{index}].{name}");
        if of("name").is_empty() {
            errors.required(place("name"), "");
        }
        let rule = format!("must be one of {}", COLUMNS.join(","));
        match of("type") {
            "" => errors.required(place("type"), &rule),
            kind if !COLUMNS.contains(&kind) => errors.invalid(place("type"), &kind.into(), &rule),
            _ => {}
        }
        let format = of("format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let rule = format!("must be one of {}", FORMATS.join(","));
            errors.invalid(place("format"), &format.into(), &rule);
        }
        match of("jsonPath") {
            "" => errors.required(place("JSONPath"), ""),
            path => check_path(path, place("JSONPath"), &[], errors),
        }
    }
}

/// So many fields can be selected by.
const SELECTABLE_MAX: usize = 8;

fn check_selectable(version: &Value, field: &str, errors: &mut FieldErrors) {
    let Some(schema) = version["schema"].get("openAPIV3Schema") else { return };
    let mut known: Vec<Vec<String>> = Vec::new();
    for (index, selectable) in list(version, &["selectableFields"]).iter().enumerate() {
        let place = || format!("{field}.selectableFields[{index}].jsonPath");
        let path = text(selectable, &["jsonPath"]);
        let value = &path.into();
        if path.is_empty() {
            errors.required(place(), "");
            continue;
        }
        let (names, there) = match follow(path, schema, Brackets::Refused) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(place(), value, &format!("is an invalid path: {why}"));
                continue;
            }
        };
        if names.first().is_some_and(|name| name == "metadata") {
            errors.invalid(place(), value, "must not point to fields in metadata");
        }
        if !matches!(text(there, &["type"]), "string" | "boolean" | "integer") {
            let rule = "must point to a field of type string, boolean or integer. Enum string \
                        fields and strings with formats are allowed.";
            errors.invalid(place(), value, rule);
        }
        if known.contains(&names) {
            errors.duplicate(place(), value);
        } else {
            known.push(names);
        }
    }
    if known.len() > SELECTABLE_MAX {
        errors.too_many(format!("{field}.selectableFields"), known.len(), SELECTABLE_MAX);
    }
}
