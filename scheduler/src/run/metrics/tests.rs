//! Tests of metrics after real cycles over small clusters.

use std::sync::atomic::{AtomicBool, Ordering};

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler_core::resources::PerResource;

use super::*;
use crate::{
    config::{Config, Flavor},
    snapshot_builder::SnapshotBuilder,
    usage::{SharedUsage, UsageHistory, UsageQueries},
};

/// Exported values except durations, after one cycle over these objects.
fn measured(objects: &[Value]) -> String {
    let text = exported(objects);
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
    let left_out = ["action_scheduling_latency", "_cpu_", "_memory_", "queue_info"];
    samples
        .filter(|line| !left_out.iter().any(|name| line.contains(name)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The exported text after one cycle over these objects.
fn exported(objects: &[Value]) -> String {
    exported_by(&Metrics::new(), objects)
}

fn exported_by(metrics: &Metrics, objects: &[Value]) -> String {
    let mut cache = ClusterCache::from_objects(objects);
    let mut translator = SnapshotBuilder::new(Flavor::Kai, 0);
    translator.refresh(&mut cache);
    let snapshot = &mut translator.built.snapshot;
    snapshot.now = Time(90_000);
    let mut stopwatch = Stopwatch::default();
    let profile = Config::kai().profile;
    let plan = schedlab_scheduler_core::schedule_observed(snapshot, &profile, &mut stopwatch);
    let queues: Vec<QueueSummary> = snapshot
        .queues
        .iter()
        .zip(plan.queues.values())
        .map(|(queue, used)| QueueSummary {
            name: Name::clone(&queue.name),
            quota: queue.quota,
            limit: queue.limit,
            fair_share: used.fair_share,
            allocated: used.allocated.clone(),
            allocated_non_preemptible: used.allocated_non_preemptible.clone(),
            requested: used.requested.clone(),
        })
        .collect();
    metrics.observe(&CycleObservation {
        snapshot,
        plan: &plan,
        cache: &cache,
        pool: "a100",
        queues: &queues,
        stopwatch: &stopwatch,
        timings: CycleTimings::default(),
        bindings: &[Duration::from_millis(7)],
    });
    metrics.text(moment(90))
}

/// A time in seconds since the epoch.
fn moment(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(seconds).unwrap()
}

/// Default queries for historical usage match the exported metrics.
#[test]
fn exported_usage_metrics_match_the_default_prometheus_queries() {
    let text = exported(&[queue("a", 1)]);
    let UsageQueries { gpu, cpu, memory } = UsageQueries::kai_defaults();
    for [used, _] in [gpu, cpu, memory] {
        let labels = r#"{queue_display_name="Team a",queue_metadata_name="a",queue_name="a"}"#;
        assert!(text.contains(&format!("\n{used}{labels} 0\n")), "{used} in {text}");
    }
}

#[test]
fn queue_labels_appear_on_queue_controller_metrics_only() {
    let label = |queue_label: &str, metric_label: &str, default: &str| QueueMetricLabel {
        queue_label: queue_label.to_owned(),
        metric_label: metric_label.to_owned(),
        default: default.to_owned(),
    };
    let labels = vec![label("team", "team", ""), label("tier", "queue_tier", "none")];
    let mut queue = queue("a", 1);
    queue["metadata"]["labels"] = json!({ "team": "vision" });
    let text = exported_by(&Metrics::with_queue_labels(labels), &[queue]);
    let of = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let names = r#"queue_display_name="Team a",queue_metadata_name="a",queue_name="a""#;
    for name in ["kai_queue_info", "kai_queue_deserved_gpus"] {
        let labels = format!(r#"{{{names},queue_tier="none",team="vision"}}"#);
        assert_eq!(of(name), format!("{name}{labels} 1"));
    }
    let names = r#"queue_display_name="Team a",queue_metadata_name="a",queue_name="Team a""#;
    assert_eq!(of("kai_queue_gpu_usage"), format!("kai_queue_gpu_usage{{{names}}} 0"));
}

#[test]
fn time_dependent_metrics_are_computed_when_scraped() {
    let metrics = Metrics::new();
    let gpus = |gpu| PerResource { gpu, cpu: 0, memory: 0 };
    let mut usage = UsageHistory::new(Duration::from_hours(10), None);
    usage.record(Time(90_000), gpus(4000), &[("owner".into(), gpus(4000))].into());
    usage.record(Time(110_000), gpus(4000), &[].into());
    metrics.set_usage_history(Some(SharedUsage::new(usage)));
    let mut objects = vec![four_gpus(), queue("owner", 3)];
    objects.extend([group("small", "owner", 1), group("gang", "owner", 9)]);
    objects.push(pod("small", 0, None));
    objects.extend((0..9).map(|at| pod("gang", at, None)));
    exported_by(&metrics, &objects);
    let at = |seconds| {
        let text = metrics.text(moment(seconds));
        let line_of = |name| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let names = ["kai_queue_wait_time_estimate", "kai_queue_gpu_usage"];
        names.map(|name| line_of(name).split(' ').next_back().unwrap().to_owned()).join(" ")
    };
    assert_eq!(at(110), "3600 1", "one started in this hour");
    assert_eq!(at(130), "3600 0.5");
    assert_eq!(at(90 + 3601), "3661 0.005554", "none started in this hour: its age");
}

/// A scrape concurrent with a cycle must not export series of deleted queues.
#[test]
fn a_scrape_during_a_cycle_does_not_bring_back_a_deleted_queue() {
    let metrics = Metrics::new();
    metrics.set_usage_history(Some(SharedUsage::new(UsageHistory::new(
        Duration::from_hours(10),
        None,
    ))));
    let others: Vec<Value> = (0..100).map(|at| queue(&format!("q{at}"), 1)).collect();
    let is_done = AtomicBool::new(false);
    let comes_back = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                metrics.text(moment(90));
            }
        });
        let comes_back = (0..20).any(|_| {
            exported_by(&metrics, &[queue("gone", 1)]);
            exported_by(&metrics, &others).contains("gone")
        });
        is_done.store(true, Ordering::Relaxed);
        comes_back
    });
    assert!(!comes_back);
}

