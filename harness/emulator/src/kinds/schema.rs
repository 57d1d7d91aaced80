//! Structural schemas of custom kinds: what is dropped ([`prune`]), what is filled in
//! ([`default`]), what is refused ([`validate`], [`rules`]).

mod branches;
mod compile;
mod default;
mod embedded;
mod formats;
mod kinds;
pub(crate) mod path;
mod place;
mod prune;
mod rules;
mod said;
mod structural;
mod validate;

use std::collections::BTreeMap;

use regex::Regex;
use schedlab_json::Value;

pub use compile::compile;
pub(crate) use formats::unrecognized;

/// One place in a custom resource.
#[derive(Debug, Default)]
pub struct Schema {
    /// As it stands in the CRD.
    pub raw: Value,
    /// The rules of the whole schema, at its root.
    pub(crate) cel: Option<rules::CompiledRules>,
    pub(crate) kind: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) required: Vec<String>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) rules: Rules,
    pub(crate) list: ListType,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
    pub(crate) preserves_unknown: bool,
    pub(crate) embedded: Embedded,
}

/// `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }

    pub(crate) fn fits(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => is_whole(value),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::IntOrString => is_whole(value) || value.is_string(),
        }
    }
}

fn is_whole(value: &Value) -> bool {
    // As Go does, which counts to 2^63 and reads what is beyond as a fraction.
    let limit = 9_223_372_036_854_775_808.0;
    let is_within = |number: f64| number.fract() == 0.0 && (-limit..limit).contains(&number);
    value.is_i64() || value.as_f64().is_some_and(is_within)
}

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Unknown fields are unknown.
    #[default]
    None,
    /// Unknown fields are fine.
    Any,
    /// Unknown fields are values of a map.
    Values(Box<Schema>),
}

/// Where `x-kubernetes-embedded-resource` stands, seen from a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Embedded {
    #[default]
    Nowhere,
    Below,
    Here,
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// No rule.
    #[default]
    Atomic,
    /// No value twice.
    Set,
    /// No key twice.
    Map(Vec<String>),
}

/// Bounds on one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) allowed: Option<Vec<Value>>,
    pub(crate) minimum: Option<(f64, bool)>,
    pub(crate) maximum: Option<(f64, bool)>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) lengths: (Option<usize>, Option<usize>),
    pub(crate) items: (Option<usize>, Option<usize>),
    pub(crate) properties: (Option<usize>, Option<usize>),
    pub(crate) pattern: Option<Regex>,
    pub(crate) format: Option<String>,
}
