//! Table of the kinds that own pods, by API group, with the grouping of each.

use schedlab_api::api_versions;

use super::OwnerLink;
use crate::records::{Owner, PodRecord};

/// Labels of pods created by Spark; the value of [`SPARK_SELECTOR`] is the name of their group.
const SPARK_APP: &str = "spark-app-name";
pub(super) const SPARK_SELECTOR: &str = "spark-app-selector";

/// How the pods under an owner are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// One group per pod with class `inference`, for Deployments.
    EachPod,
    /// As [`Grouping::Default`], with class `inference`.
    Serving,
    /// As [`Grouping::Default`], with the non-preemptible class `build`.
    Interactive,
    /// All pods of a Job; `minMember` from annotation `kai.scheduler/batch-min-member`.
    Job,
    /// A tree of sub-groups: replicated jobs, and below each of them its replicas.
    JobSet,
    /// `minMember` is the sum of replicas over all roles in this field of `spec`.
    Replicas(&'static str),
    /// Sub-groups for masters and workers; workers optionally in segments.
    PyTorchJob,
    /// Workers and launcher, which may be created later.
    MpiJob,
    /// Sub-groups for the head and each worker group of a `RayCluster`.
    Ray,
    /// One group per replica: a leader and its workers.
    LeaderWorkerSet,
    /// As defined by the PodGang that a label of the pod names.
    Grove,
    /// All pods of a Revision; `minMember` is its minimal scale.
    Knative,
    /// `minMember` is the node count in the job's environment.
    AmlJob,
    /// All pods of one run.
    RunaiJob,
    /// All pods of one Spark application.
    Spark,
    /// As defined by a Karta for the kind.
    Karta,
    /// As defined by the PodGroup of Kubernetes that the pod names in `spec.schedulingGroup`,
    /// whatever its owners are.
    SchedulingGroup,
    /// All pods of the top owner, with `minMember` 1.
    Default,
}

/// How an owner at the top of a chain is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerRule {
    Group(Grouping),
    /// Like a kind that is not in the table: a Karta may define its grouping.
    Unlisted,
    /// The object below it owns the group and inherits its labels and annotations.
    Skip,
    /// Each object below it is a workload of its own and inherits nothing.
    PerChild,
}

use Grouping::{
    AmlJob, Default as ByTopOwner, EachPod, Grove, Interactive, Job, JobSet, Knative,
    LeaderWorkerSet, MpiJob, PyTorchJob, Ray, Replicas, RunaiJob, Serving,
};
use OwnerRule::{Group, PerChild, Skip, Unlisted};

