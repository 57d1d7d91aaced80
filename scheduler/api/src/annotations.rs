//! Keys of annotations that more than one crate reads or writes.

/// The `PodGroup` of a pod. Set by users or KAI's pod grouper.
pub const POD_GROUP_NAME: &str = "pod-group-name";
/// Portion of a GPU that a pod requests, between 0 and 1. Set by users.
pub const GPU_FRACTION: &str = "gpu-fraction";
/// GPU memory that a pod requests of each GPU, in MiB. Set by users.
pub const GPU_MEMORY: &str = "gpu-memory";
/// Number of GPUs of which a pod requests [`GPU_FRACTION`] or [`GPU_MEMORY`]; 1 if unset. Set by
/// users.
pub const GPU_FRACTION_NUM_DEVICES: &str = "gpu-fraction-num-devices";
/// The container that uses the shared GPU; the first one if unset. Set by users.
pub const GPU_FRACTION_CONTAINER_NAME: &str = "gpu-fraction-container-name";
/// `true` on pods that KAI's pod grouper leaves alone. Set by users.
pub const SKIP_POD_GROUPER: &str = "kai.scheduler/skip-podgrouper";
/// Minimum of pods of a batch job that run together. Set by users on the job.
pub const BATCH_MIN_MEMBER: &str = "kai.scheduler/batch-min-member";
/// A workload evicts no others until it is this old. Set by users; KAI's pod grouper copies it into
/// the `PodGroup`.
pub const PREEMPTION_DELAY: &str = "kai.scheduler/preemption-delay";
/// How long a gang may stay below its minimum before the rest is evicted; negative: forever. Set by
/// users; KAI's pod grouper copies it into the `PodGroup`.
pub const STALENESS_GRACE_PERIOD: &str = "kai.scheduler/staleness-grace-period";
/// The top owner of the pods of a `PodGroup`, as YAML. Set by KAI's pod grouper.
pub const TOP_OWNER_METADATA: &str = "kai.scheduler/top-owner-metadata";
/// When a `PodGroup` last reached its minimum of placed pods. Set by KAI's scheduler.
pub const LAST_START_TIMESTAMP: &str = "kai.scheduler/last-start-timestamp";
/// When a `PodGroup` was last evicted. Set by KAI's scheduler.
pub const LAST_EVICTION_TIMESTAMP: &str = "kai.scheduler/last-eviction-timestamp";
/// Since when a `PodGroup` is below its minimum. Set by KAI's scheduler.
pub const STALE_SINCE_TIMESTAMP: &str = "kai.scheduler/stale-podgroup-timestamp";
/// The NUMA zones where KAI's scheduler expects a pod to run, as JSON. Set by KAI's binder.
pub const NUMA_PLACEMENT_PREDICTED: &str = "kai.scheduler/numa-placement-predicted";
/// The NUMA zones where a pod runs, as JSON. Set by KAI's exporter on the node.
pub const NUMA_PLACEMENT_OBSERVED: &str = "kai.scheduler/numa-placement-observed";
/// Index of the GPU that a reservation pod got from its kubelet. Set by KAI's reservation pod.
pub const RESERVED_GPU_INDEX: &str = "run.ai/reserve_for_gpu_index";

/// Number of pods that an eviction takes from a `PodGroup`. Set by KAI's scheduler on the event.
pub const EVICTED_PODS: &str = "num-evicted-pods";
/// The action that evicts, such as `reclaim`. Set by KAI's scheduler on the event.
pub const EVICTOR_ACTION: &str = "evictor-action-type";
/// Name of the `PodGroup` that an eviction makes room for. Set by KAI's scheduler on the event.
pub const EVICTOR_POD_GROUP_NAME: &str = "evictor-pod-group-name";
/// Namespace of the `PodGroup` that an eviction makes room for. Set by KAI's scheduler on the
/// event.
pub const EVICTOR_POD_GROUP_NAMESPACE: &str = "evictor-pod-group-namespace";

/// The object as it was last applied. Set by `kubectl apply`.
pub const LAST_APPLIED_CONFIGURATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// `yes` on a `PersistentVolumeClaim` whose binding is complete. Set by the volume controller.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// `yes` on volumes and claims that were bound by a controller or scheduler, not by a user.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The node for which a volume is provisioned. Set by the scheduler.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Time from the binding of a pod to its start, as a duration. Read by the emulator's kubelet from
/// pods and nodes, as are the other annotations of `schedlab.dev`.
pub const STARTUP: &str = "schedlab.dev/startup";
/// Time from the start of a pod to its exit, as a duration. Read by the emulator's kubelet.
pub const RUN_TIME: &str = "schedlab.dev/run-time";
/// Exit code of the containers of a pod. Read by the emulator's kubelet.
pub const EXIT_CODE: &str = "schedlab.dev/exit-code";
/// Time from the request to stop a pod to its end, as a duration. Read by the emulator's kubelet.
pub const TERMINATION: &str = "schedlab.dev/termination";
/// `true` on a node that is down: its kubelet does nothing and sends no heartbeats.
pub const NODE_DOWN: &str = "schedlab.dev/down";
/// The GPUs of a pod, as indexes: `0,3`. Set by the emulator's kubelet.
pub const GPU_DEVICES: &str = "schedlab.dev/gpu-devices";
/// Number of GPUs of an emulated node that a driver publishes for resource claims.
pub const PUBLISHED_GPUS: &str = "schedlab.dev/published-gpus";
/// The unhealthy GPUs of an emulated node, as indexes: `0,3`. An unhealthy GPU of the device plugin
/// is not allocatable; the driver withdraws an unhealthy published GPU. Empty: all GPUs are healthy
/// again.
pub const UNHEALTHY_GPUS: &str = "schedlab.dev/unhealthy-gpus";
