//! jq expressions over a cluster: the answers of questions and the conditions of advice are computed
//! from the learner's own cluster.

use std::fmt;

use jaq_core::data::JustLut;
use jaq_core::load::parse::Def;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars, unwrap_valr};
use jaq_json::{Val, read};

/// Maximum number of results.
const RESULTS_MAX: usize = 10_000;

/// A compiled jq expression.
pub struct Expression {
    text: String,
    filter: Filter<JustLut<Val>>,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The text is no jq expression, or uses an unknown function.
    pub fn parse(text: &str) -> Result<Self, String> {
        let standard = jaq_std::defs().filter(is_available);
        let definitions = jaq_core::defs().chain(standard).chain(jaq_json::defs());
        let functions = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
        let arena = Arena::default();
        let modules = Loader::new(definitions)
            .load(&arena, File { code: text, path: () })
            .map_err(|_| format!("got {}, expected a jq expression", one_line(text)))?;
        let filter =
            Compiler::default().with_funs(functions).compile(modules).map_err(|errors| {
                let unknown = errors.into_iter().flat_map(|(_, errors)| errors);
                let names: Vec<String> = unknown.map(|(name, _)| name.to_owned()).collect();
                format!("unknown in this jq expression: {}", names.join(", "))
            })?;
        Ok(Self { text: text.to_owned(), filter })
    }

    /// The text of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The results on a JSON text. The items of a result that is a list count as results.
    ///
    /// # Errors
    /// The input is no JSON, or the evaluation fails.
    pub fn results(&self, input: &str) -> Result<Vec<String>, String> {
        let input = read::parse_single(input.as_bytes());
        let input = input.map_err(|error| format!("the input is no JSON: {error}"))?;
        let context = Ctx::<JustLut<Val>>::new(&self.filter.lut, Vars::new([]));
        let mut found = Vec::new();
        for result in self.filter.id.run((context, input)).take(RESULTS_MAX) {
            let value = unwrap_valr(result);
            let value = value.map_err(|error| {
                let message: String = error.to_string().chars().take(200).collect();
                format!("jq: {message}")
            })?;
            match value {
                Val::Arr(items) => found.extend(items.iter().map(value_text)),
                Val::Null
                | Val::Bool(_)
                | Val::Num(_)
                | Val::BStr(_)
                | Val::TStr(_)
                | Val::Obj(_) => {
                    found.push(value_text(&value));
                }
            }
        }
        Ok(found)
    }

    /// Whether the expression yields a result that is neither false nor null.
    ///
    /// # Errors
    /// Like [`Self::results`].
    pub fn holds(&self, input: &str) -> Result<bool, String> {
        let found = self.results(input)?;
        Ok(found.iter().any(|value| value != "false" && value != "null"))
    }
}

/// Definitions of jq's library that need functions which this program does not have: output,
/// regular expressions, special numbers, dates and encodings.
const UNAVAILABLE: [&str; 27] = [
    "@base64",
    "@base64d",
    "@html",
    "@htmld",
    "@uri",
    "@urid",
    "capture",
    "debug",
    "drem",
    "fromdate",
    "gamma",
    "gsub",
    "halt",
    "halt_error",
    "logb",
    "match",
    "nexttoward",
    "pow10",
    "scalb",
    "scan",
    "scan_",
    "significand",
    "splits",
    "stderr",
    "sub",
    "test",
    "todate",
];

fn is_available(definition: &Def<&'static str>) -> bool {
    let (name, arguments) = (definition.name, definition.args.len());
    !UNAVAILABLE.contains(&name) && (name, arguments) != ("split", 2)
}

/// A value as a learner would write it: texts without quotes, whole numbers without decimals.
fn value_text(value: &Val) -> String {
    match value {
        Val::BStr(text) | Val::TStr(text) => String::from_utf8_lossy(text).into_owned(),
        Val::Num(_) => {
            let text = value.to_string();
            let whole = text.strip_suffix(".0").map(str::to_owned);
            whole.unwrap_or(text)
        }
        Val::Null | Val::Bool(_) | Val::Arr(_) | Val::Obj(_) => value.to_string(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = r#"{"pods": [{"name": "a", "gpus": 1}, {"name": "b", "gpus": 2}]}"#;

    #[test]
    fn results_are_texts_and_lists_count_as_several() {
        let results = |text: &str| Expression::parse(text).unwrap().results(CLUSTER);
        assert_eq!(results("[.pods[].name]").unwrap(), ["a", "b"]);
        assert_eq!(results(".pods | map(.gpus) | add").unwrap(), ["3"]);
        assert_eq!(results(".pods | length").unwrap(), ["2"]);
        assert_eq!(results("3.5 * 2, 16.0, 0.5").unwrap(), ["7", "16", "0.5"]);
        assert!(Expression::parse("any(.pods[]; .gpus == 2)").unwrap().holds(CLUSTER).unwrap());
        assert!(!Expression::parse("any(.pods[]; .gpus == 3)").unwrap().holds(CLUSTER).unwrap());
        assert!(results(".pods.name").unwrap_err().starts_with("jq: "));
    }

    #[test]
    fn a_text_that_is_no_expression_is_rejected() {
        let error = |text: &str| Expression::parse(text).unwrap_err();
        insta::assert_snapshot!(error(".pods["), @"got .pods[, expected a jq expression");
        insta::assert_snapshot!(error(".pods | lenght"), @"unknown in this jq expression: lenght");
    }
}
