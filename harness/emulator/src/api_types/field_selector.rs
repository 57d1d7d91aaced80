//! Field selectors. A table lists the fields that each kind supports; another field is a bad
//! request.

use crate::api_types::error::ApiError;
use crate::api_types::kinds::{Kind, Origin};
use schedlab_api::Value;

/// A field selector: an object must match all terms. A selector without terms selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: Vec<String>,
    /// The value of an absent field.
    absent: &'static str,
    value: String,
    is_negated: bool,
}

impl Term {
    fn holds(&self, object: &Value) -> bool {
        let found = self.field.iter().try_fold(object, |value, field| value.get(field.as_str()));
        let equal = match found {
            Some(Value::String(text)) => *text == self.value,
            Some(Value::Bool(flag)) => flag.to_string() == self.value,
            Some(Value::Number(number)) => number.to_string() == self.value,
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => {
                self.absent == self.value
            }
        };
        equal != self.is_negated
    }
}

impl FieldSelector {
    /// Parses the text of a `fieldSelector` parameter for a kind.
    ///
    /// # Errors
    ///
    /// 400: a term has no operator, or the kind does not support the field.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for (field, sign, value) in split_terms(text)? {
            let (path, absent) = resolve_field(kind, &field)?;
            terms.push(Term { field: path, absent, value, is_negated: sign == Operator::Unequal });
        }
        Ok(Self { terms })
    }

    /// The selector `metadata.name=NAME`.
    pub fn name(name: &str) -> Self {
        let field = vec!["metadata".to_owned(), "name".to_owned()];
        Self { terms: vec![Term { field, absent: "", value: name.to_owned(), is_negated: false }] }
    }

    /// Whether the selector has no terms, so that it selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the selector selects the object.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| term.holds(object))
    }
}

/// A supported field besides `metadata.name` and `metadata.namespace`: the name in requests, the
/// path in stored objects (empty if it is accepted but never matches), and the value of an absent
/// field.
type SelectableField = (&'static str, &'static str, &'static str);

const POD_FIELDS: &[SelectableField] = &[
    ("spec.nodeName", "spec.nodeName", ""),
    ("spec.host", "spec.nodeName", ""),
    ("spec.restartPolicy", "spec.restartPolicy", ""),
    ("spec.schedulerName", "spec.schedulerName", ""),
    ("spec.serviceAccountName", "spec.serviceAccountName", ""),
    ("spec.hostNetwork", "spec.hostNetwork", "false"),
    ("status.phase", "status.phase", ""),
    ("status.podIP", "status.podIP", ""),
    ("status.podIPs", "", ""),
    ("status.nominatedNodeName", "status.nominatedNodeName", ""),
];
const EVENT_FIELDS: &[SelectableField] = &[
    ("involvedObject.kind", "involvedObject.kind", ""),
    ("involvedObject.namespace", "involvedObject.namespace", ""),
    ("involvedObject.name", "involvedObject.name", ""),
    ("involvedObject.uid", "involvedObject.uid", ""),
    ("involvedObject.apiVersion", "involvedObject.apiVersion", ""),
    ("involvedObject.resourceVersion", "involvedObject.resourceVersion", ""),
    ("involvedObject.fieldPath", "involvedObject.fieldPath", ""),
    ("reason", "reason", ""),
    ("reportingComponent", "reportingComponent", ""),
    ("source", "source.component", ""),
    ("type", "type", ""),
];
/// Field names of `events.k8s.io`; stored objects have core event fields.
const NEW_EVENT_FIELDS: &[SelectableField] = &[
    ("regarding.kind", "involvedObject.kind", ""),
    ("regarding.namespace", "involvedObject.namespace", ""),
    ("regarding.name", "involvedObject.name", ""),
    ("regarding.uid", "involvedObject.uid", ""),
    ("regarding.apiVersion", "involvedObject.apiVersion", ""),
    ("regarding.resourceVersion", "involvedObject.resourceVersion", ""),
    ("regarding.fieldPath", "involvedObject.fieldPath", ""),
    ("reason", "reason", ""),
    ("reportingController", "reportingComponent", ""),
    ("type", "type", ""),
];

fn selectable_fields(kind: &Kind) -> &'static [SelectableField] {
    match (&*kind.resource.group, &*kind.resource.plural) {
        ("", "pods") => POD_FIELDS,
        ("", "events") => EVENT_FIELDS,
        ("events.k8s.io", "events") => NEW_EVENT_FIELDS,
        ("", "nodes") => &[("spec.unschedulable", "spec.unschedulable", "false")],
        ("", "namespaces") => &[("status.phase", "status.phase", "")],
        ("", "secrets") => &[("type", "type", "")],
        ("", "services") => {
            &[("spec.clusterIP", "spec.clusterIP", ""), ("spec.type", "spec.type", "")]
        }
        ("", "replicationcontrollers") => &[("status.replicas", "status.replicas", "0")],
        ("batch", "jobs") => &[("status.successful", "status.succeeded", "0")],
        ("resource.k8s.io", "resourceslices") => {
            &[("spec.nodeName", "spec.nodeName", ""), ("spec.driver", "spec.driver", "")]
        }
        _ => &[],
    }
}

