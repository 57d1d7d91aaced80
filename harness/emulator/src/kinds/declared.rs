//! What a kind declares about each place in its objects, whether the kind is built in or a schema
//! describes it.

use super::schema::{Schema, Type};
use super::typed::{self, Typed};
use super::{Kind, Origin};

/// What is declared about one place.
#[derive(Clone, Copy)]
pub(crate) enum Declared<'t> {
    /// Nothing.
    Anything,
    Typed(Typed<'t>),
    Schema(&'t Schema),
    /// The whole of a custom resource, which has metadata besides what the schema says.
    Resource(&'t Schema, Option<Typed<'t>>),
}

/// What can stand at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Anything,
    /// Fields of a type, or the entries of a map.
    Fields,
    Items,
    Text,
    Number,
    Switch,
}

impl<'t> Declared<'t> {
    /// A whole object of a kind, in the version that this schema describes.
    pub(crate) fn object(kind: &Kind, schema: Option<&'t Schema>) -> Self {
        match (&kind.origin, schema) {
            (Origin::Custom, Some(schema)) => Self::Resource(schema, typed::metadata()),
            (Origin::Custom, None) => Self::Anything,
            (Origin::BuiltIn | Origin::View, _) => {
                typed::root(&kind.resource.group, &kind.kind).map_or(Self::Anything, Self::Typed)
            }
        }
    }
}

impl Declared<'_> {
    pub(crate) fn holds(self) -> Holds {
        match self {
            Self::Anything => Holds::Anything,
            Self::Resource(..) => Holds::Fields,
            Self::Typed(typed) => typed.holds(),
            Self::Schema(schema) => match schema.kind {
                Some(Type::Object) => Holds::Fields,
                Some(Type::Array) => Holds::Items,
                Some(Type::String) => Holds::Text,
                Some(Type::Integer | Type::Number) => Holds::Number,
                Some(Type::Boolean) => Holds::Switch,
                Some(Type::IntOrString) | None => Holds::Anything,
            },
        }
    }

    /// What is declared about a field; `None` if there is no such field.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Anything => Some(Self::Anything),
            Self::Typed(typed) => typed.field(name).map(Self::Typed),
            Self::Resource(_, metadata) if name == "metadata" => {
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
            Self::Schema(schema) | Self::Resource(schema, _) => match schema.field(name) {
                Some(field) => Some(Self::Schema(field)),
                None => schema.keeps_unknown().then_some(Self::Anything),
            },
        }
    }

    /// What is declared about the items of a list.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Typed(typed) => typed.item().map_or(Self::Anything, Self::Typed),
            Self::Schema(schema) => schema.items.as_deref().map_or(Self::Anything, Self::Schema),
            Self::Anything | Self::Resource(..) => Self::Anything,
        }
    }

    /// Whether a path of keys and positions leads to something that is declared; keys may have
    /// dots of their own.
    pub(super) fn knows(self, path: &str) -> bool {
        if path.is_empty() || matches!(self, Self::Anything) {
            return true;
        }
        let dots = path.match_indices('.').filter_map(|(at, _)| path.split_at_checked(at));
        let keys = dots.map(|(key, rest)| (key, rest.trim_start_matches('.')));
        keys.chain([(path, "")]).any(|(key, rest)| {
            if self.holds() == Holds::Items {
                key.parse::<usize>().is_ok() && self.item().knows(rest)
            } else {
                self.field(key).is_some_and(|field| field.knows(rest))
            }
        })
    }
}
