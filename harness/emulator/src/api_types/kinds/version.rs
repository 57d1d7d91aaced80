//! Conversion between the versions of a kind, and between the two event APIs.
//!
//! Versions of a custom kind differ only in their name (conversion strategy `None`). Of the
//! built-in kinds only `HorizontalPodAutoscaler` has two versions. Events are stored as core
//! events; `events.k8s.io` serves the same objects with other field names.

mod autoscaler;

use std::sync::Arc;

use super::{Kind, Origin, Resource};
use schedlab_api::{Value, object};

/// Field names of an event: as stored, and in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("reportingInstance", "reportingInstance"),
];

const AUTOSCALER_V1: &str = "autoscaling/v1";

impl Kind {
    /// The resource under which its objects are stored.
    pub fn storage_resource(&self) -> Resource {
        match self.origin {
            Origin::View => Resource::new("", "events"),
            Origin::BuiltIn | Origin::Custom => self.resource.clone(),
        }
    }

    /// Converts a stored object to `version` of this kind.
    pub fn in_version(&self, version: &str, stored: &Arc<Value>) -> Arc<Value> {
        if self.origin == Origin::View {
            let mut shown = Value::clone(stored);
            rename_fields(&mut shown, EVENT_FIELDS);
            // `events.k8s.io` omits them if they are empty.
            let omitted_if_empty = ["reportingController", "reportingInstance"];
            object::as_map(&mut shown)
                .retain(|field, value| *value != "" || !omitted_if_empty.contains(&field.as_str()));
            object::set(&mut shown, &["apiVersion"], self.api_version(version).into());
            return Arc::new(shown);
        }
        let stored = self.with_current_schema(stored);
        if *version == *self.storage {
            return stored;
        }
        let mut shown = Value::clone(&stored);
        if self.origin == Origin::BuiltIn {
            autoscaler::convert_to_v1(&mut shown);
        }
        object::set(&mut shown, &["apiVersion"], self.api_version(version).into());
        Arc::new(shown)
    }

    /// The object under the current schema of its kind: pruned, and with the schema's defaults. An
    /// object that was written under this schema is unchanged.
    fn with_current_schema(&self, stored: &Arc<Value>) -> Arc<Value> {
        let revision = || object::resource_version(stored).parse::<u64>();
        let schema = match &self.stored().schema {
            Some(schema) if revision().is_ok_and(|it| it <= self.schema_revision) => schema,
            Some(_) | None => return Arc::clone(stored),
        };
        let mut current = Value::clone(stored);
        schema.prune(&mut current, &mut Vec::new());
        schema.fill_defaults(&mut current);
        if current == **stored { Arc::clone(stored) } else { Arc::new(current) }
    }

    /// Converts a merge patch for `version` into one for the stored version.
    pub(crate) fn merge_to_stored(&self, version: &str, changes: &mut Value) {
        if self.origin == Origin::BuiltIn && *version != *self.storage {
            autoscaler::convert_from_v1(changes);
        }
    }

    /// Converts an object from a request to its stored form.
    pub(crate) fn to_stored(&self, mut sent: Value) -> Value {
        if object::text(&sent, &["apiVersion"]) == AUTOSCALER_V1 {
            autoscaler::convert_from_v1(&mut sent);
        }
        let version = if self.origin == Origin::View {
            rename_fields(&mut sent, EVENT_FIELDS.map(|(stored, shown)| (shown, stored)));
            "v1".to_owned()
        } else {
            self.api_version(&self.storage)
        };
        object::set(&mut sent, &["apiVersion"], version.into());
        object::set(&mut sent, &["kind"], self.kind.as_ref().into());
        sent
    }
}

fn rename_fields(event: &mut Value, fields: [(&str, &str); 8]) {
    let event = object::as_map(event);
    for (from, to) in fields {
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::super::Kinds;

    #[test]
    fn an_event_is_served_in_two_api_groups() {
        let kinds = Kinds::built_in();
        let view = kinds.by_kind("events.k8s.io", "Event").unwrap();
        let sent = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
            "regarding": {"name": "web-0"}, "note": "placed", "action": "Binding"});
        let stored = view.to_stored(sent.clone());
        assert_eq!(
            stored,
            json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "web-0"},
                "message": "placed", "action": "Binding"})
        );
        assert_eq!(*view.in_version("v1", &stored.into()), sent);
    }
}
