//! Patches pods that share GPUs: the sharing container reads its devices and portion from a
//! ConfigMap. The binder writes that ConfigMap before it binds the pod; its name prefix is in
//! annotation `runai/shared-gpu-configmap`.

use schedlab_api::{Value, json};

use super::runtime;
use crate::{
    binder::{GPU_SHARE_VARIABLES, SharingContainer},
    config::GpuReservation,
    parse::{annotation, list, text},
    records::SHARED_GPU_CONFIG_MAP_ANNOTATION,
};

/// Maximum number of characters of the pod's name in the prefix of ConfigMap names. A volume name,
/// which adds suffixes to the prefix, has at most 63 characters.
const CONFIG_MAP_PREFIX_LEN_MAX: usize = 34;

/// JSON patch operations for a pod that shares GPUs.
pub(super) fn gpu_sharing_operations(request: &Value, settings: &GpuReservation) -> Vec<Value> {
    let pod = &request["object"];
    let class = settings.pod_runtime_class.as_deref();
    let mut changes: Vec<Value> =
        class.and_then(|class| runtime::runtime_class_operation(pod, class)).into_iter().collect();
    // If the annotation is set, its writer also added environment and volume.
    let container = SharingContainer::from_pod(pod)
        .filter(|_| annotation(pod, SHARED_GPU_CONFIG_MAP_ANNOTATION).is_none());
    let Some(container) = container else { return changes };
    let start = config_map_prefix(request);
    let map = format!("{start}-{}", container.config_map_suffix());
    let annotation =
        format!("/metadata/annotations/{}", SHARED_GPU_CONFIG_MAP_ANNOTATION.replace('/', "~1"));
    changes.push(add_operation(&annotation, &json!(start)));
    let mut volumes = list(pod, "/spec/volumes").to_vec();
    volumes.push(json!({ "name": format!("{map}-vol"), "configMap": { "name": map } }));
    changes.push(add_operation("/spec/volumes", &Value::Array(volumes)));
    let environment = container_environment(&container, &map);
    changes.push(add_operation(
        &format!("{}/env", container.json_pointer()),
        &Value::Array(environment),
    ));
    changes
}

/// JSON patch operation that sets the value at a path, whether or not there is one.
fn add_operation(path: &str, value: &Value) -> Value {
    json!({ "op": "add", "path": path, "value": value })
}

/// Environment of a container that shares GPUs. The scheduler's variables come first, so that
/// others may refer to them. The pod's own values of these variables are dropped, as they could
/// select GPUs of other pods.
fn container_environment(container: &SharingContainer<'_>, config_map: &str) -> Vec<Value> {
    let from_map = |name: &&str| json!({ "name": name, "valueFrom": { "configMapKeyRef": { "name": config_map, "key": name } } });
    let is_ours = |variable: &&Value| {
        text(variable, "/name").is_some_and(|name| GPU_SHARE_VARIABLES.contains(&name))
    };
    let others = list(container.object, "/env").iter().filter(|variable| !is_ours(variable));
    GPU_SHARE_VARIABLES.iter().map(from_map).chain(others.cloned()).collect()
}

