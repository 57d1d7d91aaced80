//! The device taint eviction controller: deletes scheduled pods whose claims have a device with a
//! taint `NoExecute` that they do not tolerate, and reports the progress in `DeviceTaintRule`s.
//!
//! Left out: the number of evicted pods since the start of the controller in the condition of a
//! rule.

mod rule_status;

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::reconcile::fields::{Condition, set_condition, time_after_secs, time_at};
use crate::reconcile::pod_status::{
    bound_group, claims_of, consumers, is_finished, node_name, pod_claims,
};
use crate::reconcile::resources::{DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, conditions,
    object::{is_deleting, list, number, text, uid},
};

const COMPONENT: &str = "device-taint-eviction-controller";
const GATE: &str = "DRADeviceTaints";

/// The device taint eviction controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&PODS, &RESOURCE_CLAIMS, &RESOURCE_SLICES, &DEVICE_TAINT_RULES]),
    keys_to_reconcile,
    reconcile,
};

/// A taint of an allocated device.
struct DeviceTaint<'v> {
    taint: &'v Value,
    /// The rule that adds it; `None` for a taint of the device itself.
    rule: Option<&'v Object>,
}

/// When a pod is evicted, and the uids of the rules that are reasons.
struct Eviction {
    at: Timestamp,
    rules: BTreeSet<String>,
}

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let resource = &change.key.resource;
    let mut pods: Vec<Key> = if *resource == *PODS {
        let uses = |pod: &Value| !node_name(pod).is_empty() && !claims_of(pod).is_empty();
        change.after.iter().filter(|pod| uses(pod)).map(|_| change.key.clone()).collect()
    } else if *resource == *RESOURCE_CLAIMS {
        let claims = change.states();
        claims.flat_map(|claim| consumers(&change.key, claim, cache)).collect()
    } else if *resource == *RESOURCE_SLICES || *resource == *DEVICE_TAINT_RULES {
        let claims = cache.all(&RESOURCE_CLAIMS);
        claims.flat_map(|(key, claim)| consumers(key, claim, cache)).collect()
    } else {
        return Vec::new();
    };
    pods.sort();
    pods.dedup();
    // A rule reports pending pods before they are evicted.
    let rules = cache.all(&DEVICE_TAINT_RULES).map(|(key, _)| key.clone());
    rules.chain(pods).collect()
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(object) = ctx.cache.get(key) else { return ReconcileResult::nothing_to_do() };
    if !ctx.feature_gates.is_enabled(GATE) {
        return ReconcileResult::nothing_to_do();
    }
    if key.resource == *PODS {
        evict(key, object, ctx)
    } else if key.resource == *DEVICE_TAINT_RULES {
        rule_status::report(key, object, ctx)
    } else {
        ReconcileResult::nothing_to_do()
    }
}

/// Deletes a pod at its time.
fn evict(key: &Key, pod: &Object, ctx: &Context) -> ReconcileResult {
    let Some(eviction) = eviction(pod, None, ctx.cache) else {
        return ReconcileResult::nothing_to_do();
    };
    if ctx.now < eviction.at {
        return ReconcileResult::requeue_at(eviction.at);
    }
    let mut target = Value::clone(pod);
    let condition = Condition {
        kind: conditions::DISRUPTION_TARGET,
        status: "True",
        reason: "DeletionByDeviceTaintManager",
        message: "Device Taint manager: deleting due to NoExecute taint",
    };
    set_condition(&mut target, &condition, ctx.now);
    let event = EventSpec {
        component: COMPONENT,
        kind: "Normal",
        reason: "DeviceTaintManagerEviction",
        message: "Marking for deletion".to_owned(),
    };
    let marked = ApiRequest::status_update(key, pod, target);
    let writes = [event.record(pod, ctx)].into_iter().chain(marked);
    ReconcileResult::from_writes(writes.chain([ApiRequest::delete(key, pod)]))
}

/// The eviction of a scheduled pod. A simulated rule counts as if its effect were `NoExecute`.
fn eviction(pod: &Value, simulated: Option<&Object>, cache: &InformerCache) -> Option<Eviction> {
    if node_name(pod).is_empty() || is_deleting(pod) || is_finished(pod) {
        return None;
    }
    let mut eviction: Option<Eviction> = None;
    for result in reserved_devices(pod, cache) {
        for found in taints(result, simulated, cache) {
            let Some(at) = eviction_time(result, found.taint) else { continue };
            let eviction = eviction.get_or_insert_with(|| Eviction { at, rules: BTreeSet::new() });
            eviction.at = eviction.at.min(at);
            eviction.rules.extend(found.rule.map(|rule| uid(rule).to_owned()));
        }
    }
    eviction
}

