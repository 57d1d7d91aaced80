//! `schedlab-scheduler`: runs the scheduler against a cluster, or prints what it needs there. The
//! command line is in the library, because `schedlab scheduler` has the same verbs.

use std::process::ExitCode;

fn main() -> ExitCode {
    schedlab_scheduler::cli::main()
}
