//! The parts of a scheduler, each alone: `--components`, `--once`.

use insta::assert_snapshot;
use schedlab_scheduler::Component;

use super::lab::Lab;

/// What keeps a pod from being grouped is told by the grouper, and by a scheduler beside it.
#[test]
fn a_pod_that_cannot_be_grouped_is_told_of_by_each_part() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.apply(
            "
apiVersion: v1
kind: Pod
metadata: {name: odd, labels: {kai.scheduler/queue: q, kai.scheduler/preemptibility: maybe}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: c}]
",
        );
        lab.only(&[Component::Podgrouper]);
        lab.start();
        lab.pass(5).await;
        lab.stop().await;
        assert_snapshot!(lab.events(), @"Pod PodGrouperWarning The pod cannot be put into a PodGroup: label kai.scheduler/preemptibility: got maybe, expected preemptible or non-preemptible");
        lab.only(&[Component::Scheduler]);
        lab.start();
        lab.pass(5).await;
        assert_snapshot!(lab.pods(), @"odd Pending -: The pod cannot be put into a PodGroup: label kai.scheduler/preemptibility: got maybe, expected preemptible or non-preemptible");
    });
}

/// A grouper in another process takes a moment: only a pod that got no group for a while is told so.
#[test]
fn a_new_pod_is_not_told_that_it_has_no_group_yet() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.job("train", "q", (1, 1));
        lab.only(&[Component::Scheduler]);
        lab.start();
        lab.pass(8).await;
        assert_snapshot!(lab.pods(), @"train-0 Pending -");
        assert_snapshot!(lab.events(), @"");
        lab.pass(5).await;
        assert_snapshot!(lab.pods(), @"train-0 Pending -: The pod belongs to no PodGroup: name one in annotation pod-group-name");
    });
}

#[test]
fn the_parts_of_a_scheduler_work_one_by_one() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.job("train", "q", (2, 2));
        lab.only(&[Component::Podgrouper]);
        lab.start();
        lab.pass(5).await;
        lab.stop().await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Pending -
        train-1 Pending -
        ");
        assert_snapshot!(lab.pod_groups(), @r#"pg-train {"minMember":2,"priorityClassName":"train","queue":"q"}"#);
        lab.end_after_one_cycle();
        for part in [Component::Scheduler, Component::Binder] {
            assert!(lab.pods().starts_with("train-0 Pending -"), "{part:?} has not run");
            lab.only(&[part]);
            lab.start();
            lab.pass(5).await;
            assert!(lab.has_ended());
        }
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-0
        train-1 Running n-0
        ");
        assert_snapshot!(lab.queues(), @"q null");
        lab.only(&[Component::QueueController]);
        lab.start();
        lab.pass(5).await;
        assert_snapshot!(lab.queues(), @r#"q {"allocated":{"nvidia.com/gpu":"2"},"allocatedNonPreemptible":{},"childQueues":[],"requested":{"nvidia.com/gpu":"2"}}"#);
    });
}
