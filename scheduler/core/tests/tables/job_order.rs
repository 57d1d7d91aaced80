//! The order in which jobs of a queue are allocated and evicted, by the plugin order.

use schedlab_scheduler_core::{Profile, profile::JobOrderRule};
use schedlab_testkit::plan_with;

/// The first decision.
fn first(order: &[JobOrderRule], text: &str) -> String {
    let profile = Profile { job_order: order.to_vec(), ..Profile::kai() };
    plan_with(&profile, text).lines().next().expect("a plan has a line").to_owned()
}

#[test]
fn the_first_rule_that_distinguishes_two_jobs_decides() {
    let [priority, elastic] = JobOrderRule::ALL;
    let cluster = "
        node n1 gpus=2
        job big pods=2 min=1 gpus=1 priority=75 on n1
        job small gpus=1 priority=50
    ";
    assert_eq!(first(&[priority, elastic], cluster), "big runs on n1");
    assert_eq!(first(&[elastic, priority], cluster), "small runs on n1");
    let alike = cluster.replace("priority=50", "priority=75");
    assert_eq!(first(&[priority, elastic], &alike), "small runs on n1");
    assert_eq!(first(&[priority], &alike), "big runs on n1", "the job is older");
}

#[test]
fn victims_are_taken_in_the_reverse_order() {
    let [priority, elastic] = JobOrderRule::ALL;
    let cluster = "
        node n1 gpus=3
        queue owner quota=1
        queue borrower
        job big pods=2 min=1 gpus=1 priority=75 queue=borrower on n1 n1
        job small gpus=1 priority=50 queue=borrower on n1
        job back gpus=1 queue=owner
    ";
    assert_eq!(first(&[priority, elastic], cluster), "small leaves n1 for back (reclaim)");
    assert_eq!(first(&[elastic, priority], cluster), "big leaves n1 for back (reclaim)");
    let alike = cluster.replace("priority=50", "priority=75");
    assert_eq!(first(&[priority, elastic], &alike), "big leaves n1 for back (reclaim)");
    assert_eq!(
        first(&[priority], &alike),
        "small leaves n1 for back (reclaim)",
        "the job is younger"
    );
}

#[test]
fn without_fair_share_the_older_queue_goes_first_and_nothing_is_reclaimed() {
    let cluster = "
        node n1 gpus=2
        queue older quota=1
        queue younger quota=2 priority=200
        job first gpus=1 queue=older on n1
        job waits gpus=1 queue=older
        job asks gpus=1 queue=younger
    ";
    let of = |fair_shares, cluster: &str| {
        plan_with(&Profile { uses_fair_shares: fair_shares, ..Profile::kai() }, cluster)
    };
    assert_eq!(of(true, cluster).lines().next(), Some("asks runs on n1"));
    assert_eq!(of(false, cluster).lines().next(), Some("waits runs on n1"));
    let full =
        cluster.replace("job waits gpus=1 queue=older", "job waits gpus=1 queue=older on n1");
    assert!(of(true, &full).contains("(reclaim)"), "{}", of(true, &full));
    assert!(!of(false, &full).contains("(reclaim)"), "{}", of(false, &full));
}
