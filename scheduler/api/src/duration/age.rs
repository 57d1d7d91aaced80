//! Ages in the format of kubectl: `45s`, `5m10s`, `3h`, `2d4h`, `400d`.

use crate::Value;
use jiff::{SignedDuration, Timestamp};

const UNKNOWN: &str = "<unknown>";

/// The age of a time; `<unknown>` if it is absent or invalid.
pub fn since(time: Option<&Value>, now: Timestamp) -> String {
    let time = time.and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    time.map_or_else(|| UNKNOWN.to_owned(), |time| human_duration(now.duration_since(time)))
}

/// Formats a duration with at most two units, as kubectl shows ages. A time less than two seconds
/// in the future counts as now.
pub fn human_duration(span: SignedDuration) -> String {
    let seconds = span.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |first: i64, unit: &str, second: i64, small: &str| {
        if second == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{second}{small}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_units_that_matter() {
        let cases = [
            (-1, "0s"),
            (-2, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (700_000, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }
}
