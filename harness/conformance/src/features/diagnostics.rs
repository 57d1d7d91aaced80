//! The collected errors in feature files.

use std::fmt;

use crate::report::Diagnostic;

/// All diagnostics of the loaded files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Sorts diagnostics by file and line.
    pub fn sorted(mut problems: Vec<Diagnostic>) -> Self {
        problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        Self(problems)
    }

    /// A single diagnostic.
    pub fn one(file: &str, line: usize, message: String) -> Self {
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
