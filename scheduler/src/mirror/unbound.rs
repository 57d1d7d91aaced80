//! Pods that were given a place and could not be bound to it so far: what the last try failed for,
//! and what cures that. They are tried again, so that they wait for nothing else.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::model::Name;

use super::{Condition, Key, Mirror, PodRecord};

/// The code of that reason, as KAI writes it on pods.
pub(crate) const BINDING_ERROR: &str = "BindingError";

/// Why a pod stands unbound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unbound {
    pub(crate) pod: Key,
    /// What the pod was told of the last try, which names pod and node.
    pub(crate) message: Name,
}

impl Unbound {
    /// Of a pod that has a place: a BindRequest says which, or it is one of those that were to be
    /// bound just now (`tried`). `None`: no try of it has failed.
    pub(crate) fn of_pod((key, pod): (&Key, &PodRecord), tried: &BTreeSet<Key>) -> Option<Self> {
        let has_place = pod.is_requested() || pod.waits() && tried.contains(key);
        let told = failure(pod).filter(|_| pod.ours && has_place)?;
        Some(Self { pod: key.clone(), message: Name::clone(&told.message) })
    }

    /// By pod group, of the first such pod each.
    pub(crate) fn by_group(mirror: &Mirror, tried: &BTreeSet<Key>) -> BTreeMap<Key, Self> {
        let mut first = BTreeMap::new();
        let with_places: BTreeSet<&Key> = mirror.requests.keys().chain(tried).collect();
        let pods = with_places.into_iter().filter_map(|key| mirror.pods.get_key_value(key));
        for (key, pod) in pods {
            if let (Some(unbound), Some(group)) = (Self::of_pod((key, pod), tried), &pod.group) {
                let (namespace, name) = (Name::clone(&key.namespace), Name::clone(group));
                first.entry(Key { namespace, name }).or_insert(unbound);
            }
        }
        first
    }

    /// What cures it.
    pub(crate) fn remedy(&self) -> String {
        let cure = match missing(&self.message) {
            Some((kind, name)) => format!("create {kind} {name}"),
            None => "mend what it failed for".to_owned(),
        };
        format!("{cure}; it is tried again by itself")
    }
}

/// What stands on the pod: the binder's word, or that of a scheduler that binds by itself.
fn failure(pod: &PodRecord) -> Option<&Condition> {
    let is_failure = |told: &&Condition| &*told.status == "False" && *told.reason == *BINDING_ERROR;
    pod.bind_failure.as_ref().or_else(|| pod.told.scheduled.as_ref().filter(is_failure))
}

/// Kind and name of what does not exist, in the words of an API server: `namespaces "x" not found`.
/// A node that is gone is no use creating, and its pod is given another.
fn missing(message: &str) -> Option<(String, &str)> {
    let (before, _) = message.split_once("\" not found")?;
    let (before, name) = before.rsplit_once(" \"")?;
    let kind = before.rsplit(' ').next()?;
    let kind = singular(kind.split('.').next()?);
    (!kind.is_empty() && !["node", "pod"].contains(&kind)).then(|| (kind.to_lowercase(), name))
}

fn singular(kind: &str) -> &str {
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
    fn what_does_not_exist_is_to_be_created_and_else_the_message_says_what_is_to_be_done() {
        let remedy = |message: &str| {
            let pod = Key { namespace: "ns".into(), name: "p".into() };
            let remedy = Unbound { pod, message: message.into() }.remedy();
            remedy.strip_suffix("; it is tried again by itself").unwrap().to_owned()
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
            assert_eq!(failed(other), "mend what it failed for");
        }
    }
}
