//! Volumes and claims on them: each claim is bound to the volume that names it, or, where its class
//! does not wait for the first consumer, to the smallest that fits. Pods get the claims that are
//! made for them.
//!
//! Left out: making, emptying and deleting volumes. A claim that a provisioner would serve waits
//! until somebody makes a volume for it.

use super::fields::stamp;
use super::kinds::{PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES};
use super::kubelet::is_finished;
use super::workload::controlled_by;
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::admit::{default_class, names_class};
use crate::object::{
    annotation, at, finalizers, is_deleting, list, name, namespace, set, text, uid,
};
use crate::quantity::{Milli, thousandths};
use crate::select::LabelSelector;
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

/// On a claim and its volume: this actor, or a scheduler, chose the one for the other.
const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: nothing is left to be done.
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim that pods may use.
const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// On a volume that a claim may have.
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// The persistent volume binder.
pub(super) const ACTOR: Actor = Actor {
    name: "persistentvolume-controller",
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&PODS, &VOLUME_CLAIMS, &VOLUMES, &STORAGE_CLASSES]),
    concerns,
    step,
};

fn concerns(change: &Change, view: &View) -> Vec<Key> {
    let resource = &change.key.resource;
    if *resource == *PODS {
        let has_own = change.after.iter().any(|pod| made_for(pod).next().is_some());
        let itself = has_own.then(|| change.key.clone()).into_iter();
        // Who has gone, or ended, keeps no claim.
        let has_gone = change.after.as_ref().is_none_or(|pod| is_finished(pod));
        let ended = change.before.iter().filter(|_| has_gone);
        return itself.chain(ended.flat_map(|pod| claims_of(pod))).collect();
    }
    if *resource == *VOLUME_CLAIMS {
        let volumes = view.all(&VOLUMES).filter(|(_, volume)| is_for(volume, &change.key));
        return volumes.map(|(key, _)| key.clone()).chain([change.key.clone()]).collect();
    }
    if *resource == *VOLUMES || *resource == *STORAGE_CLASSES {
        let named = change.sides().filter_map(|volume| claim_of(volume));
        let open = view.all(&VOLUME_CLAIMS);
        let open = open.filter(|(_, claim)| text(claim, &["spec", "volumeName"]).is_empty());
        let open: Vec<Key> = open.map(|(key, _)| key.clone()).chain(named).collect();
        let own = (*resource == *VOLUMES).then(|| change.key.clone());
        return own.into_iter().chain(open).collect();
    }
    Vec::new()
}

/// The claims that a pod uses.
fn claims_of(pod: &Value) -> impl Iterator<Item = Key> + '_ {
    let volumes = list(pod, &["spec", "volumes"]).iter();
    let claims = volumes.map(|volume| text(volume, &["persistentVolumeClaim", "claimName"]));
    let claims = claims.filter(|name| !name.is_empty());
    let claims = claims.map(|name| claim_key(namespace(pod), name));
    claims.chain(made_for(pod).map(|(key, _)| key))
}

/// The claims that are made for a pod, and their templates.
fn made_for(pod: &Value) -> impl Iterator<Item = (Key, &Value)> {
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

/// The claim that a volume is kept for.
fn claim_of(volume: &Value) -> Option<Key> {
    let part = |field| text(volume, &["spec", "claimRef", field]);
    (!part("name").is_empty()).then(|| claim_key(part("namespace"), part("name")))
}

fn is_for(volume: &Value, claim: &Key) -> bool {
    claim_of(volume).is_some_and(|key| key == *claim)
}

fn step(key: &Key, ctx: &Context) -> Step {
    match ctx.view.get(key) {
        Some(object) if key.resource == *PODS => make_claims(object, ctx),
        Some(object) if key.resource == *VOLUMES => step_volume(key, object, ctx),
        Some(object) => step_claim(key, object, ctx),
        None => Step::rest(),
    }
}

/// A claim for each of the pod's volumes that has one of its own.
fn make_claims(pod: &Object, ctx: &Context) -> Step {
    if is_deleting(pod) || is_finished(pod) {
        return Step::rest();
    }
    let missing = made_for(pod).filter(|(key, _)| ctx.view.get(key).is_none());
    Step::of(missing.map(|(key, template)| {
        let mut claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": at(template, &["metadata"]).cloned().unwrap_or_else(|| json!({})),
            "spec": template["spec"],
        });
        set(&mut claim, &["metadata", "name"], json!(&*key.name));
        set(&mut claim, &["metadata", "namespace"], json!(&*key.namespace));
        set(&mut claim, &["metadata", "ownerReferences"], controlled_by(pod));
        Request::create(&VOLUME_CLAIMS, claim)
    }))
}

