//! The result of a run as data. The submodules render it for people, for CI and for programs, and
//! write the results folder.
//!
//! Nothing in a [`Report`] depends on the machine's speed: two emulated runs of the same scenarios
//! with the same seed write the same `report.json`, byte for byte. Wall times are left out.

mod archive;
mod diagnostic;
mod github;
mod junit;
mod merge;
mod not_judged;
mod pretty;
pub mod progress;
mod results;
mod run_outcome;
mod run_record;
mod shard;
mod svg;
mod writable;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use archive::{archive_lines, read_archive};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use github::{github_annotations, github_summary};
pub use junit::junit_xml;
pub use merge::{MergeError, RunResults, balance_text, merge_shards};
pub use not_judged::{ClaimKind, UnjudgedClaim};
pub use pretty::{Colors, FailureLength, PrettyPrinter, summary_text};
pub use results::report_json;
pub use results::{RUN_FILES, latest_report_text, parse_run_files, read_run_files, write_results};
pub use run_outcome::{RunOutcome, WorkloadOutcome};
pub use run_record::{PlannedScenario, RunIdentity, RunRecord};
pub use shard::{CaseTimes, Shard, assign_shards};
pub use svg::svg_image;
pub use writable::first_unwritable_path;

/// Format and destination of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reporter {
    /// Text on standard output.
    Pretty,
    /// Annotations on standard output and a summary of the step, for GitHub Actions.
    Github,
    /// `JUnit` XML in a file.
    Junit(PathBuf),
    /// JSON in a file.
    Json(PathBuf),
    /// The text of `Pretty` as an image in a file.
    Svg(PathBuf),
    /// A page in a file, with the cluster after every write.
    Html(PathBuf),
}

/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

impl Reporter {
    /// The path of the report; `None` for reports without a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Pretty | Self::Github => None,
            Self::Junit(path) | Self::Json(path) | Self::Svg(path) | Self::Html(path) => Some(path),
        }
    }

    /// The file of the report; `None` for one on standard output.
    pub fn file(&self) -> Option<&Path> {
        self.path().filter(|path| *path != Path::new(STANDARD_OUTPUT))
    }

    /// Whether the report is a document that standard output has for itself.
    fn is_document_on_stdout(&self) -> bool {
        self.path() == Some(Path::new(STANDARD_OUTPUT))
    }
}

/// The reporters of a command line, with `pretty` if they leave standard output free: a run whose
/// reports are files only is not silent.
///
/// # Errors
/// Two reports are to be written to standard output.
pub fn with_fallback_reporter(reporters: &[Reporter]) -> Result<Vec<Reporter>, String> {
    let mut all = reporters.to_vec();
    let documents = all.iter().filter(|one| one.is_document_on_stdout()).count();
    let texts = all.iter().any(|one| one.path().is_none());
    if documents > 1 || (documents == 1 && texts) {
        let message = "--reporter: got two reports on standard output, expected `-` alone there: \
                       give the others a path, and leave out pretty and github";
        return Err(message.to_owned());
    }
    if documents == 0 && !all.contains(&Reporter::Pretty) {
        all.push(Reporter::Pretty);
    }
    Ok(all)
}

impl FromStr for Reporter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            None if text == "pretty" => Ok(Self::Pretty),
            None if text == "github" => Ok(Self::Github),
            Some(("junit", path)) if !path.is_empty() => Ok(Self::Junit(path.into())),
            Some(("json", path)) if !path.is_empty() => Ok(Self::Json(path.into())),
            Some(("svg", path)) if !path.is_empty() => Ok(Self::Svg(path.into())),
            Some(("html", path)) if !path.is_empty() => Ok(Self::Html(path.into())),
            _ => Err(format!(
                "got reporter `{text}`, expected pretty, github, junit=PATH, json=PATH, svg=PATH or \
                 html=PATH"
            )),
        }
    }
}

