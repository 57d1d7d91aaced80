//! Past usage of queues from Prometheus: fair shares with good, invalid and missing responses; and
//! the scheduler's own usage history. A stub in the same process stands in for Prometheus, so that
//! time stays virtual.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, StatusCode};
use insta::assert_snapshot;
use kube::client::Body;
use schedlab_api::{Value, json};
use schedlab_emulator::Fleet;
use schedlab_scheduler::{
    NodePool, Progress,
    usage::{Endpoint, PollTiming, UsageDatabase, UsageQueries, Window},
};
use tokio::sync::watch;
use tower::service_fn;

use super::lab::Lab;

/// How the Prometheus stub responds.
#[derive(Clone, Copy)]
enum Response {
    /// This queue used all GPUs.
    AllUsedBy(&'static str),
    /// The usage of queue `a` is not a number.
    NotANumber,
    /// Status 503.
    Unavailable,
    /// No response.
    Hangs,
}

impl Response {
    /// The status and the body for a query.
    fn to(self, query: &str) -> (StatusCode, Value) {
        let vector = |result: Value| json!({ "status": "success", "data": { "resultType": "vector", "result": result } });
        let usage = |queue: &str, value: &str| json!([{ "metric": { "queue_name": queue }, "value": [0, value] }]);
        let is_of_gpus = query.contains("kai_queue_allocated_gpus");
        match self {
            Self::Unavailable => {
                let error =
                    json!({ "status": "error", "errorType": "timeout", "error": "too slow" });
                (StatusCode::SERVICE_UNAVAILABLE, error)
            }
            Self::AllUsedBy(queue) if is_of_gpus => (StatusCode::OK, vector(usage(queue, "480"))),
            Self::NotANumber if is_of_gpus => (StatusCode::OK, vector(usage("a", "NaN"))),
            Self::AllUsedBy(_) | Self::NotANumber | Self::Hangs => {
                let capacity = json!([{ "metric": {}, "value": [0, "480"] }]);
                let is_capacity = query.contains("kube_node_status_capacity");
                (StatusCode::OK, vector(if is_capacity { capacity } else { json!([]) }))
            }
        }
    }
}

/// A usage database on a Prometheus stub, and the response that the stub gives from now on.
fn prometheus(first: Response) -> (UsageDatabase, Arc<Mutex<Response>>) {
    let response = Arc::new(Mutex::new(first));
    let current = Arc::clone(&response);
    let service = service_fn(move |request: Request<Body>| {
        let response = *current.lock().unwrap();
        async move {
            if matches!(response, Response::Hangs) {
                std::future::pending::<()>().await;
            }
            let (status, body) = response.to(request.uri().query().unwrap_or_default());
            let response = http::Response::builder()
                .status(status)
                .body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    let database = UsageDatabase {
        endpoint: Endpoint::Client(kube::Client::new(service, "default")),
        window: Window::Sliding(Duration::from_hours(24)),
        half_life: None,
        resolution: Duration::from_mins(1),
        queries: UsageQueries::kai_defaults(),
        timing: PollTiming {
            fetch_interval: Duration::from_mins(1),
            staleness: Duration::from_mins(5),
            first_answer_timeout: Duration::from_mins(1),
            query_timeout: Duration::from_secs(10),
        },
    };
    (database, response)
}

/// Starts a scheduler with two queues without a quota that request all eight GPUs each.
async fn start_contested(lab: &mut Lab, database: UsageDatabase) -> watch::Receiver<Progress> {
    lab.nodes(1, 8);
    for queue in ["a", "b"] {
        lab.queue(queue, 0, -1);
        lab.job(&format!("of-{queue}"), queue, 8, 1);
    }
    lab.config.usage_database = Some(database);
    let status = lab.start();
    lab.advance(5).await;
    status
}

/// Fair shares in GPUs, and the error of the usage database or `well`.
fn fair_shares(status: &watch::Receiver<Progress>) -> String {
    let status = status.borrow();
    let shares = status.queues.iter().map(|queue| {
        let gpus = queue.fair_share.gpu / 1000;
        format!("{}={gpus} ", queue.name)
    });
    format!("{}{}", shares.collect::<String>(), status.usage_error.as_deref().unwrap_or("well"))
}

#[test]
fn past_usage_reduces_a_fair_share_until_the_response_is_stale() {
    Lab::run(async |mut lab| {
        let (database, response) = prometheus(Response::AllUsedBy("a"));
        let status = start_contested(&mut lab, database).await;
        assert_snapshot!(fair_shares(&status), @"a=0 b=8 well");
        *response.lock().unwrap() = Response::Unavailable;
        lab.advance(60).await;
        assert_snapshot!(fair_shares(&status), @"a=0 b=8 usage of queues from a client: kai_queue_allocated_gpus: status 503 Service Unavailable: too slow; the last good response is used for 300s, then no past usage");
        lab.advance(240).await;
        assert_snapshot!(fair_shares(&status), @"a=4 b=4 usage of queues from a client: kai_queue_allocated_gpus: status 503 Service Unavailable: too slow; the last good response is used for 300s, then no past usage");
        *response.lock().unwrap() = Response::Hangs;
        lab.advance(120).await;
        assert_snapshot!(fair_shares(&status), @"a=4 b=4 usage of queues from a client: no response within 10s; the last good response is used for 300s, then no past usage");
        *response.lock().unwrap() = Response::AllUsedBy("b");
        lab.advance(120).await;
        assert_snapshot!(fair_shares(&status), @"a=8 b=0 well");
    });
}

#[test]
fn an_invalid_response_is_reported_and_scheduling_continues() {
    Lab::run(async |mut lab| {
        let (database, response) = prometheus(Response::NotANumber);
        let status = start_contested(&mut lab, database).await;
        assert_snapshot!(fair_shares(&status), @"a=4 b=4 usage of queues from a client: kai_queue_allocated_gpus: queue_name=a: got NaN, expected a number of at least 0; the last good response is used for 300s, then no past usage");
        let running = lab.pods().matches("Running").count();
        assert_eq!(running, 8);
        *response.lock().unwrap() = Response::AllUsedBy("team-of-yore");
        lab.advance(60).await;
        assert_snapshot!(fair_shares(&status), @"a=4 b=4 usage of queues from a client: none of its queues (1, first team-of-yore) exists here: all count as unused");
    });
}

#[test]
fn the_first_cycle_waits_for_the_first_response_up_to_a_timeout() {
    Lab::run(async |mut lab| {
        let (mut database, _) = prometheus(Response::Hangs);
        database.timing.first_answer_timeout = Duration::from_secs(6);
        let status = start_contested(&mut lab, database).await;
        assert_eq!(status.borrow().cycles, 0);
        lab.advance(2).await;
        assert_snapshot!(fair_shares(&status), @"a=4 b=4 well");
    });
}

#[test]
fn the_schedulers_own_history_is_used_while_prometheus_fails() {
    Lab::run(async |mut lab| {
        let (database, _) = prometheus(Response::Unavailable);
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        lab.queue("a", 0, -1);
        lab.job("of-a", "a", 8, 1);
        lab.config.usage_database = Some(database);
        let status = lab.start();
        lab.advance(1800).await;
        lab.queue("b", 0, -1);
        lab.job("of-b", "b", 8, 1);
        lab.advance(3).await;
        assert_snapshot!(fair_shares(&status), @"a=0 b=8 usage of queues from a client: kai_queue_allocated_gpus: status 503 Service Unavailable: too slow; the last good response is used for 300s, then the scheduler's own history");
    });
}

/// The first round of the fair share division in the explanation of a queue, and the notes.
async fn explained(lab: &Lab, queue: &str) -> String {
    let output = lab.explain_queue(queue).await;
    let notes = output.split_once("\nnotes\n").map_or("", |(_, notes)| notes);
    let round = output.lines().filter(|line| line.contains("round 1"));
    round.map(str::trim).chain(notes.lines()).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_explanation_reads_past_usage_where_the_scheduler_keeps_it() {
    Lab::run(async |mut lab| {
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        lab.queue("a", 0, -1);
        lab.job("of-a", "a", 8, 1);
        assert_snapshot!(explained(&lab, "a").await, @"  ConfigMap kai-scheduler-usage, the usage history, exists in no namespace: all queues count as unused");
        lab.start();
        lab.advance(1800).await;
        lab.queue("b", 0, -1);
        lab.job("of-b", "b", 8, 1);
        lab.advance(3).await;
        assert_snapshot!(explained(&lab, "b").await, @"
        priority 100, round 1: of 8, a (weight 1, past usage 99 % of the cluster) wants 7 and gets 0
        priority 100, round 1: of 8, b (weight 1) wants 8 and gets 7
        ");
        lab.config.usage_window = None;
        assert_snapshot!(explained(&lab, "b").await, @"
        priority 100, round 1: of 8, a (weight 1) wants 7 and gets 4
        priority 100, round 1: of 8, b (weight 1) wants 8 and gets 4
        ");
        lab.config.usage_window = Some(Duration::from_hours(1));
        let (database, _) = prometheus(Response::Unavailable);
        lab.config.usage_database = Some(database);
        assert_snapshot!(explained(&lab, "b").await, @"
        priority 100, round 1: of 8, a (weight 1, past usage 99 % of the cluster) wants 7 and gets 0
        priority 100, round 1: of 8, b (weight 1) wants 8 and gets 7
          usage of queues from a client: kai_queue_allocated_gpus: status 503 Service Unavailable: too slow; the last good response is used for 300s, then the scheduler's own history
        ");
    });
}

#[test]
fn an_explanation_finds_the_usage_history_in_any_namespace() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        for queue in ["a", "b"] {
            lab.queue(queue, 0, -1);
            lab.job(&format!("of-{queue}"), queue, 8, 1);
        }
        lab.start();
        lab.advance(3).await;
        lab.config.usage_window = Some(Duration::from_hours(1));
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kai-scheduler" },
        });
        lab.create("", "namespaces", &namespace);
        let history = |text: &str| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": { "history.json": text },
                "metadata": { "namespace": "kai-scheduler", "name": "kai-scheduler-usage" },
            })
        };
        let year_2026 = 1_767_225_600_000_i64;
        let all = json!([[year_2026 - 3_600_000, [8000, 0, 0]]]);
        let written = json!({ "capacity": all, "queues": { "a": all } });
        lab.create("", "configmaps", &history(&written.to_string()));
        assert_snapshot!(explained(&lab, "a").await, @"
        priority 100, round 1: of 8, a (weight 1, past usage 100 % of the cluster) wants 8 and gets 0
        priority 100, round 1: of 8, b (weight 1) wants 8 and gets 8
        ");
        let path = "/api/v1/namespaces/kai-scheduler/configmaps/kai-scheduler-usage";
        lab.patch(path, &history("nonsense")).await;
        assert_snapshot!(explained(&lab, "a").await, @"
        priority 100, round 1: of 8, a (weight 1) wants 8 and gets 4
        priority 100, round 1: of 8, b (weight 1) wants 8 and gets 4
          ConfigMap kai-scheduler/kai-scheduler-usage: data.history.json: got expected ident at line 1 column 2, expected a history that the scheduler wrote; the usage history starts empty
        ");
    });
}

/// The usage history that the scheduler has written.
fn usage_history(lab: &Lab) -> Value {
    let maps = lab.list("", "configmaps");
    let is_it = |object: &&Value| object["metadata"]["name"] == "kai-scheduler-usage";
    maps.iter().find(is_it).unwrap()["data"].clone()
}

#[test]
fn an_idle_scheduler_saves_the_usage_within_a_minute() {
    Lab::run(async |mut lab| {
        lab.sleep_until_events();
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        lab.queue("a", 0, -1);
        lab.start();
        lab.advance(5).await;
        lab.job("of-a", "a", 8, 1);
        lab.advance(90).await;
        assert_snapshot!(usage_history(&lab), @r#"{"history.json":"{\"capacity\":[[1767225600010,[8000,128000,1099511627776]]],\"queues\":{\"a\":[[1767225606010,[8000,0,0]]]}}"}"#);
    });
}

/// Runs a scheduler for some seconds, and then stops it.
async fn run_for(lab: &Lab, seconds: u64) {
    let clock = lab.emulator.clock().clone();
    let clock: schedlab_scheduler::Clock = Arc::new(move || clock.now());
    let (client, config) = (lab.emulator.client(), lab.config.clone());
    schedlab_scheduler::run_until(client, config, clock, None, lab.advance(seconds)).await.unwrap();
}

#[test]
fn the_usage_of_the_last_minute_is_saved_at_the_end() {
    Lab::run(async |mut lab| {
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        for (queue, seconds) in [("a", 10), ("b", 0), ("c", 10)] {
            lab.queue(queue, 0, -1);
            lab.job(&format!("of-{queue}"), queue, 2, 1);
            run_for(&lab, seconds).await;
        }
        assert_snapshot!(usage_history(&lab), @r#"{"history.json":"{\"capacity\":[[1767225600010,[8000,128000,1099511627776]]],\"queues\":{\"a\":[[1767225601010,[2000,0,0]]],\"b\":[[1767225611010,[2000,0,0]]],\"c\":[[1767225611010,[2000,0,0]]]}}"}"#);
    });
}

/// Creates a node pool with eight GPUs, and a queue whose job uses them all.
async fn create_pool(lab: &Lab, pool: &str) {
    let fleet = format!("pools: [{{name: {pool}, count: 1, gpus: 8, labels: {{pool: {pool}}}}}]");
    lab.emulator.add_fleet(&Fleet::parse("fleet", &fleet).unwrap()).unwrap();
    lab.job(&format!("of-{pool}"), pool, 8, 1);
    lab.queue(pool, 0, -1);
    let job = format!("batch/v1/namespaces/default/jobs/of-{pool}");
    for path in [job, format!("scheduling.run.ai/v2/queues/{pool}")] {
        let labels = json!({ "metadata": { "labels": { "pool": pool } } });
        lab.patch(&format!("/apis/{path}"), &labels).await;
    }
}

#[test]
fn each_shard_keeps_its_own_history() {
    Lab::run(async |mut lab| {
        lab.config.usage_window = Some(Duration::from_hours(1));
        for name in ["a", "b"] {
            create_pool(&lab, name).await;
        }
        for value in ["a", "b", "a"] {
            lab.config.node_pool = Some(NodePool { label: "pool".into(), value: value.into() });
            lab.start();
            lab.advance(1800).await;
            lab.stop().await;
        }
        assert_snapshot!(usage_history(&lab), @r#"{"history.pool-a.json":"{\"capacity\":[[1767225600010,[8000,128000,1099511627776]]],\"queues\":{\"a\":[[1767225601010,[8000,0,0]]]}}","history.pool-b.json":"{\"capacity\":[[1767227400010,[8000,128000,1099511627776]]],\"queues\":{\"b\":[[1767227401010,[8000,0,0]]]}}"}"#);
    });
}

/// A node with four MIG instances.
const SPLIT: &str = "
kind: Node
metadata: {name: m, labels: {node-role.kubernetes.io/mig-enabled: 'true', nvidia.com/mig.strategy: mixed}}
status:
  allocatable: &all {cpu: '64', memory: 1Ti, pods: '110', nvidia.com/mig-1g.10gb: '4'}
  capacity: *all
  conditions: [{type: Ready, status: 'True'}]
";

/// Creates four pods with a MIG instance each.
fn request_instances(lab: &Lab, queue: &str) {
    for number in 0..4 {
        lab.apply(&format!(
            "
kind: Pod
metadata: {{name: {queue}-{number}, labels: {{kai.scheduler/queue: {queue}}}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: c, image: i, resources: {{limits: {{nvidia.com/mig-1g.10gb: '1'}}}}}}]
"
        ));
    }
}

#[test]
fn mig_instances_count_as_gpus_in_past_usage_and_sums_of_quotas() {
    Lab::run(async |mut lab| {
        lab.apply(SPLIT);
        for (queue, quota) in [("hog", 0), ("shy", 0), ("guaranteed", 4)] {
            lab.queue(queue, quota, -1);
        }
        lab.config.usage_window = Some(Duration::from_hours(1));
        let status = lab.start();
        request_instances(&lab, "hog");
        lab.advance(1800).await;
        request_instances(&lab, "shy");
        lab.advance(5).await;
        assert_snapshot!(fair_shares(&status), @"guaranteed=0 hog=0 shy=4 well");
        assert!(!lab.events().contains("GuaranteesAboveCapacity"), "{}", lab.events());
        let history = lab.list("", "configmaps");
        let history = history.iter().find_map(|map| map["data"]["history.json"].as_str()).unwrap();
        assert!(history.contains("[4000,64000,1099511627776]]]"), "{history}");
    });
}
