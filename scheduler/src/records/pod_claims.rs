//! What the spec of a pod names: resource claims, volume claims and `ConfigMap`s.

use std::collections::BTreeSet;

use schedlab_api::{Value, object_names};
use schedlab_scheduler_core::model::Name;

use super::ObjectKey;
use crate::parse::{annotation, at, list, name, text};

/// Annotation with the prefix of the names of the `ConfigMap`s that tell a pod which GPUs it
/// shares.
pub(crate) const SHARED_GPU_CONFIG_MAP_ANNOTATION: &str = "runai/shared-gpu-configmap";

/// The name inside the pod of the claim for its extended resources, as in kube-scheduler.
const EXTENDED_RESOURCES: &str = "<extended-resources>";

/// A resource claim in the spec of a pod, or the one for its extended resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodResourceClaim {
    /// Name of the claim inside the pod.
    pub(crate) name: Name,
    /// Name of the `ResourceClaim`; `None` until it is created from a template.
    pub(crate) claim: Option<Name>,
}

impl PodResourceClaim {
    pub(crate) fn from_pod(pod: &Value) -> Vec<Self> {
        let made = list(pod, "/status/resourceClaimStatuses");
        let of = |entry: &Value| {
            let own = text(entry, "/name").unwrap_or_default();
            let made = made.iter().find(|status| text(status, "/name") == Some(own));
            let claim = made.unwrap_or(entry);
            Self { name: own.into(), claim: name(claim, "/resourceClaimName") }
        };
        let special = name(pod, "/status/extendedResourceClaimStatus/resourceClaimName");
        let special =
            special.map(|claim| Self { name: EXTENDED_RESOURCES.into(), claim: Some(claim) });
        list(pod, "/spec/resourceClaims").iter().map(of).chain(special).collect()
    }
}

/// A volume claim in the spec of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodVolumeClaim {
    /// Name of the `PersistentVolumeClaim`.
    pub(crate) claim: Name,
    /// Whether the claim is created for the pod (generic ephemeral volume) and must be owned by the
    /// pod.
    pub(crate) is_ephemeral: bool,
}

impl PodVolumeClaim {
    /// The volume claims of a pod; most pods have none.
    pub(crate) fn from_pod(pod: &Value) -> Vec<Self> {
        list(pod, "/spec/volumes")
            .iter()
            .filter_map(|volume| Self::from_volume(pod, volume))
            .collect()
    }

    fn from_volume(pod: &Value, volume: &Value) -> Option<Self> {
        if let Some(claim) = name(volume, "/persistentVolumeClaim/claimName") {
            return Some(Self { claim, is_ephemeral: false });
        }
        at(volume, "/ephemeral/volumeClaimTemplate")?;
        let (pod, own) = (text(pod, "/metadata/name")?, text(volume, "/name")?);
        Some(Self { claim: format!("{pod}-{own}").into(), is_ephemeral: true })
    }

    pub(crate) fn key(&self, namespace: &Name) -> ObjectKey {
        ObjectKey { namespace: Name::clone(namespace), name: Name::clone(&self.claim) }
    }
}