fn queue(name: &str, quota: i64) -> Value {
    let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    let gpu = json!({ "quota": quota, "limit": -1, "overQuotaWeight": 1 });
    json!({ "kind": "Queue", "metadata": { "name": name },
            "spec": { "displayName": format!("Team {name}"),
                      "resources": { "gpu": gpu, "cpu": all, "memory": all } } })
}

fn group(name: &str, queue: &str, minimum: u32) -> Value {
    json!({ "kind": "PodGroup",
            "metadata": { "namespace": "ns", "name": name, "uid": name,
                          "creationTimestamp": "1970-01-01T00:00:30Z" },
            "spec": { "queue": queue, "minMember": minimum, "priorityClassName": "train" } })
}

fn pod(group: &str, at: u32, node: Option<&str>) -> Value {
    json!({ "kind": "Pod",
            "metadata": { "namespace": "ns", "name": format!("{group}-{at}"),
                          "uid": format!("{group}-{at}"), "resourceVersion": "1",
                          "creationTimestamp": "1970-01-01T00:00:30Z",
                          "annotations": { "pod-group-name": group } },
            "spec": { "schedulerName": "kai-scheduler", "nodeName": node,
                      "containers": [{ "name": "c", "resources": {
                          "limits": { "nvidia.com/gpu": 1 } } }] },
            "status": { "phase": if node.is_some() { "Running" } else { "Pending" } } })
}

/// A node with four GPUs.
fn four_gpus() -> Value {
    json!({ "kind": "Node", "metadata": { "name": "n1" }, "status": {
        "allocatable": { "nvidia.com/gpu": "4", "cpu": "8", "memory": "8Gi", "pods": "110" },
        "conditions": [{ "type": "Ready", "status": "True" }] } })
}

