//! One object, several faces: the versions of a kind, and the two groups of events.
//!
//! Versions of a custom kind differ in their name only (conversion strategy `None`); of the
//! built-in kinds only autoscalers have two. Events are
//! stored as core events; `events.k8s.io` shows the same objects under other field names.

mod autoscaler;

use std::sync::Arc;

use super::{Kind, Origin, Resource};
use crate::object;
use schedlab_json::Value;

/// Field names of an event: stored, and as `events.k8s.io` has them.
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
    /// The collection in which its objects are stored.
    pub fn home(&self) -> Resource {
        match self.origin {
            Origin::View => Resource::new("", "events"),
            Origin::BuiltIn | Origin::Custom => self.resource.clone(),
        }
    }

    /// A stored object as this kind shows it in `version`.
    pub fn present(&self, version: &str, stored: &Arc<Value>) -> Arc<Value> {
        if self.origin == Origin::View {
            let mut shown = Value::clone(stored);
            rename(&mut shown, EVENT_FIELDS);
            // The other group leaves them out when nothing is said.
            let unsaid = ["reportingController", "reportingInstance"];
            object::as_map(&mut shown)
                .retain(|field, value| *value != "" || !unsaid.contains(&field.as_str()));
            object::set(&mut shown, &["apiVersion"], self.api_version(version).into());
            return Arc::new(shown);
        }
        if *version == *self.storage {
            return Arc::clone(stored);
        }
        let mut shown = Value::clone(stored);
        if self.origin == Origin::BuiltIn {
            autoscaler::to_v1(&mut shown);
        }
        object::set(&mut shown, &["apiVersion"], self.api_version(version).into());
        Arc::new(shown)
    }

    /// What a merge changes of an object in `version`, as changes of the stored one.
    pub(crate) fn merge_to_stored(&self, version: &str, changes: &mut Value) {
        if self.origin == Origin::BuiltIn && *version != *self.storage {
            autoscaler::from_v1(changes);
        }
    }

    /// An object as a client sent it, as it is stored.
    pub(crate) fn to_stored(&self, mut sent: Value) -> Value {
        if object::text(&sent, &["apiVersion"]) == AUTOSCALER_V1 {
            autoscaler::from_v1(&mut sent);
        }
        let version = if self.origin == Origin::View {
            rename(&mut sent, EVENT_FIELDS.map(|(stored, shown)| (shown, stored)));
            "v1".to_owned()
        } else {
            self.api_version(&self.storage)
        };
        object::set(&mut sent, &["apiVersion"], version.into());
        object::set(&mut sent, &["kind"], self.kind.as_ref().into());
        sent
    }
}

fn rename(event: &mut Value, fields: [(&str, &str); 8]) {
    let event = object::as_map(event);
    for (from, to) in fields {
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::super::Kinds;

    #[test]
    fn an_event_has_two_faces() {
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
        assert_eq!(*view.present("v1", &stored.into()), sent);
    }
}
