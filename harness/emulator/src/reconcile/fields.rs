//! Times, durations and conditions in objects. As in [`schedlab_api::object`], a missing value and
//! one of a wrong type read as absent: controllers see valid objects, so nothing here returns an
//! error.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::api_types::go_time::TimeLayout;
use schedlab_api::{
    Value, json,
    object::{as_map, at, list, remove, set, text},
};

/// The time in the field at `path`; `None` if it is absent or no time.
pub(crate) fn time_at(value: &Value, path: &[&str]) -> Option<Timestamp> {
    text(value, path).parse().ok()
}

/// The entries with string values of the map at a path.
pub(crate) fn string_entries<'v>(
    value: &'v Value,
    path: &[&str],
) -> impl Iterator<Item = (&'v str, &'v str)> + use<'v> {
    let map = schedlab_api::object::map(value, path);
    map.into_iter().flatten().filter_map(|(key, text)| Some((key.as_str(), text.as_str()?)))
}

/// Whether the value at a path is `true`.
pub(crate) fn flag_at(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// A time in the format of the API: whole seconds.
pub(crate) fn format_time(time: Timestamp) -> String {
    TimeLayout::Seconds.format(time)
}

/// A time in the format of leases: microseconds.
pub(crate) fn format_micro_time(time: Timestamp) -> String {
    TimeLayout::Micros.format(time)
}

/// The time after a duration; the maximum time on overflow.
pub(crate) fn time_after(time: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait)
        .ok()
        .and_then(|wait| time.checked_add(wait).ok())
        .unwrap_or(Timestamp::MAX)
}

/// The time `secs` seconds later, or earlier if negative; saturates on overflow.
pub(crate) fn time_after_secs(time: Timestamp, secs: i64) -> Timestamp {
    let end = if secs < 0 { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(SignedDuration::from_secs(secs)).unwrap_or(end)
}

/// A status condition.
pub(crate) struct Condition<'a> {
    /// The `type` of the condition.
    pub kind: &'a str,
    /// The `status` of the condition: `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// The `reason`; it is omitted if empty.
    pub reason: &'a str,
    /// The `message`; it is omitted if empty.
    pub message: &'a str,
}

/// The condition of an object with the type `kind`.
pub(crate) fn find_condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == kind)
}

/// Sets a condition of an object. `lastTransitionTime` changes only if the condition's status
/// changes.
pub(crate) fn set_condition(object: &mut Value, new: &Condition, now: Timestamp) {
    let all = conditions_mut(object);
    let index = all.iter().position(|one| text(one, &["type"]) == new.kind);
    let index = index.unwrap_or_else(|| {
        all.push(Value::Null);
        all.len() - 1
    });
    let fields = as_map(&mut all[index]);
    let stays = fields.get("status").is_some_and(|status| *status == new.status);
    if !stays || !fields.contains_key("lastTransitionTime") {
        fields.insert("lastTransitionTime", json!(format_time(now)));
    }
    fields.insert("type", json!(new.kind));
    fields.insert("status", json!(new.status));
    for (field, text) in [("reason", new.reason), ("message", new.message)] {
        if text.is_empty() {
            fields.remove(field);
        } else {
            fields.insert(field.to_owned(), json!(text));
        }
    }
}

/// Sets counts in an object's status. The counts in `if_any` are omitted if they are 0.
pub(crate) fn set_counts(object: &mut Value, always: &[(&str, i64)], if_any: &[(&str, i64)]) {
    for (field, count) in always {
        set(object, &["status", field], json!(count));
    }
    for (field, count) in if_any {
        if *count == 0 {
            remove(object, &["status", field]);
        } else {
            set(object, &["status", field], json!(count));
        }
    }
}

/// Removes the condition with the type `kind`.
pub(crate) fn remove_condition(object: &mut Value, kind: &str) {
    let mut all = list(object, &["status", "conditions"]).to_vec();
    all.retain(|one| text(one, &["type"]) != kind);
    if all.is_empty() {
        remove(object, &["status", "conditions"]);
    } else {
        set(object, &["status", "conditions"], Value::Array(all));
    }
}

/// Sets a time in a condition, such as `lastHeartbeatTime`.
pub(crate) fn set_condition_time(object: &mut Value, kind: &str, field: &str, now: Timestamp) {
    set_condition_field(object, kind, field, &json!(format_time(now)));
}

/// Sets a field of the condition with the type `kind`.
pub(crate) fn set_condition_field(object: &mut Value, kind: &str, field: &str, new: &Value) {
    for one in conditions_mut(object).iter_mut().filter(|one| text(one, &["type"]) == kind) {
        set(one, &[field], new.clone());
    }
}

/// The list `status.conditions` of an object, which is created if absent.
fn conditions_mut(object: &mut Value) -> &mut Vec<Value> {
    let status = as_map(object).entry("status").or_insert(Value::Null);
    let all = as_map(status).entry("conditions").or_insert(Value::Null);
    if !all.is_array() {
        *all = Value::Array(Vec::new());
    }
    all.as_array_mut().expect("`status.conditions` was just set to an array")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use schedlab_api::{json, object::text};

    use super::{Condition, find_condition, set_condition};

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_stays() {
        let [first, second] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
            .map(|text| text.parse::<Timestamp>().unwrap());
        let mut object = json!({});
        let ready = |status, reason| Condition { kind: "Ready", status, reason, message: "" };
        set_condition(&mut object, &ready("True", "A"), first);
        set_condition(&mut object, &ready("True", "B"), second);
        let now = |object: &schedlab_api::Value, field| {
            text(find_condition(object, "Ready").unwrap(), &[field]).to_owned()
        };
        assert_eq!(now(&object, "lastTransitionTime"), "2026-01-01T00:00:00Z");
        assert_eq!(now(&object, "reason"), "B");
        set_condition(&mut object, &ready("False", ""), second);
        assert_eq!(now(&object, "lastTransitionTime"), "2026-01-02T00:00:00Z");
    }
}
