//! Serializer from serde's data model to [`Value`], with the semantics of `serde_json`.

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use super::{Map, Number, Text, Value};

/// Converts a serializable value.
///
/// # Errors
/// A map has keys that are no strings, or serialization fails, as in `serde_json::to_value`.
pub fn to_value<T: Serialize + ?Sized>(source: &T) -> serde_json::Result<Value> {
    source.serialize(ValueSerializer)
}

/// Serializes any serializable value to a [`Value`].
struct ValueSerializer;

/// Collects the items of an array. The items of an enum variant are put into an object, under the
/// variant's name.
struct ListSerializer {
    variant: Option<&'static str>,
    items: Vec<Value>,
}

/// Collects the fields of an object. The fields of an enum variant are put into an object, under
/// the variant's name.
struct MapSerializer {
    variant: Option<&'static str>,
    map: Map,
    key: Option<Text>,
}

/// The value; that of an enum variant in an object, under the variant's name.
fn wrap_in_variant(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        Some(variant) => [(variant, value)].into_iter().collect(),
        None => value,
    }
}

fn list_serializer(variant: Option<&'static str>, len: Option<usize>) -> ListSerializer {
    ListSerializer { variant, items: Vec::with_capacity(len.unwrap_or(0)) }
}

fn map_serializer(variant: Option<&'static str>) -> MapSerializer {
    MapSerializer { variant, map: Map::new(), key: None }
}

/// A serialized map key as string; numbers and booleans are formatted.
fn key_text(key: &(impl Serialize + ?Sized)) -> Result<Text, Error> {
    match to_value(key)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string().into()),
        Value::Bool(is) => Ok(is.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(Error::custom("key must be a string"))
        }
    }
}

impl ListSerializer {
    fn push(&mut self, item: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.items.push(to_value(item)?);
        Ok(())
    }

    fn done(self) -> Value {
        wrap_in_variant(self.variant, Value::Array(self.items))
    }
}

impl MapSerializer {
    fn set(&mut self, key: &'static str, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.map.insert(key, to_value(value)?);
        Ok(())
    }

    fn done(self) -> Value {
        wrap_in_variant(self.variant, Value::Object(self.map))
    }
}

macro_rules! whole_numbers {
    ($($method:ident($number:ty))*) => {$(
        fn $method(self, number: $number) -> Result<Value, Error> {
            Ok(Value::Number(number.into()))
        }
    )*};
}

impl Serializer for ValueSerializer {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = ListSerializer;
    type SerializeTuple = ListSerializer;
    type SerializeTupleStruct = ListSerializer;
    type SerializeTupleVariant = ListSerializer;
    type SerializeMap = MapSerializer;
    type SerializeStruct = MapSerializer;
    type SerializeStructVariant = MapSerializer;

    whole_numbers! {
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
    }

    fn serialize_i128(self, number: i128) -> Result<Value, Error> {
        let number = Number::from_i128(number);
        number.map(Value::Number).ok_or_else(|| Error::custom("number out of range"))
    }

    fn serialize_u128(self, number: u128) -> Result<Value, Error> {
        let number = Number::from_u128(number);
        number.map(Value::Number).ok_or_else(|| Error::custom("number out of range"))
    }

    fn serialize_f32(self, number: f32) -> Result<Value, Error> {
        Ok(f64::from(number).into())
    }

    fn serialize_f64(self, number: f64) -> Result<Value, Error> {
        Ok(number.into())
    }

    fn serialize_bool(self, is: bool) -> Result<Value, Error> {
        Ok(is.into())
    }

    fn serialize_char(self, letter: char) -> Result<Value, Error> {
        Ok(Value::String(Text::from_iter([letter])))
    }

    fn serialize_str(self, text: &str) -> Result<Value, Error> {
        Ok(text.into())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Value, Error> {
        Ok(bytes.into())
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        to_value(value)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Value, Error> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        to_value(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(wrap_in_variant(Some(variant), to_value(value)?))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<ListSerializer, Error> {
        Ok(list_serializer(None, len))
    }

    fn serialize_tuple(self, len: usize) -> Result<ListSerializer, Error> {
        Ok(list_serializer(None, Some(len)))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<ListSerializer, Error> {
        Ok(list_serializer(None, Some(len)))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<ListSerializer, Error> {
        Ok(list_serializer(Some(variant), Some(len)))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<MapSerializer, Error> {
        Ok(map_serializer(None))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<MapSerializer, Error> {
        Ok(map_serializer(None))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<MapSerializer, Error> {
        Ok(map_serializer(Some(variant)))
    }
}

macro_rules! lists {
    ($($kind:ident $method:ident),*) => {$(
        impl $kind for ListSerializer {
            type Ok = Value;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
                self.push(item)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(self.done())
            }
        }
    )*};
}

lists!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

macro_rules! structs {
    ($($kind:ident),*) => {$(
        impl $kind for MapSerializer {
            type Ok = Value;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.set(key, value)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(self.done())
            }
        }
    )*};
}

structs!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for MapSerializer {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(key_text(key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key =
            self.key.take().ok_or_else(|| Error::custom("a map value without a key before it"))?;
        self.map.insert(key, to_value(value)?);
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.done())
    }
}
