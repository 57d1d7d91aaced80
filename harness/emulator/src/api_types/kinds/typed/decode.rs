//! Decodes an object along its type.

use std::{borrow::Cow, fmt};

use base64::{DecodeError, Engine as _, engine::general_purpose::STANDARD};

use super::canonical_quantity::canonical_quantity;
use super::compiled_type::{FieldType, Struct};
use super::{CompiledType, UNKNOWN_FIELDS_MAX};
use crate::api_types::go_time::{self, TimeLayout};
use schedlab_api::{Map, Value, object};

/// Decodes the object in place. Paths of unknown fields are added to `unknown`; errors have the
/// texts of Go's JSON decoder.
pub(super) fn decode_in_place(
    types: &CompiledType,
    object: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let mut walk = Decoder { types, unknown };
    let root = &types.structs[types.root];
    let Some(fields) = object.as_object_mut() else {
        return Err("json: cannot unmarshal into Go value: not an object".to_owned());
    };
    let (kind, version) = (fields.remove("kind"), fields.remove("apiVersion"));
    walk.decode_fields(root, fields, ValuePath::Root)?;
    fields.extend(kind.map(|kind| ("kind".to_owned(), kind)));
    fields.extend(version.map(|version| ("apiVersion".to_owned(), version)));
    Ok(())
}

struct Decoder<'w> {
    types: &'w CompiledType,
    unknown: &'w mut Vec<String>,
}

/// The location of a value: the name of its struct, and the path.
#[derive(Clone, Copy)]
struct ValueLocation<'p> {
    owner: &'p str,
    path: ValuePath<'p>,
}

/// The path to a value; formatted only in errors.
#[derive(Clone, Copy)]
enum ValuePath<'p> {
    Root,
    Field(&'p ValuePath<'p>, &'p str),
    Item(&'p ValuePath<'p>, usize),
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(list, index) => write!(f, "{list}[{index}]"),
        }
    }
}

