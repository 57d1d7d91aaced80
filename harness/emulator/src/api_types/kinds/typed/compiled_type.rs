//! A Go type, compiled from its JSON schema: without descriptions, and with references as indexes.

use std::collections::BTreeMap;

use super::{CompiledType, go_zero_values};
use crate::api_types::go_time::TimeLayout;
use schedlab_api::{Map, Text, Value};

/// A Go struct.
#[derive(Debug, Default)]
pub(super) struct Struct {
    /// The name of the struct, for messages.
    pub(super) name: String,
    /// The last component of the struct's Go package.
    pub(super) package: String,
    pub(super) fields: BTreeMap<String, Field>,
    /// The fields that are always written, with their zero values.
    pub(super) zero_values: Vec<(String, Value)>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) field_type: FieldType,
    /// Whether an empty list or map in the field counts as absent (`omitempty`).
    pub(super) is_optional: bool,
}

/// The type of a field.
#[derive(Debug)]
pub(super) enum FieldType {
    Struct(usize),
    Map(Box<FieldType>),
    List(Box<FieldType>),
    Text,
    /// A base64 string.
    Bytes,
    Int32,
    Int64,
    Float,
    Bool,
    Quantity,
    IntOrString,
    Time(TimeLayout),
    Any,
}

/// Compiles the JSON schemas of a type and of all types that it refers to. `root` is the name of
/// the type.
pub(super) fn compile_type(definitions: &Map, root: &str) -> Option<CompiledType> {
    let names: Vec<&Text> = definitions.keys().collect();
    let number = |name: &str| names.iter().position(|known| *known == name);
    let types =
        definitions.iter().map(|(name, schema)| compile_struct(name, schema, &number)).collect();
    Some(CompiledType { structs: types, root: number(root)? })
}

type StructIndex<'n> = &'n dyn Fn(&str) -> Option<usize>;

fn compile_struct(name: &str, schema: &Value, struct_index: StructIndex<'_>) -> Struct {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields = properties.map(|(field, schema)| {
        // Admission distinguishes an empty pod overhead from none.
        let is_overhead = name.ends_with(".PodSpec") && *field == *"overhead";
        let is_optional = !required.contains(&field.as_str()) && !is_overhead;
        (
            field.to_string(),
            Field { field_type: compile_field_type(schema, struct_index), is_optional },
        )
    });
    let mut parts = name.rsplit('.').map(str::to_owned);
    let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let always =
        go_zero_values::zero_values(&name).map(|(field, zero)| (field.to_owned(), zero)).collect();
    Struct { fields: fields.collect(), zero_values: always, name, package }
}

fn compile_field_type(schema: &Value, struct_index: StructIndex<'_>) -> FieldType {
    if let Some(reference) = schema["$ref"].as_str() {
        return compile_reference(reference.trim_start_matches("#/$defs/"), struct_index);
    }
    if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
        return compile_field_type(only, struct_index);
    }
    match schema["type"].as_str() {
        Some("object") if schema["additionalProperties"].is_object() => FieldType::Map(Box::new(
            compile_field_type(&schema["additionalProperties"], struct_index),
        )),
        Some("array") => {
            FieldType::List(Box::new(compile_field_type(&schema["items"], struct_index)))
        }
        Some("string") if schema["format"] == "byte" => FieldType::Bytes,
        Some("string") => FieldType::Text,
        Some("integer") if schema["format"] == "int32" => FieldType::Int32,
        Some("integer") => FieldType::Int64,
        Some("number") => FieldType::Float,
        Some("boolean") => FieldType::Bool,
        Some(_) | None => FieldType::Any,
    }
}

/// The type of a field that refers to the definition `name`. Quantities, times and untyped values
/// have types of their own; all other definitions are structs.
fn compile_reference(name: &str, struct_index: StructIndex<'_>) -> FieldType {
    match name.rsplit('.').next().unwrap_or(name) {
        "Quantity" => FieldType::Quantity,
        "IntOrString" => FieldType::IntOrString,
        "Time" => FieldType::Time(TimeLayout::Seconds),
        "MicroTime" => FieldType::Time(TimeLayout::Micros),
        "RawExtension"
        | "JSON"
        | "JSONSchemaPropsOrArray"
        | "JSONSchemaPropsOrBool"
        | "JSONSchemaPropsOrStringArray"
        | "FieldsV1" => FieldType::Any,
        _ => struct_index(name).map_or(FieldType::Any, FieldType::Struct),
    }
}
