//! Finds the location of a field in the text of a file, for errors that are detected after parsing;
//! and duplicate keys, which typed deserialization reports at the beginning of their map or not at
//! all.
//!
//! `serde-saphyr`, which has spans and reports duplicate keys itself, does not read this file: it
//! drops the path of a field and the text of `expecting` from its messages (`invalid i32`,
//! `expected mapping start`), and accepts `schedulerName: true` as a string and `yes` as a boolean.

use std::{collections::BTreeSet, fmt};

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess as _,
};

/// A position in a file: line and column, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    line: usize,
    column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

impl Location {
    /// Location of the value of a field path such as `a.b`; if the field is missing, of the
    /// innermost existing parent.
    pub(super) fn of_field(field: &str, yaml: &str) -> Option<Self> {
        let keys: Vec<&str> = field.split('.').collect();
        let found = FieldSeed(&keys).deserialize(serde_yaml::Deserializer::from_str(yaml));
        Self::from_error(&found.err()?)
    }

    /// Location of a YAML error.
    pub(super) fn from_error(error: &serde_yaml::Error) -> Option<Self> {
        let location = error.location()?;
        Some(Self { line: location.line(), column: location.column() })
    }
}

/// Deserializes down to a field and fails there, so that the error carries the location of the
/// field.
struct FieldSeed<'k>(&'k [&'k str]);

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for FieldSeed<'_> {
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
                map.next_value_seed(FieldSeed(below))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Err(de::Error::custom("nowhere below"))
    }
}

/// Checks that no map has a duplicate key.
pub(super) fn check_unique_keys(yaml: &str) -> Result<(), serde_yaml::Error> {
    UniqueKeysSeed.deserialize(serde_yaml::Deserializer::from_str(yaml))
}

/// Deserializes any value and fails at the second occurrence of a key in a map.
struct UniqueKeysSeed;

impl<'de> DeserializeSeed<'de> for UniqueKeysSeed {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for UniqueKeysSeed {
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
        while map.next_key_seed(UniqueKeySeed(&mut known))?.is_some() {
            map.next_value_seed(Self)?;
        }
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let (IgnoredAny, value) = tagged.variant()?;
        value.newtype_variant_seed(Self)
    }
}

/// Deserializes a key and fails if the set of known keys contains it.
struct UniqueKeySeed<'k>(&'k mut BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for UniqueKeySeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl de::Visitor<'_> for UniqueKeySeed<'_> {
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
