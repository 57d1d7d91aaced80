//! A pod's status as a kubelet writes it. Each function changes a pod's status to one stage.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::admission::Refusal;
use super::stage::Exit;
use super::{is_finished, node_name};
use crate::actors::View;
use crate::actors::fields::{Condition, flag, set_condition, stamp};
use crate::actors::step::fingerprint;
use crate::object::{annotation, at, list, name, number, remove, set, text, uid};
use schedlab_json::{Value, json};

/// A pod's addresses.
pub(super) struct Address {
    host: String,
    pod: String,
}

/// An address in the node's network that no living pod on it has.
pub(super) fn free_address(pod: &Value, node: &Value, view: &View) -> Address {
    let host = host_address(node);
    if flag(pod, &["spec", "hostNetwork"]) {
        return Address { pod: host.clone(), host };
    }
    let taken: BTreeSet<&str> = view
        .pods_on(node_name(pod))
        .filter(|(_, other)| !is_finished(other))
        .map(|(_, other)| text(other, &["status", "podIP"]))
        .collect();
    let network = fingerprint(name(node));
    let [second, third] = [(network >> 8) & 0x7f, network & 0xff];
    // A node holds fewer than a thousand pods; the fifth thousand would repeat an address.
    let free = (2_u64..)
        .map(|slot| format!("10.{}.{third}.{}", second * 2 % 256 + (slot >> 8) % 2, slot & 0xff))
        .take(512)
        .find(|address| !taken.contains(address.as_str()));
    Address { pod: free.unwrap_or_else(|| format!("10.{second}.{third}.1")), host }
}

/// The node's internal address; one made from its name where it has none.
pub(in crate::actors) fn host_address(node: &Value) -> String {
    let addresses = list(node, &["status", "addresses"]);
    let internal = addresses.iter().find(|one| text(one, &["type"]) == "InternalIP");
    if let Some(address) = internal {
        return text(address, &["address"]).to_owned();
    }
    let hash = fingerprint(name(node));
    format!("172.{}.{}.{}", 16 + ((hash >> 16) & 15), (hash >> 8) & 0xff, hash & 0xff)
}

/// Taken by the kubelet.
pub(super) fn admitted(pod: &mut Value, address: &Address, now: Timestamp) {
    set(pod, &["status", "startTime"], json!(stamp(now)));
    set(pod, &["status", "hostIP"], json!(address.host));
    set(pod, &["status", "hostIPs"], json!([{"ip": address.host}]));
    set(pod, &["status", "podIP"], json!(address.pod));
    set(pod, &["status", "podIPs"], json!([{"ip": address.pod}]));
    init_containers(pod, now);
}

/// Its containers are being made.
pub(super) fn starting(pod: &mut Value, now: Timestamp) {
    set(pod, &["status", "phase"], json!("Pending"));
    conditions(pod, ["True", "True", "False", "False"], "ContainersNotReady", now);
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    containers(pod, &|_| waiting.clone(), false);
}

/// Its containers wait to be started, in this state.
pub(super) fn waiting(pod: &mut Value, state: &str, message: &str) {
    let mut waiting = json!({"reason": state});
    if !message.is_empty() {
        set(&mut waiting, &["message"], json!(message));
    }
    let waiting = json!({"waiting": waiting});
    containers(pod, &|_| waiting.clone(), false);
}

/// Its containers run and are ready; those that ran before are started again.
pub(super) fn running(pod: &mut Value, now: Timestamp) {
    let again = list(pod, &["status", "containerStatuses"])
        .iter()
        .any(|container| container.get("lastState").is_some_and(|last| last != &json!({})));
    set(pod, &["status", "phase"], json!("Running"));
    reserved(pod);
    conditions(pod, ["True", "True", "True", "True"], "", now);
    let started = json!({"running": {"startedAt": stamp(now)}});
    containers(pod, &|_| started.clone(), true);
    if again {
        each_container(pod, |container| {
            let restarts = number(container, &["restartCount"]).unwrap_or(0);
            set(container, &["restartCount"], json!(restarts.saturating_add(1)));
        });
    }
}

/// The program of KAI's reservation pods writes down which GPU its pod got.
pub(super) fn reserved(pod: &mut Value) {
    let labels = at(pod, &["metadata", "labels", "runai-gpu-group"]);
    if labels.is_some() && text(pod, &["metadata", "name"]).starts_with("gpu-reservation-") {
        let device = annotation(pod, super::admission::DEVICES).unwrap_or_default().to_owned();
        set(pod, &["metadata", "annotations", "run.ai/reserve_for_gpu_index"], json!(device));
    }
}

/// Its containers run and are ready, and its node can say so again.
pub(super) fn ready(pod: &mut Value, now: Timestamp) {
    conditions(pod, ["True", "True", "True", "True"], "", now);
}

/// Its containers ended for good.
pub(super) fn finished(pod: &mut Value, exit: &Exit, now: Timestamp) {
    let (phase, reason) =
        if exit.code == 0 { ("Succeeded", "PodCompleted") } else { ("Failed", "PodFailed") };
    set(pod, &["status", "phase"], json!(phase));
    conditions(pod, ["False", "True", "False", "False"], reason, now);
    containers(pod, &|old| terminated(old, exit, now), false);
    end_sidecars(pod, now);
}

