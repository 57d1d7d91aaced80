//! The queue API of a target. Features say queues and who works for them in KAI's words, and
//! steps read and change those; where a target has words of its own, they are said in them, too.

use schedlab_json::Value;

use super::kueue;

/// How a target is told of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueApi {
    /// It knows none.
    None,
    /// KAI's `scheduling.run.ai/v2`.
    Kai,
    /// Kueue's `kueue.x-k8s.io/v1beta2`, which holds pods back by a gate.
    Kueue,
}

impl QueueApi {
    /// Each by its name in a target file.
    const NAMES: [(&str, Self); 3] =
        [("scheduling.run.ai/v2", Self::Kai), (kueue::VERSION, Self::Kueue), ("none", Self::None)];

    /// The one of this name in a target file; else what is allowed.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, api)| *api).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name).join(", ");
            format!("queues: found {name:?}, allowed are {names}")
        })
    }

    /// The cluster-scoped objects that say these queues of KAI's API, on a cluster of these nodes, in the order
    /// of their creation. `None`: KAI's own say it, or nobody wants to know.
    pub(crate) fn retold(self, queues: &[Value], nodes: &[Value]) -> Option<Vec<Value>> {
        match self {
            Self::None | Self::Kai => None,
            Self::Kueue => Some(kueue::queues(queues, nodes)),
        }
    }

    /// Tells of which queue and gang the pods are that these objects are or have templates for;
    /// only those of this scheduler.
    pub(crate) fn enlist<'o>(
        self,
        objects: impl IntoIterator<Item = &'o mut Value>,
        scheduler: &str,
    ) {
        match self {
            Self::None | Self::Kai => {}
            Self::Kueue => kueue::enlist(objects.into_iter().collect(), scheduler),
        }
    }

    /// What has to be in its namespace before an object that was enlisted.
    pub(crate) fn entrance(self, object: &Value) -> Option<Value> {
        match self {
            Self::None | Self::Kai => None,
            Self::Kueue => kueue::local_queue(object),
        }
    }
}
