//! Hides GPUs from containers that request none (`blockNvidiaVisibleDevices`, as in KAI's
//! admission). Most GPU images set `NVIDIA_VISIBLE_DEVICES` to all GPUs, and the device plugin
//! overrides that only for containers with a GPU request. Pods must not set the variable
//! themselves.

use schedlab_api::{Text, Value, json, resources};
use schedlab_scheduler_core::model::mig_profile_gpus;

use crate::{
    binder::{SharingContainer, VISIBLE_DEVICES},
    parse::{Malformed, annotation, at, list, text},
    records::SHARED_GPU_CONFIG_MAP_ANNOTATION,
};

/// Value of `NVIDIA_VISIBLE_DEVICES` that makes the runtime expose no GPU.
const NO_DEVICES: &str = "void";

const EXPECTED_VISIBLE_DEVICES: &str = "\"void\" or \"none\": the requests of a container determine which GPUs it sees \
                       (blockNvidiaVisibleDevices)";

const CONTAINER_LISTS: [&str; 2] = ["containers", "initContainers"];

/// The fault of the first container that sets `NVIDIA_VISIBLE_DEVICES` itself.
pub(super) fn visible_devices_fault(pod: &Value) -> Option<Malformed> {
    let shared = annotation(pod, SHARED_GPU_CONFIG_MAP_ANNOTATION).and_then(|start| {
        let container = SharingContainer::from_pod(pod)?;
        Some((container.json_pointer(), format!("{start}-{}", container.config_map_suffix())))
    });
    for kind in CONTAINER_LISTS {
        for (index, container) in list(pod, &format!("/spec/{kind}")).iter().enumerate() {
            let here = format!("/spec/{kind}/{index}");
            let map = shared.as_ref().filter(|(pointer, _)| *pointer == here).map(|(_, map)| map);
            let mut variables = list(container, "/env").iter().enumerate();
            let wrong =
                variables.find(|(_, is)| is_visible_devices(is) && !is_allowed_variable(is, map));
            if let Some((variable, found)) = wrong {
                let field = format!("spec.{kind}[{index}].env[{variable}]");
                return Some(Malformed::new(field, variable_text(found), EXPECTED_VISIBLE_DEVICES));
            }
        }
    }
    None
}

fn is_visible_devices(variable: &Value) -> bool {
    text(variable, "/name") == Some(VISIBLE_DEVICES)
}

/// Whether a container may set `NVIDIA_VISIBLE_DEVICES` so: to no device, or from the ConfigMap
/// that the binder writes (`config_map`).
fn is_allowed_variable(variable: &Value, config_map: Option<&String>) -> bool {
    match at(variable, "/valueFrom") {
        Some(_) => text(variable, "/valueFrom/configMapKeyRef/name")
            .is_some_and(|name| config_map.is_some_and(|config_map| config_map == name)),
        None => matches!(text(variable, "/value").unwrap_or_default(), "" | NO_DEVICES | "none"),
    }
}

fn variable_text(variable: &Value) -> String {
    match text(variable, "/value") {
        Some(value) => format!("{VISIBLE_DEVICES} {value:?}"),
        None => format!("{VISIBLE_DEVICES} from another source"),
    }
}

/// JSON patch operations that hide GPUs from containers that request none and do not set the
/// variable.
pub(super) fn hide_gpus_operations(pod: &Value, shares: GpuSharing) -> Vec<Value> {
    let its_own = match shares {
        GpuSharing::Shared => {
            SharingContainer::from_pod(pod).map(|container| container.json_pointer())
        }
        GpuSharing::None => None,
    };
    let mut changes = Vec::new();
    for kind in CONTAINER_LISTS {
        for (index, container) in list(pod, &format!("/spec/{kind}")).iter().enumerate() {
            let pointer = format!("/spec/{kind}/{index}");
            let sets_variable = list(container, "/env").iter().any(is_visible_devices);
            if sets_variable || has_own_devices(container) || its_own.as_ref() == Some(&pointer) {
                continue;
            }
            let mut environment = list(container, "/env").to_vec();
            environment.push(json!({ "name": VISIBLE_DEVICES, "value": NO_DEVICES }));
            let path = format!("{pointer}/env");
            changes.push(json!({ "op": "add", "path": path, "value": environment }));
        }
    }
    changes
}

/// Whether a pod shares GPUs, which one of its containers sees.
#[derive(Clone, Copy)]
pub(super) enum GpuSharing {
    Shared,
    None,
}

