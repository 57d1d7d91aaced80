//! Applies the settings in a snapshot to our configuration. Settings without effect become notes.

mod flags;
mod tiers;

use schedlab_api::{Text, Value, plain_type_names};
use serde_path_to_error::Segment;

use super::SnapshotFileError;
use crate::{
    config::{Config, ConfigFile},
    parse::{Malformed, shown},
};

const EXPECTED_OBJECT: &str = "an object, as KAI writes it";
const EXPECTED_ARRAY: &str = "an array, as KAI writes it";
const EXPECTED_CONFIG_FILE: &str =
    "the content of a configuration file (docs/reference/configuration.md)";

/// The fields of a snapshot with settings of the scheduler.
#[derive(Debug, Default)]
pub(super) struct CapturedConfig {
    pub(super) configuration: Value,
    pub(super) parameters: Value,
    pub(super) schedlab: Value,
    /// Unknown top-level fields of the snapshot.
    pub(super) unknown_keys: Vec<String>,
}

/// Applies the settings of a snapshot to a configuration, and collects notes.
struct ConfigReader<'c> {
    config: &'c mut Config,
    notes: Vec<String>,
}

/// Applies the settings of a snapshot to `config`. Returns notes on settings without effect.
pub(super) fn apply_config(
    captured: CapturedConfig,
    config: &mut Config,
) -> Result<Vec<String>, SnapshotFileError> {
    let CapturedConfig { configuration, parameters, schedlab, unknown_keys } = captured;
    let mut reader = ConfigReader { config, notes: Vec::new() };
    for key in unknown_keys {
        reader.record_ignored(&key);
    }
    if is_non_null(&configuration) {
        reader.apply_configuration(&object_fields(&configuration, "config")?)?;
    }
    if is_non_null(&parameters) {
        reader.apply_flags(&object_fields(&parameters, "schedulerParams")?)?;
    }
    if is_non_null(&schedlab) {
        reader.apply_config_file(schedlab)?;
    }
    Ok(reader.notes)
}

/// Drops the settings of a configuration file that do not affect decisions.
pub(super) fn keep_decision_settings(file: &mut ConfigFile) {
    file.trace_decisions = None;
    file.usage_db_config = None;
}

impl ConfigReader<'_> {
    fn apply_configuration(&mut self, all: &ObjectFields<'_>) -> Result<(), SnapshotFileError> {
        for &(key, value) in all {
            if !is_non_null(value) {
                continue;
            }
            let field = format!("config.{key}");
            match key.to_ascii_lowercase().as_str() {
                "actions" => self.apply_actions(value)?,
                "tiers" => self.apply_tiers(value)?,
                "queuedepthperaction" => self.apply_queue_depths(&object_fields(value, &field)?),
                "usagedbconfig" => self.notes.push(format!(
                    "{field}: got a database, expected none, as a snapshot has no past usage: \
                     fair shares are computed without it"
                )),
                _ => self.record_ignored(&field),
            }
        }
        Ok(())
    }

    fn apply_config_file(&mut self, schedlab: Value) -> Result<(), SnapshotFileError> {
        let schedlab = serde_json::Value::from(schedlab);
        let mut file: ConfigFile = serde_path_to_error::deserialize(&schedlab)
            .map_err(|error| config_file_error(&schedlab, &error))?;
        keep_decision_settings(&mut file);
        file.check_bounds()?;
        file.apply(self.config)?;
        if file.usage_window.is_some() {
            self.notes.push(
                "schedlab.usageWindow: got a window, expected none, as a snapshot has no past \
                 usage: fair shares are computed without it"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Adds a note on an invalid setting, with its consequence, such as the value used instead.
    fn record_error(&mut self, malformed: &Malformed, consequence: &str) {
        self.notes.push(format!("{malformed}; {consequence}"));
    }

    fn record_ignored(&mut self, field: &str) {
        self.notes.push(format!("{field}: it has no effect"));
    }
}

type ObjectFields<'v> = [(&'v Text, &'v Value)];

/// The fields of a value that must be an object.
fn object_fields<'v>(
    value: &'v Value,
    field: &str,
) -> Result<Vec<(&'v Text, &'v Value)>, SnapshotFileError> {
    let fields = value
        .as_object()
        .ok_or_else(|| SnapshotFileError::invalid_field(field, value, EXPECTED_OBJECT))?;
    Ok(fields.iter().collect())
}

/// The items of a value that must be an array.
fn array_items<'v>(value: &'v Value, field: &str) -> Result<&'v [Value], SnapshotFileError> {
    let items = value
        .as_array()
        .ok_or_else(|| SnapshotFileError::invalid_field(field, value, EXPECTED_ARRAY))?;
    Ok(items)
}

/// The error in the settings under `schedlab`, with its field path in the snapshot.
fn config_file_error(
    schedlab: &serde_json::Value,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> SnapshotFileError {
    let mut found = Some(schedlab);
    let mut field = "schedlab".to_owned();
    for segment in error.path() {
        match segment {
            Segment::Map { key } => {
                found = found.and_then(|found| found.get(key));
                field = format!("{field}.{key}");
            }
            Segment::Seq { index } => {
                found = found.and_then(|found| found.get(index));
                field = format!("{field}[{index}]");
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let message = plain_type_names(&error.inner().to_string());
    let (what, allowed) =
        message.rsplit_once(", expected ").unwrap_or((&message, EXPECTED_CONFIG_FILE));
    let is_value = what.starts_with("invalid ");
    let found = found.filter(|_| is_value).map_or_else(|| what.to_owned(), ToString::to_string);
    let Malformed { field, found, .. } = Malformed::new(field, found, EXPECTED_CONFIG_FILE);
    SnapshotFileError::InvalidField { field, found, allowed: allowed.to_owned().into() }
}

/// Whether a value is set: Go writes empty values as null.
fn is_non_null(value: &Value) -> bool {
    !value.is_null()
}

fn malformed(field: impl Into<String>, value: &Value, allowed: &'static str) -> Malformed {
    Malformed::new(field, shown(value), allowed)
}

#[cfg(test)]
mod tests;
