//! The claims of a StatefulSet's pods: one for each of its templates, by number. A pod that comes
//! again finds the claims that it had.

use super::{COMPONENT, Numbered, ordinal};
use crate::actors::kinds::VOLUME_CLAIMS;
use crate::actors::step::Notice;
use crate::actors::view::owners;
use crate::actors::workload::controlled_by;
use crate::actors::{Context, Request};
use crate::object::{is_deleting, list, map, name, namespace, remove, set, text, uid};
use crate::store::{Key, Object};
use schedlab_json::{Map, Value, json};

/// A claim, and the volume that it is in its pod.
pub(super) struct Claim<'v> {
    volume: &'v str,
    key: Key,
    template: &'v Value,
}

/// The claims of the pod of a number.
pub(super) fn of(owner: &Value, number: i64) -> Vec<Claim<'_>> {
    let templates = list(owner, &["spec", "volumeClaimTemplates"]).iter();
    let claim = |template| {
        let volume = name(template);
        let claim = format!("{volume}-{}-{number}", name(owner));
        Claim { volume, key: Key::new(VOLUME_CLAIMS.clone(), namespace(owner), &claim), template }
    };
    templates.map(claim).collect()
}

/// Gives a new pod its claims as volumes: they stand in for others of their names.
pub(super) fn mount(pod: &mut Value, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    let own = claims.iter().map(|claim| {
        json!({"name": claim.volume, "persistentVolumeClaim": {"claimName": &*claim.key.name}})
    });
    let is_own = |volume: &&Value| claims.iter().any(|claim| claim.volume == name_of(volume));
    let others = list(pod, &["spec", "volumes"]).iter().filter(|volume| !is_own(volume)).cloned();
    let volumes: Vec<Value> = own.chain(others).collect();
    set(pod, &["spec", "volumes"], volumes.into());
}

fn name_of(volume: &Value) -> &str {
    text(volume, &["name"])
}

/// Whether one of the claims is about to go: a pod must wait for its successor.
pub(super) fn leave(claims: &[Claim], ctx: &Context) -> bool {
    claims.iter().any(|claim| ctx.view.get(&claim.key).is_some_and(|found| is_deleting(found)))
}

/// Makes the claims that are not there.
pub(super) fn make(claims: &[Claim], pod: &str, owner: &Value, ctx: &Context) -> Vec<Request> {
    let missing = claims.iter().filter(|claim| ctx.view.get(&claim.key).is_none());
    let made = missing.flat_map(|claim| {
        let message = format!(
            "Create Claim {} Pod {pod} in StatefulSet {} success",
            claim.key.name,
            name(owner)
        );
        let notice =
            Notice { component: COMPONENT, kind: "Normal", reason: "SuccessfulCreate", message };
        let request = Request::create(&VOLUME_CLAIMS, made(claim, owner));
        [request, notice.about(owner, ctx)]
    });
    made.collect()
}

fn made(claim: &Claim, owner: &Value) -> Value {
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

/// What the pods that are there lack: claims that a pod waits for, and owners with which claims go
/// as `persistentVolumeClaimRetentionPolicy` says.
pub(super) fn mend(sets: &Numbered, ctx: &Context) -> Vec<Request> {
    let mut writes = Vec::new();
    for (_, pod) in sets.pods.values().filter(|(_, pod)| !is_deleting(pod)) {
        let Some(number) = ordinal(sets.set, pod) else { continue };
        let claims = of(sets.set, number);
        if text(pod, &["status", "phase"]) == "Pending" {
            writes.extend(make(&claims, name(pod), sets.set, ctx));
        }
        for claim in &claims {
            let found = ctx.view.get(&claim.key).filter(|found| !is_deleting(found));
            let Some(found) = found else { continue };
            let heir = heir(sets, (pod, number));
            writes.extend(hand_over((&claim.key, found), [sets.set, pod], heir));
        }
    }
    writes
}

/// With whom a pod's claims are to go: with the pod where that is one too many, with the set, or
/// with nobody.
fn heir<'v>(sets: &Numbered<'v>, (pod, number): (&'v Object, i64)) -> Option<&'v Object> {
    let goes =
        |when| text(sets.set, &["spec", "persistentVolumeClaimRetentionPolicy", when]) == "Delete";
    let is_surplus = !(sets.wanted.0..sets.wanted.1).contains(&number);
    if is_surplus && goes("whenScaled") {
        return Some(pod);
    }
    // A pod that is one too many, whose claims stay, leaves them to the set.
    goes("whenDeleted").then_some(sets.set)
}

/// Gives a claim the owner that it is to go with, instead of any other of these.
fn hand_over(
    (key, claim): (&Key, &Object),
    owners_of_pods: [&Object; 2],
    heir: Option<&Object>,
) -> Option<Request> {
    let is_heir = |uid_of: &str| heir.is_some_and(|heir| uid(heir) == uid_of);
    let is_candidate = |uid_of: &str| owners_of_pods.iter().any(|one| uid(one) == uid_of);
    let named: Vec<bool> = owners(claim).map(|owner| is_candidate(owner.uid)).collect();
    let has_heir = heir.is_none() || owners(claim).any(|owner| is_heir(owner.uid));
    let has_other = owners(claim).any(|owner| is_candidate(owner.uid) && !is_heir(owner.uid));
    if has_heir && !has_other {
        return None;
    }
    let path = ["metadata", "ownerReferences"];
    let others = list(claim, &path).iter().zip(named).filter(|(_, is_named)| !is_named);
    let mut all: Vec<Value> = others.map(|(owner, _)| owner.clone()).collect();
    all.extend(heir.iter().flat_map(|heir| list(&controlled_by(heir), &[]).to_vec()));
    let mut claim = Value::clone(claim);
    if all.is_empty() {
        remove(&mut claim, &path);
    } else {
        set(&mut claim, &path, all.into());
    }
    Some(Request::update(key, claim))
}
