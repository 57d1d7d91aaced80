//! Devices for resource claims, where a scheduler leaves them to the binder, as KAI's does: which
//! they are stands in the request; the binder writes them to the claims, reserves those for the
//! pod before it is bound, and takes that back where the pod is not bound.

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::Name;
use serde::de::IgnoredAny;

use super::{order::Order, refusal::Refusal};
use crate::{
    api::{Api, ApiError, Merge, path},
    apply::claims::{FINALIZER, claim_path, protection, status_of, unused, user},
    mirror::{Allocation, ClaimRecord, Key, PodClaim},
    parse::{annotated, at, list, name, text, uid},
};

const VERSION: &str = "resource.k8s.io/v1";

/// Marks a claim that stands for what containers ask for as extended resources.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

/// A claim that somebody else writes at the same time is looked at so often.
const TRIES: u32 = 5;

/// What is to be written to one claim.
struct Wanted<'a> {
    claim: Key,
    /// `AllocationResult`.
    allocation: &'a Value,
    pod: &'a Value,
}

/// Gives the pod's claims the devices that the request names.
pub(super) async fn reserve(
    api: &Api,
    (key, order): (&Key, &Order),
    pod: &Value,
) -> Result<(), Refusal> {
    for asked in &order.claims {
        let claim = named(pod, asked).map_err(Refusal::Failed)?;
        let wanted = Wanted { claim: of(key, &claim), allocation: &asked["allocation"], pod };
        allocate(api, &wanted).await?;
    }
    let Some(asked) = &order.extended else { return Ok(()) };
    let claim = match extended_claim(api, key, pod).await? {
        Some(claim) => claim,
        None => make(api, key, pod, &asked["deviceRequests"]).await?,
    };
    let wanted = Wanted { claim: of(key, &claim), allocation: &asked["allocation"], pod };
    allocate(api, &wanted).await?;
    let told = json!({
        "resourceClaimName": &*claim,
        "requestMappings": asked["containerMappings"],
    });
    let pod = tell_pod(api, key, &told).await?;
    if at(&pod, "/status/extendedResourceClaimStatus").is_none() {
        let why = "the API server keeps no status.extendedResourceClaimStatus of pods: \
                   its feature DRAExtendedResource is off";
        return Err(Refusal::Failed(why.to_owned()));
    }
    Ok(())
}

/// Takes back what the request gave a pod that is not bound. What cannot be taken back is tried
/// again with the next attempt, and goes with the pod.
pub(super) async fn release(api: &Api, (key, order): (&Key, &Order)) -> Result<(), ApiError> {
    let pod = api.get(&path("v1", &key.namespace, "pods", &key.name)).await?;
    if at(&pod, "/spec/nodeName").is_some() {
        return Ok(());
    }
    for asked in &order.claims {
        if let Ok(claim) = named(&pod, asked) {
            let wanted =
                Wanted { claim: of(key, &claim), allocation: &asked["allocation"], pod: &pod };
            free(api, &wanted).await?;
        }
    }
    let Some(asked) = &order.extended else { return Ok(()) };
    let Some(claim) = extended_claim(api, key, &pod).await? else { return Ok(()) };
    let wanted = Wanted { claim: of(key, &claim), allocation: &asked["allocation"], pod: &pod };
    free(api, &wanted).await?;
    let claim_path = claim_path(&wanted.claim);
    let unprotected = json!({ "metadata": { "finalizers": null } });
    let IgnoredAny = api.patch(&claim_path, Merge::Plain, &unprotected).await?;
    api.delete(&claim_path, &json!({})).await?;
    tell_pod(api, key, &Value::Null).await?;
    Ok(())
}

/// The claim that the pod has by that name.
fn named(pod: &Value, asked: &Value) -> Result<Name, String> {
    let own = text(asked, "/name").unwrap_or_default();
    let claims = PodClaim::all(pod);
    let claim = claims
        .into_iter()
        .find(|claim| &*claim.name == own)
        .ok_or_else(|| format!("the pod has no resource claim {own}, which the request names"))?;
    claim.claim.ok_or_else(|| format!("the pod's resource claim {own} is not made yet"))
}

/// Writes the devices, if the claim has none, and that the pod uses them.
async fn allocate(api: &Api, wanted: &Wanted<'_>) -> Result<(), Refusal> {
    let refused = again(|| try_to_allocate(api, wanted)).await?;
    refused
        .map_or(Ok(()), |why| Err(Refusal::Failed(format!("ResourceClaim {} {why}", wanted.claim))))
}

