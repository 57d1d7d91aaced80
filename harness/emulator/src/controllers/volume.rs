//! The persistent volume binder: binds each claim to the volume that references it, or to the
//! smallest fitting volume unless its class waits for the first consumer. It also creates the
//! ephemeral claims of pods.
//!
//! Left out: provisioning, recycling and deletion of volumes. A claim without a volume stays
//! pending.

use super::workload::controller_references;
use crate::admission::{default_storage_class, has_storage_class_field};
use crate::api_types::label_selector::LabelSelector;
use crate::reconcile::fields::format_time;
use crate::reconcile::pod_status::is_finished;
use crate::reconcile::resources::{PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, annotations, json,
    object::{annotation, at, finalizers, is_deleting, list, name, namespace, set, text, uid},
    quantity::{Milli, thousandths},
};

/// The finalizer that protects a `PersistentVolumeClaim` in use.
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The finalizer that protects a bound `PersistentVolume`.
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// The persistent volume binder.
pub(super) const CONTROLLER: Controller = Controller {
    name: "persistentvolume-controller",
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&PODS, &VOLUME_CLAIMS, &VOLUMES, &STORAGE_CLASSES]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let resource = &change.key.resource;
    if *resource == *PODS {
        let has_own = change.after.iter().any(|pod| ephemeral_claims(pod).next().is_some());
        let itself = has_own.then(|| change.key.clone()).into_iter();
        // A deleted or ended pod no longer uses its claims.
        let has_gone = change.after.as_ref().is_none_or(|pod| is_finished(pod));
        let ended = change.before.iter().filter(|_| has_gone);
        return itself.chain(ended.flat_map(|pod| claims_used_by(pod))).collect();
    }
    if *resource == *VOLUME_CLAIMS {
        let volumes = cache.all(&VOLUMES).filter(|(_, volume)| is_volume_for(volume, &change.key));
        return volumes.map(|(key, _)| key.clone()).chain([change.key.clone()]).collect();
    }
    if *resource == *VOLUMES || *resource == *STORAGE_CLASSES {
        let named = change.states().filter_map(|volume| claim_ref(volume));
        let open = cache.all(&VOLUME_CLAIMS);
        let open = open.filter(|(_, claim)| text(claim, &["spec", "volumeName"]).is_empty());
        let open: Vec<Key> = open.map(|(key, _)| key.clone()).chain(named).collect();
        let own = (*resource == *VOLUMES).then(|| change.key.clone());
        return own.into_iter().chain(open).collect();
    }
    Vec::new()
}

/// The `PersistentVolumeClaims` that a pod uses.
fn claims_used_by(pod: &Value) -> impl Iterator<Item = Key> + '_ {
    let volumes = list(pod, &["spec", "volumes"]).iter();
    let claims = volumes.map(|volume| text(volume, &["persistentVolumeClaim", "claimName"]));
    let claims = claims.filter(|name| !name.is_empty());
    let claims = claims.map(|name| claim_key(namespace(pod), name));
    claims.chain(ephemeral_claims(pod).map(|(key, _)| key))
}

/// The claims of a pod's ephemeral volumes, with the templates.
fn ephemeral_claims(pod: &Value) -> impl Iterator<Item = (Key, &Value)> {
    list(pod, &["spec", "volumes"]).iter().filter_map(|volume| {
        let template = at(volume, &["ephemeral", "volumeClaimTemplate"])?;
        let claim = format!("{}-{}", name(pod), text(volume, &["name"]));
        Some((claim_key(namespace(pod), &claim), template))
    })
}

fn claim_key(namespace: &str, name: &str) -> Key {
    Key { resource: VOLUME_CLAIMS.clone(), namespace: namespace.into(), name: name.into() }
}

fn volume_key(name: &str) -> Key {
    Key { resource: VOLUMES.clone(), namespace: "".into(), name: name.into() }
}

/// The claim that `spec.claimRef` of a volume names.
fn claim_ref(volume: &Value) -> Option<Key> {
    let part = |field| text(volume, &["spec", "claimRef", field]);
    (!part("name").is_empty()).then(|| claim_key(part("namespace"), part("name")))
}

fn is_volume_for(volume: &Value, claim: &Key) -> bool {
    claim_ref(volume).is_some_and(|key| key == *claim)
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    match ctx.cache.get(key) {
        Some(object) if key.resource == *PODS => create_ephemeral_claims(object, ctx),
        Some(object) if key.resource == *VOLUMES => reconcile_volume(key, object, ctx),
        Some(object) => reconcile_claim(key, object, ctx),
        None => ReconcileResult::nothing_to_do(),
    }
}

