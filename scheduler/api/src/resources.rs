//! Names of extended resources.

/// Resource name of whole GPUs. Advertised by NVIDIA's device plugin.
pub const GPU: &str = "nvidia.com/gpu";
/// Prefix of the resource names of slices of GPUs (MIG), such as `nvidia.com/mig-1g.5gb`.
/// Advertised by NVIDIA's device plugin.
pub const MIG_PREFIX: &str = "nvidia.com/mig-";
