//! In which words a scheduler reports reasons and events. What a scheduler does must not depend on
//! what it says: claims about words are judged only on a target that uses these words.

use serde::Deserialize;

/// The words of a target, as its target file declares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Words {
    /// The target uses words of its own: no claim about words is judged.
    #[default]
    None,
    /// Those of kube-scheduler.
    Kubernetes,
    /// Those of KAI.
    Kai,
    /// Those of KAI and, where KAI says nothing or less, our own; with profile `kube`, those of
    /// kube-scheduler.
    Schedlab,
}

/// Whose words a feature quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Words of kube-scheduler.
    Kubernetes,
    /// Words of KAI.
    Kai,
    /// Words that only our scheduler uses.
    Schedlab,
}

impl Words {
    /// Whether the target uses the words of this dialect.
    pub(crate) fn include(self, dialect: Dialect) -> bool {
        match self {
            Self::None => false,
            Self::Kubernetes => dialect == Dialect::Kubernetes,
            Self::Kai => dialect == Dialect::Kai,
            Self::Schedlab => true,
        }
    }
}

/// Parts of the messages, event reasons and annotations of KAI's scheduler, binder and pod grouper,
/// and of those of Kubernetes' plugins that KAI passes on: as KAI v0.12.0 has them.
const KAI_MESSAGE_PARTS: [&str; 38] = [
    "cannot allocate all claims",
    "currently 2 exist",
    "currently 3 exist",
    "currently 4 exist",
    "didn't find available persistent volumes to bind",
    "didn't have enough resources: GPUs",
    "evicting remaining pod",
    "evictor-",
    "exceed max volume count",
    "had untolerated taint",
    "can allocate only",
    "are required for gang scheduling",
    "for gang scheduling",
    "free ports for the requested pod ports",
    "match Pod's node affinity/selector",
    "match pod affinity rules",
    "match pod anti-affinity rules",
    "minimum required number of pods",
    "Missing required configmaps",
    "node(s) were unschedulable",
    "Non-preemptible workload is over quota",
    "NotReady",
    "num-evicted-pods",
    "pod has unbound immediate PersistentVolumeClaims",
    "quota has reached the allowable limit",
    "reached the allowable limit of GPUs",
    "GPUs allocated and workload requested",
    "reclaim",
    "resource consolidation",
    "Resources were found for",
    "Resources were not found for",
    "Scheduled",
    "StaleJob",
    "Unschedulable",
    "untolerated taint",
    "volume node affinity conflict",
    "persistentvolumeclaim \"data\" not found",
    "Waiting for",
];

/// Whose words a text is that a feature quotes. `is_kube_profile` says whether the scenario uses
/// the profile `kube`, under which our scheduler speaks as kube-scheduler does.
pub(crate) fn dialect_of(text: &str, is_kube_profile: bool) -> Dialect {
    if is_kube_profile {
        Dialect::Kubernetes
    } else if KAI_MESSAGE_PARTS.iter().any(|part| text.contains(part)) {
        Dialect::Kai
    } else {
        Dialect::Schedlab
    }
}
