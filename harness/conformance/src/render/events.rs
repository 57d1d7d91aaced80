//! Renders what happened, one event per line: when, to which object, and why. Pods with the same
//! change at the same time share a line.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use jiff::Timestamp;
use schedlab_api::Value;
use schedlab_audit::{
    Change, EvictionCause, EvictionCauses, EvictionKind, eviction_message, format_offset,
};
use schedlab_emulator::store::{EventKind, LogEntry};

use super::aliases::{Alias, Aliases, join_alias_texts};
use crate::history::changes_of_entry;

/// Times are rounded to a tenth of a second, because the exact millisecond at which a test saw the
/// cluster idle is irrelevant.
const TICK_MILLIS: i64 = 100;

/// The event stream for a log from `start` on: a text with one line for each event, with time and
/// cause.
pub fn event_stream(log: &[Arc<LogEntry>], start: Timestamp) -> String {
    let mut stream = EventStreamBuilder {
        eviction_messages: eviction_messages_by_pod(log),
        eviction_causes: eviction_causes(log),
        ..EventStreamBuilder::default()
    };
    for entry in log {
        stream.record_entry(entry, start);
    }
    // Within a moment, first what frees resources, then what takes them, then what is pending.
    stream.lines.sort_by_key(|line| (line.at, line.action.sort_rank()));
    let times: Vec<String> = stream.lines.iter().map(|line| format_offset(line.at)).collect();
    let width = times.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (at, line) in times.into_iter().zip(&stream.lines) {
        let _ = writeln!(text, "{at:<width$}  {}", line.action_text());
    }
    text
}

#[derive(Default)]
struct EventStreamBuilder {
    aliases: Aliases,
    eviction_messages: BTreeMap<(String, i64), String>,
    eviction_causes: EvictionCauses,
    lines: Vec<EventLine>,
}

/// A line of the event stream: its objects, what happened to them and, for evictions, the
/// preemptors.
struct EventLine {
    at: i64,
    subjects: Vec<Alias>,
    action: EventAction,
    preemptors: Vec<Alias>,
}

/// What happened to an object. Lines with the same time and the same action are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EventAction {
    Plain(String),
    /// The pod was evicted for a preemptor; the text is the kind of eviction, such as `reclaim`.
    Evicted(&'static str),
}

impl EventAction {
    fn sort_rank(&self) -> usize {
        const ORDER: [&str; 6] = ["evicted", "stopped", "succeeded", "failed", "bound", "started"];
        match self {
            Self::Evicted(_) => 1,
            Self::Plain(what) if what.starts_with("waits") => ORDER.len() + 1,
            Self::Plain(what) => {
                let at = ORDER.iter().position(|word| what.starts_with(word));
                at.map_or(0, |at| at + 1)
            }
        }
    }
}

impl EventLine {
    fn action_text(&self) -> String {
        let subjects = join_alias_texts(self.subjects.clone());
        match &self.action {
            EventAction::Plain(what) => format!("{subjects} {what}"),
            EventAction::Evicted(why) => {
                format!(
                    "{subjects} evicted for {} ({why})",
                    join_alias_texts(self.preemptors.clone())
                )
            }
        }
    }
}

impl EventStreamBuilder {
    fn record_entry(&mut self, entry: &LogEntry, start: Timestamp) {
        let plural = &*entry.key.resource.plural;
        if plural == "pods" {
            self.aliases.register_pod(&entry.object);
        }
        let millis = entry.time.as_millisecond() - start.as_millisecond();
        if millis < 0 {
            return;
        }
        let at = (millis + TICK_MILLIS / 2) / TICK_MILLIS * TICK_MILLIS;
        for change in changes_of_entry(entry) {
            let action = match plural {
                "pods" => self.pod_action_and_preemptor(entry, &change),
                "nodes" => node_change_text(entry, &change).map(action_without_preemptor),
                "queues" => queue_change_text(&change).map(action_without_preemptor),
                _ => None,
            };
            let subject = match plural {
                "pods" => self.aliases.alias_of(&entry.key.namespace, &entry.key.name),
                "queues" => Alias { stem: format!("queue {}", entry.key.name), number: None },
                _ => Alias::from_name(&format!("node {}", entry.key.name)),
            };
            if let Some((what, preemptor)) = action {
                self.add_to_line(at, subject, what, preemptor);
            }
        }
    }

    /// Adds an object to the line with this time and action, or appends a line.
    fn add_to_line(
        &mut self,
        at: i64,
        subject: Alias,
        action: EventAction,
        preemptor: Option<Alias>,
    ) {
        let mut present = self.lines.iter_mut().rev().take_while(|line| line.at == at);
        if let Some(line) = present.find(|line| line.action == action) {
            line.subjects.push(subject);
            line.preemptors.extend(preemptor);
        } else {
            let preemptor = preemptor.into_iter().collect();
            self.lines.push(EventLine {
                at,
                subjects: vec![subject],
                action,
                preemptors: preemptor,
            });
        }
    }

