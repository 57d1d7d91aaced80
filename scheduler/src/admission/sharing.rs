//! What a pod that shares GPUs is given on its way into the cluster: the container that gets them
//! takes from a config map which they are and which part of them is its own. The binder writes the
//! config map before it binds the pod; annotation `runai/shared-gpu-configmap` tells it the name.

use schedlab_json::{Value, json};

use super::runtime;
use crate::{
    binder::{Container, SHARE_VARIABLES},
    config::GpuReservation,
    mirror::CONFIG_MAPS,
    parse::{annotated, list, text},
};

/// Longest start of a config map's name: a volume's, with all that comes behind, has 63 characters.
const START_MAX: usize = 34;

/// The operations of a JSON patch.
pub(super) fn changes(request: &Value, settings: &GpuReservation) -> Vec<Value> {
    let pod = &request["object"];
    let class = settings.pod_runtime_class.as_deref();
    let mut changes: Vec<Value> =
        class.and_then(|class| runtime::given(pod, class)).into_iter().collect();
    // Where the name stands already, whoever set it has seen to the rest.
    let container = Container::of(pod).filter(|_| annotated(pod, CONFIG_MAPS).is_none());
    let Some(container) = container else { return changes };
    let start = start(request);
    let map = format!("{start}-{}", container.position());
    let annotation = format!("/metadata/annotations/{}", CONFIG_MAPS.replace('/', "~1"));
    changes.push(set(&annotation, &json!(start)));
    let mut volumes = list(pod, "/spec/volumes").to_vec();
    volumes.push(json!({ "name": format!("{map}-vol"), "configMap": { "name": map } }));
    changes.push(set("/spec/volumes", &Value::Array(volumes)));
    let environment = environment(&container, &map);
    changes.push(set(&format!("{}/env", container.pointer()), &Value::Array(environment)));
    changes
}

/// Puts a value where there may be one.
fn set(path: &str, value: &Value) -> Value {
    json!({ "op": "add", "path": path, "value": value })
}

/// Ours come first, so that others may refer to them; what the pod says of the same is dropped, or
/// it could take the GPUs of others.
fn environment(container: &Container<'_>, map: &str) -> Vec<Value> {
    let from_map = |name: &&str| json!({ "name": name, "valueFrom": { "configMapKeyRef": { "name": map, "key": name } } });
    let is_ours = |variable: &&Value| {
        text(variable, "/name").is_some_and(|name| SHARE_VARIABLES.contains(&name))
    };
    let others = list(container.object, "/env").iter().filter(|variable| !is_ours(variable));
    SHARE_VARIABLES.iter().map(from_map).chain(others.cloned()).collect()
}

/// How the names of the pod's config maps start: like the pod's own, with an end of its own, as
/// many pods may come of one `generateName`.
fn start(request: &Value) -> String {
    let pod = &request["object"];
    let name = text(pod, "/metadata/name").or_else(|| text(pod, "/metadata/generateName"));
    let plain = |char: char| if char == '.' { '-' } else { char };
    let name: String = name.unwrap_or("pod").chars().map(plain).take(START_MAX).collect();
    let uid = text(request, "/uid").unwrap_or_default();
    let end = uid.split('-').next().unwrap_or_default();
    format!("{}-{end}-shared-gpu", name.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pod: &Value) -> String {
        let request = json!({ "uid": "0a1b2c3d-0000", "object": pod });
        let mut settings = GpuReservation::with_image("i");
        settings.pod_runtime_class = Some("nvidia".to_owned());
        let told = |change: Value| format!("{} {}", change["path"], change["value"]);
        changes(&request, &settings).into_iter().map(told).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_container_that_gets_the_share_takes_it_from_a_config_map_of_its_own() {
        let pod = json!({
            "metadata": { "name": "a.b", "annotations": { "gpu-fraction": "0.5" } },
            "spec": { "containers": [{ "name": "c", "env": [
                { "name": "NVIDIA_VISIBLE_DEVICES", "value": "all" }, { "name": "X", "value": "1" }] }] },
        });
        insta::assert_snapshot!(told(&pod), @r#"
        "/spec/runtimeClassName" "nvidia"
        "/metadata/annotations/runai~1shared-gpu-configmap" "a-b-0a1b2c3d-shared-gpu"
        "/spec/volumes" [{"configMap":{"name":"a-b-0a1b2c3d-shared-gpu-0"},"name":"a-b-0a1b2c3d-shared-gpu-0-vol"}]
        "/spec/containers/0/env" [{"name":"NVIDIA_VISIBLE_DEVICES","valueFrom":{"configMapKeyRef":{"key":"NVIDIA_VISIBLE_DEVICES","name":"a-b-0a1b2c3d-shared-gpu-0"}}},{"name":"RUNAI_NUM_OF_GPUS","valueFrom":{"configMapKeyRef":{"key":"RUNAI_NUM_OF_GPUS","name":"a-b-0a1b2c3d-shared-gpu-0"}}},{"name":"GPU_PORTION","valueFrom":{"configMapKeyRef":{"key":"GPU_PORTION","name":"a-b-0a1b2c3d-shared-gpu-0"}}},{"name":"X","value":"1"}]
        "#);
    }

    #[test]
    fn a_named_container_gets_it_and_what_the_pod_says_itself_stays() {
        let pod = json!({
            "metadata": { "generateName": "a-very-long-name-of-a-deployment-of-somebody-",
                          "annotations": { "gpu-memory": "100", "gpu-fraction-container-name": "i" } },
            "spec": { "runtimeClassName": "mine", "volumes": [{ "name": "v" }],
                      "containers": [{ "name": "c" }], "initContainers": [{ "name": "i" }] },
        });
        insta::assert_snapshot!(told(&pod), @r#"
        "/metadata/annotations/runai~1shared-gpu-configmap" "a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu"
        "/spec/volumes" [{"name":"v"},{"configMap":{"name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0"},"name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0-vol"}]
        "/spec/initContainers/0/env" [{"name":"NVIDIA_VISIBLE_DEVICES","valueFrom":{"configMapKeyRef":{"key":"NVIDIA_VISIBLE_DEVICES","name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0"}}},{"name":"RUNAI_NUM_OF_GPUS","valueFrom":{"configMapKeyRef":{"key":"RUNAI_NUM_OF_GPUS","name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0"}}},{"name":"GPU_PORTION","valueFrom":{"configMapKeyRef":{"key":"GPU_PORTION","name":"a-very-long-name-of-a-deployment-o-0a1b2c3d-shared-gpu-i0"}}}]
        "#);
        let known = json!({
            "metadata": { "name": "a", "annotations": { CONFIG_MAPS: "theirs" } },
            "spec": { "containers": [{ "name": "c" }] },
        });
        insta::assert_snapshot!(told(&known), @r#""/spec/runtimeClassName" "nvidia""#);
    }

    #[test]
    fn the_name_of_a_volume_is_never_too_long() {
        let request = json!({ "uid": "0a1b2c3d-0000", "object":
            { "metadata": { "name": "x".repeat(200) } } });
        assert!(format!("{}-i10-vol", start(&request)).len() <= 63);
    }
}
