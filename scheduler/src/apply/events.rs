//! Kubernetes events, named by what they say: the same news told twice is one event.

use schedlab_scheduler_core::model::{Name, Time};
use serde_json::{Value, json};

use super::rfc3339;
use crate::{api::path, mirror::Key};

/// How alarming an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(crate) fn request(&self, component: &str, now: Time) -> (String, Value) {
        let key = &self.about.key;
        // Events of things without a namespace stand in the default one.
        let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
        let mut involved = json!({
            "apiVersion": self.about.api_version,
            "kind": self.about.kind,
            "name": &*key.name,
            "uid": &*self.about.uid,
        });
        if !key.namespace.is_empty() {
            involved["namespace"] = json!(namespace);
        }
        let message: String = self.message.chars().take(1024).collect();
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": self.name(), "namespace": namespace },
            "involvedObject": involved,
            "type": match self.level { Level::Normal => "Normal", Level::Warning => "Warning" },
            "reason": self.reason,
            "message": message,
            "source": { "component": component },
            "reportingComponent": component,
            "reportingInstance": component,
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
            "count": 1,
        });
        (path("v1", namespace, "events", ""), body)
    }
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
}