/// Its containers ended and run again at once.
pub(super) fn restarted(pod: &mut Value, exit: &Exit, now: Timestamp) {
    keep_last(pod, exit, now);
    running(pod, now);
}

/// Its containers ended and wait for their restart.
pub(super) fn backing_off(pod: &mut Value, exit: &Exit, now: Timestamp) {
    keep_last(pod, exit, now);
    conditions(pod, ["True", "True", "False", "False"], "ContainersNotReady", now);
    let waiting = json!({"waiting": {
        "reason": "CrashLoopBackOff",
        "message": "back-off restarting failed container",
    }});
    containers(pod, &|_| waiting.clone(), false);
}

/// `activeDeadlineSeconds` are over.
pub(super) fn overdue(pod: &mut Value, now: Timestamp) {
    finished(pod, &Exit::KILLED, now);
    set(pod, &["status", "reason"], json!("DeadlineExceeded"));
    let message = "Pod was active on the node longer than the specified deadline";
    set(pod, &["status", "message"], json!(message));
}

/// Turned away by the kubelet.
pub(super) fn refused(pod: &mut Value, refusal: &Refusal, now: Timestamp) {
    set(pod, &["status", "phase"], json!("Failed"));
    set(pod, &["status", "reason"], json!(refusal.reason));
    set(pod, &["status", "message"], json!(refusal.message));
    set(pod, &["status", "startTime"], json!(stamp(now)));
    remove(pod, &["status", "containerStatuses"]);
}

/// The four conditions a kubelet keeps: sandbox, initialized, containers ready, ready.
fn conditions(pod: &mut Value, statuses: [&str; 4], reason: &str, now: Timestamp) {
    let kinds = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"];
    for (kind, status) in kinds.into_iter().zip(statuses) {
        let explained = match kind {
            "Initialized" if reason != "PodCompleted" => "",
            "PodReadyToStartContainers" => "",
            _ => reason,
        };
        set_condition(pod, &Condition { kind, status, reason: explained, message: "" }, now);
    }
}

fn containers(pod: &mut Value, state: &dyn Fn(&Value) -> Value, ready: bool) {
    let old = list(pod, &["status", "containerStatuses"]).to_vec();
    let made: Vec<Value> = list(pod, &["spec", "containers"])
        .iter()
        .enumerate()
        .map(|(index, container)| {
            let before = old.get(index).cloned().unwrap_or_default();
            let restarts = number(&before, &["restartCount"]).unwrap_or(0);
            json!({
                "name": name_of(container),
                "image": text(container, &["image"]),
                "imageID": text(container, &["image"]),
                "containerID": format!("schedlab://{}/{}", uid(pod), name_of(container)),
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

/// Init containers have ended at once; sidecars among them run on.
fn init_containers(pod: &mut Value, now: Timestamp) {
    let made: Vec<Value> = list(pod, &["spec", "initContainers"])
        .iter()
        .map(|container| {
            let stays = is_sidecar(container);
            let started = json!({"running": {"startedAt": stamp(now)}});
            let ended = || terminated(&Value::Null, &Exit::of_run(0), now);
            json!({
                "name": name_of(container),
                "image": text(container, &["image"]),
                "imageID": text(container, &["image"]),
                "containerID": format!("schedlab://{}/{}", uid(pod), name_of(container)),
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

/// An init container that runs beside the others: with them it ends.
pub(super) fn is_sidecar(init_container: &Value) -> bool {
    text(init_container, &["restartPolicy"]) == "Always"
}

/// Its sidecars are stopped, after all else.
fn end_sidecars(pod: &mut Value, now: Timestamp) {
    let mut all = list(pod, &["status", "initContainerStatuses"]).to_vec();
    for status in all.iter_mut().filter(|one| at(one, &["state", "running"]).is_some()) {
        let ended = terminated(&status["state"], &Exit::of_run(0), now);
        set(status, &["state"], ended);
        set(status, &["ready"], json!(false));
        set(status, &["started"], json!(false));
    }
    if !all.is_empty() {
        set(pod, &["status", "initContainerStatuses"], Value::Array(all));
    }
}

fn name_of(container: &Value) -> &str {
    text(container, &["name"])
}

fn terminated(old: &Value, exit: &Exit, now: Timestamp) -> Value {
    let started = match text(old, &["running", "startedAt"]) {
        "" => stamp(now),
        started => started.to_owned(),
    };
    json!({"terminated": {
        "exitCode": exit.code,
        "reason": exit.reason,
        "startedAt": started,
        "finishedAt": stamp(now),
    }})
}

/// Moves the run that ended into `lastState`.
fn keep_last(pod: &mut Value, exit: &Exit, now: Timestamp) {
    each_container(pod, |container| {
        let ended = terminated(container.get("state").unwrap_or(&Value::Null), exit, now);
        set(container, &["lastState"], ended);
    });
}

fn each_container(pod: &mut Value, mut change: impl FnMut(&mut Value)) {
    let mut all = list(pod, &["status", "containerStatuses"]).to_vec();
    all.iter_mut().for_each(&mut change);
    set(pod, &["status", "containerStatuses"], Value::Array(all));
}
