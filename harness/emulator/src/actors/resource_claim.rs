//! Resource claims: made from templates for the pods that name them, given back when nobody uses
//! them any more. Allocating them is the scheduler's.

use super::kinds::{CLAIM_TEMPLATES, CLAIMS, PODS};
use super::kubelet::is_finished;
use super::step::Notice;
use super::view::controller;
use super::workload::{controlled_by, free_name};
use super::{Actor, Change, Context, Request, Step, View, Watched, key_of};
use crate::object::{
    annotation, at, finalizers, is_deleting, list, name, namespace, remove, set, text, uid,
};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

const COMPONENT: &str = "resource_claim";
/// On a claim that was made for a pod: the pod's own name for it.
const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
/// On a claim that is allocated.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The resource claim controller.
pub(super) const ACTOR: Actor = Actor {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&PODS, &CLAIMS, &CLAIM_TEMPLATES]),
    concerns,
    step,
};

fn concerns(change: &Change, view: &View) -> Vec<Key> {
    let resource = &change.key.resource;
    if *resource == *PODS {
        let claims = change.sides().flat_map(|pod| claims_of(pod));
        let mut keys: Vec<Key> = claims.collect();
        keys.dedup();
        let uses = change.after.iter().any(|pod| !pod_claims(pod).is_empty());
        return keys.into_iter().chain(uses.then(|| change.key.clone())).collect();
    }
    if *resource == *CLAIMS {
        let owners = change.sides().filter_map(|claim| view.by_uid(controller(claim)?.uid));
        return owners.cloned().chain([change.key.clone()]).collect();
    }
    if *resource == *CLAIM_TEMPLATES {
        let pods = view.within(&PODS, &change.key.namespace);
        let waiting = pods.filter(|(_, pod)| !pod_claims(pod).is_empty());
        return waiting.map(|(key, _)| key.clone()).collect();
    }
    Vec::new()
}

/// `spec.resourceClaims`.
fn pod_claims(pod: &Value) -> &[Value] {
    list(pod, &["spec", "resourceClaims"])
}

/// The claims that a pod uses, as far as they have names.
fn claims_of(pod: &Value) -> impl Iterator<Item = Key> + '_ {
    let made = list(pod, &["status", "resourceClaimStatuses"]).iter();
    let names = pod_claims(pod).iter().chain(made).map(|one| text(one, &["resourceClaimName"]));
    names.filter(|name| !name.is_empty()).map(|name| Key {
        resource: CLAIMS.clone(),
        namespace: namespace(pod).into(),
        name: name.into(),
    })
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(object) = ctx.view.get(key) else { return Step::rest() };
    if key.resource == *PODS { make_claims(key, object, ctx) } else { give_back(key, object, ctx) }
}

/// A claim for each template that the pod names and that it has none of yet.
fn make_claims(key: &Key, pod: &Object, ctx: &Context) -> Step {
    if is_deleting(pod) || is_finished(pod) {
        return Step::rest();
    }
    let mut writes = Vec::new();
    let mut statuses = list(pod, &["status", "resourceClaimStatuses"]).to_vec();
    for entry in pod_claims(pod) {
        let (own, template) = (name_of(entry), text(entry, &["resourceClaimTemplateName"]));
        if template.is_empty() || statuses.iter().any(|status| name_of(status) == own) {
            continue;
        }
        let made = match existing(pod, own, ctx) {
            Some(made) => made,
            None => match claim_from(template, pod, own, ctx) {
                Ok(claim) => {
                    let made = name(&claim).to_owned();
                    writes.push(Request::create(&CLAIMS, claim));
                    made
                }
                Err(notice) => {
                    writes.extend(notice.once(pod, ctx));
                    continue;
                }
            },
        };
        statuses.push(json!({"name": own, "resourceClaimName": made}));
    }
    let mut seen = Value::clone(pod);
    if !statuses.is_empty() {
        set(&mut seen, &["status", "resourceClaimStatuses"], Value::Array(statuses));
    }
    writes.extend(Request::status(key, pod, seen));
    Step::of(writes)
}

fn name_of(entry: &Value) -> &str {
    text(entry, &["name"])
}

/// One that was made before, and not yet noted on the pod.
fn existing(pod: &Value, own: &str, ctx: &Context) -> Option<String> {
    let mut made = ctx.view.controlled(uid(pod), &CLAIMS);
    let found = made.find(|(_, claim)| annotation(claim, POD_CLAIM) == Some(own));
    found.map(|(_, claim)| name(claim).to_owned())
}

