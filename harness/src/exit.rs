//! Exit codes.

use std::process::ExitCode;

use schedlab_clusters::interrupt::INTERRUPTED_EXIT_STATUS;

/// Exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Everything that was selected passed.
    Passed,
    /// At least one scenario failed, or a feature file is invalid.
    Failed,
    /// The command line is invalid.
    Usage,
    /// The harness or its target could not start.
    NotStarted,
    /// No scenario matched the selection.
    NothingSelected,
    /// Snapshots are pending review, or a flaky scenario counts as a failure.
    Pending,
    /// The command was interrupted with Ctrl-C.
    Interrupted,
}

impl ExitStatus {
    /// The status with this exit code.
    pub fn from_exit_code(code: u8) -> Option<Self> {
        let all = [
            Self::Passed,
            Self::Failed,
            Self::Usage,
            Self::NotStarted,
            Self::NothingSelected,
            Self::Pending,
            Self::Interrupted,
        ];
        all.into_iter().find(|status| status.exit_code() == code)
    }

    /// The exit code of the process.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotStarted => 3,
            Self::NothingSelected => 4,
            Self::Pending => 5,
            Self::Interrupted => INTERRUPTED_EXIT_STATUS,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(exit.exit_code())
    }
}
