//! The `schedlab` program. Everything is in the library; see [`schedlab::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    schedlab::cli::main()
}
