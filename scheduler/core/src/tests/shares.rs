//! Who is told that nobody leaves for it, as its queue has its share.

use crate::{Profile, profile::Action, testing::plan_with};

/// Is any job told that its queue has its share?
fn told_of(cluster: &str) -> bool {
    told_with(&Profile::kai(), cluster)
}

fn told_with(profile: &Profile, cluster: &str) -> bool {
    plan_with(profile, cluster).contains("would have more than its fair share")
}

#[test]
fn shares_are_told_of_only_where_they_decide_who_leaves() {
    let cluster = "
        node n gpus=2
        queue a quota=0
        queue b quota=0
        job a1 gpus=1 queue=a on n
        job a2 gpus=1 queue=a on n
        gang b1 pods=2 gpus=1 queue=b
    ";
    let told = |profile| told_with(&profile, cluster);
    assert!(told(Profile::kai()));
    assert!(!told(Profile { actions: vec![Action::Allocate], ..Profile::kai() }));
    assert!(!told(Profile { fair_shares: false, ..Profile::kai() }));
}

#[test]
fn what_its_own_queue_has_beyond_its_quota_is_nothing_that_others_lend() {
    let told = |quota| {
        told_of(&format!(
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
    assert!(told(1));
    assert!(!told(2));
}

#[test]
fn a_queue_has_its_share_only_of_nodes_that_would_hold_the_pods() {
    // On the one nobody has more than deserved; those who lend are on the other.
    let told = |label| {
        told_of(&format!(
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
    assert!(told("m"));
    assert!(!told("n"));
}
