//! Jobs whose reason is that their queue is at its fair share.

use insta::assert_snapshot;

use crate::texts::suggestions_of;
use schedlab_scheduler_core::{Profile, profile::Action};
use schedlab_testkit::{plan_of, plan_with};

/// The queue that the reason names as over its fair share.
fn full_queue(cluster: &str) -> Option<String> {
    full_queue_with(&Profile::kai(), cluster)
}

fn full_queue_with(profile: &Profile, cluster: &str) -> Option<String> {
    let plan = plan_with(profile, cluster);
    let (_, output) = plan.split_once("It may not reclaim, because queue ")?;
    let (queue, _) = output.split_once(" would exceed its fair share")?;
    Some(queue.to_owned())
}

#[test]
fn fair_share_is_the_reason_only_if_it_decides_about_victims() {
    let cluster = "
        node n gpus=2
        queue a quota=0
        queue b quota=0
        job a1 gpus=1 queue=a on n
        job a2 gpus=1 queue=a on n
        gang b1 pods=2 gpus=1 queue=b
    ";
    let full = |profile| full_queue_with(&profile, cluster);
    assert_eq!(full(Profile::kai()).as_deref(), Some("b"));
    assert_eq!(full(Profile { actions: vec![Action::Allocate], ..Profile::kai() }), None);
    assert_eq!(full(Profile { uses_fair_shares: false, ..Profile::kai() }), None);
}

#[test]
fn over_quota_use_of_its_own_queue_is_not_lent_by_others() {
    let full = |quota| {
        full_queue(&format!(
            "
            node n gpus=4
            queue a quota={quota}
            queue b quota=0
            job a1 pods=3 min=1 gpus=1 queue=a on n n n
            job b1 gpus=1 queue=b on n
            gang b2 pods=2 gpus=1 queue=b
        "
        ))
    };
    assert_eq!(full(1).as_deref(), Some("b"));
    assert_eq!(full(2), None);
}

#[test]
fn fair_share_is_the_reason_only_if_nodes_would_hold_the_pods() {
    // On one node no queue is over its quota; the lenders are on the other one.
    let full = |label| {
        full_queue(&format!(
            "
            node n gpus=2 label k=n
            node m gpus=4 label k=m
            queue a quota=2
            queue b quota=0
            queue x quota=0
            job a1 gpus=1 queue=a on n
            job a2 gpus=1 queue=a on n
            job b1 pods=2 min=1 gpus=1 queue=b on m m
            job x1 pods=2 min=1 gpus=1 queue=x on m m
            job b2 gpus=1 queue=b needs k={label}
        "
        ))
    };
    assert_eq!(full("m").as_deref(), Some("b"));
    assert_eq!(full("n"), None);
}

#[test]
fn the_named_queue_has_a_lending_sibling() {
    let full = |a1| {
        full_queue(&format!(
            "
            node n gpus=4
            queue a quota=0
            queue d quota=0
            queue e parent=d quota=0 priority=200
            queue f parent=d quota=0
            job a1 gpus=2 {a1} queue=a on n
            job e1 gpus=2 queue=e on n
            job f1 gpus=1 queue=f
        "
        ))
    };
    assert_eq!(full("").as_deref(), Some("d"));
    assert_eq!(full("non-preemptible").as_deref(), Some("f"));
}

#[test]
fn an_ancestor_exactly_at_its_fair_share_is_not_named() {
    let full = full_queue(
        "
        node n gpus=4
        queue a quota=0
        queue d quota=0
        queue e parent=d quota=0 priority=200
        queue f parent=d quota=0
        job a1 pods=3 min=1 gpus=1 queue=a on n n n
        job e1 gpus=1 queue=e on n
        job e2 gpus=1 queue=e needs on=another
        job f1 gpus=1 queue=f
    ",
    );
    assert_eq!(full.as_deref(), Some("f"));
}

#[test]
fn a_queue_over_its_fair_share_of_an_unrequested_resource_is_named() {
    // As in KAI, nothing is reclaimed then: all resources of the queue are compared with its share.
    let cluster = |cores, more| {
        format!(
            "
            node n gpus=4 cpu=16
            queue a quota=0 cpu-quota=4
            queue b quota=0 cpu-quota=2
            job a1 pods=4 min=1 gpus=1 queue=a on n n n n
            job a2 cpu=14 queue=a needs on=another
            job b1 cpu={cores} queue=b on n
            job b2 gpus=1 {more} queue=b
        "
        )
    };
    assert_eq!(full_queue(&cluster(7, "")), None);
    let output = plan_of(&cluster(8, ""));
    assert!(
        output.contains("because queue b would exceed its fair share of CPU cores."),
        "{output}"
    );
    assert_snapshot!(suggestions_of(&cluster(8, ""), "b2"), @r"
    PodSchedulingErrors
    raise the quota of queue b to the CPU cores that it uses
      then it runs on n (Later)
    ");
    // The same for a requested resource in addition.
    assert_snapshot!(suggestions_of(&cluster(8, "cpu=1"), "b2"), @r"
    PodSchedulingErrors
    raise the quota of queue b to 1 CPU core more than it uses
      then it runs on n (Later)
    ");
}
