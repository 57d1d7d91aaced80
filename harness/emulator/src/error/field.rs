//! What can be wrong with a field, in the words of the API's validation, collected so that a
//! refusal names everything at once.

use super::{ApiError, Cause, Details};
use crate::kinds::Kind;
use schedlab_json::Value;

/// Everything found wrong with one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    causes: Vec<Cause>,
}

impl FieldErrors {
    /// Nothing wrong yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// What is wrong, in the order found.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// Adds what another look found.
    pub fn extend(&mut self, other: Self) {
        self.causes.extend(other.causes);
    }

    /// Adds what was found of a part, which stands at `field`.
    pub fn extend_below(&mut self, field: &str, part: Self) {
        self.causes.extend(part.causes.into_iter().map(|cause| match cause.field.as_str() {
            // Of the whole part: it has no name of its own.
            "<nil>" => Cause {
                message: cause.message.replacen("<nil> in body", " in body", 1),
                field: field.to_owned(),
                ..cause
            },
            _ => Cause { field: format!("{field}.{}", cause.field), ..cause },
        }));
    }

    /// Whether anything is wrong that keeps rules from being looked at.
    pub fn blocks_rules(&self) -> bool {
        let blocking = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        self.causes.iter().any(|cause| {
            let kind = cause.reason.strip_prefix("FieldValue").unwrap_or_default();
            blocking.contains(&kind)
        })
    }

    /// What is wrong here and not in `known`.
    #[must_use]
    pub fn without(mut self, known: &Self) -> Self {
        self.causes.retain(|cause| !known.causes.contains(cause));
        self
    }

    fn add(&mut self, reason: &str, field: impl Into<String>, message: String) {
        self.causes.push(Cause { reason: reason.to_owned(), message, field: field.into() });
    }

    /// The value breaks a rule.
    pub fn invalid(&mut self, field: impl Into<String>, value: &Value, rule: &str) {
        let message = format!("Invalid value: {value}: {rule}");
        self.add("FieldValueInvalid", field, message);
    }

    /// The value breaks a rule; it is shown as Go shows it.
    pub fn invalid_in_go(&mut self, field: impl Into<String>, shown: &str, rule: &str) {
        let message = format!("Invalid value: {shown}: {rule}");
        self.add("FieldValueInvalid", field, message);
    }

    /// The value has another type than its schema.
    pub fn wrong_type(&mut self, field: impl Into<String>, found: &str, wanted: &str) {
        let field = field.into();
        let message = format!(
            "Invalid value: \"{found}\": {field} in body must be of type {wanted}: \"{found}\""
        );
        self.add("FieldValueTypeInvalid", field, message);
    }

    /// The text has another form than its schema says.
    pub fn wrong_format(&mut self, field: impl Into<String>, text: &str, format: &str) {
        let field = field.into();
        let message = format!(
            "Invalid value: {}: {field} in body must be of type {format}: \"{text}\"",
            Value::from(text)
        );
        self.add("FieldValueTypeInvalid", field, message);
    }

    /// Something must stand there.
    pub fn required(&mut self, field: impl Into<String>, rule: &str) {
        let message = if rule.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {rule}")
        };
        self.add("FieldValueRequired", field, message);
    }

    /// Not one of the allowed values.
    pub fn unsupported(&mut self, field: impl Into<String>, value: &Value, allowed: &[&str]) {
        self.unsupported_in_go(field, &value.to_string(), allowed);
    }

    /// Not one of the allowed values; it is shown as Go shows it.
    pub fn unsupported_in_go(&mut self, field: impl Into<String>, shown: &str, allowed: &[&str]) {
        let allowed: Vec<String> = allowed.iter().map(|text| format!("\"{text}\"")).collect();
        let message =
            format!("Unsupported value: {shown}: supported values: {}", allowed.join(", "));
        self.add("FieldValueNotSupported", field, message);
    }

    /// The same twice.
    pub fn duplicate(&mut self, field: impl Into<String>, value: &Value) {
        self.add("FieldValueDuplicate", field, format!("Duplicate value: {value}"));
    }

    /// The same twice, as far as a rule looks.
    pub fn duplicate_by(&mut self, field: impl Into<String>, shown: &str, rule: &str) {
        self.add("FieldValueDuplicate", field, format!("Duplicate value: {shown}: {rule}"));
    }

    /// A rule about the whole is broken, and the value is not shown.
    pub fn broken(&mut self, field: impl Into<String>, rule: &str) {
        self.add("FieldValueInvalid", field, format!("Invalid value: {rule}"));
    }

    /// May not stand there.
    pub fn forbidden(&mut self, field: impl Into<String>, rule: &str) {
        self.add("FieldValueForbidden", field, format!("Forbidden: {rule}"));
    }

    /// Names something that is not there.
    pub fn missing(&mut self, field: impl Into<String>, value: &Value) {
        self.add("FieldValueNotFound", field, format!("Not found: {value}"));
    }

    /// The same, where it is said among which it was looked for.
    pub fn missing_as(&mut self, field: impl Into<String>, value: &Value, rule: &str) {
        self.add("FieldValueNotFound", field, format!("Not found: {value}: {rule}"));
    }

    /// Longer than `limit` bytes.
    pub fn too_long(&mut self, field: impl Into<String>, limit: usize) {
        let message = format!("Too long: may not be more than {limit} bytes");
        self.add("FieldValueTooLong", field, message);
    }

    /// More than `limit` items.
    pub fn too_many(&mut self, field: impl Into<String>, found: usize, limit: usize) {
        let message = format!("Too many: {found}: must have at most {limit} items");
        self.add("FieldValueTooMany", field, message);
    }

    /// A refusal (422) of the object `name` if anything is wrong with it.
    pub fn refuse(self, kind: &Kind, name: &str) -> Result<(), ApiError> {
        self.refuse_as((&kind.resource.group, &kind.kind), name)
    }

    /// A refusal (422) of a request's options if anything is wrong with them.
    pub fn refuse_options(self, kind: &str) -> Result<(), ApiError> {
        self.refuse_as(("meta.k8s.io", kind), "")
    }

    /// Everything that is wrong in one text, each wrong once; `None` if nothing is.
    pub fn aggregate(&self) -> Option<String> {
        let mut wrongs: Vec<String> = Vec::new();
        for cause in &self.causes {
            let wrong = format!("{}: {}", cause.field, cause.message);
            if !wrongs.contains(&wrong) {
                wrongs.push(wrong);
            }
        }
        match wrongs.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }

    fn refuse_as(self, (group, kind): (&str, &str), name: &str) -> Result<(), ApiError> {
        if self.causes.is_empty() {
            return Ok(());
        }
        let wrongs = self.aggregate().unwrap_or_default();
        let dot = if group.is_empty() { "" } else { "." };
        Err(ApiError {
            code: 422,
            reason: "Invalid".to_owned(),
            message: format!("{kind}{dot}{group} \"{name}\" is invalid: {wrongs}"),
            details: Some(Box::new(Details {
                name: name.to_owned(),
                group: group.to_owned(),
                kind: kind.to_owned(),
                causes: self.causes,
                ..Details::default()
            })),
            continue_token: None,
            warnings: Vec::new(),
        })
    }
}
