//! How a pod that shares GPUs learns which: by the config maps that KAI's webhook mounts, where
//! the pod names them, and by the annotation that a container runtime with CDI reads.

use schedlab_json::{Map, Value, json};
use schedlab_scheduler_core::model::Name;

use super::order::Order;
use crate::{
    api::{Api, ApiError, Merge, path},
    mirror::{CONFIG_MAPS, Key},
    parse::{annotated, at, list, text, uid},
};

/// Which devices a container sees.
pub(crate) const DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
const PORTIONS: [&str; 2] = ["RUNAI_NUM_OF_GPUS", "GPU_PORTION"];

/// What a container may take from its config map: which devices, and which part of each.
pub(crate) const SHARE_VARIABLES: [&str; 3] = [DEVICES, PORTIONS[0], PORTIONS[1]];

/// Which container gets the devices.
pub(crate) struct Container<'a> {
    pub(crate) object: &'a Value,
    /// `containers`, or `initContainers`.
    list: &'static str,
    index: usize,
}

impl<'a> Container<'a> {
    /// The container that the pod names, else its first.
    pub(crate) fn of(pod: &'a Value) -> Option<Self> {
        let wanted = annotated(pod, "gpu-fraction-container-name");
        let mut all = ["containers", "initContainers"].into_iter().flat_map(|of| {
            let all = list(pod, &format!("/spec/{of}")).iter().enumerate();
            all.map(move |(index, object)| Self { object, list: of, index })
        });
        all.find(|one| wanted.is_none_or(|wanted| text(one.object, "/name") == Some(wanted)))
    }

    /// `0`, or `i0` for an init container.
    pub(crate) fn position(&self) -> String {
        let prefix = if self.list == "initContainers" { "i" } else { "" };
        format!("{prefix}{}", self.index)
    }

    /// Where it stands in the pod.
    pub(crate) fn pointer(&self) -> String {
        format!("/spec/{}/{}", self.list, self.index)
    }
}

/// The annotation that says it, where no config map does.
pub(super) fn annotation(pod: &Value, devices: &[Name]) -> Option<(String, String)> {
    let tells = !devices.is_empty() && annotated(pod, CONFIG_MAPS).is_none();
    let container = Container::of(pod).filter(|_| tells)?;
    let name = text(container.object, "/name")?;
    Some((format!("nvidia.cdi.k8s.io/container.{name}"), devices.join(",")))
}

/// Writes the config maps that the pod names.
pub(super) async fn write(
    api: &Api,
    (key, order): (&Key, &Order),
    pod: &Value,
    devices: &[Name],
) -> Result<(), ApiError> {
    let (Some(prefix), Some(container)) = (annotated(pod, CONFIG_MAPS), Container::of(pod)) else {
        return Ok(());
    };
    if devices.is_empty() {
        return Ok(());
    }
    let uid = uid(pod);
    for (name, data) in maps(prefix, &container, (order, devices)) {
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
        let all = path("v1", &key.namespace, "configmaps", "");
        let made: Result<Value, ApiError> = api.create(&all, &object).await;
        match made {
            Ok(_) => {}
            Err(ApiError::Conflict(_)) => {
                let one = path("v1", &key.namespace, "configmaps", &name);
                let _: Value = api.patch(&one, Merge::Plain, &json!({ "data": data })).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What the container mounts, and what it takes as its environment.
fn maps(
    prefix: &str,
    container: &Container<'_>,
    (order, devices): (&Order, &[Name]),
) -> [(String, Map); 2] {
    let mut mounted = Map::new();
    for key in PORTIONS {
        mounted.insert(key.to_owned(), json!(&*order.portion));
    }
    let mut environment = Map::new();
    let is_mounted = list(container.object, "/env").iter().any(|variable| {
        variable["name"] == DEVICES && at(variable, "/valueFrom/configMapKeyRef").is_some()
    });
    let with_devices = if is_mounted { &mut mounted } else { &mut environment };
    with_devices.insert(DEVICES.to_owned(), json!(devices.join(",")));
    let name = format!("{prefix}-{}", container.position());
    [(name.clone(), mounted), (format!("{name}-evar"), environment)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(annotations: &Value) -> String {
        let pod = json!({
            "metadata": { "annotations": annotations },
            "spec": { "containers": [{ "name": "a" }, { "name": "b", "env": [
                { "name": "NVIDIA_VISIBLE_DEVICES",
                  "valueFrom": { "configMapKeyRef": { "name": "p-1" } } }] }] },
        });
        let order = Order::read(&json!({ "spec": { "receivedGPU": { "portion": "0.50" } } }));
        let devices = [Name::from("3")];
        let maps = maps("p", &Container::of(&pod).unwrap(), (&order, &devices));
        let maps = maps.map(|(name, data)| format!("{name} {}", Value::Object(data)));
        format!("{:?}\n{}", annotation(&pod, &devices), maps.join("\n"))
    }

    #[test]
    fn the_container_that_asked_learns_its_devices_by_the_way_that_it_has() {
        insta::assert_snapshot!(told(&json!({})), @r#"
        Some(("nvidia.cdi.k8s.io/container.a", "3"))
        p-0 {"GPU_PORTION":"0.50","RUNAI_NUM_OF_GPUS":"0.50"}
        p-0-evar {"NVIDIA_VISIBLE_DEVICES":"3"}
        "#);
        insta::assert_snapshot!(told(&json!({ "runai/shared-gpu-configmap": "p", "gpu-fraction-container-name": "b" })), @r#"
        None
        p-1 {"GPU_PORTION":"0.50","NVIDIA_VISIBLE_DEVICES":"3","RUNAI_NUM_OF_GPUS":"0.50"}
        p-1-evar {}
        "#);
    }
}
