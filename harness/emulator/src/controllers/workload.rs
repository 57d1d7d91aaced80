//! Functions shared by the workload controllers: owners of changed objects, pods from templates,
//! generated names, and counts.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::reconcile::cache::{InformerCache, ObjectChange, controller_of};
use crate::reconcile::fields::{after_secs, find_condition, time};
use crate::reconcile::pod_status::is_finished;
use crate::reconcile::resources::PODS;
use crate::reconcile::result::{EventSpec, fingerprint};
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object, Resource};
use schedlab_api::{
    Map, Value, conditions, json,
    object::{
        annotation, as_map, at, condition, is_deleting, list, name, namespace, number, set, text,
        uid,
    },
};

/// The alphabet of generated names in Kubernetes: no vowels, no characters that look alike.
pub(super) const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Larger counts are reduced to this value.
const COUNT_MAX: i64 = 1_000_000;
/// The maximum number of pods created in one reconciliation.
pub(super) const BURST: usize = 500;
/// The maximum length of a generated name, which is also used as a label value.
const NAME_MAX: usize = 63;

/// The owners of a kind that a change affects: the changed owner, or the controller of a changed
/// child.
pub(super) fn owner_keys(
    change: &ObjectChange,
    cache: &InformerCache,
    own: &Resource,
    child: &Resource,
) -> Vec<Key> {
    if change.key.resource == *own {
        return change.after.as_ref().map(|_| change.key.clone()).into_iter().collect();
    }
    if change.key.resource != *child {
        return Vec::new();
    }
    let owners = change.states().filter_map(|side| cache.by_uid(controller_of(side)?.uid));
    let mut keys: Vec<Key> = owners.filter(|key| key.resource == *own).cloned().collect();
    keys.dedup();
    keys
}

/// Whether the field at `path` names another managing controller.
pub(super) fn is_managed_elsewhere(object: &Value, path: &[&str], controller: &str) -> bool {
    let manager = text(object, path);
    !manager.is_empty() && manager != controller
}

/// The owner references for an object controlled by `owner`.
pub(super) fn controlled_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": text(owner, &["apiVersion"]),
        "kind": text(owner, &["kind"]),
        "name": name(owner),
        "uid": uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// A new object from the `metadata` and `spec` of a template, controlled by `owner`.
pub(super) fn from_template(template: &Value, owner: &Value, new_name: &str) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = at(template, &["metadata", field]) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.insert("name", json!(new_name));
    metadata.insert("namespace", json!(namespace(owner)));
    metadata.insert("ownerReferences", controlled_by(owner));
    json!({
        "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    })
}

/// A new pod from a template.
pub(super) fn pod_from(template: &Value, owner: &Value, new_name: &str) -> Value {
    let mut pod = from_template(template, owner, new_name);
    set(&mut pod, &["apiVersion"], json!("v1"));
    set(&mut pod, &["kind"], json!("Pod"));
    pod
}

/// A new pod from a template, with `generateName`. `names` are the prefix and the name.
pub(super) fn generated_pod(template: &Value, owner: &Value, names: [&str; 2]) -> Value {
    let [prefix, new_name] = names;
    let mut pod = pod_from(template, owner, new_name);
    set(&mut pod, &["metadata", "generateName"], json!(prefix));
    pod
}

/// Sets labels or annotations of an object or template.
pub(super) fn set_entries(object: &mut Value, field: &str, marks: &[(&str, &str)]) {
    for (key, value) in marks {
        set(object, &["metadata", field, key], json!(value));
    }
}

/// Adds environment variables to every container that does not define them.
pub(super) fn set_env(pod: &mut Value, variables: &[(&str, String)]) {
    let Some(containers) = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut) else {
        return;
    };
    for container in containers {
        let mut all = list(container, &["env"]).to_vec();
        for (variable, value) in variables {
            if !all.iter().any(|one| text(one, &["name"]) == *variable) {
                all.push(json!({"name": variable, "value": value}));
            }
        }
        as_map(container).insert("env", Value::Array(all));
    }
}

/// A free generated name with a suffix of five letters; the same in every run.
pub(super) fn free_name(resource: &Resource, owner: &Value, prefix: &str, ctx: &Context) -> String {
    let room = NAME_MAX - 5;
    let prefix: String = prefix.chars().take(room).collect();
    let mut salt = 0_u64;
    loop {
        let seed = format!("{}/{}/{prefix}/{salt}", uid(owner), ctx.cache.change_count());
        let made = format!("{prefix}{}", encode_letters(fingerprint(&seed), 5));
        let key = Key {
            resource: resource.clone(),
            namespace: namespace(owner).into(),
            name: made.as_str().into(),
        };
        if ctx.cache.get(&key).is_none() {
            return made;
        }
        salt += 1;
    }
}