fn resolve_field(kind: &Kind, field: &str) -> Result<(Vec<String>, &'static str), ApiError> {
    let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    if field == "metadata.name" || (field == "metadata.namespace" && kind.namespaced) {
        return Ok((path(field), ""));
    }
    if field == "metadata.namespace" && kind.origin != Origin::Custom {
        return Ok((path(field), ""));
    }
    let rows = selectable_fields(kind);
    if let Some((_, stored_path, absent)) = rows.iter().find(|(name, ..)| *name == field) {
        return Ok((path(stored_path), absent));
    }
    let selectable = kind.versions.iter().flat_map(|version| &version.selectable);
    for stored_path in selectable {
        if stored_path.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(".") == field {
            return Ok((path(field), ""));
        }
    }
    Err(ApiError::bad_request(if rows.is_empty() && kind.origin != Origin::Custom {
        format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {field}")
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
}

/// Splits a selector into terms of field, operator and value, at commas and operators that are not
/// escaped by a backslash.
fn split_terms(text: &str) -> Result<Vec<(String, Operator, String)>, ApiError> {
    let mut terms = Vec::new();
    let (mut field, mut sign, mut part) = (String::new(), None, String::new());
    let mut letters = text.chars().peekable();
    loop {
        match letters.next() {
            Some('\\') => part.extend(letters.next()),
            Some('!') if sign.is_none() && letters.peek() == Some(&'=') => {
                letters.next();
                (field, sign) = (std::mem::take(&mut part), Some(Operator::Unequal));
            }
            Some('=') if sign.is_none() => {
                letters.next_if_eq(&'=');
                (field, sign) = (std::mem::take(&mut part), Some(Operator::Equal));
            }
            Some(',') | None if sign.is_none() && part.is_empty() => {}
            Some(',') | None => {
                let Some(found) = sign.take() else {
                    return Err(ApiError::bad_request(format!(
                        "invalid selector: '{text}'; can't understand '{part}'"
                    )));
                };
                terms.push((std::mem::take(&mut field), found, std::mem::take(&mut part)));
            }
            Some(letter) => part.push(letter),
        }
        if letters.peek().is_none() && part.is_empty() && sign.is_none() {
            return Ok(terms);
        }
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;
    use crate::api_types::kinds::Kinds;

    fn parse(group: &str, kind: &str, text: &str) -> Result<FieldSelector, ApiError> {
        FieldSelector::parse(text, Kinds::built_in().by_kind(group, kind).unwrap())
    }

    #[test]
    fn pods_are_selected_by_node_phase_and_scheduler() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"schedulerName": "kai-scheduler"},
            "status": {"phase": "Pending"}});
        for text in [
            "spec.nodeName=",
            "status.phase!=Failed,status.phase!=Succeeded",
            "spec.schedulerName=kai-scheduler",
            "metadata.name==a",
            "spec.hostNetwork=false",
            "",
        ] {
            assert!(parse("", "Pod", text).unwrap().matches(&pod), "{text}");
        }
        assert!(!parse("", "Pod", "spec.nodeName!=").unwrap().matches(&pod));
    }

    #[test]
    fn a_node_without_the_field_counts_as_schedulable() {
        let node = json!({"metadata": {"name": "n1"}});
        assert!(parse("", "Node", "spec.unschedulable=false").unwrap().matches(&node));
    }

    #[test]
    fn an_unknown_field_is_rejected_with_the_message_of_its_kind() {
        let message = |group, kind| parse(group, kind, "spec.foo=1").unwrap_err().message;
        assert_eq!(message("", "Pod"), "field label not supported: spec.foo");
        assert_eq!(
            message("apps", "Deployment"),
            "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }

    #[test]
    fn a_term_without_a_sign_is_a_bad_request() {
        assert_eq!(parse("", "Pod", "metadata.name").unwrap_err().code, 400);
    }

    #[test]
    fn events_v1_are_selected_by_regarding() {
        let stored = json!({"involvedObject": {"name": "web-0"}});
        assert!(parse("events.k8s.io", "Event", "regarding.name=web-0").unwrap().matches(&stored));
    }
}
