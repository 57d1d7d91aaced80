//! The pod status that a kubelet writes. Each function sets the status of one stage.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::admission::PodRejection;
use super::stage::ContainerExit;
use crate::reconcile::InformerCache;
use crate::reconcile::fields::{Condition, flag_at, format_time, set_condition};
use crate::reconcile::pod_status::{is_finished, node_name};
use crate::reconcile::result::stable_hash;
use schedlab_api::{
    Value, annotations, conditions, json, labels,
    object::{annotation, at, list, name, number, remove, set, text, uid},
    object_names,
};

/// The addresses of a pod: its own and its node's.
pub(super) struct PodAddresses {
    host: String,
    pod: String,
}

/// The addresses for a new pod: that of its node, and one in the node's network that no running pod
/// has.
pub(super) fn free_pod_addresses(pod: &Value, node: &Value, cache: &InformerCache) -> PodAddresses {
    let host = host_address(node);
    if flag_at(pod, &["spec", "hostNetwork"]) {
        return PodAddresses { pod: host.clone(), host };
    }
    let taken: BTreeSet<&str> = cache
        .pods_on(node_name(pod))
        .filter(|(_, other)| !is_finished(other))
        .map(|(_, other)| text(other, &["status", "podIP"]))
        .collect();
    let network = stable_hash(name(node));
    let [second, third] = [(network >> 8) & 0x7f, network & 0xff];
    // A node has two networks of 256 addresses.
    let free = (2_u64..)
        .map(|slot| format!("10.{}.{third}.{}", second * 2 % 256 + (slot >> 8) % 2, slot & 0xff))
        .take(512)
        .find(|address| !taken.contains(address.as_str()));
    PodAddresses { pod: free.unwrap_or_else(|| format!("10.{second}.{third}.1")), host }
}

/// The node's internal address, or one derived from its name.
pub(crate) fn host_address(node: &Value) -> String {
    let addresses = list(node, &["status", "addresses"]);
    let internal = addresses.iter().find(|one| text(one, &["type"]) == "InternalIP");
    if let Some(address) = internal {
        return text(address, &["address"]).to_owned();
    }
    let hash = stable_hash(name(node));
    format!("172.{}.{}.{}", 16 + ((hash >> 16) & 15), (hash >> 8) & 0xff, hash & 0xff)
}

/// Sets the status of a pod that the kubelet has admitted.
pub(super) fn set_admitted(pod: &mut Value, address: &PodAddresses, now: Timestamp) {
    set(pod, &["status", "startTime"], json!(format_time(now)));
    set(pod, &["status", "hostIP"], json!(address.host));
    set(pod, &["status", "hostIPs"], json!([{"ip": address.host}]));
    set(pod, &["status", "podIP"], json!(address.pod));
    set(pod, &["status", "podIPs"], json!([{"ip": address.pod}]));
    set_init_container_statuses(pod, now);
}

/// Sets the status of a pod whose containers are being created.
pub(super) fn set_starting(pod: &mut Value, now: Timestamp) {
    set(pod, &["status", "phase"], json!("Pending"));
    set_conditions(pod, ["True", "True", "False", "False"], "ContainersNotReady", now);
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    set_container_statuses(pod, &|_| waiting.clone(), false);
}

/// Sets the status of a pod whose containers wait, with reason (`state`) and message.
pub(super) fn set_waiting(pod: &mut Value, state: &str, message: &str) {
    let mut waiting = json!({"reason": state});
    if !message.is_empty() {
        set(&mut waiting, &["message"], json!(message));
    }
    let waiting = json!({"waiting": waiting});
    set_container_statuses(pod, &|_| waiting.clone(), false);
}

