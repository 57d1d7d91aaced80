//! Cluster-scoped kinds of which each scenario has its own objects, with its prefix in their names.
//! This table determines what a scenario sees and what is deleted after it.

/// A cluster-scoped kind of which scenarios create objects, and the path of its API.
pub struct ClusterScopedKind {
    api_root: &'static str,
    /// The plural name of the kind's collection in paths.
    pub plural: &'static str,
    /// The kind as in an object's `kind`.
    pub kind: &'static str,
}

/// The cluster-scoped kinds of which scenarios create objects, in the order of deletion: objects
/// that refer to nodes come before nodes.
pub const CLUSTER_SCOPED_KINDS: [ClusterScopedKind; 18] = [
    ClusterScopedKind {
        api_root: ADMISSION_API,
        plural: POLICY_BINDINGS,
        kind: "ValidatingAdmissionPolicyBinding",
    },
    ClusterScopedKind {
        api_root: ADMISSION_API,
        plural: "validatingadmissionpolicies",
        kind: "ValidatingAdmissionPolicy",
    },
    ClusterScopedKind { api_root: "/api/v1", plural: NAMESPACES_PLURAL, kind: "Namespace" },
    ClusterScopedKind { api_root: "/apis/scheduling.run.ai/v2", plural: "queues", kind: "Queue" },
    ClusterScopedKind { api_root: VOLCANO_API, plural: "queues", kind: "Queue" },
    ClusterScopedKind { api_root: KUEUE_API, plural: "clusterqueues", kind: "ClusterQueue" },
    ClusterScopedKind { api_root: KUEUE_API, plural: "cohorts", kind: "Cohort" },
    ClusterScopedKind { api_root: KUEUE_API, plural: "resourceflavors", kind: "ResourceFlavor" },
    ClusterScopedKind {
        api_root: "/apis/trainer.kubeflow.org/v1alpha1",
        plural: "clustertrainingruntimes",
        kind: "ClusterTrainingRuntime",
    },
    ClusterScopedKind {
        api_root: "/apis/scheduling.k8s.io/v1",
        plural: "priorityclasses",
        kind: "PriorityClass",
    },
    ClusterScopedKind {
        api_root: "/apis/kai.scheduler/v1alpha1",
        plural: "topologies",
        kind: "Topology",
    },
    ClusterScopedKind { api_root: "/apis/run.ai/v1alpha1", plural: "kartas", kind: "Karta" },
    ClusterScopedKind {
        api_root: "/api/v1",
        plural: "persistentvolumes",
        kind: "PersistentVolume",
    },
    ClusterScopedKind { api_root: STORAGE_API, plural: "storageclasses", kind: "StorageClass" },
    ClusterScopedKind { api_root: STORAGE_API, plural: "csinodes", kind: "CSINode" },
    ClusterScopedKind { api_root: RESOURCE_API, plural: "deviceclasses", kind: "DeviceClass" },
    ClusterScopedKind { api_root: RESOURCE_API, plural: "resourceslices", kind: "ResourceSlice" },
    ClusterScopedKind { api_root: "/api/v1", plural: "nodes", kind: "Node" },
];

/// The collection of bindings of admission policies. A binding contains the name of its policy.
pub(crate) const POLICY_BINDINGS: &str = "validatingadmissionpolicybindings";
const ADMISSION_API: &str = "/apis/admissionregistration.k8s.io/v1";
const KUEUE_API: &str = "/apis/kueue.x-k8s.io/v1beta2";
const VOLCANO_API: &str = "/apis/scheduling.volcano.sh/v1beta1";
const STORAGE_API: &str = "/apis/storage.k8s.io/v1";
const RESOURCE_API: &str = "/apis/resource.k8s.io/v1";
const NAMESPACES_PLURAL: &str = "namespaces";

impl ClusterScopedKind {
    /// The API path of the kind's collection.
    pub fn collection_path(&self) -> String {
        format!("{}/{}", self.api_root, self.plural)
    }

    /// Whether the kind is `Namespace`, which contains other objects.
    pub fn is_namespace(&self) -> bool {
        self.plural == NAMESPACES_PLURAL
    }
}

/// Whether scenarios create objects in the cluster-scoped collection of this plural name.
pub(crate) fn is_tenant_collection(plural: &str) -> bool {
    CLUSTER_SCOPED_KINDS.iter().any(|tenant_kind| tenant_kind.plural == plural)
}

/// Whether scenarios create cluster-scoped objects of this kind.
pub(crate) fn is_tenant_kind(kind: &str) -> bool {
    CLUSTER_SCOPED_KINDS.iter().any(|tenant_kind| tenant_kind.kind == kind)
}
