//! Nodes, queues and pods of the race.

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use schedlab::api::{Api, api_error};
use schedlab_control_plane::TemporaryControlPlane;
use schedlab_json::{Value, json};
use schedlab_scheduler::crds;

use crate::{NODES, PODS, wipe::wipe};

/// Requests in flight while objects are made.
const AT_ONCE: usize = 8;
const QUEUES: usize = 4;

/// What the scheduler under test needs, 500 nodes, and a tree of queues that share them.
pub(crate) async fn install(plane: &TemporaryControlPlane) -> anyhow::Result<()> {
    let api = Api::new(plane.client().await?);
    let definitions = crds::all().into_iter();
    make(&api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions).await?;
    let classes = crds::priority_classes().into_iter();
    make(&api, "/apis/scheduling.k8s.io/v1/priorityclasses", classes).await?;
    let queues = "/apis/scheduling.run.ai/v2/queues";
    while api.get(queues).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let leaves =
        (0..QUEUES).map(|at| queue(&format!("team-{at}"), Some("all"), NODES * 8 / QUEUES));
    make(&api, queues, [queue("all", None, NODES * 8)].into_iter().chain(leaves)).await?;
    make(&api, "/api/v1/nodes", (0..NODES).map(node)).await
}

/// Pods that wait for a scheduler.
pub(crate) async fn submit(api: &Api, namespace: &str, scheduler: &str) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
    });
    make(api, "/api/v1/namespaces", [object]).await?;
    let pods = (0..PODS).map(|at| pod(at, scheduler));
    make(api, &format!("/api/v1/namespaces/{namespace}/pods"), pods).await
}

/// Takes away what a race left.
pub(crate) async fn clear(api: &Api, namespace: &str) -> anyhow::Result<()> {
    let collections = [
        format!("/api/v1/namespaces/{namespace}/pods"),
        format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"),
        format!("/api/v1/namespaces/{namespace}/events"),
        format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
    ];
    for collection in collections {
        while let Err(error) = wipe(api, &collection).await {
            if !is_out_of_time(&error) {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// A busy API server does not get through a large collection within its minute. What it deleted
/// till then is gone.
fn is_out_of_time(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<kube::Error>();
    matches!(error, Some(kube::Error::Api(status)) if status.code == 504)
}

async fn make(
    api: &Api,
    path: &str,
    objects: impl IntoIterator<Item = Value>,
) -> anyhow::Result<()> {
    let posts = objects.into_iter().map(|object| async move {
        let made = api.post(path, &object).await;
        made.map(drop).map_err(api_error).with_context(|| path.to_owned())
    });
    stream::iter(posts).buffer_unordered(AT_ONCE).try_collect().await
}

fn node(at: usize) -> Value {
    let name = format!("gpu-{at:03}");
    let offers = json!({
        "cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": {
            "capacity": offers, "allocatable": offers,
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

fn queue(name: &str, parent: Option<&str>, gpus: usize) -> Value {
    let gpu = json!({ "quota": gpus, "limit": -1, "overQuotaWeight": 1 });
    let other = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": { "name": name },
        "spec": { "parentQueue": parent, "resources": { "gpu": gpu, "cpu": other, "memory": other } },
    })
}

fn pod(at: usize, scheduler: &str) -> Value {
    let asks = json!({ "cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "1" });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("pod-{at:04}"),
            "labels": { "kai.scheduler/queue": format!("team-{}", at % QUEUES) },
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{
                "name": "main", "image": "registry.example/train:1",
                "resources": { "requests": asks, "limits": { "nvidia.com/gpu": "1" } },
            }],
        },
    })
}