/// The allocation results of the claims that are reserved for a pod.
fn reserved_devices<'v>(
    pod: &'v Value,
    cache: &'v InformerCache,
) -> impl Iterator<Item = &'v Value> {
    let claims = claims_of(pod).into_iter().filter_map(move |(entry, claim)| {
        let key = Key {
            resource: RESOURCE_CLAIMS.clone(),
            namespace: schedlab_api::object::namespace(pod).into(),
            name: claim.into(),
        };
        cache.get(&key).filter(|claim| is_reserved(claim, pod, entry, cache))
    });
    claims.flat_map(|claim| list(claim, &["status", "allocation", "devices", "results"]))
}

/// Whether a claim is reserved for a pod or for the group of which the pod uses it.
fn is_reserved(claim: &Value, pod: &Value, entry: &str, cache: &InformerCache) -> bool {
    let entry = pod_claims(pod).iter().find(|claim| text(claim, &["name"]) == entry);
    let group = entry.and_then(|entry| bound_group(pod, entry, cache));
    let consumer = group.map_or(uid(pod), |group| uid(group));
    let reserved = list(claim, &["status", "reservedFor"]);
    reserved.iter().any(|user| text(user, &["uid"]) == consumer)
}

/// The taints `NoExecute` of an allocated device.
fn taints<'v>(
    result: &'v Value,
    simulated: Option<&'v Object>,
    cache: &'v InformerCache,
) -> Vec<DeviceTaint<'v>> {
    let of_device = device(result, cache).map_or(&[][..], |device| list(device, &["taints"]));
    let of_device = of_device.iter().map(|taint| DeviceTaint { taint, rule: None });
    let rules = cache.all(&DEVICE_TAINT_RULES).map(|(_, rule)| rule);
    let rules = rules.filter(|rule| matches_device(rule, result));
    let of_rules =
        rules.map(|rule| DeviceTaint { taint: &rule["spec"]["taint"], rule: Some(rule) });
    let is_simulated = |rule: Option<&Object>| {
        simulated.is_some_and(|simulated| rule.is_some_and(|rule| uid(rule) == uid(simulated)))
    };
    let evicts = |found: &DeviceTaint<'_>| {
        text(found.taint, &["effect"]) == "NoExecute" || is_simulated(found.rule)
    };
    of_device.chain(of_rules).filter(evicts).collect()
}

/// The device of an allocation result in the newest generation of its pool.
fn device<'v>(result: &Value, cache: &'v InformerCache) -> Option<&'v Value> {
    let generation = |slice: &Value| number(slice, &["spec", "pool", "generation"]).unwrap_or(0);
    let slices: Vec<&Object> = cache
        .all(&RESOURCE_SLICES)
        .map(|(_, slice)| slice)
        .filter(|slice| {
            text(slice, &["spec", "driver"]) == text(result, &["driver"])
                && text(slice, &["spec", "pool", "name"]) == text(result, &["pool"])
        })
        .collect();
    let newest = slices.iter().map(|slice| generation(slice)).max()?;
    let current = slices.into_iter().filter(|slice| generation(slice) == newest);
    let mut devices = current.flat_map(|slice| list(slice, &["spec", "devices"]));
    devices.find(|device| text(device, &["name"]) == text(result, &["device"]))
}

/// Whether a rule selects the device of an allocation result. A rule without a selector selects
/// none.
fn matches_device(rule: &Value, result: &Value) -> bool {
    let selector = &rule["spec"]["deviceSelector"];
    selector.is_object()
        && ["driver", "pool", "device"]
            .iter()
            .all(|field| selector[*field].is_null() || selector[*field] == result[*field])
}

/// When a taint evicts the pods of an allocated device; `None` if the claim tolerates it forever.
fn eviction_time(result: &Value, taint: &Value) -> Option<Timestamp> {
    let since = time_at(taint, &["timeAdded"]).unwrap_or(Timestamp::MIN);
    let mut stays = None;
    for toleration in list(result, &["tolerations"]) {
        let of = |field: &str| text(toleration, &[field]);
        let is_key = of("key").is_empty() || of("key") == text(taint, &["key"]);
        let is_value = of("operator") == "Exists" || of("value") == text(taint, &["value"]);
        if of("effect") != "NoExecute" || !is_key || !is_value {
            continue;
        }
        let seconds = number(toleration, &["tolerationSeconds"])?.max(0);
        stays = Some(stays.map_or(seconds, |before: i64| before.min(seconds)));
    }
    Some(stays.map_or(since, |seconds| time_after_secs(since, seconds)))
}
