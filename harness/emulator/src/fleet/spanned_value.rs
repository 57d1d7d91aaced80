//! Values of a fleet file with their text and location, for error messages.

use std::collections::BTreeMap;
use std::fmt;

use schedlab_api::quantity::{self, Milli};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde_path_to_error::Track;
use serde_saphyr::{Location, SnippetMode, Spanned, UserMessageFormatter};

use super::{FleetError, FleetLocation};
use crate::api_types::kubelet_timing::parse_duration;

/// A number or string of a fleet file, as it is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scalar(pub(super) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Scalar, E> {
        Ok(Scalar(truth.to_string()))
    }
}

/// Parses YAML of a fleet file. Errors name the field.
pub(super) fn parse_yaml<T: DeserializeOwned>(
    file: FleetFile,
    text: &str,
) -> Result<T, FleetError> {
    let mut track = Track::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        T::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track))
    });
    read.map_err(|error| {
        let wrong = parse_error(file, &error);
        let path = track.path().to_string();
        let field = if path == "." { "fleet".to_owned() } else { field_name(&path) };
        let message = error_message(&field, &wrong.message, || text_at_error(text, &wrong));
        FleetError { message, ..wrong }
    })
}

/// The name of a field in a pool, from its path in the deserialized types.
fn field_name(path: &str) -> String {
    let pool = path.strip_prefix("pools.value").unwrap_or(path);
    let inner = pool.split_once(']').filter(|_| pool.starts_with('[')).map_or(pool, |(_, it)| it);
    let inner = inner.strip_prefix('.').unwrap_or(inner);
    // A spanned value adds `value` to the path; a taint also has a field of this name.
    if let Some((taint, rest)) = inner.split_once(']').filter(|_| inner.starts_with("taints[")) {
        return format!("{taint}]{}", rest.strip_prefix(".value").unwrap_or(rest));
    }
    if let Some(rest) = inner.strip_prefix("names.value[") {
        return format!("names[{}", rest.strip_suffix(".value").unwrap_or(rest));
    }
    inner.strip_suffix(".value").unwrap_or(inner).to_owned()
}

/// The error message for a field, with the value in the file and what is expected.
fn error_message(field: &str, message: &str, written: impl Fn() -> String) -> String {
    let allowed = match message {
        "expected string scalar" if is_scalar_field(field) => "a number or a text",
        "expected string scalar"
        | "null is not allowed here"
        | "externally tagged enum expected scalar or mapping" => "a text",
        "expected sequence start" => "a list",
        "expected mapping start" => "a map",
        other => {
            let names_field = field.is_empty()
                || field == "fleet"
                || other.starts_with("unknown field")
                || other.starts_with("got the key ")
                || other.starts_with("taints: ");
            return if names_field { other.to_owned() } else { format!("{field}: {other}") };
        }
    };
    let field = if field.is_empty() { "pools" } else { field };
    format!("{field}: got {}, expected {allowed}", written())
}

/// Whether the field may be a number or a string ([`Scalar`]).
fn is_scalar_field(field: &str) -> bool {
    let amounts = ["count", "gpus", "gpuMemory", "cpu", "memory", "ephemeralStorage", "pods"];
    amounts.contains(&field) || field.starts_with("topology.") || field.starts_with("kubelet.")
}

/// The text at the location of an error, up to the end of its line.
pub(super) fn text_at_error(text: &str, error: &FleetError) -> String {
    let index = |at: u64| usize::try_from(at.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = text.lines().nth(index(error.location.line)).unwrap_or_default();
    let mut depth = 0_i32;
    let mut written = String::new();
    for letter in line.chars().skip(index(error.location.column)) {
        let closes = matches!(letter, ']' | '}');
        if depth == 0 && (closes || (letter == ',' && !written.is_empty())) {
            break;
        }
        written.push(letter);
        depth += i32::from(matches!(letter, '[' | '{')) - i32::from(closes);
        if depth == 0 && closes {
            break;
        }
    }
    if written.trim().is_empty() { "nothing".to_owned() } else { written.trim().to_owned() }
}

/// Converts an error of the YAML parser.
pub(super) fn parse_error(file: FleetFile, error: &serde_saphyr::Error) -> FleetError {
    let options = serde_saphyr::render_options! {
        formatter: &UserMessageFormatter,
        snippets: SnippetMode::Off,
    };
    let text = error.render_with_options(options);
    let message = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    let twice = message.strip_prefix("duplicate mapping key: ");
    let message = match twice.and_then(|rest| rest.strip_suffix(" not allowed here")) {
        Some(key) => format!("got the key {key} twice, expected each key once"),
        None => message.to_owned(),
    };
    file.error(error.location().unwrap_or(Location::UNKNOWN), message)
}

/// The names that were used so far, with their locations.
#[derive(Default)]
pub(super) struct UsedNames(BTreeMap<String, Location>);

impl UsedNames {
    /// Adds a name; an error if it was used already. `kind` says in the error what is named.
    pub(super) fn insert(
        &mut self,
        file: FleetFile,
        kind: &str,
        name: &str,
        at: Location,
    ) -> Result<(), FleetError> {
        let Some(first) = self.0.insert(name.to_owned(), at) else { return Ok(()) };
        let first = file.location(first);
        let message =
            format!("{kind} name: got {name} twice, expected unique names; first at {first}");
        Err(file.error(at, message))
    }
}

/// The fleet file that is being parsed, for locations and errors.
#[derive(Clone, Copy)]
pub(super) struct FleetFile<'f> {
    pub(super) name: &'f str,
}

impl FleetFile<'_> {
    pub(super) fn error(self, at: Location, message: String) -> FleetError {
        FleetError { location: self.location(at), message }
    }

    pub(super) fn location(self, at: Location) -> FleetLocation {
        let file = self.name.to_owned();
        FleetLocation { file, line: at.line(), column: at.column(), source: None }
    }

    /// Parses a whole number from `least` to `most`.
    pub(super) fn parse_whole(
        self,
        field: &str,
        scalar: &Spanned<Scalar>,
        [least, most]: [u64; 2],
    ) -> Result<u64, FleetError> {
        let found = &scalar.value.0;
        let number = found.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| {
            let message =
                format!("{field}: got {found}, expected a whole number from {least} to {most}");
            self.error(scalar.referenced, message)
        })
    }

    /// Parses a positive quantity. Returns its text and its amount.
    pub(super) fn parse_quantity(
        self,
        field: &str,
        scalar: &Spanned<Scalar>,
    ) -> Result<(String, Milli), FleetError> {
        let found = &scalar.value.0;
        let reason = match quantity::parse(found) {
            Ok(milli) if milli > 0 => return Ok((found.clone(), milli)),
            Ok(_) => ", expected more than zero".to_owned(),
            Err(error) => format!(": {error}"),
        };
        Err(self.error(scalar.referenced, format!("{field}: got {found}{reason}")))
    }

    /// Validates a duration and returns its text.
    pub(super) fn parse_duration_text(
        self,
        field: &str,
        scalar: &Spanned<Scalar>,
    ) -> Result<String, FleetError> {
        let found = &scalar.value.0;
        if parse_duration(found).is_some() {
            return Ok(found.clone());
        }
        let message = format!("{field}: got {found}, expected a duration such as 2s or 1h30m");
        Err(self.error(scalar.referenced, message))
    }
}
