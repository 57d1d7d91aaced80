//! Finalizers that more than one crate reads or writes.

/// Keeps a `ResourceClaim` while devices are allocated to it. Set by the scheduler; removed by the
/// controller of resource claims.
pub const DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";
