//! Admission webhooks for Queues, PodGroups and pods. Objects that the scheduler could not use are
//! denied. Validation is that of `cache` and `queues`, which report the same faults in conditions
//! where no webhook is installed; in addition fields are required that KAI's webhooks require. A
//! fault that the old object has, too, causes a warning only, so that it can be corrected step by
//! step. The mutating webhook gives pods that share GPUs their device environment, hides GPUs from
//! containers without GPU request, and sets the runtime class, as configured.

mod configuration;
mod devices;
mod pod;
mod pod_group;
mod queue;
mod runtime;
mod serve;
mod sharing;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use devices::GpuSharing;
use kube::Client;
use schedlab_api::{Value, json};

use crate::{
    api::ApiClient,
    config::{Binding, Config, GpuReservation},
    parse::{Malformed, text},
    records::PodRecord,
};

pub use configuration::{PatchedPods, WebhookService, webhook_configurations};
pub use serve::{Certificate, serve};

const QUEUES_PATH: &str = "/validate-queue";
const POD_GROUPS_PATH: &str = "/validate-podgroup";
const PODS_PATH: &str = "/validate-pod";
const MUTATE_PODS_PATH: &str = "/mutate-pod";

/// The admission webhooks of one scheduler.
#[derive(Clone)]
pub struct Admission {
    api: ApiClient,
    scheduler_name: String,
    /// GPU reservation settings. `None` without binding by requests: then no binder writes the
    /// ConfigMaps that the patched pods need.
    reservation: Option<GpuReservation>,
    /// Containers without GPU request must not see GPUs.
    blocks_devices: bool,
    /// Runtime class for pods that request GPUs and name none.
    runtime_class: Option<String>,
}

/// The outcome of an admission review.
enum ReviewOutcome {
    /// Allowed, with warnings for the client.
    Allowed(Vec<String>),
    /// Allowed, with the operations of a JSON patch.
    Patched(Vec<Value>),
    /// Denied, with the invalid field and the message.
    Denied(String, String),
    /// The review failed with an internal error.
    Failed(String),
}

impl Admission {
    /// Creates the webhooks; `client` reads existing queues.
    pub fn new(client: Client, config: &Config) -> Self {
        let scheduler_name = config.scheduler_name.clone();
        let writes_bind_requests = config.binding == Binding::Requests;
        let reservation = config.gpu_reservation.clone().filter(|_| writes_bind_requests);
        let blocks_devices = config.block_nvidia_visible_devices;
        let api = ApiClient::new(client, scheduler_name.clone());
        let runtime_class = config.gpu_pod_runtime_class.clone();
        Self { api, scheduler_name, reservation, blocks_devices, runtime_class }
    }

    /// Answers an `AdmissionReview` sent to a URL path; `None`: the path is unknown.
    pub async fn review(&self, path: &str, review: &Value) -> Option<Value> {
        let request = &review["request"];
        let verdict = match path {
            QUEUES_PATH => queue::review_queue(&self.api, request).await,
            POD_GROUPS_PATH => {
                let advice = pod_group::negative_delay_warning(&request["object"]);
                with_warning(request, review_object(request, pod_group::pod_group_fault), advice)
            }
            PODS_PATH => review_object(request, |object| self.pod_fault(object)),
            MUTATE_PODS_PATH => ReviewOutcome::Patched(self.pod_patch(request)),
            _ => return None,
        };
        Some(admission_response(review, verdict))
    }

    /// The first fault of a pod of this scheduler; `None` for pods of other schedulers.
    fn pod_fault(&self, object: &Value) -> Option<Malformed> {
        let pod = PodRecord::from_object(object, &self.scheduler_name);
        if !pod.is_ours {
            return None;
        }
        let of_devices = || devices::visible_devices_fault(object).filter(|_| self.blocks_devices);
        pod::pod_fault(&pod).or_else(of_devices)
    }

