//! Words that are public: those of the APIs of Kubernetes, KAI and NVIDIA. A text whose words are
//! all public tells nothing about a cluster.

use std::{collections::BTreeSet, sync::LazyLock};

use super::allowed;

/// Public words beside the names of the kept fields.
const WORDS: &str = "
Pod Node PodGroup Queue Topology PriorityClass ConfigMap BindRequest ResourceClaim ResourceSlice DeviceClass
DeviceTaintRule NodeResourceTopology StorageClass PersistentVolume PersistentVolumeClaim CSIDriver CSINode
CSIStorageCapacity VolumeAttachment Event Job CronJob ReplicaSet Deployment StatefulSet DaemonSet ReplicationController
JobSet LeaderWorkerSet PyTorchJob TFJob MPIJob XGBoostJob JAXJob TrainJob RayCluster RayJob RayService Workload Notebook
Namespace List
batch apps core scheduling run ai kai scheduler k8s io sigs jobset leaderworkerset trainer kubeflow org ray nvidia com
resource storage topology node policy kubernetes beta v1 v2 v1alpha1 v1alpha2 v1beta1 v1beta2 v2alpha2
Pending Running Succeeded Failed Unknown True False Ready Initialized ContainersReady PodScheduled PodReadyToStartContainers
DisruptionTarget PodBound PodReady Unschedulable UnschedulableOnNodePool SchedulingGated NotReady Pipelined Malformed
QueueDoesNotExist OverLimit NonPreemptibleOverQuota PodSchedulingErrors BindingError Evict Evicted Preempted Scheduled
FailedScheduling Bound Binding Scheduling PreemptionByScheduler DeletionByTaintManager EvictionByEvictionAPI
TerminationByKubelet MemoryPressure DiskPressure PIDPressure NetworkUnavailable Normal Warning
Created Started Pulled Pulling Killing BackOff Completed SuccessfulCreate
preemptible non Always OnFailure Never PreemptLowerPriority IfNotPresent
Guaranteed Burstable BestEffort TCP UDP SCTP Fraction Regular
In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule PreferNoSchedule NoExecute None
DoNotSchedule ScheduleAnyway Honor Ignore ExactCount All Immediate WaitForFirstConsumer Block Filesystem
ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod Available Released Lost
default train build inference system cluster critical high medium low
cpu memory pods ephemeral hugepages amd intel gpu gpus mig shared rdma hca
count present product driver family replicas sharing strategy mode kubernetes hostname os arch linux amd64 arm64 instance
type region zone role worker control plane master unreachable disk pressure unschedulable
queue pool subgroup name preemptibility task priority priorityClassName group fraction num devices container
skip podgrouper last start eviction timestamp stale predicted observed placement numa reserve index runai
job training role launcher head batch min member controller uid completion replicatedjob statefulset
schedlab dev run startup termination exit code time down published
pv bind completed bound selected volume volumes
NVIDIA Tesla Quadro GeForce RTX AMD Instinct PCIE PCIe SXM HBM HBM2e HBM3 HBM3e GB GPU Machine Level
topologyManagerPolicy topologyManagerScope single restricted best effort pod
productName architecture uuid computeCapability cudaComputeCapability driverVersion cudaDriverVersion brand
not ready out pressure pid network unavailable uninitialized cloudprovider service exclude from external load balancers
initialized shutdown failure beta feature app apps component managed part instance clique compute major minor rev full
deploy operands driver toolkit plugin dcgm exporter discovery gfd nfd sandbox machine cuda runtime present capable profile
state success slices engines multiprocessors ofa jpeg decoder encoder copy count vgpu host operator pre installed
interface kueue workload cohort podset podsets jobs completions index pod template hash revision
windows build nodepool exclusive
NVL PRO Ada Generation Lovelace Blackwell Server Edition Workstation SHARED MIG SUPER TITAN Titan Super
ampere hopper ada lovelace blackwell turing volta pascal maxwell kepler
config tiers plugins actions allocate consolidation reclaim preempt stalegangeviction arguments enabled
case format captured redacted shows minimal ignored files objects events minimised
true false unknown key operator effect label value values tolerationSeconds timeAdded controller schedulerName
NodePoolLabelKey NodePoolLabelValue string int bool version namespace
";

/// Words of label keys and annotation keys whose domain is public.
const DOMAINS: &[&str] = &[
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "nvidia.com",
    "kai.scheduler",
    "run.ai",
    "ray.io",
    "kubeflow.org",
    "schedlab.dev",
    "amd.com",
    "intel.com",
];

