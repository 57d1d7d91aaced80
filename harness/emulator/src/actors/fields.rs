//! Moments, durations and conditions in objects. As in [`crate::object`], what is missing or of
//! a wrong type reads as absent: actors meet objects that an API server would let through, so
//! nothing here can fail.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::object::{at, list, set, text};

/// The moment at a path.
pub(crate) fn time(value: &Value, path: &[&str]) -> Option<Timestamp> {
    text(value, path).parse().ok()
}

/// The entries of the map at a path whose values are texts.
pub(crate) fn texts<'v>(
    value: &'v Value,
    path: &[&str],
) -> impl Iterator<Item = (&'v str, &'v str)> + use<'v> {
    let map = crate::object::map(value, path);
    map.into_iter().flatten().filter_map(|(key, text)| Some((key.as_str(), text.as_str()?)))
}

/// Whether the value at a path is `true`.
pub(crate) fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// A moment as the API writes it: whole seconds.
pub(crate) fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A moment as leases write it: microseconds.
pub(crate) fn micro_stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// A moment later than another; the end of time when there is none.
pub(crate) fn after(time: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait)
        .ok()
        .and_then(|wait| time.checked_add(wait).ok())
        .unwrap_or(Timestamp::MAX)
}

/// A moment some seconds later (or earlier) than another.
pub(crate) fn after_secs(time: Timestamp, secs: i64) -> Timestamp {
    let end = if secs < 0 { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(SignedDuration::from_secs(secs)).unwrap_or(end)
}

/// A condition to be set.
pub(crate) struct Condition<'a> {
    /// `type`.
    pub kind: &'a str,
    /// `status`: `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// `reason`; absent when empty.
    pub reason: &'a str,
    /// `message`; absent when empty.
    pub message: &'a str,
}

/// A condition of an object.
pub(crate) fn find_condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == kind)
}

/// Sets a condition in `status.conditions`; its transition time moves only with its status.
pub(crate) fn set_condition(object: &mut Value, new: &Condition, now: Timestamp) {
    let mut all = list(object, &["status", "conditions"]).to_vec();
    let place = all.iter().position(|one| text(one, &["type"]) == new.kind);
    let old = place.map(|place| all[place].clone());
    let since = match &old {
        Some(old) if text(old, &["status"]) == new.status => {
            old.get("lastTransitionTime").cloned().unwrap_or_else(|| json!(stamp(now)))
        }
        Some(_) | None => json!(stamp(now)),
    };
    let mut made = match old {
        Some(Value::Object(fields)) => fields,
        Some(_) | None => Map::new(),
    };
    made.insert("type".to_owned(), json!(new.kind));
    made.insert("status".to_owned(), json!(new.status));
    made.insert("lastTransitionTime".to_owned(), since);
    for (field, text) in [("reason", new.reason), ("message", new.message)] {
        if text.is_empty() {
            made.remove(field);
        } else {
            made.insert(field.to_owned(), json!(text));
        }
    }
    match place {
        Some(place) => all[place] = Value::Object(made),
        None => all.push(Value::Object(made)),
    }
    set(object, &["status", "conditions"], Value::Array(all));
}

/// Takes a condition off an object.
pub(crate) fn drop_condition(object: &mut Value, kind: &str) {
    let mut all = list(object, &["status", "conditions"]).to_vec();
    all.retain(|one| text(one, &["type"]) != kind);
    if all.is_empty() {
        crate::object::remove(object, &["status", "conditions"]);
    } else {
        set(object, &["status", "conditions"], Value::Array(all));
    }
}

/// Notes the moment at which a node last spoke of a condition.
pub(crate) fn condition_heartbeat(object: &mut Value, kind: &str, now: Timestamp) {
    let mut all = list(object, &["status", "conditions"]).to_vec();
    for one in all.iter_mut().filter(|one| text(one, &["type"]) == kind) {
        set(one, &["lastHeartbeatTime"], json!(stamp(now)));
    }
    set(object, &["status", "conditions"], Value::Array(all));
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::{Condition, find_condition, set_condition};
    use crate::object::text;

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_stays() {
        let [first, second] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
            .map(|text| text.parse::<Timestamp>().unwrap());
        let mut object = json!({});
        let ready = |status, reason| Condition { kind: "Ready", status, reason, message: "" };
        set_condition(&mut object, &ready("True", "A"), first);
        set_condition(&mut object, &ready("True", "B"), second);
        let now = |object: &serde_json::Value, field| {
            text(find_condition(object, "Ready").unwrap(), &[field]).to_owned()
        };
        assert_eq!(now(&object, "lastTransitionTime"), "2026-01-01T00:00:00Z");
        assert_eq!(now(&object, "reason"), "B");
        set_condition(&mut object, &ready("False", ""), second);
        assert_eq!(now(&object, "lastTransitionTime"), "2026-01-02T00:00:00Z");
    }
}
