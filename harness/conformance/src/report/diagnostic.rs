//! Errors with file and line.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An error in a file, or about the run as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Display path of the file; empty for an error without a file.
    pub file: String,
    /// Line number, counted from 1; 0 means the whole file.
    pub line: usize,
    /// The message: what was found and what was expected.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic about a line of a file.
    pub fn new(file: &str, line: usize, message: String) -> Self {
        Self { file: file.to_owned(), line, message }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.file, self.line) {
            ("", _) => f.write_str(&self.message),
            (file, 0) => write!(f, "{file}: {}", self.message),
            (file, line) => write!(f, "{file}:{line}: {}", self.message),
        }
    }
}

/// All diagnostics of the loaded files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Sorts diagnostics by file and line.
    pub fn sorted(mut problems: Vec<Diagnostic>) -> Self {
        problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        Self(problems)
    }

    /// A list with one diagnostic.
    pub fn single(file: &str, line: usize, message: String) -> Self {
        Self(vec![Diagnostic::new(file, line, message)])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
