//! The `schedlab` program. Everything is in the library; see [`schedlab::commands`].

use std::process::ExitCode;

/// The memory allocator. Objects are small JSON trees that are allocated and freed by the thousand;
/// with the system allocator a run of the features would spend a third of its time there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    schedlab::commands::main()
}
