//! Regroups pods when a Karta of their kind is created, changed or deleted. KAI regroups a pod only
//! when the pod itself changes.

use schedlab_api::Value;
use schedlab_scheduler_core::model::Name;

use super::warnings::Warning;
use crate::{
    api::{ApiClient, ApiError, object_path},
    apply::InvolvedObject,
    cache::{ClusterCache, PodGroupRecord},
    karta::{self, KartaChanges},
    parse::Malformed,
    records::{ObjectKey, PodRecord},
};

/// Kartas and kinds that changed since the last successful grouping; after a start, all of them.
#[derive(Debug)]
pub(super) struct PendingKartaChanges(KartaChanges);

impl PendingKartaChanges {
    pub(super) fn from_cache(cache: &ClusterCache) -> Self {
        Self(cache.kartas.changes_so_far().clone())
    }

    /// Whether no kind has a changed Karta.
    pub(super) fn is_empty(&self) -> bool {
        self.0.kinds.is_empty()
    }

    /// Warnings about changed Kartas that are invalid and therefore ignored.
    pub(super) fn warnings(&self, cache: &ClusterCache) -> Vec<Warning> {
        let wrong = cache.kartas.invalid_kartas(&self.0);
        let warning = |(name, uid, wrong): (&Name, &Name, Malformed)| {
            let key = ObjectKey { namespace: "".into(), name: Name::clone(name) };
            let uid = Name::clone(uid);
            let about = InvolvedObject { api_version: karta::API_VERSION, kind: "Karta", key, uid };
            (about, format!("{wrong}; until this is fixed it groups no pods"))
        };
        wrong.map(warning).collect()
    }

    /// Pods whose group may change.
    pub(super) fn affected_pods(&self, cache: &ClusterCache) -> Vec<(ObjectKey, PodRecord)> {
        if self.is_empty() {
            return Vec::new();
        }
        let groups = cache.groups.iter().filter(|(key, group)| self.is_about(key, group));
        let pods = groups.flat_map(|(key, _)| cache.pods_of_group(key));
        let pods =
            pods.filter(|(_, pod)| pod.is_ours && pod.owner.is_some() && pod.may_be_grouped());
        pods.map(|(key, pod)| (key, pod.clone())).collect()
    }

    /// Whether the group belongs to an owner of a changed kind, and has a name that the grouper
    /// generates.
    fn is_about(&self, key: &ObjectKey, group: &PodGroupRecord) -> bool {
        let Some(owner) = &group.owner else { return false };
        let described = (Name::clone(&owner.api_version), Name::clone(&owner.kind));
        let is_ours = key.name.starts_with("pg-") && key.name.contains(&*owner.uid);
        is_ours && self.0.kinds.contains(&described)
    }
}

/// Fetches the complete pod, as the cache holds only the fields that decisions need. `None`: the
/// pod does not exist.
pub(super) async fn fetch_pod(
    api: &ApiClient,
    pod: &ObjectKey,
) -> Result<Option<Result<Value, Malformed>>, ApiError> {
    match api.get(&object_path("v1", &pod.namespace, "pods", &pod.name)).await {
        Ok(object) => Ok(Some(Ok(object))),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(ApiError::Refused(why)) => {
            let allowed = "a pod that the pod grouper may read";
            Ok(Some(Err(Malformed::new(format!("pod {}", pod.name), why, allowed))))
        }
        Err(error) => Err(error),
    }
}
