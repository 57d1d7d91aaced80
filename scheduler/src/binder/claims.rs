//! Allocates resource claims of a pod from its BindRequest, for schedulers that leave that to the
//! binder, like KAI's. Allocation and reservation are written to the claims before the pod is
//! bound, and undone if it is not.

use schedlab_api::{Value, finalizers, json};
use schedlab_scheduler_core::model::Name;
use serde::de::IgnoredAny;

use super::{bind_request::BindRequest, error::BindError};
use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    dra::claim_patches::{
        claim_path, consumer_reference, finalizer_patch, released_status, status_patch_at_version,
    },
    dra::{ClaimAllocation, ClaimRecord},
    parse::{annotation, at, list, name, text, uid},
    records::{ObjectKey, PodResourceClaim},
};

const RESOURCE_API_VERSION: &str = "resource.k8s.io/v1";

/// Annotation of a claim that represents the extended resources of a pod.
const EXTENDED_CLAIM_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

/// Maximum number of tries per claim if concurrent writes conflict.
const CONFLICT_ATTEMPTS_MAX: u32 = 5;

/// A claim with the allocation to write, and its pod.
struct ClaimWrite<'a> {
    claim: ObjectKey,
    /// The `AllocationResult` to write.
    allocation: &'a Value,
    pod: &'a Value,
}

/// Allocates the pod's claims as the request defines, and reserves them for the pod.
pub(super) async fn reserve_claims(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
    pod: &Value,
) -> Result<(), BindError> {
    for allocation in &request.claims {
        let claim = claim_name(pod, allocation).map_err(BindError::Failed)?;
        let write = ClaimWrite {
            claim: claim_key(key, &claim),
            allocation: &allocation["allocation"],
            pod,
        };
        allocate_claim(api, &write).await?;
    }
    let Some(allocation) = &request.extended_claim else { return Ok(()) };
    let claim = match find_extended_claim(api, key, pod).await? {
        Some(claim) => claim,
        None => create_extended_claim(api, key, pod, &allocation["deviceRequests"]).await?,
    };
    let write =
        ClaimWrite { claim: claim_key(key, &claim), allocation: &allocation["allocation"], pod };
    allocate_claim(api, &write).await?;
    let status = json!({
        "resourceClaimName": &*claim,
        "requestMappings": allocation["containerMappings"],
    });
    let pod = write_extended_claim_status(api, key, &status).await?;
    if at(&pod, "/status/extendedResourceClaimStatus").is_none() {
        let why = "the API server dropped status.extendedResourceClaimStatus of the pod: \
                   its feature gate DRAExtendedResource is disabled";
        return Err(BindError::Failed(why.to_owned()));
    }
    Ok(())
}

/// Undoes [`reserve_claims`] for a pod that is not bound. What remains after an error is handled by
/// the next attempt, or deleted with the pod.
pub(super) async fn release_claims(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
) -> Result<(), ApiError> {
    let pod = api.get(&object_path("v1", &key.namespace, "pods", &key.name)).await?;
    if at(&pod, "/spec/nodeName").is_some() {
        return Ok(());
    }
    for allocation in &request.claims {
        if let Ok(claim) = claim_name(&pod, allocation) {
            let write = ClaimWrite {
                claim: claim_key(key, &claim),
                allocation: &allocation["allocation"],
                pod: &pod,
            };
            deallocate_claim(api, &write).await?;
        }
    }
    let Some(allocation) = &request.extended_claim else { return Ok(()) };
    let Some(claim) = find_extended_claim(api, key, &pod).await? else { return Ok(()) };
    let write = ClaimWrite {
        claim: claim_key(key, &claim),
        allocation: &allocation["allocation"],
        pod: &pod,
    };
    deallocate_claim(api, &write).await?;
    let claim_path = claim_path(&write.claim);
    let unprotected = json!({ "metadata": { "finalizers": null } });
    let IgnoredAny = api.patch(&claim_path, PatchKind::Merge, &unprotected).await?;
    api.delete(&claim_path, &json!({})).await?;
    write_extended_claim_status(api, key, &Value::Null).await?;
    Ok(())
}

/// Name of the ResourceClaim object of a pod's claim that the request names.
fn claim_name(pod: &Value, requested: &Value) -> Result<Name, String> {
    let own = text(requested, "/name").unwrap_or_default();
    let claims = PodResourceClaim::from_pod(pod);
    let claim = claims
        .into_iter()
        .find(|claim| &*claim.name == own)
        .ok_or_else(|| format!("the pod has no resource claim {own}, which the request names"))?;
    claim.claim.ok_or_else(|| format!("the pod's resource claim {own} does not exist yet"))
}

/// Writes the allocation (if the claim has none) and the reservation for the pod.
async fn allocate_claim(api: &ApiClient, write: &ClaimWrite<'_>) -> Result<(), BindError> {
    let refused = retry_on_conflict(|| try_allocate(api, write)).await?;
    refused.map_or(Ok(()), |why| {
        Err(BindError::Failed(format!("ResourceClaim {} {why}", write.claim)))
    })
}

