//! An applied configuration against the type of its kind. Apply looks before anything is dropped
//! or filled in, and more strictly than the other writes: a field that is not there is a refusal.

use super::request::Request;
use crate::error::ApiError;
use crate::kinds::declared::{Declared, Holds};
use crate::object;
use crate::patch::{self, ListShape, Shape};
use schedlab_json::{Text, Value};

/// Refuses a configuration that its kind's type does not allow: 500, as the real server answers.
pub(super) fn check(request: &Request, wanted: &Value, shape: &Shape) -> Result<(), ApiError> {
    let mut walk = Walk { wrong: Vec::new() };
    let version = object::text(wanted, &["apiVersion"]).rsplit('/').next().unwrap_or_default();
    let schema = request.kind.version(version).and_then(|version| version.schema.as_deref());
    let root = Declared::object(&request.asked, schema);
    for (name, field) in wanted.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind") {
            walk.field((root, shape), name, field, "");
        }
    }
    let what = match walk.wrong.as_slice() {
        [] => return Ok(()),
        [only] => only.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    Err(patch::untyped_patch(wanted, &what))
}

struct Walk {
    wrong: Vec<String>,
}

impl Walk {
    fn say(&mut self, path: &str, what: &str) {
        self.wrong.push(format!("{path}: {what}"));
    }

    fn field(&mut self, of: (Declared<'_>, &Shape), name: &str, value: &Value, path: &str) {
        let path = format!("{path}.{name}");
        match of.0.field(name) {
            Some(field) => self.value((field, of.1.field(name)), value, &path),
            None => self.say(&path, "field not declared in schema"),
        }
    }

    fn value(&mut self, (declared, shape): (Declared<'_>, &Shape), value: &Value, path: &str) {
        match (declared.holds(), value) {
            (_, Value::Null)
            | (Holds::Anything, _)
            | (Holds::Text, Value::String(_))
            | (Holds::Number, Value::Number(_))
            | (Holds::Switch, Value::Bool(_)) => {}
            (Holds::Fields, Value::Object(fields)) => {
                for (name, field) in fields {
                    self.field((declared, shape), name, field, path);
                }
            }
            (Holds::Items, Value::Array(items)) => self.items((declared, shape), items, path),
            (Holds::Fields, _) => {
                self.say(path, &format!("expected map, got &{{{}}}", patch::in_go(value)));
            }
            (Holds::Items, _) => {
                self.say(path, &format!("expected list, got &{{{}}}", patch::in_go(value)));
            }
            (Holds::Text, _) => {
                let found = literal(value);
                let what =
                    format!("expected string, got &value.valueUnstructured{{Value:{found}}}");
                self.say(path, &what);
            }
            (Holds::Number, _) => {
                let found = type_of(value);
                self.say(path, &format!("expected numeric (int or float), got {found}"));
            }
            (Holds::Switch, _) => {
                self.say(path, &format!("expected boolean, got &{{{}}}", patch::in_go(value)));
            }
        }
    }

    fn items(&mut self, of: (Declared<'_>, &Shape), items: &[Value], path: &str) {
        let (item_type, item_shape) = (of.0.item(), of.1.item());
        let mut seen = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let step = match &of.1.list {
                ListShape::Atomic => Ok(format!("[{index}]")),
                ListShape::Set | ListShape::Keyed(_) => patch::item_path(of.1, item, index),
            };
            match step {
                Err(what) => self.say(path, &what),
                Ok(step) if seen.contains(&step) => {
                    self.say(path, &format!("duplicate entries for key {step}"));
                }
                Ok(step) => {
                    self.value((item_type, item_shape), item, &format!("{path}{step}"));
                    seen.push(step);
                }
            }
        }
    }
}

/// A value as Go writes it in its own source.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&Text, &Value)| format!("{name:?}:{}", literal(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

/// The name of a value's type in Go.
fn type_of(value: &Value) -> &'static str {
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