/// Several free generated pod names.
pub(super) fn free_names(owner: &Value, prefix: &str, count: usize, ctx: &Context) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(count);
    let mut salt = 0_usize;
    while names.len() < count {
        // The salt makes the names different.
        let salted = json!({"metadata": {
            "uid": format!("{}#{salt}", uid(owner)),
            "namespace": namespace(owner),
        }});
        let made = free_name(&PODS, &salted, prefix, ctx);
        if !names.contains(&made) {
            names.push(made);
        }
        salt += 1;
    }
    names
}

/// Encodes a number in letters of generated names.
pub(super) fn encode_letters(mut number: u64, count: usize) -> String {
    let base = LETTERS.len() as u64;
    let mut made = String::with_capacity(count);
    for _ in 0..count {
        let digit =
            usize::try_from(number % base).expect("an index below the number of letters fits");
        made.push(char::from(LETTERS[digit]));
        number /= base;
    }
    made
}

/// A hash of a template in letters.
pub(super) fn template_hash(template: &Value) -> String {
    encode_letters(fingerprint(&template.to_string()), 10)
}

/// Whether a pod counts towards its controller's replicas.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_finished(pod) && !is_deleting(pod)
}

/// Whether a pod is ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    condition(pod, conditions::READY) == Some("True")
}

/// When a pod becomes available: `min_ready_secs` after it became ready. `None` while not ready.
pub(super) fn available_at(pod: &Value, min_ready_secs: i64) -> Option<Timestamp> {
    let ready = find_condition(pod, conditions::READY).filter(|_| is_ready(pod))?;
    let since = time(ready, &["lastTransitionTime"]).unwrap_or(Timestamp::MIN);
    Some(after_secs(since, min_ready_secs.max(0)))
}

/// The surplus pods to delete, in the order of Kubernetes: unscheduled, pending, not ready, cheap
/// and young pods first.
pub(super) fn pods_to_delete<'v>(
    mut pods: Vec<(&'v Key, &'v Object)>,
    count: usize,
) -> Vec<(&'v Key, &'v Object)> {
    pods.sort_by_cached_key(|(key, pod)| {
        let bound = !text(pod, &["spec", "nodeName"]).is_empty();
        let phase = match text(pod, &["status", "phase"]) {
            "Pending" => 0,
            "Running" => 2,
            _ => 1,
        };
        let cost = annotation(pod, "controller.kubernetes.io/pod-deletion-cost");
        let cost: i64 = cost.and_then(|cost| cost.parse().ok()).unwrap_or(0);
        let created = Reverse(text(pod, &["metadata", "creationTimestamp"]).to_owned());
        (bound, phase, is_ready(pod), cost, created, Reverse(Key::clone(key)))
    });
    pods.truncate(count);
    pods
}

/// A count such as `spec.replicas`, limited to a sane range.
pub(super) fn count_at(object: &Value, path: &[&str], default: i64) -> i64 {
    number(object, path).unwrap_or(default).clamp(0, COUNT_MAX)
}

/// The number of items as an API integer.
pub(super) fn api_count<T>(items: impl IntoIterator<Item = T>) -> i64 {
    i64::try_from(items.into_iter().count()).unwrap_or(i64::MAX)
}

/// A count as `usize`; 0 if negative.
pub(super) fn to_size(count: i64) -> usize {
    usize::try_from(count).unwrap_or_default()
}

/// An int-or-percent value of a total; percentages are rounded up if `up`.
pub(super) fn scaled_value(value: Option<&Value>, total: i64, up: bool) -> Option<i64> {
    let value = value?;
    if let Some(whole) = value.as_i64() {
        return Some(whole.max(0));
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredths = percent.max(0).saturating_mul(total);
    Some(if up { hundredths.saturating_add(99) / 100 } else { hundredths / 100 })
}

/// Creates a pod and records an event.
pub(super) fn create_pod(
    pod: Value,
    owner: &Value,
    component: &str,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let message = format!("Created pod: {}", name(&pod));
    let notice = EventSpec { component, kind: "Normal", reason: "SuccessfulCreate", message };
    vec![ApiRequest::create(&PODS, pod), notice.record(owner, ctx)]
}

/// Deletes a pod and records an event.
pub(super) fn delete_pod(
    key: &Key,
    pod: &Object,
    owner: &Value,
    component: &str,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let message = format!("Deleted pod: {}", name(pod));
    let notice = EventSpec { component, kind: "Normal", reason: "SuccessfulDelete", message };
    vec![ApiRequest::delete(key, pod), notice.record(owner, ctx)]
}
