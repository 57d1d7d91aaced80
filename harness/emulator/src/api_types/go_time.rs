//! Times in JSON as the API server reads and writes them: `metav1.Time` in whole seconds, and
//! `metav1.MicroTime` with exactly six fractional digits. Errors have the texts of Go's
//! `time.Parse`.

use std::fmt::Write as _;

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// The text format of a time in API objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeLayout {
    /// `metav1.Time`: whole seconds. A fraction is read and dropped.
    Seconds,
    /// `metav1.MicroTime`: microseconds. Go clients refuse a time with more or fewer than six
    /// fractional digits.
    Micros,
}

impl TimeLayout {
    /// The layout in the notation of Go's `time` package.
    fn go_layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }

    /// Formats a time in UTC, cut to the precision of the layout.
    pub(crate) fn format(self, time: Timestamp) -> String {
        const SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
        const MICROS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
        match self {
            Self::Seconds => SECONDS.timestamp_to_string(&time),
            Self::Micros => MICROS.timestamp_to_string(&time),
        }
    }

    /// Whether a valid text is already what [`Self::format`] returns.
    pub(crate) fn is_canonical(self, text: &str) -> bool {
        let (length, fraction) = match self {
            Self::Seconds => (20, None),
            Self::Micros => (27, Some(b'.')),
        };
        text.len() == length
            && text.ends_with('Z')
            && fraction.is_none_or(|point| text.as_bytes().get(19) == Some(&point))
    }

    /// Parses a time.
    ///
    /// # Errors
    ///
    /// The text does not have the layout, or names a moment that does not exist.
    pub(crate) fn parse(self, text: &str) -> Result<Timestamp, String> {
        TimeParser { layout: self.go_layout(), text, rest: text }.parse_time(self)
    }
}

/// Whether Go takes the time for unset: it writes the first moment of the year 1 as null.
pub(crate) fn is_go_zero(time: Timestamp) -> bool {
    const ZERO_SECONDS: i64 = -62_135_596_800;
    time.as_second() == ZERO_SECONDS && time.subsec_nanosecond() == 0
}

/// A parser that reads the text of a time from left to right.
struct TimeParser<'t> {
    layout: &'static str,
    text: &'t str,
    rest: &'t str,
}

impl<'t> TimeParser<'t> {
    fn parse_time(mut self, layout: TimeLayout) -> Result<Timestamp, String> {
        let year = self.parse_year()?;
        self.expect_literal("-")?;
        let month = self.parse_number("01", DigitCount::Two, 1..=12, "month")?;
        self.expect_literal("-")?;
        let day = self.parse_number("02", DigitCount::Two, 0..=99, "day")?;
        self.expect_literal("T")?;
        let hour = self.parse_number("15", DigitCount::OneOrTwo, 0..=23, "hour")?;
        self.expect_literal(":")?;
        let minute = self.parse_number("04", DigitCount::Two, 0..=59, "minute")?;
        self.expect_literal(":")?;
        let second = self.parse_number("05", DigitCount::Two, 0..=59, "second")?;
        let nanos = match layout {
            TimeLayout::Seconds => self.parse_optional_fraction(),
            TimeLayout::Micros => self.parse_six_digits()?,
        };
        let offset = self.parse_offset()?;
        if !self.rest.is_empty() {
            return Err(self.error_message(&format!("extra text: {}", go_quoted(self.rest))));
        }
        let outside = || self.error_message("day out of range");
        let date = Date::new(year, month, day).map_err(|_| outside())?;
        let time = Time::new(hour, minute, second, nanos).map_err(|_| outside())?;
        let utc = Offset::UTC.to_timestamp(DateTime::from_parts(date, time));
        utc.and_then(|utc| utc.checked_sub(offset)).map_err(|_| outside())
    }

    /// The error message about the whole text, with the reason `why`.
    fn error_message(&self, why: &str) -> String {
        format!("parsing time {}: {why}", go_quoted(self.text))
    }

