//! Config maps that pods need: where one is missing a pod could be bound, and would not start.

use std::collections::BTreeSet;

use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;

use super::{Key, Mirror, PodRecord};
use crate::parse::{annotated, at, list, text};

/// Annotation that begins the names of the config maps by which a pod learns which GPUs it shares.
pub(crate) const CONFIG_MAPS: &str = "runai/shared-gpu-configmap";

/// A controller puts it into every namespace, and the API server mounts it in nearly every pod. KAI
/// asks for it as for any other; here nobody watches config maps for its sake.
const ROOT_CA: &str = "kube-root-ca.crt";

/// Which there are, and who needs any.
#[derive(Debug, Default)]
pub(crate) struct ConfigMaps {
    known: BTreeSet<Key>,
    /// Pods that need some.
    pub(super) users: BTreeSet<Key>,
}

impl ConfigMaps {
    /// What the pod needs that is not there.
    pub(crate) fn missing(&self, pod: &Key, record: &PodRecord) -> Vec<Name> {
        let is_missing = |name: &&Name| {
            let namespace = Name::clone(&pod.namespace);
            !self.known.contains(&Key { namespace, name: Name::clone(name) })
        };
        record.config_maps.iter().filter(is_missing).cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}

impl Mirror {
    pub(super) fn upsert_config_map(&mut self, key: &Key) {
        if self.config_maps.known.insert(key.clone()) {
            self.config_map_changed(key);
        }
    }

    pub(super) fn remove_config_map(&mut self, key: &Key) {
        if self.config_maps.known.remove(key) {
            self.config_map_changed(key);
        }
    }

    fn config_map_changed(&mut self, key: &Key) {
        let waits = |pod: &&Key| {
            let needs =
                |record: &PodRecord| record.waits() && record.config_maps.contains(&key.name);
            pod.namespace == key.namespace && self.pods.get(pod).is_some_and(needs)
        };
        let pods: Vec<Key> = self.config_maps.users.iter().filter(waits).cloned().collect();
        if !pods.is_empty() {
            self.revision += 1;
            self.changes.pods.extend(pods);
        }
    }
}

/// Those without which the containers of a pod do not start, by name. A volume that no container
/// mounts does not count, nor does one that the binder makes for a pod that shares GPUs.
pub(super) fn needed(pod: &Value) -> Vec<Name> {
    let kinds = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
    let containers = || kinds.iter().flat_map(|kind| list(pod, kind));
    let mounts = |volume: &Value| {
        let name = text(volume, "/name");
        let mut mounts = containers().flat_map(|container| list(container, "/volumeMounts"));
        mounts.any(|mount| text(mount, "/name") == name)
    };
    let of_volume = |volume: &'_ Value| {
        let sources = list(volume, "/projected/sources").iter().chain([volume]);
        sources.filter_map(|source| required(at(source, "/configMap")?)).collect::<Vec<_>>()
    };
    let volumes = list(pod, "/spec/volumes").iter().filter(|volume| mounts(volume));
    let of_container = |container| {
        let single = list(container, "/env").iter();
        let single = single.filter_map(|one| at(one, "/valueFrom/configMapKeyRef"));
        let whole = list(container, "/envFrom").iter().filter_map(|one| at(one, "/configMapRef"));
        single.chain(whole).filter_map(required).collect::<Vec<_>>()
    };
    let named = volumes.flat_map(of_volume).chain(containers().flat_map(of_container));
    let own = annotated(pod, CONFIG_MAPS);
    let named = named.filter(|name| own.is_none_or(|own| !name.starts_with(own)));
    let named = named.filter(|name| **name != *ROOT_CA);
    named.collect::<BTreeSet<Name>>().into_iter().collect()
}

fn required(reference: &Value) -> Option<Name> {
    if at(reference, "/optional").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    text(reference, "/name").map(Name::from)
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    fn pod(annotations: &Value, container: &Value, volumes: &Value) -> Value {
        let spec = json!({ "containers": [container], "volumes": volumes });
        json!({ "metadata": { "annotations": annotations }, "spec": spec })
    }

    #[test]
    fn what_a_container_cannot_start_without_is_needed() {
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
        let found = needed(&pod(&json!({}), &container, &volumes));
        let names: Vec<&str> = found.iter().map(|name| &**name).collect();
        assert_eq!(names, ["all", "mounted", "one", "part"]);
    }

    #[test]
    fn what_every_namespace_has_is_not_waited_for() {
        let sources = json!([
            { "serviceAccountToken": { "path": "token" } },
            { "configMap": { "name": "kube-root-ca.crt" } },
        ]);
        let volume = json!({ "name": "kube-api-access-x", "projected": { "sources": sources } });
        let container = json!({ "volumeMounts": [{ "name": "kube-api-access-x" }] });
        assert_eq!(needed(&pod(&json!({}), &container, &json!([volume]))), []);
    }

    #[test]
    fn what_the_binder_makes_is_not_waited_for() {
        let annotations = json!({ "runai/shared-gpu-configmap": "mine" });
        let container = json!({ "envFrom": [
            { "configMapRef": { "name": "mine-0" } }, { "configMapRef": { "name": "other" } },
        ] });
        let pod = pod(&annotations, &container, &json!([]));
        assert_eq!(needed(&pod), ["other".into()]);
    }
}
