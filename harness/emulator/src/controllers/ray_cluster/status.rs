//! The status of a RayCluster.

use super::pods::{desired_workers, head_pods, is_worker};
use super::{RayClusterState, is_suspended};
use crate::controllers::workload::{api_count, clamped_count_at, is_ready};
use crate::reconcile::fields::{Condition, set_condition};
use crate::reconcile::{ApiRequest, Context};
use schedlab_api::{
    Value, json,
    object::{condition, list, number, set, text},
};

const PROVISIONED_CONDITION: &str = "RayClusterProvisioned";
const SUSPENDED_CONDITION: &str = "RayClusterSuspended";

/// The status update of a RayCluster without pods to create or delete.
pub(super) fn sync_status(cluster: &RayClusterState, ctx: &Context) -> Option<ApiRequest> {
    let mut seen = Value::clone(cluster.object);
    write_counts(cluster, &mut seen);
    let mut put = |kind, status, [reason, message]: [&str; 2]| {
        set_condition(&mut seen, &Condition { kind, status, reason, message }, ctx.now);
    };
    match head_pods(cluster).first() {
        None => put("HeadPodReady", "False", ["HeadPodNotFound", "Head Pod not found"]),
        Some((_, head)) if is_ready(head) => {
            put("HeadPodReady", "True", ["HeadPodRunningAndReady", ""]);
        }
        Some(_) => put("HeadPodReady", "False", ["ContainersNotReady", ""]),
    }
    let suspended = is_suspended(cluster.object) && cluster.pods.is_empty();
    put(SUSPENDED_CONDITION, if suspended { "True" } else { "False" }, [SUSPENDED_CONDITION, ""]);
    let all_ready = are_all_pods_ready(cluster);
    if suspended {
        put(
            PROVISIONED_CONDITION,
            "False",
            ["RayClusterPodsProvisioning", "RayCluster has been suspended"],
        );
    } else if all_ready {
        let message = "All Ray Pods are ready for the first time";
        put(PROVISIONED_CONDITION, "True", ["AllPodRunningAndReadyFirstTime", message]);
    } else if condition(cluster.object, PROVISIONED_CONDITION) != Some("True") {
        let message = "RayCluster Pods are being provisioned for first time";
        put(PROVISIONED_CONDITION, "False", ["RayClusterPodsProvisioning", message]);
    }
    if suspended || all_ready {
        let state = if suspended { "suspended" } else { "ready" };
        set(&mut seen, &["status", "state"], json!(state));
    }
    ApiRequest::status_update(cluster.key, cluster.object, seen)
}

/// Whether the head and all workers run and are ready.
fn are_all_pods_ready(cluster: &RayClusterState) -> bool {
    let groups = list(cluster.object, &["spec", "workerGroupSpecs"]).iter();
    let desired: i64 = groups.map(desired_workers).sum();
    api_count(&cluster.pods) == desired + 1 && cluster.pods.iter().all(|(_, pod)| is_ready(pod))
}

fn write_counts(cluster: &RayClusterState, updated: &mut Value) {
    let groups = list(cluster.object, &["spec", "workerGroupSpecs"]);
    let sum = |count: &dyn Fn(&Value) -> i64| groups.iter().map(count).sum::<i64>();
    let hosts = |group: &Value| clamped_count_at(group, &["numOfHosts"], 1);
    let workers = || cluster.pods.iter().filter(|(_, pod)| is_worker(pod));
    let running = workers().filter(|(_, pod)| text(pod, &["status", "phase"]) == "Running");
    let unlimited = i64::from(i32::MAX);
    let most = |group: &Value| number(group, &["maxReplicas"]).unwrap_or(unlimited);
    let most = sum(&|group| most(group).saturating_mul(hosts(group)).min(unlimited));
    let counts = [
        ("desiredWorkerReplicas", sum(&desired_workers)),
        ("availableWorkerReplicas", api_count(running)),
        ("readyWorkerReplicas", api_count(workers().filter(|(_, pod)| is_ready(pod)))),
        (
            "minWorkerReplicas",
            sum(&|group| clamped_count_at(group, &["minReplicas"], 0) * hosts(group)),
        ),
        ("maxWorkerReplicas", most.min(unlimited)),
        ("observedGeneration", number(cluster.object, &["metadata", "generation"]).unwrap_or(0)),
    ];
    for (field, count) in counts {
        set(updated, &["status", field], json!(count));
    }
}