/// The names of the `ConfigMap`s that the containers of a pod require. Left out are volumes that no
/// container mounts, and `ConfigMap`s that the binder creates for a pod that shares GPUs.
pub fn required_config_maps(pod: &Value) -> Vec<Name> {
    let kinds = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
    let containers = || kinds.iter().flat_map(|kind| list(pod, kind));
    let mounts = containers().flat_map(|container| list(container, "/volumeMounts"));
    let mounted: BTreeSet<&str> = mounts.filter_map(|mount| text(mount, "/name")).collect();
    let is_mounted =
        |volume: &&Value| text(volume, "/name").is_some_and(|name| mounted.contains(name));
    let of_volume = |volume: &'_ Value| {
        let sources = list(volume, "/projected/sources").iter().chain([volume]);
        sources.filter_map(|source| required_name(at(source, "/configMap")?)).collect::<Vec<_>>()
    };
    let volumes = list(pod, "/spec/volumes").iter().filter(is_mounted);
    let of_container = |container| {
        let single = list(container, "/env").iter();
        let single = single.filter_map(|one| at(one, "/valueFrom/configMapKeyRef"));
        let whole = list(container, "/envFrom").iter().filter_map(|one| at(one, "/configMapRef"));
        single.chain(whole).filter_map(required_name).collect::<Vec<_>>()
    };
    let named = volumes.flat_map(of_volume).chain(containers().flat_map(of_container));
    let own = annotation(pod, SHARED_GPU_CONFIG_MAP_ANNOTATION);
    let named = named.filter(|name| own.is_none_or(|own| !name.starts_with(own)));
    // The API server mounts it in nearly every pod. Unlike KAI, which requires it as any other,
    // this scheduler does not watch `ConfigMap`s just for it.
    let named = named.filter(|name| **name != *object_names::ROOT_CA_CONFIG_MAP);
    named.collect::<BTreeSet<Name>>().into_iter().collect()
}

fn required_name(reference: &Value) -> Option<Name> {
    if at(reference, "/optional").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    text(reference, "/name").map(Name::from)
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn pod(annotations: &Value, container: &Value, volumes: &Value) -> Value {
        let spec = json!({ "containers": [container], "volumes": volumes });
        json!({ "metadata": { "annotations": annotations }, "spec": spec })
    }

    #[test]
    fn config_maps_that_containers_cannot_start_without_are_required() {
        let container = json!({
            "env": [
                { "name": "A", "value": "b" },
                { "name": "B", "valueFrom": { "configMapKeyRef": { "name": "one", "key": "b" } } },
                { "name": "C", "valueFrom": {
                    "configMapKeyRef": { "name": "maybe", "key": "c", "optional": true } } },
                { "name": "D", "valueFrom": { "secretKeyRef": { "name": "secret", "key": "d" } } },
            ],
            "envFrom": [{ "configMapRef": { "name": "all" } }, { "secretRef": { "name": "secret" } }],
            "volumeMounts": [{ "name": "x" }, { "name": "y" }, { "name": "z" }],
        });
        let projected = json!({ "sources": [
            { "configMap": { "name": "part" } }, { "configMap": { "name": "not", "optional": true } },
            { "secret": { "name": "secret" } },
        ] });
        let volumes = json!([
            { "name": "x", "configMap": { "name": "mounted" } },
            { "name": "y", "projected": (projected) },
            { "name": "z", "configMap": { "name": "perhaps", "optional": true } },
            { "name": "unused", "configMap": { "name": "unmounted" } },
        ]);
        let found = required_config_maps(&pod(&json!({}), &container, &volumes));
        let names: Vec<&str> = found.iter().map(|name| &**name).collect();
        assert_eq!(names, ["all", "mounted", "one", "part"]);
    }

    #[test]
    fn kube_root_ca_is_not_required() {
        let sources = json!([
            { "serviceAccountToken": { "path": "token" } },
            { "configMap": { "name": "kube-root-ca.crt" } },
        ]);
        let volume = json!({ "name": "kube-api-access-x", "projected": { "sources": sources } });
        let container = json!({ "volumeMounts": [{ "name": "kube-api-access-x" }] });
        assert_eq!(required_config_maps(&pod(&json!({}), &container, &json!([volume]))), []);
    }

    #[test]
    fn config_maps_that_the_binder_creates_are_not_required() {
        let annotations = json!({ "runai/shared-gpu-configmap": "mine" });
        let container = json!({ "envFrom": [
            { "configMapRef": { "name": "mine-0" } }, { "configMapRef": { "name": "other" } },
        ] });
        let pod = pod(&annotations, &container, &json!([]));
        assert_eq!(required_config_maps(&pod), ["other".into()]);
    }
}
