//! The kinds that own pods, by API group, and how each is grouped.

use super::Link;
use crate::mirror::{Owner, PodRecord};

/// The labels of pods that Spark makes; the second names their group.
const SPARK_APP: &str = "spark-app-name";
pub(super) const SPARK_SELECTOR: &str = "spark-app-selector";

/// How the pods under an owner are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Each pod by itself; under a Deployment served before batch work.
    EachPod,
    /// As [`Grouping::Default`], served before batch work.
    Serving,
    /// As [`Grouping::Default`], and not preemptible by its class.
    Interactive,
    /// All pods of the Job.
    Job,
    /// A tree: replicated jobs, and in each its replicas.
    JobSet,
    /// As many pods as the field below `spec` counts over all roles.
    Replicas(&'static str),
    /// Masters and workers; workers in segments, if they say so.
    PyTorchJob,
    /// Workers, and the launcher, which may come later.
    MpiJob,
    /// Head and worker groups of a `RayCluster`.
    Ray,
    /// One group a replica: a leader and its workers.
    LeaderWorkerSet,
    /// As the gang says that the pod names.
    Grove,
    /// A revision's pods: as many as its minimal scale.
    Knative,
    /// As many pods as its environment says there are nodes.
    AmlJob,
    /// All pods of one run.
    RunaiJob,
    /// All pods of one Spark application.
    Spark,
    /// As a Karta says of the kind.
    Karta,
    /// All pods of the top owner, one at a time.
    Default,
}

/// What becomes of an owner at the top of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Group(Grouping),
    /// As kinds that are not listed.
    Unlisted,
    /// What it owns decides; its labels and annotations hold where that says nothing.
    Skip,
    /// Each of what it owns is a workload of its own.
    Each,
}

use Grouping::{
    AmlJob, Default as ByTopOwner, EachPod, Grove, Interactive, Job, JobSet, Knative,
    LeaderWorkerSet, MpiJob, PyTorchJob, Ray, Replicas, RunaiJob, Serving,
};
use Rule::{Each, Group, Skip, Unlisted};

/// API group, kind, plural, rule. Versions do not matter.
const KINDS: [(&str, &str, &str, Rule); 46] = [
    ("", "Pod", "pods", Group(ByTopOwner)),
    ("apps", "ReplicaSet", "replicasets", Group(ByTopOwner)),
    ("apps", "Deployment", "deployments", Group(EachPod)),
    ("apps", "StatefulSet", "statefulsets", Group(ByTopOwner)),
    ("apps", "DaemonSet", "daemonsets", Unlisted),
    ("batch", "Job", "jobs", Group(Job)),
    ("batch", "CronJob", "cronjobs", Each),
    ("jobset.x-k8s.io", "JobSet", "jobsets", Group(JobSet)),
    ("trainer.kubeflow.org", "TrainJob", "trainjobs", Skip),
    ("kubeflow.org", "PyTorchJob", "pytorchjobs", Group(PyTorchJob)),
    ("kubeflow.org", "TFJob", "tfjobs", Group(Replicas("tfReplicaSpecs"))),
    ("kubeflow.org", "XGBoostJob", "xgboostjobs", Group(Replicas("xgbReplicaSpecs"))),
    ("kubeflow.org", "JAXJob", "jaxjobs", Group(Replicas("jaxReplicaSpecs"))),
    ("kubeflow.org", "MPIJob", "mpijobs", Group(MpiJob)),
    ("kubeflow.org", "Notebook", "notebooks", Group(Interactive)),
    ("kubeflow.org", "ScheduledWorkflow", "scheduledworkflows", Group(ByTopOwner)),
    ("ray.io", "RayCluster", "rayclusters", Group(Ray)),
    ("ray.io", "RayJob", "rayjobs", Group(Ray)),
    ("ray.io", "RayService", "rayservices", Group(Ray)),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", Group(LeaderWorkerSet)),
    ("grove.io", "PodClique", "podcliques", Group(Grove)),
    ("grove.io", "PodCliqueScalingGroup", "podcliquescalinggroups", Group(Grove)),
    ("grove.io", "PodCliqueSet", "podcliquesets", Group(Grove)),
    ("grove.io", "PodGangSet", "podgangsets", Group(Grove)),
    ("scheduler.grove.io", "PodGang", super::GANGS, Unlisted),
    ("nvidia.com", "DynamoGraphDeployment", "dynamographdeployments", Skip),
    ("serving.knative.dev", "Revision", "revisions", Group(Knative)),
    ("serving.knative.dev", "Configuration", "configurations", Each),
    ("serving.knative.dev", "Service", "services", Each),
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
    ("sparkoperator.k8s.io", "SparkApplication", "sparkapplications", Unlisted),
];

fn row(owner: &Owner) -> Option<&'static (&'static str, &'static str, &'static str, Rule)> {
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    KINDS.iter().find(|(of, kind, ..)| *of == group && *kind == &*owner.kind)
}

/// Plural names of the kinds that are known; others are asked of the server.
pub(crate) fn known_plural(owner: &Owner) -> Option<&'static str> {
    row(owner).map(|(_, _, plural, _)| *plural)
}

/// How what stands below an owner is grouped.
pub(super) fn grouping(owner: &Owner) -> Grouping {
    match row(owner) {
        Some((.., Group(grouping))) => *grouping,
        Some((.., Skip | Each | Unlisted)) | None => Grouping::Default,
    }
}

/// Nobody but a Karta says how what stands below an owner is grouped.
pub(super) fn is_unlisted(owner: &Owner) -> bool {
    matches!(row(owner), None | Some((.., Unlisted)))
}

/// How a pod with these owners is grouped.
pub(super) fn grouping_of(pod: &PodRecord, chain: &[Link]) -> Grouping {
    let is_spark = [SPARK_APP, SPARK_SELECTOR].iter().all(|label| pod.labels.contains_key(*label));
    let named = pod.labels.get(SPARK_SELECTOR).is_some_and(|name| !name.is_empty());
    match chain.last() {
        // The driver stands alone, and owns the executors.
        None if is_spark && named => Grouping::Spark,
        Some(top) if is_spark && named && &*top.owner.kind == "Pod" => Grouping::Spark,
        None => Grouping::Default,
        Some(top) => grouping(&top.owner),
    }
}

/// The chain up to the owner that counts, and those above it whose words hold as well.
pub(super) fn below_skipped(chain: &[Link]) -> (&[Link], &[Link]) {
    let mut counts = chain.len();
    let mut inherited = chain.len();
    while let Some(top) = chain[..counts].last() {
        match row(&top.owner) {
            Some((.., Skip)) => counts -= 1,
            Some((.., Each)) if counts > 1 => {
                counts -= 1;
                inherited = counts;
            }
            Some((.., Each | Group(_) | Unlisted)) | None => break,
        }
    }
    (&chain[..counts], &chain[counts..inherited.max(counts)])
}
