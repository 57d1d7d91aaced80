//! Finalizers that more than one crate reads or writes.

/// Keeps a `ResourceClaim` while devices are allocated to it. Set by the scheduler; removed by the
/// controller of resource claims.
pub const DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// Keeps a `PodGroup` while pods that have not ended belong to it. Set by the API server; removed
/// by the controller of pod groups.
pub const POD_GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
