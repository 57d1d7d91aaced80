//! The differences that have been looked at: the lists of `docs/reference/emulator-differences.md`.
//!
//! ```text
//! - `a-objects.http`, bad JSON, `POST configmaps`: `.message`, `.details`
//! - at times: `b-lists.http`, pages: `answer`
//! - everywhere: `.metadata.managedFields`
//! - kubectl: `kubectl get all`
//! ```
//!
//! A line names a file of cases, a case of it and, where not all of its requests are meant, one
//! of them; then the places in which the two servers need not agree, with all that is below them.
//! `*` stands for any part of a place, `answer` for all places. What differs at times is no
//! failure when it does not. After `kubectl:` stands the first line of a transcript's command.

use std::cell::Cell;
use std::path::Path;

use crate::script::{Case, Script, Step};

/// One line.
struct Entry {
    line: usize,
    /// File, case and request; none of them: everywhere.
    of: Vec<String>,
    places: Vec<String>,
    is_used: Cell<bool>,
}

/// All of them.
pub(crate) struct Reviewed(Vec<Entry>);

/// An answer's request, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'s> {
    pub(crate) script: &'s Script,
    pub(crate) case: &'s Case,
    pub(crate) step: &'s Step,
}

impl std::fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { script, case, step } = self;
        let (file, line) = (script.name(), step.line + 1);
        write!(f, "{file}:{line} {}\n    {} {}", case.title, step.verb, step.path)
    }
}

impl Reviewed {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/emulator-differences.md");
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().enumerate();
        Self(lines.filter_map(|(index, line)| entry(index + 1, line)).collect())
    }

    /// Whether two servers need not agree in a place of an answer.
    pub(crate) fn has(&self, asked: Asked<'_>, place: &str) -> bool {
        // What differs everywhere is no use of a line that is about one answer; of the others all
        // are asked, so that each knows that it is used.
        let covering = |everywhere: bool| {
            let of = self.0.iter().filter(move |entry| entry.of.is_empty() == everywhere);
            let found = of.filter(|entry| entry.is_of(asked) && entry.covers(place));
            found.map(|entry| entry.is_used.set(true)).count() > 0
        };
        covering(true) || covering(false)
    }

    /// Whether what kubectl prints for a command need not be the same.
    pub(crate) fn has_command(&self, command: &str) -> bool {
        let first = command.lines().next().unwrap_or_default();
        let of_kubectl = self.0.iter().filter(|entry| entry.is_of_kubectl());
        of_kubectl.map(|entry| entry.places.join(", ")).any(|place| place == first)
    }

    /// Whether a line names an answer at all.
    pub(crate) fn names(&self, asked: Asked<'_>) -> bool {
        self.0.iter().any(|entry| !entry.of.is_empty() && entry.is_of(asked))
    }

    /// The lines that nothing differs in any more.
    pub(crate) fn stale(&self) -> Vec<String> {
        let unused = self.0.iter().filter(|entry| !entry.is_used.get() && !entry.is_of_kubectl());
        let file = "docs/reference/emulator-differences.md";
        unused.map(|entry| format!("{file}:{}: does not differ any more", entry.line)).collect()
    }
}

fn entry(line: usize, text: &str) -> Option<Entry> {
    let (of, places) = text.strip_prefix("- ")?.rsplit_once(": `")?;
    let (of, is_used) = match of.strip_prefix("at times: ") {
        Some(of) => (of, Cell::new(true)),
        None => (of, Cell::new(false)),
    };
    let plain = |text: &str| text.replace('`', "");
    let of = match of {
        "everywhere" => Vec::new(),
        of => of.splitn(2, ", ").flat_map(|part| part.splitn(2, ", `")).map(plain).collect(),
    };
    let places = places.split(", ").map(plain).collect();
    Some(Entry { line, of, places, is_used })
}

impl Entry {
    fn is_of_kubectl(&self) -> bool {
        self.of == ["kubectl"]
    }

    fn is_of(&self, asked: Asked<'_>) -> bool {
        let request = format!("{} {}", asked.step.verb, asked.step.path);
        let is = [asked.script.name(), asked.case.title.clone(), request];
        self.of.iter().zip(&is).all(|(wanted, found)| wanted == found)
    }

    fn covers(&self, place: &str) -> bool {
        let found: Vec<&str> = place.split('.').collect();
        self.places.iter().any(|wanted| {
            let wanted: Vec<&str> = wanted.split('.').collect();
            let is_below = wanted.len() <= found.len()
                && wanted.iter().zip(&found).all(|(wanted, found)| ["*", found].contains(wanted));
            is_below || wanted == ["answer"]
        })
    }
}
