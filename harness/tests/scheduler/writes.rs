//! Concurrent writes, and events and statuses that a crash has left unwritten.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::Request;
use insta::assert_snapshot;
use kube::client::Body;
use tower::{ServiceExt as _, service_fn};

use crate::{crash_before_each_write, lab::Lab};

#[test]
fn concurrent_writes_lose_and_repeat_nothing_although_the_scheduler_crashes() {
    let writes = crash_before_each_write(
        &async |lab| lab.set_writes_at_once(8),
        &|lab| {
            lab.job("gang", "a", 4, 4);
            lab.job("other", "b", 4, 1);
        },
        "gang: 4 Running; other: 4 Running; 8 bound, 0 evicted; 8 Scheduled",
    );
    assert!(writes >= 20, "two groups, eight bindings, eight events and two starts: {writes}");
}

#[test]
fn a_scheduler_with_concurrent_writes_makes_progress_although_it_crashes_repeatedly() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("a", 4, -1);
        lab.queue("b", 4, -1);
        lab.set_writes_at_once(8);
        lab.job("borrower", "a", 8, 1);
        lab.crash_repeatedly(13, 20).await;
        lab.job("owner", "b", 4, 4);
        // Each scheduler may start the writes of all four evictions before it crashes.
        lab.crash_repeatedly(13, 20).await;
        let outcome = lab.outcome();
        let expected =
            "borrower: 4 Pending, 4 Running; owner: 4 Running; 12 bound, 4 evicted; 12 Scheduled";
        assert_eq!(outcome, expected);
    });
}

#[test]
fn a_missing_start_timestamp_is_written_by_the_next_scheduler() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        // Three writes: the group and its two bindings.
        let attempted = lab.start_hanging_after(3);
        lab.job("gang", "q", 2, 2);
        lab.wait_until(|| attempted.load(Ordering::Relaxed) > 3).await;
        assert_eq!(lab.started_groups(), 0);
        lab.stop().await;
        lab.start();
        lab.advance(5).await;
        assert_eq!(lab.started_groups(), 1);
        assert_snapshot!(lab.outcome(), @"gang: 2 Running; 2 bound, 0 evicted; 2 Scheduled");
    });
}

/// A client whose next status write to an object of this resource is preceded by a patch of that
/// object, once `true` is stored.
fn client_with_conflict(
    change: &'static str,
    plural: &'static str,
    lab: &Lab,
) -> (kube::Client, Arc<AtomicBool>) {
    let due = Arc::new(AtomicBool::new(false));
    let (pending, router) = (Arc::clone(&due), lab.emulator.service());
    let service = service_fn(move |request: Request<Body>| {
        let object = request.uri().path().strip_suffix("/status");
        let object = object.filter(|path| path.contains(plural)).map(str::to_owned);
        let edited = object.filter(|_| pending.swap(false, Ordering::Relaxed));
        let router = router.clone();
        async move {
            if let Some(object) = edited {
                let edit = Request::patch(object)
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(change.as_bytes().to_vec()))
                    .expect("the request is valid");
                let response = router.clone().oneshot(edit).await;
                assert!(response.is_ok_and(|response| response.status().is_success()));
            }
            router.oneshot(request).await
        }
    });
    (kube::Client::new(service, "default"), due)
}

#[test]
fn an_edit_of_a_queue_during_a_status_write_is_observed() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 2, 2);
        lab.job("job", "q", 4, 1);
        let change = r#"{"spec": {"resources": {"gpu": {"limit": 4}}}}"#;
        let (client, edit) = client_with_conflict(change, "/queues/", &lab);
        edit.store(true, Ordering::Relaxed);
        lab.start_with(client);
        lab.advance(30).await;
        assert!(!edit.load(Ordering::Relaxed), "the edit precedes a write of the queue's status");
        assert_snapshot!(lab.outcome(), @"job: 4 Running; 4 bound, 0 evicted; 4 Scheduled");
        assert_snapshot!(lab.queues(), @r#"q {"allocated":{"nvidia.com/gpu":"4"},"allocatedNonPreemptible":{},"childQueues":[],"fairShare":{"nvidia.com/gpu":"4"},"pending":{},"requested":{"nvidia.com/gpu":"4"}}"#);
    });
}

#[test]
fn an_edit_of_a_pod_group_during_a_status_write_is_observed() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.apply(
            "
kind: PodGroup
apiVersion: scheduling.run.ai/v2alpha2
metadata: {name: gang}
spec: {queue: q, minMember: 2}
---
kind: Pod
apiVersion: v1
metadata: {name: one, annotations: {pod-group-name: gang}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
",
        );
        let change = r#"{"spec": {"minMember": 1}}"#;
        let (client, edit) = client_with_conflict(change, "/podgroups/", &lab);
        edit.store(true, Ordering::Relaxed);
        lab.start_with(client);
        lab.advance(30).await;
        assert!(!edit.load(Ordering::Relaxed), "the edit precedes a write of the group's status");
        assert_snapshot!(lab.pods(), @"one Running n-0");
        let used =
            lab.list("scheduling.run.ai", "podgroups")[0]["status"]["resourcesStatus"].clone();
        assert_snapshot!(used, @r#"{"allocated":{"nvidia.com/gpu":"1"},"allocatedNonPreemptible":{},"requested":{"nvidia.com/gpu":"1"}}"#);
    });
}

#[test]
fn a_conflicting_status_write_is_retried_without_another_event() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 2, 2);
        lab.sleep_until_events();
        let change = r#"{"metadata": {"annotations": {"note": "x"}}}"#;
        let (client, edit) = client_with_conflict(change, "/queues/", &lab);
        lab.start_with(client);
        lab.advance(30).await;
        edit.store(true, Ordering::Relaxed);
        let child = "{kind: Queue, apiVersion: scheduling.run.ai/v2, metadata: {name: child}, \
                     spec: {parentQueue: q}}";
        let child = serde_yaml::from_str(child).unwrap();
        lab.create("scheduling.run.ai", "queues", &child);
        lab.advance(600).await;
        assert!(!edit.load(Ordering::Relaxed), "the edit precedes a write of the queue's status");
        let queues = lab.queues();
        assert!(queues.contains(r#""childQueues":["child"]"#), "{queues}");
    });
}
