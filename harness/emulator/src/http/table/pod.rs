//! Rows of pods. The status is derived from phase, conditions and container states.

use jiff::Timestamp;

use super::{NONE_TEXT, or_none};
use schedlab_api::{
    Value, json,
    object::{at, condition, is_deleting, list, number, text},
};
use schedlab_api::{conditions, duration::age::since};

pub(super) const COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Status", "string", 0),
    ("Restarts", "string", 0),
    ("Age", "string", 0),
    ("IP", "string", 1),
    ("Node", "string", 1),
    ("Nominated Node", "string", 1),
    ("Readiness Gates", "string", 1),
];

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let state = pod_display(pod);
    vec![
        json!(text(pod, &["metadata", "name"])),
        json!(format!("{}/{}", state.ready, state.total)),
        json!(state.status),
        json!(restarts_text(&state, now)),
        json!(since(at(pod, &["metadata", "creationTimestamp"]), now)),
        json!(or_none(pod_ip(pod))),
        json!(or_none(text(pod, &["spec", "nodeName"]))),
        json!(or_none(text(pod, &["status", "nominatedNodeName"]))),
        json!(readiness_gates(pod)),
    ]
}

/// The condition in the row of a completed pod; `None` for other pods.
pub(super) fn completion_condition(pod: &Value) -> Option<Value> {
    let phase = text(pod, &["status", "phase"]);
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": phase, "message": message}))
}

struct PodDisplay {
    status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Value>,
}

fn pod_ip(pod: &Value) -> &str {
    let first = list(pod, &["status", "podIPs"]).first().map(|ip| text(ip, &["ip"]));
    first.unwrap_or_else(|| text(pod, &["status", "podIP"]))
}

fn pod_display(pod: &Value) -> PodDisplay {
    let sidecars = list(pod, &["spec", "initContainers"]).iter().filter(|c| is_sidecar(c)).count();
    let mut state = PodDisplay {
        status: base_status(pod),
        ready: 0,
        total: list(pod, &["spec", "containers"]).len() + sidecars,
        restarts: 0,
        last_restart: None,
    };
    let is_initialising = apply_init_containers(pod, &mut state);
    if !is_initialising || condition(pod, "Initialized") == Some("True") {
        apply_containers(pod, &mut state);
    }
    if is_deleting(pod) {
        let phase = text(pod, &["status", "phase"]);
        if text(pod, &["status", "reason"]) == "NodeLost" {
            "Unknown".clone_into(&mut state.status);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut state.status);
        }
    }
    state
}

fn base_status(pod: &Value) -> String {
    let reason = text(pod, &["status", "reason"]);
    let mut word = if reason.is_empty() { text(pod, &["status", "phase"]) } else { reason };
    let is_gated = |condition: &&Value| {
        text(condition, &["type"]) == conditions::POD_SCHEDULED
            && text(condition, &["reason"]) == "SchedulingGated"
    };
    if list(pod, &["status", "conditions"]).iter().any(|condition| is_gated(&condition)) {
        word = "SchedulingGated";
    }
    word.to_owned()
}

fn is_sidecar(container: &Value) -> bool {
    text(container, &["restartPolicy"]) == "Always"
}

fn count_restarts(state: &mut PodDisplay, status: &Value) {
    state.restarts += number(status, &["restartCount"]).unwrap_or(0);
    let ended = at(status, &["lastState", "terminated", "finishedAt"]);
    if let Some(ended) = ended.filter(|time| time.is_string()) {
        let is_later =
            state.last_restart.as_ref().is_none_or(|last| last.as_str() < ended.as_str());
        if is_later {
            state.last_restart = Some(ended.clone());
        }
    }
}

/// Applies the init container statuses to what is shown of a pod. Returns whether init containers
/// are still running.
fn apply_init_containers(pod: &Value, state: &mut PodDisplay) -> bool {
    let specs = list(pod, &["spec", "initContainers"]);
    for (index, status) in list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        count_restarts(state, status);
        let name = text(status, &["name"]);
        let sidecar = specs.iter().any(|spec| text(spec, &["name"]) == name && is_sidecar(spec));
        if let Some(ended) = at(status, &["state", "terminated"]) {
            if number(ended, &["exitCode"]) == Some(0) {
                continue;
            }
            state.status = format!("Init:{}", termination_reason(ended));
            return true;
        }
        if sidecar && status["started"] == true {
            state.ready += usize::from(status["ready"] == true);
            continue;
        }
        let waiting = text(status, &["state", "waiting", "reason"]);
        state.status = if waiting.is_empty() || waiting == "PodInitializing" {
            format!("Init:{index}/{}", specs.len())
        } else {
            format!("Init:{waiting}")
        };
        return true;
    }
    false
}

fn termination_reason(terminated: &Value) -> String {
    let reason = text(terminated, &["reason"]);
    if !reason.is_empty() {
        return reason.to_owned();
    }
    match number(terminated, &["signal"]).filter(|signal| *signal != 0) {
        Some(signal) => format!("Signal:{signal}"),
        None => format!("ExitCode:{}", number(terminated, &["exitCode"]).unwrap_or(0)),
    }
}

fn apply_containers(pod: &Value, state: &mut PodDisplay) {
    let mut is_any_running = false;
    for status in list(pod, &["status", "containerStatuses"]).iter().rev() {
        count_restarts(state, status);
        let waiting = text(status, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut state.status);
        } else if let Some(ended) = at(status, &["state", "terminated"]) {
            state.status = termination_reason(ended);
        } else if status["ready"] == true && at(status, &["state", "running"]).is_some() {
            is_any_running = true;
            state.ready += 1;
        }
    }
    if state.status == "Completed" && is_any_running {
        let is_ready = condition(pod, "Ready") == Some("True");
        (if is_ready { "Running" } else { "NotReady" }).clone_into(&mut state.status);
    }
}

fn restarts_text(state: &PodDisplay, now: Timestamp) -> String {
    match &state.last_restart {
        Some(time) if state.restarts > 0 => {
            format!("{} ({} ago)", state.restarts, since(Some(time), now))
        }
        Some(_) | None => state.restarts.to_string(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE_TEXT.to_owned();
    }
    let is_open = |gate: &&Value| condition(pod, text(gate, &["conditionType"])) == Some("True");
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}
