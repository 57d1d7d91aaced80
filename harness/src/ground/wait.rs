//! Waiting for what a cluster comes to be, where no watch tells of it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often it is asked.
const ASK: Duration = Duration::from_millis(50);

/// What the first question brings that succeeds; what the last one brings, where none does within
/// a time. What waiting does not mend is the outer error, and ends it.
pub(super) async fn answered<T, E>(
    within: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Result<T, E>>,
) -> anyhow::Result<Result<T, E>> {
    let end = Instant::now() + within;
    loop {
        let answer = ask().await?;
        if answer.is_ok() || Instant::now() > end {
            return Ok(answer);
        }
        sleep(ASK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_asked_until_it_answers_or_the_time_is_over_or_it_fails() {
        let mut asked = 0;
        let third = answered(ASK * 9, async || {
            asked += 1;
            Ok((asked == 3).then_some("here").ok_or(asked))
        });
        assert_eq!(third.await.unwrap(), Ok("here"));
        let mut asked = 0;
        let never = answered(ASK * 9, async || {
            asked += 1;
            Ok(Err::<(), _>(asked))
        });
        assert_eq!(never.await.unwrap(), Err(11));
        let failed = answered(ASK, async || anyhow::bail!("gone"));
        let failed: anyhow::Result<Result<(), ()>> = failed.await;
        assert_eq!(failed.unwrap_err().to_string(), "gone");
    }
}