/// The report on a run of features.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Seed of every random choice.
    pub seed: u64,
    /// Kind of the cluster, as in `--cluster`.
    #[serde(default = "emulator_environment")]
    pub cluster: String,
    /// Results of the cases, by file and line.
    pub cases: Vec<CaseReport>,
    /// Errors outside the cases: unreadable files, a cluster that does not start, orphan snapshots.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub problems: Vec<Diagnostic>,
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseReport {
    /// The id of the case in results: file and scenario name.
    pub id: String,
    /// Display path of the feature file.
    pub file: String,
    /// Line of the case in the file.
    pub line: usize,
    /// Name of the feature.
    pub feature: String,
    /// Name of the rule, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<String>,
    /// Name of the scenario or example row.
    pub name: String,
    /// Tags of the case, without `@`.
    pub tags: Vec<String>,
    /// The verdict: whether the case passed.
    pub outcome: CaseOutcome,
    /// Why the case was skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub skipped: Option<String>,
    /// The capabilities that the case needs and the scheduler lacks, if that is why it was skipped.
    #[serde(rename = "missingCapabilities", skip_serializing_if = "Vec::is_empty", default)]
    pub missing_capabilities: Vec<String>,
    /// Claims about wording that were not judged, because the scheduler under test uses other
    /// words. They neither fail nor skip the case.
    #[serde(rename = "wordingNotJudged", skip_serializing_if = "Vec::is_empty", default)]
    pub wording_not_judged: Vec<UnjudgedClaim>,
    /// Snapshots and numbers of writes that were not judged, because they show how our scheduler
    /// works.
    #[serde(rename = "snapshotsNotJudged", skip_serializing_if = "Vec::is_empty", default)]
    pub snapshots_not_judged: Vec<UnjudgedClaim>,
    /// Whether the case failed first and passed on a retry. `outcome` says whether that counts as a
    /// failure.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub flaky: bool,
    /// Why the case is in quarantine: its failure does not fail the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quarantined: Option<String>,
    /// Number of runs in which the scheduler was made to crash and no rule was broken.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub crashes: u32,
    /// Duration of the case on the cluster's clock, in milliseconds.
    pub virtual_millis: u64,
    /// Results of the case's steps.
    pub steps: Vec<StepReport>,
    /// Why the case did not pass; for a flaky case, why its first attempt failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failure>,
    /// Placements and pod histories, for the comparison with other runs.
    #[serde(rename = "showing", skip_serializing_if = "Option::is_none", default)]
    pub run_outcome: Option<RunOutcome>,
    /// Wall time of the case; it is not compared with other runs.
    #[serde(skip)]
    pub wall: Duration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl CaseReport {
    /// Whether the case failed and counts: it is not in quarantine.
    pub fn is_counted_failure(&self) -> bool {
        self.outcome == CaseOutcome::Failed && self.quarantined.is_none()
    }

    /// Whether the case failed, and its quarantine keeps the failure from the verdict.
    pub fn is_quarantined_failure(&self) -> bool {
        self.outcome == CaseOutcome::Failed && self.quarantined.is_some()
    }

    /// The failure message. For a flaky case it says that it is about the first attempt, because
    /// the reported steps are those of the last one.
    fn failure_message(&self) -> Option<String> {
        let Failure { message, .. } = self.failure.as_ref()?;
        Some(if self.flaky { format!("{FLAKY_HEADING}\n{message}") } else { message.clone() })
    }
}

/// Heading above the failure of a case that passed on a retry.
const FLAKY_HEADING: &str = "flaky: the first attempt failed:";

/// The verdict on a case or a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseOutcome {
    /// All steps passed.
    Passed,
    /// A step failed or an audit rule was broken.
    Failed,
    /// A new snapshot is pending review.
    Pending,
    /// The case was not started, because of Ctrl-C, `--fail-fast` or `--max-fail`.
    NotRun,
    /// The cluster or the scheduler cannot run the case.
    Skipped,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// The keyword: `Given`, `When`, `Then`, `And` or `But`.
    pub keyword: String,
    /// The sentence after the keyword.
    pub text: String,
    /// The table or doc string below the step, line by line.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub below: Vec<String>,
    /// Line number of the step.
    pub line: usize,
    /// The verdict: whether the step passed.
    pub outcome: CaseOutcome,
}

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// Line of the failed step, or else of the case.
    pub line: usize,
    /// The failure message, which may have several lines.
    pub message: String,
    /// The command that reproduces this case alone.
    pub reproduce: String,
}

