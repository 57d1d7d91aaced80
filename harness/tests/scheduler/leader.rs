//! Several candidates, one leader: who schedules, who stands by, and who takes over when.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use http::Request;
use insta::assert_snapshot;
use schedlab_json::{Value, json};
use schedlab_scheduler::{
    Config, Progress,
    leader_election::{ElectionConfig, LeaderState, lead},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use super::lab::Lab;

/// One scheduler among several.
struct Candidate {
    standing: watch::Receiver<LeaderState>,
    status: watch::Receiver<Progress>,
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
        let status = config.progress.subscribe();
        let (told, standing) = watch::channel(LeaderState::default());
        let (stop, stopped) = oneshot::channel();
        let election = ElectionConfig::new(namespace, "kai-scheduler", name);
        let work = schedlab_scheduler::run(client.clone(), config, std::sync::Arc::clone(&now));
        let stopped = async { stopped.await.unwrap_or(()) };
        let task = tokio::spawn(lead(client, election, now, told, work, stopped));
        Self { standing, status, stop, task }
    }

    fn says(&self) -> String {
        let cycles = if self.status.borrow().cycles == 0 { "idle" } else { "schedules" };
        format!("{:?}, {cycles}", *self.standing.borrow())
    }

    async fn ended(self) -> String {
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

    /// Who leads, and how often that changed.
    pub(crate) fn lease(&self) -> String {
        let spec = self.lease_spec();
        let holder = spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        format!("{}, {} transitions", holder.unwrap_or("nobody"), spec["leaseTransitions"])
    }

    /// Puts a name into the leader's lease, as somebody does who breaks the rules.
    pub(crate) async fn give_lease_to(&self, name: &str) {
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kai-scheduler";
        let change = json!({ "spec": { "holderIdentity": name } }).to_string();
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(change.into_bytes()).unwrap();
        self.emulator.client().request::<Value>(request).await.unwrap();
    }
}

#[test]
fn one_leads_and_another_takes_over_when_it_is_dead() {
    Lab::tell(async |lab| {
        lab.nodes(2, 8);
        lab.queue("q", 16, -1);
        let first = Candidate::start(&lab, "first");
        lab.pass(1).await;
        let second = Candidate::start(&lab, "second");
        lab.job("early", "q", (3, 3));
        lab.pass(20).await;
        assert_eq!(first.says(), "Leading, schedules");
        assert_eq!(second.says(), "StandingBy(\"first\"), idle");

        // Dead without a word, with work that comes just then.
        first.task.abort();
        lab.job("late", "q", (3, 3));
        lab.pass(14).await;
        assert_snapshot!(lab.outcome(), @"early: 3 Running; late: 3 Pending; 3 bound, 0 evicted; 3 Scheduled");
        lab.pass(6).await;
        assert_eq!(second.says(), "Leading, schedules");
        assert_snapshot!(lab.outcome(), @"early: 3 Running; late: 3 Running; 6 bound, 0 evicted; 6 Scheduled");
    });
}

#[test]
fn who_is_stopped_leaves_the_lease_to_the_next_at_once() {
    Lab::tell(async |lab| {
        let first = Candidate::start(&lab, "first");
        lab.pass(1).await;
        let second = Candidate::start(&lab, "second");
        lab.pass(5).await;
        first.stop.send(()).unwrap();
        lab.pass(3).await;
        assert_eq!(second.says(), "Leading, schedules");
        assert_eq!(lab.lease(), "second, 1 transitions");
        let before = lab.lease_spec();
        second.stop.send(()).unwrap();
        lab.pass(1).await;
        let released = lab.lease_spec();
        assert_eq!(released["leaseDurationSeconds"], 1);
        assert_ne!(released["renewTime"], before["renewTime"]);
        assert_eq!(released["acquireTime"], released["renewTime"]);
        assert_eq!(lab.lease(), "nobody, 1 transitions");
    });
}

#[test]
fn a_leader_ends_when_another_name_stands_in_the_lease() {
    Lab::tell(async |lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        let first = Candidate::start(&lab, "first");
        lab.pass(3).await;
        lab.give_lease_to("a thief").await;
        lab.pass(2).await;
        lab.job("after", "q", (1, 1));
        lab.pass(9).await;
        assert_eq!(first.ended().await, "lost the lease kube-system/kai-scheduler to a thief");
        assert_snapshot!(lab.outcome(), @"after: 1 Pending; 0 bound, 0 evicted; 0 Scheduled");
    });
}

#[test]
fn a_leader_that_cannot_renew_ends_before_anybody_else_leads() {
    Lab::tell(async |lab| {
        let (client, cut) = lab.client_with_a_plug();
        let first = Candidate::with(&lab, "first", client);
        lab.pass(3).await;
        let second = Candidate::start(&lab, "second");
        lab.pass(3).await;
        cut.send(true).unwrap();
        lab.pass(11).await;
        assert_eq!(second.says(), "StandingBy(\"first\"), idle");
        assert_eq!(
            first.ended().await,
            "could not renew the lease kube-system/kai-scheduler for 10 s: no answer"
        );
        lab.pass(7).await;
        assert_eq!(second.says(), "Leading, schedules");
    });
}

#[test]
fn who_is_not_let_near_the_lease_says_why() {
    Lab::tell(async |lab| {
        let alone = Candidate::in_namespace("absent", &lab, "alone", lab.emulator.client());
        lab.pass(5).await;
        assert_eq!(alone.says(), "Refused(\"namespaces \\\"absent\\\" not found\"), idle");
    });
}