/// Says whether a volume is to be had.
fn step_volume(key: &Key, volume: &Object, ctx: &Context) -> Step {
    let wanted = text(volume, &["spec", "claimRef", "uid"]);
    let claim = claim_of(volume).and_then(|key| ctx.view.get(&key));
    let claim = claim.filter(|claim| wanted.is_empty() || uid(claim) == wanted);
    let phase = match claim {
        Some(claim) if text(claim, &["spec", "volumeName"]) == &*key.name => "Bound",
        None if !wanted.is_empty() => "Released",
        Some(_) | None => "Available",
    };
    let is_held = finalizers(volume).any(|one| one == VOLUME_FINALIZER);
    if is_deleting(volume) && is_held && phase != "Bound" {
        return Step::of([Request::drop_finalizer(key, volume, VOLUME_FINALIZER)]);
    }
    let mut told = Value::clone(volume);
    if text(volume, &["status", "phase"]) != phase {
        set(&mut told, &["status", "phase"], json!(phase));
        set(&mut told, &["status", "lastPhaseTransitionTime"], json!(stamp(ctx.now)));
    }
    Step::of(Request::status(key, volume, told))
}

fn step_claim(key: &Key, claim: &Object, ctx: &Context) -> Step {
    if is_deleting(claim) {
        let is_free = finalizers(claim).any(|one| one == FINALIZER) && !is_used(key, ctx);
        return Step::of(is_free.then(|| Request::drop_finalizer(key, claim, FINALIZER)));
    }
    let bound_to = text(claim, &["spec", "volumeName"]);
    if !bound_to.is_empty() {
        return match ctx.view.get(&volume_key(bound_to)) {
            Some(volume) if is_kept_for(volume, (key, claim)) => complete(key, claim, volume),
            None if annotation(claim, COMPLETED).is_some() => lose(key, claim),
            Some(_) | None => Step::rest(),
        };
    }
    let kept = ctx.view.all(&VOLUMES).find(|(_, volume)| is_kept_for(volume, (key, claim)));
    if let Some((volume_key, volume)) = kept {
        return bind(key, claim, (volume_key, volume));
    }
    if waits(claim, ctx) {
        return Step::rest();
    }
    let Some((volume_key, volume)) = smallest(claim, ctx) else {
        return Step::of(classify(key, claim, ctx));
    };
    let mut kept = Value::clone(volume);
    set(&mut kept, &["metadata", "annotations", BY_CONTROLLER], json!("yes"));
    set(&mut kept, &["spec", "claimRef"], reference(claim));
    Step::of([Request::update(volume_key, kept)])
}

/// A claim that names no class, and finds no volume, is given the default one that has come since.
fn classify(key: &Key, claim: &Object, ctx: &Context) -> Option<Request> {
    let classes = ctx.view.all(&STORAGE_CLASSES).map(|(_, class)| class);
    let default = default_class(classes).filter(|_| !names_class(claim))?;
    let mut classified = Value::clone(claim);
    set(&mut classified, &["spec", "storageClassName"], json!(default));
    Some(Request::update(key, classified))
}

