//! The lines of a trace: the last ones, each cut at a length, so that neither many nodes nor long
//! reasons make it grow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most characters of a line.
const WIDTH_MAX: usize = 400;

/// Most different answers about one pod that are told apart.
const ANSWERS_MAX: usize = 200;

#[derive(Debug)]
pub(super) struct Log {
    most: usize,
    lines: VecDeque<String>,
    dropped: u64,
    /// Answers about one pod on nodes, not told yet.
    subject: String,
    answers: BTreeMap<Answer, Nodes>,
}

/// Extension point, plugin, and what it says.
type Answer = (&'static str, String, String);

#[derive(Debug, Default)]
struct Nodes {
    first: String,
    /// A node may be looked at again and again.
    all: BTreeSet<String>,
}

impl Log {
    pub(super) fn of_lines(most: usize) -> Self {
        Self {
            most: most.max(1),
            lines: VecDeque::new(),
            dropped: 0,
            subject: String::new(),
            answers: BTreeMap::new(),
        }
    }

    pub(super) fn line(&mut self, line: String) {
        self.tell_answers();
        self.push(line);
    }

    /// A node of which the same is said about the same.
    pub(super) fn count(
        &mut self,
        (point, plugin): (&'static str, &str),
        subject: &str,
        (node, verdict): (&str, &str),
    ) {
        if self.subject != subject || self.answers.len() >= ANSWERS_MAX {
            self.tell_answers();
            subject.clone_into(&mut self.subject);
        }
        let answer = (point, plugin.to_owned(), cut(verdict.to_owned()));
        let nodes = self.answers.entry(answer).or_default();
        if nodes.all.is_empty() {
            node.clone_into(&mut nodes.first);
        }
        nodes.all.insert(node.to_owned());
    }

    fn tell_answers(&mut self) {
        for ((point, plugin, verdict), Nodes { first, all }) in std::mem::take(&mut self.answers) {
            let nodes = match all.len() {
                1 => first,
                count => format!("{first} and {} more", count - 1),
            };
            let subject = &self.subject;
            self.push(format!("  {point} {plugin}: {subject} on {nodes}: {verdict}"));
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == self.most {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(cut(line));
    }

    pub(super) fn text(&mut self) -> String {
        self.tell_answers();
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

fn cut(line: String) -> String {
    match line.char_indices().nth(WIDTH_MAX) {
        None => line,
        Some(_) => line.chars().take(WIDTH_MAX).chain(['…']).collect(),
    }
}
