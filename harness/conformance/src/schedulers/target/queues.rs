//! The queue API of a target. Features describe queues and gangs with KAI's API, and steps read and
//! change those objects; for a target with another API they are also translated.

use schedlab_api::{Value, api_versions};

use super::kueue;

/// The API in which the queues of a target are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueApi {
    /// The target has no queues.
    None,
    /// KAI's Queues, `scheduling.run.ai/v2`.
    Kai,
    /// Kueue's `kueue.x-k8s.io/v1beta2`, which holds pods back by a gate.
    Kueue,
}

impl QueueApi {
    /// The queue APIs, by their names in a target file.
    const API_NAMES: [(&str, Self); 3] = [
        (api_versions::QUEUE, Self::Kai),
        (kueue::KUEUE_API_VERSION, Self::Kueue),
        ("none", Self::None),
    ];

    /// The API with this name in a target file.
    ///
    /// # Errors
    /// A message with the known names.
    pub(super) fn from_api_name(name: &str) -> Result<Self, String> {
        let known = Self::API_NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, api)| *api).ok_or_else(|| {
            let names = Self::API_NAMES.map(|(name, _)| name).join(", ");
            format!("queues: got {name:?}, expected {names}")
        })
    }

    /// Objects of the target's own queue API that correspond to these KAI Queues on a cluster with
    /// these nodes. They are cluster-scoped and in the order of creation. `None` if the target uses
    /// KAI's Queues or has no queues.
    pub(crate) fn translated_queue_objects(
        self,
        queues: &[Value],
        nodes: &[Value],
    ) -> Option<Vec<Value>> {
        match self {
            Self::None | Self::Kai => None,
            Self::Kueue => Some(kueue::kueue_objects(queues, nodes)),
        }
    }

    /// Adds the labels of the target's own queue API to those pods and pod templates in these
    /// objects that belong to this scheduler.
    pub(crate) fn assign_queues<'o>(
        self,
        objects: impl IntoIterator<Item = &'o mut Value>,
        scheduler: &str,
    ) {
        match self {
            Self::None | Self::Kai => {}
            Self::Kueue => kueue::assign_queues(objects.into_iter().collect(), scheduler),
        }
    }

    /// The namespaced object (a `LocalQueue`) that must exist before an object to which a queue was
    /// assigned.
    pub(crate) fn local_queue_for(self, object: &Value) -> Option<Value> {
        match self {
            Self::None | Self::Kai => None,
            Self::Kueue => kueue::local_queue_object(object),
        }
    }
}
