//! The error of a trace file.

use std::{fmt, io, path::Path};

/// An error in a trace file, printed as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TraceError {
    /// Display path of the file.
    pub file: String,
    /// Line in the file, counted from 1; 0 means the whole file.
    pub line: u64,
    /// Column or field with the error; may be empty.
    pub column: String,
    /// The invalid value that was found.
    pub found: String,
    /// A description of the allowed values.
    pub allowed: String,
}

impl TraceError {
    /// The error for a file that cannot be opened.
    pub(crate) fn unreadable(path: &Path, error: &io::Error, allowed: &str) -> Self {
        Self::in_line(&path.display().to_string(), 0, error.to_string(), allowed)
    }

    /// The error for a whole line, or for the whole file if `line` is 0.
    pub(crate) fn in_line(file: &str, line: u64, found: String, allowed: &str) -> Self {
        let (file, allowed) = (file.to_owned(), allowed.to_owned());
        Self { file, line, column: String::new(), found, allowed }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, found, allowed } = self;
        f.write_str(file)?;
        if *line > 0 {
            write!(f, ":{line}")?;
        }
        if !column.is_empty() {
            write!(f, ": {column}")?;
        }
        write!(f, ": got {found}, expected {allowed}")
    }
}

/// The suffix `; did you mean `x`?` with the known name nearest to this one; empty if none is near.
pub(crate) fn did_you_mean(name: &str, known: &[&str]) -> String {
    let name = name.to_lowercase();
    let allowed = if name.chars().count() > 5 { 2 } else { 1 };
    let distances = known.iter().map(|near| (strsim::osa_distance(near, &name), near));
    let near = distances.filter(|(distance, _)| *distance <= allowed).min();
    near.map_or_else(String::new, |(_, near)| format!("; did you mean `{near}`?"))
}
