//! Actions of a cycle: an ordered list, or settings by name as in KAI's `SchedulingShard`.

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
    /// Places pending jobs on free capacity.
    Allocate,
    /// Moves running jobs together to make room for a pending one.
    Consolidation,
    /// Evicts jobs of queues above their fair share for queues below it.
    Reclaim,
    /// Evicts jobs for jobs of higher priority in the same queue.
    Preempt,
    /// Evicts the remaining pods of gangs that are below their minimum.
    StaleGangEviction,
}

/// Settings of an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionSetting {
    /// Whether the action runs [default: true].
    pub enabled: Option<bool>,
    /// Actions with higher priority run first [default: 500, 400, 300, 200 and 100, in the order
    /// listed here].
    pub priority: Option<i32>,
}

/// Actions of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Actions {
    /// These actions in this order.
    List(Vec<ActionName>),
    /// All enabled actions, by priority.
    Settings(BTreeMap<ActionName, ActionSetting>),
}

const ALL: [ActionName; 5] = [
    ActionName::Allocate,
    ActionName::Consolidation,
    ActionName::Reclaim,
    ActionName::Preempt,
    ActionName::StaleGangEviction,
];

impl Actions {
    /// What is wrong with the list of actions; `None`: the list is valid.
    pub(super) fn list_error(&self) -> Option<String> {
        let Self::List(list) = self else { return None };
        if list.is_empty() {
            return Some("none".to_owned());
        }
        let twice = list.iter().enumerate().find(|(at, name)| list[..*at].contains(name));
        twice.map(|(_, name)| format!("{name:?} twice").to_lowercase())
    }

    /// The actions in execution order.
    pub(super) fn to_core_actions(&self) -> Vec<Action> {
        let to_core =
            |names: &[ActionName]| names.iter().map(|name| name.to_core_actions()).collect();
        let settings = match self {
            Self::List(list) => return to_core(list),
            Self::Settings(settings) => settings,
        };
        let of = |name: &ActionName| settings.get(name).copied().unwrap_or_default();
        let mut enabled: Vec<ActionName> =
            ALL.into_iter().filter(|name| of(name).enabled != Some(false)).collect();
        enabled.sort_by_key(|name| Reverse(of(name).priority.unwrap_or(name.default_priority())));
        to_core(&enabled)
    }
}

impl ActionName {
    const fn to_core_actions(self) -> Action {
        match self {
            Self::Allocate => Action::Allocate,
            Self::Consolidation => Action::Consolidate,
            Self::Reclaim => Action::Reclaim,
            Self::Preempt => Action::Preempt,
            Self::StaleGangEviction => Action::StaleGangEviction,
        }
    }

    /// Default priority of the action, as in KAI's operator.
    const fn default_priority(self) -> i32 {
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
        struct ActionsVisitor;
        impl<'de> Visitor<'de> for ActionsVisitor {
            type Value = Actions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of actions, or settings by name")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Actions, A::Error> {
                let names = Vec::deserialize(value::SeqAccessDeserializer::new(list));
                names.map(Actions::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Actions, A::Error> {
                let settings = BTreeMap::deserialize(value::MapAccessDeserializer::new(map));
                settings.map(Actions::Settings)
            }
        }
        deserializer.deserialize_any(ActionsVisitor)
    }
}
