//! Writes the PodGroup annotation and the sub-group label of pods.

use schedlab_api::{Value, annotations, json, labels};
use schedlab_scheduler_core::model::Name;

use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    cache::ClusterCache,
    concurrency::WriteLimiter,
    records::{ObjectKey, PodMark},
    watch::Kind,
};

/// Annotates all pods whose group is known here but not yet written to the API.
pub(crate) async fn mark_pods(
    api: &ApiClient,
    cache: &mut ClusterCache,
    limiter: &mut WriteLimiter,
) -> Result<(), ApiError> {
    let lacking = cache.pods.marked_records(PodMark::GroupAnnotation);
    let marks = lacking.filter_map(|(key, pod)| {
        Some(mark_pod(api, key, pod.group.as_ref()?, &SubGroupLabel::Keep))
    });
    write_marks(marks.collect(), cache, limiter).await
}

/// How to change the sub-group label of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SubGroupLabel {
    /// The label stays as it is.
    Keep,
    /// The label is removed: the pod is in no sub-group.
    Remove,
    /// The label is set to this sub-group.
    Set(Name),
}

/// Patches group annotation and sub-group label of a pod.
pub(super) fn mark_pod<'a>(
    api: &'a ApiClient,
    pod: &ObjectKey,
    group: &Name,
    label: &SubGroupLabel,
) -> impl Future<Output = Result<Value, ApiError>> + use<'a> {
    let mut change =
        json!({ "metadata": { "annotations": { (annotations::POD_GROUP_NAME): &**group } } });
    match label {
        SubGroupLabel::Keep => {}
        SubGroupLabel::Remove => {
            change["metadata"]["labels"] = json!({ (labels::SUB_GROUP): null });
        }
        SubGroupLabel::Set(part) => {
            change["metadata"]["labels"] = json!({ (labels::SUB_GROUP): &**part });
        }
    }
    let path = object_path("v1", &pod.namespace, "pods", &pod.name);
    async move { api.patch(&path, PatchKind::Merge, &change).await }
}

pub(super) async fn write_marks(
    marks: Vec<impl Future<Output = Result<Value, ApiError>>>,
    cache: &mut ClusterCache,
    limiter: &mut WriteLimiter,
) -> Result<(), ApiError> {
    let mut result = Ok(());
    let take = |marked| match marked {
        Ok(pod) => cache.upsert(Kind::Pod, &pod),
        // The pod was deleted; a watch event will follow.
        Err(ApiError::NotFound(_)) => {}
        Err(error) => result = Err(error),
    };
    limiter.run_all(marks, take).await;
    result
}
