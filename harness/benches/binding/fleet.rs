//! Nodes, queues and pods of the benchmark.

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use schedlab_api::{Value, crds, json};
use schedlab_clusters::api::{Api, to_anyhow_error};
use schedlab_control_plane::TemporaryControlPlane;

use crate::{NODES, PODS, deletion::delete_now};

/// Number of concurrent requests while objects are created.
const CONCURRENT_REQUESTS: usize = 8;
const QUEUES: usize = 4;

/// Creates the CRDs and priority classes of our scheduler, 500 nodes, and a tree of queues that
/// share the nodes' GPUs.
pub(crate) async fn install_fleet(plane: &TemporaryControlPlane) -> anyhow::Result<()> {
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
    let leaves =
        (0..QUEUES).map(|at| queue_object(&format!("team-{at}"), Some("all"), NODES * 8 / QUEUES));
    create_objects(&api, queues, [queue_object("all", None, NODES * 8)].into_iter().chain(leaves))
        .await?;
    create_objects(&api, "/api/v1/nodes", (0..NODES).map(node_object)).await
}

/// Creates a namespace with pending pods of a scheduler.
pub(crate) async fn submit_pods(api: &Api, namespace: &str, scheduler: &str) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
    });
    create_objects(api, "/api/v1/namespaces", [object]).await?;
    let pods = (0..PODS).map(|at| pod_object(at, scheduler));
    create_objects(api, &format!("/api/v1/namespaces/{namespace}/pods"), pods).await
}

/// Deletes the objects of one measured run.
pub(crate) async fn delete_objects(api: &Api, namespace: &str) -> anyhow::Result<()> {
    let collections = [
        format!("/api/v1/namespaces/{namespace}/pods"),
        format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"),
        format!("/api/v1/namespaces/{namespace}/events"),
        format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
    ];
    for collection in collections {
        while let Err(error) = delete_now(api, &collection).await {
            if !is_timeout(&error) {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Whether a deletion timed out: a busy API server may not delete a large collection within its
/// timeout of one minute. Objects that it has deleted until then are gone.
fn is_timeout(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<kube::Error>();
    matches!(error, Some(kube::Error::Api(status)) if status.code == 504)
}

async fn create_objects(
    api: &Api,
    path: &str,
    objects: impl IntoIterator<Item = Value>,
) -> anyhow::Result<()> {
    let posts = objects.into_iter().map(|object| async move {
        let response = api.post(path, &object).await;
        response.map(drop).map_err(to_anyhow_error).with_context(|| path.to_owned())
    });
    stream::iter(posts).buffer_unordered(CONCURRENT_REQUESTS).try_collect().await
}

fn node_object(index: usize) -> Value {
    let name = format!("gpu-{index:03}");
    let capacity = json!({
        "cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
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

fn pod_object(index: usize, scheduler: &str) -> Value {
    let requests = json!({ "cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "1" });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("pod-{index:04}"),
            "labels": { "kai.scheduler/queue": format!("team-{}", index % QUEUES) },
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{
                "name": "main", "image": "registry.example/train:1",
                "resources": { "requests": requests, "limits": { "nvidia.com/gpu": "1" } },
            }],
        },
    })
}
