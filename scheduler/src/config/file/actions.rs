//! What a cycle does: a list, in order, or settings by KAI's names, as its `SchedulingShard` has them.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use schedlab_scheduler_core::profile::Action;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value},
};

/// KAI's actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionName {
    /// Places what waits on free room.
    Allocate,
    /// Moves running work together.
    Consolidation,
    /// Takes back what other queues borrowed.
    Reclaim,
    /// Higher priority first, inside a queue.
    Preempt,
    /// Evicts what is left of gangs below their minimum.
    StaleGangEviction,
}

/// How an action is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionSetting {
    /// Whether it is done [default: true].
    pub enabled: Option<bool>,
    /// The action with the higher one comes first [default: 500, 400, 300, 200 and 100, in the order of
    /// their names here].
    pub priority: Option<i32>,
}

/// What a cycle does.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Actions {
    /// These, in this order.
    Listed(Vec<ActionName>),
    /// All but those that are switched off, by priority.
    Set(BTreeMap<ActionName, ActionSetting>),
}

const ALL: [ActionName; 5] = [
    ActionName::Allocate,
    ActionName::Consolidation,
    ActionName::Reclaim,
    ActionName::Preempt,
    ActionName::StaleGangEviction,
];

impl Actions {
    /// What of the list cannot be meant.
    pub(super) fn misfit(&self) -> Option<String> {
        let Self::Listed(list) = self else { return None };
        if list.is_empty() {
            return Some("none".to_owned());
        }
        let twice = list.iter().enumerate().find(|(at, name)| list[..*at].contains(name));
        twice.map(|(_, name)| format!("{name:?} twice").to_lowercase())
    }

    /// In the order in which they are done.
    pub(super) fn of_core(&self) -> Vec<Action> {
        let named = |names: &[ActionName]| names.iter().map(|name| name.of_core()).collect();
        let settings = match self {
            Self::Listed(list) => return named(list),
            Self::Set(settings) => settings,
        };
        let of = |name: &ActionName| settings.get(name).copied().unwrap_or_default();
        let mut done: Vec<ActionName> =
            ALL.into_iter().filter(|name| of(name).enabled != Some(false)).collect();
        done.sort_by_key(|name| Reverse(of(name).priority.unwrap_or(name.priority())));
        named(&done)
    }
}

impl ActionName {
    const fn of_core(self) -> Action {
        match self {
            Self::Allocate => Action::Allocate,
            Self::Consolidation => Action::Consolidate,
            Self::Reclaim => Action::Reclaim,
            Self::Preempt => Action::Preempt,
            Self::StaleGangEviction => Action::StaleGangEviction,
        }
    }

    /// What KAI's operator gives it.
    const fn priority(self) -> i32 {
        match self {
            Self::Allocate => 500,
            Self::Consolidation => 400,
            Self::Reclaim => 300,
            Self::Preempt => 200,
            Self::StaleGangEviction => 100,
        }
    }
}

impl<'de> Deserialize<'de> for Actions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Actions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of actions, or settings by their names")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Actions, A::Error> {
                let names = Vec::deserialize(value::SeqAccessDeserializer::new(list));
                names.map(Actions::Listed)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Actions, A::Error> {
                let settings = BTreeMap::deserialize(value::MapAccessDeserializer::new(map));
                settings.map(Actions::Set)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
