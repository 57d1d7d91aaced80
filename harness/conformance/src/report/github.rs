//! Workflow commands that GitHub shows as annotations beside the changed lines.

use std::fmt::Write as _;

use super::{CaseOutcome, Diagnostic, Report};

/// Annotations for GitHub Actions: one `::error` line for each case that did not pass and for each
/// diagnostic.
pub fn github_annotations(report: &Report) -> String {
    let mut out = String::new();
    for case in report.cases.iter().filter(|c| c.outcome != CaseOutcome::Passed) {
        let (Some(failure), Some(why)) = (&case.failure, case.failure_message()) else { continue };
        let _ = writeln!(
            out,
            "::error file={},line={},title={}::{}",
            escape_property(&case.file),
            failure.line,
            escape_property(&case.name),
            escape_data(&format!("{why}\n{}", failure.reproduce)),
        );
    }
    for Diagnostic { file, line, message } in &report.problems {
        let location = match (&**file, line) {
            ("", _) => String::new(),
            (file, 0) => format!("file={},", escape_property(file)),
            (file, line) => format!("file={},line={line},", escape_property(file)),
        };
        let _ = writeln!(out, "::error {location}title=schedlab::{}", escape_data(message));
    }
    out
}

fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}
