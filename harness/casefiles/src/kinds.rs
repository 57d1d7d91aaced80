//! The kinds of objects in a case file: those that decisions depend on.

/// A kind of objects in a case file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaseKind {
    /// Name of the array in `rawObjects`, which is KAI's.
    pub array: &'static str,
    /// Name of the kind.
    pub kind: &'static str,
    /// API group and version; objects of other versions of the group are read, too.
    pub api_version: &'static str,
    /// Name of the resource in API paths.
    pub plural: &'static str,
    /// Whether objects have a namespace.
    pub is_namespaced: bool,
}

impl CaseKind {
    const fn new(
        array: &'static str,
        kind: &'static str,
        api_version: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { array, kind, api_version, plural, is_namespaced: false }
    }

    const fn namespaced(self) -> Self {
        Self { is_namespaced: true, ..self }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &'static str {
        group(self.api_version)
    }
}

/// All kinds of a case file, in an order in which they can be created.
pub const KINDS: &[CaseKind] = &[
    CaseKind::new("priorityClasses", "PriorityClass", "scheduling.k8s.io/v1", "priorityclasses"),
    CaseKind::new("topologies", "Topology", "kai.scheduler/v1alpha1", "topologies"),
    CaseKind::new("deviceClasses", "DeviceClass", "resource.k8s.io/v1", "deviceclasses"),
    CaseKind::new("storageClasses", "StorageClass", "storage.k8s.io/v1", "storageclasses"),
    CaseKind::new("csiDrivers", "CSIDriver", "storage.k8s.io/v1", "csidrivers"),
    CaseKind::new("nodes", "Node", "v1", "nodes"),
    CaseKind::new("csiNodes", "CSINode", "storage.k8s.io/v1", "csinodes"),
    CaseKind::new(
        "nodeResourceTopologies",
        "NodeResourceTopology",
        "topology.node.k8s.io/v1alpha2",
        "noderesourcetopologies",
    ),
    CaseKind::new("resourceSlices", "ResourceSlice", "resource.k8s.io/v1", "resourceslices"),
    CaseKind::new(
        "deviceTaintRules",
        "DeviceTaintRule",
        "resource.k8s.io/v1beta2",
        "devicetaintrules",
    ),
    CaseKind::new("queues", "Queue", "scheduling.run.ai/v2", "queues"),
    CaseKind::new("configMaps", "ConfigMap", "v1", "configmaps").namespaced(),
    CaseKind::new("persistentVolumes", "PersistentVolume", "v1", "persistentvolumes"),
    CaseKind::new(
        "persistentVolumeClaims",
        "PersistentVolumeClaim",
        "v1",
        "persistentvolumeclaims",
    )
    .namespaced(),
    CaseKind::new(
        "volumeAttachments",
        "VolumeAttachment",
        "storage.k8s.io/v1",
        "volumeattachments",
    ),
    CaseKind::new(
        "csiStorageCapacities",
        "CSIStorageCapacity",
        "storage.k8s.io/v1",
        "csistoragecapacities",
    )
    .namespaced(),
    CaseKind::new("resourceClaims", "ResourceClaim", "resource.k8s.io/v1", "resourceclaims")
        .namespaced(),
    CaseKind::new("podGroups", "PodGroup", "scheduling.run.ai/v2alpha2", "podgroups").namespaced(),
    CaseKind::new("bindRequests", "BindRequest", "scheduling.run.ai/v1alpha2", "bindrequests")
        .namespaced(),
    CaseKind::new("pods", "Pod", "v1", "pods").namespaced(),
];

/// The kind of an object, by its `apiVersion` and `kind`; `None` if decisions do not depend on it.
pub fn kind_of(api_version: &str, kind: &str) -> Option<&'static CaseKind> {
    KINDS.iter().find(|known| known.kind == kind && known.group() == group(api_version))
}

/// The group of an API version.
fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_kinds_are_those_that_the_scheduler_reads() {
        let ours: BTreeSet<&str> = KINDS.iter().map(|kind| kind.array).collect();
        let read: BTreeSet<&str> = schedlab_scheduler::snapshot_file::array_names().collect();
        assert_eq!(ours, read);
    }

    #[test]
    fn a_queue_of_another_group_is_no_queue() {
        assert!(kind_of("scheduling.run.ai/v2", "Queue").is_some());
        assert!(kind_of("scheduling.volcano.sh/v1beta1", "Queue").is_none());
    }
}
