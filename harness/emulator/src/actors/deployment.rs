//! Deployments: a ReplicaSet a template, and rolling from one to the next.
//!
//! Left out: rollback by annotation.

mod proportion;
mod rollout;
mod status;

use super::adoption::{adopters, claim};
use super::fields::texts;
use super::kinds::{DEPLOYMENTS, PODS, REPLICA_SETS};
use super::step::Notice;
use super::workload::{concern, count_at, from_template, mark, revision_of};
use super::{Actor, Change, Context, Refusal, Request, Step, View, Watched, controller};
use crate::object::{annotation, is_deleting, label, name, remove, set, text, uid};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

const COMPONENT: &str = "deployment-controller";
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The revisions that a ReplicaSet was made for before.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a deployment keeps to itself.
const OWN: [&str; 5] =
    ["kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MOST];
const HASH: &str = "pod-template-hash";

/// The Deployment controller.
pub(super) const ACTOR: Actor = Actor {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&DEPLOYMENTS, &REPLICA_SETS, &PODS]),
    concerns,
    step,
};

/// A deployment, its sets and those that it may take, and pods that are gone: `Recreate` waits for them.
fn concerns(change: &Change, view: &View) -> Vec<Key> {
    if change.key.resource != *PODS {
        let mut keys = concern(change, view, &DEPLOYMENTS, &REPLICA_SETS);
        keys.extend(adopters(change, view, &DEPLOYMENTS, &REPLICA_SETS));
        return keys;
    }
    let gone = change.before.as_ref().filter(|_| change.after.is_none());
    let above = |object: &Object| view.by_uid(controller(object)?.uid);
    let set = gone.and_then(|pod| view.get(above(pod)?));
    let deployment = set.and_then(above).filter(|key| key.resource == *DEPLOYMENTS);
    deployment.cloned().into_iter().collect()
}

/// A deployment and its ReplicaSets.
struct Sets<'v> {
    key: &'v Key,
    deployment: &'v Object,
    /// The one of the current template.
    new: Option<(&'v Key, &'v Object)>,
    /// The others, oldest first.
    old: Vec<(&'v Key, &'v Object)>,
}

impl<'v> Sets<'v> {
    fn all(&self) -> impl Iterator<Item = (&'v Key, &'v Object)> + '_ {
        self.old.iter().copied().chain(self.new)
    }

    fn wanted(&self) -> i64 {
        count_at(self.deployment, &["spec", "replicas"], 1)
    }
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some((key, deployment)) = ctx.view.entry(key) else { return Step::rest() };
    if is_deleting(deployment) {
        return Step::rest();
    }
    let claims = claim(deployment, &REPLICA_SETS, |_| true, ctx);
    if !claims.is_empty() {
        return Step::of(claims);
    }
    let mut old: Vec<_> = ctx.view.controlled(uid(deployment), &REPLICA_SETS).collect();
    old.retain(|(_, set)| !is_deleting(set));
    old.sort_by_key(|entry| age(*entry));
    let template = &deployment["spec"]["template"];
    let new = old.iter().position(|(_, set)| bare_template(set) == *template);
    let new = new.map(|place| old.remove(place));
    let sets = Sets { key, deployment, new, old };
    let paused = super::fields::flag(deployment, &["spec", "paused"]);
    let is_scaled = paused || proportion::is_due(&sets);
    let mut writes = if is_scaled { proportion::scale_all(&sets, ctx) } else { Vec::new() };
    if writes.is_empty() && !paused {
        writes = match sets.new {
            None => rollout::begin(&sets, ctx),
            Some(new) => rollout::go_on(&sets, new, ctx),
        };
    }
    if writes.is_empty() {
        writes.extend(adopt_revision(&sets));
    }
    if writes.is_empty() {
        writes.extend(forget_old(&sets));
    }
    if writes.is_empty() {
        return status::observe(&sets, ctx);
    }
    Step::of(writes)
}

/// Older ReplicaSets come first.
fn age<'v>((key, set): (&'v Key, &'v Object)) -> (&'v str, &'v Key) {
    (text(set, &["metadata", "creationTimestamp"]), key)
}

/// Why there is no ReplicaSet of the current template.
pub(super) fn not_made(refusal: &Refusal) -> String {
    format!("Failed to create new replica set \"{}\": {}", refusal.name, refusal.error.message)
}

/// Says it in the deployment's status.
pub(super) fn failed(key: &Key, refusal: &Refusal, ctx: &Context) -> Option<Request> {
    let deployment = ctx.view.get(key).filter(|deployment| !is_deleting(deployment))?;
    Request::status(key, deployment, status::failed(deployment, &not_made(refusal), ctx.now))
}

