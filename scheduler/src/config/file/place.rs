//! Where a field stands in the text of a file, for errors that are found only when all of it was
//! read; and keys that stand twice, which the reader of a type tells at the beginning of their map,
//! or not at all.

use std::{collections::BTreeSet, fmt};

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess as _,
};

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    line: usize,
    column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

impl Place {
    /// Of the value of a field, as `a.b`; where it does not stand, of what it should stand in.
    pub(super) fn of(field: &str, yaml: &str) -> Option<Self> {
        let keys: Vec<&str> = field.split('.').collect();
        let found = Sought(&keys).deserialize(serde_yaml::Deserializer::from_str(yaml));
        Self::of_error(&found.err()?)
    }

    /// Of what an error is about.
    pub(super) fn of_error(error: &serde_yaml::Error) -> Option<Self> {
        let place = error.location()?;
        Some(Self { line: place.line(), column: place.column() })
    }
}

/// Reads down to a value, and refuses it: the error knows its place.
struct Sought<'k>(&'k [&'k str]);

impl<'de> DeserializeSeed<'de> for Sought<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for Sought<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something else")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((key, below)) = self.0.split_first() else {
            return Err(de::Error::custom("here"));
        };
        while let Some(found) = map.next_key::<String>()? {
            if found == *key {
                map.next_value_seed(Sought(below))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Err(de::Error::custom("nowhere below"))
    }
}

/// Every key of every map stands there once.
pub(super) fn each_key_once(yaml: &str) -> Result<(), serde_yaml::Error> {
    EachOnce.deserialize(serde_yaml::Deserializer::from_str(yaml))
}

/// Reads all there is, and refuses a key that was there before: the error knows its place.
struct EachOnce;

impl<'de> DeserializeSeed<'de> for EachOnce {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for EachOnce {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i128<E>(self, _: i128) -> Result<(), E> {
        Ok(())
    }

    fn visit_u128<E>(self, _: u128) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut known = BTreeSet::new();
        while map.next_key_seed(NewKey(&mut known))?.is_some() {
            map.next_value_seed(Self)?;
        }
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let (IgnoredAny, value) = tagged.variant()?;
        value.newtype_variant_seed(Self)
    }
}

/// A key that is not among those before it.
struct NewKey<'k>(&'k mut BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for NewKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl de::Visitor<'_> for NewKey<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<(), E> {
        if self.0.insert(key.to_owned()) {
            return Ok(());
        }
        Err(E::custom(format_args!("duplicate field `{key}`")))
    }
}
