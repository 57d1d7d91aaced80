//! How a run ends, in the numbers that scripts see.

use std::process::ExitCode;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything that was selected passed.
    Passed,
    /// At least one scenario failed, or a feature file is wrong.
    Failed,
    /// The command line asks for something impossible.
    Usage,
    /// The harness or its target could not start.
    NotStarted,
    /// No scenario matched the selection.
    NothingSelected,
    /// Snapshots wait for review, or a flaky scenario counts as failure.
    Pending,
    /// Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The process exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotStarted => 3,
            Self::NothingSelected => 4,
            Self::Pending => 5,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
