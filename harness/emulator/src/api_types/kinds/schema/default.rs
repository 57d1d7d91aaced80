//! Defaulting of custom resources, and validation of the defaults in a schema.

use super::field_path::FieldPath;
use super::{Schema, rule_evaluation};
use crate::api_types::error::FieldErrors;
use schedlab_api::{Map, Value, json, object};

impl Schema {
    /// Sets the defaults of the schema in `value`. A null in a field that is not nullable counts as
    /// absent.
    pub fn fill_defaults(&self, value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            fill_map_defaults(self, fields);
        }
        let items = value.as_array_mut().into_iter().flatten();
        for (item, schema) in items.zip(std::iter::repeat(self.items.as_deref())) {
            if let Some(schema) = schema {
                schema.fill_defaults(item);
            }
        }
    }
}

fn fill_map_defaults(schema: &Schema, fields: &mut Map) {
    fields.retain(|name, value| {
        !value.is_null() || schema.field_schema(name).is_none_or(|schema| schema.nullable)
    });
    for (name, field) in &schema.properties {
        if let (None, Some(default)) = (fields.get(name), &field.default) {
            fields.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in fields.iter_mut() {
        if let Some(schema) = schema.field_schema(name) {
            schema.fill_defaults(value);
        }
    }
}

/// The schema of the embedded resource that contains a field, and the path from there to the field;
/// `None` outside embedded resources.
type EmbeddedPath<'s> = Option<(&'s Schema, Vec<&'s str>)>;

impl Schema {
    /// Reports defaults that violate the schema `raw` at `field`. The metadata of the whole object
    /// has no defaults.
    pub(super) fn check_defaults(&self, raw: &Value, field: &str, errors: &mut FieldErrors) {
        self.check_default(raw, field, None, errors);
    }

    fn check_default(
        &self,
        raw: &Value,
        field: &str,
        inside: EmbeddedPath<'_>,
        errors: &mut FieldErrors,
    ) {
        let inside = inside.filter(|_| !self.is_embedded());
        if let Some(default) = &self.default {
            let path = format!("{field}.default");
            match &inside {
                Some((object, embedded_path)) => {
                    object.check_embedded_default(embedded_path, default, &path, errors);
                }
                None => errors.extend(self.default_errors(raw, default, &path)),
            }
        }
        for (name, schema) in &self.properties {
            let is_meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
            let inside = match &inside {
                Some((object, embedded_path)) => {
                    Some((*object, [embedded_path.as_slice(), &[name]].concat()))
                }
                None if self.is_embedded() && is_meta => Some((self, vec![&**name])),
                None => None,
            };
            let path = format!("{field}.properties[{name}]");
            schema.check_default(&raw["properties"][name.as_str()], &path, inside, errors);
        }
        if let Some(schema) = &self.items {
            schema.check_default(&raw["items"], &format!("{field}.items"), None, errors);
        }
    }

    fn default_errors(&self, raw: &Value, default: &Value, path: &str) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let mut known = default.clone();
        self.prune_value(&mut known, &FieldPath::ROOT, &mut Vec::new());
        if known != *default {
            errors.invalid(path, default, "must not have unknown fields");
        }
        if let Err(why) = self.decode_embedded(&mut known, &mut Vec::new()) {
            errors.invalid(path, default, &why);
            return errors;
        }
        let is_embedded = raw["x-kubernetes-embedded-resource"] == true;
        let rules = || {
            let rules = rule_evaluation::compile_rules(raw, is_embedded);
            rules.map(|rules| rules.violations(None, default))
        };
        let checks: [&dyn Fn() -> FieldErrors; 3] =
            [&|| self.check_embedded(default), &|| self.validate(default), &|| {
                rules().unwrap_or_default()
            }];
        let found = checks.iter().map(|check| check()).find(|found| !found.is_empty());
        errors.extend_below(path, found.unwrap_or_default());
        errors
    }

    /// Reports a default in apiVersion, kind or metadata of this embedded resource that makes them
    /// invalid.
    fn check_embedded_default(
        &self,
        embedded_path: &[&str],
        default: &Value,
        path: &str,
        errors: &mut FieldErrors,
    ) {
        let mut filled = json!({"apiVersion": "validation/v1", "kind": "Validation"});
        object::set(&mut filled, embedded_path, default.clone());
        let why = match self.decode_embedded(&mut filled, &mut Vec::new()) {
            Err(why) => Some(why),
            Ok(()) => self.check_embedded(&filled).aggregate_message(),
        };
        if let Some(why) = why {
            errors.invalid(path, default, &format!("must result in valid metadata: {why}"));
        }
    }
}
