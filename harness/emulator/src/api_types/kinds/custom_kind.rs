//! Builds a [`Kind`] from a `CustomResourceDefinition` and reports all its errors.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::crd_validation;
use super::schema::compile_schema;
use super::{Column, Generation, Kind, Origin, Path, Resource, Scale, Version};
use crate::api_types::error::FieldErrors;
use crate::api_types::kubernetes_version::KubernetesVersion;
use schedlab_api::{
    Value,
    object::{list, text},
};

/// The kind that a CRD defines, and the errors of the CRD. The kind may be used only if there are
/// no errors.
pub fn from_crd(crd: &Value) -> (Kind, FieldErrors) {
    let mut errors = FieldErrors::new();
    let names = |field: &str| text(crd, &["spec", "names", field]);
    let group = text(crd, &["spec", "group"]);
    crd_validation::check_crd(crd, &mut errors);
    let kind = names("kind");
    let default = |value: &str, fallback: String| -> Arc<str> {
        if value.is_empty() { fallback.into() } else { value.into() }
    };
    let texts = |field: &str| -> Vec<Arc<str>> {
        let values = list(crd, &["spec", "names", field]).iter();
        values.filter_map(Value::as_str).map(Arc::from).collect()
    };
    let versions = parse_versions(crd, &mut errors);
    let storage = list(crd, &["spec", "versions"])
        .iter()
        .find(|version| version["storage"] == true)
        .map_or("", |version| text(version, &["name"]));
    let kind = Kind {
        resource: Resource::new(group, names("plural")),
        kind: kind.into(),
        list_kind: default(names("listKind"), format!("{kind}List")),
        singular: default(names("singular"), kind.to_lowercase()),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        namespaced: text(crd, &["spec", "scope"]) == "Namespaced",
        generation: Generation::OnSpec,
        versions,
        storage: storage.into(),
        origin: Origin::Custom,
        schema_revision: 0,
        kubernetes: KubernetesVersion::default(),
    };
    (kind, errors)
}

fn parse_versions(crd: &Value, errors: &mut FieldErrors) -> Vec<Version> {
    let raw = list(crd, &["spec", "versions"]);
    let mut versions = Vec::new();
    for (index, version) in raw.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        let name = text(version, &["name"]);
        if let Some(rule) = crate::api_types::names::dns_1035_label_violation(name) {
            errors.invalid(format!("{field}.name"), &name.into(), &rule);
            if index == 0 {
                errors.invalid("spec.version", &name.into(), &rule);
            }
        }
        let is_shared = raw.iter().all(|other| other["schema"] == version["schema"]);
        versions.push(parse_version(version, &field, is_shared, errors));
    }
    let shown = || {
        let shown: Vec<String> = raw.iter().map(version_in_go).collect();
        format!("[{}]", shown.join(","))
    };
    let names: BTreeSet<&str> = raw.iter().map(|version| text(version, &["name"])).collect();
    if names.len() != raw.len() {
        errors.invalid_as_shown("spec.versions", &shown(), "must contain unique version names");
    }
    let stored = raw.iter().filter(|version| version["storage"] == true).count();
    if stored != 1 {
        let rule = "must have exactly one version marked as storage version";
        errors.invalid_as_shown("spec.versions", &shown(), rule);
    }
    if stored == 0 {
        let rule = "must have at least one stored version";
        errors.invalid("status.storedVersions", &Value::Null, rule);
    }
    versions.sort_by_key(|version| std::cmp::Reverse(version_rank(&version.name)));
    versions
}

/// A version of a CRD as Go formats it in messages. Go moves the parts that all versions share to
/// the top level of the CRD, so they are null here.
fn version_in_go(raw: &Value) -> String {
    let (name, warning) = (&raw["name"], &raw["deprecationWarning"]);
    let is = |field: &str| raw[field] == true;
    format!(
        "{{\"Name\":{name},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\
         \"DeprecationWarning\":{warning},\"Schema\":null,\"Subresources\":null,\
         \"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
        is("served"),
        is("storage"),
        is("deprecated"),
    )
}

