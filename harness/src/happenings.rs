//! What a line of the log means to a person: a pod was bound, a node went down. Shared by the
//! event-stream snapshot and by the history of a breach. Writes that mean nothing to a person
//! (heartbeats, bookkeeping) have no happening.

use std::fmt;

use schedlab_emulator::store::{EventKind, LogEntry};
use schedlab_json::Value;

use crate::fields::{at, text};

/// One thing that happened to the object of a log entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happening {
    /// It came into being; a pod may be created on a node.
    Created,
    /// It is gone.
    Gone,
    /// A pod was put on a node.
    Bound(String),
    /// A pod got GPUs, by index.
    Devices(String),
    /// A pod runs.
    Started,
    /// A pod finished well.
    Succeeded,
    /// A pod finished badly.
    Failed,
    /// It was asked to go, within this many seconds.
    AskedToLeave(i64),
    /// A pod cannot be placed, and why.
    Waits(String),
    /// A node is ready, or not.
    Ready(bool),
    /// A node takes new pods, or not.
    Cordoned(bool),
    /// A node has these taints now.
    Tainted(Vec<String>),
    /// What is wanted was changed: a queue's or a pod group's spec.
    Changed,
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("created"),
            Self::Gone => f.write_str("gone"),
            Self::Bound(node) => write!(f, "bound to {node}"),
            Self::Devices(devices) => write!(f, "has GPU {devices}"),
            Self::Started => f.write_str("started"),
            Self::Succeeded => f.write_str("succeeded"),
            Self::Failed => f.write_str("failed"),
            Self::AskedToLeave(grace) => write!(f, "asked to leave within {grace}s"),
            Self::Waits(reason) => write!(f, "waits: {reason}"),
            Self::Ready(true) => f.write_str("is ready"),
            Self::Ready(false) => f.write_str("is not ready"),
            Self::Cordoned(true) => f.write_str("cordoned"),
            Self::Cordoned(false) => f.write_str("uncordoned"),
            Self::Tainted(taints) if taints.is_empty() => f.write_str("has no taint"),
            Self::Tainted(taints) => write!(f, "tainted {}", taints.join(", ")),
            Self::Changed => f.write_str("changed"),
        }
    }
}

/// What this write means; often nothing.
pub fn happenings(entry: &LogEntry) -> Vec<Happening> {
    let mut found = Vec::new();
    let (old, new) = (entry.previous.as_deref(), &*entry.object);
    match entry.kind {
        EventKind::Added => found.push(Happening::Created),
        EventKind::Deleted => return vec![Happening::Gone],
        EventKind::Modified => {}
    }
    if let Some(grace) = at(new, "/metadata/deletionGracePeriodSeconds")
        && old.is_some_and(|old| at(old, "/metadata/deletionTimestamp").is_none())
    {
        found.push(Happening::AskedToLeave(grace.as_i64().unwrap_or(0)));
    }
    match &*entry.key.resource.plural {
        "pods" => pod(&mut found, old, new),
        "nodes" => node(&mut found, old, new),
        "queues" | "podgroups" if old.is_some_and(|old| old.get("spec") != new.get("spec")) => {
            found.push(Happening::Changed);
        }
        _ => {}
    }
    found
}

fn pod(found: &mut Vec<Happening>, old: Option<&Value>, new: &Value) {
    let fresh = |path: &str| {
        let was = old.and_then(|old| text(old, path));
        text(new, path).filter(|is| Some(*is) != was && !is.is_empty())
    };
    found.extend(fresh("/spec/nodeName").map(|node| Happening::Bound(node.to_owned())));
    let devices = fresh("/metadata/annotations/schedlab.dev~1gpu-devices");
    found.extend(devices.map(|devices| Happening::Devices(devices.to_owned())));
    found.extend(fresh("/status/phase").and_then(|phase| match phase {
        "Running" => Some(Happening::Started),
        "Succeeded" => Some(Happening::Succeeded),
        "Failed" => Some(Happening::Failed),
        _ => None,
    }));
    let reason = waiting_reason(new);
    if reason.is_some() && reason != old.and_then(waiting_reason) {
        found.extend(reason.map(|reason| Happening::Waits(reason.to_owned())));
    }
}

/// The message with which a pod was told that it cannot be placed.
pub fn waiting_reason(pod: &Value) -> Option<&str> {
    let scheduled = condition(pod, "PodScheduled")?;
    (text(scheduled, "/status") == Some("False")).then(|| text(scheduled, "/message"))?
}

/// For whom and why the scheduler evicts a pod, as it told the pod.
pub fn eviction_cause(pod: &Value) -> Option<&str> {
    let disrupted = condition(pod, "DisruptionTarget")?;
    let stands = text(disrupted, "/status") == Some("True");
    let ours = text(disrupted, "/reason") == Some("PreemptionByScheduler");
    (stands && ours).then(|| text(disrupted, "/message"))?
}

/// Was the object asked to go by this very write? An unbound pod goes at once.
pub fn asked_to_leave(entry: &LogEntry) -> bool {
    let leaving = |object: &Value| at(object, "/metadata/deletionTimestamp").is_some();
    let stayed = entry.previous.as_ref().is_some_and(|old| !leaving(old));
    stayed && (leaving(&entry.object) || entry.kind == EventKind::Deleted)
}

fn node(found: &mut Vec<Happening>, old: Option<&Value>, new: &Value) {
    let ready = |node| condition(node, "Ready").map(|ready| text(ready, "/status") == Some("True"));
    if ready(new) != old.and_then(ready) {
        found.extend(ready(new).map(Happening::Ready));
    }
    let cordoned =
        |node: &Value| at(node, "/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    if cordoned(new) != old.is_some_and(cordoned) {
        found.push(Happening::Cordoned(cordoned(new)));
    }
    let taints = taints(new);
    if taints != old.map(self::taints).unwrap_or_default() {
        found.push(Happening::Tainted(taints));
    }
}

fn taints(node: &Value) -> Vec<String> {
    let taints = at(node, "/spec/taints").and_then(Value::as_array);
    let word = |taint: &Value| {
        let part = |path| text(taint, path).unwrap_or_default();
        let (key, value, effect) = (part("/key"), part("/value"), part("/effect"));
        if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
    };
    taints.into_iter().flatten().map(word).collect()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = at(object, "/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| text(condition, "/type") == Some(kind))
}

/// A time since the start, as people read it: `+0s`, `+1.5s`, `+2h03m00s`.
pub fn offset(millis: i64) -> String {
    let (sign, millis) = if millis < 0 { ('-', -millis) } else { ('+', millis) };
    let (secs, rest) = (millis / 1000, millis % 1000);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:03}") };
    let fraction = fraction.trim_end_matches('0');
    match (secs / 3600, secs / 60 % 60, secs % 60) {
        (0, 0, secs) => format!("{sign}{secs}{fraction}s"),
        (0, minutes, secs) => format!("{sign}{minutes}m{secs:02}{fraction}s"),
        (hours, minutes, secs) => format!("{sign}{hours}h{minutes:02}m{secs:02}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_read_like_times() {
        let offsets = [0, 1, 1500, 61_000, 86_400_000, -2000].map(offset);
        assert_eq!(offsets, ["+0s", "+0.001s", "+1.5s", "+1m01s", "+24h00m00s", "-2s"]);
    }
}
