//! Normalizes durations among the inputs of a scheduler. In real time they are shortened by some
//! factor, so each is replaced by its rank among the durations of the same field.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schedlab_api::{Value, json};

/// Suffixes of the names of fields that hold durations, either as `90s` or in seconds.
const DURATION_FIELDS: [&str; 5] = [
    "preemption-delay",
    "staleness-grace-period",
    "preemptionDelay",
    "stalenessGracePeriod",
    "tolerationSeconds",
];

/// All durations in a log, by the kind of field, from the shortest to the longest.
#[derive(Debug, Default)]
pub(super) struct DurationRanks(BTreeMap<&'static str, BTreeSet<Duration>>);

impl DurationRanks {
    /// Collects the durations in a value.
    pub(super) fn collect_from(&mut self, value: &Value) {
        value.as_array().into_iter().flatten().for_each(|item| self.collect_from(item));
        for (key, inner) in value.as_object().into_iter().flat_map(|fields| fields.iter()) {
            match parse_duration_field(key, inner) {
                Some((kind, time)) => drop(self.0.entry(kind).or_default().insert(time)),
                None => self.collect_from(inner),
            }
        }
    }

    /// Replaces each duration in `value` by its rank among those of the same field, from the
    /// shortest on. A zero duration and an invalid one are unchanged.
    pub(super) fn replace_by_ranks(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace_by_ranks(item)),
            Value::Object(fields) => {
                for (key, inner) in fields {
                    match parse_duration_field(key, inner) {
                        Some((kind, time)) => *inner = json!(self.rank_text(kind, time)),
                        None => self.replace_by_ranks(inner),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rank_text(&self, kind: &str, duration: Duration) -> String {
        let shorter = self.0.get(kind).map_or(0, |all| all.range(..duration).count());
        format!("duration {}", shorter + 1)
    }
}

fn parse_duration_field(key: &str, value: &Value) -> Option<(&'static str, Duration)> {
    let kind = DURATION_FIELDS.into_iter().find(|kind| key.ends_with(kind))?;
    let text = value.as_str().and_then(|text| crate::text::parse_duration(text).ok());
    let time = text.or_else(|| value.as_u64().map(Duration::from_secs));
    time.filter(|time| !time.is_zero()).map(|time| (kind, time))
}
