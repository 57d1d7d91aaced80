//! Checks an applied configuration against the schema of its kind, before pruning and defaulting.
//! Apply is stricter than other writes: an unknown field is an error.

use super::request::WriteRequest;
use crate::api_types::error::ApiError;
use crate::api_types::error::go_format::format_go_value;
use crate::api_types::kinds::type_info::{TypeInfo, ValueKind};
use crate::requests::patch_types::{self, ListShape, MergeShape};
use schedlab_api::{Text, Value, object};

/// Refuses an applied configuration that does not fit the schema of its kind, with status code 500
/// as in kube-apiserver.
pub(super) fn check_applied_configuration(
    request: &WriteRequest,
    configuration: &Value,
    shape: &MergeShape,
) -> Result<(), ApiError> {
    let mut validator = ApplyValidator { errors: Vec::new() };
    let version =
        object::text(configuration, &["apiVersion"]).rsplit('/').next().unwrap_or_default();
    let schema = request.kind.version(version).and_then(|version| version.schema.as_deref());
    let root = TypeInfo::object(&request.requested_kind, schema);
    for (name, field) in configuration.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind") {
            validator.validate_field(root, shape, name, field, "");
        }
    }
    let what = match validator.errors.as_slice() {
        [] => return Ok(()),
        [only] => only.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    Err(patch_types::typed_patch_error(configuration, &what))
}

struct ApplyValidator {
    errors: Vec<String>,
}

impl ApplyValidator {
    fn report(&mut self, path: &str, problem: &str) {
        self.errors.push(format!("{path}: {problem}"));
    }

    fn validate_field(
        &mut self,
        type_info: TypeInfo<'_>,
        shape: &MergeShape,
        name: &str,
        value: &Value,
        path: &str,
    ) {
        let path = format!("{path}.{name}");
        match type_info.field(name) {
            Some(field) => self.validate_value(field, shape.field_shape(name), value, &path),
            None => self.report(&path, "field not declared in schema"),
        }
    }

    fn validate_value(
        &mut self,
        type_info: TypeInfo<'_>,
        shape: &MergeShape,
        value: &Value,
        path: &str,
    ) {
        match (type_info.value_kind(), value) {
            (_, Value::Null)
            | (ValueKind::Anything, _)
            | (ValueKind::Text, Value::String(_))
            | (ValueKind::Number, Value::Number(_))
            | (ValueKind::Boolean, Value::Bool(_)) => {}
            (ValueKind::Fields, Value::Object(fields)) => {
                for (name, field) in fields {
                    self.validate_field(type_info, shape, name, field, path);
                }
            }
            (ValueKind::Items, Value::Array(items)) => {
                self.validate_items(type_info, shape, items, path);
            }
            (ValueKind::Fields, _) => {
                self.report(path, &format!("expected map, got &{{{}}}", format_go_value(value)));
            }
            (ValueKind::Items, _) => {
                self.report(path, &format!("expected list, got &{{{}}}", format_go_value(value)));
            }
            (ValueKind::Text, _) => {
                let found = go_literal(value);
                let what =
                    format!("expected string, got &value.valueUnstructured{{Value:{found}}}");
                self.report(path, &what);
            }
            (ValueKind::Number, _) => {
                let found = go_type_name(value);
                self.report(path, &format!("expected numeric (int or float), got {found}"));
            }
            (ValueKind::Boolean, _) => {
                self.report(
                    path,
                    &format!("expected boolean, got &{{{}}}", format_go_value(value)),
                );
            }
        }
    }

    fn validate_items(
        &mut self,
        type_info: TypeInfo<'_>,
        shape: &MergeShape,
        items: &[Value],
        path: &str,
    ) {
        let (item_type, item_shape) = (type_info.item(), shape.item_shape());
        let mut seen = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let step = match &shape.list {
                ListShape::Atomic => Ok(format!("[{index}]")),
                ListShape::Set | ListShape::Keyed(_) => patch_types::item_path(shape, item, index),
            };
            match step {
                Err(what) => self.report(path, &what),
                Ok(step) if seen.contains(&step) => {
                    self.report(path, &format!("duplicate entries for key {step}"));
                }
                Ok(step) => {
                    self.validate_value(item_type, item_shape, item, &format!("{path}{step}"));
                    seen.push(step);
                }
            }
        }
    }
}

/// A value as Go's `%#v` formats it.
fn go_literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&Text, &Value)| format!("{name:?}:{}", go_literal(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

/// The Go type of a decoded JSON value.
fn go_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