impl Decoder<'_> {
    fn decode_fields(
        &mut self,
        structure: &Struct,
        fields: &mut Map,
        path: ValuePath<'_>,
    ) -> Result<(), String> {
        let mut failure = None;
        fields.retain(|name, value| {
            let location = ValuePath::Field(&path, name);
            let Some(field) = structure.fields.get(name.as_str()) else {
                let is_recorded = self.unknown.len() < UNKNOWN_FIELDS_MAX;
                self.unknown.extend(is_recorded.then(|| location.to_string()));
                return false;
            };
            if value.is_null() {
                return false;
            }
            let here = ValueLocation { owner: &structure.name, path: location };
            if let Err(why) = self.decode_value(&field.field_type, value, here) {
                failure.get_or_insert(why);
            }
            !(field.is_optional && is_empty_list_or_map(&field.field_type, value))
        });
        for (name, zero) in &structure.zero_values {
            if !fields.contains_key(name) {
                fields.insert(name.clone(), zero.clone());
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn decode_value(
        &mut self,
        shape: &FieldType,
        value: &mut Value,
        location: ValueLocation<'_>,
    ) -> Result<(), String> {
        match (shape, &mut *value) {
            (FieldType::Struct(number), Value::Object(fields)) => {
                let types = self.types;
                self.decode_fields(&types.structs[*number], fields, location.path)
            }
            (FieldType::Map(values), Value::Object(fields)) => {
                self.decode_map(values, fields, location)
            }
            (FieldType::List(items), Value::Array(list)) => {
                for (index, item) in list.iter_mut().enumerate() {
                    let path = ValuePath::Item(&location.path, index);
                    self.decode_value(items, item, ValueLocation { path, ..location })?;
                }
                Ok(())
            }
            (FieldType::Quantity, Value::String(_) | Value::Number(_)) => {
                let text = value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed);
                let canonical = canonical_quantity(&text)?;
                if canonical != text || !value.is_string() {
                    *value = canonical.into();
                }
                Ok(())
            }
            (FieldType::Time(layout), Value::String(text)) => {
                if let Some(canonical) = canonical_time(*layout, text)? {
                    *value = canonical;
                }
                Ok(())
            }
            (FieldType::Text, Value::Null) => {
                *value = "".into();
                Ok(())
            }
            _ => check_scalar(self.types, shape, value, location),
        }
    }

    /// Decodes a map. Go's error names the key only if the values are structs.
    fn decode_map(
        &mut self,
        values: &FieldType,
        fields: &mut Map,
        location: ValueLocation<'_>,
    ) -> Result<(), String> {
        fields.retain(|_, value| !value.is_null() || matches!(values, FieldType::Text));
        let is_keyed = matches!(values, FieldType::Struct(_));
        for (name, value) in fields.iter_mut() {
            let keyed = ValuePath::Field(&location.path, name);
            let path = if is_keyed { keyed } else { location.path };
            self.decode_value(values, value, ValueLocation { path, ..location })?;
        }
        Ok(())
    }
}

/// Checks that a scalar, which is stored unchanged, has the type of its field.
fn check_scalar(
    types: &CompiledType,
    shape: &FieldType,
    value: &Value,
    location: ValueLocation<'_>,
) -> Result<(), String> {
    let fits = match shape {
        FieldType::Text | FieldType::Bytes => value.is_string(),
        FieldType::Bool => value.is_boolean(),
        FieldType::Float => value.is_number(),
        FieldType::Int32 => fits_int32(value),
        FieldType::Int64 => value.is_i64(),
        FieldType::IntOrString => value.is_string() || fits_int32(value),
        FieldType::Any => true,
        FieldType::Struct(_)
        | FieldType::Map(_)
        | FieldType::List(_)
        | FieldType::Quantity
        | FieldType::Time(_) => false,
    };
    if !fits {
        return Err(type_mismatch(types, shape, value, location));
    }
    let text = value.as_str().unwrap_or_default();
    if matches!(shape, FieldType::Bytes) {
        return check_base64(text);
    }
    Ok(())
}

/// A time as the API server writes it, if that differs from `text`; null for the time that Go takes
/// for unset.
fn canonical_time(layout: TimeLayout, text: &str) -> Result<Option<Value>, String> {
    let time = layout.parse(text)?;
    if go_time::is_go_zero(time) {
        return Ok(Some(Value::Null));
    }
    Ok((!layout.is_canonical(text)).then(|| layout.format(time).into()))
}

fn fits_int32(value: &Value) -> bool {
    value.as_i64().is_some_and(|whole| i32::try_from(whole).is_ok())
}

/// Whether a value is an empty list or map. An empty struct or string may be meaningful.
fn is_empty_list_or_map(shape: &FieldType, value: &Value) -> bool {
    match (shape, value) {
        (FieldType::List(_), Value::Array(items)) => items.is_empty(),
        (FieldType::Map(_), Value::Object(fields)) => fields.is_empty(),
        _ => false,
    }
}

/// Checks base64 like Go, which ignores line breaks.
fn check_base64(text: &str) -> Result<(), String> {
    let text = text.replace(['\r', '\n'], "");
    let offset = match STANDARD.decode(&text) {
        Ok(_) => return Ok(()),
        Err(DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol(offset, _)) => {
            offset
        }
        Err(DecodeError::InvalidLength(_) | DecodeError::InvalidPadding) => text.len() / 4 * 4,
    };
    Err(format!("illegal base64 data at input byte {offset}"))
}

fn type_mismatch(
    types: &CompiledType,
    shape: &FieldType,
    value: &Value,
    location: ValueLocation<'_>,
) -> String {
    let mut found = object::go_type(value).to_owned();
    if value.is_number() && matches!(shape, FieldType::Int32 | FieldType::Int64) {
        found = format!("number {value}");
    }
    let field = location.path.to_string();
    let own = field.rsplit('.').next().unwrap_or_default();
    let expected = match go_alias(location.owner, own).filter(|_| matches!(shape, FieldType::Text))
    {
        Some(alias) => alias.to_owned(),
        None => go_type_name(types, shape),
    };
    format!(
        "json: cannot unmarshal {found} into Go struct field {}.{field} of type {expected}",
        location.owner
    )
}

/// The name of a type in Go.
fn go_type_name(types: &CompiledType, shape: &FieldType) -> String {
    match shape {
        FieldType::Struct(number) => {
            let Struct { name, package, .. } = &types.structs[*number];
            format!("{package}.{name}")
        }
        FieldType::Map(values) => format!("map[string]{}", go_type_name(types, values)),
        FieldType::List(items) => format!("[]{}", go_type_name(types, items)),
        // Go decodes the text of a time first, then the time.
        FieldType::Text | FieldType::Time(_) => "string".to_owned(),
        FieldType::Bytes => "[]uint8".to_owned(),
        FieldType::Int32 => "int32".to_owned(),
        FieldType::Int64 => "int64".to_owned(),
        FieldType::Float => "float64".to_owned(),
        FieldType::Bool => "bool".to_owned(),
        FieldType::Quantity => "resource.Quantity".to_owned(),
        FieldType::IntOrString => "intstr.IntOrString".to_owned(),
        FieldType::Any => "value".to_owned(),
    }
}

/// The Go name of the string type of a field, for fields that matter to schedulers. The JSON
/// schemas do not contain these names.
fn go_alias(structure: &str, field: &str) -> Option<&'static str> {
    Some(match (structure, field) {
        ("PodStatus", "phase") => "v1.PodPhase",
        ("PodStatus", "qosClass") => "v1.PodQOSClass",
        ("PodSpec", "restartPolicy") => "v1.RestartPolicy",
        ("PodSpec", "dnsPolicy") => "v1.DNSPolicy",
        ("PodSpec" | "PriorityClass", "preemptionPolicy") => "v1.PreemptionPolicy",
        ("PodCondition", "type") => "v1.PodConditionType",
        ("NodeCondition", "type") => "v1.NodeConditionType",
        ("PodCondition" | "NodeCondition" | "Condition", "status") => "v1.ConditionStatus",
        ("Container", "imagePullPolicy") => "v1.PullPolicy",
        ("Container", "terminationMessagePolicy") => "v1.TerminationMessagePolicy",
        ("ContainerPort" | "ServicePort", "protocol") => "v1.Protocol",
        ("Toleration", "operator") => "v1.TolerationOperator",
        ("Toleration" | "Taint", "effect") => "v1.TaintEffect",
        ("NodeSelectorRequirement", "operator") => "v1.NodeSelectorOperator",
        ("LabelSelectorRequirement", "operator") => "v1.LabelSelectorOperator",
        ("TopologySpreadConstraint", "whenUnsatisfiable") => "v1.UnsatisfiableConstraintAction",
        ("NamespaceStatus", "phase") => "v1.NamespacePhase",
        ("ServiceSpec", "type") => "v1.ServiceType",
        ("Secret", "type") => "v1.SecretType",
        ("JobSpec", "completionMode") => "v1.CompletionMode",
        ("ObjectMeta" | "OwnerReference" | "ObjectReference" | "Preconditions", "uid") => {
            "types.UID"
        }
        ("DeleteOptions", "propagationPolicy") => "v1.DeletionPropagation",
        _ => return None,
    })
}
