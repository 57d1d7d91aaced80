//! Embedded resources (`x-kubernetes-embedded-resource`): their apiVersion, kind and metadata
//! follow the rules of any object.

use super::field_path::FieldPath;
use super::{AdditionalProperties, Embedded, Schema};
use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::{metadata, typed};
use crate::api_types::names::{
    dns_1035_label_violation, dns_label_violation, qualified_name_violations,
};
use schedlab_api::{Map, Value, object};

impl Schema {
    /// The schemas of the fields, of map values and of list items.
    pub(super) fn child_schemas(&self) -> impl Iterator<Item = &Self> {
        let values = match &self.additional {
            AdditionalProperties::Values(values) => Some(&**values),
            AdditionalProperties::None | AdditionalProperties::Any => None,
        };
        self.properties.values().chain(values).chain(self.items.as_deref())
    }

    /// Decodes apiVersion, kind and metadata of embedded resources. The paths of unknown fields are
    /// added to `unknown`.
    ///
    /// # Errors
    ///
    /// The decoding error, with Go's text.
    pub fn decode_embedded(
        &self,
        object: &mut Value,
        unknown: &mut Vec<String>,
    ) -> Result<(), String> {
        self.decode_below(object, &FieldPath::ROOT, unknown)
    }

    fn decode_below(
        &self,
        value: &mut Value,
        path: &FieldPath<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(), String> {
        if !self.holds_embedded() {
            return Ok(());
        }
        if let (Some(fields), true) = (value.as_object_mut(), self.is_embedded()) {
            decode_embedded_object(fields, path, unknown)?;
        }
        for (name, field) in value.as_object_mut().into_iter().flat_map(Map::iter_mut) {
            if let Some((schema, path)) = self.child_at(name, path) {
                schema.decode_below(field, &path, unknown)?;
            }
        }
        for (index, item) in value.as_array_mut().into_iter().flatten().enumerate() {
            if let Some(schema) = &self.items {
                schema.decode_below(item, &path.item(index), unknown)?;
            }
        }
        Ok(())
    }

    /// Whether this is the schema of an embedded resource.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded == Embedded::Here
    }

    /// Whether this schema is that of an embedded resource, or contains one.
    pub(super) fn holds_embedded(&self) -> bool {
        self.embedded != Embedded::Nowhere
    }

    fn child_at<'p>(
        &self,
        name: &'p str,
        path: &'p FieldPath<'p>,
    ) -> Option<(&Self, FieldPath<'p>)> {
        let of = |schema| (schema, path.field(name));
        self.properties
            .get(name)
            .map(of)
            .or_else(|| Some((self.field_schema(name)?, path.key(name))))
    }

    /// Validates apiVersion, kind and metadata of the embedded resources in `object`.
    pub fn check_embedded(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        self.check_embedded_below(object, &FieldPath::ROOT, &mut errors);
        errors
    }

    fn check_embedded_below(&self, value: &Value, path: &FieldPath<'_>, errors: &mut FieldErrors) {
        if !self.holds_embedded() {
            return;
        }
        if value.is_object() && self.is_embedded() {
            check_embedded_object(value, path, errors);
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            if let Some((schema, path)) = self.child_at(name, path) {
                schema.check_embedded_below(field, &path, errors);
            }
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            if let Some(schema) = &self.items {
                schema.check_embedded_below(item, &path.item(index), errors);
            }
        }
    }
}

fn decode_embedded_object(
    fields: &mut Map,
    path: &FieldPath<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(name).filter(|value| !value.is_string()) {
            return Err(format!("{}: Invalid value: {value}: must be a string", path.field(name)));
        }
    }
    let Some(metadata) = fields.get_mut("metadata") else { return Ok(()) };
    let path = path.field("metadata");
    let shown = metadata.to_string();
    let decoded = typed::decode_embedded(metadata)
        .map_err(|why| format!("{path}: Invalid value: {shown}: {why}"))?;
    unknown.extend(decoded.unknown.iter().map(|field| format!("{path}.{field}")));
    Ok(())
}

fn check_embedded_object(object: &Value, path: &FieldPath<'_>, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        let field = path.field(name).to_string();
        match object.get(name) {
            None => errors.required(field, ""),
            Some(value) => {
                if let Some(rule) = violated_type_rule(name, value.as_str()) {
                    errors.invalid(field, value, &rule);
                }
            }
        }
    }
    if object.get("metadata").is_some() {
        let mut metadata_errors = FieldErrors::new();
        check_embedded_metadata(object, &mut metadata_errors);
        errors.extend_below(&path.to_string(), metadata_errors);
    }
}

/// The rule that the field `name` (`apiVersion` or `kind`) of an embedded resource violates.
fn violated_type_rule(name: &str, value: Option<&str>) -> Option<String> {
    match (name, value) {
        (_, None) => Some("must be a string".to_owned()),
        (_, Some("")) => Some("must not be empty".to_owned()),
        ("kind", Some(kind)) => dns_1035_label_violation(&kind.to_lowercase())
            .map(|rule| format!("may have mixed case, but should otherwise match: {rule}")),
        (_, Some(version)) => (version.matches('/').count() > 1)
            .then(|| format!("unexpected GroupVersion string: {version}")),
    }
}

fn check_embedded_metadata(object: &Value, errors: &mut FieldErrors) {
    let is_segment = |name: &str| !name.contains(['/', '%']);
    for field in ["name", "generateName"] {
        let name = object::text(object, &["metadata", field]);
        let path = format!("metadata.{field}");
        if !is_segment(name) {
            let sign = if name.contains('/') { "/" } else { "%" };
            errors.invalid(path, &name.into(), &format!("may not contain '{sign}'"));
        } else if field == "name" && matches!(name, "." | "..") {
            errors.invalid(path, &name.into(), &format!("may not be '{name}'"));
        }
    }
    let namespace = object::namespace(object);
    if let Some(rule) = dns_label_violation(namespace).filter(|_| !namespace.is_empty()) {
        errors.invalid("metadata.namespace", &namespace.into(), &rule);
    }
    metadata::check_labels(object, "metadata.labels", errors);
    metadata::check_annotations(object, "metadata.annotations", errors);
    metadata::check_owners(object, errors);
    for name in object::finalizers(object) {
        for rule in qualified_name_violations(name) {
            errors.invalid("metadata.finalizers", &name.into(), &rule);
        }
    }
}
