//! Polls a cluster for a state that no watch reports.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Time between two attempts of [`poll_until_ok`].
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Repeats `attempt` until its inner result is `Ok` or the time `within` is over; returns the last
/// inner result. An outer error ends the polling immediately.
pub(super) async fn poll_until_ok<T, E>(
    within: Duration,
    mut attempt: impl AsyncFnMut() -> anyhow::Result<Result<T, E>>,
) -> anyhow::Result<Result<T, E>> {
    let end = Instant::now() + within;
    loop {
        let result = attempt().await?;
        if result.is_ok() || Instant::now() > end {
            return Ok(result);
        }
        sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn polling_ends_with_success_timeout_or_an_outer_error() {
        let mut attempts = 0;
        let third = poll_until_ok(POLL_INTERVAL * 9, async || {
            attempts += 1;
            Ok((attempts == 3).then_some("here").ok_or(attempts))
        });
        assert_eq!(third.await.unwrap(), Ok("here"));
        let mut attempts = 0;
        let never = poll_until_ok(POLL_INTERVAL * 9, async || {
            attempts += 1;
            Ok(Err::<(), _>(attempts))
        });
        assert_eq!(never.await.unwrap(), Err(11));
        let failed = poll_until_ok(POLL_INTERVAL, async || anyhow::bail!("gone"));
        let failed: anyhow::Result<Result<(), ()>> = failed.await;
        assert_eq!(failed.unwrap_err().to_string(), "gone");
    }
}
