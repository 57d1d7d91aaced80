//! The error type of steps.

use std::fmt;

/// Result of a step function.
pub type StepResult = Result<(), Failure>;

/// An error that displays all its causes.
#[derive(Debug)]
pub struct Failure(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}
