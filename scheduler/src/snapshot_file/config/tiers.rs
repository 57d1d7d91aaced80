//! KAI's configuration: actions and plugins.

use schedlab_api::Value;
use schedlab_scheduler_core::profile::{Action, Placement};

use super::{
    super::SnapshotFileError, ConfigReader, ObjectFields, array_items, is_non_null, malformed,
    object_fields,
};
use crate::{
    config::{
        arguments,
        plugins::{self, PluginRole},
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
const EXPECTED_ACTIONS: &str = "allocate, consolidation, reclaim, preempt, stalegangeviction";
const EXPECTED_DEPTH: &str = "an integer from 0";

impl ConfigReader<'_> {
    /// Applies the actions: a string of comma-separated names, as in KAI.
    pub(super) fn apply_actions(&mut self, value: &Value) -> Result<(), SnapshotFileError> {
        let allowed = "the names of actions with commas between them";
        let names = value
            .as_str()
            .ok_or_else(|| SnapshotFileError::invalid_field("config.actions", value, allowed))?;
        let mut actions = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            actions.extend(find_action(name));
            if find_action(name).is_none() {
                let unknown = Malformed::new("config.actions", name, EXPECTED_ACTIONS);
                self.record_error(&unknown, "it is ignored");
            }
        }
        if !actions.is_empty() {
            self.config.profile.actions = actions;
        }
        Ok(())
    }

    pub(super) fn apply_queue_depths(&mut self, all: &ObjectFields<'_>) {
        for &(name, value) in all {
            let field = format!("config.queueDepthPerAction.{name}");
            let depth = value.as_u64().and_then(|depth| usize::try_from(depth).ok());
            match (find_action(name), depth) {
                (Some(action), Some(depth)) => {
                    self.config.profile.queue_depth.insert(action, depth);
                }
                (Some(_), None) => {
                    self.record_error(
                        &malformed(field, value, EXPECTED_DEPTH),
                        "the depth is unlimited",
                    );
                }
                (None, _) => {
                    let unknown =
                        Malformed::new("config.queueDepthPerAction", name, EXPECTED_ACTIONS);
                    self.record_error(&unknown, "it is ignored");
                }
            }
        }
    }

    pub(super) fn apply_tiers(&mut self, tiers: &Value) -> Result<(), SnapshotFileError> {
        let mut listed = Vec::new();
        for (tier, at) in array_items(tiers, "config.tiers")?.iter().zip(0..) {
            let field = format!("config.tiers[{at}]");
            object_fields(tier, &field)?;
            let field = format!("{field}.plugins");
            let plugins = tier.get("plugins").unwrap_or(&Value::Null);
            for (plugin, at) in array_items(plugins, &field)?.iter().zip(0..) {
                listed.extend(self.apply_plugin(plugin, &format!("{field}[{at}]"))?);
            }
        }
        if listed.is_empty() {
            return Ok(());
        }
        let off = plugins::optional_plugin_names().filter(|name| !listed.contains(name));
        self.config.disable_plugins(off.map(str::to_owned).collect());
        self.config.set_plugin_order(&listed);
        Ok(())
    }

    /// Applies a plugin of a tier. Returns its name if KAI has such a plugin.
    fn apply_plugin<'v>(
        &mut self,
        plugin: &'v Value,
        field: &str,
    ) -> Result<Option<&'v str>, SnapshotFileError> {
        let mut name = "";
        for (key, value) in object_fields(plugin, field)? {
            match key.as_str() {
                "name" => name = text(plugin, "/name").unwrap_or_default(),
                "arguments" => {}
                _ if value == &Value::Bool(false) || !is_non_null(value) => {}
                _ => self.record_ignored(&format!("{field}.{key}")),
            }
        }
        let Some(part) = plugins::plugin_role(name) else {
            let known = plugins::all_plugin_names();
            let found = format!("{name:?}");
            self.notes.push(format!("{field}.name: got {found}, expected {known}; it is ignored"));
            return Ok(None);
        };
        if part == PluginRole::DeviceOrder {
            self.config.profile.device_placement =
                if name == "gpuspread" { Placement::Spread } else { Placement::BinPack };
        }
        let arguments = plugin.get("arguments").filter(|arguments| is_non_null(arguments));
        if let Some(arguments) = arguments {
            let field = format!("{field}.arguments");
            for (key, value) in object_fields(arguments, &field)? {
                self.apply_argument(name, key, value, &format!("{field}.{key}"));
            }
        }
        Ok(Some(name))
    }

    fn apply_argument(&mut self, plugin: &str, key: &str, value: &Value, field: &str) {
        let Some(argument) = arguments::find_argument(plugin, key) else {
            return self.record_ignored(field);
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !argument.apply(&mut self.config.profile, &text) {
            let instead = format!("{} is used", argument.default);
            self.record_error(&malformed(field, value, argument.allowed), &instead);
        }
    }
}

fn find_action(name: &str) -> Option<Action> {
    ACTIONS.into_iter().find(|action| action.as_str() == name)
}
