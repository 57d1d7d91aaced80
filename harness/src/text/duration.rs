//! Lengths of time as people write them: one grammar for flags, steps and tables.

use std::{borrow::Cow, time::Duration};

use schedlab_emulator::actors::parse_duration;

/// What a length of time looks like in a step: `90 seconds`, `10m`, `1h 30m`.
pub(crate) const DURATION: &str = concat!(
    r"[0-9]+(?:[.][0-9]+)? ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)",
    r"(?: ?[0-9]+(?:[.][0-9]+)? ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?))*"
);

/// The longest time that anything may take: a hundred years.
const LONGEST: Duration = Duration::from_hours(24 * 36_525);

/// A duration as `90s`, `10m` or `1h 30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let span = friendly(text).ok().and_then(|span| Duration::try_from(span).ok());
    span.filter(|span| *span <= LONGEST).ok_or_else(|| {
        let allowed = "a length of time such as 90s, 10m, 1h 30m or 2d, at most 36525d";
        format!("found {text}, allowed is {allowed}")
    })
}

fn friendly(text: &str) -> Result<jiff::SignedDuration, jiff::Error> {
    let span: jiff::Span = text.parse()?;
    span.to_duration(jiff::SpanRelativeTo::days_are_24_hours())
}

/// A duration as objects say it, which is Go's way; nothing where it is none. It has a unit, but
/// for 0.
pub(crate) fn as_go_writes(text: &str) -> Option<Cow<'_, str>> {
    let has_unit = text == "0" || text.contains(|c: char| c.is_ascii_alphabetic());
    if has_unit && parse_duration(text).is_some() {
        return Some(Cow::Borrowed(text));
    }
    written(duration(text).ok()?).map(Cow::Owned)
}

/// In whole seconds or, where there is a part of one, in milliseconds; nothing where there is a
/// part of one of those.
pub(crate) fn written(time: Duration) -> Option<String> {
    if time.subsec_nanos() == 0 {
        return Some(format!("{}s", time.as_secs()));
    }
    time.subsec_nanos().is_multiple_of(1_000_000).then(|| format!("{}ms", time.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        for text in ["1h 30m", "1h30m", "1 hour 30 minutes", "1.5 hours"] {
            assert_eq!(duration(text), Ok(Duration::from_mins(90)), "{text}");
        }
        assert_eq!(duration("2d"), Ok(Duration::from_hours(48)));
        assert!(duration("-5s").is_err());
        assert!(duration("36526d").is_err());
        assert!(duration("99999999999999999999h").is_err());
        assert!(duration("soon").is_err());
    }

    #[test]
    fn objects_are_told_durations_as_go_reads_them() {
        let told = |text: &'static str| as_go_writes(text).map(Cow::into_owned);
        for (text, go) in
            [("1h30m", "1h30m"), ("1h 30m", "5400s"), ("1.5 seconds", "1500ms"), ("0", "0")]
        {
            assert_eq!(told(text).as_deref(), Some(go), "{text}");
        }
        for text in ["", "90", "soon", "-5s", "0.5 ms"] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
