//! The time of a cycle of the complete scheduler, with watches and writes, on a full cluster in the
//! emulator: without changes, and with one new pod.

use std::time::Duration;

use schedlab_api::{Value, crds, json};
use schedlab_emulator::{
    Emulator, Fleet, Options,
    clock::Clock,
    store::{Key, Op, PatchBody, Resource, Subresource, Write},
};
use schedlab_scheduler::Config;

use crate::{
    core::now,
    table::{Row, Table, duration_text, median},
};

const NODES: u32 = 4000;
const RUNNING_PODS: u32 = 30_000;
const PENDING_PODS: u32 = 10_000;
const QUEUES: u32 = 100;

/// Number of cycles without changes over which the time is averaged.
const QUIET_CYCLES: u32 = 1000;

pub(crate) const ROW_NAME: &str = "the whole scheduler, 4,000 nodes, 40,000 pods";

pub(crate) fn measure_scheduler(table: &Table) {
    if !table.is_selected(ROW_NAME) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be built");
    let (quiet, pod) = runtime.block_on(time_quiet_and_one_pod_cycles());
    let row = |what: &str, elapsed: Duration, bound: &str| {
        table.print_row(&Row {
            name: format!("{ROW_NAME}: {what}"),
            figure: duration_text(elapsed),
            bound: bound.to_owned(),
            others: String::new(),
        });
    };
    row("a cycle without changes", quiet, "5 ms");
    row("a cycle with one new pod", pod, "");
}

/// The time of a cycle without changes, and that of a cycle with one new pod.
async fn time_quiet_and_one_pod_cycles() -> (Duration, Duration) {
    let epoch = "2026-01-01T00:00:00Z".parse().expect("the timestamp is valid");
    let emulator = full_fleet(Clock::starting_at(epoch));
    let config = Config::kai();
    let mut status = config.progress.subscribe();
    let clock = emulator.clock().clone();
    let scheduler = tokio::spawn(schedlab_scheduler::run(
        emulator.client(),
        config,
        std::sync::Arc::new(move || clock.now()),
    ));
    // Wait until no more plans are made: all pods are grouped and bound, and all events are
    // written.
    let mut plans = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!scheduler.is_finished(), "the scheduler ended");
        let now = status.borrow_and_update().plans;
        if now > 0 && now == plans {
            break;
        }
        plans = now;
    }
    let before = (now(), status.borrow_and_update().cycles);
    tokio::time::sleep(Duration::from_secs(1) * QUIET_CYCLES).await;
    let (elapsed, after) = (before.0.elapsed(), status.borrow_and_update().cycles);
    let quiet = elapsed / u32::try_from(after - before.1).expect("about a thousand cycles");
    let mut times = Vec::new();
    for at in 0..5 {
        create_object(&emulator, "pods", &pod_object(&format!("new-{at}"), 0, None));
        let start = now();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        times.push(start.elapsed());
    }
    scheduler.abort();
    (quiet, median(times))
}

/// An emulator with the full cluster, without kubelets and controllers: only the scheduler and the
/// API server use time.
pub(crate) fn full_fleet(clock: Clock) -> Emulator {
    let options = Options { runs_controllers: false, ..Options::with_clock(clock) };
    let emulator = Emulator::start(options);
    for definition in &crds::all_crds() {
        let definitions = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
        emulator.create(&definitions, definition.clone()).expect("the CRD is valid");
    }
    for class in &crds::priority_classes() {
        let classes = Resource::new("scheduling.k8s.io", "priorityclasses");
        emulator.create(&classes, class.clone()).expect("the priority class is valid");
    }
    let fleet = format!("pools:\n- name: n\n  count: {NODES}\n  gpus: 8\n");
    let fleet = Fleet::parse("fleet", &fleet).expect("the fleet is valid");
    emulator.add_fleet(&fleet).expect("the cluster is empty");
    fleet.nodes().iter().for_each(|node| make_node_ready(&emulator, node));
    for at in 0..QUEUES {
        let queue = queue_object(at);
        let queues = Resource::new("scheduling.run.ai", "queues");
        emulator.create(&queues, queue).expect("the queue is valid");
    }
    for at in 0..RUNNING_PODS {
        // The last GPU of every second node is free.
        let node = format!("n-{}", at / 15 * 2 + at % 15 / 8);
        create_object(&emulator, "pods", &pod_object(&format!("running-{at:06}"), at, Some(&node)));
    }
    for at in 0..PENDING_PODS {
        create_object(&emulator, "pods", &pod_object(&format!("pending-{at:06}"), at, None));
    }
    emulator
}

/// Removes the taints of a node and makes it ready, as its kubelet and the node life cycle
/// controller would.
fn make_node_ready(emulator: &Emulator, node: &Value) {
    let name = node["metadata"]["name"].as_str().expect("nodes have names");
    let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady" });
    let parts = [
        (Subresource::None, json!({ "spec": { "taints": null } })),
        (Subresource::Status, json!({ "status": { "conditions": [ready] } })),
    ];
    for (part, change) in parts {
        let key = Key::new(Resource::new("", "nodes"), "", name);
        let write = Write::new(key, Op::Patch(part, PatchBody::Merge(change)), "kubelet");
        emulator.store().write(write).expect("a node can be patched");
    }
}

fn create_object(emulator: &Emulator, plural: &str, object: &Value) {
    emulator.create(&Resource::new("", plural), object.clone()).expect("the object is valid");
}

fn queue_object(at: u32) -> Value {
    let all = json!({ "quota": -1, "overQuotaWeight": 1, "limit": -1 });
    let gpu = json!({ "quota": NODES * 8 / QUEUES, "overQuotaWeight": 1, "limit": -1 });
    json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": { "name": format!("queue-{at:03}") },
        "spec": { "resources": { "gpu": gpu, "cpu": all, "memory": all } },
    })
}

fn pod_object(name: &str, at: u32, node: Option<&str>) -> Value {
    let queue = format!("queue-{:03}", at % QUEUES);
    let limits = json!({ "nvidia.com/gpu": 1 });
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "labels": { "kai.scheduler/queue": queue },
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{ "name": "main", "image": "train", "resources": { "limits": limits } }],
        },
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}
