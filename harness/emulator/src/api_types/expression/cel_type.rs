//! Types of CEL expressions, as far as they are known before evaluation.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// A CEL type; displayed under its cel-go name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CelType {
    /// The type is unknown until evaluation.
    Dyn,
    /// The value of a device attribute, which has one of several types.
    Any,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    Duration,
    Timestamp,
    List(Arc<CelType>),
    Map(Arc<CelType>, Arc<CelType>),
    Object(Arc<ObjectType>),
    /// A type without fields that only functions can use, with its name.
    Opaque(&'static str),
}

/// An object type: a name and a fixed set of fields.
#[derive(Debug, PartialEq)]
pub(crate) struct ObjectType {
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, CelType>,
}

impl CelType {
    pub(crate) fn list(item_type: Self) -> Self {
        Self::List(Arc::new(item_type))
    }

    /// The type of a map with string keys and values of `value_type`.
    pub(crate) fn map(value_type: Self) -> Self {
        Self::Map(Arc::new(Self::Text), Arc::new(value_type))
    }

    pub(crate) fn object(name: &str, fields: impl IntoIterator<Item = (String, Self)>) -> Self {
        let fields = fields.into_iter().collect();
        Self::Object(Arc::new(ObjectType { name: name.to_owned(), fields }))
    }

    pub(super) fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// Whether a value of this type may be used where a value of `other` is expected.
    pub(crate) fn is_assignable_to(&self, other: &Self) -> bool {
        let may_be_null = |kind: &Self| {
            matches!(
                kind,
                Self::Null | Self::Object(_) | Self::Opaque(_) | Self::Duration | Self::Timestamp
            )
        };
        match (self, other) {
            _ if self.is_dynamic() || other.is_dynamic() => true,
            (Self::Null, kind) | (kind, Self::Null) => may_be_null(kind),
            (Self::List(one), Self::List(other)) => one.is_assignable_to(other),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.is_assignable_to(other_key) && value.is_assignable_to(other_value)
            }
            (Self::Object(one), Self::Object(other)) => one.name == other.name,
            _ => self == other,
        }
    }
}

impl Display for CelType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Dyn => "dyn",
            Self::Any => "any",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Object(object) => &object.name,
            Self::Opaque(name) => name,
        };
        f.write_str(name)
    }
}
