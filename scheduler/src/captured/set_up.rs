//! What a snapshot says of its scheduler, as far as one of ours decides by it; the rest is noted.

mod flags;
mod tiers;

use schedlab_json::{Text, Value, types_in_words};
use serde_path_to_error::Segment;

use super::CaptureError;
use crate::{
    config::{Config, ConfigFile},
    parse::{Malformed, shown},
};

const OBJECT: &str = "an object, as KAI writes it";
const ARRAY: &str = "an array, as KAI writes it";
const FILE: &str = "what stands in a configuration file (docs/reference/configuration.md)";

/// The parts of a snapshot that speak of its scheduler.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) configuration: Value,
    pub(super) parameters: Value,
    pub(super) ours: Value,
    /// Keys of the snapshot that nobody knows.
    pub(super) strange: Vec<String>,
}

/// A scheduler's set-up while it is read.
struct Learned<'c> {
    config: &'c mut Config,
    notes: Vec<String>,
}

/// `config` becomes that of the snapshot's scheduler. Answers what it does not do.
pub(super) fn learn(said: Said, config: &mut Config) -> Result<Vec<String>, CaptureError> {
    let Said { configuration, parameters, ours, strange } = said;
    let mut learned = Learned { config, notes: Vec::new() };
    for key in strange {
        learned.passed_over(&key);
    }
    if is_said(&configuration) {
        learned.configuration(&fields(&configuration, "config")?)?;
    }
    if is_said(&parameters) {
        learned.flags(&fields(&parameters, "schedulerParams")?)?;
    }
    if is_said(&ours) {
        learned.ours(ours)?;
    }
    Ok(learned.notes)
}

/// Of a file with which a snapshot is read, or that stands in it, what decides is left.
pub(super) fn only_decide(file: &mut ConfigFile) {
    file.trace_decisions = None;
    file.usage_db_config = None;
}

impl Learned<'_> {
    fn configuration(&mut self, all: &Fields<'_>) -> Result<(), CaptureError> {
        for &(key, value) in all {
            if !is_said(value) {
                continue;
            }
            let field = format!("config.{key}");
            match key.to_ascii_lowercase().as_str() {
                "actions" => self.actions(value)?,
                "tiers" => self.tiers(value)?,
                "queuedepthperaction" => self.depths(&fields(value, &field)?),
                "usagedbconfig" => self.notes.push(format!(
                    "{field}: found a database, allowed: none, as a snapshot has no past usage: \
                     shares are divided as if there had been none"
                )),
                _ => self.passed_over(&field),
            }
        }
        Ok(())
    }

    fn ours(&mut self, ours: Value) -> Result<(), CaptureError> {
        let ours = serde_json::Value::from(ours);
        let mut file: ConfigFile =
            serde_path_to_error::deserialize(&ours).map_err(|error| misread(&ours, &error))?;
        only_decide(&mut file);
        file.stays_in_bounds()?;
        file.apply(self.config)?;
        if file.usage_window.is_some() {
            self.notes.push(
                "schedlab.usageWindow: found a window, allowed: none, as a snapshot has no past \
                 usage: shares are divided as if there had been none"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// What cannot be used, and what is done instead.
    fn wrong(&mut self, malformed: &Malformed, instead: &str) {
        self.notes.push(format!("{malformed}; {instead}"));
    }

    fn passed_over(&mut self, field: &str) {
        self.notes.push(format!("{field}: nothing here goes by it"));
    }
}

type Fields<'v> = [(&'v Text, &'v Value)];

/// The fields of what must be an object.
fn fields<'v>(value: &'v Value, field: &str) -> Result<Vec<(&'v Text, &'v Value)>, CaptureError> {
    let fields = value.as_object().ok_or_else(|| CaptureError::form(field, value, OBJECT))?;
    Ok(fields.iter().collect())
}

/// The items of what must be an array.
fn items<'v>(value: &'v Value, field: &str) -> Result<&'v [Value], CaptureError> {
    let items = value.as_array().ok_or_else(|| CaptureError::form(field, value, ARRAY))?;
    Ok(items)
}

/// What is wrong with our own words.
fn misread(
    ours: &serde_json::Value,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> CaptureError {
    let mut found = Some(ours);
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
    let told = types_in_words(&error.inner().to_string());
    let (what, allowed) = told.rsplit_once(", expected ").unwrap_or((&told, FILE));
    let is_value = what.starts_with("invalid ");
    let found = found.filter(|_| is_value).map_or_else(|| what.to_owned(), ToString::to_string);
    let Malformed { field, found, .. } = Malformed::new(field, found, FILE);
    CaptureError::Form { field, found, allowed: allowed.to_owned().into() }
}

/// Go writes what is empty as null.
fn is_said(value: &Value) -> bool {
    !value.is_null()
}

fn found(field: impl Into<String>, value: &Value, allowed: &'static str) -> Malformed {
    Malformed::new(field, shown(value), allowed)
}

#[cfg(test)]
mod tests;
