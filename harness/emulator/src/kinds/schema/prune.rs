//! Unknown fields of a custom resource are dropped.

use super::place::Place;
use super::{Additional, Schema};
use schedlab_json::{Map, Value};

impl Schema {
    /// Drops what the schema does not know. The paths of the unknown fields go to `dropped`. The
    /// root's type and metadata stay.
    pub fn prune(&self, object: &mut Value, dropped: &mut Vec<String>) {
        if let Some(fields) = object.as_object_mut() {
            prune_map((self, true), fields, (&Place::ROOT, dropped));
        }
    }

    pub(super) fn prune_value(
        &self,
        value: &mut Value,
        (place, dropped): (&Place<'_>, &mut Vec<String>),
    ) {
        if let Some(fields) = value.as_object_mut() {
            prune_map((self, self.is_embedded()), fields, (place, dropped));
        } else if let (Some(items), Some(schema)) = (value.as_array_mut(), &self.items) {
            for (index, item) in items.iter_mut().enumerate() {
                schema.prune_value(item, (&place.item(index), dropped));
            }
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Values(values) => Some(&**values),
            Additional::None | Additional::Any => None,
        })
    }

    pub(crate) fn keeps_unknown(&self) -> bool {
        self.preserves_unknown || matches!(self.additional, Additional::Any)
    }
}

fn prune_map(
    (schema, is_resource): (&Schema, bool),
    fields: &mut Map,
    (place, dropped): (&Place<'_>, &mut Vec<String>),
) {
    fields.retain(|name, value| {
        if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            return true;
        }
        let place = place.field(name);
        if let Some(schema) = schema.field(name) {
            schema.prune_value(value, (&place, dropped));
            return true;
        }
        if !schema.keeps_unknown() {
            dropped.push(place.to_string());
        }
        schema.keeps_unknown()
    });
}
