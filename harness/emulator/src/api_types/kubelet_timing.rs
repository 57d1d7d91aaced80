//! Annotations that control the emulated kubelet: how long it takes to start, run and stop a pod, and
//! which GPUs of its node are unhealthy.

use std::time::Duration;

use schedlab_api::{Value, object::annotation};

/// Time from binding to running.
pub(crate) const STARTUP: &str = "schedlab.dev/startup";
/// Time from running to exit.
pub(crate) const RUN_TIME: &str = "schedlab.dev/run-time";
/// Exit code of the containers.
pub(crate) const EXIT_CODE: &str = "schedlab.dev/exit-code";
/// Time from the stop request to the end.
pub(crate) const TERMINATION: &str = "schedlab.dev/termination";

/// Annotation of a node that is down: its kubelet does nothing and sends no heartbeats.
pub const NODE_DOWN: &str = "schedlab.dev/down";

/// Annotation of a node with the indexes of its unhealthy GPUs: `"0,3"`. Their device plugin reports
/// them, so that they are not allocatable; the driver of published devices withdraws them.
pub const UNHEALTHY_GPUS: &str = "schedlab.dev/unhealthy-gpus";

/// The indexes of the unhealthy GPUs of a node.
pub(crate) fn unhealthy_gpus(node: &Value) -> impl Iterator<Item = u64> + '_ {
    let text = annotation(node, UNHEALTHY_GPUS).unwrap_or_default();
    text.split(',').filter_map(|index| index.trim().parse().ok())
}

/// The invalid annotations of a pod or node, with the violated rules.
pub(crate) fn invalid_annotations(object: &Value) -> Vec<(&'static str, &'static str)> {
    let broken = |key| Some((key, violated_rule(key, annotation(object, key)?)?));
    [STARTUP, RUN_TIME, TERMINATION, EXIT_CODE, NODE_DOWN, UNHEALTHY_GPUS]
        .into_iter()
        .filter_map(broken)
        .collect()
}

/// The rule that the value of the annotation `key` violates, if it does.
pub(crate) fn violated_rule(key: &str, text: &str) -> Option<&'static str> {
    let (reads, rule) = match key {
        STARTUP | RUN_TIME | TERMINATION => {
            (parse_duration(text).is_some(), "must be a duration such as 90s or 1h30m")
        }
        EXIT_CODE => (text.parse::<i32>().is_ok(), "must be a whole number"),
        NODE_DOWN => (["true", "false"].contains(&text), "must be true or false"),
        UNHEALTHY_GPUS => {
            let is_index = |index: &str| index.trim().parse::<u64>().is_ok();
            let reads = text.is_empty() || text.split(',').all(is_index);
            (reads, "must be indexes of GPUs, such as 0,3")
        }
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
