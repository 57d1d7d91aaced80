//! Feature files: loaded, checked where the Gherkin parser is silent, flattened into cases.
//!
//! A [`Case`] is one thing to run: a scenario, or one example row of an outline, with the steps
//! of its backgrounds in front.

mod case;
mod examples;
mod needs;
mod problem;
mod select;
mod source;
mod tags;

use std::path::{Path, PathBuf};

use gherkin::StepType;

use crate::report::Problem;

pub(crate) use case::split;
pub use case::{Case, Place};
pub use needs::{VIRTUAL_TIME, WEBHOOKS};
pub use problem::Problems;
pub use select::{Query, Shard, last_failed, select};
pub use tags::TagExpression;

/// A path from the command line: a folder or file, and perhaps a line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The file or folder.
    pub path: PathBuf,
    /// `:LINE`.
    pub line: Option<usize>,
}

impl Asked {
    /// Splits `path:line`. A path that exists is taken whole.
    pub fn parse(text: &str) -> Self {
        let whole = Self { path: PathBuf::from(text), line: None };
        if whole.path.exists() {
            return whole;
        }
        match text.rsplit_once(':').map(|(path, line)| (path, line.parse())) {
            Some((path, Ok(line))) => Self { path: PathBuf::from(path), line: Some(line) },
            Some((_, Err(_))) | None => whole,
        }
    }
}

/// Everything that was loaded.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    /// The cases of all files, in the order of file names and lines.
    pub cases: Vec<Case>,
    /// The files, as shown.
    pub files: Vec<String>,
    /// Scenarios that assert nothing: a run with them would show nothing.
    pub silent: Vec<Problem>,
}

/// Loads every feature under the paths. What is wrong in the files is told together.
pub fn load(asked: &[Asked]) -> Result<Suite, Problems> {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    for asked in asked {
        collect(&asked.path, &mut files);
    }
    files.sort();
    files.dedup();
    let mut suite = Suite::default();
    for file in &files {
        let (cases, found) = load_file(file);
        suite.silent.extend(silent(&cases));
        suite.cases.extend(cases);
        problems.extend(found);
        suite.files.push(shown(file));
    }
    if problems.is_empty() {
        return Ok(suite);
    }
    problems.append(&mut suite.silent);
    Err(Problems::sorted(problems))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries.map(|entry| entry.path()) {
        if entry.is_dir() {
            collect(&entry, files);
        } else if entry.extension().is_some_and(|e| e == "feature") {
            files.push(entry);
        }
    }
}

/// The cases of a file, as far as they can be read, and what is wrong with it.
fn load_file(path: &Path) -> (Vec<Case>, Vec<Problem>) {
    let file = shown(path);
    let read = crate::text::read(path)
        .map_err(|error| Problems::one(&file, error.line, error.message()))
        .and_then(|text| flattened(&file, &text));
    read.unwrap_or_else(|problems| (Vec::new(), problems.0))
}

/// A scenario that asserts nothing cannot fail: what it is named after is not shown.
fn silent(cases: &[Case]) -> Vec<Problem> {
    let asserts = |case: &Case| case.steps.iter().any(|step| step.ty == StepType::Then);
    let silent = cases.iter().filter(|case| !case.steps.is_empty() && !asserts(case));
    let mut places: Vec<(&str, usize)> =
        silent.map(|case| (&*case.place.file, case.place.scenario.start)).collect();
    places.dedup();
    let message = "this scenario asserts nothing: found no `Then`, it needs at least one";
    let problem = |(file, line): (&str, usize)| Problem::new(file, line, message.to_owned());
    places.into_iter().map(problem).collect()
}

/// Loads one feature from its text.
pub fn load_text(file: &str, text: &str) -> Result<Vec<Case>, Problems> {
    let (cases, problems) = flattened(file, text)?;
    if problems.is_empty() { Ok(cases) } else { Err(Problems(problems)) }
}

fn flattened(file: &str, text: &str) -> Result<(Vec<Case>, Vec<Problem>), Problems> {
    let source = source::Source::read(file, text)?;
    let feature = source::parse(file, &source)?;
    Ok(case::flatten(file, &feature, &source))
}

/// A path as reports show it: with `/`, without a leading `./`.
pub fn shown(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    text.strip_prefix("./").map_or(text.clone(), str::to_owned)
}
