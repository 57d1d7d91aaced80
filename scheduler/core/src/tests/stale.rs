//! What is left of a gang below its minimum does not stay.

use insta::assert_snapshot;

use crate::testing::plan_of;

#[test]
fn what_is_left_of_a_gang_leaves_after_its_grace() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang broken pods=1 min=2 gpus=1 stale=61s on n1
    "), @"broken leaves n1 (stalegangeviction)");
}

#[test]
fn until_then_it_is_only_marked() {
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
fn a_pod_that_cannot_be_bound_is_missing_though_it_is_given_a_place() {
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
fn a_grace_of_never_keeps_it() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang kept pods=1 min=2 gpus=1 stale=60m grace=never on n1
    "), @"");
}

#[test]
fn a_grace_of_its_own_comes_before_the_default() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang patient pods=1 min=2 gpus=1 stale=61s grace=5m on n1
        gang hasty pods=1 min=2 gpus=1 stale=6s grace=5s on n1
    "), @"hasty leaves n1 (stalegangeviction)");
}

#[test]
fn a_gang_that_needs_one_of_two_parts_is_not_stale_for_want_of_the_other() {
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
fn a_part_below_its_minimum_breaks_the_gang_that_needs_it() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        gang both stale=61s
          part left pods=2 gpus=1 on n1 n1
          part right pods=2 gpus=3
    "), @r"
    both leaves n1 x2 (stalegangeviction)
    both pending: The workload cannot run on this cluster as it is: 2 pods that must run together ask for 6 GPUs, and all nodes on which they may run offer 4 GPUs.
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
fn a_missing_member_that_fits_comes_back_before_the_rest_leaves() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang healing pods=2 gpus=1 stale=61s on n1
    "), @r"
    healing runs on n1
    healing is not stale any more
    ");
}
