//! What happened, one event a line: when, to whom, and why. Pods to which the same thing
//! happened at the same time share a line.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use jiff::Timestamp;
use schedlab_emulator::store::{EventKind, LogEntry};
use schedlab_json::Value;
use schedlab_scheduler_core::audit::Why;

use super::ordinals::{Ordinals, Shown, joined};
use crate::audit;
use crate::happenings::{Happening, eviction_cause, happenings, offset};

/// Times are told to a tenth of a second: the millisecond in which a test waits for quiet is no
/// part of the story.
const TICK_MILLIS: i64 = 100;

/// The story of a log (a store's, or one put together from watches), told from `start` on.
pub fn event_stream(log: &[Arc<LogEntry>], start: Timestamp) -> String {
    let mut story = Story { causes: causes(log), ..Story::default() };
    for entry in log {
        story.tell(entry, start);
    }
    // Within a moment: first what makes room, then who takes it, then who waits.
    story.lines.sort_by_key(|line| (line.at, line.what.rank()));
    let times: Vec<String> = story.lines.iter().map(|line| offset(line.at)).collect();
    let width = times.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (at, line) in times.into_iter().zip(&story.lines) {
        let _ = writeln!(text, "{at:<width$}  {}", line.text());
    }
    text
}

#[derive(Default)]
struct Story {
    ordinals: Ordinals,
    causes: BTreeMap<(String, i64), String>,
    lines: Vec<Line>,
}

/// Who, what, and for evictions for whom.
struct Line {
    at: i64,
    who: Vec<Shown>,
    what: What,
    for_whom: Vec<Shown>,
}

/// What happened: lines of one moment that say the same are one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Plain(String),
    /// Evicted for somebody, by this rule.
    Evicted(&'static str),
}

impl What {
    fn rank(&self) -> usize {
        const BEGINNINGS: [&str; 6] =
            ["evicted", "stopped", "succeeded", "failed", "bound", "started"];
        match self {
            Self::Evicted(_) => 1,
            Self::Plain(what) if what.starts_with("waits") => BEGINNINGS.len() + 1,
            Self::Plain(what) => {
                let at = BEGINNINGS.iter().position(|word| what.starts_with(word));
                at.map_or(0, |at| at + 1)
            }
        }
    }
}

impl Line {
    fn text(&self) -> String {
        let who = joined(self.who.clone());
        match &self.what {
            What::Plain(what) => format!("{who} {what}"),
            What::Evicted(why) => {
                format!("{who} evicted for {} ({why})", joined(self.for_whom.clone()))
            }
        }
    }
}

impl Story {
    fn tell(&mut self, entry: &LogEntry, start: Timestamp) {
        let plural = &*entry.key.resource.plural;
        if plural == "pods" {
            self.ordinals.note(&entry.object);
        }
        let millis = entry.time.as_millisecond() - start.as_millisecond();
        if millis < 0 {
            return;
        }
        let at = (millis + TICK_MILLIS / 2) / TICK_MILLIS * TICK_MILLIS;
        for happening in happenings(entry) {
            let told = match plural {
                "pods" => self.of_pod(entry, &happening),
                "nodes" => of_node(entry, &happening).map(told),
                "queues" => of_queue(&happening).map(told),
                _ => None,
            };
            let who = match plural {
                "pods" => self.ordinals.shown(&entry.key.namespace, &entry.key.name),
                "queues" => Shown { stem: format!("queue {}", entry.key.name), number: None },
                _ => Shown::plain(&format!("node {}", entry.key.name)),
            };
            if let Some((what, for_whom)) = told {
                self.line((at, who), what, for_whom);
            }
        }
    }

    /// Adds to a line of this moment that says the same, or begins one.
    fn line(&mut self, (at, who): (i64, Shown), what: What, for_whom: Option<Shown>) {
        let mut present = self.lines.iter_mut().rev().take_while(|line| line.at == at);
        if let Some(line) = present.find(|line| line.what == what) {
            line.who.push(who);
            line.for_whom.extend(for_whom);
        } else {
            let for_whom = for_whom.into_iter().collect();
            self.lines.push(Line { at, who: vec![who], what, for_whom });
        }
    }

    fn of_pod(&self, entry: &LogEntry, happening: &Happening) -> Option<(What, Option<Shown>)> {
        match happening {
            Happening::Succeeded | Happening::Failed if leaves(&entry.object) => {
                Some(told("stopped".to_owned()))
            }
            Happening::Bound(_) | Happening::Started | Happening::Succeeded | Happening::Failed => {
                Some(told(happening.to_string()))
            }
            Happening::Waits(reason) => {
                Some(told(format!("waits: {}", self.ordinals.tidy(reason))))
            }
            Happening::AskedToLeave(_) => Some(self.farewell(entry)),
            Happening::Gone => {
                let told =
                    leaves(&entry.object) && entry.previous.as_ref().is_some_and(|old| bound(old));
                (!told).then(|| self.farewell(entry))
            }
            Happening::Created
            | Happening::Devices(_)
            | Happening::Ready(_)
            | Happening::Cordoned(_)
            | Happening::Tainted(_)
            | Happening::Changed => None,
        }
    }

    /// Why a pod goes: for whom the scheduler evicts it, or else who took it away.
    fn farewell(&self, entry: &LogEntry) -> (What, Option<Shown>) {
        let pod = format!("{}/{}", entry.key.namespace, entry.key.name);
        let said = self.causes.get(&(pod.clone(), entry.time.as_millisecond()));
        let Some(cause) = eviction_cause(&entry.object).or(said.map(String::as_str)) else {
            return told(format!("deleted by {}", entry.manager));
        };
        match audit::eviction(&pod.into(), cause) {
            Some(eviction) => {
                let why = match eviction.why {
                    Why::Reclaim => "reclaim",
                    Why::Preempt => "priority",
                    Why::Consolidate => "consolidation",
                };
                (What::Evicted(why), Some(self.ordinals.workload(&eviction.preemptor)))
            }
            None => told(format!("evicted: {}", self.ordinals.tidy(cause))),
        }
    }
}

fn told(what: String) -> (What, Option<Shown>) {
    (What::Plain(what), None)
}

fn of_node(entry: &LogEntry, happening: &Happening) -> Option<String> {
    match happening {
        Happening::Created | Happening::Gone | Happening::Cordoned(_) => {
            Some(happening.to_string())
        }
        // A node that comes is not ready for a moment: no news.
        Happening::Ready(_) => entry.previous.as_ref().map(|_| happening.to_string()),
        Happening::Bound(_)
        | Happening::Devices(_)
        | Happening::Started
        | Happening::Succeeded
        | Happening::Failed
        | Happening::AskedToLeave(_)
        | Happening::Waits(_)
        | Happening::Tainted(_)
        | Happening::Changed => None,
    }
}

fn of_queue(happening: &Happening) -> Option<String> {
    match happening {
        Happening::Changed => Some("changed".to_owned()),
        Happening::Gone => Some("deleted".to_owned()),
        Happening::Created
        | Happening::Bound(_)
        | Happening::Devices(_)
        | Happening::Started
        | Happening::Succeeded
        | Happening::Failed
        | Happening::AskedToLeave(_)
        | Happening::Waits(_)
        | Happening::Ready(_)
        | Happening::Cordoned(_)
        | Happening::Tainted(_) => None,
    }
}

fn leaves(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

fn bound(pod: &Value) -> bool {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
}

/// What was said of evicted pods, by pod and moment, in events of reason `Evict` and
/// `Preempted`.
fn causes(log: &[Arc<LogEntry>]) -> BTreeMap<(String, i64), String> {
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
