//! Validation errors of fields with the API's texts, collected so that one error response lists
//! them all.

use super::{ApiError, Cause, Details};
use schedlab_api::Value;

/// The validation errors of one object, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    causes: Vec<Cause>,
}

impl FieldErrors {
    /// Creates a list without errors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// The errors, in the order in which they were found.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// Adds the errors of another list.
    pub fn extend(&mut self, other: Self) {
        self.causes.extend(other.causes);
    }

    /// Adds the errors of a part of the object. `field` is the path of the part; it is put before
    /// the paths of the errors.
    pub fn extend_below(&mut self, field: &str, part_errors: Self) {
        self.causes.extend(part_errors.causes.into_iter().map(
            |cause| match cause.field.as_str() {
                // An error of the whole part has the field `<nil>`.
                "<nil>" => Cause {
                    message: cause.message.replacen("<nil> in body", " in body", 1),
                    field: field.to_owned(),
                    ..cause
                },
                _ => Cause { field: format!("{field}.{}", cause.field), ..cause },
            },
        ));
    }

    /// Whether there are errors that prevent the evaluation of CEL rules.
    pub fn blocks_cel_rules(&self) -> bool {
        let blocking = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        self.causes.iter().any(|cause| {
            let kind = cause.reason.strip_prefix("FieldValue").unwrap_or_default();
            blocking.contains(&kind)
        })
    }

    /// Removes the errors that are also in `known`.
    #[must_use]
    pub fn without(mut self, known: &Self) -> Self {
        self.causes.retain(|cause| !known.causes.contains(cause));
        self
    }

    fn add_cause(&mut self, reason: &str, field: impl Into<String>, message: String) {
        self.causes.push(Cause { reason: reason.to_owned(), message, field: field.into() });
    }

    /// Adds the error that the value of `field` violates `rule`.
    pub fn invalid(&mut self, field: impl Into<String>, value: &Value, rule: &str) {
        let message = format!("Invalid value: {value}: {rule}");
        self.add_cause("FieldValueInvalid", field, message);
    }

    /// Adds the error that the value of `field` violates `rule`. `shown` is the value as text, for
    /// instance as a Go struct.
    pub fn invalid_as_shown(&mut self, field: impl Into<String>, shown: &str, rule: &str) {
        let message = format!("Invalid value: {shown}: {rule}");
        self.add_cause("FieldValueInvalid", field, message);
    }

    /// Adds the error that a number is outside the range of its type. The error names no field.
    pub fn out_of_range(&mut self, field: &str, type_and_format: &str) {
        let message = format!(
            "Invalid value: \"\": Checked value must be of type {type_and_format} in {field}"
        );
        self.add_cause("FieldValueInvalid", "<nil>", message);
    }

    /// Adds the error that the value of `field` has another type than the schema expects.
    pub fn wrong_type(&mut self, field: impl Into<String>, found: &str, expected: &str) {
        let field = field.into();
        let message = format!(
            "Invalid value: \"{found}\": {field} in body must be of type {expected}: \"{found}\""
        );
        self.add_cause("FieldValueTypeInvalid", field, message);
    }

    /// Adds the error that the string in `field` does not have the format that the schema expects.
    pub fn wrong_format(&mut self, field: impl Into<String>, text: &str, format: &str) {
        let field = field.into();
        let message = format!(
            "Invalid value: {}: {field} in body must be of type {format}: \"{text}\"",
            Value::from(text)
        );
        self.add_cause("FieldValueTypeInvalid", field, message);
    }

