//! Several writes under way at once, and news that a death left untold.

use std::sync::atomic::Ordering;

use insta::assert_snapshot;

use crate::{dies_before_each_write, lab::Lab};

#[test]
fn many_writes_at_once_lose_and_repeat_nothing_whenever_the_scheduler_dies() {
    let writes = dies_before_each_write(
        &async |lab| lab.write_at_once(8),
        &|lab| {
            lab.job("gang", "a", (4, 4));
            lab.job("other", "b", (4, 1));
        },
        "gang: 4 Running; other: 4 Running; 8 bound, 0 evicted; 8 Scheduled",
    );
    assert!(writes >= 20, "two groups, eight bindings, eight events and two starts: {writes}");
}

#[test]
fn a_start_that_was_never_told_is_told_by_the_next_scheduler() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        // The group and its two bindings.
        let tried = lab.start_doomed(3);
        lab.job("gang", "q", (2, 2));
        lab.until(|| tried.load(Ordering::Relaxed) > 3).await;
        assert_eq!(lab.starts(), 0);
        lab.stop().await;
        lab.start();
        lab.pass(5).await;
        assert_eq!(lab.starts(), 1);
        assert_snapshot!(lab.outcome(), @"gang: 2 Running; 2 bound, 0 evicted; 2 Scheduled");
    });
}
