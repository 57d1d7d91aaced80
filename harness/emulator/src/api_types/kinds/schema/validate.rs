//! Validation of custom resources against their schema, with the API server's texts.

use std::collections::BTreeSet;

use super::field_path::FieldPath;
use super::{ListType, Schema, Type, formats};
use crate::api_types::error::FieldErrors;
use schedlab_api::Value;

impl Schema {
    /// All schema violations of `object`.
    pub fn validate(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        self.check(object, &FieldPath::ROOT, &mut errors);
        errors
    }

    pub(super) fn check(&self, value: &Value, path: &FieldPath<'_>, errors: &mut FieldErrors) {
        if value.is_null() && self.nullable {
            return;
        }
        self.check_range(value, path, errors);
        if let Some(kind) = self.kind
            && !kind.fits(value)
        {
            errors.wrong_type(path_text(path), type_of(value), kind.name());
            return;
        }
        self.check_enum(value, path, errors);
        match value {
            Value::Object(fields) => {
                self.check_map(fields, path, errors);
            }
            Value::Array(items) => self.check_list(items, path, errors),
            Value::String(text) => self.check_text(text, path, errors),
            Value::Number(_) => self.check_number(value, path, errors),
            Value::Null | Value::Bool(_) => {}
        }
        self.check_branches(value, path, errors);
    }

    /// Checks that an integer is in the range of its format.
    fn check_range(&self, value: &Value, path: &FieldPath<'_>, errors: &mut FieldErrors) {
        let (Some(Type::Integer), Value::Number(number)) = (self.kind, value) else { return };
        let format = self.constraints.format.as_deref().unwrap_or_default();
        let is_in_range = match format {
            "int32" => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            "uint32" => number.as_u64().is_some_and(|number| u32::try_from(number).is_ok()),
            "uint64" => number.as_u64().is_some(),
            _ => number.as_i64().is_some(),
        };
        if !is_in_range && format.is_empty() {
            errors.out_of_range(&path_text(path), "integer (default format)");
        } else if !is_in_range {
            errors.out_of_range(&path_text(path), &format!("integer with format {format}"));
        }
    }

    fn check_enum(&self, value: &Value, path: &FieldPath<'_>, errors: &mut FieldErrors) {
        let Some(allowed) = &self.constraints.enum_values else {
            return;
        };
        if !allowed.contains(value) {
            let allowed: Vec<String> = allowed
                .iter()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
            errors.unsupported(path_text(path), value, &allowed);
        }
    }

    fn check_map(
        &self,
        fields: &schedlab_api::Map,
        path: &FieldPath<'_>,
        errors: &mut FieldErrors,
    ) {
        for name in &self.required {
            if !fields.contains_key(name) {
                errors.required(path.field(name).to_string(), "");
            }
        }
        let (least, most) = self.constraints.properties;
        let value = || Value::Object(fields.clone());
        if least.is_some_and(|least| fields.len() < least) {
            let least = least.unwrap_or_default();
            let rule =
                format!("{} in body should have at least {least} properties", path_text(path));
            errors.invalid(path_text(path), &value(), &rule);
        }
        if most.is_some_and(|most| fields.len() > most) {
            errors.too_many(path_text(path), fields.len(), most.unwrap_or_default());
        }
        for (name, field) in fields {
            if let Some(schema) = self.field(name) {
                schema.check(field, &path.field(name), errors);
            }
        }
    }

    fn check_list(&self, items: &[Value], path: &FieldPath<'_>, errors: &mut FieldErrors) {
        let (least, most) = self.constraints.items;
        if let Some(least) = least.filter(|least| items.len() < *least) {
            let rule = format!("{} in body should have at least {least} items", path_text(path));
            errors.invalid(path_text(path), &items.len().into(), &rule);
        }
        if let Some(most) = most.filter(|most| items.len() > *most) {
            errors.too_many(path_text(path), items.len(), most);
        }
        let identity: Option<Vec<Value>> = match &self.list_type {
            ListType::Map(keys) => Some(
                items
                    .iter()
                    .map(|item| {
                        keys.iter()
                            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                            .collect::<schedlab_api::Map>()
                            .into()
                    })
                    .collect(),
            ),
            ListType::Set => Some(items.to_vec()),
            ListType::Atomic => None,
        };
        let mut seen = BTreeSet::new();
        for (index, value) in identity.iter().flatten().enumerate() {
            if !seen.insert(value.to_string()) {
                errors.duplicate(path.item(index).to_string(), value);
            }
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = &self.items {
                schema.check(item, &path.item(index), errors);
            }
        }
    }

    fn check_text(&self, text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) {
        self.check_length_and_pattern(text, path, errors);
        if let Some(format) = self.constraints.format.as_ref()
            && !formats::has_format(text, format)
        {
            errors.wrong_format(path_text(path), text, format);
        }
    }

    /// Checks length and pattern of a string; only the first violation is reported.
    fn check_length_and_pattern(&self, text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) {
        let length = text.chars().count();
        let (least, most) = self.constraints.lengths;
        if let Some(most) = most.filter(|most| length > *most) {
            errors.too_long(path_text(path), most);
        } else if let Some(least) = least.filter(|least| length < *least) {
            let rule = format!("{} in body should be at least {least} chars long", path_text(path));
            errors.invalid(path_text(path), &text.into(), &rule);
        } else if let Some(pattern) =
            self.constraints.pattern.as_ref().filter(|rule| !rule.is_match(text))
        {
            let rule = format!("{} in body should match '{pattern}'", path_text(path));
            errors.invalid(path_text(path), &text.into(), &rule);
        }
    }

    fn check_number(&self, value: &Value, path: &FieldPath<'_>, errors: &mut FieldErrors) {
        let Some(number) = value.as_f64() else {
            return;
        };
        let too_small = |(least, open): (f64, bool)| number < least || (open && number <= least);
        if let Some((least, open)) = self.constraints.minimum.filter(|&bound| too_small(bound)) {
            let than = if open { "greater than" } else { "greater than or equal to" };
            let rule = format!("{} in body should be {than} {least}", path_text(path));
            errors.invalid(path_text(path), value, &rule);
        }
        let too_large = |(most, open): (f64, bool)| number > most || (open && number >= most);
        if let Some((most, open)) = self.constraints.maximum.filter(|&bound| too_large(bound)) {
            let than = if open { "less than" } else { "less than or equal to" };
            let rule = format!("{} in body should be {than} {most}", path_text(path));
            errors.invalid(path_text(path), value, &rule);
        }
        let is_multiple = |step: f64| (number / step).fract() == 0.0;
        if let Some(step) = self.constraints.multiple_of.filter(|&step| !is_multiple(step)) {
            let rule = format!("{} in body should be a multiple of {step}", path_text(path));
            errors.invalid(path_text(path), value, &rule);
        }
    }
}

fn path_text(path: &FieldPath<'_>) -> String {
    path_or_nil(path.to_string())
}

/// The path for messages; the root is `<nil>`.
pub(super) fn path_or_nil(path: String) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path }
}

pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if !number.is_i64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
