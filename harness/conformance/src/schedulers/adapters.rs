//! Adapters write a scenario's queues and gangs in the API that the target reads.
//!
//! Scenarios describe queues and gangs with KAI's objects: tables become Queues and PodGroups, and
//! manifests may contain them. Steps read and change these objects on every target. For a target
//! that reads another API, an adapter derives the target's objects, labels and annotations from
//! them, in the order *read* ([`Queues`], [`Gang`]), *write*, *read back*. What an API cannot say is
//! [`Unsupported`]: a capability with its reason, with which the scenario is skipped.
//!
//! A new API is one file here, which implements [`QueueAdapter`], [`GangAdapter`] or both, and one
//! variant of [`QueueApi`] or [`GangApi`].

mod coscheduling;
mod description;
mod kai;
mod kubernetes;
mod kueue;
mod translation;
mod volcano;
mod yunikorn;

use std::fmt;

use schedlab_api::{Value, api_versions};

pub(crate) use description::{
    Gang, QueueResource, Queues, WORKLOAD_LABEL, is_kai_pod_group, is_kai_queue,
};
pub(crate) use kai::{put_below_root, root_queue_object};
pub(crate) use translation::Translator;

/// What an API cannot express: the capability that a scenario needs, and why the API lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The name of the capability.
    pub capability: &'static str,
    /// Why the API cannot express it, in one sentence without a full stop.
    pub reason: String,
}

impl Unsupported {
    /// A capability that the API can never express, with the reason from `inexpressible`.
    fn always(inexpressible: &[Inexpressible], capability: &'static str) -> Self {
        let found = inexpressible.iter().find(|(name, _)| *name == capability);
        let reason = found.map_or("the API cannot express it", |(_, reason)| reason);
        Self { capability, reason: reason.to_owned() }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.capability, self.reason)
    }
}

impl std::error::Error for Unsupported {}

/// A capability that an API cannot express for any scenario, with the reason.
pub(crate) type Inexpressible = (&'static str, &'static str);

/// Writes queues in one API.
pub(crate) trait QueueAdapter: Sync {
    /// The capabilities of queues that the API cannot express.
    fn inexpressible(&self) -> &'static [Inexpressible];

    /// The objects of all queues on a cluster with these nodes, in the order of creation. They
    /// replace those that were returned before.
    ///
    /// # Errors
    /// The API cannot express one of the queues.
    fn queue_objects(&self, queues: &Queues, nodes: &[Value]) -> Result<Vec<Value>, Unsupported>;

    /// Puts a pod or pod template into a queue.
    ///
    /// # Errors
    /// The API cannot name the queue.
    fn assign_queue(
        &self,
        pod: &mut Value,
        queue: &str,
        queues: &Queues,
    ) -> Result<(), Unsupported>;

    /// Prepares a pod or pod template for which the scenario names no queue.
    fn assign_no_queue(&self, _pod: &mut Value) {}

    /// The object that must exist in a namespace before a pod of the queue.
    fn namespace_object(&self, _namespace: &str, _queue: &str) -> Option<Value> {
        None
    }

    /// Where the API reports the use of a queue; `None` if it does not.
    fn use_path(&self, _queue: &str) -> Option<String> {
        None
    }

    /// The amount of a resource that a queue's pods hold, as an object at [`Self::use_path`] reports
    /// it, as a quantity. `None` if the object reports none.
    fn reported_use(&self, _object: &Value, _resource: QueueResource) -> Option<Value> {
        None
    }
}

/// What an API reports about a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GangStatus {
    /// Enough pods have been admitted or placed.
    Admitted,
    /// The gang waits; the text says why, and is empty if the API does not say it.
    Pending(String),
}

/// Writes gangs in one API.
pub(crate) trait GangAdapter: Sync {
    /// The capabilities of gangs that the API cannot express.
    fn inexpressible(&self) -> &'static [Inexpressible];

    /// The object that describes a gang; `None` if only the gang's pods do.
    ///
    /// # Errors
    /// The API cannot express the gang.
    fn group_object(&self, gang: &Gang) -> Result<Option<Value>, Unsupported>;

