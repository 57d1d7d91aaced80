//! Cluster-scoped kinds of which a scenario has objects of its own, under names that nobody else
//! uses: what it sees and what is taken away after it follow this table.

/// A kind, and where its objects are.
pub(crate) struct Fenced {
    folder: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
}

/// In the order in which what is left of them goes: what stands on nodes goes before them.
pub(crate) const FENCED: [Fenced; 15] = [
    Fenced { folder: "/api/v1", plural: NAMESPACES, kind: "Namespace" },
    Fenced { folder: "/apis/scheduling.run.ai/v2", plural: "queues", kind: "Queue" },
    Fenced { folder: KUEUE, plural: "clusterqueues", kind: "ClusterQueue" },
    Fenced { folder: KUEUE, plural: "cohorts", kind: "Cohort" },
    Fenced { folder: KUEUE, plural: "resourceflavors", kind: "ResourceFlavor" },
    Fenced {
        folder: "/apis/trainer.kubeflow.org/v1alpha1",
        plural: "clustertrainingruntimes",
        kind: "ClusterTrainingRuntime",
    },
    Fenced {
        folder: "/apis/scheduling.k8s.io/v1",
        plural: "priorityclasses",
        kind: "PriorityClass",
    },
    Fenced { folder: "/apis/kai.scheduler/v1alpha1", plural: "topologies", kind: "Topology" },
    Fenced { folder: "/apis/run.ai/v1alpha1", plural: "kartas", kind: "Karta" },
    Fenced { folder: "/api/v1", plural: "persistentvolumes", kind: "PersistentVolume" },
    Fenced { folder: STORAGE, plural: "storageclasses", kind: "StorageClass" },
    Fenced { folder: STORAGE, plural: "csinodes", kind: "CSINode" },
    Fenced { folder: DEVICES, plural: "deviceclasses", kind: "DeviceClass" },
    Fenced { folder: DEVICES, plural: "resourceslices", kind: "ResourceSlice" },
    Fenced { folder: "/api/v1", plural: "nodes", kind: "Node" },
];

const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta2";
const STORAGE: &str = "/apis/storage.k8s.io/v1";
const DEVICES: &str = "/apis/resource.k8s.io/v1";
const NAMESPACES: &str = "namespaces";

impl Fenced {
    /// The path of its objects.
    pub(crate) fn collection(&self) -> String {
        format!("{}/{}", self.folder, self.plural)
    }

    /// Other objects are in those of this kind.
    pub(crate) fn is_namespace(&self) -> bool {
        self.plural == NAMESPACES
    }
}

/// Whether objects of a cluster-scoped collection belong to scenarios.
pub(crate) fn is_fenced(plural: &str) -> bool {
    FENCED.iter().any(|fenced| fenced.plural == plural)
}

/// Whether a kind's objects are cluster-scoped and belong to scenarios.
pub(crate) fn is_fenced_kind(kind: &str) -> bool {
    FENCED.iter().any(|fenced| fenced.kind == kind)
}
