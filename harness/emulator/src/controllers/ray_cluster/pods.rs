//! The pods of a RayCluster: `<cluster>-head` and `<cluster>-<group>-worker-<random>`.

use super::{COMPONENT, RayClusterState};
use crate::controllers::workload::{
    NEW_PODS_MAX, clamped_count_at, create_pod, delete_pod, free_pod_names, pod_from_template,
    pod_with_generated_name, pods_to_delete, set_metadata_entries, to_usize,
};
use crate::reconcile::fields::flag_at;
use crate::reconcile::pod_status::is_finished;
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object};
use schedlab_api::{
    Value,
    object::{is_deleting, label, list, name, number, text},
};

const CLUSTER_LABEL: &str = "ray.io/cluster";
const NODE_TYPE_LABEL: &str = "ray.io/node-type";
const GROUP_LABEL: &str = "ray.io/group";
/// The value of the group label on the head pod.
const HEAD_GROUP: &str = "headgroup";

/// The pods of the head.
pub(super) fn head_pods<'v>(cluster: &RayClusterState<'v>) -> Vec<(&'v Key, &'v Object)> {
    pods_of_group(cluster, HEAD_GROUP)
}

/// Whether a pod is a worker.
pub(super) fn is_worker(pod: &Value) -> bool {
    label(pod, NODE_TYPE_LABEL) == Some("worker")
}

/// The desired number of worker pods of a group: `replicas` within `minReplicas` and `maxReplicas`,
/// times `numOfHosts`.
pub(super) fn desired_workers(group: &Value) -> i64 {
    if flag_at(group, &["suspend"]) {
        return 0;
    }
    let least = clamped_count_at(group, &["minReplicas"], 0);
    let most = clamped_count_at(group, &["maxReplicas"], i64::MAX).max(least);
    let replicas = number(group, &["replicas"]).unwrap_or(least).clamp(least, most);
    replicas.saturating_mul(clamped_count_at(group, &["numOfHosts"], 1).max(1))
}

fn pods_of_group<'v>(cluster: &RayClusterState<'v>, group: &str) -> Vec<(&'v Key, &'v Object)> {
    let mut pods = cluster.pods.clone();
    pods.retain(|(_, pod)| label(pod, GROUP_LABEL) == Some(group));
    pods
}

/// Creates missing pods; deletes finished pods, the pods that `workersToDelete` names, and surplus
/// ones.
pub(super) fn sync_pods(cluster: &RayClusterState, ctx: &Context) -> Vec<ApiRequest> {
    let owner = cluster.object;
    let finished = cluster.pods.iter().filter(|(_, pod)| is_finished(pod) && !is_deleting(pod));
    let replaced: Vec<ApiRequest> =
        finished.flat_map(|(key, pod)| delete_pod(key, pod, owner, COMPONENT, ctx)).collect();
    if !replaced.is_empty() {
        return replaced;
    }
    let mut writes = Vec::new();
    if head_pods(cluster).is_empty() {
        writes.extend(create_pod(new_head_pod(owner), owner, COMPONENT, ctx));
    }
    for group in list(owner, &["spec", "workerGroupSpecs"]) {
        writes.extend(sync_group(cluster, group, ctx));
    }
    writes
}

fn sync_group(cluster: &RayClusterState, group: &Value, ctx: &Context) -> Vec<ApiRequest> {
    let owner = cluster.object;
    let named = list(group, &["scaleStrategy", "workersToDelete"]);
    let is_named = |pod: &Value| named.iter().any(|one| one.as_str() == Some(name(pod)));
    let (leaving, staying): (Vec<_>, Vec<_>) = pods_of_group(cluster, text(group, &["groupName"]))
        .into_iter()
        .partition(|(_, pod)| is_named(pod));
    let delete = |(key, pod): (&Key, &Object)| delete_pod(key, pod, owner, COMPONENT, ctx);
    let mut writes: Vec<ApiRequest> =
        leaving.into_iter().filter(|(_, pod)| !is_deleting(pod)).flat_map(delete).collect();
    let desired = to_usize(desired_workers(group));
    if staying.len() < desired {
        let missing = (desired - staying.len()).min(NEW_PODS_MAX);
        let made = new_worker_pods(owner, group, missing, ctx);
        writes.extend(made.into_iter().flat_map(|pod| create_pod(pod, owner, COMPONENT, ctx)));
    } else if !flag_at(owner, &["spec", "enableInTreeAutoscaling"]) || flag_at(group, &["suspend"])
    {
        let live: Vec<_> = staying.into_iter().filter(|(_, pod)| !is_deleting(pod)).collect();
        let surplus = live.len().saturating_sub(desired);
        writes.extend(pods_to_delete(live, surplus).into_iter().flat_map(delete));
    }
    writes
}

fn new_head_pod(cluster: &Value) -> Value {
    let template = &cluster["spec"]["headGroupSpec"]["template"];
    let mut pod = pod_from_template(template, cluster, &format!("{}-head", name(cluster)));
    set_ray_labels(&mut pod, cluster, ["head", HEAD_GROUP]);
    pod
}

fn new_worker_pods(cluster: &Value, group: &Value, count: usize, ctx: &Context) -> Vec<Value> {
    let group_name = text(group, &["groupName"]);
    let prefix = format!("{}-{group_name}-worker-", name(cluster));
    let names = free_pod_names(cluster, &prefix, count, ctx);
    let made = names.iter().map(|name| {
        let mut pod = pod_with_generated_name(&group["template"], cluster, [&prefix, name]);
        set_ray_labels(&mut pod, cluster, ["worker", group_name]);
        pod
    });
    made.collect()
}

/// Sets the labels of a Ray pod: cluster, node type and group.
fn set_ray_labels(pod: &mut Value, cluster: &Value, [node_type, group]: [&str; 2]) {
    let identifier = format!("{}-{node_type}", name(cluster));
    let marks = [
        ("ray.io/is-ray-node", "yes"),
        (CLUSTER_LABEL, name(cluster)),
        (NODE_TYPE_LABEL, node_type),
        (GROUP_LABEL, group),
        ("ray.io/identifier", &*identifier),
        ("app.kubernetes.io/name", "kuberay"),
        ("app.kubernetes.io/created-by", "kuberay-operator"),
    ];
    set_metadata_entries(pod, "labels", &marks);
}
