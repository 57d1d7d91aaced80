//! Lines of a watch, decoded only as far as the identity of the object: most lines repeat the
//! response to a write, and most of a line follows the metadata.

use std::borrow::Cow;
use std::fmt;

use schedlab_api::Value;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::RawObject;

/// The kind of a watch line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Changed,
    Deleted,
    /// An error with code 410: the resourceVersion of the watch has expired.
    Expired,
    Failed,
    Ignored,
}

/// Kind, resourceVersion and object of a line; `None` if it contains no object.
pub(super) fn peek_line(line: &[u8]) -> Option<(LineKind, String, RawObject)> {
    // One check of the whole line is faster than one for each string.
    let line = std::str::from_utf8(line).ok()?;
    let mut glance = PartialLine::default();
    let read = (&mut glance).deserialize(&mut serde_json::Deserializer::from_str(line));
    if read.is_err() && !glance.is_sufficient() {
        return None;
    }
    let PartialLine { kind, metadata, code } = glance;
    let said = match &*kind? {
        "ADDED" | "MODIFIED" => LineKind::Changed,
        "DELETED" => LineKind::Deleted,
        "ERROR" if code == 410 => LineKind::Expired,
        "ERROR" => LineKind::Failed,
        _ => LineKind::Ignored,
    };
    let metadata = metadata?;
    let unread = RawObject {
        namespace: (&*metadata.namespace).into(),
        name: (&*metadata.name).into(),
        version: metadata.resource_version.parse().unwrap_or(0),
        line: line.to_owned(),
    };
    Some((said, metadata.resource_version.into_owned(), unread))
}

/// The decoded part of a watch line.
#[derive(Default)]
struct PartialLine<'l> {
    kind: Option<Cow<'l, str>>,
    metadata: Option<ObjectMetadata<'l>>,
    /// Field `code` of a Status object.
    code: Value,
}

impl PartialLine<'_> {
    /// Whether the rest of the line is not needed. The rest of an error is needed: its code follows
    /// the metadata.
    fn is_sufficient(&self) -> bool {
        self.metadata.is_some() && self.kind.as_ref().is_some_and(|kind| kind != "ERROR")
    }
}

impl<'l> DeserializeSeed<'l> for &mut PartialLine<'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(LineVisitor(self))
    }
}

struct LineVisitor<'g, 'l>(&'g mut PartialLine<'l>);

impl<'l> Visitor<'l> for LineVisitor<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of a watch")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut line: A) -> Result<(), A::Error> {
        while let Some(key) = line.next_key::<BorrowedText<'l>>()? {
            match &*key.0 {
                "type" => self.0.kind = Some(line.next_value::<BorrowedText<'l>>()?.0),
                "object" => line.next_value_seed(ObjectVisitor(self.0))?,
                _ => drop(line.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct ObjectVisitor<'g, 'l>(&'g mut PartialLine<'l>);

impl<'l> DeserializeSeed<'l> for ObjectVisitor<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'l> Visitor<'l> for ObjectVisitor<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(key) = object.next_key::<BorrowedText<'l>>()? {
            match &*key.0 {
                "metadata" => self.0.metadata = Some(object.next_value()?),
                "code" => self.0.code = object.next_value()?,
                _ => drop(object.next_value::<IgnoredAny>()?),
            }
            if self.0.is_sufficient() {
                // Returning before the end of the object is an error, which ends the decoding.
                return Ok(());
            }
        }
        self.0.metadata.get_or_insert_default();
        Ok(())
    }
}

/// A string, borrowed from the line if it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct BorrowedText<'l>(#[serde(borrow)] Cow<'l, str>);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectMetadata<'l> {
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
    fn a_line_is_decoded_up_to_the_metadata_of_its_object() {
        let line = br#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"labels":{"name":"x"},
            "name":"a","namespace":"ns","resourceVersion":"7"},"spec":{"nodeName":"n\u0031"}}}"#;
        let (said, seen, pod) = peek_line(line).unwrap();
        assert_eq!((said, &*seen), (LineKind::Changed, "7"));
        assert_eq!((&*pod.namespace, &*pod.name, pod.version), ("ns", "a", 7));
        assert_eq!(pod.decode().unwrap()["spec"]["nodeName"], "n1");
    }

    #[test]
    fn text_after_the_metadata_is_not_decoded() {
        let line = br#"{"type":"MODIFIED","object":{"metadata":{"name":"a"},"spec":oops"#;
        let (said, _, pod) = peek_line(line).unwrap();
        assert_eq!((said, &*pod.name, pod.decode()), (LineKind::Changed, "a", None));
        let late = br#"{"object":{"metadata":{"name":"a"},"spec":{}},"type":"DELETED"}"#;
        assert_eq!(peek_line(late).map(|(said, ..)| said), Some(LineKind::Deleted));
    }

    #[test]
    fn a_line_without_object_is_none_and_an_error_line_has_its_kind() {
        let said = |line: &str| peek_line(line.as_bytes()).map(|(said, ..)| said);
        assert_eq!(said(""), None);
        assert_eq!(said(r#"{"type":"ADDED"}"#), None);
        assert_eq!(said(r#"{"type":"DELETED","object":{}}"#), Some(LineKind::Deleted));
        assert_eq!(
            said(r#"{"type":"ERROR","object":{"metadata":{},"code":410}}"#),
            Some(LineKind::Expired)
        );
        assert_eq!(said(r#"{"type":"ERROR","object":{"code":500}}"#), Some(LineKind::Failed));
        assert_eq!(
            said(r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#),
            Some(LineKind::Ignored)
        );
    }
}
