//! BindRequests: written by one process, carried out by another, and neither needs the other to be
//! ours.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, atomic::Ordering};

use http::{Method, Request};
use insta::assert_snapshot;
use schedlab_json::{Value, json};
use schedlab_scheduler::{Binding, Component};
use tokio::task::JoinHandle;
use tower::{ServiceExt as _, service_fn};

use crate::{dies_before_each_write, foreign, lab::Lab};

pub(crate) type Process = JoinHandle<anyhow::Result<()>>;

impl Lab {
    fn bind_by_requests(&mut self) {
        self.config.binding = Binding::Requests;
    }

    /// Another process beside the scheduler's.
    pub(crate) fn beside(&self, client: kube::Client, components: &[Component]) -> Process {
        let (clock, mut config) = (self.emulator.clock().clone(), self.config.clone());
        config.run_only(components.iter().copied().collect());
        tokio::spawn(schedlab_scheduler::run(client, config, Arc::new(move || clock.now())))
    }

    pub(crate) fn binder(&self) -> Process {
        self.beside(self.emulator.client(), &[Component::Binder])
    }

    /// Nodes with so many GPUs each, one queue, and all but who binds.
    fn start_without_binder(&mut self, (nodes, gpus): (u32, u32), queue: &str) {
        self.nodes(nodes, gpus);
        self.queue(queue, 8, -1);
        self.only(&[Component::Scheduler, Component::Podgrouper, Component::QueueController]);
        self.start();
    }

    /// It cannot bind the first of the pods.
    fn binder_that_fails_one(&self) -> Process {
        let name = self.list("", "pods")[0]["metadata"]["name"].as_str().unwrap().to_owned();
        self.beside(self.client_that_cannot_bind(name.leak()), &[Component::Binder])
    }

    /// A client whose bindings of one pod get lost: the server looks for another pod.
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

    /// When the only pod group started, as it is told.
    pub(crate) fn last_start(&self) -> Value {
        let group = self.list("scheduling.run.ai", "podgroups").remove(0);
        group["metadata"]["annotations"]["kai.scheduler/last-start-timestamp"].clone()
    }

    /// How requests came to stand as they do, in milliseconds since the first was made.
    fn attempts(&self) -> String {
        let log = self.emulator.log_since(1).unwrap();
        let of_requests =
            || log.iter().filter(|entry| &*entry.key.resource.plural == "bindrequests");
        let began = of_requests().next().unwrap().time;
        let told = |entry: &schedlab_emulator::store::LogEntry| {
            let after = entry.time.duration_since(began).as_millis();
            format!("{after:>5} {:?} {}\n", entry.kind, entry.object["status"])
        };
        of_requests().map(|entry| told(entry)).collect()
    }

    /// Each request: for whom, where to, how it stands.
    pub(crate) fn requests(&self) -> String {
        let told = |request: &Value| {
            let name = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {}\n",
                name(&request["metadata"]["name"]),
                request["metadata"]["labels"],
                request["spec"],
                request["status"]
            )
        };
        self.list("scheduling.run.ai", "bindrequests").iter().map(told).collect()
    }
}

#[test]
fn a_pod_is_asked_for_and_bound_and_both_are_told() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.bind_by_requests();
        lab.start();
        lab.job("train", "q", (2, 2));
        lab.pass(5).await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-0
        train-1 Running n-0
        ");
        assert_snapshot!(lab.requests(), @r#"
        train-0-k8dxv {"selected-node":"n-0"} {"backoffLimit":3,"podName":"train-0-k8dxv","receivedGPU":{"count":1,"portion":"1.00"},"receivedResourceType":"Regular","selectedNode":"n-0"} {"phase":"Succeeded"}
        train-1-sj6cb {"selected-node":"n-0"} {"backoffLimit":3,"podName":"train-1-sj6cb","receivedGPU":{"count":1,"portion":"1.00"},"receivedResourceType":"Regular","selectedNode":"n-0"} {"phase":"Succeeded"}
        "#);
        assert_snapshot!(lab.events(), @r"
        2 × Pod Bound Pod bound successfully to node n-0
        Pod Scheduled Successfully assigned pod default/train-0 to node n-0 at node-pool default
        Pod Scheduled Successfully assigned pod default/train-1 to node n-0 at node-pool default
        ");
        let pod = &lab.list("", "pods")[0];
        assert_eq!(pod["metadata"]["annotations"]["received-resource-type"], "Regular");
        lab.delete_in("default", "jobs", "batch", "train");
        lab.pass(60).await;
        assert_eq!(lab.requests(), "", "they go with their pods");
    });
}