/// Creates the missing ephemeral claims of a pod.
fn create_ephemeral_claims(pod: &Object, ctx: &Context) -> ReconcileResult {
    if is_deleting(pod) || is_finished(pod) {
        return ReconcileResult::nothing_to_do();
    }
    let missing = ephemeral_claims(pod).filter(|(key, _)| ctx.cache.get(key).is_none());
    ReconcileResult::from_writes(missing.map(|(key, template)| {
        let mut claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": at(template, &["metadata"]).cloned().unwrap_or_else(|| json!({})),
            "spec": template["spec"],
        });
        set(&mut claim, &["metadata", "name"], json!(&*key.name));
        set(&mut claim, &["metadata", "namespace"], json!(&*key.namespace));
        set(&mut claim, &["metadata", "ownerReferences"], controller_references(pod));
        ApiRequest::create(&VOLUME_CLAIMS, claim)
    }))
}

/// Updates the phase of a volume. Removes the finalizer of a deleted volume that is not bound.
fn reconcile_volume(key: &Key, volume: &Object, ctx: &Context) -> ReconcileResult {
    let claim_uid = text(volume, &["spec", "claimRef", "uid"]);
    let claim = claim_ref(volume).and_then(|key| ctx.cache.get(&key));
    let claim = claim.filter(|claim| claim_uid.is_empty() || uid(claim) == claim_uid);
    let phase = match claim {
        Some(claim) if text(claim, &["spec", "volumeName"]) == &*key.name => "Bound",
        None if !claim_uid.is_empty() => "Released",
        Some(_) | None => "Available",
    };
    let is_held = finalizers(volume).any(|one| one == VOLUME_FINALIZER);
    if is_deleting(volume) && is_held && phase != "Bound" {
        return ReconcileResult::from_writes([ApiRequest::remove_finalizer(
            key,
            volume,
            VOLUME_FINALIZER,
        )]);
    }
    let mut updated = Value::clone(volume);
    if text(volume, &["status", "phase"]) != phase {
        set(&mut updated, &["status", "phase"], json!(phase));
        set(&mut updated, &["status", "lastPhaseTransitionTime"], json!(format_time(ctx.now)));
    }
    ReconcileResult::from_writes(ApiRequest::status_update(key, volume, updated))
}

fn reconcile_claim(key: &Key, claim: &Object, ctx: &Context) -> ReconcileResult {
    if is_deleting(claim) {
        let is_free =
            finalizers(claim).any(|one| one == CLAIM_FINALIZER) && !is_claim_used(key, ctx);
        return ReconcileResult::from_writes(
            is_free.then(|| ApiRequest::remove_finalizer(key, claim, CLAIM_FINALIZER)),
        );
    }
    let bound_to = text(claim, &["spec", "volumeName"]);
    if !bound_to.is_empty() {
        return match ctx.cache.get(&volume_key(bound_to)) {
            Some(volume) if is_reserved_for(volume, key, claim) => {
                complete_binding(key, claim, volume)
            }
            None if annotation(claim, annotations::BIND_COMPLETED).is_some() => {
                mark_claim_lost(key, claim)
            }
            Some(_) | None => ReconcileResult::nothing_to_do(),
        };
    }
    let kept = ctx.cache.all(&VOLUMES).find(|(_, volume)| is_reserved_for(volume, key, claim));
    if let Some((volume_key, volume)) = kept {
        return bind_claim(key, claim, volume_key, volume);
    }
    if waits_for_first_consumer(claim, ctx) {
        return ReconcileResult::nothing_to_do();
    }
    let Some((volume_key, volume)) = smallest_fitting_volume(claim, ctx) else {
        return ReconcileResult::from_writes(assign_default_class(key, claim, ctx));
    };
    let mut kept = Value::clone(volume);
    set(&mut kept, &["metadata", "annotations", annotations::BOUND_BY_CONTROLLER], json!("yes"));
    set(&mut kept, &["spec", "claimRef"], claim_reference(claim));
    ReconcileResult::from_writes([ApiRequest::update(volume_key, kept)])
}

/// Assigns the default storage class to a claim without a class and volume: the class may have been
/// created after the claim.
fn assign_default_class(key: &Key, claim: &Object, ctx: &Context) -> Option<ApiRequest> {
    let classes = ctx.cache.all(&STORAGE_CLASSES).map(|(_, class)| class);
    let default = default_storage_class(classes).filter(|_| !has_storage_class_field(claim))?;
    let mut classified = Value::clone(claim);
    set(&mut classified, &["spec", "storageClassName"], json!(default));
    Some(ApiRequest::update(key, classified))
}

