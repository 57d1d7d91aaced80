//! Pruning of unknown fields of custom resources.

use super::field_path::FieldPath;
use super::{AdditionalProperties, Schema};
use crate::api_types::kinds::typed::UNKNOWN_FIELDS_MAX;
use schedlab_api::{Map, Value};

impl Schema {
    /// Removes the fields that the schema does not declare, and adds their paths to `dropped`.
    /// apiVersion, kind and metadata of the root are kept.
    pub fn prune(&self, object: &mut Value, dropped: &mut Vec<String>) {
        if let Some(fields) = object.as_object_mut() {
            prune_map(self, true, fields, &FieldPath::ROOT, dropped);
        }
    }

    pub(super) fn prune_value(
        &self,
        value: &mut Value,
        path: &FieldPath<'_>,
        dropped: &mut Vec<String>,
    ) {
        if let Some(fields) = value.as_object_mut() {
            prune_map(self, self.is_embedded(), fields, path, dropped);
        } else if let (Some(items), Some(schema)) = (value.as_array_mut(), &self.items) {
            for (index, item) in items.iter_mut().enumerate() {
                schema.prune_value(item, &path.item(index), dropped);
            }
        }
    }

    pub(crate) fn field_schema(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            AdditionalProperties::Values(values) => Some(&**values),
            AdditionalProperties::None | AdditionalProperties::Any => None,
        })
    }

    pub(crate) fn keeps_unknown_fields(&self) -> bool {
        self.preserves_unknown || matches!(self.additional, AdditionalProperties::Any)
    }
}

fn prune_map(
    schema: &Schema,
    is_resource: bool,
    fields: &mut Map,
    path: &FieldPath<'_>,
    dropped: &mut Vec<String>,
) {
    fields.retain(|name, value| {
        if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            return true;
        }
        let path = path.field(name);
        if let Some(schema) = schema.field_schema(name) {
            schema.prune_value(value, &path, dropped);
            return true;
        }
        if !schema.keeps_unknown_fields() && dropped.len() < UNKNOWN_FIELDS_MAX {
            dropped.push(path.to_string());
        }
        schema.keeps_unknown_fields()
    });
}
