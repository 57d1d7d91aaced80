//! Cluster-scoped kinds of which each scenario has its own objects, with its prefix in their names.
//! This table determines what a scenario sees and what is deleted after it.

/// A cluster-scoped kind, and the path of its API.
pub struct TenantKind {
    api_root: &'static str,
    /// The plural name of the kind's collection in paths.
    pub plural: &'static str,
    /// The kind as in an object's `kind`.
    pub kind: &'static str,
}

/// In the order of deletion: objects that refer to nodes come before nodes.
pub const TENANT_KINDS: [TenantKind; 17] = [
    TenantKind {
        api_root: ADMISSION_API,
        plural: POLICY_BINDINGS,
        kind: "ValidatingAdmissionPolicyBinding",
    },
    TenantKind {
        api_root: ADMISSION_API,
        plural: "validatingadmissionpolicies",
        kind: "ValidatingAdmissionPolicy",
    },
    TenantKind { api_root: "/api/v1", plural: NAMESPACES_PLURAL, kind: "Namespace" },
    TenantKind { api_root: "/apis/scheduling.run.ai/v2", plural: "queues", kind: "Queue" },
    TenantKind { api_root: KUEUE_API, plural: "clusterqueues", kind: "ClusterQueue" },
    TenantKind { api_root: KUEUE_API, plural: "cohorts", kind: "Cohort" },
    TenantKind { api_root: KUEUE_API, plural: "resourceflavors", kind: "ResourceFlavor" },
    TenantKind {
        api_root: "/apis/trainer.kubeflow.org/v1alpha1",
        plural: "clustertrainingruntimes",
        kind: "ClusterTrainingRuntime",
    },
    TenantKind {
        api_root: "/apis/scheduling.k8s.io/v1",
        plural: "priorityclasses",
        kind: "PriorityClass",
    },
    TenantKind { api_root: "/apis/kai.scheduler/v1alpha1", plural: "topologies", kind: "Topology" },
    TenantKind { api_root: "/apis/run.ai/v1alpha1", plural: "kartas", kind: "Karta" },
    TenantKind { api_root: "/api/v1", plural: "persistentvolumes", kind: "PersistentVolume" },
    TenantKind { api_root: STORAGE_API, plural: "storageclasses", kind: "StorageClass" },
    TenantKind { api_root: STORAGE_API, plural: "csinodes", kind: "CSINode" },
    TenantKind { api_root: RESOURCE_API, plural: "deviceclasses", kind: "DeviceClass" },
    TenantKind { api_root: RESOURCE_API, plural: "resourceslices", kind: "ResourceSlice" },
    TenantKind { api_root: "/api/v1", plural: "nodes", kind: "Node" },
];

/// The collection of bindings of admission policies. A binding contains the name of its policy.
pub(crate) const POLICY_BINDINGS: &str = "validatingadmissionpolicybindings";
const ADMISSION_API: &str = "/apis/admissionregistration.k8s.io/v1";
const KUEUE_API: &str = "/apis/kueue.x-k8s.io/v1beta2";
const STORAGE_API: &str = "/apis/storage.k8s.io/v1";
const RESOURCE_API: &str = "/apis/resource.k8s.io/v1";
const NAMESPACES_PLURAL: &str = "namespaces";

impl TenantKind {
    /// The path of the collection.
    pub fn collection(&self) -> String {
        format!("{}/{}", self.api_root, self.plural)
    }

    /// Whether the kind is `Namespace`, which contains other objects.
    pub fn is_namespace(&self) -> bool {
        self.plural == NAMESPACES_PLURAL
    }
}

/// Whether scenarios create objects in the cluster-scoped collection of this plural name.
pub(crate) fn is_tenant_collection(plural: &str) -> bool {
    TENANT_KINDS.iter().any(|tenant_kind| tenant_kind.plural == plural)
}

/// Whether scenarios create cluster-scoped objects of this kind.
pub(crate) fn is_tenant_kind(kind: &str) -> bool {
    TENANT_KINDS.iter().any(|tenant_kind| tenant_kind.kind == kind)
}
