//! CEL values of JSON: typed by a schema, or by JSON's own types.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube_cel::cel::Value as CelValue;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use schedlab_api::Value;

use super::evaluate::{EXPRESSION_COST_MAX, Program};

/// How a part of an object is represented in CEL.
#[derive(Clone, Debug)]
pub(crate) enum CelShape {
    /// The part is represented by its JSON type.
    Any,
    Number,
    Bytes,
    Duration,
    Date,
    Timestamp,
    List(Arc<CelShape>),
    Map(Arc<CelShape>),
    /// An object: for each field its JSON name, its CEL key and its shape. Other fields are not
    /// represented.
    Object(Arc<Vec<(String, Key, CelShape)>>),
}

impl CelShape {
    /// The CEL value of a JSON value with this shape.
    pub(crate) fn cel_value(&self, json: &Value) -> CelValue {
        match (self, json) {
            (Self::List(of), Value::Array(items)) => {
                CelValue::List(Arc::new(items.iter().map(|item| of.cel_value(item)).collect()))
            }
            (Self::Map(of), Value::Object(fields)) => {
                let fields =
                    fields.iter().map(|(name, value)| (map_key(name), of.cel_value(value)));
                map_value(fields.collect())
            }
            (Self::Object(known), Value::Object(fields)) => {
                let present = known.iter().filter_map(|(name, shown, shape)| {
                    Some((shown.clone(), shape.cel_value(fields.get(name)?)))
                });
                map_value(present.collect())
            }
            (Self::Number, Value::Number(number)) => {
                CelValue::Float(number.as_f64().unwrap_or_default())
            }
            (Self::Bytes, Value::String(text)) => {
                CelValue::Bytes(Arc::new(STANDARD.decode(text.as_bytes()).unwrap_or_default()))
            }
            (Self::Duration, Value::String(text)) => converted_text(&DURATION, text.to_string()),
            (Self::Timestamp, Value::String(text)) => converted_text(&TIMESTAMP, text.to_string()),
            (Self::Date, Value::String(text)) => {
                converted_text(&TIMESTAMP, format!("{text}T00:00:00Z"))
            }
            (_, json) => untyped_value(json),
        }
    }
}

/// The CEL value of a JSON value without a declared shape, by its JSON types.
pub(crate) fn untyped_value(json: &Value) -> CelValue {
    match json {
        Value::Null => CelValue::Null,
        Value::Bool(is) => CelValue::Bool(*is),
        Value::Number(number) => match number.as_i64() {
            Some(number) => CelValue::Int(number),
            None => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => CelValue::String(Arc::new(text.to_string())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(untyped_value).collect())),
        Value::Object(fields) => map_value(
            fields.iter().map(|(name, value)| (map_key(name), untyped_value(value))).collect(),
        ),
    }
}

/// A CEL optional: `optional.of(value)`, or `optional.none()` for `None`.
pub(crate) fn optional_value(value: Option<CelValue>) -> CelValue {
    let optional = value.map_or_else(OptionalValue::none, OptionalValue::of);
    CelValue::Opaque(Arc::new(optional))
}

/// The key of a CEL map for a name.
pub(crate) fn map_key(name: &str) -> Key {
    Key::from(name)
}

fn map_value(fields: HashMap<Key, CelValue>) -> CelValue {
    CelValue::Map(Map { map: Arc::new(fields) })
}

/// Converts a text by the given CEL conversion, such as `duration(text)`. A malformed text stays a
/// text.
fn converted_text(conversion: &LazyLock<Option<Program>>, text: String) -> CelValue {
    let text = CelValue::String(Arc::new(text));
    let program = conversion.as_ref();
    let found = program.map(|it| it.evaluate(&[("it", text.clone())], EXPRESSION_COST_MAX).result);
    found.and_then(Result::ok).unwrap_or(text)
}

static DURATION: LazyLock<Option<Program>> = LazyLock::new(|| Program::parse("duration(it)"));
static TIMESTAMP: LazyLock<Option<Program>> = LazyLock::new(|| Program::parse("timestamp(it)"));
