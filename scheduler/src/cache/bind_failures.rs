//! Pods that could not be bound to their node so far: the error of the last attempt, and its
//! remedy. They are retried, so no other reason to wait applies.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::conditions::BINDING_ERROR;
use schedlab_scheduler_core::model::Name;

use super::ClusterCache;
use crate::records::{Condition, ObjectKey, PodRecord};

/// Why a pod with a node is still unbound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BindFailure {
    pub(crate) pod: ObjectKey,
    /// The message of the last attempt, which names pod and node.
    pub(crate) message: Name,
}

impl BindFailure {
    /// The failure of a pod that has a node by its BindRequest, or that is in `tried`: tried in
    /// this cycle, or in its backoff. `None` if no attempt has failed.
    pub(crate) fn failure_of_pod(
        key: &ObjectKey,
        pod: &PodRecord,
        tried: &BTreeSet<ObjectKey>,
    ) -> Option<Self> {
        let has_node = pod.is_bind_requested() || pod.is_waiting() && tried.contains(key);
        let condition = bind_failure_condition(pod).filter(|_| pod.is_ours && has_node)?;
        Some(Self { pod: key.clone(), message: Name::clone(&condition.message) })
    }

    /// The failure of the first pod of each pod group with a failed binding.
    pub(crate) fn first_failure_by_group(
        cache: &ClusterCache,
        tried: &BTreeSet<ObjectKey>,
    ) -> BTreeMap<ObjectKey, Self> {
        let mut first = BTreeMap::new();
        let tried: BTreeSet<ObjectKey> =
            tried.iter().chain(cache.pods_in_bind_backoff()).cloned().collect();
        let with_nodes: BTreeSet<&ObjectKey> = cache.bind_requests.keys().chain(&tried).collect();
        let pods = with_nodes.into_iter().filter_map(|key| cache.pods.get_key_value(key));
        for (key, pod) in pods {
            if let (Some(failure), Some(group)) =
                (Self::failure_of_pod(key, pod, &tried), &pod.group)
            {
                let (namespace, name) = (Name::clone(&key.namespace), Name::clone(group));
                first.entry(ObjectKey { namespace, name }).or_insert(failure);
            }
        }
        first
    }

    /// How to fix the failure.
    pub(crate) fn remedy(&self) -> String {
        remedy(&self.message)
    }
}

/// How to fix a binding that failed with this message.
pub(crate) fn remedy(message: &str) -> String {
    let cure = match missing_object(message) {
        Some((kind, name)) => format!("create {kind} {name}"),
        None => "fix the cause".to_owned(),
    };
    format!("{cure}; binding is retried automatically")
}

/// The condition with the last failed binding of a pod: from the binder, or from a scheduler that
/// binds directly.
pub(super) fn bind_failure_condition(pod: &PodRecord) -> Option<&Condition> {
    let is_failure = |condition: &&Condition| {
        &*condition.status == "False" && *condition.reason == *BINDING_ERROR
    };
    pod.bind_failure.as_ref().or_else(|| pod.reported.pod_scheduled.as_ref().filter(is_failure))
}

/// Kind and name of the missing object in a message of the API server such as `namespaces "x" not
/// found`. A missing node or pod does not count: the pod gets another node.
fn missing_object(message: &str) -> Option<(String, &str)> {
    let (prefix, _) = message.split_once("\" not found")?;
    let (prefix, name) = prefix.rsplit_once(" \"")?;
    let kind = prefix.rsplit(' ').next()?;
    let kind = singular_kind(kind.split('.').next()?);
    (!kind.is_empty() && !["node", "pod"].contains(&kind)).then(|| (kind.to_lowercase(), name))
}

fn singular_kind(kind: &str) -> &str {
    match kind.strip_suffix("es").filter(|kind| kind.ends_with("ss")) {
        Some(class) => class,
        None if kind.ends_with("ss") => kind,
        None => kind.strip_suffix('s').unwrap_or(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_missing_object_to_create() {
        let remedy = |message: &str| {
            let pod = ObjectKey { namespace: "ns".into(), name: "p".into() };
            let remedy = BindFailure { pod, message: message.into() }.remedy();
            remedy.strip_suffix("; binding is retried automatically").unwrap().to_owned()
        };
        let failed = |why: &str| remedy(&format!("Failed to bind pod ns/p to node n: {why}"));
        let reserving = failed("cannot reserve a GPU: namespaces \"reserve\" not found");
        assert_eq!(reserving, "create namespace reserve");
        let claim = failed("resourceclaims.resource.k8s.io \"c\" not found");
        assert_eq!(claim, "create resourceclaim c");
        let class =
            failed("pods \"r\" is forbidden: pod rejected: RuntimeClass \"nvidia\" not found");
        assert_eq!(class, "create runtimeclass nvidia");
        assert_eq!(
            failed("storageclasses.storage.k8s.io \"s\" not found"),
            "create storageclass s"
        );
        for other in ["nodes \"n\" not found", "GPU reservation pod r/g has ended", "\" not found"]
        {
            assert_eq!(failed(other), "fix the cause");
        }
    }
}