/// Allocates a claim once. Returns why the claim cannot be allocated; `None`: the claim is
/// allocated and reserved.
async fn try_allocate(
    api: &ApiClient,
    write: &ClaimWrite<'_>,
) -> Result<Option<&'static str>, ApiError> {
    let (path, uid) = (claim_path(&write.claim), uid(write.pod));
    let object = api.get(&path).await?;
    let claim = ClaimRecord::from_object(&object);
    if claim.is_owned_by_other(&uid) {
        return Ok(Some("belongs to another pod"));
    }
    if at(&object, "/metadata/deletionTimestamp").is_some() {
        return Ok(Some("is being deleted"));
    }
    let requested = ClaimAllocation::from_object(write.allocation);
    if claim.allocation.as_ref().is_some_and(|has| !has.has_same_devices(&requested)) {
        return Ok(Some("is already allocated with other devices than the BindRequest names"));
    }
    let is_reserved = claim.reserved_pods.iter().any(|(_, user)| *user == uid);
    if is_reserved && claim.allocation.is_some() {
        return Ok(None);
    }
    let mut version = claim.version;
    if let Some(change) = finalizer_patch(&claim) {
        version = api.patch_metadata(&path, PatchKind::Merge, &change).await?.version();
    }
    let mut users = list(&object, "/status/reservedFor").to_vec();
    if !is_reserved {
        let pod = name(write.pod, "/metadata/name").unwrap_or_else(|| "".into());
        users.push(consumer_reference(&pod, &uid));
    }
    let mut status = json!({ "reservedFor": users });
    if claim.allocation.is_none() {
        status["allocation"] = write.allocation.clone();
    }
    write_status(api, &path, version, &status).await?;
    Ok(None)
}

/// Removes the reservation of a claim for the pod. If that was the last reservation, also removes
/// the allocation that the request made.
async fn deallocate_claim(api: &ApiClient, write: &ClaimWrite<'_>) -> Result<(), ApiError> {
    retry_on_conflict(|| try_deallocate(api, write)).await
}

/// Repeats an attempt after conflicts, at most [`CONFLICT_ATTEMPTS_MAX`] times.
async fn retry_on_conflict<T, F>(attempt: impl Fn() -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ApiError>>,
{
    for _ in 1..CONFLICT_ATTEMPTS_MAX {
        match attempt().await {
            Err(ApiError::Conflict(_)) => {}
            ended => return ended,
        }
    }
    attempt().await
}

async fn try_deallocate(api: &ApiClient, write: &ClaimWrite<'_>) -> Result<(), ApiError> {
    let (path, uid) = (claim_path(&write.claim), uid(write.pod));
    let object = api.get(&path).await?;
    let claim = ClaimRecord::from_object(&object);
    if !claim.reserved_pods.iter().any(|(_, user)| *user == uid) {
        return Ok(());
    }
    let mut users = list(&object, "/status/reservedFor").to_vec();
    users.retain(|user| text(user, "/uid") != Some(&*uid));
    let requested = ClaimAllocation::from_object(write.allocation);
    let is_ours = claim.allocation.is_some_and(|has| has.has_same_devices(&requested));
    let status = if users.is_empty() && is_ours {
        released_status()
    } else {
        json!({ "reservedFor": users })
    };
    write_status(api, &path, claim.version, &status).await
}

async fn write_status(
    api: &ApiClient,
    path: &str,
    version: u64,
    status: &Value,
) -> Result<(), ApiError> {
    let change = status_patch_at_version(version, status);
    let IgnoredAny = api.patch(&format!("{path}/status"), PatchKind::Merge, &change).await?;
    Ok(())
}

/// Name of the claim that represents the pod's extended resources, if it exists.
async fn find_extended_claim(
    api: &ApiClient,
    key: &ObjectKey,
    pod: &Value,
) -> Result<Option<Name>, ApiError> {
    let all =
        api.get(&object_path(RESOURCE_API_VERSION, &key.namespace, "resourceclaims", "")).await?;
    let uid = uid(pod);
    let mut all = list(&all, "/items").iter();
    let its = all.find(|claim| {
        annotation(claim, EXTENDED_CLAIM_ANNOTATION) == Some("true")
            && ClaimRecord::from_object(claim).is_owned_by(&uid)
    });
    Ok(its.and_then(|claim| name(claim, "/metadata/name")))
}

async fn create_extended_claim(
    api: &ApiClient,
    key: &ObjectKey,
    pod: &Value,
    requests: &Value,
) -> Result<Name, BindError> {
    let claim = json!({
        "apiVersion": RESOURCE_API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": format!("{}-extended-resources-", key.name),
            "namespace": &*key.namespace,
            "annotations": { EXTENDED_CLAIM_ANNOTATION: "true" },
            "finalizers": [finalizers::DELETE_PROTECTION],
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": &*key.name, "uid": &*uid(pod),
                "controller": true,
            }],
        },
        "spec": { "devices": { "requests": requests } },
    });
    let collection = object_path(RESOURCE_API_VERSION, &key.namespace, "resourceclaims", "");
    let made: Value = api.create(&collection, &claim).await?;
    let nameless =
        || BindError::Failed("the API server created a ResourceClaim without a name".into());
    name(&made, "/metadata/name").ok_or_else(nameless)
}

/// Writes `status.extendedResourceClaimStatus` of the pod.
async fn write_extended_claim_status(
    api: &ApiClient,
    key: &ObjectKey,
    status: &Value,
) -> Result<Value, ApiError> {
    let path = format!("{}/status", object_path("v1", &key.namespace, "pods", &key.name));
    let change = json!({ "status": { "extendedResourceClaimStatus": status } });
    api.patch(&path, PatchKind::Merge, &change).await
}

fn claim_key(pod: &ObjectKey, claim: &Name) -> ObjectKey {
    ObjectKey { namespace: Name::clone(&pod.namespace), name: Name::clone(claim) }
}