#[test]
fn a_gang_is_bound_whole_and_once_whenever_scheduler_and_binder_die_together() {
    let writes = dies_before_each_write(
        &async |lab| lab.bind_by_requests(),
        &|lab| lab.job("gang", "a", (2, 2)),
        "gang: 2 Running; 2 bound, 0 evicted; 2 Scheduled",
    );
    assert!(
        writes >= 13,
        "a group, a start and twice request, binding, status and three words: {writes}"
    );
}

#[test]
fn a_gang_is_bound_whole_and_once_whenever_the_binder_dies_alone() {
    for writes in 0.. {
        let (tried, told) = Lab::tell(async |mut lab| {
            lab.start_without_binder((1, 8), "a");
            let (client, tried) = lab.doomed_client(writes);
            let doomed = lab.beside(client, &[Component::Binder]);
            lab.job("gang", "a", (2, 2));
            lab.until(|| tried.load(Ordering::Relaxed) > writes).await;
            doomed.abort();
            lab.pass(5).await;
            let next = lab.binder();
            lab.pass(10).await;
            next.abort();
            (tried.load(Ordering::Relaxed), lab.outcome())
        });
        assert_eq!(told, "gang: 2 Running; 2 bound, 0 evicted; 2 Scheduled", "after {writes}");
        if tried <= writes {
            assert!(writes >= 8, "twice binding, event, condition and status: {writes}");
            return;
        }
    }
}

