//! jq expressions in fields of a Karta, and the types of values that they may return.

use super::jq::{Budget, JqInput, JqValue, ParseError, Program};
use crate::parse::Malformed;

const EXPECTED_EXPRESSION: &str = "a jq expression of at most 4096 bytes";
const EXPECTED_SUPPORTED: &str = "functions and operators of jq that this scheduler supports";
const EXPECTED_NO_ERROR: &str = "an expression that evaluates without error";
const EXPECTED_SCALAR: &str = "one string, number or boolean";
const EXPECTED_COUNT: &str = "a whole number up to 2147483647";
const EXPECTED_TEXT: &str = "a non-empty string";

/// A jq expression, with the field that contains it.
#[derive(Debug, PartialEq)]
pub(super) struct Expression {
    /// Field path, with the name of the Karta.
    field: String,
    program: Program,
}

/// The input object of an evaluation, and the budget that it is charged to.
pub(super) struct EvalContext<'a> {
    pub(super) input: JqInput,
    pub(super) budget: &'a Budget,
}

impl Expression {
    pub(super) fn parse(field: String, text: &str) -> Result<Self, Malformed> {
        match Program::parse(text) {
            Ok(program) => Ok(Self { field, program }),
            Err(ParseError::Syntax) => Err(Malformed::new(field, text, EXPECTED_EXPRESSION)),
            Err(ParseError::UnknownName(name)) => {
                Err(Malformed::new(field, name, EXPECTED_SUPPORTED))
            }
        }
    }

    pub(super) fn values(&self, context: &EvalContext<'_>) -> Result<Vec<JqValue>, Malformed> {
        let found = self.program.run(&context.input, context.budget);
        found.map_err(|why| Malformed::new(&self.field, why, EXPECTED_NO_ERROR))
    }

    /// The single result of the expression, which must be neither null nor an empty string.
    pub(super) fn single_value(&self, context: &EvalContext<'_>) -> Result<JqValue, Malformed> {
        let found = self.values(context)?;
        match found.as_slice() {
            [JqValue::Null] => Err(self.malformed("nothing", EXPECTED_SCALAR)),
            [JqValue::Text(text)] if text.is_empty() => {
                Err(self.malformed("an empty string", EXPECTED_SCALAR))
            }
            [one] => Ok(one.clone()),
            several => Err(self.malformed(&format!("{} values", several.len()), EXPECTED_SCALAR)),
        }
    }

    /// The single result of the expression as text, for use in a name.
    pub(super) fn scalar_text(&self, context: &EvalContext<'_>) -> Result<String, Malformed> {
        match self.single_value(context)? {
            JqValue::Text(text) => Ok(text),
            one @ (JqValue::Bool(_) | JqValue::Whole(_) | JqValue::Number(_)) => {
                Ok(one.to_string())
            }
            one @ (JqValue::Null | JqValue::List | JqValue::Map) => {
                Err(self.malformed(&one.to_string(), EXPECTED_SCALAR))
            }
        }
    }

    /// All results of the expression, which must be non-empty strings.
    pub(super) fn names(&self, context: &EvalContext<'_>) -> Result<Vec<String>, Malformed> {
        let name = |found: JqValue| match &found {
            JqValue::Text(text) if !text.is_empty() => Ok(text.clone()),
            JqValue::Text(_)
            | JqValue::Null
            | JqValue::Bool(_)
            | JqValue::Whole(_)
            | JqValue::Number(_)
            | JqValue::List
            | JqValue::Map => Err(self.malformed(&found.to_string(), EXPECTED_TEXT)),
        };
        self.values(context)?.into_iter().map(name).collect()
    }

    /// All results of the expression as numbers of pods; `None` for null. Strings are parsed, as
    /// labels and annotations hold numbers as strings; negative numbers count as 0.
    pub(super) fn pod_counts(
        &self,
        context: &EvalContext<'_>,
    ) -> Result<Vec<Option<u32>>, Malformed> {
        let count = |found| {
            let number = match &found {
                JqValue::Null => return Ok(None),
                JqValue::Whole(number) => i32::try_from(*number).ok(),
                JqValue::Text(text) => text.parse().ok(),
                JqValue::Bool(_) | JqValue::Number(_) | JqValue::List | JqValue::Map => None,
            };
            let count = number.map(|number: i32| u32::try_from(number).unwrap_or(0));
            count.map(Some).ok_or_else(|| self.malformed(&found.to_string(), EXPECTED_COUNT))
        };
        self.values(context)?.into_iter().map(count).collect()
    }

    pub(super) fn malformed(&self, found: &str, allowed: &'static str) -> Malformed {
        Malformed::new(&self.field, found, allowed)
    }
}