fn claim_from<'a>(
    template: &str,
    pod: &Value,
    own: &str,
    ctx: &Context,
) -> Result<Value, Notice<'a>> {
    let key = Key {
        resource: CLAIM_TEMPLATES.clone(),
        namespace: namespace(pod).into(),
        name: template.into(),
    };
    let missing = || Notice {
        component: COMPONENT,
        kind: "Warning",
        reason: "FailedResourceClaimCreation",
        message: format!(
            "PodResourceClaim {own}: resource claim template \"{template}\": resourceclaimtemplate.resource.k8s.io \"{template}\" not found"
        ),
    };
    let template = ctx.view.get(&key).ok_or_else(missing)?;
    let mut claim = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": at(template, &["spec", "metadata"]).cloned().unwrap_or_else(|| json!({})),
        "spec": at(template, &["spec", "spec"]).cloned().unwrap_or_else(|| json!({})),
    });
    let made = free_name(&CLAIMS, pod, &format!("{}-{own}-", name(pod)), ctx);
    set(&mut claim, &["metadata", "name"], json!(made));
    set(&mut claim, &["metadata", "namespace"], json!(namespace(pod)));
    set(&mut claim, &["metadata", "annotations", POD_CLAIM], json!(own));
    set(&mut claim, &["metadata", "ownerReferences"], controlled_by(pod));
    Ok(claim)
}

/// A claim without users is free again; one that was made for a pod goes when the pod has ended.
fn give_back(key: &Key, claim: &Object, ctx: &Context) -> Step {
    let reserved = list(claim, &["status", "reservedFor"]);
    let users: Vec<Value> =
        reserved.iter().filter(|user| is_used(user, key, ctx)).cloned().collect();
    if users.len() < reserved.len() {
        let mut freed = Value::clone(claim);
        if users.is_empty() {
            remove(&mut freed, &["status", "reservedFor"]);
            remove(&mut freed, &["status", "allocation"]);
        } else {
            set(&mut freed, &["status", "reservedFor"], Value::Array(users));
        }
        return Step::of(Request::status(key, claim, freed));
    }
    if !users.is_empty() {
        return Step::rest();
    }
    if is_deleting(claim) {
        return Step::of(let_go(key, claim));
    }
    let owner = controller(claim).and_then(|owner| ctx.view.by_uid(owner.uid));
    let owner = owner.filter(|key| key.resource == *PODS).and_then(|key| ctx.view.get(key));
    let ended = owner.is_some_and(|pod| is_finished(pod));
    Step::of(ended.then(|| Request::delete(key, claim)))
}

/// A claim that is being deleted and that nobody uses is kept by nothing any more.
fn let_go(key: &Key, claim: &Object) -> Option<Request> {
    finalizers(claim).find(|one| *one == FINALIZER)?;
    if at(claim, &["status", "allocation"]).is_none() {
        return Some(Request::drop_finalizer(key, claim, FINALIZER));
    }
    let mut freed = Value::clone(claim);
    remove(&mut freed, &["status", "allocation"]);
    Request::status(key, claim, freed)
}

/// The pod of an entry of `status.reservedFor` is there and has not ended.
fn is_used(user: &Value, claim: &Key, ctx: &Context) -> bool {
    let key = Key {
        resource: PODS.clone(),
        namespace: claim.namespace.clone(),
        name: name_of(user).into(),
    };
    let is_pod = text(user, &["resource"]) == "pods" && text(user, &["apiGroup"]).is_empty();
    let pod = ctx.view.get(&key);
    !is_pod || pod.is_some_and(|pod| uid(pod) == text(user, &["uid"]) && !is_finished(pod))
}

/// Whether all claims of a pod are allocated, and for it: then its containers may start.
pub(super) fn are_ready(pod: &Value, view: &View) -> bool {
    let ready = |entry: &Value| {
        let own = name_of(entry);
        let made = list(pod, &["status", "resourceClaimStatuses"]);
        let made = made.iter().find(|status| name_of(status) == own).unwrap_or(entry);
        let key = Key {
            resource: CLAIMS.clone(),
            namespace: namespace(pod).into(),
            name: text(made, &["resourceClaimName"]).into(),
        };
        view.get(&key).is_some_and(|claim| {
            let reserved = list(claim, &["status", "reservedFor"]);
            at(claim, &["status", "allocation"]).is_some()
                && reserved.iter().any(|user| text(user, &["uid"]) == uid(pod))
        })
    };
    pod_claims(pod).iter().all(ready)
}

/// The pods for which a claim is reserved.
pub(super) fn users(change: &Change) -> impl Iterator<Item = Key> + '_ {
    let reserved = change.after.iter().flat_map(|claim| list(claim, &["status", "reservedFor"]));
    reserved.map(|user| {
        key_of(
            &PODS,
            &json!({
                "metadata": {"namespace": &*change.key.namespace, "name": name_of(user)},
            }),
        )
    })
}