/// The revision a ReplicaSet was made for.
fn revision(set: &Value) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A ReplicaSet's template without the mark that tells its pods apart.
fn bare_template(set: &Value) -> Value {
    let mut template = set["spec"]["template"].clone();
    remove(&mut template, &["metadata", "labels", HASH]);
    template
}

/// The ReplicaSet of the current template.
fn new_set(sets: &Sets, replicas: i64) -> Value {
    let deployment = sets.deployment;
    let template = &deployment["spec"]["template"];
    let hash = revision_of(template);
    let mut made = from_template(template, deployment, &format!("{}-{hash}", name(deployment)));
    let next = sets.old.iter().map(|(_, set)| revision(set)).max().unwrap_or(0) + 1;
    copy_annotations(deployment, &mut made);
    mark(&mut made, "annotations", &[(REVISION, &next.to_string())]);
    rollout::note_size(&mut made, sets);
    mark(&mut made, "labels", &[(HASH, &hash)]);
    remove(&mut made, &["metadata", "finalizers"]);
    let mut template = template.clone();
    mark(&mut template, "labels", &[(HASH, &hash)]);
    let mut selector = deployment["spec"]["selector"].clone();
    set(&mut selector, &["matchLabels", HASH], json!(hash));
    set(&mut made, &["apiVersion"], json!("apps/v1"));
    set(&mut made, &["kind"], json!("ReplicaSet"));
    let spec = json!({
        "replicas": replicas,
        "minReadySeconds": count_at(deployment, &["spec", "minReadySeconds"], 0),
        "selector": selector,
        "template": template,
    });
    set(&mut made, &["spec"], spec);
    made
}

/// A ReplicaSet carries its deployment's annotations, among them why it was changed.
fn copy_annotations(deployment: &Value, replica_set: &mut Value) {
    for (key, value) in texts(deployment, &["metadata", "annotations"]) {
        if !OWN.contains(&key) {
            mark(replica_set, "annotations", &[(key, value)]);
        }
    }
}

/// The deployment carries its current ReplicaSet's revision; a template that comes back gets a
/// revision of its own.
fn adopt_revision(sets: &Sets) -> Option<Request> {
    let (key, new) = sets.new?;
    let newest = sets.old.iter().map(|(_, set)| revision(set)).max().unwrap_or(0);
    let mut noted = Value::clone(new);
    copy_annotations(sets.deployment, &mut noted);
    if revision(new) <= newest {
        let before = [annotation(new, HISTORY), annotation(new, REVISION)];
        let before = before.into_iter().flatten().collect::<Vec<_>>().join(",");
        let next = (newest + 1).to_string();
        mark(&mut noted, "annotations", &[(REVISION, &next), (HISTORY, &before)]);
    }
    if noted != **new {
        return Some(Request::update(key, noted));
    }
    let wanted = annotation(new, REVISION).unwrap_or_default();
    if annotation(sets.deployment, REVISION) == Some(wanted) {
        return None;
    }
    let mut deployment = Value::clone(sets.deployment);
    mark(&mut deployment, "annotations", &[(REVISION, wanted)]);
    // Through its status: the deployment itself is none the newer for it.
    Some(Request::with_status(sets.key, deployment))
}

/// Deletes old ReplicaSets beyond the history limit.
fn forget_old(sets: &Sets) -> Vec<Request> {
    let keep =
        super::workload::size(count_at(sets.deployment, &["spec", "revisionHistoryLimit"], 10));
    let empty = sets.old.iter().filter(|(_, set)| {
        count_at(set, &["spec", "replicas"], 0) == 0
            && count_at(set, &["status", "replicas"], 0) == 0
    });
    let empty: Vec<_> = empty.collect();
    let surplus = empty.len().saturating_sub(keep);
    empty.into_iter().take(surplus).map(|(key, set)| Request::delete(key, set)).collect()
}

fn say_scaled(set: &Value, from: i64, to: i64, sets: &Sets, ctx: &Context) -> Request {
    let way = if to > from { "up" } else { "down" };
    let message = format!("Scaled {way} replica set {} from {from} to {to}", name(set));
    Notice { component: COMPONENT, kind: "Normal", reason: "ScalingReplicaSet", message }
        .about(sets.deployment, ctx)
}

/// Whether a ReplicaSet still has pods that run.
fn has_pods(set: &Value, ctx: &Context) -> bool {
    let hash = label(set, HASH).unwrap_or_default();
    let mut pods = ctx.view.controlled(uid(set), &PODS);
    !hash.is_empty()
        && pods.any(|(_, pod)| !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed"))
}