/// Parses the version at `field`. Errors in a schema that all versions share are reported at the
/// top level of the CRD.
fn parse_version(raw: &Value, field: &str, is_shared: bool, errors: &mut FieldErrors) -> Version {
    let schema = raw.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
    let field_path = match schema {
        Some(_) if is_shared => "spec.validation.openAPIV3Schema".to_owned(),
        Some(_) | None => format!("{field}.schema.openAPIV3Schema"),
    };
    let schema = if let Some(schema) = schema.filter(|schema| schema.is_object()) {
        check_schema_root(raw, &field_path, errors);
        Some(compile_schema(schema, &field_path, errors))
    } else {
        errors.required(field_path, "");
        None
    };
    let scale = raw["subresources"].get("scale").filter(|scale| scale.is_object()).map(|scale| {
        let path = |name: &str| parse_json_path(text(scale, &[name]));
        Scale {
            spec_replicas: path("specReplicasPath"),
            status_replicas: path("statusReplicasPath"),
            selector: Some(path("labelSelectorPath")).filter(|path| !path.is_empty()),
        }
    });
    Version {
        name: text(raw, &["name"]).into(),
        served: raw["served"] == true,
        status: raw["subresources"].get("status").is_some_and(|status| !status.is_null()),
        scale,
        columns: list(raw, &["additionalPrinterColumns"]).iter().map(parse_column).collect(),
        schema,
        selectable: list(raw, &["selectableFields"])
            .iter()
            .map(|field| parse_json_path(text(field, &["jsonPath"])))
            .collect(),
    }
}

/// The keywords that are allowed at the root of the schema of a version with a status subresource:
/// Go name and JSON name.
const ROOT_KEYWORDS_WITH_STATUS: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];

/// Checks the root of a version's schema. Unlike the API server, whose message shows every Go field
/// of the schema, the message shows the schema as it was written.
fn check_schema_root(version: &Value, field_path: &str, errors: &mut FieldErrors) {
    let schema = &version["schema"]["openAPIV3Schema"];
    if schema["nullable"] == true {
        errors.forbidden(format!("{field_path}.nullable"), "nullable cannot be true at the root");
    }
    if version["subresources"]["status"].is_null() {
        return;
    }
    let kind = text(schema, &["type"]);
    let where_allowed = "at the root of the schema if the status subresource is enabled";
    let may_stand = |word: &str| ROOT_KEYWORDS_WITH_STATUS.iter().any(|(_, known)| *known == word);
    let keywords = schema.as_object().into_iter().flatten();
    let mut forbidden_keywords = keywords.filter(|(_, said)| !said.is_null() && **said != false);
    if !kind.is_empty() && kind != "object" {
        let rule = format!("only \"object\" is allowed as the type {where_allowed}");
        errors.invalid(format!("{field_path}.type"), &kind.into(), &rule);
    } else if forbidden_keywords.any(|(word, _)| !may_stand(word)) {
        let allowed_keywords: Vec<&str> =
            ROOT_KEYWORDS_WITH_STATUS.iter().map(|(word, _)| *word).collect();
        let rule =
            format!("only [{}] fields are allowed {where_allowed}", allowed_keywords.join(" "));
        errors.invalid(field_path, schema, &rule);
    }
}

fn parse_column(raw: &Value) -> Column {
    let of = |field: &str| text(raw, &[field]).to_owned();
    Column {
        name: of("name"),
        kind: of("type"),
        format: of("format"),
        description: of("description"),
        priority: raw["priority"].as_i64().unwrap_or(0),
        json_path: of("jsonPath"),
    }
}

/// Splits `.spec.replicas` into its fields.
fn parse_json_path(path: &str) -> Path {
    path.split('.').filter(|step| !step.is_empty()).map(Arc::from).collect()
}

/// A sort key for version names: stable, then beta, then alpha, each by descending number; other
/// names come last.
pub(crate) fn version_rank(name: &str) -> (u8, u32, u32, std::cmp::Reverse<String>) {
    let last = || (0, 0, 0, std::cmp::Reverse(name.to_owned()));
    let Some(rest) = name.strip_prefix('v') else {
        return last();
    };
    let (major, tail) = match rest.find(|letter: char| !letter.is_ascii_digit()) {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let stability = match tail {
        "" => Some((3, 0)),
        tail => ["beta", "alpha"].iter().zip([2, 1]).find_map(|(word, stability)| {
            Some((stability, tail.strip_prefix(word)?.parse::<u32>().ok()?))
        }),
    };
    match (major.parse(), stability) {
        (Ok(major), Some((stability, minor))) => {
            (stability, major, minor, std::cmp::Reverse(String::new()))
        }
        _ => last(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_by_stability_then_number() {
        let mut names = ["v1alpha1", "foo", "v2", "v1beta2", "v10", "v1beta10", "v2alpha2"];
        names.sort_by_key(|name| std::cmp::Reverse(version_rank(name)));
        assert_eq!(names, ["v10", "v2", "v1beta10", "v1beta2", "v2alpha2", "v1alpha1", "foo"]);
    }
}
