//! The time of a cycle of the complete scheduler, with watches and writes, on a full cluster in the
//! emulator: without changes, and with one new pod, by phases.

use std::time::Duration;

use schedlab_api::{Value, crds, json};
use schedlab_emulator::{
    Emulator, Fleet, Options,
    clock::Clock,
    store::{Key, Op, PatchBody, Resource, Subresource, Write},
};
use schedlab_scheduler::{Config, CycleTimings, Progress};
use tokio::sync::watch::Receiver;

use crate::{
    core::now,
    table::{Row, Table, duration_text, median},
};

const NODES: u32 = 4000;

/// The pods of a cluster of [`NODES`] nodes with 8 GPUs each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetLoad {
    /// Pods that request a GPU and have a node.
    running_on_gpus: u32,
    /// Pods that request only CPU and have a node.
    running_on_cpus: u32,
    /// Pods that request a GPU and have no node.
    pending: u32,
    queues: u32,
}

/// Fifteen of sixteen GPUs are used, and five times as many pods wait as GPUs are free.
pub(crate) const CROWDED: FleetLoad =
    FleetLoad { running_on_gpus: 30_000, running_on_cpus: 0, pending: 10_000, queues: 100 };

/// Each pod has a node, and one GPU of each node is free.
const SETTLED: FleetLoad =
    FleetLoad { running_on_gpus: 28_000, running_on_cpus: 12_000, pending: 0, queues: 50 };

/// Number of cycles without changes over which the time is averaged.
const QUIET_CYCLES: u32 = 1000;

/// Number of pods that come one after the other.
const NEW_PODS: u32 = 9;

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
    let quiet = runtime.block_on(time_of_quiet_cycle());
    table.print_row(&Row {
        name: format!("{ROW_NAME}: a cycle without changes"),
        figure: duration_text(quiet),
        bound: "5 ms".to_owned(),
        others: String::new(),
    });
    for (what, load, bound) in [("all bound", SETTLED, "20 ms"), ("8,000 wait", CROWDED, "")] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let timings = runtime.expect("a runtime can be built").block_on(time_one_pod_cycles(load));
        let phases = timings.phases().map(|(name, time)| format!("{name} {}", duration_text(time)));
        table.print_row(&Row {
            name: format!("{ROW_NAME}, {what}: a cycle with one new pod"),
            figure: duration_text(timings.whole),
            bound: bound.to_owned(),
            others: phases.join(", "),
        });
    }
}

/// The time of a cycle without changes, of 40,000 pods of which 8,000 wait.
async fn time_of_quiet_cycle() -> Duration {
    let epoch = "2026-01-01T00:00:00Z".parse().expect("the timestamp is valid");
    let emulator = full_fleet(Clock::starting_at(epoch), CROWDED);
    let config = Config::kai();
    let mut status = config.progress.subscribe();
    let clock = emulator.clock().clone();
    let scheduler = tokio::spawn(schedlab_scheduler::run(
        emulator.client(),
        config,
        std::sync::Arc::new(move || clock.now()),
    ));
    wait_until_settled(&mut status, Duration::from_secs(10)).await;
    let before = (now(), status.borrow_and_update().cycles);
    tokio::time::sleep(Duration::from_secs(1) * QUIET_CYCLES).await;
    let (elapsed, after) = (before.0.elapsed(), status.borrow_and_update().cycles);
    scheduler.abort();
    elapsed / u32::try_from(after - before.1).expect("about a thousand cycles")
}

/// The phases of the cycle in which a new pod gets its node or its reason to wait: the medians of
/// several pods. In real time, as phases are measured by tokio's clock.
async fn time_one_pod_cycles(load: FleetLoad) -> CycleTimings {
    let emulator = full_fleet(Clock::real(), load);
    let config = Config { writes_at_once: 32, ..Config::kai() };
    let mut status = config.progress.subscribe();
    let scheduler = tokio::spawn(schedlab_scheduler::run(
        emulator.client(),
        config,
        std::sync::Arc::new(jiff::Timestamp::now),
    ));
    wait_until_settled(&mut status, Duration::from_secs(3)).await;
    let mut all = Vec::new();
    for at in 0..NEW_PODS {
        let name = format!("new-{}-{at}", at * 7919 % 10);
        create_object(&emulator, "pods", &pod_object(&name, 0, None, "nvidia.com/gpu"));
        // The first plan after the pod came is about the pod; later ones are about what was written.
        let plans = status.borrow_and_update().plans;
        status.wait_for(|status| status.plans > plans).await.expect("the scheduler runs");
        all.push(status.borrow_and_update().timings);
        wait_until_settled(&mut status, Duration::from_secs(2)).await;
    }
    scheduler.abort();
    let middle = |phase: fn(&CycleTimings) -> Duration| median(all.iter().map(phase).collect());
    CycleTimings {
        group: middle(|timings| timings.group),
        refresh: middle(|timings| timings.refresh),
        decide: middle(|timings| timings.decide),
        apply: middle(|timings| timings.apply),
        report: middle(|timings| timings.report),
        whole: middle(|timings| timings.whole),
    }
}

/// Waits until no more plans are made for this long: all pods are grouped and bound, and all events
/// are written.
async fn wait_until_settled(status: &mut Receiver<Progress>, period: Duration) {
    let mut plans = 0;
    loop {
        tokio::time::sleep(period).await;
        let now = status.borrow_and_update().plans;
        if now > 0 && now == plans {
            return;
        }
        plans = now;
    }
}

/// An emulator with the full cluster, without kubelets and controllers: only the scheduler and the
/// API server use time.
pub(crate) fn full_fleet(clock: Clock, load: FleetLoad) -> Emulator {
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
    for at in 0..load.queues {
        let queue = queue_object(at, load.queues);
        let queues = Resource::new("scheduling.run.ai", "queues");
        emulator.create(&queues, queue).expect("the queue is valid");
    }
    let add = |name: String, at: u32, node: Option<u32>, resource: &str| {
        let node = node.map(|node| format!("n-{node}"));
        let pod = pod_object(&name, at % load.queues, node.as_deref(), resource);
        create_object(&emulator, "pods", &pod);
    };
    for at in 0..load.running_on_gpus {
        // The last GPU of every second node is free, if as many pods run.
        let node = at / 15 * 2 + at % 15 / 8;
        let node = if load.pending > 0 { node } else { at % NODES };
        add(format!("running-{at:06}"), at, Some(node), "nvidia.com/gpu");
    }
    for at in 0..load.running_on_cpus {
        add(format!("service-{at:06}"), at, Some(at % NODES), "cpu");
    }
    for at in 0..load.pending {
        add(format!("pending-{at:06}"), at, None, "nvidia.com/gpu");
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

fn queue_object(at: u32, queues: u32) -> Value {
    let all = json!({ "quota": -1, "overQuotaWeight": 1, "limit": -1 });
    let gpu = json!({ "quota": NODES * 8 / queues, "overQuotaWeight": 1, "limit": -1 });
    json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": { "name": format!("queue-{at:03}") },
        "spec": { "resources": { "gpu": gpu, "cpu": all, "memory": all } },
    })
}

fn pod_object(name: &str, queue: u32, node: Option<&str>, resource: &str) -> Value {
    let queue = format!("queue-{queue:03}");
    let limits = json!({ resource: 1 });
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