    /// Whether the object of an existing gang can be changed.
    fn can_change_group(&self) -> bool {
        true
    }

    /// Makes a pod or pod template a member of a gang.
    ///
    /// # Errors
    /// The API cannot express the membership.
    fn add_member(&self, pod: &mut Value, gang: &Gang) -> Result<(), Unsupported>;

    /// Prepares a pod or pod template that belongs to no gang. `workload` is the name of its
    /// workload and `namespace` is its namespace.
    fn prepare_single_pod(&self, _pod: &mut Value, _namespace: &str, _workload: &str) {}

    /// Where the API reports on a gang; `None` if it does not.
    fn status_path(&self, _namespace: &str, _gang: &str) -> Option<String> {
        None
    }

    /// An object that the scheduler itself created for a gang and that must be deleted with the
    /// gang's pods to end the gang; `None` if the end of the pods ends it.
    fn path_to_delete(&self, _namespace: &str, _gang: &str) -> Option<String> {
        None
    }

    /// What an object at [`Self::status_path`] reports; `None` if it does not report yet.
    fn gang_status(&self, _object: &Value) -> Option<GangStatus> {
        None
    }
}

/// The API in which the queues of a target are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueApi {
    /// The target has no queues.
    None,
    /// KAI's Queues, `scheduling.run.ai/v2`.
    Kai,
    /// Kueue's `ClusterQueues`, which hold pods back by a gate.
    Kueue,
    /// Volcano's Queues.
    Volcano,
    /// `YuniKorn`'s queue configuration in a `ConfigMap`.
    YuniKorn,
}

/// The API in which the gangs of a target are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GangApi {
    /// The target has no gangs.
    None,
    /// KAI's PodGroups and annotations.
    Kai,
    /// Kueue's groups of plain pods.
    Kueue,
    /// Volcano's PodGroups.
    Volcano,
    /// PodGroups of Kubernetes, since 1.37.
    Kubernetes,
    /// PodGroups of the coscheduling plugin.
    Coscheduling,
    /// `YuniKorn`'s task groups.
    YuniKorn,
}

impl QueueApi {
    /// The queue APIs, by their names in a target file.
    const API_NAMES: [(&str, Self); 5] = [
        (api_versions::QUEUE, Self::Kai),
        (kueue::KUEUE_API_VERSION, Self::Kueue),
        (volcano::VOLCANO_API_VERSION, Self::Volcano),
        ("yunikorn-configs", Self::YuniKorn),
        ("none", Self::None),
    ];

    /// The API with this name in a target file.
    ///
    /// # Errors
    /// A message with the known names.
    pub(super) fn from_api_name(name: &str) -> Result<Self, String> {
        find_api("queues", &Self::API_NAMES, name)
    }

    /// The adapter that writes queues in this API; `None` if scenarios need no translation, because
    /// the target reads KAI's objects.
    pub(crate) fn adapter(self) -> Option<&'static dyn QueueAdapter> {
        match self {
            Self::Kai => None,
            Self::None => Some(&NoQueues),
            Self::Kueue => Some(&kueue::Kueue),
            Self::Volcano => Some(&volcano::Volcano),
            Self::YuniKorn => Some(&yunikorn::YuniKorn),
        }
    }

    /// The gangs of targets whose files do not say in which API they are.
    pub(super) fn usual_gang_api(self) -> GangApi {
        match self {
            Self::None => GangApi::None,
            Self::Kai => GangApi::Kai,
            Self::Kueue => GangApi::Kueue,
            Self::Volcano => GangApi::Volcano,
            Self::YuniKorn => GangApi::YuniKorn,
        }
    }
}

