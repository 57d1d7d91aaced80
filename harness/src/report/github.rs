//! Annotations that GitHub shows beside the lines of a change.

use std::fmt::Write as _;

use super::{Outcome, Problem, Report};

/// One `::error` line for each case that did not pass, and for each problem beside them.
pub fn annotations(report: &Report) -> String {
    let mut out = String::new();
    for case in report.cases.iter().filter(|c| c.outcome != Outcome::Passed) {
        let (Some(failure), Some(why)) = (&case.failure, case.why()) else { continue };
        let _ = writeln!(
            out,
            "::error file={},line={},title={}::{}",
            property(&case.file),
            failure.line,
            property(&case.name),
            data(&format!("{why}\n{}", failure.reproduce)),
        );
    }
    for Problem { file, line, message } in &report.problems {
        let place = match (&**file, line) {
            ("", _) => String::new(),
            (file, 0) => format!("file={},", property(file)),
            (file, line) => format!("file={},line={line},", property(file)),
        };
        let _ = writeln!(out, "::error {place}title=schedlab::{}", data(message));
    }
    out
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