/// Whether a container gets devices from a device plugin or by resource claims, which set
/// `NVIDIA_VISIBLE_DEVICES`.
fn has_own_devices(container: &Value) -> bool {
    requests_gpus(container) || !list(container, "/resources/claims").is_empty()
}

/// The containers and init containers of a pod.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|kind| list(pod, &format!("/spec/{kind}")))
}

/// Whether the container requests whole GPUs or MIG instances.
pub(super) fn requests_gpus(container: &Value) -> bool {
    let is_gpu = |(name, amount): (&Text, &Value)| {
        (name == resources::GPU || mig_profile_gpus(name).is_some())
            && !matches!(amount.as_str(), Some("0" | ""))
            && amount.as_i64() != Some(0)
    };
    let of = |which| at(container, which).and_then(Value::as_object);
    let mut all = ["/resources/requests", "/resources/limits"].into_iter().filter_map(of).flatten();
    all.any(is_gpu)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn pod(annotations: &Value, containers: &Value) -> Value {
        json!({ "metadata": { "annotations": annotations }, "spec": { "containers": containers } })
    }

    fn sees(value: &Value) -> Value {
        json!([{ "name": "c", "env": [{ "name": "X", "value": "all" }, value] }])
    }

    fn fault_text(annotations: &Value, containers: &Value) -> String {
        visible_devices_fault(&pod(annotations, containers))
            .map_or_else(String::new, |wrong| wrong.to_string())
    }

    #[test]
    fn a_pod_that_sets_visible_devices_itself_is_rejected() {
        let value = |value: &str| sees(&json!({ "name": VISIBLE_DEVICES, "value": value }));
        assert_snapshot!(fault_text(&json!({}), &value("all")), @r#"spec.containers[0].env[1]: got NVIDIA_VISIBLE_DEVICES "all", expected "void" or "none": the requests of a container determine which GPUs it sees (blockNvidiaVisibleDevices)"#);
        for nothing in ["void", "none", ""] {
            assert_eq!(fault_text(&json!({}), &value(nothing)), "");
        }
        let reference =
            json!({ "name": VISIBLE_DEVICES, "valueFrom": { "secretKeyRef": { "name": "s" } } });
        assert_snapshot!(fault_text(&json!({}), &sees(&reference)), @r#"spec.containers[0].env[1]: got NVIDIA_VISIBLE_DEVICES from another source, expected "void" or "none": the requests of a container determine which GPUs it sees (blockNvidiaVisibleDevices)"#);
        let first = json!({ "spec": { "initContainers": value("0") } });
        assert!(visible_devices_fault(&first).unwrap().field.starts_with("spec.initContainers[0]"));
    }

    #[test]
    fn visible_devices_may_come_from_the_config_map_of_the_binder_only() {
        let from = |map: &str| {
            let key = json!({ "name": map, "key": VISIBLE_DEVICES });
            sees(&json!({ "name": VISIBLE_DEVICES, "valueFrom": { "configMapKeyRef": key } }))
        };
        let share =
            json!({ "gpu-fraction": "0.5", SHARED_GPU_CONFIG_MAP_ANNOTATION: "p-shared-gpu" });
        assert_eq!(fault_text(&share, &from("p-shared-gpu-0")), "");
        assert_ne!(fault_text(&share, &from("mine")), "");
        assert_ne!(fault_text(&json!({}), &from("p-shared-gpu-0")), "");
    }

    #[test]
    fn a_container_without_gpu_request_gets_no_visible_devices() {
        let asks = |resources: Value| json!({ "name": "c", "resources": resources });
        let containers = json!([
            { "name": "plain", "env": [{ "name": "X", "value": "1" }] },
            asks(json!({ "requests": { "nvidia.com/gpu": "1" } })),
            asks(json!({ "limits": { "nvidia.com/mig-1g.5gb": 1 } })),
            asks(json!({ "claims": [{ "name": "gpu" }] })),
            asks(json!({ "requests": { "nvidia.com/gpu": "0" } })),
            { "name": "says", "env": [{ "name": VISIBLE_DEVICES, "value": "none" }] },
        ]);
        let patch_text = |share| {
            let changes = hide_gpus_operations(&pod(&json!({}), &containers), share);
            let lines = changes.iter().map(|is| format!("{} {}", is["path"], is["value"]));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_snapshot!(patch_text(GpuSharing::None), @r#"
        "/spec/containers/0/env" [{"name":"X","value":"1"},{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]
        "/spec/containers/4/env" [{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]
        "#);
        assert_snapshot!(patch_text(GpuSharing::Shared), @r#""/spec/containers/4/env" [{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]"#);
    }
}
