//! Webhook configurations that make an API server call component admission.

use schedlab_api::{Value, api_versions, json};

use super::{MUTATE_PODS_PATH, POD_GROUPS_PATH, PODS_PATH, QUEUES_PATH};
use crate::config::Config;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The Service in front of component admission, and the pods that it mutates.
#[derive(Clone, Copy, Debug)]
pub struct WebhookService<'a> {
    /// Namespace of the Service.
    pub namespace: &'a str,
    /// Name of the Service, and of the webhook configurations.
    pub name: &'a str,
    /// CA certificate of the webhook's serving certificate as base64-encoded PEM. `None`: another
    /// tool, such as cert-manager, sets `caBundle`.
    pub ca_bundle: Option<&'a str>,
    /// Name of the scheduler whose pods are mutated.
    pub scheduler_name: &'a str,
    /// Which of the scheduler's pods are mutated.
    pub patched_pods: PatchedPods,
}

/// The pods for which the API server calls the mutating webhook.
#[derive(Clone, Copy, Debug)]
pub enum PatchedPods {
    /// Pods that request a GPU fraction or GPU memory.
    GpuSharing,
    /// All pods: GPUs are hidden from containers that request none, or GPU pods get a runtime
    /// class.
    All,
}

impl PatchedPods {
    /// The pods that a scheduler with this configuration mutates.
    pub const fn for_config(config: &Config) -> Self {
        let gives_class = config.gpu_pod_runtime_class.is_some();
        Self::for_settings([config.block_nvidia_visible_devices, gives_class])
    }

    /// Like [`Self::for_config`], for `[blockNvidiaVisibleDevices is set, gpuPodRuntimeClassName is
    /// set]`.
    pub const fn for_settings([blocks, gives_class]: [bool; 2]) -> Self {
        if blocks || gives_class { Self::All } else { Self::GpuSharing }
    }
}

/// The validating and the mutating webhook configuration.
pub fn webhook_configurations(service: &WebhookService<'_>) -> [Value; 2] {
    let of = |kind: &str, webhooks: Value| {
        json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": service.name },
                "webhooks": webhooks })
    };
    [
        of("ValidatingWebhookConfiguration", validating_webhooks(service)),
        of("MutatingWebhookConfiguration", json!([mutating_webhook(service)])),
    ]
}

fn validating_webhooks(service: &WebhookService<'_>) -> Value {
    let writes = ["CREATE", "UPDATE"];
    let all = ["CREATE", "UPDATE", "DELETE"];
    let mut pods = webhook(service, "pods", PODS_PATH, &webhook_rule("", "v1", "pods", &writes));
    // Pods of all schedulers are reviewed; they must start without this webhook, too.
    pods["failurePolicy"] = "Ignore".into();
    let groups = webhook_rule(api_versions::SCHEDULING_GROUP, "v2alpha2", "podgroups", &writes);
    json!([
        webhook(
            service,
            "queues",
            QUEUES_PATH,
            &webhook_rule(api_versions::SCHEDULING_GROUP, "v2", "queues", &all)
        ),
        webhook(service, "podgroups", POD_GROUPS_PATH, &groups),
        pods,
    ])
}

/// The configuration of the mutating webhook. Its failure policy is `Fail`: a pod that shares GPUs
/// could use all GPUs of its node without the patch.
fn mutating_webhook(service: &WebhookService<'_>) -> Value {
    let ours = Value::from(service.scheduler_name);
    let mut webhook =
        webhook(service, "sharing", MUTATE_PODS_PATH, &webhook_rule("", "v1", "pods", &["CREATE"]));
    let of_ours = json!({
        "name": "of-this-scheduler",
        "expression": format!("has(object.spec.schedulerName) && object.spec.schedulerName == {ours}"),
    });
    // Matches gpu-fraction and gpu-memory.
    let sharing = json!({
        "name": "asks-by-annotation",
        "expression": "has(object.metadata.annotations) && \
                       object.metadata.annotations.exists(key, key.startsWith('gpu'))",
    });
    webhook["matchConditions"] = match service.patched_pods {
        PatchedPods::GpuSharing => json!([of_ours, sharing]),
        PatchedPods::All => json!([of_ours]),
    };
    webhook
}

fn webhook(service: &WebhookService<'_>, name: &str, path: &str, rule: &Value) -> Value {
    let mut client = json!({
        "service": { "namespace": service.namespace, "name": service.name, "path": path },
    });
    if let Some(authority) = service.ca_bundle {
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

fn webhook_rule(group: &str, version: &str, plural: &str, operations: &[&str]) -> Value {
    json!({ "apiGroups": [group], "apiVersions": [version], "resources": [plural],
            "operations": operations })
}