/// Whether a scheduled pod that has not ended uses the claim.
fn is_claim_used(claim: &Key, ctx: &Context) -> bool {
    ctx.cache.objects_in_namespace(&PODS, &claim.namespace).any(|(_, pod)| {
        let stands = !text(pod, &["spec", "nodeName"]).is_empty() && !is_finished(pod);
        stands && claims_used_by(pod).any(|key| key == *claim)
    })
}

/// Whether `spec.claimRef` of the volume names this claim, with the claim's uid or without a uid.
fn is_reserved_for(volume: &Value, key: &Key, claim: &Value) -> bool {
    let claim_uid = text(volume, &["spec", "claimRef", "uid"]);
    is_volume_for(volume, key) && (claim_uid.is_empty() || claim_uid == uid(claim))
}

fn claim_reference(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace(claim),
        "name": name(claim),
        "uid": uid(claim),
    })
}

/// Whether the claim's class has `WaitForFirstConsumer`.
fn waits_for_first_consumer(claim: &Value, ctx: &Context) -> bool {
    let class = Key {
        resource: STORAGE_CLASSES.clone(),
        namespace: "".into(),
        name: text(claim, &["spec", "storageClassName"]).into(),
    };
    let class = ctx.cache.get(&class);
    class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
}

/// The smallest available volume that fits a claim.
fn smallest_fitting_volume<'v>(claim: &Value, ctx: &'v Context) -> Option<(&'v Key, &'v Object)> {
    let fitting = ctx.cache.all(&VOLUMES).filter(|(_, volume)| does_volume_fit(volume, claim));
    fitting.min_by_key(|(key, volume)| (volume_capacity(volume), *key))
}

fn volume_capacity(volume: &Value) -> Milli {
    at(volume, &["spec", "capacity", "storage"]).and_then(thousandths).unwrap_or(0)
}

fn does_volume_fit(volume: &Value, claim: &Value) -> bool {
    let is_equal = |field: &str| text(volume, &["spec", field]) == text(claim, &["spec", field]);
    let requested = at(claim, &["spec", "resources", "requests", "storage"]).and_then(thousandths);
    let modes = list(volume, &["spec", "accessModes"]);
    let selector = &claim["spec"]["selector"];
    let is_selected = selector.is_null()
        || LabelSelector::from_object(selector).is_ok_and(|selector| selector.matches(volume));
    text(volume, &["status", "phase"]) == "Available"
        && at(volume, &["spec", "claimRef"]).is_none()
        && !is_deleting(volume)
        && is_equal("storageClassName")
        && is_equal("volumeMode")
        && volume_capacity(volume) >= requested.unwrap_or(0)
        && list(claim, &["spec", "accessModes"]).iter().all(|mode| modes.contains(mode))
        && is_selected
}

/// Binds a claim and a volume by setting the references to each other. The status of both is
/// updated by later reconciliations.
fn bind_claim(key: &Key, claim: &Object, volume_key: &Key, volume: &Object) -> ReconcileResult {
    let mut kept = Value::clone(volume);
    set(&mut kept, &["spec", "claimRef"], claim_reference(claim));
    let mut bound = Value::clone(claim);
    set(&mut bound, &["spec", "volumeName"], json!(&*volume_key.name));
    for mark in [annotations::BIND_COMPLETED, annotations::BOUND_BY_CONTROLLER] {
        set(&mut bound, &["metadata", "annotations", mark], json!("yes"));
    }
    let is_whole = !text(volume, &["spec", "claimRef", "uid"]).is_empty();
    let keep = (!is_whole).then(|| ApiRequest::update(volume_key, kept));
    ReconcileResult::from_writes(keep.into_iter().chain([ApiRequest::update(key, bound)]))
}

/// Sets the status of a bound claim.
fn complete_binding(key: &Key, claim: &Object, volume: &Object) -> ReconcileResult {
    if annotation(claim, annotations::BIND_COMPLETED).is_none() {
        return bind_claim(key, claim, &volume_key(name(volume)), volume);
    }
    let mut updated = Value::clone(claim);
    set(&mut updated, &["status", "phase"], json!("Bound"));
    for field in ["capacity", "accessModes"] {
        set(&mut updated, &["status", field], volume["spec"][field].clone());
    }
    ReconcileResult::from_writes(ApiRequest::status_update(key, claim, updated))
}

fn mark_claim_lost(key: &Key, claim: &Object) -> ReconcileResult {
    let mut updated = Value::clone(claim);
    set(&mut updated, &["status", "phase"], json!("Lost"));
    ReconcileResult::from_writes(ApiRequest::status_update(key, claim, updated))
}