/// What kind of failure made a case not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A step matches no step of the catalogue.
    UndefinedStep,
    /// A step matches more than one step of the catalogue.
    AmbiguousStep,
    /// A step failed.
    Step,
    /// A step exceeded `--timeout`.
    Timeout,
    /// The emulator or the scheduler panicked.
    Panic,
    /// An audit rule was broken.
    Audit,
    /// A snapshot differs or is pending review.
    Snapshot,
    /// Two runs with the same seed differ.
    Nondeterministic,
    /// The outcome differs from that of the baseline run.
    Different,
    /// The cluster could not start.
    NotStarted,
}

impl Default for Report {
    fn default() -> Self {
        Self { seed: 0, cluster: emulator_environment(), cases: Vec::new(), problems: Vec::new() }
    }
}

fn emulator_environment() -> String {
    "emulator".to_owned()
}

impl Report {
    /// Whether the run was in virtual time, in which the order of events is deterministic.
    pub fn is_virtual_time(&self) -> bool {
        self.cluster == emulator_environment()
    }

    /// Ids of the cases that did not pass.
    pub(crate) fn failed_case_ids(&self) -> BTreeSet<String> {
        let held = [CaseOutcome::Passed, CaseOutcome::Skipped];
        let failed = self.cases.iter().filter(|case| !held.contains(&case.outcome));
        failed.map(|case| case.id.clone()).collect()
    }

    /// Number of cases with this verdict.
    pub fn count_of(&self, outcome: CaseOutcome) -> usize {
        self.cases.iter().filter(|case| case.outcome == outcome).count()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A case that took 1.5 s.
    pub(crate) fn case(outcome: CaseOutcome, flaky: bool, failed: bool) -> CaseReport {
        let failure = Failure {
            kind: FailureKind::Step,
            line: 7,
            message: "expected 8, found 7".to_owned(),
            reproduce: "schedlab run f.feature:5 --seed 1".to_owned(),
        };
        CaseReport {
            id: "f.feature: a".to_owned(),
            file: "f.feature".to_owned(),
            line: 5,
            feature: "f".to_owned(),
            rule: None,
            name: "a".to_owned(),
            tags: Vec::new(),
            outcome,
            skipped: None,
            missing_capabilities: Vec::new(),
            wording_not_judged: Vec::new(),
            snapshots_not_judged: Vec::new(),
            flaky,
            quarantined: None,
            crashes: 0,
            virtual_millis: 1500,
            steps: Vec::<StepReport>::new(),
            failure: failed.then_some(failure),
            run_outcome: None,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn reporters_parse_with_their_path() {
        assert_eq!("junit=a.xml".parse(), Ok(Reporter::Junit("a.xml".into())));
        assert_eq!("pretty".parse(), Ok(Reporter::Pretty));
        assert_eq!("github".parse(), Ok(Reporter::Github));
        assert_eq!("html=r.html".parse(), Ok(Reporter::Html("r.html".into())));
        assert!("text".parse::<Reporter>().unwrap_err().contains("expected"));
        assert!("json=".parse::<Reporter>().is_err());
    }

    #[test]
    fn a_run_whose_reports_are_files_prints_text_too() {
        let (json, stdout) = (Reporter::Json("a".into()), Reporter::Json("-".into()));
        let all = |reporters: &[Reporter]| with_fallback_reporter(reporters);
        assert_eq!(all(std::slice::from_ref(&json)).unwrap(), [json.clone(), Reporter::Pretty]);
        assert_eq!(all(&[Reporter::Github]).unwrap(), [Reporter::Github, Reporter::Pretty]);
        assert_eq!(all(std::slice::from_ref(&stdout)).unwrap(), std::slice::from_ref(&stdout));
        assert!(all(&[stdout.clone(), Reporter::Pretty]).unwrap_err().contains("two reports"));
        assert!(all(&[stdout.clone(), stdout]).is_err());
    }
}
