//! The protobuf messages of the built-in kinds, parsed from `types.txt`.

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

/// A message's fields by number.
pub(super) type Message = BTreeMap<u64, FieldType>;

/// The type of a field.
#[derive(Debug)]
pub(super) struct FieldType {
    pub(super) placement: JsonPlacement,
    pub(super) value_type: Type,
    /// JSON includes the field even if it is zero.
    pub(super) keeps_zero: bool,
}

/// The place of a field in JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JsonPlacement {
    /// A field with this name.
    Named(&'static str),
    /// The field's own fields replace it.
    Inline,
    /// The field represents the whole message.
    WholeMessage,
}

/// The type of a field's value.
#[derive(Debug)]
pub(super) enum Type {
    String,
    Bool,
    Integer,
    Double,
    Bytes,
    Time(TimePrecision),
    Quantity,
    IntOrString,
    /// JSON in bytes.
    Raw,
    Message(&'static str),
    List(Box<Type>),
    Map(Box<Type>),
}

/// The precision of a time in JSON.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimePrecision {
    /// `metav1.Time`: whole seconds.
    Seconds,
    /// `metav1.MicroTime`: six fractional digits.
    Micros,
}

impl TimePrecision {
    /// Formats a time in UTC, cut to the precision.
    pub(super) fn format(self, time: Timestamp) -> String {
        let digits = match self {
            Self::Seconds => 0,
            Self::Micros => 6,
        };
        DateTimePrinter::new().precision(Some(digits)).timestamp_to_string(&time)
    }
}

static MESSAGES: LazyLock<BTreeMap<&str, Message>> = LazyLock::new(|| {
    let mut messages = BTreeMap::new();
    let mut name = "";
    for line in include_str!("types.txt").lines() {
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        match line.strip_prefix("  ") {
            None => {
                name = line;
                messages.insert(name, Message::new());
            }
            Some(fields) => {
                let message: &mut Message = messages.entry(name).or_default();
                message.extend(fields.split(' ').map(field));
            }
        }
    }
    messages
});

/// The fields of a message.
pub(super) fn message(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name)
}

/// The message name of a kind, such as `core.Pod`.
pub(super) fn message_name(api_version: &str, kind: &str) -> Option<&'static str> {
    if matches!(kind, "DeleteOptions" | "Status") {
        return MESSAGES.get_key_value(&*format!("meta.{kind}")).map(|(name, _)| *name);
    }
    let package = match api_version.split_once('/') {
        None if api_version == "v1" => "core",
        Some(("autoscaling", "v2")) => "autoscaling2",
        Some(("scheduling.k8s.io", "v1beta1")) => "scheduling1beta1",
        Some(("scheduling.k8s.io", "v1alpha3")) => "scheduling3",
        Some((group, "v1")) => group.split('.').next()?,
        None | Some(_) => return None,
    };
    MESSAGES.get_key_value(&*format!("{package}.{kind}")).map(|(name, _)| *name)
}

fn field(text: &'static str) -> (u64, FieldType) {
    let mut parts = text.splitn(3, ':');
    let mut part = || parts.next().unwrap_or_default();
    let number = part().parse().unwrap_or(0);
    let placement = match part() {
        "-" => JsonPlacement::Inline,
        "=" => JsonPlacement::WholeMessage,
        name => JsonPlacement::Named(name),
    };
    let of = part();
    let keeps_zero = of.ends_with('!');
    (number, FieldType { placement, value_type: type_of(of.trim_end_matches('!')), keeps_zero })
}

fn type_of(text: &'static str) -> Type {
    if let Some(of) = text.strip_prefix("[]") {
        return Type::List(Box::new(type_of(of)));
    }
    if let Some(of) = text.strip_prefix("{}") {
        return Type::Map(Box::new(type_of(of)));
    }
    match text {
        "s" => Type::String,
        "b" => Type::Bool,
        "i" => Type::Integer,
        "d" => Type::Double,
        "y" => Type::Bytes,
        "Time" => Type::Time(TimePrecision::Seconds),
        "MicroTime" => Type::Time(TimePrecision::Micros),
        "Quantity" => Type::Quantity,
        "IntOrString" => Type::IntOrString,
        "Raw" => Type::Raw,
        message => Type::Message(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner(of: &Type) -> Option<&'static str> {
        if let Type::List(of) | Type::Map(of) = of {
            return inner(of);
        }
        if let Type::Message(name) = of { Some(name) } else { None }
    }

    #[test]
    fn every_message_that_a_field_names_is_there() {
        for (name, message) in MESSAGES.iter() {
            for (number, field) in message {
                assert_ne!(*number, 0, "{name} {field:?}");
                let inner = inner(&field.value_type);
                assert!(inner.is_none_or(|inner| MESSAGES.contains_key(inner)), "{name} {field:?}");
            }
        }
    }
}
