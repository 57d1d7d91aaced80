//! Kubernetes events, named by what they say: the same news told twice is one event.

use std::collections::BTreeMap;

use schedlab_scheduler_core::model::{Name, Time};
use serde::Serialize;

use super::rfc3339;
use crate::{
    api::{path, text},
    mirror::Key,
};

/// How alarming an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Level {
    Normal,
    Warning,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) key: Key,
    pub(crate) uid: Name,
}

impl About {
    pub(crate) fn pod(key: &Key, uid: &Name) -> Self {
        Self { api_version: "v1", kind: "Pod", key: key.clone(), uid: Name::clone(uid) }
    }
}

/// One piece of news.
pub(crate) struct Event<'a> {
    pub(crate) about: &'a About,
    pub(crate) level: Level,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// What makes it the same news although the message has other numbers; else the message.
    pub(crate) gist: Option<&'a str>,
    /// Tells apart equal news of different occasions.
    pub(crate) occasion: &'a str,
}

impl Event<'_> {
    /// Its name: short enough, and the same whenever the same is told.
    pub(crate) fn name(&self) -> String {
        let gist = self.gist.unwrap_or(self.message);
        let parts = [&*self.about.uid, self.reason, gist, self.occasion];
        let name: String = self.about.key.name.chars().take(230).collect();
        format!("{name}.{:016x}", fnv1a(&parts))
    }

    /// Path and body of the request that writes it.
    pub(crate) fn request(&self, component: &str, now: Time) -> (String, Vec<u8>) {
        self.annotated(BTreeMap::new(), component, now)
    }

    /// The same, with annotations for programs.
    pub(crate) fn annotated(
        &self,
        annotations: BTreeMap<&str, &str>,
        component: &str,
        now: Time,
    ) -> (String, Vec<u8>) {
        let key = &self.about.key;
        let involved = Involved {
            api_version: self.about.api_version,
            kind: self.about.kind,
            name: &key.name,
            namespace: Some(&*key.namespace).filter(|namespace| !namespace.is_empty()),
            uid: &self.about.uid,
        };
        // Events of things without a namespace stand in the default one.
        let namespace = involved.namespace.unwrap_or("default");
        let message: String = self.message.chars().take(1024).collect();
        let time = rfc3339(now);
        let body = Body {
            api_version: "v1",
            count: 1,
            first_timestamp: &time,
            involved_object: &involved,
            kind: "Event",
            last_timestamp: &time,
            message: &message,
            metadata: Metadata { annotations, name: &self.name(), namespace },
            reason: self.reason,
            reporting_component: component,
            reporting_instance: component,
            source: Source { component },
            level: self.level,
        };
        (path("v1", namespace, "events", ""), text(&body))
    }
}

/// An event as it is written, its fields in the order of their names as everything is that we
/// write.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'e> {
    api_version: &'e str,
    count: u32,
    first_timestamp: &'e str,
    involved_object: &'e Involved<'e>,
    kind: &'e str,
    last_timestamp: &'e str,
    message: &'e str,
    metadata: Metadata<'e>,
    reason: &'e str,
    reporting_component: &'e str,
    reporting_instance: &'e str,
    source: Source<'e>,
    #[serde(rename = "type")]
    level: Level,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Involved<'e> {
    api_version: &'e str,
    kind: &'e str,
    name: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'e str>,
    uid: &'e str,
}

#[derive(Serialize)]
struct Metadata<'e> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'e str, &'e str>,
    name: &'e str,
    namespace: &'e str,
}

#[derive(Serialize)]
struct Source<'e> {
    component: &'e str,
}

/// FNV-1a over the parts, with a separator after each.
fn fnv1a(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_same_name_whenever_the_same_is_told() {
        let about = About::pod(&Key { namespace: "ns".into(), name: "p".into() }, &"u1".into());
        let level = Level::Normal;
        let name = |message, gist, occasion| {
            Event { about: &about, level, reason: "R", message, gist, occasion }.name()
        };
        assert_eq!(name("a", None, ""), name("a", None, ""));
        assert_ne!(name("a", None, ""), name("b", None, ""));
        assert_ne!(name("a", None, "1"), name("a", None, "2"));
        assert_eq!(name("uses 16", Some("for b"), ""), name("uses 15", Some("for b"), ""));
        assert!(name("a", None, "").starts_with("p."));
    }

    #[test]
    fn an_event_says_all_that_clients_read() {
        let key = Key { namespace: "".into(), name: "q".into() };
        let about = About { api_version: "x/v2", kind: "Queue", key, uid: "u1".into() };
        let (level, occasion) = (Level::Warning, "");
        let event = Event { about: &about, level, reason: "R", message: "m", gist: None, occasion };
        let (path, body) = event.request("ours", Time(1_500));
        assert_eq!(path, "/api/v1/namespaces/default/events");
        let body: schedlab_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body,
            schedlab_json::json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": { "name": event.name(), "namespace": "default" },
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
