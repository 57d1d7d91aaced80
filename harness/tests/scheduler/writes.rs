//! Several writes under way at once, and news that a death left untold.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::Request;
use insta::assert_snapshot;
use kube::client::Body;
use tower::{ServiceExt as _, service_fn};

use crate::{dies_before_each_write, lab::Lab};

#[test]
fn many_writes_at_once_lose_and_repeat_nothing_whenever_the_scheduler_dies() {
    let writes = dies_before_each_write(
        &async |lab| lab.write_at_once(8),
        &|lab| {
            lab.job("gang", "a", (4, 4));
            lab.job("other", "b", (4, 1));
        },
        "gang: 4 Running; other: 4 Running; 8 bound, 0 evicted; 8 Scheduled",
    );
    assert!(writes >= 20, "two groups, eight bindings, eight events and two starts: {writes}");
}

#[test]
fn a_scheduler_that_dies_again_and_again_gets_on_though_it_writes_much_at_once() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("a", 4, -1);
        lab.queue("b", 4, -1);
        lab.write_at_once(8);
        lab.job("borrower", "a", (8, 1));
        lab.dies_after_every(13, 20).await;
        lab.job("owner", "b", (4, 4));
        // Of each of the four evictions it may write the beginning, and then dies.
        lab.dies_after_every(13, 20).await;
        let outcome = lab.outcome();
        let expected =
            "borrower: 4 Pending, 4 Running; owner: 4 Running; 12 bound, 4 evicted; 12 Scheduled";
        assert_eq!(outcome, expected);
    });
}

#[test]
fn a_start_that_was_never_told_is_told_by_the_next_scheduler() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        // The group and its two bindings.
        let tried = lab.start_doomed(3);
        lab.job("gang", "q", (2, 2));
        lab.until(|| tried.load(Ordering::Relaxed) > 3).await;
        assert_eq!(lab.starts(), 0);
        lab.stop().await;
        lab.start();
        lab.pass(5).await;
        assert_eq!(lab.starts(), 1);
        assert_snapshot!(lab.outcome(), @"gang: 2 Running; 2 bound, 0 evicted; 2 Scheduled");
    });
}

/// A client before whose next status of an object of these somebody else changes the object, once
/// `true` is stored.
fn client_beaten_by(
    change: &'static str,
    plural: &'static str,
    lab: &Lab,
) -> (kube::Client, Arc<AtomicBool>) {
    let due = Arc::new(AtomicBool::new(false));
    let (comes, router) = (Arc::clone(&due), lab.emulator.service());
    let service = service_fn(move |request: Request<Body>| {
        let told = request.uri().path().strip_suffix("/status");
        let told = told.filter(|object| object.contains(plural)).map(str::to_owned);
        let beaten = told.filter(|_| comes.swap(false, Ordering::Relaxed));
        let router = router.clone();
        async move {
            if let Some(object) = beaten {
                let edit = Request::patch(object)
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(change.as_bytes().to_vec()))
                    .expect("the path of a request");
                let answer = router.clone().oneshot(edit).await;
                assert!(answer.is_ok_and(|answer| answer.status().is_success()));
            }
            router.oneshot(request).await
        }
    });
    (kube::Client::new(service, "default"), due)
}

#[test]
fn a_queue_that_is_edited_while_its_status_is_on_its_way_is_heard_of() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 2, 2);
        lab.job("job", "q", (4, 1));
        let change = r#"{"spec": {"resources": {"gpu": {"limit": 4}}}}"#;
        let (client, edit) = client_beaten_by(change, "/queues/", &lab);
        edit.store(true, Ordering::Relaxed);
        lab.start_with(client);
        lab.pass(30).await;
        assert!(!edit.load(Ordering::Relaxed), "the queue's status was on its way");
        assert_snapshot!(lab.outcome(), @"job: 4 Running; 4 bound, 0 evicted; 4 Scheduled");
        assert_snapshot!(lab.queues(), @r#"q {"allocated":{"nvidia.com/gpu":"4"},"allocatedNonPreemptible":{},"childQueues":[],"requested":{"nvidia.com/gpu":"4"}}"#);
    });
}

#[test]
fn a_group_that_is_edited_while_its_status_is_on_its_way_is_heard_of() {
    Lab::tell(async |mut lab| {
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
        let (client, edit) = client_beaten_by(change, "/podgroups/", &lab);
        edit.store(true, Ordering::Relaxed);
        lab.start_with(client);
        lab.pass(30).await;
        assert!(!edit.load(Ordering::Relaxed), "the group's status was on its way");
        assert_snapshot!(lab.pods(), @"one Running n-0");
        let used =
            lab.list("scheduling.run.ai", "podgroups")[0]["status"]["resourcesStatus"].clone();
        assert_snapshot!(used, @r#"{"allocated":{"nvidia.com/gpu":"1"},"allocatedNonPreemptible":{},"requested":{"nvidia.com/gpu":"1"}}"#);
    });
}

#[test]
fn a_status_that_another_write_came_before_is_told_though_nothing_else_happens() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 2, 2);
        lab.sleep_until_events();
        let change = r#"{"metadata": {"annotations": {"note": "x"}}}"#;
        let (client, edit) = client_beaten_by(change, "/queues/", &lab);
        lab.start_with(client);
        lab.pass(30).await;
        edit.store(true, Ordering::Relaxed);
        let child = "{kind: Queue, apiVersion: scheduling.run.ai/v2, metadata: {name: child}, \
                     spec: {parentQueue: q}}";
        let child = serde_yaml::from_str(child).unwrap();
        lab.create("scheduling.run.ai", "queues", &child);
        lab.pass(600).await;
        assert!(!edit.load(Ordering::Relaxed), "the queue's status was on its way");
        let queues = lab.queues();
        assert!(queues.contains(r#""childQueues":["child"]"#), "{queues}");
    });
}
