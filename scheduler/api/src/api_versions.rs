//! API groups and versions of custom resources that more than one crate reads or writes.

/// The API group of [`QUEUE`], [`POD_GROUP`] and [`BIND_REQUEST`].
pub const SCHEDULING_GROUP: &str = "scheduling.run.ai";
/// API version of KAI's `Queue`.
pub const QUEUE: &str = "scheduling.run.ai/v2";
/// API version of KAI's `PodGroup`.
pub const POD_GROUP: &str = "scheduling.run.ai/v2alpha2";
/// API version of KAI's `BindRequest`.
pub const BIND_REQUEST: &str = "scheduling.run.ai/v1alpha2";
/// The API group of [`TOPOLOGY`].
pub const TOPOLOGY_GROUP: &str = "kai.scheduler";
/// API version of KAI's `Topology`.
pub const TOPOLOGY: &str = "kai.scheduler/v1alpha1";

/// The API group of [`WORKLOAD`].
pub const WORKLOAD_GROUP: &str = "scheduling.k8s.io";
/// `Workload` and `PodGroup` of Kubernetes itself.
pub const WORKLOAD: &str = "scheduling.k8s.io/v1beta1";

/// The API group of [`JOB_SET`].
pub const JOB_SET_GROUP: &str = "jobset.x-k8s.io";
/// API version of `JobSet`, of the Kubernetes SIG Apps.
pub const JOB_SET: &str = "jobset.x-k8s.io/v1alpha2";
/// The API group of [`TRAIN_JOB`].
pub const TRAINER_GROUP: &str = "trainer.kubeflow.org";
/// API version of Kubeflow's `TrainJob` and `ClusterTrainingRuntime`.
pub const TRAIN_JOB: &str = "trainer.kubeflow.org/v1alpha1";
/// The API group of [`PYTORCH_JOB`].
pub const KUBEFLOW_GROUP: &str = "kubeflow.org";
/// API version of Kubeflow's `PyTorchJob` and its older kinds of training jobs.
pub const PYTORCH_JOB: &str = "kubeflow.org/v1";
/// The API group of [`RAY`].
pub const RAY_GROUP: &str = "ray.io";
/// API version of `KubeRay`'s `RayCluster` and `RayJob`.
pub const RAY: &str = "ray.io/v1";
/// The API group of [`LEADER_WORKER_SET`].
pub const LEADER_WORKER_SET_GROUP: &str = "leaderworkerset.x-k8s.io";
/// API version of `LeaderWorkerSet`, of the Kubernetes SIG Apps.
pub const LEADER_WORKER_SET: &str = "leaderworkerset.x-k8s.io/v1";
