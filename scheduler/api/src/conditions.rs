//! Types of conditions that more than one crate reads or writes, and reasons of `DisruptionTarget`.

/// Whether a pod has a node. Set by the scheduler, and by the API server when the pod is bound.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// Reason of [`POD_SCHEDULED`]: the pod was given a node, and binding it failed. Set by KAI's
/// binder.
pub const BINDING_ERROR: &str = "BindingError";
/// Whether a PodGroup of Kubernetes was placed. Set by the scheduler; it stays true.
pub const POD_GROUP_INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
/// Whether a node or pod is ready. Set by the kubelet; the node lifecycle controller sets it on
/// nodes that are silent.
pub const READY: &str = "Ready";
/// A pod is about to be deleted because of a disruption. Set by the component that deletes it, with
/// the reason.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Reason of [`DISRUPTION_TARGET`]: evicted for another pod. Set by schedulers.
pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";
/// Reason of [`DISRUPTION_TARGET`]: the node of the pod is gone. Set by the pod garbage collector.
pub const DELETION_BY_POD_GC: &str = "DeletionByPodGC";
/// Reason of [`DISRUPTION_TARGET`]: the pod does not tolerate a taint `NoExecute`. Set by the taint
/// eviction controller.
pub const DELETION_BY_TAINT_MANAGER: &str = "DeletionByTaintManager";
