//! Pods are marked with their groups, and with their places in them.

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::Name;

use crate::{
    api::{Api, ApiError, Merge, path},
    mirror::{Key, Mirror, SUB_GROUP_LABEL},
    pacing::Pacing,
    watch::Kind,
};

/// Marks the pods that wait with their groups.
pub(crate) async fn mark(
    api: &Api,
    mirror: &mut Mirror,
    pacing: &mut Pacing,
) -> Result<(), ApiError> {
    let lacking = mirror.pods.iter().filter(|(_, pod)| pod.lacks_mark());
    let marks = lacking
        .filter_map(|(key, pod)| Some(mark_one(api, key, (pod.group.as_ref()?, &Part::Whole))));
    write_marks(marks.collect(), mirror, pacing).await
}

/// Where a pod stands in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The group has no sub-groups, and the pod names none.
    Whole,
    /// In no sub-group, whichever it names.
    None,
    /// In this sub-group.
    In(Name),
}

/// Marks a pod with its group, and with its place in it.
pub(super) fn mark_one<'a>(
    api: &'a Api,
    pod: &Key,
    (group, part): (&Name, &Part),
) -> impl Future<Output = Result<Value, ApiError>> + use<'a> {
    let mut change = json!({ "metadata": { "annotations": { "pod-group-name": &**group } } });
    match part {
        Part::Whole => {}
        Part::None => change["metadata"]["labels"] = json!({ SUB_GROUP_LABEL: null }),
        Part::In(part) => change["metadata"]["labels"] = json!({ SUB_GROUP_LABEL: &**part }),
    }
    let path = path("v1", &pod.namespace, "pods", &pod.name);
    async move { api.patch(&path, Merge::Plain, &change).await }
}

pub(super) async fn write_marks(
    marks: Vec<impl Future<Output = Result<Value, ApiError>>>,
    mirror: &mut Mirror,
    pacing: &mut Pacing,
) -> Result<(), ApiError> {
    let mut ended = Ok(());
    let take = |marked| match marked {
        Ok(pod) => mirror.upsert(Kind::Pod, &pod),
        // It is gone; the watch will tell.
        Err(ApiError::NotFound(_)) => {}
        Err(error) => ended = Err(error),
    };
    pacing.all(marks, take).await;
    ended
}