impl GangApi {
    /// The gang APIs, by their names in a target file.
    const API_NAMES: [(&str, Self); 7] = [
        (api_versions::POD_GROUP, Self::Kai),
        (kueue::POD_GROUP_NAME_LABEL, Self::Kueue),
        (volcano::VOLCANO_API_VERSION, Self::Volcano),
        (api_versions::WORKLOAD, Self::Kubernetes),
        (coscheduling::COSCHEDULING_API_VERSION, Self::Coscheduling),
        (yunikorn::TASK_GROUPS_ANNOTATION, Self::YuniKorn),
        ("none", Self::None),
    ];

    /// The API with this name in a target file.
    ///
    /// # Errors
    /// A message with the known names.
    pub(super) fn from_api_name(name: &str) -> Result<Self, String> {
        find_api("gangs", &Self::API_NAMES, name)
    }

    /// The adapter that writes gangs in this API; `None` if scenarios need no translation, because
    /// the target reads KAI's objects.
    pub(crate) fn adapter(self) -> Option<&'static dyn GangAdapter> {
        match self {
            Self::Kai => None,
            Self::None => Some(&NoGangs),
            Self::Kueue => Some(&kueue::Kueue),
            Self::Volcano => Some(&volcano::Volcano),
            Self::Kubernetes => Some(&kubernetes::KubernetesPodGroups),
            Self::Coscheduling => Some(&coscheduling::Coscheduling),
            Self::YuniKorn => Some(&yunikorn::YuniKorn),
        }
    }

    /// The feature gate of Kubernetes that gangs in this API need.
    pub(crate) fn feature_gate(self) -> Option<&'static str> {
        (self == Self::Kubernetes).then_some("GenericWorkload")
    }
}

fn find_api<A: Copy>(field: &str, names: &[(&str, A)], name: &str) -> Result<A, String> {
    let known = names.iter().find(|(known, _)| *known == name);
    known.map(|(_, api)| *api).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("{field}: got {name:?}, expected {}", names.join(", "))
    })
}

/// The adapter of targets without queues: pods compete by priority and age alone.
struct NoQueues;

impl QueueAdapter for NoQueues {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        const WHY: &str = "the scheduler has no queues";
        &[
            ("quota", WHY),
            ("hierarchy", WHY),
            ("non-preemptible", WHY),
            ("queue-priority", WHY),
            ("queue-checks", WHY),
            ("min-runtime", WHY),
            ("borrowing", WHY),
            ("reclaim", WHY),
            ("fair-share", WHY),
            ("time-based-fairness", WHY),
        ]
    }

    /// No objects. A limit that no pods can reach need not be written.
    fn queue_objects(&self, queues: &Queues, nodes: &[Value]) -> Result<Vec<Value>, Unsupported> {
        let gpus = translation::total_gpus(nodes);
        for queue in queues.iter() {
            let reachable = QueueResource::ALL.into_iter().find_map(|resource| {
                let limit = queue.bounds(resource).limit?;
                (resource != QueueResource::Gpu || limit < gpus).then_some((resource, limit))
            });
            if let Some((resource, limit)) = reachable {
                let (name, limit) = (&queue.name, resource.quantity(limit));
                let resource = resource.pod_resource();
                let reason = format!(
                    "the scheduler has no queues, and queue {name:?} has a limit of {limit} \
                     {resource}"
                );
                return Err(Unsupported { capability: "quota", reason });
            }
        }
        Ok(Vec::new())
    }

    fn assign_queue(
        &self,
        _pod: &mut Value,
        _queue: &str,
        _queues: &Queues,
    ) -> Result<(), Unsupported> {
        Ok(())
    }
}

/// The adapter of targets without gangs.
struct NoGangs;

const NO_GANGS: &str = "the scheduler starts pods one by one";

impl GangAdapter for NoGangs {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[("gang", NO_GANGS), ("elastic", NO_GANGS), ("sub-groups", NO_GANGS)]
    }

    fn group_object(&self, gang: &Gang) -> Result<Option<Value>, Unsupported> {
        match gang.minimum {
            0 | 1 => Ok(None),
            _ => Err(Unsupported { capability: "gang", reason: NO_GANGS.to_owned() }),
        }
    }

    fn add_member(&self, _pod: &mut Value, _gang: &Gang) -> Result<(), Unsupported> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
