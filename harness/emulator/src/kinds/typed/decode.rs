//! One walk over an object along its type.

use std::{borrow::Cow, fmt};

use base64::{DecodeError, Engine as _, engine::general_purpose::STANDARD};

use super::Types;
use super::canonical::canonical;
use super::form::{Shape, Struct};
use crate::object;
use schedlab_json::{Map, Value};

/// Decodes the object in place. Errors are in the words of Go's JSON decoder.
pub(super) fn decode(
    types: &Types,
    object: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let mut walk = Walk { types, unknown };
    let root = &types.types[types.root];
    let Some(fields) = object.as_object_mut() else {
        return Err("json: cannot unmarshal into Go value: not an object".to_owned());
    };
    let (kind, version) = (fields.remove("kind"), fields.remove("apiVersion"));
    walk.fields(root, fields, Path::Root)?;
    fields.extend(kind.map(|kind| ("kind".to_owned(), kind)));
    fields.extend(version.map(|version| ("apiVersion".to_owned(), version)));
    Ok(())
}

struct Walk<'w> {
    types: &'w Types,
    unknown: &'w mut Vec<String>,
}

/// Where a value stands: the struct it is a field of, and the path to it.
#[derive(Clone, Copy)]
struct Place<'p> {
    owner: &'p str,
    path: Path<'p>,
}

/// The way to a value; spelt out only where there is something to say of it.
#[derive(Clone, Copy)]
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(list, index) => write!(f, "{list}[{index}]"),
        }
    }
}

impl Walk<'_> {
    fn fields(
        &mut self,
        structure: &Struct,
        fields: &mut Map,
        path: Path<'_>,
    ) -> Result<(), String> {
        let mut failure = None;
        fields.retain(|name, value| {
            let place = Path::Field(&path, name);
            let Some(field) = structure.fields.get(name.as_str()) else {
                self.unknown.push(place.to_string());
                return false;
            };
            if value.is_null() {
                return false;
            }
            let here = Place { owner: &structure.name, path: place };
            if let Err(why) = self.value(&field.shape, value, here) {
                failure.get_or_insert(why);
            }
            !(field.is_optional && is_empty(&field.shape, value))
        });
        for (name, zero) in &structure.always {
            if !fields.contains_key(name) {
                fields.insert(name.clone(), zero.clone());
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn value(&mut self, shape: &Shape, value: &mut Value, place: Place<'_>) -> Result<(), String> {
        match (shape, &mut *value) {
            (Shape::Struct(number), Value::Object(fields)) => {
                let types = self.types;
                self.fields(&types.types[*number], fields, place.path)
            }
            (Shape::Map(values), Value::Object(fields)) => self.map(values, fields, place),
            (Shape::List(items), Value::Array(list)) => {
                for (index, item) in list.iter_mut().enumerate() {
                    let path = Path::Item(&place.path, index);
                    self.value(items, item, Place { path, ..place })?;
                }
                Ok(())
            }
            (Shape::Quantity, Value::String(_) | Value::Number(_)) => {
                let text = value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed);
                let canonical = canonical(&text)?;
                if canonical != text || !value.is_string() {
                    *value = canonical.into();
                }
                Ok(())
            }
            (Shape::Text, Value::Null) => {
                *value = "".into();
                Ok(())
            }
            _ => scalar(self.types, shape, value, place),
        }
    }

    /// Of what is wrong in a map Go tells the key only on the way into a struct.
    fn map(&mut self, values: &Shape, fields: &mut Map, place: Place<'_>) -> Result<(), String> {
        fields.retain(|_, value| !value.is_null() || matches!(values, Shape::Text));
        let is_keyed = matches!(values, Shape::Struct(_));
        for (name, value) in fields.iter_mut() {
            let keyed = Path::Field(&place.path, name);
            let path = if is_keyed { keyed } else { place.path };
            self.value(values, value, Place { path, ..place })?;
        }
        Ok(())
    }
}

/// A value that is stored as it came, or not at all.
fn scalar(types: &Types, shape: &Shape, value: &Value, place: Place<'_>) -> Result<(), String> {
    let fits = match shape {
        Shape::Text | Shape::Time | Shape::Bytes => value.is_string(),
        Shape::Bool => value.is_boolean(),
        Shape::Float => value.is_number(),
        Shape::Int32 => fits_32(value),
        Shape::Int64 => value.is_i64(),
        Shape::IntOrString => value.is_string() || fits_32(value),
        Shape::Any => true,
        Shape::Struct(_) | Shape::Map(_) | Shape::List(_) | Shape::Quantity => false,
    };
    if !fits {
        return Err(mismatch(types, shape, value, place));
    }
    let text = value.as_str().unwrap_or_default();
    if matches!(shape, Shape::Bytes) {
        return check_base64(text);
    }
    if matches!(shape, Shape::Time) && text.parse::<jiff::Timestamp>().is_err() {
        let layout = "2006-01-02T15:04:05Z07:00";
        return Err(format!("parsing time \"{text}\" as \"{layout}\": cannot parse \"{text}\""));
    }
    Ok(())
}

fn fits_32(value: &Value) -> bool {
    value.as_i64().is_some_and(|whole| i32::try_from(whole).is_ok())
}

/// Only lists and maps: an empty struct or text can mean something.
fn is_empty(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::List(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(fields)) => fields.is_empty(),
        _ => false,
    }
}

/// Go reads over line ends.
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

fn mismatch(types: &Types, shape: &Shape, value: &Value, place: Place<'_>) -> String {
    let mut found = object::go_type(value).to_owned();
    if value.is_number() && matches!(shape, Shape::Int32 | Shape::Int64) {
        found = format!("number {value}");
    }
    let field = place.path.to_string();
    let own = field.rsplit('.').next().unwrap_or_default();
    let wanted = match alias(place.owner, own).filter(|_| matches!(shape, Shape::Text)) {
        Some(alias) => alias.to_owned(),
        None => in_go(types, shape),
    };
    format!(
        "json: cannot unmarshal {found} into Go struct field {}.{field} of type {wanted}",
        place.owner
    )
}

/// A type's name in Go.
fn in_go(types: &Types, shape: &Shape) -> String {
    match shape {
        Shape::Struct(number) => {
            let Struct { name, package, .. } = &types.types[*number];
            format!("{package}.{name}")
        }
        Shape::Map(values) => format!("map[string]{}", in_go(types, values)),
        Shape::List(items) => format!("[]{}", in_go(types, items)),
        Shape::Text => "string".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Float => "float64".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::Any => "value".to_owned(),
    }
}

/// Texts that have a type of their own in Go, of the kinds that schedulers meet. Schemas do not
/// name them.
fn alias(structure: &str, field: &str) -> Option<&'static str> {
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
        ("ObjectMeta" | "OwnerReference" | "ObjectReference", "uid") => "types.UID",
        _ => return None,
    })
}
