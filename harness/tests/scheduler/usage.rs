//! Past usage that a Prometheus knows: what queues deserve by it, and what becomes of them while it
//! says nothing, or nothing of use. It is played in the same process, so that time stays virtual. At
//! the end the own history, where GPUs are MIG instances.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use insta::assert_snapshot;
use kube::client::Body;
use schedlab_emulator::Fleet;
use schedlab_json::{Value, json};
use schedlab_scheduler::{
    NodePool, Progress,
    usage::{Endpoint, Timing, UsageDatabase, UsageQueries, Window},
};
use tokio::sync::watch;
use tower::service_fn;

use super::lab::Lab;

/// What Prometheus says just now.
#[derive(Clone, Copy)]
enum Says {
    /// That this queue used all GPUs.
    AllUsedBy(&'static str),
    /// A number that is none.
    Nonsense,
    /// That it cannot.
    Failure,
    /// Nothing, ever.
    Silence,
}

impl Says {
    fn to(self, query: &str) -> (StatusCode, Value) {
        let vector = |result: Value| json!({ "status": "success", "data": { "resultType": "vector", "result": result } });
        let of = |queue: &str, value: &str| json!([{ "metric": { "queue_name": queue }, "value": [0, value] }]);
        let is_of_gpus = query.contains("kai_queue_allocated_gpus");
        match self {
            Self::Failure => {
                let said =
                    json!({ "status": "error", "errorType": "timeout", "error": "too slow" });
                (StatusCode::SERVICE_UNAVAILABLE, said)
            }
            Self::AllUsedBy(queue) if is_of_gpus => (StatusCode::OK, vector(of(queue, "480"))),
            Self::Nonsense if is_of_gpus => (StatusCode::OK, vector(of("a", "NaN"))),
            Self::AllUsedBy(_) | Self::Nonsense | Self::Silence => {
                let capacity = json!([{ "metric": {}, "value": [0, "480"] }]);
                let is_asked = query.contains("kube_node_status_capacity");
                (StatusCode::OK, vector(if is_asked { capacity } else { json!([]) }))
            }
        }
    }
}

/// A Prometheus, and what it is to say from now on.
fn prometheus(says: Says) -> (UsageDatabase, Arc<Mutex<Says>>) {
    let words = Arc::new(Mutex::new(says));
    let said = Arc::clone(&words);
    let service = service_fn(move |request: Request<Body>| {
        let says = *said.lock().unwrap();
        async move {
            if matches!(says, Says::Silence) {
                std::future::pending::<()>().await;
            }
            let (status, answer) = says.to(request.uri().query().unwrap_or_default());
            let answer = Response::builder()
                .status(status)
                .body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    let database = UsageDatabase {
        endpoint: Endpoint::Client(kube::Client::new(service, "default")),
        window: Window::Sliding(Duration::from_hours(24)),
        half_life: None,
        resolution: Duration::from_mins(1),
        queries: UsageQueries::kai_defaults(),
        timing: Timing {
            fetch_interval: Duration::from_mins(1),
            staleness: Duration::from_mins(5),
            first_answer_timeout: Duration::from_mins(1),
            query_timeout: Duration::from_secs(10),
        },
    };
    (database, words)
}

/// Two queues without a quota that each want all eight GPUs, with time to look at them.
async fn contested(lab: &mut Lab, database: UsageDatabase) -> watch::Receiver<Progress> {
    lab.nodes(1, 8);
    for queue in ["a", "b"] {
        lab.queue(queue, 0, -1);
        lab.job(&format!("of-{queue}"), queue, (8, 1));
    }
    lab.config.usage_database = Some(database);
    let status = lab.start();
    lab.pass(5).await;
    status
}

/// Fair shares in GPUs, and what is wrong.
fn told(status: &watch::Receiver<Progress>) -> String {
    let status = status.borrow();
    let shares = status.queues.iter().map(|queue| {
        let gpus = queue.fair_share.gpu / 1000;
        format!("{}={gpus} ", queue.name)
    });
    format!("{}{}", shares.collect::<String>(), status.usage_error.as_deref().unwrap_or("well"))
}

#[test]
fn a_queue_that_used_much_deserves_less_until_the_answer_is_stale() {
    Lab::tell(async |mut lab| {
        let (database, words) = prometheus(Says::AllUsedBy("a"));
        let status = contested(&mut lab, database).await;
        assert_snapshot!(told(&status), @"a=0 b=8 well");
        *words.lock().unwrap() = Says::Failure;
        lab.pass(60).await;
        assert_snapshot!(told(&status), @"a=0 b=8 usage of queues from a client: kai_queue_allocated_gpus: status 503 Service Unavailable: too slow; the last good response is used for 300s, then no past usage");
        lab.pass(240).await;
        assert_snapshot!(told(&status), @"a=4 b=4 usage of queues from a client: kai_queue_allocated_gpus: status 503 Service Unavailable: too slow; the last good response is used for 300s, then no past usage");
        *words.lock().unwrap() = Says::Silence;
        lab.pass(120).await;
        assert_snapshot!(told(&status), @"a=4 b=4 usage of queues from a client: no response within 10s; the last good response is used for 300s, then no past usage");
        *words.lock().unwrap() = Says::AllUsedBy("b");
        lab.pass(120).await;
        assert_snapshot!(told(&status), @"a=8 b=0 well");
    });
}

#[test]
fn what_prometheus_says_wrong_is_told_and_scheduling_goes_on() {
    Lab::tell(async |mut lab| {
        let (database, words) = prometheus(Says::Nonsense);
        let status = contested(&mut lab, database).await;
        assert_snapshot!(told(&status), @"a=4 b=4 usage of queues from a client: kai_queue_allocated_gpus: queue_name=a: got NaN, expected a number of at least 0; the last good response is used for 300s, then no past usage");
        let running = lab.pods().matches("Running").count();
        assert_eq!(running, 8);
        *words.lock().unwrap() = Says::AllUsedBy("team-of-yore");
        lab.pass(60).await;
        assert_snapshot!(told(&status), @"a=4 b=4 usage of queues from a client: none of its queues (1, first team-of-yore) exists here: all count as unused");
    });
}

#[test]
fn the_first_cycle_waits_for_the_first_answer_but_not_for_ever() {
    Lab::tell(async |mut lab| {
        let (mut database, _) = prometheus(Says::Silence);
        database.timing.first_answer_timeout = Duration::from_secs(6);
        let status = contested(&mut lab, database).await;
        assert_eq!(status.borrow().cycles, 0);
        lab.pass(2).await;
        assert_snapshot!(told(&status), @"a=4 b=4 well");
    });
}

#[test]
fn while_prometheus_says_nothing_the_own_history_counts() {
    Lab::tell(async |mut lab| {
        let (database, _) = prometheus(Says::Failure);
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        lab.queue("a", 0, -1);
        lab.job("of-a", "a", (8, 1));
        lab.config.usage_database = Some(database);
        let status = lab.start();
        lab.pass(1800).await;
        lab.queue("b", 0, -1);
        lab.job("of-b", "b", (8, 1));
        lab.pass(3).await;
        assert_snapshot!(told(&status), @"a=0 b=8 usage of queues from a client: kai_queue_allocated_gpus: status 503 Service Unavailable: too slow; the last good response is used for 300s, then the scheduler's own history");
    });
}

/// How an explanation of a queue says past usage counts, and its notes.
async fn explained(lab: &Lab, queue: &str) -> String {
    let told = lab.explain_queue(queue).await;
    let notes = told.split_once("\nnotes\n").map_or("", |(_, notes)| notes);
    let round = told.lines().filter(|line| line.contains("round 1"));
    round.map(str::trim).chain(notes.lines()).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_explanation_reads_past_usage_where_the_scheduler_keeps_it() {
    Lab::tell(async |mut lab| {
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        lab.queue("a", 0, -1);
        lab.job("of-a", "a", (8, 1));
        assert_snapshot!(explained(&lab, "a").await, @"  ConfigMap kai-scheduler-usage with the usage history exists in no namespace: all queues count as unused");
        lab.start();
        lab.pass(1800).await;
        lab.queue("b", 0, -1);
        lab.job("of-b", "b", (8, 1));
        lab.pass(3).await;
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
        let (database, _) = prometheus(Says::Failure);
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
    Lab::tell(async |mut lab| {
        lab.nodes(1, 8);
        for queue in ["a", "b"] {
            lab.queue(queue, 0, -1);
            lab.job(&format!("of-{queue}"), queue, (8, 1));
        }
        lab.start();
        lab.pass(3).await;
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

/// The usage history that the scheduler wrote.
fn kept(lab: &Lab) -> Value {
    let kept = lab.list("", "configmaps");
    let is_it = |object: &&Value| object["metadata"]["name"] == "kai-scheduler-usage";
    kept.iter().find(is_it).unwrap()["data"].clone()
}

#[test]
fn what_queues_use_is_kept_within_a_minute_though_nothing_happens_any_more() {
    Lab::tell(async |mut lab| {
        lab.sleep_until_events();
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        lab.queue("a", 0, -1);
        lab.start();
        lab.pass(5).await;
        lab.job("of-a", "a", (8, 1));
        lab.pass(90).await;
        assert_snapshot!(kept(&lab), @r#"{"history.json":"{\"capacity\":[[1767225600010,[8000,128000,1099511627776]]],\"queues\":{\"a\":[[1767225606010,[8000,0,0]]]}}"}"#);
    });
}

/// Runs a scheduler so long, and then tells it to end.
async fn run_for(lab: &Lab, seconds: u64) {
    let clock = lab.emulator.clock().clone();
    let clock = (Arc::new(move || clock.now()) as schedlab_scheduler::Clock, None);
    let (client, config) = (lab.emulator.client(), lab.config.clone());
    schedlab_scheduler::run_until(client, config, clock, lab.pass(seconds)).await.unwrap();
}

#[test]
fn what_the_last_minute_changed_is_kept_at_the_end() {
    Lab::tell(async |mut lab| {
        lab.config.usage_window = Some(Duration::from_hours(1));
        lab.nodes(1, 8);
        for (queue, seconds) in [("a", 10), ("b", 0), ("c", 10)] {
            lab.queue(queue, 0, -1);
            lab.job(&format!("of-{queue}"), queue, (2, 1));
            run_for(&lab, seconds).await;
        }
        assert_snapshot!(kept(&lab), @r#"{"history.json":"{\"capacity\":[[1767225600010,[8000,128000,1099511627776]]],\"queues\":{\"a\":[[1767225601010,[2000,0,0]]],\"b\":[[1767225611010,[2000,0,0]]],\"c\":[[1767225611010,[2000,0,0]]]}}"}"#);
    });
}

/// A node pool with eight GPUs, and a queue whose work uses them all.
async fn pool(lab: &Lab, pool: &str) {
    let fleet = format!("pools: [{{name: {pool}, count: 1, gpus: 8, labels: {{pool: {pool}}}}}]");
    lab.emulator.add_fleet(&Fleet::parse("fleet", &fleet).unwrap()).unwrap();
    lab.job(&format!("of-{pool}"), pool, (8, 1));
    lab.queue(pool, 0, -1);
    let job = format!("batch/v1/namespaces/default/jobs/of-{pool}");
    for path in [job, format!("scheduling.run.ai/v2/queues/{pool}")] {
        let labels = json!({ "metadata": { "labels": { "pool": pool } } });
        lab.patch(&format!("/apis/{path}"), &labels).await;
    }
}

#[test]
fn shards_of_one_name_keep_a_history_each() {
    Lab::tell(async |mut lab| {
        lab.config.usage_window = Some(Duration::from_hours(1));
        for name in ["a", "b"] {
            pool(&lab, name).await;
        }
        for value in ["a", "b", "a"] {
            lab.config.node_pool = Some(NodePool { label: "pool".into(), value: value.into() });
            lab.start();
            lab.pass(1800).await;
            lab.stop().await;
        }
        assert_snapshot!(kept(&lab), @r#"{"history.pool-a.json":"{\"capacity\":[[1767225600010,[8000,128000,1099511627776]]],\"queues\":{\"a\":[[1767225601010,[8000,0,0]]]}}","history.pool-b.json":"{\"capacity\":[[1767227400010,[8000,128000,1099511627776]]],\"queues\":{\"b\":[[1767227401010,[8000,0,0]]]}}"}"#);
    });
}

/// A node whose GPUs are split into four instances.
const SPLIT: &str = "
kind: Node
metadata: {name: m, labels: {node-role.kubernetes.io/mig-enabled: 'true', nvidia.com/mig.strategy: mixed}}
status:
  allocatable: &all {cpu: '64', memory: 1Ti, pods: '110', nvidia.com/mig-1g.10gb: '4'}
  capacity: *all
  conditions: [{type: Ready, status: 'True'}]
";

fn ask_for_instances(lab: &Lab, queue: &str) {
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
fn instances_count_as_gpus_in_past_usage_and_in_what_quotas_add_up_to() {
    Lab::tell(async |mut lab| {
        lab.apply(SPLIT);
        for (queue, quota) in [("hog", 0), ("shy", 0), ("guaranteed", 4)] {
            lab.queue(queue, quota, -1);
        }
        lab.config.usage_window = Some(Duration::from_hours(1));
        let status = lab.start();
        ask_for_instances(&lab, "hog");
        lab.pass(1800).await;
        ask_for_instances(&lab, "shy");
        lab.pass(5).await;
        assert_snapshot!(told(&status), @"guaranteed=0 hog=0 shy=4 well");
        assert!(!lab.events().contains("GuaranteesAboveCapacity"), "{}", lab.events());
        let history = lab.list("", "configmaps");
        let history = history.iter().find_map(|map| map["data"]["history.json"].as_str()).unwrap();
        assert!(history.contains("[4000,64000,1099511627776]]]"), "{history}");
    });
}
