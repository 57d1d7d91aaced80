//! Binds the volumes of a pod before the pod, for schedulers that leave that to the binder, like
//! KAI's: claims with `WaitForFirstConsumer` get an existing volume reserved, or the annotation
//! that selects the node for provisioning. This project's scheduler binds volumes before it writes
//! the BindRequest.

use schedlab_api::Value;
use schedlab_scheduler_core::{
    model::{Name, VolumeAccess, VolumeProblem},
    plugins::assign_volumes,
};
use serde::de::IgnoredAny;

use super::{bind_request::BindRequest, error::BindError};
use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    apply::volumes::claim_binding_patch,
    cache::ClusterCache,
    parse::{list, text},
    records::{ObjectKey, PodVolumeClaim},
    watch::{Kind, StorageKind, Watched as _},
};

/// Reserves or provisions volumes for the unbound claims of a pod. Returns [`BindError::Waiting`]
/// until the claims are bound.
pub(super) async fn bind_volumes(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
    pod: &Value,
    node: &Value,
) -> Result<(), BindError> {
    let claims = PodVolumeClaim::from_pod(pod);
    if claims.is_empty() {
        return Ok(());
    }
    let mut cache = ClusterCache::new(text(pod, "/spec/schedulerName").unwrap_or_default());
    cache.upsert(Kind::Pod, pod);
    let all = object_path("v1", &key.namespace, "persistentvolumeclaims", "");
    for claim in &claims {
        let known = api.get(&format!("{all}?fieldSelector=metadata.name={}", claim.claim)).await?;
        upsert_storage_list(&mut cache, StorageKind::Claim, &known);
    }
    let unbound = cache.volumes.unbound_claims(key, &cache.pods);
    if unbound.is_empty() {
        return Ok(());
    }
    cache.upsert(Kind::Node, node);
    for kind in [StorageKind::Volume, StorageKind::Class] {
        upsert_storage_list(&mut cache, kind, &api.get(&Kind::Storage(kind).path()).await?);
    }
    reserve_volumes(api, &cache, key, &request.node).await?;
    let unbound: Vec<&str> = unbound.iter().map(|claim| &*claim.name).collect();
    Err(BindError::Waiting(format!(
        "waiting for persistentvolumeclaims to be bound: {}",
        unbound.join(", ")
    )))
}

fn upsert_storage_list(cache: &mut ClusterCache, kind: StorageKind, all: &Value) {
    for object in list(all, "/items") {
        cache.upsert(Kind::Storage(kind), object);
    }
}

/// Reserves a matching volume for each claim, or requests provisioning on the node.
async fn reserve_volumes(
    api: &ApiClient,
    cache: &ClusterCache,
    key: &ObjectKey,
    node: &Name,
) -> Result<(), BindError> {
    let (Some(pod), Some(record)) = (cache.pods.get(key), cache.nodes.get(node)) else {
        return Err(BindError::Failed(format!("node {node} or pod {key} cannot be read")));
    };
    let claims = cache.volumes.claims_of_pod(key, pod);
    let chosen = assign_volumes([(&*claims, &record.node)].into_iter());
    for claim in &claims {
        match &claim.access {
            VolumeAccess::Unavailable(
                VolumeProblem::UnboundImmediate | VolumeProblem::NotCreated,
            )
            | VolumeAccess::Bound(_) => continue,
            VolumeAccess::Unavailable(problem) => {
                return Err(BindError::Failed(problem.message(&claim.name)));
            }
            VolumeAccess::WaitForFirstConsumer { .. } => {}
        }
        if !chosen.contains_key(&claim.name) {
            let why = format!("node {node} has no volume for persistentvolumeclaim {}", claim.name);
            return Err(BindError::Failed(why));
        }
        let change = ObjectKey::parse(&claim.name)
            .and_then(|claim| claim_binding_patch(&cache.volumes, &claim, node, &chosen));
        let Some(change) = change else { continue };
        match api.patch(&change.path, PatchKind::Merge, &change.patch).await {
            // Another writer may have bound it; the next attempt reads it again.
            Ok(IgnoredAny) | Err(ApiError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