    /// Adds the error that `field` is required but not set.
    pub fn required(&mut self, field: impl Into<String>, rule: &str) {
        let message = if rule.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {rule}")
        };
        self.add_cause("FieldValueRequired", field, message);
    }

    /// Adds the error that the value of `field` is not one of `allowed`.
    pub fn unsupported(&mut self, field: impl Into<String>, value: &Value, allowed: &[&str]) {
        self.unsupported_as_shown(field, &value.to_string(), allowed);
    }

    /// Like [`Self::unsupported`]; `shown` is the value as text.
    pub fn unsupported_as_shown(
        &mut self,
        field: impl Into<String>,
        shown: &str,
        allowed: &[&str],
    ) {
        let allowed: Vec<String> = allowed.iter().map(|text| format!("\"{text}\"")).collect();
        let message =
            format!("Unsupported value: {shown}: supported values: {}", allowed.join(", "));
        self.add_cause("FieldValueNotSupported", field, message);
    }

    /// Adds the error that the value of `field` occurs twice.
    pub fn duplicate(&mut self, field: impl Into<String>, value: &Value) {
        self.add_cause("FieldValueDuplicate", field, format!("Duplicate value: {value}"));
    }

    /// Like [`Self::duplicate`]; `shown` is the value as text.
    pub fn duplicate_as_shown(&mut self, field: impl Into<String>, shown: &str) {
        self.add_cause("FieldValueDuplicate", field, format!("Duplicate value: {shown}"));
    }

    /// Adds the error that the value of `field` is a duplicate by `rule`.
    pub fn duplicate_with_rule(&mut self, field: impl Into<String>, shown: &str, rule: &str) {
        self.add_cause("FieldValueDuplicate", field, format!("Duplicate value: {shown}: {rule}"));
    }

    /// Adds the error that `field` violates `rule`, without showing the value.
    pub fn invalid_without_value(&mut self, field: impl Into<String>, rule: &str) {
        self.add_cause("FieldValueInvalid", field, format!("Invalid value: {rule}"));
    }

    /// Adds the error that `field` must not be set.
    pub fn forbidden(&mut self, field: impl Into<String>, rule: &str) {
        let message =
            if rule.is_empty() { "Forbidden".to_owned() } else { format!("Forbidden: {rule}") };
        self.add_cause("FieldValueForbidden", field, message);
    }

    /// Adds the error that `field` names something that does not exist.
    pub fn not_found(&mut self, field: impl Into<String>, value: &Value) {
        self.add_cause("FieldValueNotFound", field, format!("Not found: {value}"));
    }

    /// Like [`Self::not_found`], with `rule` after the value (for instance, what exists).
    pub fn not_found_with_detail(&mut self, field: impl Into<String>, value: &Value, rule: &str) {
        self.add_cause("FieldValueNotFound", field, format!("Not found: {value}: {rule}"));
    }

    /// Adds the error that the text in `field` has more than `limit` characters.
    pub fn too_long_in_characters(&mut self, field: impl Into<String>, limit: usize) {
        let message = format!("Too long: may not be more than {limit} characters");
        self.add_cause("FieldValueTooLong", field, message);
    }

    /// Adds the error that the value of `field` is longer than `limit` bytes.
    pub fn too_long(&mut self, field: impl Into<String>, limit: usize) {
        let message = format!("Too long: may not be more than {limit} bytes");
        self.add_cause("FieldValueTooLong", field, message);
    }

    /// Adds the errors of another check in place of those of the same type at the same field.
    pub fn replace_with(&mut self, other: Self) {
        let is_replaced = |cause: &Cause| {
            let mut others = other.causes.iter();
            others.any(|new| new.reason == cause.reason && new.field == cause.field)
        };
        self.causes.retain(|cause| !is_replaced(cause));
        self.extend(other);
    }

    /// Adds the error that the list in `field` has more than `limit` items.
    pub fn too_many(&mut self, field: impl Into<String>, found: usize, limit: usize) {
        let items = if limit == 1 { "item" } else { "items" };
        let message = format!("Too many: {found}: must have at most {limit} {items}");
        self.add_cause("FieldValueTooMany", field, message);
    }

    /// Returns `Invalid` (422) about the options of a request if there are errors.
    ///
    /// # Errors
    ///
    /// `Invalid` (422) with a cause for each error that was added.
    pub fn into_options_result(self, kind: &str) -> Result<(), ApiError> {
        self.into_result_for("meta.k8s.io", kind, "")
    }

    /// The messages of all errors as one text, without repetitions; `None` if there are no errors.
    pub fn aggregate_message(&self) -> Option<String> {
        let mut messages: Vec<String> = Vec::new();
        for cause in &self.causes {
            let wrong = format!("{}: {}", cause.field, cause.message);
            if !messages.contains(&wrong) {
                messages.push(wrong);
            }
        }
        match messages.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }

    /// Returns `Invalid` (422) about an object of a kind if there are errors.
    pub(crate) fn into_result_for(
        self,
        group: &str,
        kind: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        if self.causes.is_empty() {
            return Ok(());
        }
        let messages = self.aggregate_message().unwrap_or_default();
        let dot = if group.is_empty() { "" } else { "." };
        Err(ApiError {
            code: 422,
            reason: "Invalid".to_owned(),
            message: format!("{kind}{dot}{group} \"{name}\" is invalid: {messages}"),
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
