//! Kubernetes events with names derived from their content: an event that is written twice is
//! created once.

use std::collections::BTreeMap;

use schedlab_scheduler_core::model::{Name, Time};
use serde::Serialize;

use super::rfc3339;
use crate::{
    api::{object_path, to_json_bytes},
    records::ObjectKey,
};

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum EventType {
    Normal,
    Warning,
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvolvedObject {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) key: ObjectKey,
    pub(crate) uid: Name,
}

impl InvolvedObject {
    pub(crate) fn for_pod(key: &ObjectKey, uid: &Name) -> Self {
        Self { api_version: "v1", kind: "Pod", key: key.clone(), uid: Name::clone(uid) }
    }
}

/// An event to write.
pub(crate) struct Event<'a> {
    pub(crate) involved: &'a InvolvedObject,
    pub(crate) event_type: EventType,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// What identifies equal events whose messages differ, such as in numbers. `None`: the message.
    pub(crate) dedup_key: Option<&'a str>,
    /// What separates events with equal content, such as a resourceVersion.
    pub(crate) dedup_scope: &'a str,
}

impl Event<'_> {
    /// The name of the event object: of limited length, and equal for equal events.
    pub(crate) fn object_name(&self) -> String {
        let gist = self.dedup_key.unwrap_or(self.message);
        let parts = [&*self.involved.uid, self.reason, gist, self.dedup_scope];
        let name: String = self.involved.key.name.chars().take(230).collect();
        format!("{name}.{:016x}", fnv1a_hash(&parts))
    }

    /// API path and body of the request that creates the event.
    pub(crate) fn to_request(&self, component: &str, now: Time) -> (String, Vec<u8>) {
        self.to_annotated_request(BTreeMap::new(), component, now)
    }

    /// Like [`Self::to_request`], with annotations on the event.
    pub(crate) fn to_annotated_request(
        &self,
        annotations: BTreeMap<&str, &str>,
        component: &str,
        now: Time,
    ) -> (String, Vec<u8>) {
        let key = &self.involved.key;
        let involved = ObjectReference {
            api_version: self.involved.api_version,
            kind: self.involved.kind,
            name: &key.name,
            namespace: Some(&*key.namespace).filter(|namespace| !namespace.is_empty()),
            uid: &self.involved.uid,
        };
        // Events of cluster-scoped objects are in namespace `default`.
        let namespace = involved.namespace.unwrap_or("default");
        let message: String = self.message.chars().take(1024).collect();
        let time = rfc3339(now);
        let body = EventBody {
            api_version: "v1",
            count: 1,
            first_timestamp: &time,
            involved_object: &involved,
            kind: "Event",
            last_timestamp: &time,
            message: &message,
            metadata: EventMetadata { annotations, name: &self.object_name(), namespace },
            reason: self.reason,
            reporting_component: component,
            reporting_instance: component,
            source: EventSource { component },
            level: self.event_type,
        };
        (object_path("v1", namespace, "events", ""), to_json_bytes(&body))
    }
}

/// The JSON of an event, with fields in alphabetical order, as in all our writes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventBody<'e> {
    api_version: &'e str,
    count: u32,
    first_timestamp: &'e str,
    involved_object: &'e ObjectReference<'e>,
    kind: &'e str,
    last_timestamp: &'e str,
    message: &'e str,
    metadata: EventMetadata<'e>,
    reason: &'e str,
    reporting_component: &'e str,
    reporting_instance: &'e str,
    source: EventSource<'e>,
    #[serde(rename = "type")]
    level: EventType,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference<'e> {
    api_version: &'e str,
    kind: &'e str,
    name: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'e str>,
    uid: &'e str,
}

#[derive(Serialize)]
struct EventMetadata<'e> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'e str, &'e str>,
    name: &'e str,
    namespace: &'e str,
}

#[derive(Serialize)]
struct EventSource<'e> {
    component: &'e str,
}

/// FNV-1a hash of the parts, each followed by a separator.
pub(crate) fn fnv1a_hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_events_have_equal_names() {
        let about = InvolvedObject::for_pod(
            &ObjectKey { namespace: "ns".into(), name: "p".into() },
            &"u1".into(),
        );
        let level = EventType::Normal;
        let name = |message, gist, occasion| {
            Event {
                involved: &about,
                event_type: level,
                reason: "R",
                message,
                dedup_key: gist,
                dedup_scope: occasion,
            }
            .object_name()
        };
        assert_eq!(name("a", None, ""), name("a", None, ""));
        assert_ne!(name("a", None, ""), name("b", None, ""));
        assert_ne!(name("a", None, "1"), name("a", None, "2"));
        assert_eq!(name("uses 16", Some("for b"), ""), name("uses 15", Some("for b"), ""));
        assert!(name("a", None, "").starts_with("p."));
    }

    #[test]
    fn an_event_has_all_fields_that_clients_read() {
        let key = ObjectKey { namespace: "".into(), name: "q".into() };
        let about = InvolvedObject { api_version: "x/v2", kind: "Queue", key, uid: "u1".into() };
        let (level, occasion) = (EventType::Warning, "");
        let event = Event {
            involved: &about,
            event_type: level,
            reason: "R",
            message: "m",
            dedup_key: None,
            dedup_scope: occasion,
        };
        let (path, body) = event.to_request("ours", Time(1_500));
        assert_eq!(path, "/api/v1/namespaces/default/events");
        let body: schedlab_api::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body,
            schedlab_api::json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": { "name": event.object_name(), "namespace": "default" },
                "involvedObject": { "apiVersion": "x/v2", "kind": "Queue", "name": "q", "uid": "u1" },
                "type": "Warning",
                "reason": "R",
                "message": "m",
                "source": { "component": "ours" },
                "reportingComponent": "ours",
                "reportingInstance": "ours",
                "firstTimestamp": "1970-01-01T00:00:01Z",
                "lastTimestamp": "1970-01-01T00:00:01Z",
                "count": 1,
            })
        );
    }
}
