//! One line of a watch, read no further than to know its object: most lines are answers to writes
//! of ours come back, and most of a line comes after the metadata.

use std::borrow::Cow;
use std::fmt;

use schedlab_json::Value;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Unread;

/// What a line says of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Changed,
    Gone,
    /// The resource version to go on from is too old.
    TooOld,
    Failed,
    Nothing,
}

/// What a line says, at which resource version, and of which object.
pub(super) fn glance(line: &[u8]) -> Option<(Said, String, Unread)> {
    // Looked at once as a whole, which is quicker than string by string.
    let line = std::str::from_utf8(line).ok()?;
    let mut glance = Glance::default();
    let read = (&mut glance).deserialize(&mut serde_json::Deserializer::from_str(line));
    if read.is_err() && !glance.is_enough() {
        return None;
    }
    let Glance { kind, metadata, code } = glance;
    let said = match &*kind? {
        "ADDED" | "MODIFIED" => Said::Changed,
        "DELETED" => Said::Gone,
        "ERROR" if code == 410 => Said::TooOld,
        "ERROR" => Said::Failed,
        _ => Said::Nothing,
    };
    let metadata = metadata?;
    let unread = Unread {
        namespace: (&*metadata.namespace).into(),
        name: (&*metadata.name).into(),
        version: metadata.resource_version.parse().unwrap_or(0),
        line: line.to_owned(),
    };
    Some((said, metadata.resource_version.into_owned(), unread))
}

/// What was read of a line so far.
#[derive(Default)]
struct Glance<'l> {
    kind: Option<Cow<'l, str>>,
    metadata: Option<Metadata<'l>>,
    /// Of a `Status`.
    code: Value,
}

impl Glance<'_> {
    /// The rest tells nothing. A failure's does: its code comes after the metadata.
    fn is_enough(&self) -> bool {
        self.metadata.is_some() && self.kind.as_ref().is_some_and(|kind| kind != "ERROR")
    }
}

impl<'l> DeserializeSeed<'l> for &mut Glance<'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(Whole(self))
    }
}

struct Whole<'g, 'l>(&'g mut Glance<'l>);

impl<'l> Visitor<'l> for Whole<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of a watch")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut line: A) -> Result<(), A::Error> {
        while let Some(key) = line.next_key::<Word<'l>>()? {
            match &*key.0 {
                "type" => self.0.kind = Some(line.next_value::<Word<'l>>()?.0),
                "object" => line.next_value_seed(Object(self.0))?,
                _ => drop(line.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Object<'g, 'l>(&'g mut Glance<'l>);

impl<'l> DeserializeSeed<'l> for Object<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'l> Visitor<'l> for Object<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(key) = object.next_key::<Word<'l>>()? {
            match &*key.0 {
                "metadata" => self.0.metadata = Some(object.next_value()?),
                "code" => self.0.code = object.next_value()?,
                _ => drop(object.next_value::<IgnoredAny>()?),
            }
            if self.0.is_enough() {
                // Before the object's end: an error, which ends the reading.
                return Ok(());
            }
        }
        self.0.metadata.get_or_insert_default();
        Ok(())
    }
}

/// A text, where it can be as it stands in the line.
#[derive(Deserialize)]
#[serde(transparent)]
struct Word<'l>(#[serde(borrow)] Cow<'l, str>);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'l> {
    #[serde(borrow)]
    namespace: Cow<'l, str>,
    #[serde(borrow)]
    name: Cow<'l, str>,
    #[serde(borrow)]
    resource_version: Cow<'l, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_no_further_than_to_know_its_object() {
        let line = br#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"labels":{"name":"x"},
            "name":"a","namespace":"ns","resourceVersion":"7"},"spec":{"nodeName":"n\u0031"}}}"#;
        let (said, seen, pod) = glance(line).unwrap();
        assert_eq!((said, &*seen), (Said::Changed, "7"));
        assert_eq!((&*pod.namespace, &*pod.name, pod.version), ("ns", "a", 7));
        assert_eq!(pod.object().unwrap()["spec"]["nodeName"], "n1");
    }

    #[test]
    fn what_follows_the_metadata_is_not_looked_at() {
        let line = br#"{"type":"MODIFIED","object":{"metadata":{"name":"a"},"spec":oops"#;
        let (said, _, pod) = glance(line).unwrap();
        assert_eq!((said, &*pod.name, pod.object()), (Said::Changed, "a", None));
        let late = br#"{"object":{"metadata":{"name":"a"},"spec":{}},"type":"DELETED"}"#;
        assert_eq!(glance(late).map(|(said, ..)| said), Some(Said::Gone));
    }

    #[test]
    fn a_line_that_is_no_object_is_none_and_a_failure_says_which() {
        let said = |line: &str| glance(line.as_bytes()).map(|(said, ..)| said);
        assert_eq!(said(""), None);
        assert_eq!(said(r#"{"type":"ADDED"}"#), None);
        assert_eq!(said(r#"{"type":"DELETED","object":{}}"#), Some(Said::Gone));
        assert_eq!(
            said(r#"{"type":"ERROR","object":{"metadata":{},"code":410}}"#),
            Some(Said::TooOld)
        );
        assert_eq!(said(r#"{"type":"ERROR","object":{"code":500}}"#), Some(Said::Failed));
        assert_eq!(said(r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#), Some(Said::Nothing));
    }
}
