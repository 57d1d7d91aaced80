//! Expressions where they stand in a Karta, and what they may find.

use super::jq::{Found, Object, Program, Purse, Unreadable};
use crate::parse::Malformed;

const EXPRESSION: &str = "a jq expression of at most 4096 bytes";
const KNOWN: &str = "functions and operators of jq that this scheduler knows";
const HOLDS: &str = "an expression that holds for its kind";
const ONE: &str = "one text, number, true or false";
const COUNT: &str = "a whole number up to 2147483647";
const TEXT: &str = "a text that is not empty";

/// What is asked in a field of a Karta.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    /// With the name of the Karta.
    field: String,
    program: Program,
}

/// Of whom, and who pays.
pub(super) struct Asking<'a> {
    pub(super) of: Object,
    pub(super) purse: &'a Purse,
}

impl Asked {
    pub(super) fn read(field: String, text: &str) -> Result<Self, Malformed> {
        match Program::read(text) {
            Ok(program) => Ok(Self { field, program }),
            Err(Unreadable::NoExpression) => Err(Malformed::new(field, text, EXPRESSION)),
            Err(Unreadable::Unknown(name)) => Err(Malformed::new(field, name, KNOWN)),
        }
    }

    pub(super) fn all(&self, asking: &Asking<'_>) -> Result<Vec<Found>, Malformed> {
        let found = self.program.run(&asking.of, asking.purse);
        found.map_err(|why| Malformed::new(&self.field, why, HOLDS))
    }

    /// The only thing that it finds, which is something.
    pub(super) fn one(&self, asking: &Asking<'_>) -> Result<Found, Malformed> {
        let found = self.all(asking)?;
        match found.as_slice() {
            [Found::Null] => Err(self.wrong("nothing", ONE)),
            [Found::Text(text)] if text.is_empty() => Err(self.wrong("an empty text", ONE)),
            [one] => Ok(one.clone()),
            several => Err(self.wrong(&format!("{} values", several.len()), ONE)),
        }
    }

    /// The same, as a part of a name.
    pub(super) fn word(&self, asking: &Asking<'_>) -> Result<String, Malformed> {
        match self.one(asking)? {
            Found::Text(text) => Ok(text),
            one @ (Found::Bool(_) | Found::Whole(_) | Found::Number(_)) => Ok(one.to_string()),
            one @ (Found::Null | Found::List | Found::Map) => {
                Err(self.wrong(&one.to_string(), ONE))
            }
        }
    }

    /// Names, none of which is empty.
    pub(super) fn names(&self, asking: &Asking<'_>) -> Result<Vec<String>, Malformed> {
        let name = |found: Found| match &found {
            Found::Text(text) if !text.is_empty() => Ok(text.clone()),
            Found::Text(_)
            | Found::Null
            | Found::Bool(_)
            | Found::Whole(_)
            | Found::Number(_)
            | Found::List
            | Found::Map => Err(self.wrong(&found.to_string(), TEXT)),
        };
        self.all(asking)?.into_iter().map(name).collect()
    }

    /// Numbers of pods; `None`: there stands nothing. Labels and annotations have them as texts.
    pub(super) fn counts(&self, asking: &Asking<'_>) -> Result<Vec<Option<u32>>, Malformed> {
        let count = |found| {
            let number = match &found {
                Found::Null => return Ok(None),
                Found::Whole(number) => i32::try_from(*number).ok(),
                Found::Text(text) => text.parse().ok(),
                Found::Bool(_) | Found::Number(_) | Found::List | Found::Map => None,
            };
            // Fewer than none are none.
            let count = number.map(|number: i32| u32::try_from(number).unwrap_or(0));
            count.map(Some).ok_or_else(|| self.wrong(&found.to_string(), COUNT))
        };
        self.all(asking)?.into_iter().map(count).collect()
    }

    pub(super) fn wrong(&self, found: &str, allowed: &'static str) -> Malformed {
        Malformed::new(&self.field, found, allowed)
    }
}