/// Answers what is in the way.
async fn try_to_allocate(api: &Api, wanted: &Wanted<'_>) -> Result<Option<&'static str>, ApiError> {
    let (path, uid) = (claim_path(&wanted.claim), uid(wanted.pod));
    let object = api.get(&path).await?;
    let claim = ClaimRecord::read(&object);
    if claim.is_of_another(&uid) {
        return Ok(Some("is another pod's"));
    }
    if at(&object, "/metadata/deletionTimestamp").is_some() {
        return Ok(Some("is being deleted"));
    }
    let asked = Allocation::read(wanted.allocation);
    if claim.allocation.as_ref().is_some_and(|has| !has.is_of_those_of(&asked)) {
        return Ok(Some("has other devices than those that the request names"));
    }
    let is_reserved = claim.reserved.iter().any(|(_, user)| *user == uid);
    if is_reserved && claim.allocation.is_some() {
        return Ok(None);
    }
    let mut version = claim.version;
    if let Some(change) = protection(&claim) {
        version = api.patch_metadata(&path, Merge::Plain, &change).await?.version();
    }
    let mut users = list(&object, "/status/reservedFor").to_vec();
    if !is_reserved {
        let pod = name(wanted.pod, "/metadata/name").unwrap_or_else(|| "".into());
        users.push(user(&pod, &uid));
    }
    let mut status = json!({ "reservedFor": users });
    if claim.allocation.is_none() {
        status["allocation"] = wanted.allocation.clone();
    }
    write(api, (&path, version), &status).await?;
    Ok(None)
}

/// Takes the pod from those who use the claim, and its devices, if nobody is left and they are
/// those of the request.
async fn free(api: &Api, wanted: &Wanted<'_>) -> Result<(), ApiError> {
    again(|| try_to_free(api, wanted)).await
}

/// Tries again where somebody else wrote at the same time.
async fn again<T, F>(attempt: impl Fn() -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ApiError>>,
{
    for _ in 1..TRIES {
        match attempt().await {
            Err(ApiError::Conflict(_)) => {}
            ended => return ended,
        }
    }
    attempt().await
}

async fn try_to_free(api: &Api, wanted: &Wanted<'_>) -> Result<(), ApiError> {
    let (path, uid) = (claim_path(&wanted.claim), uid(wanted.pod));
    let object = api.get(&path).await?;
    let claim = ClaimRecord::read(&object);
    if !claim.reserved.iter().any(|(_, user)| *user == uid) {
        return Ok(());
    }
    let mut users = list(&object, "/status/reservedFor").to_vec();
    users.retain(|user| text(user, "/uid") != Some(&*uid));
    let asked = Allocation::read(wanted.allocation);
    let is_ours = claim.allocation.is_some_and(|has| has.is_of_those_of(&asked));
    let status =
        if users.is_empty() && is_ours { unused() } else { json!({ "reservedFor": users }) };
    write(api, (&path, claim.version), &status).await
}

async fn write(api: &Api, (path, version): (&str, u64), status: &Value) -> Result<(), ApiError> {
    let change = status_of(version, status);
    let IgnoredAny = api.patch(&format!("{path}/status"), Merge::Plain, &change).await?;
    Ok(())
}

/// The claim that stands for the pod's extended resources, if one was made.
async fn extended_claim(api: &Api, key: &Key, pod: &Value) -> Result<Option<Name>, ApiError> {
    let all = api.get(&path(VERSION, &key.namespace, "resourceclaims", "")).await?;
    let uid = uid(pod);
    let mut all = list(&all, "/items").iter();
    let its = all.find(|claim| {
        annotated(claim, EXTENDED) == Some("true") && ClaimRecord::read(claim).is_own_of(&uid)
    });
    Ok(its.and_then(|claim| name(claim, "/metadata/name")))
}

async fn make(api: &Api, key: &Key, pod: &Value, requests: &Value) -> Result<Name, Refusal> {
    let claim = json!({
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": format!("{}-extended-resources-", key.name),
            "namespace": &*key.namespace,
            "annotations": { EXTENDED: "true" },
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": &*key.name, "uid": &*uid(pod),
                "controller": true,
            }],
        },
        "spec": { "devices": { "requests": requests } },
    });
    let collection = path(VERSION, &key.namespace, "resourceclaims", "");
    let made: Value = api.create(&collection, &claim).await?;
    let nameless = || Refusal::Failed("the API server made a ResourceClaim without a name".into());
    name(&made, "/metadata/name").ok_or_else(nameless)
}

/// Which claim stands for its extended resources.
async fn tell_pod(api: &Api, key: &Key, told: &Value) -> Result<Value, ApiError> {
    let path = format!("{}/status", path("v1", &key.namespace, "pods", &key.name));
    let change = json!({ "status": { "extendedResourceClaimStatus": told } });
    api.patch(&path, Merge::Plain, &change).await
}

fn of(pod: &Key, claim: &Name) -> Key {
    Key { namespace: Name::clone(&pod.namespace), name: Name::clone(claim) }
}
