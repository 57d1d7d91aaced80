//! The lines of a trace, bounded in number and length, so that many nodes or long reasons do not
//! make it grow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of characters of a line.
const LINE_CHARS_MAX: usize = 400;

/// Maximum number of distinct verdicts about a pod that are merged before they are written.
const VERDICTS_MAX: usize = 200;

#[derive(Debug)]
pub(super) struct TraceLog {
    capacity: usize,
    lines: VecDeque<String>,
    dropped: u64,
    /// The pod that the verdicts not written yet are about.
    subject: String,
    verdicts: BTreeMap<VerdictKey, NodesWithVerdict>,
}

/// Extension point, plugin and verdict.
type VerdictKey = (&'static str, String, String);

#[derive(Debug, Default)]
struct NodesWithVerdict {
    first: String,
    /// All nodes with the verdict. A set, since a node may be judged several times.
    all: BTreeSet<String>,
}

impl TraceLog {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            lines: VecDeque::new(),
            dropped: 0,
            subject: String::new(),
            verdicts: BTreeMap::new(),
        }
    }

    pub(super) fn add_line(&mut self, line: String) {
        self.flush_verdicts();
        self.push(line);
    }

    /// Records a verdict about a pod on a node; equal verdicts about the same pod are merged.
    pub(super) fn record_node(
        &mut self,
        point: &'static str,
        plugin: &str,
        subject: &str,
        node: &str,
        verdict: &str,
    ) {
        if self.subject != subject || self.verdicts.len() >= VERDICTS_MAX {
            self.flush_verdicts();
            subject.clone_into(&mut self.subject);
        }
        let key = (point, plugin.to_owned(), cut_to_width(verdict.to_owned()));
        let nodes = self.verdicts.entry(key).or_default();
        if nodes.all.is_empty() {
            node.clone_into(&mut nodes.first);
        }
        nodes.all.insert(node.to_owned());
    }

    fn flush_verdicts(&mut self) {
        for ((point, plugin, verdict), NodesWithVerdict { first, all }) in
            std::mem::take(&mut self.verdicts)
        {
            let nodes = match all.len() {
                1 => first,
                count => format!("{first} and {} more", count - 1),
            };
            let subject = &self.subject;
            self.push(format!("  {point} {plugin}: {subject} on {nodes}: {verdict}"));
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == self.capacity {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(cut_to_width(line));
    }

    pub(super) fn text(&mut self) -> String {
        self.flush_verdicts();
        let mut text = match self.dropped {
            0 => String::new(),
            dropped => format!("({dropped} lines before these were dropped)\n"),
        };
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

fn cut_to_width(line: String) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        None => line,
        Some(_) => line.chars().take(LINE_CHARS_MAX).chain(['…']).collect(),
    }
}
