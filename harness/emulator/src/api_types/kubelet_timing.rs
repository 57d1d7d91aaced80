//! Annotations that control how long the emulated kubelet takes to start, run and stop a pod.

use std::time::Duration;

use schedlab_api::{Value, annotations, object::annotation};

/// The invalid annotations of a pod or node, with the violated rules.
pub(crate) fn invalid_annotations(object: &Value) -> Vec<(&'static str, &'static str)> {
    let broken = |key| Some((key, violated_rule(key, annotation(object, key)?)?));
    [
        annotations::STARTUP,
        annotations::RUN_TIME,
        annotations::TERMINATION,
        annotations::EXIT_CODE,
        annotations::NODE_DOWN,
    ]
    .into_iter()
    .filter_map(broken)
    .collect()
}

/// The rule that the value of the annotation `key` violates, if it does.
pub(crate) fn violated_rule(key: &str, text: &str) -> Option<&'static str> {
    let (reads, rule) = match key {
        annotations::STARTUP | annotations::RUN_TIME | annotations::TERMINATION => {
            (parse_duration(text).is_some(), "must be a duration such as 90s or 1h30m")
        }
        annotations::EXIT_CODE => (text.parse::<i32>().is_ok(), "must be a whole number"),
        annotations::NODE_DOWN => (["true", "false"].contains(&text), "must be true or false"),
        _ => return None,
    };
    (!reads).then_some(rule)
}

/// Parses a duration such as `90s`, `1h30m`, `1.5h` or `250ms`; a plain number is in seconds, and
/// `d` is a day.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if let Ok(secs) = text.parse::<u64>() {
        return Some(Duration::from_secs(secs));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| c != '.' && !c.is_ascii_digit())?);
        let end = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit_nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return None,
        };
        let nanos = schedlab_api::quantity::parse(number).ok()?.checked_mul(unit_nanos)? / 1000;
        total = total.checked_add(Duration::from_nanos(u64::try_from(nanos).ok()?))?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_duration;

    #[test]
    fn durations_are_parsed_as_go_writes_them() {
        for (text, millis) in [
            ("2s", 2_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("1.5h", 5_400_000),
            ("7", 7_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "1x", "1.2.3s", "5 s", "soon"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