/// Keys without a domain that decisions depend on.
const BARE_KEYS: &[&str] =
    &["priorityClassName", "runai-gpu-group", "metadata.name", "job-name", "controller-uid"];

static PUBLIC: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let listed = allowed::texts().chain([WORDS]).chain(SETTINGS.iter().copied()).flat_map(words);
    listed.map(str::to_owned).collect()
});

/// The words of a text: runs of letters and digits with at least three letters in a row.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    parts.filter(|part| {
        let mut run = 0;
        part.chars().any(|c| {
            run = if c.is_alphabetic() { run + 1 } else { 0 };
            run >= 3
        })
    })
}

/// Whether a word is public.
pub(super) fn is_public_word(word: &str) -> bool {
    // Products have numbers: SXM4 is a variant of SXM.
    let is_product = !word.contains(|c: char| c.is_lowercase());
    let variant = word.trim_end_matches(|c: char| c.is_ascii_digit());
    PUBLIC.contains(word)
        || (is_product && PUBLIC.contains(variant))
        || SETTINGS.contains(&word.to_ascii_lowercase().as_str())
}

/// Whether all words of a text are public, and it has one.
pub(super) fn is_public(text: &str) -> bool {
    let is_word =
        |part: &str| part.len() < 3 || words(part).next().is_none() || is_public_word(part);
    text.is_ascii() && text.len() <= 80 && text.split(|c: char| !c.is_alphanumeric()).all(is_word)
}

/// Whether the key of a label or annotation is public: its domain is, and its words are.
pub(super) fn is_public_key(key: &str) -> bool {
    if BARE_KEYS.contains(&key) {
        return true;
    }
    let Some((domain, _)) = key.split_once('/') else { return false };
    let is_known = DOMAINS.iter().any(|known| {
        domain == *known || domain.strip_suffix(known).is_some_and(|it| it.ends_with('.'))
    });
    is_known && is_public(key)
}

/// Whether a text is a number, quantity, duration, time or version, and so no name.
pub(super) fn is_plain(text: &str) -> bool {
    let is_time = text.parse::<jiff::Timestamp>().is_ok();
    let longest = text.split(|c: char| !c.is_ascii_alphabetic()).map(str::len).max().unwrap_or(0);
    is_time || (text.len() <= 32 && text.is_ascii() && longest <= 2)
}

/// Whether the key of an annotation is a MIG profile, such as `nvidia.com/mig-1g.5gb`.
pub(super) fn is_plain_profile(key: &str) -> bool {
    key.rsplit_once("mig-").is_some_and(|(_, profile)| {
        profile
            .split('.')
            .all(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()).len() <= 2)
    })
}

/// Settings of KAI and of schedlab that decisions depend on.
const SETTINGS: &[&str] = &[
    "actions",
    "tiers",
    "plugins",
    "name",
    "arguments",
    "queuedepthperaction",
    "kvalue",
    "relcaimersaturationmultiplier",
    "reclaimersaturationmultiplier",
    "defaultpreemptminruntime",
    "defaultreclaimminruntime",
    "reclaimresolvemethod",
    "gpu",
    "cpu",
    "partitionparams",
    "maxnumberconsolidationpreemptees",
    "fullhierarchyfairness",
    "allowconsolidatingreclaim",
    "restrictschedulingnodes",
    "restrictnodescheduling",
    "globaldefaultstalenessgraceperiod",
    "scheduleperiod",
    "nodepool",
    "gpureservation",
    "period",
    "usagewindow",
    "usagehalflife",
    "placementstrategy",
    "minruntime",
    "preemptminruntime",
    "reclaimminruntime",
    "preemptionpolicy",
    "maxpreemptionspercycle",
    "minprioritydifference",
    "graceperiod",
    "stalenessgraceperiod",
    "reclaimsaturationmultiplier",
    "maxconsolidationvictims",
    "enabled",
    "priority",
    "allocate",
    "consolidation",
    "reclaim",
    "preempt",
    "stalegangeviction",
    "proportion",
    "nodeplacement",
    "predicates",
    "nominatednode",
    "nodeavailability",
    "gpusharingorder",
    "gpupack",
    "gpuspread",
    "resourcetype",
    "podaffinity",
    "elastic",
    "kubeflow",
    "ray",
    "subgrouporder",
    "taskorder",
    "dynamicresources",
    "minruntime",
    "topology",
    "snapshot",
    "binpack",
    "spread",
    "leastfragmentation",
    "lca",
    "queue",
    "numa",
];

/// Whether a key of the settings is known.
pub(super) fn is_setting(key: &str) -> bool {
    SETTINGS.contains(&key.to_ascii_lowercase().as_str())
}
