//! Whole objects inside of a custom resource (`x-kubernetes-embedded-resource`): their type and
//! metadata are what they are in any object.

use super::place::Place;
use super::{Additional, Embedded, Schema};
use crate::error::FieldErrors;
use crate::kinds::{metadata, typed};
use crate::names::{dns_1035_label, dns_label, qualified_name};
use crate::object;
use schedlab_json::{Map, Value};

impl Schema {
    /// The schemas of what stands right below.
    pub(super) fn below(&self) -> impl Iterator<Item = &Self> {
        let values = match &self.additional {
            Additional::Values(values) => Some(&**values),
            Additional::None | Additional::Any => None,
        };
        self.properties.values().chain(values).chain(self.items.as_deref())
    }

    /// Brings types and metadata of embedded objects into form. The paths of the unknown fields go
    /// to `unknown`.
    ///
    /// # Errors
    ///
    /// In Go's words, what could not be decoded.
    pub fn decode_embedded(
        &self,
        object: &mut Value,
        unknown: &mut Vec<String>,
    ) -> Result<(), String> {
        self.decode(object, &Place::ROOT, unknown)
    }

    fn decode(
        &self,
        value: &mut Value,
        place: &Place<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(), String> {
        if !self.holds_embedded() {
            return Ok(());
        }
        if let (Some(fields), true) = (value.as_object_mut(), self.is_embedded()) {
            decode_object(fields, place, unknown)?;
        }
        for (name, field) in value.as_object_mut().into_iter().flat_map(Map::iter_mut) {
            if let Some((schema, place)) = self.step(name, place) {
                schema.decode(field, &place, unknown)?;
            }
        }
        for (index, item) in value.as_array_mut().into_iter().flatten().enumerate() {
            if let Some(schema) = &self.items {
                schema.decode(item, &place.item(index), unknown)?;
            }
        }
        Ok(())
    }

    /// Whether it is the schema of an embedded object.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded == Embedded::Here
    }

    /// Whether it is one, or one is below.
    pub(super) fn holds_embedded(&self) -> bool {
        self.embedded != Embedded::Nowhere
    }

    fn step<'p>(&self, name: &'p str, place: &'p Place<'p>) -> Option<(&Self, Place<'p>)> {
        let of = |schema| (schema, place.field(name));
        self.properties.get(name).map(of).or_else(|| Some((self.field(name)?, place.key(name))))
    }

    /// What is wrong with embedded objects.
    pub fn check_embedded(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        self.check_objects(object, &Place::ROOT, &mut errors);
        errors
    }

    fn check_objects(&self, value: &Value, place: &Place<'_>, errors: &mut FieldErrors) {
        if !self.holds_embedded() {
            return;
        }
        if value.is_object() && self.is_embedded() {
            check_object(value, place, errors);
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            if let Some((schema, place)) = self.step(name, place) {
                schema.check_objects(field, &place, errors);
            }
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            if let Some(schema) = &self.items {
                schema.check_objects(item, &place.item(index), errors);
            }
        }
    }
}

fn decode_object(
    fields: &mut Map,
    place: &Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(name).filter(|value| !value.is_string()) {
            return Err(format!("{}: Invalid value: {value}: must be a string", place.field(name)));
        }
    }
    let Some(metadata) = fields.get_mut("metadata") else { return Ok(()) };
    let place = place.field("metadata");
    let shown = metadata.to_string();
    let decoded = typed::decode_embedded(metadata)
        .map_err(|why| format!("{place}: Invalid value: {shown}: {why}"))?;
    unknown.extend(decoded.unknown.iter().map(|field| format!("{place}.{field}")));
    Ok(())
}

fn check_object(object: &Value, place: &Place<'_>, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        let field = place.field(name).to_string();
        match object.get(name) {
            None => errors.required(field, ""),
            Some(value) => {
                if let Some(rule) = broken_type(name, value.as_str()) {
                    errors.invalid(field, value, &rule);
                }
            }
        }
    }
    if object.get("metadata").is_some() {
        let mut wrongs = FieldErrors::new();
        check_metadata(object, &mut wrongs);
        errors.extend_below(&place.to_string(), wrongs);
    }
}

/// What is wrong with a version or a kind.
fn broken_type(name: &str, value: Option<&str>) -> Option<String> {
    match (name, value) {
        (_, None) => Some("must be a string".to_owned()),
        (_, Some("")) => Some("must not be empty".to_owned()),
        ("kind", Some(kind)) => dns_1035_label(&kind.to_lowercase())
            .map(|rule| format!("may have mixed case, but should otherwise match: {rule}")),
        (_, Some(version)) => (version.matches('/').count() > 1)
            .then(|| format!("unexpected GroupVersion string: {version}")),
    }
}

fn check_metadata(object: &Value, errors: &mut FieldErrors) {
    let is_segment = |name: &str| !name.contains(['/', '%']);
    for field in ["name", "generateName"] {
        let name = object::text(object, &["metadata", field]);
        let place = format!("metadata.{field}");
        if !is_segment(name) {
            let sign = if name.contains('/') { "/" } else { "%" };
            errors.invalid(place, &name.into(), &format!("may not contain '{sign}'"));
        } else if field == "name" && matches!(name, "." | "..") {
            errors.invalid(place, &name.into(), &format!("may not be '{name}'"));
        }
    }
    let namespace = object::namespace(object);
    if let Some(rule) = dns_label(namespace).filter(|_| !namespace.is_empty()) {
        errors.invalid("metadata.namespace", &namespace.into(), &rule);
    }
    metadata::check_labels(object, "metadata.labels", errors);
    metadata::check_annotations(object, errors);
    metadata::check_owners(object, errors);
    for name in object::finalizers(object) {
        for rule in qualified_name(name) {
            errors.invalid("metadata.finalizers", &name.into(), &rule);
        }
    }
}
