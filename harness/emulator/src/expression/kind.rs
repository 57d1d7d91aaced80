//! What values of an expression are, as far as it is known before there are any.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// The kind of a value, under the name that the real server gives it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Not known.
    Dyn,
    /// A value of an attribute, which is of several kinds.
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
    List(Arc<Kind>),
    Map(Arc<Kind>, Arc<Kind>),
    Object(Arc<Object>),
    /// One that only functions know.
    Named(&'static str),
}

/// What has fields, and no others.
#[derive(Debug, PartialEq)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, Kind>,
}

impl Kind {
    pub(crate) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    /// A map from texts.
    pub(crate) fn map(to: Self) -> Self {
        Self::Map(Arc::new(Self::Text), Arc::new(to))
    }

    pub(crate) fn object(name: &str, fields: impl IntoIterator<Item = (String, Self)>) -> Self {
        let fields = fields.into_iter().collect();
        Self::Object(Arc::new(Object { name: name.to_owned(), fields }))
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// Whether a value of one kind may stand where there is one of the other.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        let may_be_null = |kind: &Self| {
            matches!(
                kind,
                Self::Null | Self::Object(_) | Self::Named(_) | Self::Duration | Self::Timestamp
            )
        };
        match (self, other) {
            _ if self.is_open() || other.is_open() => true,
            (Self::Null, kind) | (kind, Self::Null) => may_be_null(kind),
            (Self::List(one), Self::List(other)) => one.fits(other),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.fits(other_key) && value.fits(other_value)
            }
            (Self::Object(one), Self::Object(other)) => one.name == other.name,
            _ => self == other,
        }
    }
}

impl Display for Kind {
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
            Self::Named(name) => name,
        };
        f.write_str(name)
    }
}
