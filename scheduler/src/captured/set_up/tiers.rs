//! KAI's configuration: actions and plugins, by names.

use schedlab_json::Value;
use schedlab_scheduler_core::profile::{Action, Placement};

use super::{super::CaptureError, Fields, Learned, fields, found, is_said, items};
use crate::{
    config::{
        arguments,
        plugins::{self, Part},
    },
    parse::{Malformed, text},
};

const ACTIONS: [Action; 5] = [
    Action::Allocate,
    Action::Consolidate,
    Action::Reclaim,
    Action::Preempt,
    Action::StaleGangEviction,
];
const NAMES: &str = "allocate, consolidation, reclaim, preempt, stalegangeviction";
const DEPTH: &str = "an integer from 0";

impl Learned<'_> {
    /// In one text, as KAI writes them.
    pub(super) fn actions(&mut self, value: &Value) -> Result<(), CaptureError> {
        let allowed = "the names of actions with commas between them";
        let names =
            value.as_str().ok_or_else(|| CaptureError::form("config.actions", value, allowed))?;
        let mut actions = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            actions.extend(action(name));
            if action(name).is_none() {
                let unknown = Malformed::new("config.actions", name, NAMES);
                self.wrong(&unknown, "it is left out");
            }
        }
        if !actions.is_empty() {
            self.config.profile.actions = actions;
        }
        Ok(())
    }

    pub(super) fn depths(&mut self, all: &Fields<'_>) {
        for &(name, value) in all {
            let field = format!("config.queueDepthPerAction.{name}");
            let depth = value.as_u64().and_then(|depth| usize::try_from(depth).ok());
            match (action(name), depth) {
                (Some(action), Some(depth)) => {
                    self.config.profile.queue_depth.insert(action, depth);
                }
                (Some(_), None) => self.wrong(&found(field, value, DEPTH), "all are looked at"),
                (None, _) => {
                    let unknown = Malformed::new("config.queueDepthPerAction", name, NAMES);
                    self.wrong(&unknown, "it is left out");
                }
            }
        }
    }

    pub(super) fn tiers(&mut self, tiers: &Value) -> Result<(), CaptureError> {
        let mut listed = Vec::new();
        for (tier, at) in items(tiers, "config.tiers")?.iter().zip(0..) {
            let field = format!("config.tiers[{at}]");
            fields(tier, &field)?;
            let field = format!("{field}.plugins");
            let plugins = tier.get("plugins").unwrap_or(&Value::Null);
            for (plugin, at) in items(plugins, &field)?.iter().zip(0..) {
                listed.extend(self.plugin(plugin, &format!("{field}[{at}]"))?);
            }
        }
        if listed.is_empty() {
            return Ok(());
        }
        let off = plugins::optional().filter(|name| !listed.contains(name));
        self.config.go_without(off.map(str::to_owned).collect());
        self.config.line_up(&listed);
        Ok(())
    }

    /// Answers the name, if it is one of KAI's.
    fn plugin<'v>(
        &mut self,
        plugin: &'v Value,
        field: &str,
    ) -> Result<Option<&'v str>, CaptureError> {
        let mut name = "";
        for (key, value) in fields(plugin, field)? {
            match key.as_str() {
                "name" => name = text(plugin, "/name").unwrap_or_default(),
                "arguments" => {}
                _ if value == &Value::Bool(false) || !is_said(value) => {}
                _ => self.passed_over(&format!("{field}.{key}")),
            }
        }
        let Some(part) = plugins::part(name) else {
            let known = plugins::all();
            let found = format!("{name:?}");
            self.notes
                .push(format!("{field}.name: found {found}, allowed: {known}; it is left out"));
            return Ok(None);
        };
        if part == Part::Devices {
            self.config.profile.device_placement =
                if name == "gpuspread" { Placement::Spread } else { Placement::BinPack };
        }
        let arguments = plugin.get("arguments").filter(|arguments| is_said(arguments));
        if let Some(arguments) = arguments {
            let field = format!("{field}.arguments");
            for (key, value) in fields(arguments, &field)? {
                self.argument((name, key), value, &format!("{field}.{key}"));
            }
        }
        Ok(Some(name))
    }

    fn argument(&mut self, (plugin, key): (&str, &str), value: &Value, field: &str) {
        let Some(argument) = arguments::argument(plugin, key) else {
            return self.passed_over(field);
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !argument.give(&mut self.config.profile, &text) {
            let instead = format!("{} holds", argument.default);
            self.wrong(&found(field, value, argument.allowed), &instead);
        }
    }
}

fn action(name: &str) -> Option<Action> {
    ACTIONS.into_iter().find(|action| action.as_str() == name)
}
