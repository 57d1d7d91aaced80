//! Defaults of a custom resource's schema.

use super::Schema;
use schedlab_json::{Map, Value};

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
