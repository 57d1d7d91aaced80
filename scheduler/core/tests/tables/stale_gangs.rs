//! The rest of a gang below its minimum is evicted.

use insta::assert_snapshot;

use schedlab_testkit::plan_of;

#[test]
fn the_rest_of_a_gang_is_evicted_after_the_grace_period() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang broken pods=1 min=2 gpus=1 stale=61s on n1
    "), @"broken leaves n1 (stalegangeviction)");
}

#[test]
fn a_stale_gang_is_only_marked_during_the_grace_period() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang broken pods=1 min=2 gpus=1 on n1
    "), @"broken is stale");
}

#[test]
fn a_gang_that_is_whole_again_is_unmarked() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang whole pods=2 gpus=1 stale=61s on n1 n1
    "), @"whole is not stale any more");
}

#[test]
fn a_finishing_gang_is_not_stale() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang finishing pods=3 min=3 gpus=1 succeeded=2 on n1
    "), @"");
}

#[test]
fn an_unbindable_pod_counts_as_missing_though_a_node_is_chosen() {
    let half = |part| {
        plan_of(&format!(
            "
            node n1 gpus=8
            gang half needs=2 stale=61s
              part a pods=1 gpus=1 on n1
              part b pods=1 gpus=1 unbindable {part}
            "
        ))
    };
    assert_snapshot!(half("on n1"), @"half leaves n1 x2 (stalegangeviction)");
    assert_snapshot!(half(""), @"half runs on n1");
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang none pods=2 gpus=1 unbindable bound on n1 n1
    "), @"");
}

#[test]
fn a_negative_grace_period_never_evicts() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang kept pods=1 min=2 gpus=1 stale=60m grace=never on n1
    "), @"");
}

#[test]
fn the_grace_period_of_the_group_overrides_the_default() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang patient pods=1 min=2 gpus=1 stale=61s grace=5m on n1
        gang hasty pods=1 min=2 gpus=1 stale=6s grace=5s on n1
    "), @"hasty leaves n1 (stalegangeviction)");
}

#[test]
fn a_gang_is_not_stale_for_an_optional_sub_group() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        gang either needs=1 stale=61s
          part left pods=2 gpus=1 on n1 n1
          part right pods=2 gpus=1
    "), @r"
    either pending: Resources were found for 2 pods from all sub-groups while sub-group right requires 2 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    either is not stale any more
    ");
}

#[test]
fn a_required_sub_group_below_its_minimum_makes_the_gang_stale() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        gang both stale=61s
          part left pods=2 gpus=1 on n1 n1
          part right pods=2 gpus=3
    "), @r"
    both leaves n1 x2 (stalegangeviction)
    both pending: The workload cannot run on this cluster as it is: 2 pods that must run together request 6 GPUs, and all nodes on which they may run offer 4 GPUs.
    ");
}

#[test]
fn pods_that_are_leaving_still_count() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang g
          part stays gpus=1 on n1
          part leaves gpus=1 releasing on n1
    "), @"");
}

#[test]
fn a_missing_member_that_fits_is_placed_before_the_rest_is_evicted() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang healing pods=2 gpus=1 stale=61s on n1
    "), @r"
    healing runs on n1
    healing is not stale any more
    ");
}
