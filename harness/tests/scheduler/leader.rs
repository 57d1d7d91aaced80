//! Leader election among several schedulers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use http::Request;
use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler::{
    Config, Progress,
    leader_election::{ElectionConfig, LeaderState, lead},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use super::lab::Lab;

/// A scheduler that takes part in leader election.
struct Candidate {
    state: watch::Receiver<LeaderState>,
    progress: watch::Receiver<Progress>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Candidate {
    fn start(lab: &Lab, name: &str) -> Self {
        Self::with(lab, name, lab.emulator.client())
    }

    fn with(lab: &Lab, name: &str, client: kube::Client) -> Self {
        Self::in_namespace("kube-system", lab, name, client)
    }

    fn in_namespace(namespace: &str, lab: &Lab, name: &str, client: kube::Client) -> Self {
        let clock = lab.emulator.clock().clone();
        let now: schedlab_scheduler::Clock = std::sync::Arc::new(move || clock.now());
        let config = Config::kai();
        let progress = config.progress.subscribe();
        let (sender, state) = watch::channel(LeaderState::default());
        let (stop, stopped) = oneshot::channel();
        let election = ElectionConfig::new(namespace, "kai-scheduler", name);
        let work = schedlab_scheduler::run(client.clone(), config, std::sync::Arc::clone(&now));
        let stopped = async { stopped.await.unwrap_or(()) };
        let task = tokio::spawn(lead(client, election, now, sender, work, stopped));
        Self { state, progress, stop, task }
    }

    /// The state of the election, and whether the scheduler has run cycles.
    fn describe(&self) -> String {
        let cycles = if self.progress.borrow().cycles == 0 { "idle" } else { "schedules" };
        format!("{:?}, {cycles}", *self.state.borrow())
    }

    /// `runs`, `done`, or the error with which the scheduler ended.
    async fn result(self) -> String {
        match tokio::time::timeout(Duration::from_millis(1), self.task).await {
            Err(_) => "runs".to_owned(),
            Ok(Err(panic)) => panic.to_string(),
            Ok(Ok(Ok(()))) => "done".to_owned(),
            Ok(Ok(Err(error))) => format!("{error:#}"),
        }
    }
}

impl Lab {
    fn lease_spec(&self) -> Value {
        let leases = self.list("coordination.k8s.io", "leases");
        let elected = leases.iter().find(|lease| lease["metadata"]["name"] == "kai-scheduler");
        elected.unwrap()["spec"].clone()
    }

    /// The holder of the lease, and the number of transitions.
    pub(crate) fn lease(&self) -> String {
        let spec = self.lease_spec();
        let holder = spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        format!("{}, {} transitions", holder.unwrap_or("no holder"), spec["leaseTransitions"])
    }

    /// Overwrites the holder of the lease, against the rules of leader election.
    pub(crate) async fn steal_lease_for(&self, name: &str) {
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kai-scheduler";
        let change = json!({ "spec": { "holderIdentity": name } }).to_string();
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(change.into_bytes()).unwrap();
        self.emulator.client().request::<Value>(request).await.unwrap();
    }
}

#[test]
fn a_standby_takes_over_from_a_crashed_leader() {
    Lab::run(async |lab| {
        lab.nodes(2, 8);
        lab.queue("q", 16, -1);
        let first = Candidate::start(&lab, "first");
        lab.advance(1).await;
        let second = Candidate::start(&lab, "second");
        lab.job("early", "q", 3, 3);
        lab.advance(20).await;
        assert_eq!(first.describe(), "Leading, schedules");
        assert_eq!(second.describe(), "Standby(\"first\"), idle");

        // The leader crashes without releasing the lease, and new work arrives.
        first.task.abort();
        lab.job("late", "q", 3, 3);
        lab.advance(14).await;
        assert_snapshot!(lab.outcome(), @"early: 3 Running; late: 3 Pending; 3 bound, 0 evicted; 3 Scheduled");
        lab.advance(6).await;
        assert_eq!(second.describe(), "Leading, schedules");
        assert_snapshot!(lab.outcome(), @"early: 3 Running; late: 3 Running; 6 bound, 0 evicted; 6 Scheduled");
    });
}

#[test]
fn a_stopped_leader_releases_its_lease_at_once() {
    Lab::run(async |lab| {
        let first = Candidate::start(&lab, "first");
        lab.advance(1).await;
        let second = Candidate::start(&lab, "second");
        lab.advance(5).await;
        first.stop.send(()).unwrap();
        lab.advance(3).await;
        assert_eq!(second.describe(), "Leading, schedules");
        assert_eq!(lab.lease(), "second, 1 transitions");
        let before = lab.lease_spec();
        second.stop.send(()).unwrap();
        lab.advance(1).await;
        let released = lab.lease_spec();
        assert_eq!(released["leaseDurationSeconds"], 1);
        assert_ne!(released["renewTime"], before["renewTime"]);
        assert_eq!(released["acquireTime"], released["renewTime"]);
        assert_eq!(lab.lease(), "no holder, 1 transitions");
    });
}

#[test]
fn a_leader_ends_when_another_holder_is_in_the_lease() {
    Lab::run(async |lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        let first = Candidate::start(&lab, "first");
        lab.advance(3).await;
        lab.steal_lease_for("a thief").await;
        lab.advance(2).await;
        lab.job("after", "q", 1, 1);
        lab.advance(9).await;
        assert_eq!(first.result().await, "lost the lease kube-system/kai-scheduler to a thief");
        assert_snapshot!(lab.outcome(), @"after: 1 Pending; 0 bound, 0 evicted; 0 Scheduled");
    });
}

#[test]
fn a_leader_that_cannot_renew_ends_before_another_leads() {
    Lab::run(async |lab| {
        let (client, disconnect) = lab.disconnectable_client();
        let first = Candidate::with(&lab, "first", client);
        lab.advance(3).await;
        let second = Candidate::start(&lab, "second");
        lab.advance(3).await;
        disconnect.send(true).unwrap();
        lab.advance(11).await;
        assert_eq!(second.describe(), "Standby(\"first\"), idle");
        assert_eq!(
            first.result().await,
            "could not renew the lease kube-system/kai-scheduler for 10 s: no answer"
        );
        lab.advance(7).await;
        assert_eq!(second.describe(), "Leading, schedules");
    });
}

#[test]
fn a_candidate_without_access_to_the_lease_reports_the_error() {
    Lab::run(async |lab| {
        let candidate = Candidate::in_namespace("absent", &lab, "alone", lab.emulator.client());
        lab.advance(5).await;
        assert_eq!(candidate.describe(), "Rejected(\"namespaces \\\"absent\\\" not found\"), idle");
    });
}
