//! Known differences: the lists of `docs/reference/emulator-differences.md`.
//!
//! ```text
//! - `a-objects.http`, malformed JSON, `POST configmaps`: `.message`, `.details`
//! - at times: `b-lists.http`, pages: `answer`
//! - everywhere: `.metadata.managedFields`
//! - kubectl: `kubectl get all`
//! ```
//!
//! A line names a case file, a case, and optionally one of its requests; then the paths that may
//! differ, including everything below them. `*` matches any path segment, `answer` all paths. A
//! difference `at times` may also be absent. After `kubectl:` follows the first line of a command in
//! a transcript. A line `- 1.35: …` counts only for that version of Kubernetes.

use std::cell::Cell;
use std::path::Path;

use schedlab_emulator::KubernetesVersion;

use crate::script::{Case, Script, Step};

/// A line of the list.
struct KnownDifference {
    line: usize,
    /// File, case and request; empty for everywhere.
    of: Vec<String>,
    paths: Vec<String>,
    is_used: Cell<bool>,
}

/// All known differences.
pub(crate) struct KnownDifferences(Vec<KnownDifference>);

/// A request of a case.
#[derive(Clone, Copy)]
pub(crate) struct CaseRequest<'s> {
    pub(crate) script: &'s Script,
    pub(crate) case: &'s Case,
    pub(crate) step: &'s Step,
}

impl std::fmt::Display for CaseRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { script, case, step } = self;
        let (file, line) = (script.name(), step.line + 1);
        write!(f, "{file}:{line} {}\n    {} {}", case.title, step.verb, step.path)
    }
}

impl KnownDifferences {
    pub(crate) fn read(version: KubernetesVersion) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference/emulator-differences.md");
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().enumerate();
        Self(lines.filter_map(|(index, line)| entry(version, index + 1, line)).collect())
    }

    /// Whether a path of a response may differ.
    pub(crate) fn has(&self, request: CaseRequest<'_>, path: &str) -> bool {
        // A line for everywhere takes precedence, so that a specific line counts as used only if it
        // is needed. All matching lines are marked as used.
        let covering = |everywhere: bool| {
            let of = self.0.iter().filter(move |entry| entry.of.is_empty() == everywhere);
            let found = of.filter(|entry| entry.is_of(request) && entry.covers(path));
            found.map(|entry| entry.is_used.set(true)).count() > 0
        };
        covering(true) || covering(false)
    }

    /// Whether the output of a kubectl command may differ.
    pub(crate) fn has_command(&self, command: &str) -> bool {
        let first = command.lines().next().unwrap_or_default();
        let of_kubectl = self.0.iter().filter(|entry| entry.is_of_kubectl());
        of_kubectl.map(|entry| entry.paths.join(", ")).any(|path| path == first)
    }

    /// Whether a line names this request.
    pub(crate) fn names(&self, request: CaseRequest<'_>) -> bool {
        self.0.iter().any(|entry| !entry.of.is_empty() && entry.is_of(request))
    }

    /// The lines without any difference left.
    pub(crate) fn stale(&self) -> Vec<String> {
        let unused = self.0.iter().filter(|entry| !entry.is_used.get() && !entry.is_of_kubectl());
        let file = "docs/reference/emulator-differences.md";
        unused.map(|entry| format!("{file}:{}: does not differ any more", entry.line)).collect()
    }
}

fn entry(version: KubernetesVersion, line: usize, text: &str) -> Option<KnownDifference> {
    let (of, paths) = text.strip_prefix("- ")?.rsplit_once(": `")?;
    let of = match of.split_once(": ") {
        Some((of_version, of)) if of_version.starts_with("1.") => {
            (of_version == version.to_string()).then_some(of)?
        }
        Some(_) | None => of,
    };
    let (of, is_used) = match of.strip_prefix("at times: ") {
        Some(of) => (of, Cell::new(true)),
        None => (of, Cell::new(false)),
    };
    let plain = |text: &str| text.replace('`', "");
    let of = match of {
        "everywhere" => Vec::new(),
        of => of.splitn(2, ", ").flat_map(|part| part.splitn(2, ", `")).map(plain).collect(),
    };
    let paths = paths.split(", ").map(plain).collect();
    Some(KnownDifference { line, of, paths, is_used })
}

impl KnownDifference {
    fn is_of_kubectl(&self) -> bool {
        self.of == ["kubectl"]
    }

    fn is_of(&self, request: CaseRequest<'_>) -> bool {
        let line = format!("{} {}", request.step.verb, request.step.path);
        let is = [request.script.name(), request.case.title.clone(), line];
        self.of.iter().zip(&is).all(|(pattern, found)| pattern == found)
    }

    fn covers(&self, path: &str) -> bool {
        let found: Vec<&str> = path.split('.').collect();
        self.paths.iter().any(|pattern| {
            let pattern: Vec<&str> = pattern.split('.').collect();
            let is_below = pattern.len() <= found.len()
                && pattern
                    .iter()
                    .zip(&found)
                    .all(|(pattern, found)| ["*", found].contains(pattern));
            is_below || pattern == ["answer"]
        })
    }
}
