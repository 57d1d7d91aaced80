//! Taint eviction: pods leave nodes whose `NoExecute` taints they do not tolerate, or no longer.

use jiff::Timestamp;

use super::fields::{Condition, after_secs, set_condition, time};
use super::kinds::{NODES, PODS};
use super::kubelet::{is_finished, node_name};
use super::step::Notice;
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{is_deleting, list, name, namespace, number, text};
use crate::store::Key;
use schedlab_json::Value;

/// The taint eviction controller.
pub(super) const ACTOR: Actor = Actor {
    name: "taint-eviction",
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&PODS, &NODES]),
    concerns,
    step,
};

fn concerns(change: &Change, view: &View) -> Vec<Key> {
    let Some(after) = &change.after else { return Vec::new() };
    if change.key.resource == *PODS {
        let tainted = node_of(after, view).is_some_and(|node| executing(node).next().is_some());
        return if tainted { vec![change.key.clone()] } else { Vec::new() };
    }
    let before = change.before.as_ref().map_or(&[][..], |node| list(node, &["spec", "taints"]));
    if change.key.resource != *NODES || before == list(after, &["spec", "taints"]) {
        return Vec::new();
    }
    view.pods_on(&change.key.name).map(|(key, _)| key.clone()).collect()
}

fn node_of<'v>(pod: &Value, view: &'v View) -> Option<&'v Value> {
    let name = node_name(pod).into();
    let key = Key { resource: NODES.clone(), namespace: "".into(), name };
    view.get(&key).map(|node| &**node)
}

pub(super) fn executing(node: &Value) -> impl Iterator<Item = &Value> {
    list(node, &["spec", "taints"]).iter().filter(|taint| text(taint, &["effect"]) == "NoExecute")
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(pod) = ctx.view.get(key) else { return Step::rest() };
    let Some(node) = node_of(pod, ctx.view) else { return Step::rest() };
    if is_deleting(pod) || is_finished(pod) {
        return Step::rest();
    }
    let Some(leaves) = executing(node).filter_map(|taint| leaves_at(pod, taint)).min() else {
        return Step::rest();
    };
    if ctx.now < leaves {
        return Step::at(leaves);
    }
    let mut target = Value::clone(pod);
    let condition = Condition {
        kind: "DisruptionTarget",
        status: "True",
        reason: "DeletionByTaintManager",
        message: "Taint manager: deleting due to NoExecute taint",
    };
    set_condition(&mut target, &condition, ctx.now);
    let notice = Notice {
        component: "taint-eviction-controller",
        kind: "Normal",
        reason: "TaintManagerEviction",
        message: format!("Marking for deletion Pod {}/{}", namespace(pod), name(pod)),
    };
    let marked = Request::status(key, pod, target).into_iter();
    Step::of(marked.chain([notice.about(pod, ctx), Request::delete(key, pod)]))
}

/// When a pod leaves because of a taint; `None` when it may stay for ever.
fn leaves_at(pod: &Value, taint: &Value) -> Option<Timestamp> {
    let since = time(taint, &["timeAdded"]).unwrap_or(Timestamp::MIN);
    let tolerations = list(pod, &["spec", "tolerations"]);
    let mut stays = None;
    for toleration in tolerations.iter().filter(|toleration| tolerates(toleration, taint)) {
        let secs = number(toleration, &["tolerationSeconds"]).unwrap_or(i64::MAX);
        stays = Some(stays.map_or(secs, |before: i64| before.min(secs)));
    }
    match stays {
        None => Some(since),
        Some(i64::MAX) => None,
        Some(secs) => Some(after_secs(since, secs.max(0))),
    }
}

pub(super) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let effect = text(toleration, &["effect"]);
    let key = text(toleration, &["key"]);
    let exists = text(toleration, &["operator"]) == "Exists";
    (effect.is_empty() || effect == text(taint, &["effect"]))
        && (key == text(taint, &["key"]) || (key.is_empty() && exists))
        && (exists || text(toleration, &["value"]) == text(taint, &["value"]))
}
