//! Formats of dates, times and durations.

use std::sync::LazyLock;

use super::{Pattern, compile_pattern};

/// Whether a text is a calendar date that exists, as `YYYY-MM-DD`.
pub(super) fn is_date(text: &str) -> bool {
    static FORM: Pattern = LazyLock::new(|| compile_pattern("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"));
    FORM.is_match(text) && text.parse::<jiff::civil::Date>().is_ok()
}

/// Whether a text is a date and a time. Like the API server, this accepts any character before the
/// fraction and ignores text after a second `t`.
pub(super) fn is_date_time(text: &str) -> bool {
    static TIME: Pattern = LazyLock::new(|| {
        compile_pattern(
            "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$",
        )
    });
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (date, time) = (parts.next(), parts.next());
    date.is_some_and(is_date) && time.is_some_and(|time| TIME.is_match(time))
}

/// The names of each duration unit. Words that begin with the last name of a unit are accepted,
/// too.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// Whether a text is a Go duration, or contains a number and the name of a unit.
pub(super) fn is_duration(text: &str) -> bool {
    static GO: Pattern = LazyLock::new(|| {
        compile_pattern(r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$")
    });
    static WORDS: Pattern = LazyLock::new(|| compile_pattern(r"([0-9]+)[ \t\r\n\f]*([A-Za-zµ]+)"));
    let is_unit = |word: &str| {
        UNITS.iter().any(|names| {
            let long = names.last().is_some_and(|long| word.starts_with(long));
            long || names.contains(&word)
        })
    };
    let parts = || WORDS.captures_iter(text).map(|part| part.extract());
    let is_counted = || parts().all(|(_, [count, _])| count.parse::<i64>().is_ok());
    let has_unit = || parts().any(|(_, [_, unit])| is_unit(&unit.to_lowercase()));
    GO.is_match(text) || (is_counted() && has_unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_complete_and_exist() {
        for text in ["2026-12-01", "0000-01-01"] {
            assert!(is_date(text), "{text}");
        }
        for text in ["2026-2-1", "2026-02-30", "2026-13-01", "20261201", ""] {
            assert!(!is_date(text), "{text}");
        }
    }

    #[test]
    fn times_name_their_zone() {
        for text in ["2026-12-01T00:00:00.5+01:00", "2026-12-01t00:00:00z"] {
            assert!(is_date_time(text), "{text}");
        }
        for text in [
            "2026-12-01",
            "2026-12-01T00:00:00",
            "2026-12-01 00:00:00Z",
            "2026-12-01T25:00:00Z",
            "2026-12-01T00:00:60Z",
            "2026-12-01T00:00:00+0100",
        ] {
            assert!(!is_date_time(text), "{text}");
        }
    }

    #[test]
    fn durations_name_their_units() {
        for text in ["1h2m", "1.5h", "-1s", "0", "2 weeks", "1 d", "5 Minutes"] {
            assert!(is_duration(text), "{text}");
        }
        for text in ["5", "5x", "3 parsecs", "", "99999999999999999999 days"] {
            assert!(!is_duration(text), "{text}");
        }
    }
}
