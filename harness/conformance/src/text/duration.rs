//! Durations: one syntax for flags, steps and tables.

use std::{borrow::Cow, time::Duration};

use schedlab_api::duration::{self as api, GoDuration};

/// Regular expression of a duration in a step: `90 seconds`, `10m`, `1h 30m`.
pub(crate) const DURATION_REGEX: &str = concat!(
    r"[0-9]+(?:[.][0-9]+)? ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)",
    r"(?: ?[0-9]+(?:[.][0-9]+)? ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?))*"
);

/// The longest duration that is accepted: a hundred years.
const LONGEST_DURATION: Duration = Duration::from_hours(24 * 36_525);

/// Parses a duration such as `90s`, `10m` or `1h 30m`.
///
/// # Errors
/// The text is not a duration, or the duration is too long.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let span = parse_jiff(text).ok().and_then(|span| Duration::try_from(span).ok());
    span.filter(|span| *span <= LONGEST_DURATION).ok_or_else(|| {
        let allowed = "a duration such as 90s, 10m, 1h 30m or 2d, at most 36525d";
        format!("got {text}, expected {allowed}")
    })
}

fn parse_jiff(text: &str) -> Result<jiff::SignedDuration, jiff::Error> {
    let span: jiff::Span = text.parse()?;
    span.to_duration(jiff::SpanRelativeTo::days_are_24_hours())
}

/// A duration in Go's notation, as objects of the API contain it; `None` if `text` is no valid
/// duration.
pub(crate) fn normalize_go_duration(text: &str) -> Option<Cow<'_, str>> {
    if matches!(api::parse_go_duration(text), Some(GoDuration::Positive(_))) {
        return Some(Cow::Borrowed(text));
    }
    go_duration_text(parse_duration(text).ok()?).map(Cow::Owned)
}

/// The duration in Go's notation, in whole seconds or milliseconds; `None` if it has a fraction of
/// a millisecond.
pub(crate) fn go_duration_text(time: Duration) -> Option<String> {
    if time.subsec_nanos() == 0 {
        return Some(format!("{}s", time.as_secs()));
    }
    time.subsec_nanos().is_multiple_of(1_000_000).then(|| format!("{}ms", time.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_in_all_supported_notations() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        for text in ["1h 30m", "1h30m", "1 hour 30 minutes", "1.5 hours"] {
            assert_eq!(parse_duration(text), Ok(Duration::from_mins(90)), "{text}");
        }
        assert_eq!(parse_duration("2d"), Ok(Duration::from_hours(48)));
        assert!(parse_duration("-5s").is_err());
        assert!(parse_duration("36526d").is_err());
        assert!(parse_duration("99999999999999999999h").is_err());
        assert!(parse_duration("soon").is_err());
    }

    #[test]
    fn durations_are_normalized_to_go_notation() {
        let normalized = |text: &'static str| normalize_go_duration(text).map(Cow::into_owned);
        for (text, go) in [
            ("1h30m", "1h30m"),
            ("1h 30m", "5400s"),
            ("1.5 seconds", "1500ms"),
            ("2d", "172800s"),
            ("0", "0"),
        ] {
            assert_eq!(normalized(text).as_deref(), Some(go), "{text}");
        }
        for text in ["", "90", "soon", "-5s", "0.5 ms"] {
            assert_eq!(normalized(text), None, "{text}");
        }
    }
}
