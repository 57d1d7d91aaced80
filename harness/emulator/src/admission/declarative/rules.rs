//! The rules of `rules.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::format::Format;
use schedlab_api::Value;

/// The checks of a type.
#[derive(Debug, Default)]
pub(super) struct TypeRules {
    pub(super) checks: Vec<TypeCheck>,
    pub(super) fields: Vec<FieldRules>,
}

/// A check of a whole value.
#[derive(Debug)]
pub(super) enum TypeCheck {
    /// Exactly one of these fields is set.
    Union(Vec<&'static str>),
    /// The value is one of these texts.
    Enum(Vec<&'static str>),
}

/// The checks of a field.
#[derive(Debug)]
pub(super) struct FieldRules {
    pub(super) name: &'static str,
    /// Whether JSON writes the field even if it is unset.
    pub(super) is_always_written: bool,
    pub(super) guards: Vec<Guard>,
    pub(super) checks: Vec<ContentCheck>,
}

/// A check that stops the other checks of its field when it fails.
#[derive(Debug)]
pub(super) enum Guard {
    Required(Unset),
    /// An unset field is valid.
    Optional(Unset),
    /// The field is forbidden while this gate is off.
    Gated(&'static str),
    Immutable,
    /// The field is immutable while this gate is on.
    ImmutableIf(&'static str),
    NoSet,
    NoUnset,
    NoModify,
    NoAdd(Keys),
    NoRemove(Keys),
    MaxItems(usize),
}

/// A check of the content of a set field.
#[derive(Debug)]
pub(super) enum ContentCheck {
    Minimum(i64),
    Maximum(i64),
    MaxCharacters(usize),
    MaxBytes(usize),
    Format(Format),
    /// Items of this type have different keys.
    Unique(Keys, &'static str),
    /// Every item has this type. Items with equal keys are the old and the new state of one item.
    Each(Option<Keys>, &'static str),
    /// Every item of a list has this format.
    EachFormat(Format),
    /// Every value of a map has this type.
    EachValue(&'static str),
    /// Every key of a map has this format.
    EachKey(Format),
    Nested(&'static str),
}

/// What counts as an unset field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unset {
    Null,
    /// Also the zero value of its type.
    Zero,
    /// Also an empty list.
    NoItems,
}

/// The fields that identify an item of a list; `=` is the whole item.
#[derive(Clone, Debug)]
pub(super) struct Keys(Vec<&'static str>);

impl TypeRules {
    /// Adds the keys and the type of the items to the checks that need them.
    fn complete(&mut self) {
        self.fields.iter_mut().for_each(FieldRules::complete);
    }
}

impl FieldRules {
    /// Adds the keys and the type of the items to the checks that need them.
    fn complete(&mut self) {
        let each = self.checks.iter().find_map(|check| {
            let ContentCheck::Each(keys, type_name) = check else { return None };
            Some((keys.clone()?, *type_name))
        });
        let Some((each_keys, each_type)) = each else { return };
        for guard in &mut self.guards {
            if let Guard::NoAdd(keys) | Guard::NoRemove(keys) = guard {
                *keys = each_keys.clone();
            }
        }
        for check in &mut self.checks {
            if let ContentCheck::Unique(_, type_name) = check {
                *type_name = each_type;
            }
        }
    }

    /// The type of the field's value, and whether it is a list of them.
    pub(super) fn nested_type(&self) -> Option<(&'static str, bool)> {
        self.checks.iter().find_map(|check| match check {
            ContentCheck::Each(_, type_name) => Some((*type_name, true)),
            ContentCheck::Nested(type_name) => Some((*type_name, false)),
            ContentCheck::Minimum(_)
            | ContentCheck::Maximum(_)
            | ContentCheck::MaxCharacters(_)
            | ContentCheck::MaxBytes(_)
            | ContentCheck::Format(_)
            | ContentCheck::EachFormat(_)
            | ContentCheck::EachValue(_)
            | ContentCheck::EachKey(_)
            | ContentCheck::Unique(..) => None,
        })
    }

    /// Adds the check that a word names.
    fn add(&mut self, word: &'static str) {
        let (name, arguments) = call(word);
        let argument = arguments.first().copied().unwrap_or_default();
        let number = || argument.parse::<i64>().expect("rules.txt has a number here");
        let guard = match name {
            "required" => Guard::Required(Unset::Null),
            "required-value" => Guard::Required(Unset::Zero),
            "required-items" => Guard::Required(Unset::NoItems),
            "optional" => Guard::Optional(Unset::Null),
            "optional-value" => Guard::Optional(Unset::Zero),
            "optional-items" => Guard::Optional(Unset::NoItems),
            "gated" => Guard::Gated(argument),
            "immutable" => Guard::Immutable,
            "immutable-if" => Guard::ImmutableIf(argument),
            "no-set" => Guard::NoSet,
            "no-unset" => Guard::NoUnset,
            "no-modify" => Guard::NoModify,
            "no-add" => Guard::NoAdd(Keys(Vec::new())),
            "no-remove" => Guard::NoRemove(Keys(Vec::new())),
            "max-items" => Guard::MaxItems(to_usize(number())),
            _ => return self.checks.push(content_check(word)),
        };
        self.guards.push(guard);
    }
}

impl Unset {
    pub(super) fn matches(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Zero => {
                value.is_null() || *value == "" || *value == false || value.as_i64() == Some(0)
            }
            Self::NoItems => value.is_null() || value.as_array().is_some_and(Vec::is_empty),
        }
    }
}

impl Keys {
    pub(super) fn are_equal(&self, left: &Value, right: &Value) -> bool {
        match self.0.as_slice() {
            ["="] => left == right,
            keys => keys.iter().all(|key| left[*key] == right[*key]),
        }
    }
}

static RULES: LazyLock<BTreeMap<&'static str, TypeRules>> =
    LazyLock::new(|| parse(include_str!("rules.txt")));
static NO_RULES: TypeRules = TypeRules { checks: Vec::new(), fields: Vec::new() };

/// The rules of a type; none for a type without rules.
pub(super) fn type_rules(name: &str) -> &'static TypeRules {
    RULES.get(name).unwrap_or(&NO_RULES)
}

fn parse(text: &'static str) -> BTreeMap<&'static str, TypeRules> {
    let mut types: BTreeMap<&str, TypeRules> = BTreeMap::new();
    let mut name = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let depth = line.len() - line.trim_start().len();
        let rules = types.entry(if depth == 0 { line } else { name }).or_default();
        if depth == 0 {
            name = line;
            continue;
        }
        let mut words = line.split_whitespace();
        if depth == 2 {
            match words.next() {
                Some("*") => rules.checks.extend(words.by_ref().map(type_check)),
                Some(field) => rules.fields.push(FieldRules {
                    name: field.trim_end_matches('!'),
                    is_always_written: field.ends_with('!'),
                    guards: Vec::new(),
                    checks: Vec::new(),
                }),
                None => {}
            }
        }
        if let Some(field) = rules.fields.last_mut() {
            words.for_each(|word| field.add(word));
        }
    }
    types.values_mut().for_each(TypeRules::complete);
    types
}

/// The name and the arguments of `name(argument,argument)`.
fn call(word: &'static str) -> (&'static str, Vec<&'static str>) {
    match word.split_once('(') {
        Some((name, arguments)) => (name, arguments.trim_end_matches(')').split(',').collect()),
        None => (word, Vec::new()),
    }
}

fn type_check(word: &'static str) -> TypeCheck {
    match call(word) {
        ("union", members) => TypeCheck::Union(members),
        ("enum", values) => TypeCheck::Enum(values),
        (other, _) => unreachable!("unknown check of a type in rules.txt: {other}"),
    }
}

fn to_usize(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn content_check(word: &'static str) -> ContentCheck {
    if let Some((head, type_name)) = word.split_once(':') {
        let (name, keys) = call(head);
        let keys = (!keys.is_empty()).then_some(Keys(keys));
        return match (name, Format::named(type_name)) {
            ("each", Some(format)) => ContentCheck::EachFormat(format),
            ("each", None) => ContentCheck::Each(keys, type_name),
            ("each-key", Some(format)) => ContentCheck::EachKey(format),
            ("each-value", None) => ContentCheck::EachValue(type_name),
            _ => ContentCheck::Nested(type_name),
        };
    }
    let (name, arguments) = call(word);
    let number = || -> i64 {
        let number = arguments.first().and_then(|number| number.parse().ok());
        number.expect("rules.txt has a number here")
    };
    match name {
        "minimum" => ContentCheck::Minimum(number()),
        "maximum" => ContentCheck::Maximum(number()),
        "max-length" => ContentCheck::MaxCharacters(to_usize(number())),
        "max-bytes" => ContentCheck::MaxBytes(to_usize(number())),
        "unique" => ContentCheck::Unique(Keys(arguments), ""),
        other => match Format::named(other) {
            Some(format) => ContentCheck::Format(format),
            None => unreachable!("unknown check of a field in rules.txt: {other}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{RULES, type_rules};

    #[test]
    fn every_type_that_a_rule_names_has_rules() {
        for (name, rules) in RULES.iter() {
            for field in &rules.fields {
                let is_ruled = |(named, _)| RULES.contains_key(named);
                assert!(field.nested_type().is_none_or(is_ruled), "{name}.{}", field.name);
            }
        }
        assert_eq!(type_rules("PodGroupSpec").fields.len(), 9);
    }
}
