//! The volume claims of a StatefulSet's pods: one per claim template and ordinal. A recreated pod
//! uses the same claims again.

use super::{COMPONENT, StatefulSetState, ordinal_of_pod};
use crate::controllers::workload::controller_references;
use crate::reconcile::cache::owner_references;
use crate::reconcile::resources::VOLUME_CLAIMS;
use crate::reconcile::result::EventSpec;
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object};
use schedlab_api::{
    Map, Value, json,
    object::{is_deleting, list, map, name, namespace, remove, set, text, uid},
};

/// A volume claim of a pod and the name of its volume.
pub(super) struct PodClaim<'v> {
    volume: &'v str,
    key: Key,
    template: &'v Value,
}

/// The volume claims of the pod with an ordinal, one for each entry of `volumeClaimTemplates`.
pub(super) fn claims_of_pod(owner: &Value, ordinal: i64) -> Vec<PodClaim<'_>> {
    let templates = list(owner, &["spec", "volumeClaimTemplates"]).iter();
    let claim = |template| {
        let volume = name(template);
        let claim = format!("{volume}-{}-{ordinal}", name(owner));
        PodClaim {
            volume,
            key: Key::new(VOLUME_CLAIMS.clone(), namespace(owner), &claim),
            template,
        }
    };
    templates.map(claim).collect()
}

/// Adds the claims to a new pod as volumes, which replace volumes of the same name.
pub(super) fn mount_claims(pod: &mut Value, claims: &[PodClaim]) {
    if claims.is_empty() {
        return;
    }
    let own = claims.iter().map(|claim| {
        json!({"name": claim.volume, "persistentVolumeClaim": {"claimName": &*claim.key.name}})
    });
    let is_own = |volume: &&Value| claims.iter().any(|claim| claim.volume == entry_name(volume));
    let others = list(pod, &["spec", "volumes"]).iter().filter(|volume| !is_own(volume)).cloned();
    let volumes: Vec<Value> = own.chain(others).collect();
    set(pod, &["spec", "volumes"], volumes.into());
}

fn entry_name(volume: &Value) -> &str {
    text(volume, &["name"])
}

/// Whether any of the claims is being deleted. Then the pod must wait for a new claim.
pub(super) fn is_any_claim_deleting(claims: &[PodClaim], ctx: &Context) -> bool {
    claims.iter().any(|claim| ctx.cache.get(&claim.key).is_some_and(|found| is_deleting(found)))
}

/// Creates the missing claims of a pod, with an event for each.
pub(super) fn create_missing_claims(
    claims: &[PodClaim],
    pod: &str,
    owner: &Value,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let missing = claims.iter().filter(|claim| ctx.cache.get(&claim.key).is_none());
    let made = missing.flat_map(|claim| {
        let message = format!(
            "Create Claim {} Pod {pod} in StatefulSet {} success",
            claim.key.name,
            name(owner)
        );
        let notice =
            EventSpec { component: COMPONENT, kind: "Normal", reason: "SuccessfulCreate", message };
        let request = ApiRequest::create(&VOLUME_CLAIMS, new_claim(claim, owner));
        [request, notice.record(owner, ctx)]
    });
    made.collect()
}

fn new_claim(claim: &PodClaim, owner: &Value) -> Value {
    let metadata = &claim.template["metadata"];
    let mut labels = map(metadata, &["labels"]).cloned().unwrap_or_else(Map::new);
    for (key, value) in map(owner, &["spec", "selector", "matchLabels"]).into_iter().flatten() {
        labels.insert(key.to_string(), value.clone());
    }
    let mut made = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": claim.template["spec"],
    });
    set(&mut made, &["metadata", "name"], json!(&*claim.key.name));
    set(&mut made, &["metadata", "namespace"], json!(&*claim.key.namespace));
    if !labels.is_empty() {
        set(&mut made, &["metadata", "labels"], labels.into());
    }
    made
}

/// Creates missing claims of pending pods, and sets the owners of claims by
/// `persistentVolumeClaimRetentionPolicy`.
pub(super) fn sync_claims(sets: &StatefulSetState, ctx: &Context) -> Vec<ApiRequest> {
    let mut writes = Vec::new();
    for (_, pod) in sets.pods.values().filter(|(_, pod)| !is_deleting(pod)) {
        let Some(number) = ordinal_of_pod(sets.set, pod) else { continue };
        let claims = claims_of_pod(sets.set, number);
        if text(pod, &["status", "phase"]) == "Pending" {
            writes.extend(create_missing_claims(&claims, name(pod), sets.set, ctx));
        }
        for claim in &claims {
            let found = ctx.cache.get(&claim.key).filter(|found| !is_deleting(found));
            let Some(found) = found else { continue };
            let heir = owner_deleting_claims(sets, pod, number);
            writes.extend(set_claim_owner(&claim.key, found, [sets.set, pod], heir));
        }
    }
    writes
}

/// The owner whose deletion deletes the claims of a pod, by `persistentVolumeClaimRetentionPolicy`:
/// a surplus pod, the set, or `None`.
fn owner_deleting_claims<'v>(
    sets: &StatefulSetState<'v>,
    pod: &'v Object,
    number: i64,
) -> Option<&'v Object> {
    let goes =
        |when| text(sets.set, &["spec", "persistentVolumeClaimRetentionPolicy", when]) == "Delete";
    let is_surplus = !(sets.ordinal_range.0..sets.ordinal_range.1).contains(&number);
    if is_surplus && goes("whenScaled") {
        return Some(pod);
    }
    // If a surplus pod does not take its claims along, they belong to the set.
    goes("whenDeleted").then_some(sets.set)
}

/// Sets `heir` as the owner of a claim, in place of the set and the pod.
fn set_claim_owner(
    key: &Key,
    claim: &Object,
    owners_of_pods: [&Object; 2],
    heir: Option<&Object>,
) -> Option<ApiRequest> {
    let is_heir = |uid_of: &str| heir.is_some_and(|heir| uid(heir) == uid_of);
    let is_candidate = |uid_of: &str| owners_of_pods.iter().any(|one| uid(one) == uid_of);
    let named: Vec<bool> = owner_references(claim).map(|owner| is_candidate(owner.uid)).collect();
    let has_heir = heir.is_none() || owner_references(claim).any(|owner| is_heir(owner.uid));
    let has_other =
        owner_references(claim).any(|owner| is_candidate(owner.uid) && !is_heir(owner.uid));
    if has_heir && !has_other {
        return None;
    }
    let path = ["metadata", "ownerReferences"];
    let others = list(claim, &path).iter().zip(named).filter(|(_, is_named)| !is_named);
    let mut all: Vec<Value> = others.map(|(owner, _)| owner.clone()).collect();
    all.extend(heir.iter().flat_map(|heir| list(&controller_references(heir), &[]).to_vec()));
    let mut claim = Value::clone(claim);
    if all.is_empty() {
        remove(&mut claim, &path);
    } else {
        set(&mut claim, &path, all.into());
    }
    Some(ApiRequest::update(key, claim))
}
