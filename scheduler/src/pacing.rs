//! How many requests are under way at once. A new scheduler begins with one and takes one more
//! for each that has been answered: so it finishes something even if it dies soon, as those
//! before it did, and does not only begin everything anew.

use futures::{StreamExt as _, stream::FuturesUnordered};

/// What one scheduler has under way, in its whole life.
#[derive(Debug)]
pub(crate) struct Pacing {
    most: usize,
    answered: usize,
}

impl Pacing {
    /// As many as `most` in the end.
    pub(crate) fn up_to(most: usize) -> Self {
        Self { most: most.max(1), answered: 0 }
    }

    /// Does the work, each piece of which asks for something, in its order where only one piece is under way at a time.
    pub(crate) async fn all<F: Future>(
        &mut self,
        work: impl IntoIterator<Item = F>,
        mut take: impl FnMut(F::Output),
    ) {
        let mut waiting = work.into_iter().fuse();
        let mut under_way = FuturesUnordered::new();
        loop {
            let room = self.most.min(self.answered + 1).saturating_sub(under_way.len());
            under_way.extend(waiting.by_ref().take(room));
            let Some(answer) = under_way.next().await else { return };
            self.answered += 1;
            take(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// How many pieces were under way when each of `count` began.
    async fn under_way(pacing: &mut Pacing, count: usize) -> Vec<usize> {
        let (now, seen) = (Cell::new(0), RefCell::new(Vec::new()));
        let piece = |_| async {
            now.set(now.get() + 1);
            seen.borrow_mut().push(now.get());
            tokio::task::yield_now().await;
            now.set(now.get() - 1);
        };
        let mut answered = 0;
        pacing.all((0..count).map(piece), |()| answered += 1).await;
        assert_eq!(answered, count);
        seen.into_inner()
    }

    #[tokio::test]
    async fn the_first_is_alone_and_each_answer_makes_room_for_one_more() {
        let mut pacing = Pacing::up_to(4);
        let seen = under_way(&mut pacing, 12).await;
        assert_eq!(seen[0], 1);
        assert!(seen[1..3].iter().all(|at_once| *at_once <= 2), "{seen:?}");
        assert_eq!(seen.iter().max(), Some(&4));
        assert_eq!(under_way(&mut pacing, 4).await, [1, 2, 3, 4]);
        assert_eq!(under_way(&mut Pacing::up_to(0), 2).await, [1, 1]);
    }
}
