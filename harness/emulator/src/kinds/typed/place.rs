//! One place in a built-in type, for those who walk along it.

use super::form::Shape;
use super::{Types, catalogue};
use crate::kinds::declared::Holds;

/// What stands at one place.
#[derive(Clone, Copy)]
pub(crate) struct Typed<'t> {
    types: &'t Types,
    at: At<'t>,
}

#[derive(Clone, Copy)]
enum At<'t> {
    Struct(usize),
    Shape(&'t Shape),
}

/// A whole object of a built-in kind.
pub(crate) fn root(group: &str, kind: &str) -> Option<Typed<'static>> {
    catalogue::types(group, kind).map(of)
}

/// The metadata of any object.
pub(crate) fn metadata() -> Option<Typed<'static>> {
    catalogue::metadata().map(of)
}

fn of(types: &Types) -> Typed<'_> {
    Typed { types, at: At::Struct(types.root) }
}

impl Typed<'_> {
    pub(crate) fn holds(self) -> Holds {
        let At::Shape(shape) = self.at else { return Holds::Fields };
        match shape {
            Shape::Struct(_) | Shape::Map(_) => Holds::Fields,
            Shape::List(_) => Holds::Items,
            Shape::Text | Shape::Bytes => Holds::Text,
            Shape::Int32 | Shape::Int64 | Shape::Float => Holds::Number,
            Shape::Bool => Holds::Switch,
            Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::Any => Holds::Anything,
        }
    }

    /// The place of a field; `None` if the type has no such field.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        let number = match self.at {
            At::Struct(number) => number,
            At::Shape(Shape::Struct(number)) => *number,
            At::Shape(Shape::Map(values)) => return Some(Self { at: At::Shape(values), ..self }),
            At::Shape(_) => return None,
        };
        let field = self.types.types.get(number)?.fields.get(name)?;
        Some(Self { at: At::Shape(&field.shape), ..self })
    }

    /// The place of a list's items.
    pub(crate) fn item(self) -> Option<Self> {
        match self.at {
            At::Shape(Shape::List(items)) => Some(Self { at: At::Shape(items), ..self }),
            At::Struct(_) | At::Shape(_) => None,
        }
    }
}
