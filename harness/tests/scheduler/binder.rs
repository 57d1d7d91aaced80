//! BindRequests: one process writes them and another carries them out; either may be KAI's own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, atomic::Ordering};

use http::{Method, Request};
use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler::{Binding, Component};
use tokio::task::JoinHandle;
use tower::{ServiceExt as _, service_fn};

use crate::{crash_before_each_write, foreign, lab::Lab};

pub(crate) type Process = JoinHandle<anyhow::Result<()>>;

impl Lab {
    fn bind_by_requests(&mut self) {
        self.config.binding = Binding::Requests;
    }

    /// Starts another scheduler process with these components.
    pub(crate) fn spawn_components(
        &self,
        client: kube::Client,
        components: &[Component],
    ) -> Process {
        let (clock, mut config) = (self.emulator.clock().clone(), self.config.clone());
        config.run_only(components.iter().copied().collect());
        tokio::spawn(schedlab_scheduler::run(client, config, Arc::new(move || clock.now())))
    }

    pub(crate) fn spawn_binder(&self) -> Process {
        self.spawn_components(self.emulator.client(), &[Component::Binder])
    }

    /// Adds nodes with this many GPUs each and a queue, and starts all components except the
    /// binder.
    fn start_without_binder(&mut self, nodes: u32, gpus: u32, queue: &str) {
        self.nodes(nodes, gpus);
        self.queue(queue, 8, -1);
        self.run_only(&[Component::Scheduler, Component::Podgrouper, Component::QueueController]);
        self.start();
    }

    /// Starts a binder that cannot bind the first pod.
    fn spawn_binder_failing_one_pod(&self) -> Process {
        let name = self.list("", "pods")[0]["metadata"]["name"].as_str().unwrap().to_owned();
        self.spawn_components(self.client_that_cannot_bind(name.leak()), &[Component::Binder])
    }

    /// A client whose bindings of one pod fail: they are sent to a pod that does not exist.
    pub(crate) fn client_that_cannot_bind(&self, pod: &'static str) -> kube::Client {
        let router = self.emulator.service();
        let service = service_fn(move |mut request: Request<kube::client::Body>| {
            let path = request.uri().path();
            if request.method() == Method::POST && path.ends_with(&format!("/{pod}/binding")) {
                let lost = path.replace(pod, "lost");
                *request.uri_mut() = lost.parse().unwrap();
            }
            router.clone().oneshot(request)
        });
        kube::Client::new(service, "default")
    }

    /// The start timestamp of the only pod group.
    pub(crate) fn last_start(&self) -> Value {
        let group = self.list("scheduling.run.ai", "podgroups").remove(0);
        group["metadata"]["annotations"]["kai.scheduler/last-start-timestamp"].clone()
    }

    /// The writes of BindRequests with their status, in milliseconds since the first one.
    fn attempts(&self) -> String {
        let log = self.emulator.log_since(1).unwrap();
        let of_requests =
            || log.iter().filter(|entry| &*entry.key.resource.plural == "bindrequests");
        let start = of_requests().next().unwrap().time;
        let describe = |entry: &schedlab_emulator::store::LogEntry| {
            let after = entry.time.duration_since(start).as_millis();
            format!("{after:>5} {:?} {}\n", entry.kind, entry.object["status"])
        };
        of_requests().map(|entry| describe(entry)).collect()
    }

    /// Each BindRequest with its labels, spec and status.
    pub(crate) fn requests(&self) -> String {
        let describe = |request: &Value| {
            let name = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {}\n",
                name(&request["metadata"]["name"]),
                request["metadata"]["labels"],
                request["spec"],
                request["status"]
            )
        };
        self.list("scheduling.run.ai", "bindrequests").iter().map(describe).collect()
    }
}