    fn pod_action_and_preemptor(
        &self,
        entry: &LogEntry,
        change: &Change,
    ) -> Option<(EventAction, Option<Alias>)> {
        match change {
            Change::Succeeded | Change::Failed if is_terminating(&entry.object) => {
                Some(action_without_preemptor("stopped".to_owned()))
            }
            Change::Bound(_) | Change::Started | Change::Succeeded | Change::Failed => {
                Some(action_without_preemptor(change.to_string()))
            }
            Change::Unschedulable(reason) => Some(action_without_preemptor(format!(
                "waits: {}",
                self.aliases.replace_names(reason)
            ))),
            Change::DeletionRequested(_) => Some(self.departure_action(entry)),
            Change::Deleted => {
                let already_reported = is_terminating(&entry.object)
                    && entry.previous.as_ref().is_some_and(|old| is_bound(old));
                (!already_reported).then(|| self.departure_action(entry))
            }
            Change::Created
            | Change::Devices(_)
            | Change::Ready(_)
            | Change::Cordoned(_)
            | Change::Tainted(_)
            | Change::SpecChanged => None,
        }
    }

    /// Why a pod was deleted: the preemptor for which it was evicted, or else the client that
    /// deleted the pod.
    fn departure_action(&self, entry: &LogEntry) -> (EventAction, Option<Alias>) {
        let pod = format!("{}/{}", entry.key.namespace, entry.key.name);
        let message = self.eviction_messages.get(&(pod, entry.time.as_millisecond()));
        let Some(text) = eviction_message(&entry.object).or(message.map(String::as_str)) else {
            return action_without_preemptor(format!("deleted by {}", entry.manager));
        };
        match self.eviction_causes.cause_of_eviction(&entry.object, text) {
            Ok(EvictionCause::Preemptor { kind, preemptor }) => (
                EventAction::Evicted(eviction_word(kind)),
                Some(self.aliases.alias_of_pod_group(&preemptor)),
            ),
            Ok(EvictionCause::StaleGang) | Err(_) => {
                action_without_preemptor(format!("evicted: {}", self.aliases.replace_names(text)))
            }
        }
    }
}

/// The word for a kind of eviction, such as `reclaim`.
pub(crate) const fn eviction_word(kind: EvictionKind) -> &'static str {
    match kind {
        EvictionKind::Reclaim => "reclaim",
        EvictionKind::Preempt => "priority",
        EvictionKind::Consolidate => "consolidation",
    }
}

/// The causes of evictions that the events in a log announce.
pub(crate) fn eviction_causes(log: &[Arc<LogEntry>]) -> EvictionCauses {
    let mut causes = EvictionCauses::default();
    let events = log.iter().filter(|entry| {
        entry.key.resource.plural.as_ref() == "events" && entry.kind != EventKind::Deleted
    });
    events.for_each(|entry| causes.observe_event(&entry.object));
    causes
}

fn action_without_preemptor(what: String) -> (EventAction, Option<Alias>) {
    (EventAction::Plain(what), None)
}

fn node_change_text(entry: &LogEntry, change: &Change) -> Option<String> {
    match change {
        Change::Created | Change::Deleted | Change::Cordoned(_) => Some(change.to_string()),
        // A new node is unready for a moment, which is not worth a line.
        Change::Ready(_) => entry.previous.as_ref().map(|_| change.to_string()),
        Change::Bound(_)
        | Change::Devices(_)
        | Change::Started
        | Change::Succeeded
        | Change::Failed
        | Change::DeletionRequested(_)
        | Change::Unschedulable(_)
        | Change::Tainted(_)
        | Change::SpecChanged => None,
    }
}

fn queue_change_text(change: &Change) -> Option<String> {
    match change {
        Change::SpecChanged => Some("changed".to_owned()),
        Change::Deleted => Some("deleted".to_owned()),
        Change::Created
        | Change::Bound(_)
        | Change::Devices(_)
        | Change::Started
        | Change::Succeeded
        | Change::Failed
        | Change::DeletionRequested(_)
        | Change::Unschedulable(_)
        | Change::Ready(_)
        | Change::Cordoned(_)
        | Change::Tainted(_) => None,
    }
}

fn is_terminating(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

fn is_bound(pod: &Value) -> bool {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
}

/// The messages of eviction events, by the pod's name and the time.
fn eviction_messages_by_pod(log: &[Arc<LogEntry>]) -> BTreeMap<(String, i64), String> {
    let events = log.iter().filter(|entry| {
        entry.key.resource.plural.as_ref() == "events" && entry.kind != EventKind::Deleted
    });
    let causes = events.filter_map(|entry| {
        let field = |at| entry.object.pointer(at).and_then(Value::as_str);
        let reason = field("/reason")?;
        let evicts = matches!(reason, "Evict" | "Evicted" | "Preempted");
        let about = field("/involvedObject/kind") == Some("Pod");
        let name = field("/involvedObject/name")?;
        let pod = format!("{}/{name}", field("/involvedObject/namespace")?);
        let message = field("/message").or_else(|| field("/note"))?;
        (evicts && about).then(|| ((pod, entry.time.as_millisecond()), message.to_owned()))
    });
    causes.collect()
}
