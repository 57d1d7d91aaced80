//! Where a field stands in the text of a file, for errors that are found only when all of it was
//! read.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess};

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