#[test]
fn a_cycle_with_binding_eviction_and_pending_groups_is_measured() {
    let mut objects = vec![four_gpus(), queue("lent", 0), queue("owner", 3)];
    objects.extend([group("borrowed", "lent", 1), group("owned", "owner", 2)]);
    objects.extend([group("small", "owner", 1), group("gang", "lent", 9)]);
    objects.extend((0..3).map(|at| pod("borrowed", at, Some("n1"))));
    objects.extend((0..2).map(|at| pod("owned", at, None)));
    objects.extend([pod("small", 0, None), group("lost", "nowhere", 1), pod("lost", 0, None)]);
    objects.extend((0..9).map(|at| pod("gang", at, None)));
    assert_snapshot!(measured(&objects), @r#"
    kai_close_session_latency_milliseconds 0
    kai_e2e_scheduling_latency_milliseconds 0
    kai_fairshare_quota_usage{queue_name="lent",team="lent"} 3
    kai_fairshare_quota_usage{queue_name="owner",team="owner"} 0
    kai_gang_scheduling_success_rate{priority="train"} 0
    kai_open_session_latency_milliseconds 0
    kai_pod_group_evicted_pods_total{action="reclaim",namespace="ns",nodepool="a100",podgroup="borrowed",uid="borrowed"} 2
    kai_podgroups_acted_on_by_action{action="allocate"} 3
    kai_podgroups_acted_on_by_action{action="consolidation"} 2
    kai_podgroups_acted_on_by_action{action="preempt"} 1
    kai_podgroups_acted_on_by_action{action="reclaim"} 2
    kai_podgroups_scheduled_by_action{action="allocate"} 1
    kai_podgroups_scheduled_by_action{action="consolidation"} 0
    kai_podgroups_scheduled_by_action{action="preempt"} 0
    kai_podgroups_scheduled_by_action{action="reclaim"} 1
    kai_preemptions_total{priority="train"} 2
    kai_queue_allocated_gpus{queue_display_name="Team lent",queue_metadata_name="lent",queue_name="lent"} 3
    kai_queue_allocated_gpus{queue_display_name="Team owner",queue_metadata_name="owner",queue_name="owner"} 0
    kai_queue_depth{priority="train",queue_name="lent"} 1
    kai_queue_depth{priority="train",queue_name="nowhere"} 1
    kai_queue_depth{priority="train",queue_name="owner"} 1
    kai_queue_depth_total 3
    kai_queue_deserved_gpus{queue_display_name="Team lent",queue_metadata_name="lent",queue_name="lent"} 0
    kai_queue_deserved_gpus{queue_display_name="Team owner",queue_metadata_name="owner",queue_name="owner"} 3
    kai_queue_fair_share_gpu{queue_display_name="Team lent",queue_metadata_name="lent",queue_name="Team lent"} 1
    kai_queue_fair_share_gpu{queue_display_name="Team owner",queue_metadata_name="owner",queue_name="Team owner"} 3
    kai_queue_gpu_usage{queue_display_name="Team lent",queue_metadata_name="lent",queue_name="Team lent"} 0
    kai_queue_gpu_usage{queue_display_name="Team owner",queue_metadata_name="owner",queue_name="Team owner"} 0
    kai_queue_wait_time_estimate{priority="train",queue_name="lent"} 60
    kai_queue_wait_time_estimate{priority="train",queue_name="nowhere"} 60
    kai_queue_wait_time_estimate{priority="train",queue_name="owner"} 3600
    kai_queue_wait_time_p99_seconds 60
    kai_quota_usage_percent{queue_name="owner",team="owner"} 0
    kai_scenarios_filtered_by_action{action="consolidation"} 0
    kai_scenarios_filtered_by_action{action="preempt"} 0
    kai_scenarios_filtered_by_action{action="reclaim"} 1
    kai_scenarios_simulation_by_action{action="consolidation"} 0
    kai_scenarios_simulation_by_action{action="preempt"} 0
    kai_scenarios_simulation_by_action{action="reclaim"} 1
    kai_scheduling_decisions_total{decision="accept"} 1
    kai_scheduling_decisions_total{decision="queue"} 1
    kai_scheduling_decisions_total{decision="reject"} 2
    kai_task_bind_latency_milliseconds_sum 7
    kai_task_bind_latency_milliseconds_count 1
    kai_task_scheduling_latency_milliseconds_sum 60000
    kai_task_scheduling_latency_milliseconds_count 1
    kai_total_preemption_attempts 3
    kai_usage_query_latency_milliseconds_sum 0
    kai_usage_query_latency_milliseconds_count 0
    "#);
}

#[test]
fn eviction_counters_last_as_long_as_their_pod_group() {
    let metrics = Metrics::new();
    let counter = |objects: &[Value]| {
        let text = exported_by(&metrics, objects);
        let mut lines = text.lines().filter(|line| line.contains("_evicted_pods_total{"));
        lines.next().map(str::to_owned)
    };
    let mut objects = vec![four_gpus(), queue("lent", 0), queue("owner", 4)];
    objects.extend([group("borrowed", "lent", 1), group("owned", "owner", 1)]);
    let no_pod_left = objects.clone();
    objects.extend((0..4).map(|at| pod("borrowed", at, Some("n1"))));
    objects.extend((0..4).map(|at| pod("owned", at, None)));
    let evicted = counter(&objects);
    assert!(evicted.as_ref().is_some_and(|line| line.ends_with(" 1")), "{evicted:?}");
    assert_eq!(counter(&no_pod_left), evicted);
    assert_eq!(counter(&no_pod_left[..3]), None);
}
