//! Case files: requests as text, with the responses of a real server.
//!
//! ```text
//! ### a duplicate name is rejected
//! POST pods
//! metadata: {name: a}
//! spec: {containers: [{name: c, image: i}]}
//! => 201
//! save seen = .metadata.resourceVersion
//! ```
//!
//! A path without a leading slash is relative to the namespace of the case: `pods/a/status`, or
//! `apps/v1:deployments`. `{ns}`, `{hook}` and `{ca}` (a webhook and its authority, see
//! `test_webhook.rs`) and saved names are substituted everywhere, and `{3*a}` is `aaa`. A body is
//! YAML and sent as JSON,
//! unless a `Content-Type` header requests to send it verbatim. `=>` starts the expected response:
//! its code and the message of an error, or the events of a watch. A line `# gates: A=true,B=true`
//! before the first case sets feature gates of both servers for the file.
//!
//! `docs/reference/emulator-differences.md` lists the known differences.

use std::path::{Path, PathBuf};

/// A case file.
pub(crate) struct Script {
    pub(crate) path: PathBuf,
    /// The feature gates that the servers enable: `A=true,B=true`.
    pub(crate) gates: String,
    pub(crate) cases: Vec<Case>,
}

/// A sequence of requests in its own namespace.
pub(crate) struct Case {
    pub(crate) title: String,
    pub(crate) steps: Vec<Step>,
}

/// A request and its expected response.
#[derive(Default)]
pub(crate) struct Step {
    /// The number of its last line in the file, from 0.
    pub(crate) last_line: usize,
    pub(crate) line: usize,
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) expected: Option<String>,
    pub(crate) saves: Vec<(String, String)>,
}

impl Step {
    /// Whether the body is sent verbatim.
    pub(crate) fn is_raw(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == "Content-Type")
    }
}

const VERBS: [&str; 12] = [
    "GET",
    "TABLE",
    "WATCH",
    "POST",
    "PUT",
    "DELETE",
    "JSON",
    "MERGE",
    "STRATEGIC",
    "APPLY",
    "META",
    "OPTIONS",
];

impl Script {
    /// The file's name.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap().to_string_lossy().into_owned()
    }

    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut script = Self { path: path.to_owned(), gates: String::new(), cases: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            if let Some(gates) = line.strip_prefix("# gates: ") {
                gates.clone_into(&mut script.gates);
            }
            if let Some(title) = line.strip_prefix("### ") {
                script.cases.push(Case { title: title.to_owned(), steps: Vec::new() });
                continue;
            }
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let case = script.cases.last_mut().expect("a case begins with ###");
            case.take(line, index);
        }
        script
    }
}

impl Case {
    fn take(&mut self, line: &str, index: usize) {
        if let Some((verb, path)) = line.split_once(' ')
            && VERBS.contains(&verb)
        {
            self.steps.push(Step {
                line: index,
                last_line: index,
                verb: verb.to_owned(),
                path: path.trim().to_owned(),
                ..Step::default()
            });
            return;
        }
        let step = self.steps.last_mut().expect("a request comes before what belongs to it");
        step.last_line = index;
        if let Some(expected) = line.strip_prefix("=> ") {
            step.expected = Some(expected.to_owned());
            step.last_line = index - 1;
        } else if let Some(saved) = line.strip_prefix("save ") {
            let (name, path) = saved.split_once(" = ").expect("save NAME = .path");
            step.saves.push((name.to_owned(), path.to_owned()));
            step.last_line = index - 1;
        } else if let Some(header) = header(line).filter(|_| step.body.is_empty()) {
            step.headers.push(header);
        } else {
            step.body.push_str(line);
            step.body.push('\n');
        }
    }
}

fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(": ")?;
    let is_name = name.starts_with(char::is_uppercase)
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    is_name.then(|| (name.to_owned(), value.trim().to_owned()))
}
