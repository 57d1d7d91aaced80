//! The result of a folder of cases, as a table by file or JSON.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

/// The results of all files in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The results of the files, by file name.
    pub files: Vec<FileReport>,
}

/// The result of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Name of the file with the cases.
    pub file: String,
    /// Results of the cases, in the order of the file.
    pub judged: Vec<CaseResult>,
}

/// The result of one case or decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    /// Id of the case or decision.
    pub id: String,
    /// Title of the case; empty for a decision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Notes on parts of the case that were ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether the case passed, failed or was not run.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Whether a case or decision passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "why", rename_all = "snake_case")]
pub enum Verdict {
    /// The outcome is as recorded.
    Passed,
    /// The outcome differs; the differences, line by line.
    Failed(Vec<String>),
    /// The case was not run, for this reason.
    NotApplicable(String),
}

/// How many cases have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    /// Number of cases whose outcome is as recorded.
    pub passed: usize,
    /// Number of cases whose outcome differs.
    pub failed: usize,
    /// Number of cases that were not run.
    pub not_applicable: usize,
}

impl Report {
    /// How many cases of all files have each verdict.
    pub fn verdict_counts(&self) -> VerdictCounts {
        VerdictCounts::count(self.files.iter().flat_map(|file| &file.judged))
    }

    /// A table by file, then every failure and note, then the sum.
    pub fn to_terse_text(&self) -> String {
        let width = self.files.iter().map(|file| file.file.len()).max().unwrap_or(0);
        let head = ["passed", "failed", "n/a"];
        let mut text = format!("{:width$} {:>6} {:>6} {:>4}\n", "file", head[0], head[1], head[2]);
        for file in &self.files {
            let VerdictCounts { passed, failed, not_applicable } =
                VerdictCounts::count(&file.judged);
            let name = &file.file;
            let _ = write!(text, "{name:width$} {passed:>6} {failed:>6} {not_applicable:>4}");
            let reasons = file.not_applicable_reasons();
            if !reasons.is_empty() {
                let _ = write!(text, "  {}", reasons.join("; "));
            }
            text.push('\n');
        }
        for judged in self.files.iter().flat_map(|file| &file.judged) {
            if let Verdict::Failed(differences) = &judged.verdict {
                let differences = differences.join("\n  ");
                let _ = writeln!(text, "\nfailed: {} {}\n  {differences}", judged.id, judged.title);
            }
        }
        for judged in self.files.iter().flat_map(|file| &file.judged) {
            for note in &judged.notes {
                let _ = writeln!(text, "\nnote: {}: {note}", judged.id);
            }
        }
        let VerdictCounts { passed, failed, not_applicable } = self.verdict_counts();
        let _ = writeln!(text, "{passed} passed, {failed} failed, {not_applicable} not applicable");
        text
    }
}

impl FileReport {
    /// Why cases were not run; each reason with its number of cases.
    fn not_applicable_reasons(&self) -> Vec<String> {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for judged in &self.judged {
            if let Verdict::NotApplicable(why) = &judged.verdict {
                *reasons.entry(why).or_default() += 1;
            }
        }
        reasons.into_iter().map(|(why, count)| format!("{count} {why}")).collect()
    }
}

impl VerdictCounts {
    fn count<'a>(all: impl IntoIterator<Item = &'a CaseResult>) -> Self {
        let mut counts = Self::default();
        for judged in all {
            match judged.verdict {
                Verdict::Passed => counts.passed += 1,
                Verdict::Failed(_) => counts.failed += 1,
                Verdict::NotApplicable(_) => counts.not_applicable += 1,
            }
        }
        counts
    }

    /// Number of all cases and decisions.
    pub fn total(self) -> usize {
        self.passed + self.failed + self.not_applicable
    }
}
