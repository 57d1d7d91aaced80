//! Type information about every field of a kind, from its Go type (built-in) or its schema
//! (custom).

use super::schema::{Schema, Type};
use super::typed::{self, TypeCursor};
use super::{Kind, Origin};

/// The type information of one field.
#[derive(Clone, Copy)]
pub(crate) enum TypeInfo<'t> {
    /// Nothing is declared: any value is valid.
    Anything,
    Typed(TypeCursor<'t>),
    Schema(&'t Schema),
    /// A whole custom resource: its schema, and the type of its metadata.
    CustomResource(&'t Schema, Option<TypeCursor<'t>>),
}

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Anything,
    /// A struct or a map.
    Fields,
    Items,
    Text,
    Number,
    Boolean,
}

impl<'t> TypeInfo<'t> {
    /// The type of whole objects of a kind; `schema` is that of the version.
    pub(crate) fn object(kind: &Kind, schema: Option<&'t Schema>) -> Self {
        match (&kind.origin, schema) {
            (Origin::Custom, Some(schema)) => Self::CustomResource(schema, typed::metadata()),
            (Origin::Custom, None) => Self::Anything,
            (Origin::BuiltIn | Origin::View, _) => {
                typed::root(kind).map_or(Self::Anything, Self::Typed)
            }
        }
    }
}

impl TypeInfo<'_> {
    pub(crate) fn value_kind(self) -> ValueKind {
        match self {
            Self::Anything => ValueKind::Anything,
            Self::CustomResource(..) => ValueKind::Fields,
            Self::Typed(typed) => typed.value_kind(),
            Self::Schema(schema) => match schema.kind {
                Some(Type::Object) => ValueKind::Fields,
                Some(Type::Array) => ValueKind::Items,
                Some(Type::String) => ValueKind::Text,
                Some(Type::Integer | Type::Number) => ValueKind::Number,
                Some(Type::Boolean) => ValueKind::Boolean,
                Some(Type::IntOrString) | None => ValueKind::Anything,
            },
        }
    }

    /// The type of a field; `None` if there is no such field.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Anything => Some(Self::Anything),
            Self::Typed(typed) => typed.field(name).map(Self::Typed),
            Self::CustomResource(_, metadata) if name == "metadata" => {
                Some(metadata.map_or(Self::Anything, Self::Typed))
            }
            Self::Schema(schema) if schema.is_embedded() && name == "metadata" => {
                Some(typed::metadata().map_or(Self::Anything, Self::Typed))
            }
            Self::Schema(schema)
                if schema.is_embedded() && matches!(name, "apiVersion" | "kind") =>
            {
                Some(Self::Anything)
            }
            Self::Schema(schema) | Self::CustomResource(schema, _) => match schema.field(name) {
                Some(field) => Some(Self::Schema(field)),
                None => schema.keeps_unknown().then_some(Self::Anything),
            },
        }
    }

    /// The type of the items of a list.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Typed(typed) => typed.item().map_or(Self::Anything, Self::Typed),
            Self::Schema(schema) => schema.items.as_deref().map_or(Self::Anything, Self::Schema),
            Self::Anything | Self::CustomResource(..) => Self::Anything,
        }
    }

    /// Whether a path of keys and indexes is declared. Keys may contain dots.
    pub(super) fn has_path(self, path: &str) -> bool {
        if path.is_empty() || matches!(self, Self::Anything) {
            return true;
        }
        let dots = path.match_indices('.').filter_map(|(at, _)| path.split_at_checked(at));
        let keys = dots.map(|(key, rest)| (key, rest.trim_start_matches('.')));
        keys.chain([(path, "")]).any(|(key, rest)| {
            if self.value_kind() == ValueKind::Items {
                key.parse::<usize>().is_ok() && self.item().has_path(rest)
            } else {
                self.field(key).is_some_and(|field| field.has_path(rest))
            }
        })
    }
}
