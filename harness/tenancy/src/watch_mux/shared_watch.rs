//! The lines of one shared watch, and its subscribers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use memchr::memmem::Finder;
use serde::Deserialize;
use tokio::sync::mpsc::UnboundedSender;

use super::Subscription;
use crate::names::prefixes_in_text;

/// One line of a watch stream.
pub(crate) type WatchLine = Arc<str>;

/// How many lines are kept for late subscribers.
const BACKLOG_LINES_MAX: usize = 4096;

/// A watch of one collection whose lines are sent to several subscribers.
pub(super) struct SharedWatch {
    /// Finds the run's short name, which is part of the prefixes of all scenarios.
    run_name: Finder<'static>,
    /// The `resourceVersion` after which all changes are in the backlog.
    oldest_revision: u64,
    /// The newest lines of the watch, with their revisions.
    backlog: VecDeque<(u64, WatchLine)>,
    /// Subscribers by the prefix of their scenario.
    subscribers: BTreeMap<String, Vec<Subscriber>>,
}

struct Subscriber {
    from_revision: u64,
    wants_bookmarks: bool,
    lines: UnboundedSender<WatchLine>,
}

/// The parts of a watch line that have to be decoded.
#[derive(Deserialize)]
struct WatchLineHeader<'a> {
    #[serde(rename = "type", borrow)]
    event_type: &'a str,
    object: LineObject<'a>,
}

#[derive(Deserialize)]
struct LineObject<'a> {
    #[serde(borrow)]
    metadata: LineMetadata<'a>,
}

#[derive(Deserialize)]
struct LineMetadata<'a> {
    #[serde(rename = "resourceVersion", borrow, default)]
    resource_version: Option<&'a str>,
}

impl SharedWatch {
    /// A shared watch that starts after the `resourceVersion` `from`.
    pub(super) fn new(name: &str, from: u64) -> Self {
        Self {
            run_name: Finder::new(name).into_owned(),
            oldest_revision: from,
            backlog: VecDeque::new(),
            subscribers: BTreeMap::new(),
        }
    }

    /// Adds a subscriber and sends it the lines that it missed. Returns `false` if these lines are
    /// no longer available.
    pub(super) fn subscribe(
        &mut self,
        subscription: &Subscription,
        sender: UnboundedSender<WatchLine>,
    ) -> bool {
        if subscription.from_revision < self.oldest_revision {
            return false;
        }
        let subscriber = Subscriber {
            from_revision: subscription.from_revision,
            wants_bookmarks: subscription.wants_bookmarks,
            lines: sender,
        };
        let first_missed =
            self.backlog.partition_point(|(revision, _)| *revision <= subscription.from_revision);
        for (revision, line) in self.backlog.iter().skip(first_missed) {
            let prefixes = prefixes_in_text(&self.run_name, line);
            if is_relevant_to(&prefixes, &subscription.prefix) {
                subscriber.send_line(*revision, line);
            }
        }
        self.subscribers.entry(subscription.prefix.clone()).or_default().push(subscriber);
        true
    }

    /// Sends a line to all subscribers to which it is relevant. Returns `false` at the end of the
    /// watch.
    pub(super) fn publish_line(&mut self, line: String) -> bool {
        let Ok(WatchLineHeader { event_type, object }) =
            serde_json::from_str::<WatchLineHeader<'_>>(&line)
        else {
            return false;
        };
        let revision = object.metadata.resource_version.and_then(|text| text.parse().ok());
        let (Some(revision), false) = (revision, event_type == "ERROR") else { return false };
        let is_bookmark = event_type == "BOOKMARK";
        let line: WatchLine = line.into();
        let prefixes = prefixes_in_text(&self.run_name, &line);
        for (prefix, subscribers) in &mut self.subscribers {
            if !is_relevant_to(&prefixes, prefix) {
                continue;
            }
            let is_skipped = |subscriber: &Subscriber| is_bookmark && !subscriber.wants_bookmarks;
            subscribers.retain(|subscriber| {
                is_skipped(subscriber) || subscriber.send_line(revision, &line)
            });
        }
        self.subscribers.retain(|_, subscribers| !subscribers.is_empty());
        if !is_bookmark {
            self.backlog.push_back((revision, line));
        }
        if self.backlog.len() > BACKLOG_LINES_MAX
            && let Some((oldest, _)) = self.backlog.pop_front()
        {
            self.oldest_revision = oldest;
        }
        true
    }
}

