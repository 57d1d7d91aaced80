//! Pods on nodes that are not in the snapshot: deleted nodes, or nodes of another pool.

use insta::assert_snapshot;

use schedlab_testkit::plan_of;

#[test]
fn a_queue_is_charged_for_pods_on_foreign_and_deleted_nodes() {
    for state in ["away", ""] {
        let output = plan_of(&format!(
            "
            node n1 gpus=8
            queue a quota=8 limit=8
            job elsewhere pods=3 gpus=2 queue=a {state} on gone gone gone
            job more gpus=1 queue=a
            job most gpus=2 queue=a
        "
        ));
        assert!(output.contains("more runs on n1"), "{output}");
        assert!(output.contains("Limit is 8 GPUs, currently 7 GPUs allocated"), "{output}");
    }
}

#[test]
fn pods_on_foreign_nodes_count_for_their_gang() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue a quota=8
        gang whole pods=4 gpus=1 queue=a away on other other
    "), @"whole runs on n1 x2");
}