/// Per kind: API group, kind, resource name, and rule. API versions do not matter.
const KINDS: [(&str, &str, &str, OwnerRule); 47] = [
    ("", "Pod", "pods", Group(ByTopOwner)),
    ("apps", "ReplicaSet", "replicasets", Group(ByTopOwner)),
    ("apps", "Deployment", "deployments", Group(EachPod)),
    ("apps", "StatefulSet", "statefulsets", Group(ByTopOwner)),
    ("apps", "DaemonSet", "daemonsets", Unlisted),
    ("batch", "Job", "jobs", Group(Job)),
    ("batch", "CronJob", "cronjobs", PerChild),
    (api_versions::JOB_SET_GROUP, "JobSet", "jobsets", Group(JobSet)),
    (api_versions::TRAINER_GROUP, "TrainJob", "trainjobs", Skip),
    (api_versions::KUBEFLOW_GROUP, "PyTorchJob", "pytorchjobs", Group(PyTorchJob)),
    (api_versions::KUBEFLOW_GROUP, "TFJob", "tfjobs", Group(Replicas("tfReplicaSpecs"))),
    (api_versions::KUBEFLOW_GROUP, "XGBoostJob", "xgboostjobs", Group(Replicas("xgbReplicaSpecs"))),
    (api_versions::KUBEFLOW_GROUP, "JAXJob", "jaxjobs", Group(Replicas("jaxReplicaSpecs"))),
    (api_versions::KUBEFLOW_GROUP, "MPIJob", "mpijobs", Group(MpiJob)),
    (api_versions::KUBEFLOW_GROUP, "Notebook", "notebooks", Group(Interactive)),
    (api_versions::KUBEFLOW_GROUP, "ScheduledWorkflow", "scheduledworkflows", Group(ByTopOwner)),
    (api_versions::RAY_GROUP, "RayCluster", "rayclusters", Group(Ray)),
    (api_versions::RAY_GROUP, "RayJob", "rayjobs", Group(Ray)),
    (api_versions::RAY_GROUP, "RayService", "rayservices", Group(Ray)),
    (
        api_versions::LEADER_WORKER_SET_GROUP,
        "LeaderWorkerSet",
        "leaderworkersets",
        Group(LeaderWorkerSet),
    ),
    ("grove.io", "PodClique", "podcliques", Group(Grove)),
    ("grove.io", "PodCliqueScalingGroup", "podcliquescalinggroups", Group(Grove)),
    ("grove.io", "PodCliqueSet", "podcliquesets", Group(Grove)),
    ("grove.io", "PodGangSet", "podgangsets", Group(Grove)),
    ("scheduler.grove.io", "PodGang", super::GANG_PLURAL, Unlisted),
    ("nvidia.com", "DynamoGraphDeployment", "dynamographdeployments", Skip),
    ("serving.knative.dev", "Revision", "revisions", Group(Knative)),
    ("serving.knative.dev", "Configuration", "configurations", PerChild),
    ("serving.knative.dev", "Service", "services", PerChild),
    ("argoproj.io", "Workflow", "workflows", Skip),
    ("tekton.dev", "TaskRun", "taskruns", Group(ByTopOwner)),
    ("tekton.dev", "PipelineRun", "pipelineruns", Group(ByTopOwner)),
    ("machinelearning.seldon.io", "SeldonDeployment", "seldondeployments", Group(ByTopOwner)),
    ("kubevirt.io", "VirtualMachineInstance", "virtualmachineinstances", Group(ByTopOwner)),
    ("kubevirt.io", "VirtualMachine", "virtualmachines", Unlisted),
    ("workspace.devfile.io", "DevWorkspace", "devworkspaces", Group(ByTopOwner)),
    ("amlarc.azureml.com", "AmlJob", "amljobs", Group(AmlJob)),
    ("egx.nvidia.io", "SPOTRequest", "spotrequests", Group(Serving)),
    ("run.ai", "RunaiJob", "runaijobs", Group(RunaiJob)),
    ("run.ai", "WorkloadRunner", "workloadrunners", Skip),
    ("run.ai", "TrainingWorkload", "trainingworkloads", Skip),
    ("run.ai", "InteractiveWorkload", "interactiveworkloads", Skip),
    ("run.ai", "DistributedWorkload", "distributedworkloads", Skip),
    ("run.ai", "InferenceWorkload", "inferenceworkloads", Skip),
    ("run.ai", "DistributedInferenceWorkload", "distributedinferenceworkloads", Skip),
    (api_versions::WORKLOAD_GROUP, super::SCHEDULING_GROUP_KIND, "podgroups", Unlisted),
    ("sparkoperator.k8s.io", "SparkApplication", "sparkapplications", Unlisted),
];

fn kind_rule(
    owner: &Owner,
) -> Option<&'static (&'static str, &'static str, &'static str, OwnerRule)> {
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    KINDS.iter().find(|(of, kind, ..)| *of == group && *kind == &*owner.kind)
}

/// Resource name of a kind in the table; others need API discovery.
pub(crate) fn known_plural(owner: &Owner) -> Option<&'static str> {
    kind_rule(owner).map(|(_, _, plural, _)| *plural)
}

/// Grouping of pods whose group is owned by `owner`.
pub(super) fn grouping(owner: &Owner) -> Grouping {
    match kind_rule(owner) {
        Some((.., Group(grouping))) => *grouping,
        Some((.., Skip | PerChild | Unlisted)) | None => Grouping::Default,
    }
}

/// Whether the kind has no built-in grouping, so that a Karta may define one.
pub(super) fn is_unlisted(owner: &Owner) -> bool {
    matches!(kind_rule(owner), None | Some((.., Unlisted)))
}

/// Grouping of a pod with these owners.
pub(super) fn grouping_of(pod: &PodRecord, chain: &[OwnerLink]) -> Grouping {
    let is_spark = [SPARK_APP, SPARK_SELECTOR].iter().all(|label| pod.labels.contains_key(*label));
    let named = pod.labels.get(SPARK_SELECTOR).is_some_and(|name| !name.is_empty());
    match chain.last() {
        _ if pod.scheduling_group.is_some() => Grouping::SchedulingGroup,
        // The Spark driver has no owner; it owns the executors.
        None if is_spark && named => Grouping::Spark,
        Some(top) if is_spark && named && &*top.owner.kind == "Pod" => Grouping::Spark,
        None => Grouping::Default,
        Some(top) => grouping(&top.owner),
    }
}

/// Splits a chain into the owners up to the group's owner, and the skipped owners above it whose
/// labels and annotations are inherited.
pub(super) fn split_skipped(chain: &[OwnerLink]) -> (&[OwnerLink], &[OwnerLink]) {
    let mut counts = chain.len();
    let mut inherited = chain.len();
    while let Some(top) = chain[..counts].last() {
        match kind_rule(&top.owner) {
            Some((.., Skip)) => counts -= 1,
            Some((.., PerChild)) if counts > 1 => {
                counts -= 1;
                inherited = counts;
            }
            Some((.., PerChild | Group(_) | Unlisted)) | None => break,
        }
    }
    (&chain[..counts], &chain[counts..inherited.max(counts)])
}
