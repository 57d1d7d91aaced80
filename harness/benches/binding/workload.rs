//! What is submitted in one measured run.

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use schedlab_api::{Value, json};
use schedlab_clusters::api::{Api, to_anyhow_error};

use crate::deletion::delete_now;

/// Number of concurrent requests while objects are created.
const CONCURRENT_REQUESTS: usize = 8;

/// Pods, and the PodGroups of Kubernetes to which they belong.
pub(crate) struct Workload {
    /// The namespace of the objects, which is created with them.
    pub(crate) namespace: String,
    /// PodGroups; none if the pods have none.
    pub(crate) pod_groups: Vec<Value>,
    /// Pods without scheduler name.
    pub(crate) pods: Vec<Value>,
}

impl Workload {
    /// Creates the namespace with its objects, for a scheduler.
    pub(crate) async fn submit(&self, api: &Api, scheduler: &str) -> anyhow::Result<()> {
        let namespace = &self.namespace;
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
        });
        create_objects(api, "/api/v1/namespaces", [object]).await?;
        let groups = format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups");
        create_objects(api, &groups, self.pod_groups.iter().cloned()).await?;
        let pods = self.pods.iter().cloned().map(|mut pod| {
            pod["spec"]["schedulerName"] = json!(scheduler);
            pod
        });
        create_objects(api, &format!("/api/v1/namespaces/{namespace}/pods"), pods).await
    }

    /// Deletes the objects, and those that schedulers created for them.
    pub(crate) async fn delete(&self, api: &Api) -> anyhow::Result<()> {
        let namespace = &self.namespace;
        let upstream = format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups");
        let collections = [
            format!("/api/v1/namespaces/{namespace}/pods"),
            format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"),
            format!("/api/v1/namespaces/{namespace}/events"),
            format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
        ];
        let upstream = Some(upstream).filter(|_| !self.pod_groups.is_empty());
        for collection in collections.into_iter().chain(upstream) {
            delete_collection(api, &collection).await?;
        }
        Ok(())
    }
}

/// Deletes the objects of one collection, in as many requests as that takes.
async fn delete_collection(api: &Api, collection: &str) -> anyhow::Result<()> {
    while let Err(error) = delete_now(api, collection).await {
        if !is_timeout(&error) {
            return Err(error);
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

/// Creates the objects of one collection.
pub(crate) async fn create_objects(
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
