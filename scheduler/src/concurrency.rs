//! Limits the number of concurrent requests. A new scheduler starts with one and allows one more
//! for each response. So a scheduler that crashes repeatedly still completes some requests, instead
//! of starting all of them again and again.

use futures::{StreamExt as _, stream::FuturesUnordered};

/// Limits the concurrent writes of a scheduler to the API server. The limit starts at one and grows
/// with completed writes.
#[derive(Debug)]
pub(crate) struct WriteLimiter {
    limit: usize,
    completed: usize,
}

impl WriteLimiter {
    /// Creates a limiter that grows up to `limit` concurrent writes.
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { limit: limit.max(1), completed: 0 }
    }

    /// Runs all futures within the limit, in order while only one at a time is allowed, and passes
    /// their results to `take`.
    pub(crate) async fn run_all<F: Future>(
        &mut self,
        work: impl IntoIterator<Item = F>,
        mut take: impl FnMut(F::Output),
    ) {
        let mut waiting = work.into_iter().fuse();
        let mut under_way = FuturesUnordered::new();
        loop {
            let room = self.limit.min(self.completed + 1).saturating_sub(under_way.len());
            under_way.extend(waiting.by_ref().take(room));
            let Some(output) = under_way.next().await else { return };
            self.completed += 1;
            take(output);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// For each of `count` futures, the number that were running when it started.
    async fn under_way(pacing: &mut WriteLimiter, count: usize) -> Vec<usize> {
        let (now, seen) = (Cell::new(0), RefCell::new(Vec::new()));
        let piece = |_| async {
            now.set(now.get() + 1);
            seen.borrow_mut().push(now.get());
            tokio::task::yield_now().await;
            now.set(now.get() - 1);
        };
        let mut answered = 0;
        pacing.run_all((0..count).map(piece), |()| answered += 1).await;
        assert_eq!(answered, count);
        seen.into_inner()
    }

    #[tokio::test]
    async fn the_first_request_runs_alone_and_each_response_allows_one_more() {
        let mut pacing = WriteLimiter::with_limit(4);
        let seen = under_way(&mut pacing, 12).await;
        assert_eq!(seen[0], 1);
        assert!(seen[1..3].iter().all(|at_once| *at_once <= 2), "{seen:?}");
        assert_eq!(seen.iter().max(), Some(&4));
        assert_eq!(under_way(&mut pacing, 4).await, [1, 2, 3, 4]);
        assert_eq!(under_way(&mut WriteLimiter::with_limit(0), 2).await, [1, 1]);
    }
}
