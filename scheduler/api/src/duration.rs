//! Durations in the format of Go: `1h30m`, `1.5s`, `-1s`, `250ms`, `0`.

pub mod age;

use std::time::Duration;

/// A duration with sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoDuration {
    /// A duration of zero or more.
    Positive(Duration),
    /// A duration below zero. The amount does not matter.
    Negative,
}

/// Parses a duration in Go's format, such as `1h30m`; `None` if the text is malformed or the
/// duration is longer than 292 years.
pub fn parse_go_duration(text: &str) -> Option<GoDuration> {
    parse_duration_with_units(text, nanos_of_unit)
}

/// Like [`parse_go_duration`], with days and weeks as in some arguments of KAI: `1w2d`.
pub fn parse_duration_with_days(text: &str) -> Option<GoDuration> {
    parse_duration_with_units(text, |unit| match unit {
        "d" => Some(86_400_000_000_000),
        "w" => Some(604_800_000_000_000),
        shorter => nanos_of_unit(shorter),
    })
}

fn parse_duration_with_units(
    text: &str,
    nanos_of_unit: impl Fn(&str) -> Option<i128>,
) -> Option<GoDuration> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(GoDuration::Positive(Duration::ZERO));
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let digits_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, tail) = rest.split_at(digits_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        nanos = nanos.checked_add(part_nanos(digits, nanos_of_unit(unit)?)?)?;
        rest = tail;
    }
    let nanos = i64::try_from(nanos).ok().filter(|_| !text.is_empty() && text != "-")?;
    if negative && nanos > 0 {
        return Some(GoDuration::Negative);
    }
    u64::try_from(nanos).ok().map(|nanos| GoDuration::Positive(Duration::from_nanos(nanos)))
}

fn nanos_of_unit(unit: &str) -> Option<i128> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    }
}

fn part_nanos(digits: &str, unit_nanos: i128) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.len() > 15 || whole.len() > 19 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some(whole * unit_nanos + fraction * unit_nanos / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_parsed_as_in_go() {
        let millis = |text| match parse_go_duration(text) {
            Some(GoDuration::Positive(duration)) => duration.as_millis().to_string(),
            Some(GoDuration::Negative) => "negative".to_owned(),
            None => "malformed".to_owned(),
        };
        let texts = ["0", "1h30m", "1.5s", "250ms", "-1s", "-0s", "", "5", "5x", "s", "1..5s", "-"];
        let read: Vec<_> = texts.iter().map(|text| format!("{text:?}={}", millis(text))).collect();
        insta::assert_snapshot!(read.join(" "), @r#""0"=0 "1h30m"=5400000 "1.5s"=1500 "250ms"=250 "-1s"=negative "-0s"=0 ""=malformed "5"=malformed "5x"=malformed "s"=malformed "1..5s"=malformed "-"=malformed"#);
    }

    #[test]
    fn long_durations_have_days_and_weeks() {
        let hours = |hours| Some(GoDuration::Positive(Duration::from_hours(hours)));
        assert_eq!(parse_duration_with_days("1w2d3h"), hours(9 * 24 + 3));
        assert_eq!(parse_duration_with_days("1.5d"), hours(36));
        assert_eq!((parse_duration_with_days("1mo"), parse_go_duration("1d")), (None, None));
    }

    #[test]
    fn a_duration_too_long_for_go_is_malformed() {
        assert_eq!(parse_go_duration("9999999999h"), None);
    }
}