    /// The error message about the rest of the text, which does not begin with the layout's
    /// `element`.
    fn mismatch_message(&self, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            go_quoted(self.text),
            go_quoted(self.layout),
            go_quoted(self.rest),
            go_quoted(element)
        )
    }

    fn expect_literal(&mut self, expected: &str) -> Result<(), String> {
        self.rest =
            self.rest.strip_prefix(expected).ok_or_else(|| self.mismatch_message(expected))?;
        Ok(())
    }

    /// The first `count` digits of the rest, and the text after them; `None` if the rest does not
    /// begin with so many digits.
    fn leading_digits(&self, count: usize) -> Option<(&'t str, &'t str)> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some((digits, rest))
    }

    fn parse_year(&mut self) -> Result<i16, String> {
        let (digits, rest) = self.leading_digits(4).ok_or_else(|| self.mismatch_message("2006"))?;
        self.rest = rest;
        Ok(digits.parse().unwrap_or_default())
    }

    fn parse_number(
        &mut self,
        element: &str,
        count: DigitCount,
        range: std::ops::RangeInclusive<i8>,
        name: &str,
    ) -> Result<i8, String> {
        let found = match (self.leading_digits(2), count) {
            (Some(two), _) => Some(two),
            (None, DigitCount::OneOrTwo) => self.leading_digits(1),
            (None, DigitCount::Two) => None,
        };
        let (digits, rest) = found.ok_or_else(|| self.mismatch_message(element))?;
        self.rest = rest;
        let number = digits.parse().unwrap_or_default();
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(self.error_message(&format!("{name} out of range")))
        }
    }

    /// Reads a fraction of seconds of any length that the layout does not contain; returns
    /// nanoseconds.
    fn parse_optional_fraction(&mut self) -> i32 {
        let after_point = self.rest.strip_prefix(['.', ',']).unwrap_or_default();
        let count = after_point.bytes().take_while(u8::is_ascii_digit).count();
        if count > 0 {
            self.rest = after_point.get(count..).unwrap_or_default();
        }
        0
    }

    fn parse_six_digits(&mut self) -> Result<i32, String> {
        let after_point = self.rest.strip_prefix(['.', ',']);
        let digits = after_point.and_then(|rest| Self { rest, ..*self }.leading_digits(6));
        let (digits, rest) = digits.ok_or_else(|| self.mismatch_message(".000000"))?;
        self.rest = rest;
        Ok(digits.parse().map(|micros: i32| micros * 1000).unwrap_or_default())
    }

    /// Reads the time zone offset: `Z`, or an offset such as `+01:00`.
    fn parse_offset(&mut self) -> Result<SignedDuration, String> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(SignedDuration::ZERO);
        }
        let parts = || {
            let (text, rest) = self.rest.split_at_checked(6)?;
            let (sign, text) = text.split_at_checked(1)?;
            let (hours, minutes) = text.split_once(':')?;
            let number = |digits: &str| {
                let are_two = digits.len() == 2 && digits.bytes().all(|it| it.is_ascii_digit());
                are_two.then(|| digits.parse::<i64>().ok()).flatten()
            };
            let sign = match sign {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
            Some((sign, number(hours)?, number(minutes)?, rest))
        };
        let (sign, hours, minutes, rest) = parts().ok_or_else(|| self.mismatch_message(ELEMENT))?;
        self.rest = rest;
        // Go allows these bounds themselves.
        if hours > 24 {
            return Err(self.error_message("time zone offset hour out of range"));
        }
        if minutes > 60 {
            return Err(self.error_message("time zone offset minute out of range"));
        }
        Ok(SignedDuration::from_secs(sign * (hours * 3600 + minutes * 60)))
    }
}

/// How many digits a number in a time may have.
#[derive(Clone, Copy)]
enum DigitCount {
    Two,
    OneOrTwo,
}

/// A text in quotes as Go's `time` package prints it: characters that are no printable ASCII are
/// escaped as bytes.
fn go_quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => shown.extend(['\\', char::from(byte)]),
            b' '..=b'~' | 0x7f => shown.push(char::from(byte)),
            other => drop(write!(shown, "\\x{other:02x}")),
        }
    }
    shown.push('"');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(layout: TimeLayout, text: &str) -> String {
        layout.parse(text).map_or_else(|error| error, |time| layout.format(time))
    }

    #[test]
    fn a_time_loses_its_fraction_and_its_zone() {
        let cases = [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.987654321Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05,9+01:30", "2026-01-02T01:34:05Z"),
            ("2026-01-02T3:04:05-00:00", "2026-01-02T03:04:05Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(TimeLayout::Seconds, text), expected, "{text}");
        }
        assert!(is_go_zero(TimeLayout::Seconds.parse("0001-01-01T01:00:00+01:00").unwrap()));
    }

    #[test]
    fn a_micro_time_has_six_fractional_digits() {
        let cases = [
            ("2026-01-02T03:04:05.100000Z", "2026-01-02T03:04:05.100000Z"),
            ("2026-01-02T03:04:05.000001+01:00", "2026-01-02T02:04:05.000001Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(TimeLayout::Micros, text), expected, "{text}");
        }
        for (text, rest, element) in [
            ("2026-01-02T03:04:05Z", "Z", ".000000"),
            ("2026-01-02T03:04:05.1Z", ".1Z", ".000000"),
            ("2026-01-02T03:04:05.1234567Z", "7Z", "Z07:00"),
        ] {
            let layout = "2006-01-02T15:04:05.000000Z07:00";
            let expected = format!(
                "parsing time \"{text}\" as \"{layout}\": cannot parse \"{rest}\" as \"{element}\""
            );
            assert_eq!(read(TimeLayout::Micros, text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_time_is_refused_in_the_words_of_go() {
        let as_layout = |rest: &str, element: &str| {
            format!(" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{rest}\" as \"{element}\"")
        };
        let cases = [
            ("", as_layout("", "2006")),
            ("noon", as_layout("noon", "2006")),
            ("2026-1-02T00:00:00Z", as_layout("1-02T00:00:00Z", "01")),
            ("2026-01-02 00:00:00Z", as_layout(" 00:00:00Z", "T")),
            ("2026-01-02T00:00:00", as_layout("", "Z07:00")),
            ("2026-01-02T00:00:00z", as_layout("z", "Z07:00")),
            ("2026-13-02T00:00:00Z", ": month out of range".to_owned()),
            ("2026-02-30T00:00:00Z", ": day out of range".to_owned()),
            ("2026-01-02T24:00:00Z", ": hour out of range".to_owned()),
            ("2026-01-02T00:00:60Z", ": second out of range".to_owned()),
            ("2026-01-02T00:00:00+25:00", ": time zone offset hour out of range".to_owned()),
            ("2026-01-02T00:00:00Z!", ": extra text: \"!\"".to_owned()),
        ];
        for (text, expected) in cases {
            let expected = format!("parsing time \"{text}\"{expected}");
            assert_eq!(read(TimeLayout::Seconds, text), expected);
        }
    }
}
