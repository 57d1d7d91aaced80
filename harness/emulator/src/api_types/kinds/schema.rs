//! Structural schemas of custom kinds: pruning ([`prune`]), defaulting ([`default`]), and
//! validation ([`validate`], [`rule_evaluation`]).

mod branches;
mod cel_cost;
mod cel_rules;
mod cel_sizes;
mod cel_types;
mod compile;
mod declaration;
mod default;
mod embedded;
mod field_path;
mod formats;
pub(crate) mod path;
mod prune;
pub(crate) mod rule_evaluation;
mod rule_shape;
mod structural;
mod validate;

use std::collections::BTreeMap;

use regex::Regex;
use schedlab_api::Value;

pub use compile::compile_schema;
pub(crate) use formats::unrecognized_formats;

/// The compiled schema of one field of a custom resource.
#[derive(Debug, Default)]
pub struct Schema {
    /// The schema as written in the CRD.
    pub raw: Value,
    /// The CEL rules of the whole schema; set at the root only.
    pub(crate) cel: Option<rule_evaluation::CompiledRules>,
    pub(crate) kind: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) required: Vec<String>,
    pub(crate) additional: AdditionalProperties,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) constraints: Constraints,
    pub(crate) list_type: ListType,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
    pub(crate) preserves_unknown: bool,
    pub(crate) embedded: Embedded,
}

/// The values of the keyword `type`.
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

    pub(crate) fn is_type_of(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => is_whole_number(value),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::IntOrString => is_whole_number(value) || value.is_string(),
        }
    }
}

fn is_whole_number(value: &Value) -> bool {
    // Like Go: integers go up to 2^63, greater numbers are floats.
    let limit = 9_223_372_036_854_775_808.0;
    let is_within = |number: f64| number.fract() == 0.0 && (-limit..limit).contains(&number);
    value.is_i64() || value.as_f64().is_some_and(is_within)
}

/// What the schema says about unknown fields: `additionalProperties` and
/// `x-kubernetes-preserve-unknown-fields`.
#[derive(Debug, Default)]
pub(crate) enum AdditionalProperties {
    /// Fields that the schema does not declare are pruned.
    #[default]
    None,
    /// Fields that the schema does not declare are kept.
    Any,
    /// Fields that the schema does not declare are entries of a map; their values have this schema.
    Values(Box<Schema>),
}

/// Whether a field is an embedded resource (`x-kubernetes-embedded-resource`) or contains one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Embedded {
    #[default]
    Nowhere,
    Below,
    Here,
}

/// The values of `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// A list that changes as a whole.
    #[default]
    Atomic,
    /// A list with unique values.
    Set,
    /// A list of objects that are unique by these keys.
    Map(Vec<String>),
}

/// The constraints on the value of one field.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constraints {
    pub(crate) enum_values: Option<Vec<Value>>,
    pub(crate) minimum: Option<(f64, bool)>,
    pub(crate) maximum: Option<(f64, bool)>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) lengths: (Option<usize>, Option<usize>),
    pub(crate) items: (Option<usize>, Option<usize>),
    pub(crate) properties: (Option<usize>, Option<usize>),
    pub(crate) pattern: Option<Regex>,
    pub(crate) format: Option<String>,
}
