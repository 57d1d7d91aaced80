//! A session is a cluster whose time passes only on request and whose past can be shown.

use std::time::Duration;

use schedlab_api::{Value, json};
use schedlab_emulator::Fleet;
use schedlab_ui::session::{Session, SessionOptions, quota_patch};
use schedlab_view::events::ClusterEventKind;
use schedlab_view::state::ClusterState;

fn queue(name: &str, parent: Option<&str>, quota: i64) -> Value {
    let all = json!({"quota": -1, "limit": -1});
    json!({
        "apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
        "spec": {
            "parentQueue": parent,
            "resources": {
                "gpu": {"quota": quota, "limit": -1, "overQuotaWeight": 1},
                "cpu": all, "memory": all,
            },
        },
    })
}

fn job(name: &str, queue: &str, pods: u32) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": queue}},
        "spec": {
            "parallelism": pods, "completions": pods,
            "template": {
                "metadata": {"labels": {"kai.scheduler/queue": queue}},
                "spec": {
                    "schedulerName": "kai-scheduler", "priorityClassName": "train",
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": "main", "image": "train",
                        "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    }],
                },
            },
        },
    })
}

/// Two nodes with 4 GPUs each, and two teams with a quota of 4.
async fn session() -> Session {
    let fleet = Fleet::parse("fleet.yaml", "pools: [{name: n, count: 2, gpus: 4}]");
    let fleet = fleet.expect("the fleet is valid");
    let queues = [queue("all", None, 8), queue("a", Some("all"), 4), queue("b", Some("all"), 4)];
    let options = SessionOptions { fleet, objects: queues.to_vec(), seed: 1 };
    Session::start(options).await.expect("the cluster accepts its queues")
}

fn state(session: &Session, revision: u64) -> ClusterState {
    session.state_at(revision)
}

fn used(state: &ClusterState) -> Vec<(&str, i64)> {
    state.queues.iter().map(|queue| (queue.name.as_str(), queue.used)).collect()
}

#[tokio::test]
async fn time_stands_still_until_the_session_advances() {
    let session = session().await;
    session.apply(vec![job("train", "a", 3)]).await.unwrap();
    let before = *session.status().borrow();
    assert_eq!(state(&session, before.revision).gpus_in_use, 0);
    session.advance(Duration::from_secs(10)).await.unwrap();
    let after = *session.status().borrow();
    assert_eq!(after.now.duration_since(before.now).as_secs(), 10);
    assert_eq!(state(&session, after.revision).gpus_in_use, 3);
}

#[tokio::test]
async fn the_session_stops_at_the_next_eviction_and_shows_the_cluster_before_it() {
    let session = session().await;
    session.apply(vec![job("borrower", "a", 8)]).await.unwrap();
    session.advance(Duration::from_secs(10)).await.unwrap();
    let borrowed = session.status().borrow().revision;
    assert_eq!(used(&state(&session, borrowed)), [("all", 8000), ("a", 8000), ("b", 0)]);
    assert_eq!(state(&session, borrowed).queues[1].borrowed(), 4000);
    session.apply(vec![job("owner", "b", 4)]).await.unwrap();
    assert!(session.advance_to_eviction().await.unwrap());
    let evicted = session.events_until(u64::MAX, 100, |event| {
        event.kind == ClusterEventKind::Eviction && event.name.starts_with("borrower")
    });
    assert!(!evicted.is_empty());
    session.advance(Duration::from_mins(1)).await.unwrap();
    let now = session.status().borrow().revision;
    let latest = state(&session, now);
    assert_eq!(used(&latest), [("all", 8000), ("a", 4000), ("b", 4000)]);
    assert_eq!(latest.queues[1].fair_share, Some(4000));
    assert_eq!((latest.pending.len(), latest.pending[0].title.as_str()), (1, "borrower"));
    assert!(latest.pending[0].reason.contains("GPUs"), "{}", latest.pending[0].reason);
    assert_eq!(used(&state(&session, borrowed)), [("all", 8000), ("a", 8000), ("b", 0)]);
}

#[tokio::test]
async fn a_rejected_object_is_named_and_the_session_goes_on() {
    let session = session().await;
    let wrong = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A B"}});
    let error = session.apply(vec![job("train", "a", 1), wrong]).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("1 of 2 applied") && text.contains("A B"), "{text}");
    let path = "/apis/scheduling.run.ai/v2/queues/b".to_owned();
    session.merge_patch(path, quota_patch(7.5)).await.unwrap();
    let revision = session.status().borrow().revision;
    assert_eq!(state(&session, revision).queues[2].quota, Some(7500));
}

#[tokio::test]
async fn a_pending_workload_is_explained() {
    let session = session().await;
    session.apply(vec![job("large", "a", 9)]).await.unwrap();
    session.advance(Duration::from_secs(10)).await.unwrap();
    let text = session.explain_workload("default".into(), "large".into()).await.unwrap();
    assert!(text.contains("large"), "{text}");
    assert!(session.explain_workload("default".into(), "none".into()).await.is_err());
}
