//! Classifies a write by what it means to a person: a pod was bound, a node became unready.
//! Used by event streams in snapshots and by the history of a rule violation. Writes without such a
//! meaning (leases, bookkeeping) have no change.

use std::fmt;

use schedlab_api::{
    Value, annotations, conditions,
    object::annotation,
    pointer::{at, text},
};

use crate::write::{Write, WriteKind};

/// A change of an object, derived from a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The object was created; a pod may be created with a node.
    Created,
    /// The object was deleted.
    Deleted,
    /// A pod was bound to this node.
    Bound(String),
    /// A pod was assigned GPUs, given by their indices.
    Devices(String),
    /// A pod started to run.
    Started,
    /// A pod succeeded.
    Succeeded,
    /// A pod failed.
    Failed,
    /// The deletion of the object was requested, with this grace period in seconds.
    DeletionRequested(i64),
    /// The scheduler reported why a pod is unschedulable.
    Unschedulable(String),
    /// A node became ready, or not ready.
    Ready(bool),
    /// A node was cordoned, or uncordoned.
    Cordoned(bool),
    /// The taints of a node changed to these.
    Tainted(Vec<String>),
    /// The spec of a queue or pod group changed.
    SpecChanged,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("created"),
            Self::Deleted => f.write_str("gone"),
            Self::Bound(node) => write!(f, "bound to {node}"),
            Self::Devices(devices) => write!(f, "has GPU {devices}"),
            Self::Started => f.write_str("started"),
            Self::Succeeded => f.write_str("succeeded"),
            Self::Failed => f.write_str("failed"),
            Self::DeletionRequested(grace) => {
                write!(f, "deletion requested, grace period {grace}s")
            }
            Self::Unschedulable(reason) => write!(f, "waits: {reason}"),
            Self::Ready(true) => f.write_str("is ready"),
            Self::Ready(false) => f.write_str("is not ready"),
            Self::Cordoned(true) => f.write_str("cordoned"),
            Self::Cordoned(false) => f.write_str("uncordoned"),
            Self::Tainted(taints) if taints.is_empty() => f.write_str("has no taint"),
            Self::Tainted(taints) => write!(f, "tainted {}", taints.join(", ")),
            Self::SpecChanged => f.write_str("changed"),
        }
    }
}

/// The changes that a write makes to its object. Most writes change nothing that this enum lists.
pub fn changes_of_write(write: &Write) -> Vec<Change> {
    let mut changes = Vec::new();
    let (old, new) = (write.previous.as_deref(), &*write.object);
    match write.kind {
        WriteKind::Create => changes.push(Change::Created),
        WriteKind::Delete => return vec![Change::Deleted],
        WriteKind::Update => {}
    }
    if let Some(grace) = at(new, "/metadata/deletionGracePeriodSeconds")
        && old.is_some_and(|old| at(old, "/metadata/deletionTimestamp").is_none())
    {
        changes.push(Change::DeletionRequested(grace.as_i64().unwrap_or(0)));
    }
    match &*write.key.plural {
        "pods" => pod_changes(&mut changes, old, new),
        "nodes" => node_changes(&mut changes, old, new),
        "queues" | "podgroups" if old.is_some_and(|old| old.get("spec") != new.get("spec")) => {
            changes.push(Change::SpecChanged);
        }
        _ => {}
    }
    changes
}

fn pod_changes(changes: &mut Vec<Change>, old: Option<&Value>, new: &Value) {
    let fresh = |read: fn(&Value) -> Option<&str>| {
        let was = old.and_then(read);
        read(new).filter(|is| Some(*is) != was && !is.is_empty())
    };
    changes.extend(
        fresh(|pod| text(pod, "/spec/nodeName")).map(|node| Change::Bound(node.to_owned())),
    );
    let devices = fresh(|pod| annotation(pod, annotations::GPU_DEVICES));
    changes.extend(devices.map(|devices| Change::Devices(devices.to_owned())));
    changes.extend(fresh(|pod| text(pod, "/status/phase")).and_then(|phase| match phase {
        "Running" => Some(Change::Started),
        "Succeeded" => Some(Change::Succeeded),
        "Failed" => Some(Change::Failed),
        _ => None,
    }));
    let reason = unschedulable_message(new);
    if reason.is_some() && reason != old.and_then(unschedulable_message) {
        changes.extend(reason.map(|reason| Change::Unschedulable(reason.to_owned())));
    }
}

/// The message of the condition with which the scheduler reported that the pod is unschedulable.
pub fn unschedulable_message(pod: &Value) -> Option<&str> {
    let scheduled = condition_of_type(pod, conditions::POD_SCHEDULED)?;
    (text(scheduled, "/status") == Some("False")).then(|| text(scheduled, "/message"))?
}

/// The message of the condition with which the scheduler reported why it evicts the pod, and for
/// which preemptor.
pub fn eviction_message(pod: &Value) -> Option<&str> {
    let disrupted = condition_of_type(pod, conditions::DISRUPTION_TARGET)?;
    let stands = text(disrupted, "/status") == Some("True");
    let ours = text(disrupted, "/reason") == Some(conditions::PREEMPTION_BY_SCHEDULER);
    (stands && ours).then(|| text(disrupted, "/message"))?
}

/// Whether this write requested the deletion of the object. A pod without a node is deleted
/// immediately.
pub fn requests_deletion(write: &Write) -> bool {
    let leaving = |object: &Value| at(object, "/metadata/deletionTimestamp").is_some();
    let stayed = write.previous.as_ref().is_some_and(|old| !leaving(old));
    stayed && (leaving(&write.object) || write.kind == WriteKind::Delete)
}

fn node_changes(changes: &mut Vec<Change>, old: Option<&Value>, new: &Value) {
    let ready = |node| {
        condition_of_type(node, conditions::READY)
            .map(|ready| text(ready, "/status") == Some("True"))
    };
    if ready(new) != old.and_then(ready) {
        changes.extend(ready(new).map(Change::Ready));
    }
    let cordoned =
        |node: &Value| at(node, "/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    if cordoned(new) != old.is_some_and(cordoned) {
        changes.push(Change::Cordoned(cordoned(new)));
    }
    let taints = taint_texts(new);
    if taints != old.map(taint_texts).unwrap_or_default() {
        changes.push(Change::Tainted(taints));
    }
}

fn taint_texts(node: &Value) -> Vec<String> {
    let taints = at(node, "/spec/taints").and_then(Value::as_array);
    let word = |taint: &Value| {
        let part = |path| text(taint, path).unwrap_or_default();
        let (key, value, effect) = (part("/key"), part("/value"), part("/effect"));
        if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
    };
    taints.into_iter().flatten().map(word).collect()
}

/// The condition of this type in the status of an object.
pub(crate) fn condition_of_type<'a>(object: &'a Value, condition_type: &str) -> Option<&'a Value> {
    let conditions = at(object, "/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| text(condition, "/type") == Some(condition_type))
}

/// Formats a time since the start of the run for people: `+0s`, `+1.5s`, `+2h03m00s`.
pub fn format_offset(millis: i64) -> String {
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
        let offsets = [0, 1, 1500, 61_000, 86_400_000, -2000].map(format_offset);
        assert_eq!(offsets, ["+0s", "+0.001s", "+1.5s", "+1m01s", "+24h00m00s", "-2s"]);
    }
}
