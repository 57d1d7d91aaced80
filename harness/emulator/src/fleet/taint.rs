//! Taints in a fleet file.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A taint of a pool, written in the fleet file as a map or as `key=value:Effect`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub(super) struct TaintText {
    pub(super) key: String,
    #[serde(default)]
    pub(super) value: String,
    pub(super) effect: TaintEffect,
}

/// The effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl fmt::Display for TaintEffect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        })
    }
}

impl<'de> Deserialize<'de> for TaintText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TaintVisitor)
    }
}

struct TaintVisitor;

impl<'de> Visitor<'de> for TaintVisitor {
    type Value = TaintText;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a taint as {key, value, effect} or key=value:Effect")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<TaintText, E> {
        let effect = |word| match word {
            "NoSchedule" => Some(TaintEffect::NoSchedule),
            "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
            "NoExecute" => Some(TaintEffect::NoExecute),
            _ => None,
        };
        let (pair, word) = text.rsplit_once(':').unwrap_or((text, ""));
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match effect(word).filter(|_| !key.is_empty()) {
            Some(effect) => Ok(TaintText { key: key.to_owned(), value: value.to_owned(), effect }),
            None => Err(E::custom(format!(
                "taints: got {text}, expected key=value:Effect with NoSchedule, \
                 PreferNoSchedule or NoExecute"
            ))),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TaintText, A::Error> {
        TaintText::deserialize(de::value::MapAccessDeserializer::new(map))
    }
}