/// A pod that has a node, and has not ended, uses it.
fn is_used(claim: &Key, ctx: &Context) -> bool {
    ctx.view.within(&PODS, &claim.namespace).any(|(_, pod)| {
        let stands = !text(pod, &["spec", "nodeName"]).is_empty() && !is_finished(pod);
        stands && claims_of(pod).any(|key| key == *claim)
    })
}

/// The volume names this very claim, or one of its name.
fn is_kept_for(volume: &Value, (key, claim): (&Key, &Value)) -> bool {
    let wanted = text(volume, &["spec", "claimRef", "uid"]);
    is_for(volume, key) && (wanted.is_empty() || wanted == uid(claim))
}

fn reference(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace(claim),
        "name": name(claim),
        "uid": uid(claim),
    })
}

/// Its class says that it waits for a pod that uses it.
fn waits(claim: &Value, ctx: &Context) -> bool {
    let class = Key {
        resource: STORAGE_CLASSES.clone(),
        namespace: "".into(),
        name: text(claim, &["spec", "storageClassName"]).into(),
    };
    let class = ctx.view.get(&class);
    class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
}

/// The smallest volume that is to be had and fits.
fn smallest<'v>(claim: &Value, ctx: &'v Context) -> Option<(&'v Key, &'v Object)> {
    let fitting = ctx.view.all(&VOLUMES).filter(|(_, volume)| fits(volume, claim));
    fitting.min_by_key(|(key, volume)| (capacity(volume), *key))
}

fn capacity(volume: &Value) -> Milli {
    at(volume, &["spec", "capacity", "storage"]).and_then(thousandths).unwrap_or(0)
}

fn fits(volume: &Value, claim: &Value) -> bool {
    let is_equal = |field: &str| text(volume, &["spec", field]) == text(claim, &["spec", field]);
    let asked = at(claim, &["spec", "resources", "requests", "storage"]).and_then(thousandths);
    let modes = list(volume, &["spec", "accessModes"]);
    let selector = &claim["spec"]["selector"];
    let is_selected = selector.is_null()
        || LabelSelector::from_object(selector).is_ok_and(|selector| selector.matches(volume));
    text(volume, &["status", "phase"]) == "Available"
        && at(volume, &["spec", "claimRef"]).is_none()
        && !is_deleting(volume)
        && is_equal("storageClassName")
        && is_equal("volumeMode")
        && capacity(volume) >= asked.unwrap_or(0)
        && list(claim, &["spec", "accessModes"]).iter().all(|mode| modes.contains(mode))
        && is_selected
}

/// Writes the one's name on the other; the claim's status follows.
fn bind(key: &Key, claim: &Object, (volume_key, volume): (&Key, &Object)) -> Step {
    let mut kept = Value::clone(volume);
    set(&mut kept, &["spec", "claimRef"], reference(claim));
    let mut bound = Value::clone(claim);
    set(&mut bound, &["spec", "volumeName"], json!(&*volume_key.name));
    for mark in [COMPLETED, BY_CONTROLLER] {
        set(&mut bound, &["metadata", "annotations", mark], json!("yes"));
    }
    let is_whole = !text(volume, &["spec", "claimRef", "uid"]).is_empty();
    let keep = (!is_whole).then(|| Request::update(volume_key, kept));
    Step::of(keep.into_iter().chain([Request::update(key, bound)]))
}

/// What the claim has got.
fn complete(key: &Key, claim: &Object, volume: &Object) -> Step {
    if annotation(claim, COMPLETED).is_none() {
        return bind(key, claim, (&volume_key(name(volume)), volume));
    }
    let mut told = Value::clone(claim);
    set(&mut told, &["status", "phase"], json!("Bound"));
    for field in ["capacity", "accessModes"] {
        set(&mut told, &["status", field], volume["spec"][field].clone());
    }
    Step::of(Request::status(key, claim, told))
}

fn lose(key: &Key, claim: &Object) -> Step {
    let mut told = Value::clone(claim);
    set(&mut told, &["status", "phase"], json!("Lost"));
    Step::of(Request::status(key, claim, told))
}