/// Sets the status of a pod whose containers run and are ready. If they ran before, the restart
/// count increases.
pub(super) fn set_running(pod: &mut Value, now: Timestamp) {
    let again = list(pod, &["status", "containerStatuses"])
        .iter()
        .any(|container| container.get("lastState").is_some_and(|last| last != &json!({})));
    set(pod, &["status", "phase"], json!("Running"));
    record_reserved_gpu(pod);
    set_conditions(pod, ["True", "True", "True", "True"], "", now);
    let started = json!({"running": {"startedAt": format_time(now)}});
    set_container_statuses(pod, &|_| started.clone(), true);
    if again {
        change_container_statuses(pod, |container| {
            let restarts = number(container, &["restartCount"]).unwrap_or(0);
            set(container, &["restartCount"], json!(restarts.saturating_add(1)));
        });
    }
}

/// Emulates KAI's GPU reservation pods, which annotate the GPU that they got.
pub(super) fn record_reserved_gpu(pod: &mut Value) {
    let labels = at(pod, &["metadata", "labels", labels::GPU_GROUP]);
    if labels.is_some()
        && text(pod, &["metadata", "name"]).starts_with(object_names::GPU_RESERVATION_PREFIX)
    {
        let device = annotation(pod, annotations::GPU_DEVICES).unwrap_or_default().to_owned();
        set(pod, &["metadata", "annotations", annotations::RESERVED_GPU_INDEX], json!(device));
    }
}

/// Sets the conditions of a pod that is ready again after its node was unreachable.
pub(super) fn set_ready(pod: &mut Value, now: Timestamp) {
    set_conditions(pod, ["True", "True", "True", "True"], "", now);
}

/// Sets the status of a pod whose containers ended and are not restarted.
pub(super) fn set_finished(pod: &mut Value, exit: &ContainerExit, now: Timestamp) {
    let (phase, reason) =
        if exit.code == 0 { ("Succeeded", "PodCompleted") } else { ("Failed", "PodFailed") };
    set(pod, &["status", "phase"], json!(phase));
    set_conditions(pod, ["False", "True", "False", "False"], reason, now);
    set_container_statuses(pod, &|old| terminated_state(old, exit, now), false);
    end_sidecars(pod, now);
}

/// Sets the status of a pod whose containers ended and were restarted immediately.
pub(super) fn set_restarted(pod: &mut Value, exit: &ContainerExit, now: Timestamp) {
    move_to_last_state(pod, exit, now);
    set_running(pod, now);
}

/// Sets the status of a pod whose containers ended and wait for their restart.
pub(super) fn set_backing_off(pod: &mut Value, exit: &ContainerExit, now: Timestamp) {
    move_to_last_state(pod, exit, now);
    set_conditions(pod, ["True", "True", "False", "False"], "ContainersNotReady", now);
    let waiting = json!({"waiting": {
        "reason": "CrashLoopBackOff",
        "message": "back-off restarting failed container",
    }});
    set_container_statuses(pod, &|_| waiting.clone(), false);
}

/// Sets the status of a pod whose `activeDeadlineSeconds` has ended.
pub(super) fn set_deadline_exceeded(pod: &mut Value, now: Timestamp) {
    set_finished(pod, &ContainerExit::KILLED, now);
    set(pod, &["status", "reason"], json!("DeadlineExceeded"));
    let message = "Pod was active on the node longer than the specified deadline";
    set(pod, &["status", "message"], json!(message));
}

/// Sets the status of a pod that the kubelet has rejected.
pub(super) fn set_pod_rejected(pod: &mut Value, refusal: &PodRejection, now: Timestamp) {
    set(pod, &["status", "phase"], json!("Failed"));
    set(pod, &["status", "reason"], json!(refusal.reason));
    set(pod, &["status", "message"], json!(refusal.message));
    set(pod, &["status", "startTime"], json!(format_time(now)));
    remove(pod, &["status", "containerStatuses"]);
}

/// Sets the four pod conditions that a kubelet reports: sandbox, initialized, containers ready,
/// ready.
fn set_conditions(pod: &mut Value, statuses: [&str; 4], reason: &str, now: Timestamp) {
    let kinds = ["PodReadyToStartContainers", "Initialized", "ContainersReady", conditions::READY];
    for (kind, status) in kinds.into_iter().zip(statuses) {
        let explained = match kind {
            "Initialized" if reason != "PodCompleted" => "",
            "PodReadyToStartContainers" => "",
            _ => reason,
        };
        set_condition(pod, &Condition { kind, status, reason: explained, message: "" }, now);
    }
}

