//! What is wrong with a feature file: one message with file and line.

use std::fmt;

/// One mistake in a feature file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as shown.
    pub file: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// What was found and what is allowed.
    pub message: String,
}

impl Problem {
    /// A mistake at a line.
    pub fn new(file: &str, line: usize, message: String) -> Self {
        Self { file: file.to_owned(), line, message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

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
