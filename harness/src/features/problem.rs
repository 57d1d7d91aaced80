//! What is wrong with feature files, all of it at once.

use std::fmt;

use crate::report::Problem;

/// All mistakes that were found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Mistakes by file and line.
    pub fn sorted(mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        Self(problems)
    }

    /// A single mistake.
    pub fn one(file: &str, line: usize, message: String) -> Self {
        Self(vec![Problem::new(file, line, message)])
    }
}

impl fmt::Display for Problems {
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
