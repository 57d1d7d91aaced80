//! Defaults of a custom resource's schema, and which cannot stand.

use super::place::Place;
use super::{Schema, rules};
use crate::error::FieldErrors;
use crate::object;
use schedlab_json::{Map, Value, json};

impl Schema {
    /// Fills in what the schema has defaults for. A null that cannot stand counts as absent.
    pub fn default_fields(&self, value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            default_map(self, fields);
        }
        let items = value.as_array_mut().into_iter().flatten();
        for (item, schema) in items.zip(std::iter::repeat(self.items.as_deref())) {
            if let Some(schema) = schema {
                schema.default_fields(item);
            }
        }
    }
}

fn default_map(schema: &Schema, fields: &mut Map) {
    fields.retain(|name, value| {
        !value.is_null() || schema.field(name).is_none_or(|schema| schema.nullable)
    });
    for (name, field) in &schema.properties {
        if let (None, Some(default)) = (fields.get(name), &field.default) {
            fields.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in fields.iter_mut() {
        if let Some(schema) = schema.field(name) {
            schema.default_fields(value);
        }
    }
}

/// An embedded object, and the way from there into its type or metadata.
type Inside<'s> = Option<(&'s Schema, Vec<&'s str>)>;

impl Schema {
    /// Refuses defaults that break the schema `raw`, which stands at `field`. In metadata of the
    /// whole there are none.
    pub(super) fn check_defaults(&self, raw: &Value, field: &str, errors: &mut FieldErrors) {
        self.check_default((raw, field), None, errors);
    }

    fn check_default(
        &self,
        (raw, field): (&Value, &str),
        inside: Inside<'_>,
        errors: &mut FieldErrors,
    ) {
        let inside = inside.filter(|_| !self.is_embedded());
        if let Some(default) = &self.default {
            let place = format!("{field}.default");
            match &inside {
                Some((object, way)) => object.check_filled_in(way, default, &place, errors),
                None => errors.extend(self.broken_default(raw, default, &place)),
            }
        }
        for (name, schema) in &self.properties {
            let is_meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
            let inside = match &inside {
                Some((object, way)) => Some((*object, [way.as_slice(), &[name]].concat())),
                None if self.is_embedded() && is_meta => Some((self, vec![&**name])),
                None => None,
            };
            let place = format!("{field}.properties[{name}]");
            schema.check_default((&raw["properties"][name.as_str()], &place), inside, errors);
        }
        if let Some(schema) = &self.items {
            schema.check_default((&raw["items"], &format!("{field}.items")), None, errors);
        }
    }

    fn broken_default(&self, raw: &Value, default: &Value, place: &str) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let mut known = default.clone();
        self.prune_value(&mut known, (&Place::ROOT, &mut Vec::new()));
        if known != *default {
            errors.invalid(place, default, "must not have unknown fields");
        }
        if let Err(why) = self.decode_embedded(&mut known, &mut Vec::new()) {
            errors.invalid(place, default, &why);
            return errors;
        }
        let rules = || rules::compile(raw).map(|rules| rules.broken(None, default));
        let looks: [&dyn Fn() -> FieldErrors; 3] =
            [&|| self.check_embedded(default), &|| self.validate(default), &|| {
                rules().unwrap_or_default()
            }];
        let broken = looks.iter().map(|look| look()).find(|broken| !broken.is_empty());
        errors.extend_below(place, broken.unwrap_or_default());
        errors
    }

    /// Refuses what makes no type and no metadata of this embedded object.
    fn check_filled_in(
        &self,
        way: &[&str],
        default: &Value,
        place: &str,
        errors: &mut FieldErrors,
    ) {
        let mut filled = json!({"apiVersion": "validation/v1", "kind": "Validation"});
        object::set(&mut filled, way, default.clone());
        let why = match self.decode_embedded(&mut filled, &mut Vec::new()) {
            Err(why) => Some(why),
            Ok(()) => self.check_embedded(&filled).aggregate(),
        };
        if let Some(why) = why {
            errors.invalid(place, default, &format!("must result in valid metadata: {why}"));
        }
    }
}
