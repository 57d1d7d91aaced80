//! A type, compiled from its schema: names and descriptions are gone, references are numbers.

use std::collections::BTreeMap;

use super::{Types, always};
use schedlab_json::{Map, Text, Value};

/// A Go struct.
#[derive(Debug, Default)]
pub(super) struct Struct {
    /// Its name, for messages.
    pub(super) name: String,
    /// The last part of its package.
    pub(super) package: String,
    pub(super) fields: BTreeMap<String, Field>,
    /// What is written of fields that nobody has set.
    pub(super) always: Vec<(String, Value)>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) shape: Shape,
    /// An empty list or map is the same as none.
    pub(super) is_optional: bool,
}

/// What can stand in a field.
#[derive(Debug)]
pub(super) enum Shape {
    Struct(usize),
    Map(Box<Shape>),
    List(Box<Shape>),
    Text,
    /// Base64.
    Bytes,
    Int32,
    Int64,
    Float,
    Bool,
    Quantity,
    IntOrString,
    Time,
    Any,
}

/// Compiles the definitions; `root` names the outermost.
pub(super) fn compile(definitions: &Map, root: &str) -> Option<Types> {
    let names: Vec<&Text> = definitions.keys().collect();
    let number = |name: &str| names.iter().position(|known| *known == name);
    let types = definitions.iter().map(|(name, schema)| structure(name, schema, &number)).collect();
    Some(Types { types, root: number(root)? })
}

type Number<'n> = &'n dyn Fn(&str) -> Option<usize>;

fn structure(name: &str, schema: &Value, number: Number<'_>) -> Struct {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields = properties.map(|(field, schema)| {
        // Of a pod's overhead a server asks whether it was written at all.
        let is_overhead = name.ends_with(".PodSpec") && *field == *"overhead";
        let is_optional = !required.contains(&field.as_str()) && !is_overhead;
        (field.to_string(), Field { shape: shape(schema, number), is_optional })
    });
    let mut parts = name.rsplit('.').map(str::to_owned);
    let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let always = always::of(&name).map(|(field, zero)| (field.to_owned(), zero)).collect();
    Struct { fields: fields.collect(), always, name, package }
}

fn shape(schema: &Value, number: Number<'_>) -> Shape {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference_shape(reference.trim_start_matches("#/$defs/"), number);
    }
    if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
        return shape(only, number);
    }
    match schema["type"].as_str() {
        Some("object") if schema["additionalProperties"].is_object() => {
            Shape::Map(Box::new(shape(&schema["additionalProperties"], number)))
        }
        Some("array") => Shape::List(Box::new(shape(&schema["items"], number))),
        Some("string") if schema["format"] == "byte" => Shape::Bytes,
        Some("string") => Shape::Text,
        Some("integer") if schema["format"] == "int32" => Shape::Int32,
        Some("integer") => Shape::Int64,
        Some("number") => Shape::Float,
        Some("boolean") => Shape::Bool,
        Some(_) | None => Shape::Any,
    }
}

/// Most references are to structs; these are not.
fn reference_shape(name: &str, number: Number<'_>) -> Shape {
    match name.rsplit('.').next().unwrap_or(name) {
        "Quantity" => Shape::Quantity,
        "IntOrString" => Shape::IntOrString,
        "Time" | "MicroTime" => Shape::Time,
        "RawExtension"
        | "JSON"
        | "JSONSchemaPropsOrArray"
        | "JSONSchemaPropsOrBool"
        | "JSONSchemaPropsOrStringArray"
        | "FieldsV1" => Shape::Any,
        _ => number(name).map_or(Shape::Any, Shape::Struct),
    }
}
