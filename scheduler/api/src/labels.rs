//! Keys of labels that more than one crate reads or writes.

/// The queue of a workload. Set by users on pods or their owners; KAI's pod grouper copies it into
/// the `PodGroup`.
pub const QUEUE: &str = "kai.scheduler/queue";
/// The node pool of a node, a queue or a workload. Each scheduler of KAI serves the objects with
/// one value of this label.
pub const NODE_POOL: &str = "kai.scheduler/node-pool";
/// The sub-group of a pod in its `PodGroup`. Set by users or KAI's pod grouper.
pub const SUB_GROUP: &str = "kai.scheduler/subgroup-name";
/// `preemptible` or `non-preemptible`. Set by users; KAI's pod grouper copies it into the
/// `PodGroup`.
pub const PREEMPTIBILITY: &str = "kai.scheduler/preemptibility";
/// Order of the pods of one `PodGroup`, as an integer: higher first. Set by users.
pub const TASK_PRIORITY: &str = "kai.scheduler/task-priority";
/// Name of the `PriorityClass` of a workload. Set by users; KAI prefers it to the field of the pod.
pub const PRIORITY_CLASS: &str = "priorityClassName";
/// The GPU group of a pod that shares one GPU, and of the reservation pod of that group. Set by
/// KAI's binder. A pod that shares several GPUs has one label for each: this key, `/` and the
/// group.
pub const GPU_GROUP: &str = "runai-gpu-group";

/// Number of GPUs of a node. Set by NVIDIA's GPU feature discovery.
pub const GPU_COUNT: &str = "nvidia.com/gpu.count";
/// Memory of each GPU of a node in MiB. Set by NVIDIA's GPU feature discovery.
pub const GPU_MEMORY: &str = "nvidia.com/gpu.memory";
/// `true` on nodes with GPUs. Set by NVIDIA's GPU operator.
pub const GPU_PRESENT: &str = "nvidia.com/gpu.present";
/// Model of the GPUs of a node. Set by NVIDIA's GPU feature discovery.
pub const GPU_PRODUCT: &str = "nvidia.com/gpu.product";

/// Name of a node, as a label of the node. Set by the kubelet.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Name of a pod of a `StatefulSet`, as a label of the pod. Set by the controller of
/// `StatefulSet`s.
pub const STATEFUL_SET_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// The `JobSet` that a job or pod belongs to. Set by the controller of `JobSet`s.
pub const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// The replicated job of a `JobSet` that a job or pod belongs to. Set by the controller of
/// `JobSet`s.
pub const JOB_SET_REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
/// Position of a job among the replicas of its replicated job. Set by the controller of `JobSet`s.
pub const JOB_SET_JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

/// The training job that a pod belongs to. Set by Kubeflow's training operator.
pub const TRAINING_JOB_NAME: &str = "training.kubeflow.org/job-name";
/// `master` on the first pod of a training job. Set by Kubeflow's training operator.
pub const TRAINING_JOB_ROLE: &str = "training.kubeflow.org/job-role";
/// Kind of replica of a pod of a training job, such as `worker`. Set by Kubeflow's training
/// operator.
pub const TRAINING_REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";
/// Position of a pod among the replicas of its type. Set by Kubeflow's training operator.
pub const TRAINING_REPLICA_INDEX: &str = "training.kubeflow.org/replica-index";

/// The run of schedlab that created an object on a shared cluster. Set by the harness.
pub const RUN: &str = "schedlab.dev/run";
