//! Why a step did not hold.

use std::fmt;

/// What a step returns.
pub(crate) type StepResult = Result<(), Failure>;

/// A failure, shown with all its causes.
#[derive(Debug)]
pub(crate) struct Failure(anyhow::Error);

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
