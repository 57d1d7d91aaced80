//! Numbers and texts of a fleet's file, kept as they were written together with where, so that
//! what is wrong with them can be told in words.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde_path_to_error::Track;
use serde_saphyr::{Location, SnippetMode, Spanned, UserMessageFormatter};

use super::{FleetError, FleetPlace};
use crate::actors::parse_duration;
use crate::quantity::{self, Milli};

/// A number or text as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scalar(pub(super) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Words)
    }
}

struct Words;

impl Visitor<'_> for Words {
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

/// Reads a text as what it should be; what is wrong is told with the field that it is in.
pub(super) fn read<T: DeserializeOwned>(place: Place, text: &str) -> Result<T, FleetError> {
    let mut track = Track::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        T::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track))
    });
    read.map_err(|error| {
        let wrong = parse_error(place, &error);
        let path = track.path().to_string();
        let field = if path == "." { "fleet".to_owned() } else { field(&path) };
        let message = in_words(&field, &wrong.message, || written_at(text, &wrong));
        FleetError { message, ..wrong }
    })
}

/// Where in a pool something is: what stands around it is no part of its name.
fn field(path: &str) -> String {
    let pool = path.strip_prefix("pools.value").unwrap_or(path);
    let inner = pool.split_once(']').filter(|_| pool.starts_with('[')).map_or(pool, |(_, it)| it);
    let inner = inner.strip_prefix('.').unwrap_or(inner);
    // What stands with its place is the `value` of a field; a taint has one of its own below it.
    if let Some((taint, rest)) = inner.split_once(']').filter(|_| inner.starts_with("taints[")) {
        return format!("{taint}]{}", rest.strip_prefix(".value").unwrap_or(rest));
    }
    if let Some(rest) = inner.strip_prefix("names.value[") {
        return format!("names[{}", rest.strip_suffix(".value").unwrap_or(rest));
    }
    inner.strip_suffix(".value").unwrap_or(inner).to_owned()
}

/// Field, what was found and what is allowed.
fn in_words(field: &str, message: &str, written: impl Fn() -> String) -> String {
    let allowed = match message {
        "expected string scalar" if is_amount(field) => "a number or a text",
        "expected string scalar"
        | "null is not allowed here"
        | "externally tagged enum expected scalar or mapping" => "a text",
        "expected sequence start" => "a list",
        "expected mapping start" => "a map",
        other => {
            let says_field = field.is_empty()
                || field == "fleet"
                || other.starts_with("unknown field")
                || other.starts_with("found the key ")
                || other.starts_with("taints: ");
            return if says_field { other.to_owned() } else { format!("{field}: {other}") };
        }
    };
    let field = if field.is_empty() { "pools" } else { field };
    format!("{field}: found {}, allowed is {allowed}", written())
}

/// Whether a [`Scalar`] stands there.
fn is_amount(field: &str) -> bool {
    let amounts = ["count", "gpus", "gpuMemory", "cpu", "memory", "ephemeralStorage", "pods"];
    amounts.contains(&field) || field.starts_with("topology.") || field.starts_with("kubelet.")
}

/// What stands in the text where it is wrong, as far as one line shows it.
pub(super) fn written_at(text: &str, wrong: &FleetError) -> String {
    let place = |at: u64| usize::try_from(at.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = text.lines().nth(place(wrong.place.line)).unwrap_or_default();
    let mut depth = 0_i32;
    let mut written = String::new();
    for letter in line.chars().skip(place(wrong.place.column)) {
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

/// What the parser says, in our form.
pub(super) fn parse_error(place: Place, error: &serde_saphyr::Error) -> FleetError {
    let options = serde_saphyr::render_options! {
        formatter: &UserMessageFormatter,
        snippets: SnippetMode::Off,
    };
    let words = error.render_with_options(options);
    let message = words.rsplit_once(" at line ").map_or(&*words, |(words, _)| words);
    let twice = message.strip_prefix("duplicate mapping key: ");
    let message = match twice.and_then(|rest| rest.strip_suffix(" not allowed here")) {
        Some(key) => format!("found the key {key} twice, allowed is each key once"),
        None => message.to_owned(),
    };
    place.error(error.location().unwrap_or(Location::UNKNOWN), message)
}

/// Names that are taken, and where.
#[derive(Default)]
pub(super) struct Taken(BTreeMap<String, Location>);

impl Taken {
    /// Takes a name, unless it is taken; `found` and `all` say of what it is the name.
    pub(super) fn take(
        &mut self,
        place: Place,
        (found, all): (&str, &str),
        (name, at): (&str, Location),
    ) -> Result<(), FleetError> {
        let Some(first) = self.0.insert(name.to_owned(), at) else { return Ok(()) };
        let FleetPlace { file, line, column, .. } = place.at(first);
        let message = format!(
            "{found} {name} again, which {file}:{line}:{column} has already; {all} need names of \
             their own"
        );
        Err(place.error(at, message))
    }
}

/// The file that is being read, to say where something is wrong in it.
#[derive(Clone, Copy)]
pub(super) struct Place<'f> {
    pub(super) file: &'f str,
}

impl Place<'_> {
    pub(super) fn error(self, at: Location, message: String) -> FleetError {
        FleetError { place: self.at(at), message }
    }

    pub(super) fn at(self, at: Location) -> FleetPlace {
        let file = self.file.to_owned();
        FleetPlace { file, line: at.line(), column: at.column(), source: None }
    }

    /// A whole number from `least` to `most`.
    pub(super) fn whole(
        self,
        field: &str,
        scalar: &Spanned<Scalar>,
        [least, most]: [u64; 2],
    ) -> Result<u64, FleetError> {
        let found = &scalar.value.0;
        let number = found.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| {
            let message =
                format!("{field}: found {found}, allowed is a whole number from {least} to {most}");
            self.error(scalar.referenced, message)
        })
    }

    /// A quantity above zero, as it was written.
    pub(super) fn quantity(
        self,
        field: &str,
        scalar: &Spanned<Scalar>,
    ) -> Result<(String, Milli), FleetError> {
        let found = &scalar.value.0;
        let wrong = match quantity::parse(found) {
            Ok(milli) if milli > 0 => return Ok((found.clone(), milli)),
            Ok(0) => "allowed is more than zero".to_owned(),
            Ok(_) => "negative; allowed is more than zero".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(self.error(scalar.referenced, format!("{field}: found {found}: {wrong}")))
    }

    /// A duration, as it was written.
    pub(super) fn duration(
        self,
        field: &str,
        scalar: &Spanned<Scalar>,
    ) -> Result<String, FleetError> {
        let found = &scalar.value.0;
        if parse_duration(found).is_some() {
            return Ok(found.clone());
        }
        let message = format!("{field}: found {found}, allowed is a duration such as 2s or 1h30m");
        Err(self.error(scalar.referenced, message))
    }
}
