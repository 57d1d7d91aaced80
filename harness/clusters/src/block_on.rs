//! Runs async work from code that is not async.

use anyhow::Context as _;

/// Runs the work on a runtime of its own, in this thread.
///
/// # Errors
/// The runtime cannot be started, or the work fails.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(work)
}
