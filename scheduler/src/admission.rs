//! Admission webhooks: what the scheduler could not use is refused before it is stored. The rules
//! are those by which objects are read for decisions (`mirror`, `queues`), which tell the same
//! faults in conditions where no webhook is installed; where decisions take what is not said for
//! something, KAI's webhook may want it said, and so do these. What was wrong before is let pass with a
//! warning, or nobody could ever mend it step by step. Pods that share GPUs are given what tells
//! them which, and others see none, where that is wanted.

mod configuration;
mod devices;
mod pod;
mod pod_group;
mod queue;
mod runtime;
mod serve;
mod sharing;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use devices::Shares;
use kube::Client;
use schedlab_json::{Value, json};

use crate::{
    api::Api,
    config::{Binding, Config, GpuReservation},
    mirror::PodRecord,
    parse::{Malformed, text},
};

pub use configuration::{Changed, Service, configurations};
pub use serve::{Certificate, serve};

const QUEUES: &str = "/validate-queue";
const POD_GROUPS: &str = "/validate-podgroup";
const PODS: &str = "/validate-pod";
const SHARING: &str = "/mutate-pod";

/// Judges objects on their way into the cluster.
#[derive(Clone)]
pub struct Admission {
    api: Api,
    scheduler_name: String,
    /// How devices are reserved that pods share, where a binder tells them which: nobody else
    /// writes what they are made to wait for.
    reservation: Option<GpuReservation>,
    /// Containers see the GPUs only that they ask for.
    blocks_devices: bool,
    /// The runtime class of pods that ask for GPUs and name none.
    runtime_class: Option<String>,
}

/// What becomes of an object.
enum Verdict {
    /// It passes, and its writer is told this.
    Allowed(Vec<String>),
    /// It passes, with these operations of a JSON patch.
    Changed(Vec<Value>),
    /// It does not: the field, and why.
    Denied(String, String),
    /// Nobody can say.
    Failed(String),
}

impl Admission {
    /// With a client to look at what is there already.
    pub fn new(client: Client, config: &Config) -> Self {
        let scheduler_name = config.scheduler_name.clone();
        let tells = config.binding == Binding::Requests;
        let reservation = config.gpu_reservation.clone().filter(|_| tells);
        let blocks_devices = config.block_nvidia_visible_devices;
        let api = Api::new(client, scheduler_name.clone());
        let runtime_class = config.gpu_pod_runtime_class.clone();
        Self { api, scheduler_name, reservation, blocks_devices, runtime_class }
    }

    /// Answers an `AdmissionReview` that was sent to a path; `None` when nobody is there.
    pub async fn answer(&self, path: &str, review: &Value) -> Option<Value> {
        let request = &review["request"];
        let verdict = match path {
            QUEUES => queue::judge(&self.api, request).await,
            POD_GROUPS => {
                let advice = pod_group::advice(&request["object"]);
                advised(request, judged(request, pod_group::fault), advice)
            }
            PODS => judged(request, |object| self.fault(object)),
            SHARING => Verdict::Changed(self.changes(request)),
            _ => return None,
        };
        Some(answer(review, verdict))
    }

    /// What is wrong with a pod of this scheduler.
    fn fault(&self, object: &Value) -> Option<Malformed> {
        let pod = PodRecord::read(object, &self.scheduler_name);
        if !pod.ours {
            return None;
        }
        let of_devices = || devices::fault(object).filter(|_| self.blocks_devices);
        pod::fault(&pod).or_else(of_devices)
    }

    /// What a pod of this scheduler is given: the share that it has of GPUs, and no sight of others.
    /// One that is wrong gets nothing: it is refused, or told so.
    fn changes(&self, request: &Value) -> Vec<Value> {
        let object = &request["object"];
        let pod = PodRecord::read(object, &self.scheduler_name);
        if !pod.ours || pod.malformed.is_some() {
            return Vec::new();
        }
        let shares = pod.shape.shared_gpu.map_or(Shares::Nothing, |_| Shares::Gpus);
        let mut changes = match (&self.reservation, shares) {
            (Some(settings), Shares::Gpus) => sharing::changes(request, settings),
            (Some(_) | None, Shares::Gpus | Shares::Nothing) => Vec::new(),
        };
        if self.blocks_devices {
            changes.extend(devices::changes(object, shares));
        }
        if let Some(class) = &self.runtime_class {
            changes.extend(runtime::class_of(object, shares, class).filter(|_| !is_set(&changes)));
        }
        changes
    }
}

/// The pod is given a runtime class already.
fn is_set(changes: &[Value]) -> bool {
    changes.iter().any(|change| text(change, "/path") == Some(runtime::PATH))
}

/// By what is wrong with an object alone.
fn judged(request: &Value, fault: impl Fn(&Value) -> Option<Malformed>) -> Verdict {
    let Some(found) = fault(&request["object"]) else { return Verdict::Allowed(Vec::new()) };
    denied(request, &found, fault(&request["oldObject"]).as_ref())
}

/// Who writes what is not refused is told what of it counts in another way than it looks.
fn advised(request: &Value, verdict: Verdict, advice: Option<Malformed>) -> Verdict {
    match verdict {
        Verdict::Allowed(mut said) => {
            said.extend(advice.map(|advice| format!("{}: {advice}", named(request))));
            Verdict::Allowed(said)
        }
        refused @ (Verdict::Changed(_) | Verdict::Denied(..) | Verdict::Failed(_)) => refused,
    }
}

/// A fault is refused, one that was there before is told.
fn denied(request: &Value, found: &Malformed, before: Option<&Malformed>) -> Verdict {
    let said = format!("{}: {found}", named(request));
    if before == Some(found) {
        return Verdict::Allowed(vec![said]);
    }
    Verdict::Denied(found.field.clone(), said)
}

/// As messages name the object: `PodGroup team/train`.
fn named(request: &Value) -> String {
    let of = |pointer| text(request, pointer).unwrap_or_default();
    let name = Some(of("/name")).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| of("/object/metadata/generateName"));
    match of("/namespace") {
        "" => format!("{} {name}", of("/kind/kind")),
        namespace => format!("{} {namespace}/{name}", of("/kind/kind")),
    }
}

fn answer(review: &Value, verdict: Verdict) -> Value {
    let request = &review["request"];
    let mut response = json!({ "uid": request["uid"], "allowed": false });
    match verdict {
        Verdict::Allowed(warnings) => {
            response["allowed"] = true.into();
            if !warnings.is_empty() {
                response["warnings"] = warnings.into();
            }
        }
        Verdict::Changed(operations) => {
            response["allowed"] = true.into();
            if !operations.is_empty() {
                response["patchType"] = "JSONPatch".into();
                response["patch"] = STANDARD.encode(Value::Array(operations).to_string()).into();
            }
        }
        Verdict::Denied(field, why) => {
            let cause = json!({ "reason": "FieldValueInvalid", "field": field, "message": why });
            response["status"] = json!({
                "code": 422,
                "reason": "Invalid",
                "message": why,
                "details": {
                    "name": request["name"],
                    "group": request["kind"]["group"],
                    "kind": request["kind"]["kind"],
                    "causes": [cause],
                },
            });
        }
        Verdict::Failed(why) => {
            response["status"] = json!({ "code": 500, "reason": "InternalError", "message": why });
        }
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("of", &self.scheduler_name).finish_non_exhaustive()
    }
}
