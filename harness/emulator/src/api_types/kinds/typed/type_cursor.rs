//! A cursor on one field of a built-in type.

use super::compiled_type::FieldType;
use super::{CompiledType, Kind, type_registry};
use crate::api_types::kinds::type_info::ValueKind;

/// A cursor on one field of a built-in type.
#[derive(Clone, Copy)]
pub(crate) struct TypeCursor<'t> {
    types: &'t CompiledType,
    at: Position<'t>,
}

#[derive(Clone, Copy)]
enum Position<'t> {
    Struct(usize),
    Shape(&'t FieldType),
}

/// The type of whole objects of a built-in kind.
pub(crate) fn root(kind: &Kind) -> Option<TypeCursor<'static>> {
    let Kind { kubernetes: version, resource, kind, .. } = kind;
    type_registry::compiled_type(*version, &resource.group, kind).map(at_root)
}

/// The type of the metadata of any object.
pub(crate) fn metadata() -> Option<TypeCursor<'static>> {
    type_registry::metadata().map(at_root)
}

fn at_root(types: &CompiledType) -> TypeCursor<'_> {
    TypeCursor { types, at: Position::Struct(types.root) }
}

impl TypeCursor<'_> {
    pub(crate) fn value_kind(self) -> ValueKind {
        let Position::Shape(shape) = self.at else { return ValueKind::Fields };
        match shape {
            FieldType::Struct(_) | FieldType::Map(_) => ValueKind::Fields,
            FieldType::List(_) => ValueKind::Items,
            FieldType::Text | FieldType::Bytes => ValueKind::Text,
            FieldType::Int32 | FieldType::Int64 | FieldType::Float => ValueKind::Number,
            FieldType::Bool => ValueKind::Boolean,
            FieldType::Quantity | FieldType::IntOrString | FieldType::Time(_) | FieldType::Any => {
                ValueKind::Anything
            }
        }
    }

    /// The cursor on a field; `None` if there is no such field.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        let number = match self.at {
            Position::Struct(number) => number,
            Position::Shape(FieldType::Struct(number)) => *number,
            Position::Shape(FieldType::Map(values)) => {
                return Some(Self { at: Position::Shape(values), ..self });
            }
            Position::Shape(_) => return None,
        };
        let field = self.types.structs.get(number)?.fields.get(name)?;
        Some(Self { at: Position::Shape(&field.field_type), ..self })
    }

    /// The cursor on the items of a list.
    pub(crate) fn item(self) -> Option<Self> {
        match self.at {
            Position::Shape(FieldType::List(items)) => {
                Some(Self { at: Position::Shape(items), ..self })
            }
            Position::Struct(_) | Position::Shape(_) => None,
        }
    }
}
