//! Durations in what a scheduler goes by. Where time is real they are shortened by some factor, so
//! it is told which is how long among the others of its kind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schedlab_json::{Value, json};

/// How fields end that hold durations, as `90s` or in seconds.
const KINDS: [&str; 5] = [
    "preemption-delay",
    "staleness-grace-period",
    "preemptionDelay",
    "stalenessGracePeriod",
    "tolerationSeconds",
];

/// All durations of a log, by their kind.
#[derive(Debug, Default)]
pub(super) struct Durations(BTreeMap<&'static str, BTreeSet<Duration>>);

impl Durations {
    /// Takes note of those in a value.
    pub(super) fn note(&mut self, value: &Value) {
        value.as_array().into_iter().flatten().for_each(|item| self.note(item));
        for (key, inner) in value.as_object().into_iter().flat_map(|fields| fields.iter()) {
            match found(key, inner) {
                Some((kind, time)) => drop(self.0.entry(kind).or_default().insert(time)),
                None => self.note(inner),
            }
        }
    }

    /// Replaces them by their place among those of their kind, from the shortest on. None stays none,
    /// and what is no duration stays what it is.
    pub(super) fn rank(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.rank(item)),
            Value::Object(fields) => {
                for (key, inner) in fields {
                    match found(key, inner) {
                        Some((kind, time)) => *inner = json!(self.place(kind, time)),
                        None => self.rank(inner),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn place(&self, kind: &str, time: Duration) -> String {
        let shorter = self.0.get(kind).map_or(0, |all| all.range(..time).count());
        format!("duration {}", shorter + 1)
    }
}

fn found(key: &str, value: &Value) -> Option<(&'static str, Duration)> {
    let kind = KINDS.into_iter().find(|kind| key.ends_with(kind))?;
    let text = value.as_str().and_then(|text| crate::text::duration(text).ok());
    let time = text.or_else(|| value.as_u64().map(Duration::from_secs));
    time.filter(|time| !time.is_zero()).map(|time| (kind, time))
}
