//! Annotations that control the emulated kubelet: how long it takes to start, run and stop a pod,
//! and which GPUs of its node are unhealthy.

use std::time::Duration;

use schedlab_api::{
    Value, annotations,
    duration::{GoDuration, parse_duration_with_days},
    object::annotation,
};

/// The indexes of the unhealthy GPUs of a node.
pub(crate) fn unhealthy_gpus(node: &Value) -> impl Iterator<Item = u64> + '_ {
    let text = annotation(node, annotations::UNHEALTHY_GPUS).unwrap_or_default();
    text.split(',').filter_map(|index| index.trim().parse().ok())
}

/// The invalid timing annotations of a pod or node, with the violated rules.
pub(crate) fn invalid_annotations(object: &Value) -> Vec<(&'static str, &'static str)> {
    let broken = |key| Some((key, violated_rule(key, annotation(object, key)?)?));
    [
        annotations::STARTUP,
        annotations::RUN_TIME,
        annotations::TERMINATION,
        annotations::EXIT_CODE,
        annotations::NODE_DOWN,
        annotations::UNHEALTHY_GPUS,
    ]
    .into_iter()
    .filter_map(broken)
    .collect()
}

/// The rule that `text`, the value of the annotation `key`, violates; `None` if it is valid.
pub(crate) fn violated_rule(key: &str, text: &str) -> Option<&'static str> {
    let (reads, rule) = match key {
        annotations::STARTUP | annotations::RUN_TIME | annotations::TERMINATION => {
            (parse_duration(text).is_some(), "must be a duration such as 90s or 1h30m")
        }
        annotations::EXIT_CODE => (text.parse::<i32>().is_ok(), "must be a whole number"),
        annotations::NODE_DOWN => (["true", "false"].contains(&text), "must be true or false"),
        annotations::UNHEALTHY_GPUS => {
            let is_index = |index: &str| index.trim().parse::<u64>().is_ok();
            let reads = text.is_empty() || text.split(',').all(is_index);
            (reads, "must be indexes of GPUs, such as 0,3")
        }
        _ => return None,
    };
    (!reads).then_some(rule)
}

/// Parses a duration such as `90s`, `1h30m`, `1.5h`, `250ms` or `1d`; a plain number is in seconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    match parse_duration_with_days(text)? {
        GoDuration::Positive(time) => Some(time),
        GoDuration::Negative => None,
    }
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
            ("0.0001h", 360),
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
