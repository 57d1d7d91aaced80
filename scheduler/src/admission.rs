//! Admission webhooks: what the scheduler could not use is refused before it is stored. The rules
//! are those by which objects are read for decisions (`mirror`, `queues`), which tell the same
//! faults in conditions where no webhook is installed. What was wrong before is let pass with a
//! warning, or nobody could ever mend it step by step.

mod queue;
mod serve;

use kube::Client;
use serde_json::{Value, json};

use crate::{
    api::Api,
    config::Config,
    mirror::{GroupRecord, PodRecord},
    parse::{Malformed, text},
};

pub use serve::{Certificate, serve};

const QUEUES: &str = "/validate-queue";
const POD_GROUPS: &str = "/validate-podgroup";
const PODS: &str = "/validate-pod";

/// Judges objects on their way into the cluster.
#[derive(Clone)]
pub struct Admission {
    api: Api,
    scheduler_name: String,
}

/// What becomes of an object.
enum Verdict {
    /// It passes, and its writer is told this.
    Allowed(Vec<String>),
    /// It does not: the field, and why.
    Denied(String, String),
    /// Nobody can say.
    Failed(String),
}

impl Admission {
    /// With a client to look at what is there already.
    pub fn new(client: Client, config: &Config) -> Self {
        let scheduler_name = config.scheduler_name.clone();
        Self { api: Api::new(client, scheduler_name.clone()), scheduler_name }
    }

    /// Answers an `AdmissionReview` that was sent to a path; `None` when nobody is there.
    pub async fn answer(&self, path: &str, review: &Value) -> Option<Value> {
        let request = &review["request"];
        let verdict = match path {
            QUEUES => queue::judge(&self.api, request).await,
            POD_GROUPS => judged(request, |object| GroupRecord::read(object, "").malformed),
            PODS => judged(request, |object| {
                let pod = PodRecord::read(object, &self.scheduler_name);
                pod.malformed.filter(|_| pod.ours)
            }),
            _ => return None,
        };
        Some(answer(review, verdict))
    }
}

/// By what is wrong with an object alone.
fn judged(request: &Value, fault: impl Fn(&Value) -> Option<Malformed>) -> Verdict {
    let Some(found) = fault(&request["object"]) else { return Verdict::Allowed(Vec::new()) };
    denied(request, &found, fault(&request["oldObject"]).as_ref())
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

/// The configuration that has an API server ask the service of this name. `authority` is the
/// PEM, in base64, of who signed its certificate; without it something else has to fill it in.
pub fn configuration(namespace: &str, service: &str, authority: Option<&str>) -> Value {
    let webhook = |name: &str, path: &str, rule: Value| {
        let mut client = json!({
            "service": { "namespace": namespace, "name": service, "path": path },
        });
        if let Some(authority) = authority {
            client["caBundle"] = authority.into();
        }
        json!({
            "name": format!("{name}.admission.kai.scheduler"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 5,
            "failurePolicy": "Fail",
            "clientConfig": client,
            "rules": [rule],
        })
    };
    let rule = |group: &str, version: &str, plural: &str, operations: &[&str]| {
        json!({ "apiGroups": [group], "apiVersions": [version], "resources": [plural],
                "operations": operations })
    };
    let writes = ["CREATE", "UPDATE"];
    let all = ["CREATE", "UPDATE", "DELETE"];
    let mut pods = webhook("pods", PODS, rule("", "v1", "pods", &writes));
    // Pods of all schedulers are asked about; without us they must start all the same.
    pods["failurePolicy"] = "Ignore".into();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": service },
        "webhooks": [
            webhook("queues", QUEUES, rule("scheduling.run.ai", "v2", "queues", &all)),
            webhook(
                "podgroups",
                POD_GROUPS,
                rule("scheduling.run.ai", "v2alpha2", "podgroups", &writes),
            ),
            pods,
        ],
    })
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("of", &self.scheduler_name).finish_non_exhaustive()
    }
}
