//! Nodes, queues and pods of the benchmarks of bindings.

use schedlab_api::{Value, crds, json};
use schedlab_clusters::api::Api;
use schedlab_control_plane::TemporaryControlPlane;

use crate::workload::create_objects;

const QUEUES: usize = 4;
/// The label of a node's rack.
pub(crate) const RACK: &str = "example.com/rack";
const NODES_PER_RACK: usize = 20;

/// Creates the CRDs and priority classes of our scheduler, nodes with 8 GPUs each in racks of 20, and
/// a tree of queues that share the nodes' GPUs.
pub(crate) async fn install_fleet(
    plane: &TemporaryControlPlane,
    nodes: usize,
) -> anyhow::Result<()> {
    let api = Api::new(plane.client().await?);
    let definitions = crds::all_crds().into_iter();
    create_objects(&api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions)
        .await?;
    let classes = crds::priority_classes().into_iter();
    create_objects(&api, "/apis/scheduling.k8s.io/v1/priorityclasses", classes).await?;
    let queues = "/apis/scheduling.run.ai/v2/queues";
    while api.get(queues).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let leaves = (0..QUEUES).map(|at| queue_object(&queue_of(at), Some("all"), nodes * 8 / QUEUES));
    create_objects(&api, queues, [queue_object("all", None, nodes * 8)].into_iter().chain(leaves))
        .await?;
    create_objects(&api, "/api/v1/nodes", (0..nodes).map(node_object)).await
}

/// Name of the queue of a pod, or of a group of pods.
pub(crate) fn queue_of(index: usize) -> String {
    format!("team-{}", index % QUEUES)
}

fn node_object(index: usize) -> Value {
    let name = format!("gpu-{index:04}");
    let capacity = json!({
        "cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8",
    });
    let rack = format!("rack-{:03}", index / NODES_PER_RACK);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name, "labels": { "kubernetes.io/hostname": name, RACK: rack },
        },
        "status": {
            "capacity": capacity, "allocatable": capacity,
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

fn queue_object(name: &str, parent: Option<&str>, gpus: usize) -> Value {
    let gpu = json!({ "quota": gpus, "limit": -1, "overQuotaWeight": 1 });
    let other = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": { "name": name },
        "spec": { "parentQueue": parent, "resources": { "gpu": gpu, "cpu": other, "memory": other } },
    })
}

/// A pod that requests one GPU.
pub(crate) fn pod_object(name: &str, queue: &str) -> Value {
    let requests = json!({ "cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "1" });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "kai.scheduler/queue": queue } },
        "spec": {
            "containers": [{
                "name": "main", "image": "registry.example/train:1",
                "resources": { "requests": requests, "limits": { "nvidia.com/gpu": "1" } },
            }],
        },
    })
}
