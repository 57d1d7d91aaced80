//! In which order jobs of a queue are served and taken from, by the order of the plugins.

use crate::{Profile, profile::JobRule, testing::plan_with};

/// What is decided first.
fn first(order: &[JobRule], text: &str) -> String {
    let profile = Profile { job_order: order.to_vec(), ..Profile::kai() };
    plan_with(&profile, text).lines().next().unwrap().to_owned()
}

#[test]
fn the_first_rule_of_the_profile_that_tells_two_jobs_apart_decides() {
    let [priority, elastic] = JobRule::ALL;
    let cluster = "
        node n1 gpus=2
        job big pods=2 min=1 gpus=1 priority=75 on n1
        job small gpus=1 priority=50
    ";
    assert_eq!(first(&[priority, elastic], cluster), "big runs on n1");
    assert_eq!(first(&[elastic, priority], cluster), "small runs on n1");
    let alike = cluster.replace("priority=50", "priority=75");
    assert_eq!(first(&[priority, elastic], &alike), "small runs on n1");
    assert_eq!(first(&[priority], &alike), "big runs on n1", "it is older");
}

#[test]
fn victims_are_taken_in_the_reverse_order() {
    let [priority, elastic] = JobRule::ALL;
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
    assert_eq!(first(&[priority], &alike), "small leaves n1 for back (reclaim)", "it is younger");
}