    /// JSON patch operations for a pod: environment of its GPU share, hidden GPUs, runtime class.
    /// Empty for a pod of another scheduler, or a pod with a fault that validation reports.
    fn pod_patch(&self, request: &Value) -> Vec<Value> {
        let object = &request["object"];
        let pod = PodRecord::from_object(object, &self.scheduler_name);
        if !pod.is_ours || pod.malformed.is_some() {
            return Vec::new();
        }
        let shares = pod.shape.fractional_gpu.map_or(GpuSharing::None, |_| GpuSharing::Shared);
        let mut changes = match (&self.reservation, shares) {
            (Some(settings), GpuSharing::Shared) => {
                sharing::gpu_sharing_operations(request, settings)
            }
            (Some(_) | None, GpuSharing::Shared | GpuSharing::None) => Vec::new(),
        };
        if self.blocks_devices {
            changes.extend(devices::hide_gpus_operations(object, shares));
        }
        if let Some(class) = &self.runtime_class {
            changes.extend(
                runtime::gpu_pod_runtime_class_operation(object, shares, class)
                    .filter(|_| !sets_runtime_class(&changes)),
            );
        }
        changes
    }
}

/// Whether one of the patch operations sets the runtime class.
fn sets_runtime_class(operations: &[Value]) -> bool {
    operations.iter().any(|change| text(change, "/path") == Some(runtime::RUNTIME_CLASS_PATH))
}

/// Reviews an object of which `fault` finds the faults without reading other objects.
fn review_object(request: &Value, fault: impl Fn(&Value) -> Option<Malformed>) -> ReviewOutcome {
    let Some(found) = fault(&request["object"]) else { return ReviewOutcome::Allowed(Vec::new()) };
    deny_or_warn(request, &found, fault(&request["oldObject"]).as_ref())
}

/// Adds a warning about a value with a surprising meaning, unless the object is denied.
fn with_warning(
    request: &Value,
    verdict: ReviewOutcome,
    warning: Option<Malformed>,
) -> ReviewOutcome {
    match verdict {
        ReviewOutcome::Allowed(mut warnings) => {
            warnings.extend(warning.map(|warning| format!("{}: {warning}", object_title(request))));
            ReviewOutcome::Allowed(warnings)
        }
        refused @ (ReviewOutcome::Patched(_)
        | ReviewOutcome::Denied(..)
        | ReviewOutcome::Failed(_)) => refused,
    }
}

/// Denies an object with a new fault; a fault that the old object had as well yields a warning
/// only.
fn deny_or_warn(request: &Value, found: &Malformed, before: Option<&Malformed>) -> ReviewOutcome {
    let message = format!("{}: {found}", object_title(request));
    if before == Some(found) {
        return ReviewOutcome::Allowed(vec![message]);
    }
    ReviewOutcome::Denied(found.field.clone(), message)
}

/// Kind and name of the reviewed object for messages: `PodGroup team/train`.
fn object_title(request: &Value) -> String {
    let of = |pointer| text(request, pointer).unwrap_or_default();
    let name = Some(of("/name")).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| of("/object/metadata/generateName"));
    match of("/namespace") {
        "" => format!("{} {name}", of("/kind/kind")),
        namespace => format!("{} {namespace}/{name}", of("/kind/kind")),
    }
}

fn admission_response(review: &Value, verdict: ReviewOutcome) -> Value {
    let request = &review["request"];
    let mut response = json!({ "uid": request["uid"], "allowed": false });
    match verdict {
        ReviewOutcome::Allowed(warnings) => {
            response["allowed"] = true.into();
            if !warnings.is_empty() {
                response["warnings"] = warnings.into();
            }
        }
        ReviewOutcome::Patched(operations) => {
            response["allowed"] = true.into();
            if !operations.is_empty() {
                response["patchType"] = "JSONPatch".into();
                response["patch"] = STANDARD.encode(Value::Array(operations).to_string()).into();
            }
        }
        ReviewOutcome::Denied(field, why) => {
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
        ReviewOutcome::Failed(why) => {
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
