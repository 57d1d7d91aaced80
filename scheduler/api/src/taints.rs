//! Keys of taints that the system sets on nodes.

/// The node is not ready. Set by the node lifecycle controller.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The node sends no heartbeats. Set by the node lifecycle controller.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The node is cordoned. Set by the node lifecycle controller.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
