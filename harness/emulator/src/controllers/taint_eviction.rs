//! Taint eviction: deletes pods from nodes whose `NoExecute` taints they do not tolerate, or no
//! longer tolerate.

use jiff::Timestamp;

use crate::reconcile::fields::{Condition, set_condition, time_after_secs, time_at};
use crate::reconcile::pod_status::{is_finished, no_execute_taints, node_name};
use crate::reconcile::resources::{NODES, PODS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::Key;
use schedlab_api::{
    Value, conditions,
    object::{is_deleting, list, name, namespace, number},
    toleration::tolerates,
};

/// The taint eviction controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: "taint-eviction",
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&PODS, &NODES]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let Some(after) = &change.after else { return Vec::new() };
    if change.key.resource == *PODS {
        let tainted =
            node_of_pod(after, cache).is_some_and(|node| no_execute_taints(node).next().is_some());
        return if tainted { vec![change.key.clone()] } else { Vec::new() };
    }
    let before = change.before.as_ref().map_or(&[][..], |node| list(node, &["spec", "taints"]));
    if change.key.resource != *NODES || before == list(after, &["spec", "taints"]) {
        return Vec::new();
    }
    cache.pods_on(&change.key.name).map(|(key, _)| key.clone()).collect()
}

fn node_of_pod<'v>(pod: &Value, cache: &'v InformerCache) -> Option<&'v Value> {
    let name = node_name(pod).into();
    let key = Key { resource: NODES.clone(), namespace: "".into(), name };
    cache.get(&key).map(|node| &**node)
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(pod) = ctx.cache.get(key) else { return ReconcileResult::nothing_to_do() };
    let Some(node) = node_of_pod(pod, ctx.cache) else { return ReconcileResult::nothing_to_do() };
    if is_deleting(pod) || is_finished(pod) {
        return ReconcileResult::nothing_to_do();
    }
    let Some(leaves) = no_execute_taints(node).filter_map(|taint| eviction_time(pod, taint)).min()
    else {
        return ReconcileResult::nothing_to_do();
    };
    if ctx.now < leaves {
        return ReconcileResult::requeue_at(leaves);
    }
    let mut target = Value::clone(pod);
    let condition = Condition {
        kind: conditions::DISRUPTION_TARGET,
        status: "True",
        reason: conditions::DELETION_BY_TAINT_MANAGER,
        message: "Taint manager: deleting due to NoExecute taint",
    };
    set_condition(&mut target, &condition, ctx.now);
    let notice = EventSpec {
        component: "taint-eviction-controller",
        kind: "Normal",
        reason: "TaintManagerEviction",
        message: format!("Marking for deletion Pod {}/{}", namespace(pod), name(pod)),
    };
    let marked = ApiRequest::status_update(key, pod, target).into_iter();
    ReconcileResult::from_writes(
        marked.chain([notice.record(pod, ctx), ApiRequest::delete(key, pod)]),
    )
}

/// The time at which a taint evicts a pod; `None` if the pod tolerates the taint forever.
fn eviction_time(pod: &Value, taint: &Value) -> Option<Timestamp> {
    let since = time_at(taint, &["timeAdded"]).unwrap_or(Timestamp::MIN);
    let tolerations = list(pod, &["spec", "tolerations"]);
    let mut stays = None;
    for toleration in tolerations.iter().filter(|toleration| tolerates(toleration, taint)) {
        let secs = number(toleration, &["tolerationSeconds"]).unwrap_or(i64::MAX);
        stays = Some(stays.map_or(secs, |before: i64| before.min(secs)));
    }
    match stays {
        None => Some(since),
        Some(i64::MAX) => None,
        Some(secs) => Some(time_after_secs(since, secs.max(0))),
    }
}
