//! What has an API server ask component admission.

use schedlab_json::{Value, json};

use super::{POD_GROUPS, PODS, QUEUES, SHARING};
use crate::config::Config;

const API: &str = "admissionregistration.k8s.io/v1";

/// The service in front of the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Service<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The PEM, in base64, of who signed its certificate; without it something else has to fill
    /// it in.
    pub authority: Option<&'a str>,
    /// The scheduler whose pods are changed.
    pub scheduler_name: &'a str,
    /// Which of them.
    pub changed: Changed,
}

/// Which pods of a scheduler are changed; no other one is asked about.
#[derive(Clone, Copy, Debug)]
pub enum Changed {
    /// Those that share GPUs.
    Sharing,
    /// All: those that ask for no GPU are kept from seeing one, or those that do are given a runtime
    /// class.
    All,
}

impl Changed {
    /// Those that a scheduler with this configuration has something to change at.
    pub const fn by(config: &Config) -> Self {
        let gives_class = config.gpu_pod_runtime_class.is_some();
        Self::where_set([config.block_nvidia_visible_devices, gives_class])
    }

    /// The same, where `blockNvidiaVisibleDevices` and `gpuPodRuntimeClassName` are set, or not.
    pub const fn where_set([blocks, gives_class]: [bool; 2]) -> Self {
        if blocks || gives_class { Self::All } else { Self::Sharing }
    }
}

/// The configurations of those that judge and of the one that changes pods.
pub fn configurations(service: &Service<'_>) -> [Value; 2] {
    let of = |kind: &str, webhooks: Value| {
        json!({ "apiVersion": API, "kind": kind, "metadata": { "name": service.name },
                "webhooks": webhooks })
    };
    [
        of("ValidatingWebhookConfiguration", judges(service)),
        of("MutatingWebhookConfiguration", json!([sharing(service)])),
    ]
}

fn judges(service: &Service<'_>) -> Value {
    let writes = ["CREATE", "UPDATE"];
    let all = ["CREATE", "UPDATE", "DELETE"];
    let mut pods = webhook(service, ("pods", PODS), &rule("", "v1", "pods", &writes));
    // Pods of all schedulers are asked about; without us they must start all the same.
    pods["failurePolicy"] = "Ignore".into();
    let groups = rule("scheduling.run.ai", "v2alpha2", "podgroups", &writes);
    json!([
        webhook(service, ("queues", QUEUES), &rule("scheduling.run.ai", "v2", "queues", &all)),
        webhook(service, ("podgroups", POD_GROUPS), &groups),
        pods,
    ])
}

/// Without an answer no such pod is created: one that would not learn which GPUs are its own might
/// use all.
fn sharing(service: &Service<'_>) -> Value {
    let ours = Value::from(service.scheduler_name);
    let mut webhook = webhook(service, ("sharing", SHARING), &rule("", "v1", "pods", &["CREATE"]));
    let of_ours = json!({
        "name": "of-this-scheduler",
        "expression": format!("has(object.spec.schedulerName) && object.spec.schedulerName == {ours}"),
    });
    // gpu-fraction, gpu-memory.
    let sharing = json!({
        "name": "asks-by-annotation",
        "expression": "has(object.metadata.annotations) && \
                       object.metadata.annotations.exists(key, key.startsWith('gpu'))",
    });
    webhook["matchConditions"] = match service.changed {
        Changed::Sharing => json!([of_ours, sharing]),
        Changed::All => json!([of_ours]),
    };
    webhook
}

fn webhook(service: &Service<'_>, (name, path): (&str, &str), rule: &Value) -> Value {
    let mut client = json!({
        "service": { "namespace": service.namespace, "name": service.name, "path": path },
    });
    if let Some(authority) = service.authority {
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
}

fn rule(group: &str, version: &str, plural: &str, operations: &[&str]) -> Value {
    json!({ "apiGroups": [group], "apiVersions": [version], "resources": [plural],
            "operations": operations })
}
