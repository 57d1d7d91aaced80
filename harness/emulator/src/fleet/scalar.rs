//! Numbers and texts of a fleet's file, kept as they were written together with where, so that
//! what is wrong with them can be told in words.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_saphyr::{Location, SnippetMode, Spanned, UserMessageFormatter};

use super::FleetError;
use crate::actors::parse_duration;
use crate::quantity::{self, Milli};

/// A number or text as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scalar(pub(super) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
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

/// What the parser says, in our form.
pub(super) fn parse_error(place: Place, error: &serde_saphyr::Error) -> FleetError {
    let options = serde_saphyr::render_options! {
        formatter: &UserMessageFormatter,
        snippets: SnippetMode::Off,
    };
    let words = error.render_with_options(options);
    let message = words.rsplit_once(" at line ").map_or(&*words, |(words, _)| words);
    place.error(error.location().unwrap_or(Location::UNKNOWN), message.to_owned())
}

/// The file that is being read, to say where something is wrong in it.
#[derive(Clone, Copy)]
pub(super) struct Place<'f> {
    pub(super) file: &'f str,
}

impl Place<'_> {
    pub(super) fn error(self, at: Location, message: String) -> FleetError {
        FleetError { file: self.file.to_owned(), line: at.line(), column: at.column(), message }
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