#[test]
fn a_pod_is_bound_through_a_request_and_both_get_events() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.bind_by_requests();
        lab.start();
        lab.job("train", "q", 2, 2);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-0
        train-1 Running n-0
        ");
        assert_snapshot!(lab.requests(), @r#"
        train-0-hgtqw {"selected-node":"n-0"} {"backoffLimit":3,"podName":"train-0-hgtqw","receivedGPU":{"count":1,"portion":"1.00"},"receivedResourceType":"Regular","selectedNode":"n-0"} {"phase":"Succeeded"}
        train-1-htzb6 {"selected-node":"n-0"} {"backoffLimit":3,"podName":"train-1-htzb6","receivedGPU":{"count":1,"portion":"1.00"},"receivedResourceType":"Regular","selectedNode":"n-0"} {"phase":"Succeeded"}
        "#);
        assert_snapshot!(lab.events(), @r"
        2 × Pod Bound Pod bound successfully to node n-0
        Pod Scheduled Successfully assigned pod default/train-0 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/train-1 to node n-0 at node-pool default
        ");
        let pod = &lab.list("", "pods")[0];
        assert_eq!(pod["metadata"]["annotations"]["received-resource-type"], "Regular");
        lab.delete_in("default", "jobs", "batch", "train");
        lab.advance(60).await;
        assert_eq!(lab.requests(), "", "requests are deleted with their pods");
    });
}

#[test]
fn a_gang_is_bound_whole_and_once_although_scheduler_and_binder_crash() {
    let writes = crash_before_each_write(
        &async |lab| lab.bind_by_requests(),
        &|lab| lab.job("gang", "a", 2, 2),
        "gang: 2 Running; 2 bound, 0 evicted; 2 Scheduled",
    );
    assert!(
        writes >= 13,
        "a group, a start, and twice a request, a binding, a status and three messages: {writes}"
    );
}

#[test]
fn a_gang_is_bound_whole_and_once_although_the_binder_crashes() {
    for writes in 0.. {
        let (attempted, outcome) = Lab::run(async |mut lab| {
            lab.start_without_binder(1, 8, "a");
            let (client, attempted) = lab.client_hanging_after(writes);
            let crashing = lab.spawn_components(client, &[Component::Binder]);
            lab.job("gang", "a", 2, 2);
            lab.wait_until(|| attempted.load(Ordering::Relaxed) > writes).await;
            crashing.abort();
            lab.advance(5).await;
            let next = lab.spawn_binder();
            lab.advance(10).await;
            next.abort();
            (attempted.load(Ordering::Relaxed), lab.outcome())
        });
        assert_eq!(outcome, "gang: 2 Running; 2 bound, 0 evicted; 2 Scheduled", "after {writes}");
        if attempted <= writes {
            assert!(writes >= 8, "twice a binding, an event, a condition and a status: {writes}");
            return;
        }
    }
}