impl Subscriber {
    /// Sends a line to the subscriber, unless the subscriber already has it. Returns `false` if the
    /// subscriber is gone.
    fn send_line(&self, revision: u64, line: &WatchLine) -> bool {
        revision <= self.from_revision || self.lines.send(Arc::clone(line)).is_ok()
    }
}

/// Whether a line that contains `prefixes` is relevant to the scenario with the prefix `prefix`.
fn is_relevant_to(prefixes: &[&str], prefix: &str) -> bool {
    prefixes.is_empty() || prefixes.contains(&prefix)
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    fn line(change: &str, name: &str, revision: u64) -> String {
        format!(
            r#"{{"type":"{change}","object":{{"metadata":{{"name":"{name}","resourceVersion":"{revision}"}}}}}}"#
        )
    }

    fn subscribe(
        feed: &mut SharedWatch,
        prefix: &str,
        from: u64,
    ) -> Option<UnboundedReceiver<WatchLine>> {
        let (path, prefix) = ("/api/v1/nodes".to_owned(), prefix.to_owned());
        let (sender, receiver) = unbounded_channel();
        let subscription =
            Subscription { path, from_revision: from, prefix, wants_bookmarks: from == 7 };
        feed.subscribe(&subscription, sender).then_some(receiver)
    }

    fn revisions(of: &mut UnboundedReceiver<WatchLine>) -> Vec<u64> {
        let mut revisions = Vec::new();
        while let Ok(line) = of.try_recv() {
            let line: WatchLineHeader<'_> = serde_json::from_str(&line).unwrap();
            let revision = line.object.metadata.resource_version.unwrap();
            revisions.push(revision.parse().unwrap());
        }
        revisions
    }

    #[test]
    fn subscribers_get_lines_with_their_prefix_or_without_any() {
        let mut feed = SharedWatch::new("qab", 5);
        let mut one = subscribe(&mut feed, "qabx1-", 5).unwrap();
        let mut eleven = subscribe(&mut feed, "qabx11-", 7).unwrap();
        assert!(feed.publish_line(line("ADDED", "qabx1-n", 6)));
        assert!(feed.publish_line(line("ADDED", "qabx11-n", 8)));
        assert!(feed.publish_line(line("ADDED", "system", 9)));
        assert!(feed.publish_line(line("BOOKMARK", "", 10)));
        assert_eq!(revisions(&mut one), [6, 9]);
        assert_eq!(revisions(&mut eleven), [8, 9, 10]);
    }

    #[test]
    fn a_late_subscriber_gets_the_backlog_or_is_rejected() {
        let mut feed = SharedWatch::new("qab", 5);
        assert!(feed.publish_line(line("ADDED", "qabx1-n", 6)));
        assert!(feed.publish_line(line("MODIFIED", "qabx1-n", 8)));
        assert!(subscribe(&mut feed, "qabx1-", 4).is_none());
        assert_eq!(revisions(&mut subscribe(&mut feed, "qabx1-", 5).unwrap()), [6, 8]);
        let mut ahead = subscribe(&mut feed, "qabx1-", 9).unwrap();
        assert!(feed.publish_line(line("MODIFIED", "qabx1-n", 9)));
        assert!(feed.publish_line(line("DELETED", "qabx1-n", 12)));
        assert_eq!(revisions(&mut ahead), [12]);
        for revision in 13..13 + u64::try_from(BACKLOG_LINES_MAX).unwrap() {
            assert!(feed.publish_line(line("MODIFIED", "qabx1-n", revision)));
        }
        assert!(subscribe(&mut feed, "qabx1-", 11).is_none());
        assert!(subscribe(&mut feed, "qabx1-", 12).is_some());
    }

    #[test]
    fn an_error_ends_the_watch() {
        let mut feed = SharedWatch::new("qab", 5);
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410}}"#;
        assert!(!feed.publish_line(gone.to_owned()));
    }
}