/// Name prefix of the pod's ConfigMaps: the pod's name, with a suffix from the request UID, as
/// several pods may have the same `generateName`.
fn config_map_prefix(request: &Value) -> String {
    let pod = &request["object"];
    let name = text(pod, "/metadata/name").or_else(|| text(pod, "/metadata/generateName"));
    let plain = |char: char| if char == '.' { '-' } else { char };
    let name: String =
        name.unwrap_or("pod").chars().map(plain).take(CONFIG_MAP_PREFIX_LEN_MAX).collect();
    let uid = text(request, "/uid").unwrap_or_default();
    let end = uid.split('-').next().unwrap_or_default();
    format!("{}-{end}-shared-gpu", name.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch_text(pod: &Value) -> String {
        let request = json!({ "uid": "0a1b2c3d-0000", "object": pod });
        let mut settings = GpuReservation::with_image("i");
        settings.pod_runtime_class = Some("nvidia".to_owned());
        let told = |change: Value| format!("{} {}", change["path"], change["value"]);
        gpu_sharing_operations(&request, &settings)
            .into_iter()
            .map(told)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn the_sharing_container_reads_its_devices_from_a_config_map() {
        let pod = json!({
            "metadata": { "name": "a.b", "annotations": { "gpu-fraction": "0.5" } },
            "spec": { "containers": [{ "name": "c", "env": [
                { "name": "NVIDIA_VISIBLE_DEVICES", "value": "all" }, { "name": "X", "value": "1" }] }] },
        });
        insta::assert_snapshot!(patch_text(&pod), @r#"
        "/spec/runtimeClassName" "nvidia"
        "/metadata/annotations/runai~1shared-gpu-configmap" "a-b-0a1b2c3d-shared-gpu"
        "/spec/volumes" [{"configMap":{"name":"a-b-0a1b2c3d-shared-gpu-0"},"name":"a-b-0a1b2c3d-shared-gpu-0-vol"}]
        "/spec/containers/0/env" [{"name":"NVIDIA_VISIBLE_DEVICES","valueFrom":{"configMapKeyRef":{"key":"NVIDIA_VISIBLE_DEVICES","name":"a-b-0a1b2c3d-shared-gpu-0"}}},{"name":"RUNAI_NUM_OF_GPUS","valueFrom":{"configMapKeyRef":{"key":"RUNAI_NUM_OF_GPUS","name":"a-b-0a1b2c3d-shared-gpu-0"}}},{"name":"GPU_PORTION","valueFrom":{"configMapKeyRef":{"key":"GPU_PORTION","name":"a-b-0a1b2c3d-shared-gpu-0"}}},{"name":"X","value":"1"}]
        "#);
    }

    #[test]
    fn the_named_container_is_patched_and_existing_pod_settings_stay() {
        let pod = json!({
            "metadata": { "generateName": "a-very-long-name-of-a-deployment-of-somebody-",
                          "annotations": { "gpu-memory": "100", "gpu-fraction-container-name": "i" } },
            "spec": { "runtimeClassName": "mine", "volumes": [{ "name": "v" }],
                      "containers": [{ "name": "c" }], "initContainers": [{ "name": "i" }] },
        });
        insta::assert_snapshot!(patch_text(&pod), @r#"
        "/metadata/annotations/runai~1shared-gpu-configmap" "a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu"
        "/spec/volumes" [{"name":"v"},{"configMap":{"name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0"},"name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0-vol"}]
        "/spec/initContainers/0/env" [{"name":"NVIDIA_VISIBLE_DEVICES","valueFrom":{"configMapKeyRef":{"key":"NVIDIA_VISIBLE_DEVICES","name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0"}}},{"name":"RUNAI_NUM_OF_GPUS","valueFrom":{"configMapKeyRef":{"key":"RUNAI_NUM_OF_GPUS","name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0"}}},{"name":"GPU_PORTION","valueFrom":{"configMapKeyRef":{"key":"GPU_PORTION","name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0"}}}]
        "#);
        let known = json!({
            "metadata": { "name": "a", "annotations": { SHARED_GPU_CONFIG_MAP_ANNOTATION: "theirs" } },
            "spec": { "containers": [{ "name": "c" }] },
        });
        insta::assert_snapshot!(patch_text(&known), @r#""/spec/runtimeClassName" "nvidia""#);
    }

    #[test]
    fn volume_names_fit_the_length_limit() {
        let request = json!({ "uid": "0a1b2c3d-0000", "object":
            { "metadata": { "name": "x".repeat(200) } } });
        assert!(format!("{}-i10-vol", config_map_prefix(&request)).len() <= 63);
    }
}
