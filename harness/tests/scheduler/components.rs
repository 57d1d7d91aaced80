//! The components of the scheduler, each alone: `--components`, `--once`.

use insta::assert_snapshot;
use schedlab_scheduler::Component;

use super::lab::Lab;

/// The pod grouper reports it as an event, the scheduler as the condition of the pod.
#[test]
fn each_component_reports_a_pod_that_cannot_be_grouped() {
    Lab::run(async |mut lab| {
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
        lab.run_only(&[Component::Podgrouper]);
        lab.start();
        lab.advance(5).await;
        lab.stop().await;
        assert_snapshot!(lab.events(), @"Pod PodGrouperWarning The pod cannot be put into a PodGroup: label kai.scheduler/preemptibility: got maybe, expected preemptible or non-preemptible");
        lab.run_only(&[Component::Scheduler]);
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @"odd Pending -: The pod cannot be put into a PodGroup: label kai.scheduler/preemptibility: got maybe, expected preemptible or non-preemptible");
    });
}

/// A pod grouper in another process needs a moment, so the scheduler waits before it reports a pod
/// without a group.
#[test]
fn a_missing_group_of_a_new_pod_is_reported_after_a_while() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.job("train", "q", 1, 1);
        lab.run_only(&[Component::Scheduler]);
        lab.start();
        lab.advance(8).await;
        assert_snapshot!(lab.pods(), @"train-0 Pending -");
        assert_snapshot!(lab.events(), @"");
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @"train-0 Pending -: The pod belongs to no PodGroup: name one in annotation pod-group-name");
    });
}

#[test]
fn the_components_work_one_by_one() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.job("train", "q", 2, 2);
        lab.run_only(&[Component::Podgrouper]);
        lab.start();
        lab.advance(5).await;
        lab.stop().await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Pending -
        train-1 Pending -
        ");
        assert_snapshot!(lab.pod_groups(), @r#"pg-train {"minMember":2,"priorityClassName":"train","queue":"q"}"#);
        lab.stop_after_one_cycle();
        for component in [Component::Scheduler, Component::Binder] {
            assert!(lab.pods().starts_with("train-0 Pending -"), "{component:?} has not run");
            lab.run_only(&[component]);
            lab.start();
            lab.advance(5).await;
            assert!(lab.has_ended());
        }
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-0
        train-1 Running n-0
        ");
        assert_snapshot!(lab.queues(), @"q null");
        lab.run_only(&[Component::QueueController]);
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(lab.queues(), @r#"q {"allocated":{"nvidia.com/gpu":"2"},"allocatedNonPreemptible":{},"childQueues":[],"fairShare":{"nvidia.com/gpu":"2"},"pending":{},"requested":{"nvidia.com/gpu":"2"}}"#);
    });
}
