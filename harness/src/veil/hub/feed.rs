//! What a watch has told, and who hears it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use memchr::memmem::Finder;
use serde::Deserialize;
use tokio::sync::mpsc::UnboundedSender;

use super::Wanted;
use crate::veil::names::prefixes_in;

/// One line of a watch.
pub(in crate::veil) type Told = Arc<str>;

/// How many lines are kept for those who come late.
const KEPT: usize = 4096;

/// A watch of one collection.
pub(super) struct Feed {
    /// Stands in all names of the run.
    name: Finder<'static>,
    /// All that came after it is kept, or was heard by all.
    floor: u64,
    /// The newest lines, with their revisions.
    kept: VecDeque<(u64, Told)>,
    /// By the prefix that they hear of.
    listeners: BTreeMap<String, Vec<Listener>>,
}

struct Listener {
    from: u64,
    bookmarks: bool,
    told: UnboundedSender<Told>,
}

/// What of a line has to be known.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    change: &'a str,
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(rename = "resourceVersion", borrow, default)]
    resource_version: Option<&'a str>,
}

impl Feed {
    /// A watch that begins there.
    pub(super) fn new(name: &str, from: u64) -> Self {
        Self {
            name: Finder::new(name).into_owned(),
            floor: from,
            kept: VecDeque::new(),
            listeners: BTreeMap::new(),
        }
    }

    /// One more hears it, and first what it missed; `false` when that is not known any more.
    pub(super) fn join(&mut self, wanted: &Wanted, told: UnboundedSender<Told>) -> bool {
        if wanted.from < self.floor {
            return false;
        }
        let listener = Listener { from: wanted.from, bookmarks: wanted.bookmarks, told };
        let missed = self.kept.partition_point(|(revision, _)| *revision <= wanted.from);
        for (revision, line) in self.kept.iter().skip(missed) {
            let named = prefixes_in(&self.name, line);
            if concerns(&named, &wanted.prefix) {
                listener.hear(*revision, line);
            }
        }
        self.listeners.entry(wanted.prefix.clone()).or_default().push(listener);
        true
    }

    /// Hands on a line; `false` when the watch is at its end.
    pub(super) fn tell(&mut self, line: String) -> bool {
        let Ok(Line { change, object }) = serde_json::from_str::<Line<'_>>(&line) else {
            return false;
        };
        let revision = object.metadata.resource_version.and_then(|text| text.parse().ok());
        let (Some(revision), false) = (revision, change == "ERROR") else { return false };
        let bookmark = change == "BOOKMARK";
        let line: Told = line.into();
        let named = prefixes_in(&self.name, &line);
        for (prefix, listeners) in &mut self.listeners {
            if !concerns(&named, prefix) {
                continue;
            }
            let spared = |listener: &Listener| bookmark && !listener.bookmarks;
            listeners.retain(|listener| spared(listener) || listener.hear(revision, &line));
        }
        self.listeners.retain(|_, listeners| !listeners.is_empty());
        if !bookmark {
            self.kept.push_back((revision, line));
        }
        if self.kept.len() > KEPT
            && let Some((gone, _)) = self.kept.pop_front()
        {
            self.floor = gone;
        }
        true
    }
}

impl Listener {
    /// Tells it, unless it knows; `false` when nobody is there any more.
    fn hear(&self, revision: u64, line: &Told) -> bool {
        revision <= self.from || self.told.send(Arc::clone(line)).is_ok()
    }
}

/// Whether a line that names these scenarios is news to the one with that prefix.
fn concerns(named: &[&str], prefix: &str) -> bool {
    named.is_empty() || named.contains(&prefix)
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

    fn follow(feed: &mut Feed, prefix: &str, from: u64) -> Option<UnboundedReceiver<Told>> {
        let (path, prefix) = ("/api/v1/nodes".to_owned(), prefix.to_owned());
        let (told, heard) = unbounded_channel();
        let wanted = Wanted { path, from, prefix, bookmarks: from == 7 };
        feed.join(&wanted, told).then_some(heard)
    }

    fn heard(of: &mut UnboundedReceiver<Told>) -> Vec<u64> {
        let mut revisions = Vec::new();
        while let Ok(line) = of.try_recv() {
            let line: Line<'_> = serde_json::from_str(&line).unwrap();
            let revision = line.object.metadata.resource_version.unwrap();
            revisions.push(revision.parse().unwrap());
        }
        revisions
    }

    #[test]
    fn everybody_hears_of_his_own_and_of_what_is_nobodys() {
        let mut feed = Feed::new("qab", 5);
        let mut one = follow(&mut feed, "qabx1-", 5).unwrap();
        let mut eleven = follow(&mut feed, "qabx11-", 7).unwrap();
        assert!(feed.tell(line("ADDED", "qabx1-n", 6)));
        assert!(feed.tell(line("ADDED", "qabx11-n", 8)));
        assert!(feed.tell(line("ADDED", "system", 9)));
        assert!(feed.tell(line("BOOKMARK", "", 10)));
        assert_eq!(heard(&mut one), [6, 9]);
        assert_eq!(heard(&mut eleven), [8, 9, 10]);
    }

    #[test]
    fn who_comes_late_hears_what_he_missed_or_is_told_that_it_is_gone() {
        let mut feed = Feed::new("qab", 5);
        assert!(feed.tell(line("ADDED", "qabx1-n", 6)));
        assert!(feed.tell(line("MODIFIED", "qabx1-n", 8)));
        assert!(follow(&mut feed, "qabx1-", 4).is_none());
        assert_eq!(heard(&mut follow(&mut feed, "qabx1-", 5).unwrap()), [6, 8]);
        let mut ahead = follow(&mut feed, "qabx1-", 9).unwrap();
        assert!(feed.tell(line("MODIFIED", "qabx1-n", 9)));
        assert!(feed.tell(line("DELETED", "qabx1-n", 12)));
        assert_eq!(heard(&mut ahead), [12]);
        for revision in 13..13 + u64::try_from(KEPT).unwrap() {
            assert!(feed.tell(line("MODIFIED", "qabx1-n", revision)));
        }
        assert!(follow(&mut feed, "qabx1-", 11).is_none());
        assert!(follow(&mut feed, "qabx1-", 12).is_some());
    }

    #[test]
    fn an_error_ends_it() {
        let mut feed = Feed::new("qab", 5);
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410}}"#;
        assert!(!feed.tell(gone.to_owned()));
    }
}