#[test]
fn a_failed_binding_is_retried_reported_and_then_rescheduled() {
    Lab::run(async |mut lab| {
        lab.start_without_binder(1, 8, "a");
        lab.job("one", "a", 1, 1);
        lab.advance(3).await;
        let binder = lab.spawn_binder_failing_one_pod();
        lab.advance(1).await;
        assert_snapshot!(lab.requests(), @r#"one-0-cqdpk {"selected-node":"n-0"} {"backoffLimit":3,"podName":"one-0-cqdpk","receivedGPU":{"count":1,"portion":"1.00"},"receivedResourceType":"Regular","selectedNode":"n-0"} {"failedAttempts":1,"phase":"Failed","reason":"name in URL does not match name in Binding object"}"#);
        assert_snapshot!(lab.pods(), @"one-0 Pending -: Failed to bind pod default/one-0 to node n-0: name in URL does not match name in Binding object");
        lab.advance(9).await;
        binder.abort();
        assert_snapshot!(lab.attempts(), @r#"
            0 Added null
         3010 Modified {"failedAttempts":1,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         4010 Modified {"failedAttempts":2,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         6010 Modified {"failedAttempts":3,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         7000 Deleted {"failedAttempts":3,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         8000 Added null
         8020 Modified {"failedAttempts":1,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         9020 Modified {"failedAttempts":2,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
        11020 Modified {"failedAttempts":3,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
        12000 Deleted {"failedAttempts":3,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
        "#);
        assert_snapshot!(lab.events(), @r"
        Pod BindingError Failed to bind pod default/one-0 to node n-0: name in URL does not match name in Binding object
        Pod Scheduled Successfully assigned pod default/one-0 to node n-0 at node-pool default
        PodGroup BindingError Failed to bind pod default/one-0 to node n-0: name in URL does not match name in Binding object
        ");
        let last = lab.spawn_binder();
        lab.advance(20).await;
        last.abort();
        assert_snapshot!(lab.pods(), @"one-0 Running n-0");
    });
}

/// The next scheduler starts more than a minute later.
#[test]
fn a_failed_binding_gets_one_group_event_although_the_scheduler_crashes() {
    for writes in 0.. {
        let (attempted, count) = Lab::run(async |mut lab| {
            lab.start_without_binder(1, 8, "a");
            lab.job("one", "a", 1, 1);
            lab.advance(3).await;
            lab.stop().await;
            let binder = lab.spawn_binder_failing_one_pod();
            lab.advance(1).await;
            binder.abort();
            lab.advance(70).await;
            let attempted = lab.start_hanging_after(writes);
            lab.advance(3).await;
            lab.stop().await;
            lab.advance(70).await;
            lab.start();
            lab.advance(5).await;
            let is_failure = |event: &&Value| {
                event["reason"] == "BindingError" && event["involvedObject"]["kind"] == "PodGroup"
            };
            let count = lab.list("", "events").iter().filter(is_failure).count();
            (attempted.load(Ordering::Relaxed), count)
        });
        assert_eq!(count, 1, "after {writes}");
        if attempted <= writes {
            return;
        }
    }
}

#[test]
fn a_gang_with_an_unbindable_pod_is_evicted_and_waits_until_it_can_be_bound() {
    Lab::run(async |mut lab| {
        lab.start_without_binder(1, 8, "a");
        lab.job("gang", "a", 4, 4);
        lab.advance(3).await;
        let binder = lab.spawn_binder_failing_one_pod();
        let start = lab.last_start();
        lab.advance(30).await;
        assert_snapshot!(lab.outcome(), @"gang: 1 Pending, 3 Running; 3 bound, 0 evicted; 4 Scheduled");
        assert_eq!(
            lab.last_start(),
            start,
            "retried requests do not change the start of the group"
        );
        lab.advance(120).await;
        assert_snapshot!(lab.outcome(), @"gang: 4 Pending; 6 bound, 6 evicted; 7 Scheduled");
        binder.abort();
        let last = lab.spawn_binder();
        lab.advance(300).await;
        last.abort();
        assert_snapshot!(lab.outcome(), @"gang: 4 Running; 10 bound, 6 evicted; 10 Scheduled");
    });
}

#[test]
fn another_binder_can_carry_out_our_requests() {
    Lab::run(async |mut lab| {
        lab.start_without_binder(1, 2, "q");
        lab.job("first", "q", 2, 2);
        lab.advance(3).await;
        lab.job("second", "q", 1, 1);
        lab.advance(3).await;
        assert_eq!(lab.list("scheduling.run.ai", "bindrequests").len(), 2, "the node is full");
        // Binds each pod as another binder would, without events or status.
        for request in lab.list("scheduling.run.ai", "bindrequests") {
            let name = request["spec"]["podName"].as_str().unwrap();
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
                "target": { "kind": "Node", "name": request["spec"]["selectedNode"] },
            });
            let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
            let bind = Request::post(path).header("content-type", "application/json");
            let bind = bind.body(binding.to_string().into_bytes()).unwrap();
            lab.emulator.client().request::<Value>(bind).await.unwrap();
        }
        lab.stop().await;
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(lab.outcome(), @"first: 2 Running; second: 1 Pending; 2 bound, 0 evicted; 2 Scheduled");
    });
}

#[test]
fn a_request_for_a_deleted_node_is_withdrawn() {
    Lab::run(async |mut lab| {
        lab.start_without_binder(2, 8, "q");
        lab.job("train", "q", 2, 2);
        lab.advance(3).await;
        lab.delete("nodes", "", "n-0");
        lab.advance(3).await;
        let binder = lab.spawn_binder();
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-1
        train-1 Running n-1
        ");
        binder.abort();
    });
}

#[test]
fn a_leftover_request_reserves_nothing_for_a_new_pod_of_its_name() {
    Lab::run(async |mut lab| {
        lab.nodes(2, 8);
        lab.queue("q", 8, -1);
        let (mut pod, request) = foreign::foreign_pod("again", "n-1");
        pod["spec"]["schedulerName"] = json!("kai-scheduler");
        pod["metadata"]["labels"] = json!({ "kai.scheduler/queue": "q" });
        lab.create("", "pods", &pod);
        lab.create("scheduling.run.ai", "bindrequests", &request);
        lab.config.binding = Binding::Requests;
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @"again Running n-1");
        lab.delete_in("default", "pods", "", "again");
        lab.advance(60).await;
        lab.create("", "pods", &pod);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @"again Running n-0");
    });
}
