//! Feature files: loads them, makes checks that the Gherkin parser omits, and flattens them into
//! cases.
//!
//! A [`Case`] is the unit of a run: a scenario, or one example row of an outline, with the steps of
//! its backgrounds in front.

mod capabilities;
mod case;
mod examples;
mod keywords;
mod quarantine;
mod requirements;
mod select;
mod source;
mod tags;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gherkin::StepType;

use crate::report::{Diagnostic, Diagnostics};
use crate::suite_files::{EmbeddedSuite, SuiteFiles};

pub(crate) use case::split_at_features_folder;
pub use case::{Case, CaseLocation};
pub use quarantine::Quarantine;
pub use requirements::{CLAIMS_TAG, VIRTUAL_TIME_TAG, WEBHOOKS_TAG};
pub use select::{CaseQuery, SelectedCases, last_failed_ids, select_cases};
pub use tags::TagExpression;

/// A path from the command line: a folder or file, optionally with a line.
#[derive(Clone, Debug)]
pub struct FeaturePath {
    /// Where the file or folder is.
    pub files: SuiteFiles,
    /// The file or folder.
    pub path: PathBuf,
    /// The line number after the colon.
    pub line: Option<usize>,
}

impl FeaturePath {
    /// A whole file or folder on disk.
    pub fn on_disk(path: PathBuf) -> Self {
        Self { files: SuiteFiles::Disk, path, line: None }
    }

    /// A whole file or folder of a suite that is compiled into the program.
    pub fn embedded(suite: &'static EmbeddedSuite, path: PathBuf) -> Self {
        Self { files: SuiteFiles::Embedded(suite), path, line: None }
    }

    /// Parses `path` or `path:line`. If a file of the whole name exists, the text is that path.
    pub fn parse(text: &str) -> Self {
        let whole = Self::on_disk(PathBuf::from(text));
        if whole.path.exists() {
            return whole;
        }
        match text.rsplit_once(':').map(|(path, line)| (path, line.parse())) {
            Some((path, Ok(line))) => {
                Self { line: Some(line), ..Self::on_disk(PathBuf::from(path)) }
            }
            Some((_, Err(_))) | None => whole,
        }
    }

    /// The same path in the embedded suite, if nothing is there on disk and the suite has it.
    #[must_use]
    pub fn or_embedded(self, suite: &'static EmbeddedSuite) -> Self {
        let files = SuiteFiles::Embedded(suite);
        if self.exists() || !files.exists(&self.path) { self } else { Self { files, ..self } }
    }

    /// Whether the file or folder exists.
    pub fn exists(&self) -> bool {
        self.files.exists(&self.path)
    }
}

/// All features that were loaded.
#[derive(Clone, Debug, Default)]
pub struct FeatureSuite {
    /// The cases of all files, by file name and line.
    pub cases: Vec<Case>,
    /// Display paths of the feature files.
    pub files: Vec<String>,
    /// Diagnostics for scenarios without an assertion.
    pub without_assertions: Vec<Diagnostic>,
}

/// A function that tells whether a sentence is a step after any keyword: see
/// `steps::catalogue::is_step`.
pub(crate) type StepCheck = fn(&str) -> bool;

/// Loads every feature file under the paths.
///
/// # Errors
/// The errors of all files, collected.
pub fn load_suite(paths: &[FeaturePath], is_step: StepCheck) -> Result<FeatureSuite, Diagnostics> {
    let mut files = BTreeMap::new();
    let mut problems = Vec::new();
    for path in paths {
        files.extend(feature_files(path).into_iter().map(|file| (file, path.files)));
    }
    let mut suite = FeatureSuite::default();
    for (file, place) in &files {
        let (cases, found) = load_file(file, *place, is_step);
        suite.without_assertions.extend(cases_without_assertions(&cases));
        suite.cases.extend(cases);
        problems.extend(found);
        suite.files.push(display_path(file));
    }
    if problems.is_empty() {
        return Ok(suite);
    }
    problems.append(&mut suite.without_assertions);
    Err(Diagnostics::sorted(problems))
}

fn feature_files(path: &FeaturePath) -> Vec<PathBuf> {
    if !path.files.is_folder(&path.path) {
        return vec![path.path.clone()];
    }
    let mut files = path.files.files_below(&path.path);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "feature"));
    files
}

/// The cases of a feature file, as far as it can be parsed, and the errors in it.
fn load_file(path: &Path, files: SuiteFiles, is_step: StepCheck) -> (Vec<Case>, Vec<Diagnostic>) {
    let file = display_path(path);
    let read = files
        .read_text(path)
        .map_err(|error| Diagnostics::single(&file, error.line, error.message_without_file()))
        .and_then(|text| parse_cases(&file, &text, is_step));
    let (mut cases, problems) = read.unwrap_or_else(|problems| (Vec::new(), problems.0));
    for case in &mut cases {
        case.files = files;
    }
    (cases, problems)
}

/// Diagnostics for scenarios without an assertion: they cannot fail, so they do not show what their
/// names claim.
fn cases_without_assertions(cases: &[Case]) -> Vec<Diagnostic> {
    let asserts = |case: &Case| case.steps.iter().any(|step| step.ty == StepType::Then);
    let silent = cases.iter().filter(|case| !case.steps.is_empty() && !asserts(case));
    let mut locations: Vec<(&str, usize)> =
        silent.map(|case| (&*case.location.file, case.location.scenario.start)).collect();
    locations.dedup();
    let message = "this scenario asserts nothing: got no `Then` step, expected at least one";
    let problem = |(file, line): (&str, usize)| Diagnostic::new(file, line, message.to_owned());
    locations.into_iter().map(problem).collect()
}

/// Parses one feature from its text.
///
/// # Errors
/// The errors in the text.
pub fn load_text(file: &str, text: &str, is_step: StepCheck) -> Result<Vec<Case>, Diagnostics> {
    let (cases, problems) = parse_cases(file, text, is_step)?;
    if problems.is_empty() { Ok(cases) } else { Err(Diagnostics(problems)) }
}

fn parse_cases(
    file: &str,
    text: &str,
    is_step: StepCheck,
) -> Result<(Vec<Case>, Vec<Diagnostic>), Diagnostics> {
    let source = source::FeatureSource::parse(file, text, is_step)?;
    let feature = source::parse_feature(file, &source)?;
    Ok(case::flatten_feature(file, &feature, &source))
}

/// A path as reports display it: with `/` and without a leading `./`.
pub fn display_path(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    text.strip_prefix("./").map_or(text.clone(), str::to_owned)
}