#[test]
fn what_cannot_be_bound_is_tried_again_told_and_then_scheduled_anew() {
    Lab::tell(async |mut lab| {
        lab.start_without_binder((1, 8), "a");
        lab.job("one", "a", (1, 1));
        lab.pass(3).await;
        let binder = lab.binder_that_fails_one();
        lab.pass(1).await;
        assert_snapshot!(lab.requests(), @r#"one-0-lb9r9 {"selected-node":"n-0"} {"backoffLimit":3,"podName":"one-0-lb9r9","receivedGPU":{"count":1,"portion":"1.00"},"receivedResourceType":"Regular","selectedNode":"n-0"} {"failedAttempts":1,"phase":"Failed","reason":"name in URL does not match name in Binding object"}"#);
        assert_snapshot!(lab.pods(), @"one-0 Pending -: Failed to bind pod default/one-0 to node n-0: name in URL does not match name in Binding object");
        lab.pass(9).await;
        binder.abort();
        assert_snapshot!(lab.attempts(), @r#"
            0 Added null
         3010 Modified {"failedAttempts":1,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         4010 Modified {"failedAttempts":2,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         6010 Modified {"failedAttempts":3,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         7000 Deleted {"failedAttempts":3,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         7000 Added null
         7020 Modified {"failedAttempts":1,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
         8020 Modified {"failedAttempts":2,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
        10020 Modified {"failedAttempts":3,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
        11000 Deleted {"failedAttempts":3,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
        11000 Added null
        11020 Modified {"failedAttempts":1,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
        12020 Modified {"failedAttempts":2,"phase":"Failed","reason":"name in URL does not match name in Binding object"}
        "#);
        assert_snapshot!(lab.events(), @r"
        Pod BindingError Failed to bind pod default/one-0 to node n-0: name in URL does not match name in Binding object
        Pod Scheduled Successfully assigned pod default/one-0 to node n-0 at node-pool default
        PodGroup BindingError Failed to bind pod default/one-0 to node n-0: name in URL does not match name in Binding object
        ");
        let last = lab.binder();
        lab.pass(20).await;
        last.abort();
        assert_snapshot!(lab.pods(), @"one-0 Running n-0");
    });
}

/// Whoever starts next does so a long while later.
#[test]
fn a_failure_to_bind_is_told_on_the_group_once_wherever_the_scheduler_dies() {
    for writes in 0.. {
        let (tried, told) = Lab::tell(async |mut lab| {
            lab.start_without_binder((1, 8), "a");
            lab.job("one", "a", (1, 1));
            lab.pass(3).await;
            lab.stop().await;
            let binder = lab.binder_that_fails_one();
            lab.pass(1).await;
            binder.abort();
            lab.pass(70).await;
            let tried = lab.start_doomed(writes);
            lab.pass(3).await;
            lab.stop().await;
            lab.pass(70).await;
            lab.start();
            lab.pass(5).await;
            let is_told = |event: &&Value| {
                event["reason"] == "BindingError" && event["involvedObject"]["kind"] == "PodGroup"
            };
            let told = lab.list("", "events").iter().filter(is_told).count();
            (tried.load(Ordering::Relaxed), told)
        });
        assert_eq!(told, 1, "after {writes}");
        if tried <= writes {
            return;
        }
    }
}

#[test]
fn a_gang_of_which_one_pod_cannot_be_bound_does_not_hold_half_of_its_places() {
    Lab::tell(async |mut lab| {
        lab.start_without_binder((1, 8), "a");
        lab.job("gang", "a", (4, 4));
        lab.pass(3).await;
        let binder = lab.binder_that_fails_one();
        let start = lab.last_start();
        lab.pass(30).await;
        assert_snapshot!(lab.outcome(), @"gang: 1 Pending, 3 Running; 3 bound, 0 evicted; 4 Scheduled");
        assert_eq!(lab.last_start(), start, "what is asked for again starts nobody else");
        lab.pass(120).await;
        assert_snapshot!(lab.outcome(), @"gang: 4 Running; 7 bound, 4 evicted; 8 Scheduled");
        binder.abort();
    });
}

#[test]
fn another_binder_carries_out_our_requests() {
    Lab::tell(async |mut lab| {
        lab.start_without_binder((1, 2), "q");
        lab.job("first", "q", (2, 2));
        lab.pass(3).await;
        lab.job("second", "q", (1, 1));
        lab.pass(3).await;
        assert_eq!(lab.list("scheduling.run.ai", "bindrequests").len(), 2, "the node is full");
        // What any binder does, without a word of its own.
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
        lab.pass(5).await;
        assert_snapshot!(lab.outcome(), @"first: 2 Running; second: 1 Pending; 2 bound, 0 evicted; 2 Scheduled");
    });
}

#[test]
fn a_request_for_a_node_that_is_gone_is_taken_back() {
    Lab::tell(async |mut lab| {
        lab.start_without_binder((2, 8), "q");
        lab.job("train", "q", (2, 2));
        lab.pass(3).await;
        lab.delete("nodes", "", "n-0");
        lab.pass(3).await;
        let binder = lab.binder();
        lab.pass(5).await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-1
        train-1 Running n-1
        ");
        binder.abort();
    });
}

#[test]
fn a_request_that_outlives_its_pod_holds_no_place_of_the_next() {
    Lab::tell(async |mut lab| {
        lab.nodes(2, 8);
        lab.queue("q", 8, -1);
        let (mut pod, request) = foreign::foreign("again", "n-1");
        pod["spec"]["schedulerName"] = json!("kai-scheduler");
        pod["metadata"]["labels"] = json!({ "kai.scheduler/queue": "q" });
        lab.create("", "pods", &pod);
        lab.create("scheduling.run.ai", "bindrequests", &request);
        lab.config.binding = Binding::Requests;
        lab.start();
        lab.pass(5).await;
        assert_snapshot!(lab.pods(), @"again Running n-1");
        lab.delete_in("default", "pods", "", "again");
        lab.pass(60).await;
        lab.create("", "pods", &pod);
        lab.pass(5).await;
        assert_snapshot!(lab.pods(), @"again Running n-0");
    });
}
