//! What came of a run, as data. How it is shown is in the modules below: for people, for CI,
//! for programs, and in the results folder.
//!
//! Nothing in a [`Report`] depends on the machine's speed: two runs of the same scenarios with
//! the same seed write the same `report.json`, byte for byte. Wall times stay outside.

mod github;
mod junit;
mod pretty;
mod problem;
mod results;
mod showing;
mod writable;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use github::annotations;
pub use junit::junit;
pub use pretty::{Colours, Painter, summary};
pub use problem::Problem;
pub(crate) use results::json;
pub use results::{latest_report, write_results};
pub use showing::{Showing, WorkloadShowing};
pub use writable::unwritable;

/// Where a report goes and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reporter {
    /// To standard output, for people.
    Pretty,
    /// `JUnit` XML to a file.
    Junit(PathBuf),
    /// JSON to a file.
    Json(PathBuf),
}

impl FromStr for Reporter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            None if text == "pretty" => Ok(Self::Pretty),
            Some(("junit", path)) if !path.is_empty() => Ok(Self::Junit(path.into())),
            Some(("json", path)) if !path.is_empty() => Ok(Self::Json(path.into())),
            _ => Err(format!(
                "`{text}` is no reporter; allowed are pretty, junit=PATH and json=PATH"
            )),
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Seed of every random choice.
    pub seed: u64,
    /// On what kind of cluster it was.
    #[serde(default = "emulator")]
    pub cluster: String,
    /// What came of each case, in the order of files and lines.
    pub cases: Vec<CaseReport>,
    /// What made the run fail beside its cases: files that cannot be read, a cluster that does not
    /// start, snapshots that nobody shows.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub problems: Vec<Problem>,
}

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseReport {
    /// Names it in results: file and scenario name.
    pub id: String,
    /// Its file.
    pub file: String,
    /// Its line in that file.
    pub line: usize,
    /// Its feature.
    pub feature: String,
    /// Its rule.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<String>,
    /// Its name.
    pub name: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The verdict.
    pub outcome: Outcome,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub skipped: Option<String>,
    /// It failed first and passed on a retry; whether that is a failure, the verdict says.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub flaky: bool,
    /// How many deaths of its scheduler it was played with, and no rule was broken.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub crashes: u32,
    /// How much of the cluster's time it took.
    pub virtual_millis: u64,
    /// Its steps.
    pub steps: Vec<StepReport>,
    /// Why it did not pass; on a flaky one, why it failed at first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failure>,
    /// Who ran where and what happened to whom, for comparison with other runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub showing: Option<Showing>,
    /// How long it took here. No part of the data that is compared.
    #[serde(skip)]
    pub wall: Duration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl CaseReport {
    /// Why it did not pass, in words; on a flaky one these are of its first attempt, not of the
    /// steps that are reported.
    fn why(&self) -> Option<String> {
        let Failure { message, .. } = self.failure.as_ref()?;
        Some(if self.flaky { format!("{FLAKY}\n{message}") } else { message.clone() })
    }
}

/// What stands above the failure of a case that passed on a retry.
const FLAKY: &str = "flaky: the first attempt failed:";

/// The verdict on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every step held.
    Passed,
    /// Something did not.
    Failed,
    /// A snapshot of it waits for review.
    Pending,
    /// It was not run: Ctrl-C, or `--fail-fast`.
    NotRun,
    /// The cluster or the scheduler cannot run it.
    Skipped,
}

/// What came of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// `Given`, `When`, `Then`, `And`, `But`.
    pub keyword: String,
    /// The rest of the line.
    pub text: String,
    /// The table or the text that stands below it, line by line.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub below: Vec<String>,
    /// Its line.
    pub line: usize,
    /// The verdict.
    pub outcome: Outcome,
}

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of thing went wrong.
    pub kind: FailureKind,
    /// The line of the step, or of the case.
    pub line: usize,
    /// In words; may have many lines.
    pub message: String,
    /// The command that runs this case alone in the same way.
    pub reproduce: String,
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// No step of the vocabulary matches.
    UndefinedStep,
    /// More than one matches.
    AmbiguousStep,
    /// A step did not hold.
    Step,
    /// A step took more virtual time than `--timeout`.
    Timeout,
    /// Something in the emulator or the scheduler panicked.
    Panic,
    /// A rule of the audit was broken.
    Audit,
    /// A snapshot differs or waits for review.
    Snapshot,
    /// Two runs of the same seed differ.
    Nondeterministic,
    /// It shows something else than in the run that it is held against.
    Different,
    /// The cluster could not start.
    NotStarted,
}

impl Default for Report {
    fn default() -> Self {
        Self { seed: 0, cluster: emulator(), cases: Vec::new(), problems: Vec::new() }
    }
}

fn emulator() -> String {
    "emulator".to_owned()
}

impl Report {
    /// Whether its time is virtual, so that the order of what happened is no chance.
    pub fn is_virtual(&self) -> bool {
        self.cluster == emulator()
    }

    /// Ids of the cases that did not pass.
    pub fn failed_ids(&self) -> BTreeSet<String> {
        let held = [Outcome::Passed, Outcome::Skipped];
        let failed = self.cases.iter().filter(|case| !held.contains(&case.outcome));
        failed.map(|case| case.id.clone()).collect()
    }

    /// How many cases came to this verdict.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.cases.iter().filter(|case| case.outcome == outcome).count()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A case that took 1.5 s.
    pub(crate) fn case(outcome: Outcome, flaky: bool, failed: bool) -> CaseReport {
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
            flaky,
            crashes: 0,
            virtual_millis: 1500,
            steps: Vec::<StepReport>::new(),
            failure: failed.then_some(failure),
            showing: None,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn reporters_are_named_with_their_path() {
        assert_eq!("junit=a.xml".parse(), Ok(Reporter::Junit("a.xml".into())));
        assert_eq!("pretty".parse(), Ok(Reporter::Pretty));
        assert!("html".parse::<Reporter>().unwrap_err().contains("allowed are"));
        assert!("json=".parse::<Reporter>().is_err());
    }
}
