//! Passes device indices to pods that share GPUs: by the ConfigMaps that KAI's webhook mounts, if
//! the pod names them, and otherwise by the annotation that a CDI-enabled container runtime reads.

use schedlab_api::{Map, Value, annotations, json};
use schedlab_scheduler_core::model::Name;

use super::bind_request::BindRequest;
use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    parse::{annotation, at, list, text, uid},
    records::{ObjectKey, SHARED_GPU_CONFIG_MAP_ANNOTATION},
};

/// Environment variable with the devices that a container sees.
pub(crate) const VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
const PORTION_VARIABLES: [&str; 2] = ["RUNAI_NUM_OF_GPUS", "GPU_PORTION"];

/// Environment variables that a container may read from its ConfigMap: devices, and the portion of
/// each device in two variables.
pub(crate) const GPU_SHARE_VARIABLES: [&str; 3] =
    [VISIBLE_DEVICES, PORTION_VARIABLES[0], PORTION_VARIABLES[1]];

/// The container of a pod that gets the shared devices.
pub(crate) struct SharingContainer<'a> {
    pub(crate) object: &'a Value,
    /// `containers`, or `initContainers`.
    list: &'static str,
    index: usize,
}

impl<'a> SharingContainer<'a> {
    /// The container that annotation `gpu-fraction-container-name` names, or else the first one.
    pub(crate) fn from_pod(pod: &'a Value) -> Option<Self> {
        let container_name = annotation(pod, annotations::GPU_FRACTION_CONTAINER_NAME);
        let mut all = ["containers", "initContainers"].into_iter().flat_map(|of| {
            let all = list(pod, &format!("/spec/{of}")).iter().enumerate();
            all.map(move |(index, object)| Self { object, list: of, index })
        });
        all.find(|one| container_name.is_none_or(|name| text(one.object, "/name") == Some(name)))
    }

    /// Suffix of ConfigMap names for the position of the container: `0`, or `i0` for an init
    /// container.
    pub(crate) fn config_map_suffix(&self) -> String {
        let prefix = if self.list == "initContainers" { "i" } else { "" };
        format!("{prefix}{}", self.index)
    }

    /// JSON Pointer of the container in the pod.
    pub(crate) fn json_pointer(&self) -> String {
        format!("/spec/{}/{}", self.list, self.index)
    }
}

/// CDI annotation that gives devices to a container; `None` if a ConfigMap passes them.
pub(super) fn cdi_annotation(pod: &Value, devices: &[Name]) -> Option<(String, String)> {
    let has_config_map = annotation(pod, SHARED_GPU_CONFIG_MAP_ANNOTATION).is_some();
    let needs_annotation = !devices.is_empty() && !has_config_map;
    let container = SharingContainer::from_pod(pod).filter(|_| needs_annotation)?;
    let name = text(container.object, "/name")?;
    Some((format!("nvidia.cdi.k8s.io/container.{name}"), devices.join(",")))
}

/// Creates or updates the ConfigMaps that the pod names.
pub(super) async fn write_config_maps(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
    pod: &Value,
    devices: &[Name],
) -> Result<(), ApiError> {
    let (Some(prefix), Some(container)) =
        (annotation(pod, SHARED_GPU_CONFIG_MAP_ANNOTATION), SharingContainer::from_pod(pod))
    else {
        return Ok(());
    };
    if devices.is_empty() {
        return Ok(());
    }
    let uid = uid(pod);
    for (name, data) in config_map_manifests(prefix, &container, request, devices) {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": &*key.namespace,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": &*key.name, "uid": &*uid,
                }],
            },
            "data": data,
        });
        let all = object_path("v1", &key.namespace, "configmaps", "");
        let made: Result<Value, ApiError> = api.create(&all, &object).await;
        match made {
            Ok(_) => {}
            Err(ApiError::Conflict(_)) => {
                let one = object_path("v1", &key.namespace, "configmaps", &name);
                let _: Value = api.patch(&one, PatchKind::Merge, &json!({ "data": data })).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The ConfigMap with the environment variables that the container reads one by one, and the
/// ConfigMap that is imported as a whole (`-evar`).
fn config_map_manifests(
    prefix: &str,
    container: &SharingContainer<'_>,
    request: &BindRequest,
    devices: &[Name],
) -> [(String, Map); 2] {
    let mut mounted = Map::new();
    for key in PORTION_VARIABLES {
        mounted.insert(key.to_owned(), json!(&*request.portion));
    }
    let mut environment = Map::new();
    let is_mounted = list(container.object, "/env").iter().any(|variable| {
        variable["name"] == VISIBLE_DEVICES && at(variable, "/valueFrom/configMapKeyRef").is_some()
    });
    let with_devices = if is_mounted { &mut mounted } else { &mut environment };
    with_devices.insert(VISIBLE_DEVICES.to_owned(), json!(devices.join(",")));
    let name = format!("{prefix}-{}", container.config_map_suffix());
    [(name.clone(), mounted), (format!("{name}-evar"), environment)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(annotations: &Value) -> String {
        let pod = json!({
            "metadata": { "annotations": annotations },
            "spec": { "containers": [{ "name": "a" }, { "name": "b", "env": [
                { "name": "NVIDIA_VISIBLE_DEVICES",
                  "valueFrom": { "configMapKeyRef": { "name": "p-1" } } }] }] },
        });
        let request =
            BindRequest::read(&json!({ "spec": { "receivedGPU": { "portion": "0.50" } } }));
        let devices = [Name::from("3")];
        let maps = config_map_manifests(
            "p",
            &SharingContainer::from_pod(&pod).unwrap(),
            &request,
            &devices,
        );
        let maps = maps.map(|(name, data)| format!("{name} {}", Value::Object(data)));
        format!("{:?}\n{}", cdi_annotation(&pod, &devices), maps.join("\n"))
    }

    #[test]
    fn devices_are_passed_by_config_map_or_else_by_cdi_annotation() {
        insta::assert_snapshot!(outputs(&json!({})), @r#"
        Some(("nvidia.cdi.k8s.io/container.a", "3"))
        p-0 {"GPU_PORTION":"0.50","RUNAI_NUM_OF_GPUS":"0.50"}
        p-0-evar {"NVIDIA_VISIBLE_DEVICES":"3"}
        "#);
        insta::assert_snapshot!(outputs(&json!({ "runai/shared-gpu-configmap": "p", "gpu-fraction-container-name": "b" })), @r#"
        None
        p-1 {"GPU_PORTION":"0.50","NVIDIA_VISIBLE_DEVICES":"3","RUNAI_NUM_OF_GPUS":"0.50"}
        p-1-evar {}
        "#);
    }
}