fn set_container_statuses(pod: &mut Value, state: &dyn Fn(&Value) -> Value, ready: bool) {
    let old = list(pod, &["status", "containerStatuses"]).to_vec();
    let made: Vec<Value> = list(pod, &["spec", "containers"])
        .iter()
        .enumerate()
        .map(|(index, container)| {
            let before = old.get(index).cloned().unwrap_or_default();
            let restarts = number(&before, &["restartCount"]).unwrap_or(0);
            json!({
                "name": container_name(container),
                "image": text(container, &["image"]),
                "imageID": text(container, &["image"]),
                "containerID": format!("schedlab://{}/{}", uid(pod), container_name(container)),
                "ready": ready,
                "started": ready,
                "restartCount": restarts,
                "state": state(before.get("state").unwrap_or(&Value::Null)),
                "lastState": before.get("lastState").cloned().unwrap_or_else(|| json!({})),
            })
        })
        .collect();
    set(pod, &["status", "containerStatuses"], Value::Array(made));
}

/// Sets the statuses of the init containers: sidecars are running, others have completed.
fn set_init_container_statuses(pod: &mut Value, now: Timestamp) {
    let made: Vec<Value> = list(pod, &["spec", "initContainers"])
        .iter()
        .map(|container| {
            let stays = is_sidecar(container);
            let started = json!({"running": {"startedAt": format_time(now)}});
            let ended = || terminated_state(&Value::Null, &ContainerExit::from_code(0), now);
            json!({
                "name": container_name(container),
                "image": text(container, &["image"]),
                "imageID": text(container, &["image"]),
                "containerID": format!("schedlab://{}/{}", uid(pod), container_name(container)),
                "ready": true,
                "started": stays,
                "restartCount": 0,
                "state": if stays { started } else { ended() },
                "lastState": {},
            })
        })
        .collect();
    if !made.is_empty() {
        set(pod, &["status", "initContainerStatuses"], Value::Array(made));
    }
}

/// Whether an init container is a sidecar.
pub(super) fn is_sidecar(init_container: &Value) -> bool {
    text(init_container, &["restartPolicy"]) == "Always"
}

/// Ends the sidecars, after the main containers ended.
fn end_sidecars(pod: &mut Value, now: Timestamp) {
    let mut all = list(pod, &["status", "initContainerStatuses"]).to_vec();
    for status in all.iter_mut().filter(|one| at(one, &["state", "running"]).is_some()) {
        let ended = terminated_state(&status["state"], &ContainerExit::from_code(0), now);
        set(status, &["state"], ended);
        set(status, &["ready"], json!(false));
        set(status, &["started"], json!(false));
    }
    if !all.is_empty() {
        set(pod, &["status", "initContainerStatuses"], Value::Array(all));
    }
}

fn container_name(container: &Value) -> &str {
    text(container, &["name"])
}

fn terminated_state(old: &Value, exit: &ContainerExit, now: Timestamp) -> Value {
    let started = match text(old, &["running", "startedAt"]) {
        "" => format_time(now),
        started => started.to_owned(),
    };
    json!({"terminated": {
        "exitCode": exit.code,
        "reason": exit.reason,
        "startedAt": started,
        "finishedAt": format_time(now),
    }})
}

/// Moves the containers' ended run to `lastState`.
fn move_to_last_state(pod: &mut Value, exit: &ContainerExit, now: Timestamp) {
    change_container_statuses(pod, |container| {
        let ended = terminated_state(container.get("state").unwrap_or(&Value::Null), exit, now);
        set(container, &["lastState"], ended);
    });
}

fn change_container_statuses(pod: &mut Value, mut change: impl FnMut(&mut Value)) {
    let mut all = list(pod, &["status", "containerStatuses"]).to_vec();
    all.iter_mut().for_each(&mut change);
    set(pod, &["status", "containerStatuses"], Value::Array(all));
}
