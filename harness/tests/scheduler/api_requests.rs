//! A scenario in which the scheduler sends every kind of request that it ever sends to the API
//! server.

use std::{sync::Arc, time::Duration};

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler::{
    Binding, Component, Config, GpuReservation,
    leader_election::{ElectionConfig, LeaderState, lead},
};
use tokio::sync::watch;

use crate::lab::Lab;

/// A pod with a resource claim, and a node that publishes the device for it.
const CLAIMED: &str = "
apiVersion: v1
kind: Node
metadata: {name: published, annotations: {schedlab.dev/published-gpus: '1'}}
status: {capacity: {cpu: '8', memory: 8Gi, pods: '100'}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one, namespace: default, labels: {kai.scheduler/queue: borrower}}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: claiming, namespace: default, labels: {kai.scheduler/queue: borrower}}
spec:
  schedulerName: kai-scheduler
  priorityClassName: train
  resourceClaims: [{name: gpu, resourceClaimName: one}]
  containers: [{name: main, image: train}]
";

/// A pod with two `PersistentVolumeClaims`: one for an existing volume, one to be provisioned. It
/// needs a ConfigMap.
const STORING: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disks}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cloud}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: disks
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  local: {path: /disk}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: none, operator: DoesNotExist}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: on-disk, namespace: default}
spec:
  storageClassName: disks
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: in-cloud, namespace: default}
spec:
  storageClassName: cloud
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: storing, namespace: default, labels: {kai.scheduler/queue: borrower}}
spec:
  schedulerName: kai-scheduler
  priorityClassName: train
  volumes:
  - {name: a, persistentVolumeClaim: {claimName: on-disk}}
  - {name: b, persistentVolumeClaim: {claimName: in-cloud}}
  containers: [{name: main, image: train, envFrom: [{configMapRef: {name: settings}}]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
";

/// A pod of a PodGroup of Kubernetes.
const GROUPED: &str = "
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: default}
spec: {schedulingPolicy: {gang: {minCount: 1}}}
---
apiVersion: v1
kind: Pod
metadata: {name: grouped, namespace: default, labels: {kai.scheduler/queue: borrower}}
spec:
  schedulerName: kai-scheduler
  schedulingGroup: {podGroupName: gang}
  containers: [{name: main, image: train}]
";

/// A pod with a BindRequest to a node that does not exist.
const UNBINDABLE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: astray, namespace: default, labels: {kai.scheduler/queue: borrower}}
spec: {schedulerName: kai-scheduler, containers: [{name: main, image: train}]}
---
apiVersion: scheduling.run.ai/v1alpha2
kind: BindRequest
metadata: {name: astray, namespace: default}
spec: {podName: astray, selectedNode: nowhere}
";

/// A gated pod, and a BindRequest for which the binder has to create a resource claim.
const EXTENDED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: extended, namespace: default}
spec: {schedulerName: theirs, schedulingGates: [{name: wait}], containers: [{name: main, image: train}]}
---
apiVersion: scheduling.run.ai/v1alpha2
kind: BindRequest
metadata: {name: extended, namespace: default}
spec:
  podName: extended
  selectedNode: n-0
  extendedResourceClaimAllocation:
    allocation: {devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: n-0, device: gpu-7}]}}
    deviceRequests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]
";

/// A pod that shares a GPU, and gets its device through ConfigMaps.
const SHARING: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: sharing
  namespace: default
  labels: {kai.scheduler/queue: owner}
  annotations: {gpu-fraction: '0.5', runai/shared-gpu-configmap: shared}
spec: {schedulerName: kai-scheduler, containers: [{name: main, image: train}]}
";

/// Third-party kinds that own pods: group, plural and kind.
const FOREIGN_OWNERS: [(&str, &str, &str); 35] = [
    ("kubeflow.org", "tfjobs", "TFJob"),
    ("kubeflow.org", "xgboostjobs", "XGBoostJob"),
    ("kubeflow.org", "jaxjobs", "JAXJob"),
    ("kubeflow.org", "mpijobs", "MPIJob"),
    ("kubeflow.org", "notebooks", "Notebook"),
    ("kubeflow.org", "scheduledworkflows", "ScheduledWorkflow"),
    ("ray.io", "rayclusters", "RayCluster"),
    ("ray.io", "rayjobs", "RayJob"),
    ("ray.io", "rayservices", "RayService"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets", "LeaderWorkerSet"),
    ("grove.io", "podcliques", "PodClique"),
    ("grove.io", "podcliquescalinggroups", "PodCliqueScalingGroup"),
    ("grove.io", "podcliquesets", "PodCliqueSet"),
    ("grove.io", "podgangsets", "PodGangSet"),
    ("nvidia.com", "dynamographdeployments", "DynamoGraphDeployment"),
    ("serving.knative.dev", "revisions", "Revision"),
    ("serving.knative.dev", "configurations", "Configuration"),
    ("serving.knative.dev", "services", "Service"),
    ("argoproj.io", "workflows", "Workflow"),
    ("tekton.dev", "taskruns", "TaskRun"),
    ("tekton.dev", "pipelineruns", "PipelineRun"),
    ("machinelearning.seldon.io", "seldondeployments", "SeldonDeployment"),
    ("kubevirt.io", "virtualmachineinstances", "VirtualMachineInstance"),
    ("kubevirt.io", "virtualmachines", "VirtualMachine"),
    ("workspace.devfile.io", "devworkspaces", "DevWorkspace"),
    ("amlarc.azureml.com", "amljobs", "AmlJob"),
    ("egx.nvidia.io", "spotrequests", "SPOTRequest"),
    ("run.ai", "runaijobs", "RunaiJob"),
    ("run.ai", "workloadrunners", "WorkloadRunner"),
    ("run.ai", "trainingworkloads", "TrainingWorkload"),
    ("run.ai", "interactiveworkloads", "InteractiveWorkload"),
    ("run.ai", "distributedworkloads", "DistributedWorkload"),
    ("run.ai", "inferenceworkloads", "InferenceWorkload"),
    ("run.ai", "distributedinferenceworkloads", "DistributedInferenceWorkload"),
    ("sparkoperator.k8s.io", "sparkapplications", "SparkApplication"),
];

/// Makes the scheduler send all its kinds of requests through `client`.
pub(crate) async fn exercise(lab: &Lab, client: kube::Client) {
    lab.create("", "namespaces", &json!({ "metadata": { "name": "kai-scheduler" } }));
    lab.nodes(1, 8);
    lab.queue("borrower", 0, -1);
    lab.queue("owner", 8, -1);
    lab.queue("default-queue", 0, 0);
    lab.job("borrowed", "borrower", 8, 1);
    let clock = lab.emulator.clock().clone();
    let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
    let election = ElectionConfig::new("kai-scheduler", "kai-scheduler", "me");
    let config = Config { usage_window: Some(Duration::from_hours(1)), ..Config::kai() };
    let run = schedlab_scheduler::run(client.clone(), config, Arc::clone(&now));
    let (state, _) = watch::channel(LeaderState::default());
    let elected = lead(client.clone(), election, now.clone(), state, run, std::future::pending());
    let task = tokio::spawn(elected);
    lab.advance(5).await;
    lab.job("owned", "owner", 4, 4);
    lab.job("too-large", "owner", 40, 40);
    lab.queue("q", 0, -1);
    lab.apply(crate::WORKLOADS);
    // Kinds whose controllers the emulator does not have.
    let template = json!({
        "metadata": { "labels": { "app": "agent" } },
        "spec": { "restartPolicy": "Always", "containers": [{ "name": "c", "image": "i" }] },
    });
    let daemons = json!({
        "selector": { "matchLabels": { "app": "agent" } }, "template": template,
    });
    create_owned_pod(lab, "apps", "daemonsets", "DaemonSet", &daemons);
    let jobs = json!({
        "schedule": "@daily",
        "jobTemplate": { "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
        } } } },
    });
    create_owned_pod(lab, "batch", "cronjobs", "CronJob", &jobs);
    // The emulator's controller of LeaderWorkerSets creates pods from this template.
    let spec = json!({ "leaderWorkerTemplate": { "workerTemplate": { "spec": {
        "schedulerName": "kai-scheduler", "containers": [{ "name": "c", "image": "i" }],
    } } } });
    for (group, plural, kind) in FOREIGN_OWNERS {
        lab.define_kind(group, "v1", plural, kind);
        create_owned_pod(lab, group, plural, kind, &spec);
    }
    lab.define_kind("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang");
    lab.define_kind(
        "topology.node.k8s.io",
        "v1alpha2",
        "noderesourcetopologies",
        "NodeResourceTopology",
    );
    lab.define_kind("run.ai", "v1alpha1", "kartas", "Karta");
    lab.apply(CLAIMED);
    lab.apply(STORING);
    lab.apply(GROUPED);
    lab.advance(90).await;
    task.abort();
    // The next scheduler looks for events that this one has not written.
    let next =
        tokio::spawn(schedlab_scheduler::run(client.clone(), Config::kai(), Arc::clone(&now)));
    lab.advance(5).await;
    next.abort();
    // Without component scheduler, the pod grouper only labels pods with their group.
    let mut config = Config::kai();
    config.components.remove(&Component::Scheduler);
    let grouper = tokio::spawn(schedlab_scheduler::run(client.clone(), config, Arc::clone(&now)));
    lab.job("grouped", "owner", 1, 1);
    lab.advance(5).await;
    grouper.abort();
    bind_by_requests(lab, client, now).await;
}

/// One pod is bound through a BindRequest, and one BindRequest to a missing node is withdrawn.
async fn bind_by_requests(lab: &Lab, client: kube::Client, now: schedlab_scheduler::Clock) {
    lab.apply(UNBINDABLE);
    lab.apply(EXTENDED);
    let gpu_reservation = Some(GpuReservation::with_image("reserve"));
    let config = Config { binding: Binding::Requests, gpu_reservation, ..Config::kai() };
    let namespace = json!({ "metadata": { "name": "kai-resource-reservation" } });
    lab.create("", "namespaces", &namespace);
    let existing = json!({ "metadata": { "name": "shared-0", "namespace": "default" } });
    lab.create("", "configmaps", &existing);
    let run = tokio::spawn(schedlab_scheduler::run(client, config, now));
    lab.delete_in("default", "jobs", "batch", "owned");
    lab.advance(60).await;
    lab.job("requested", "owner", 1, 1);
    lab.apply(SHARING);
    lab.advance(5).await;
    run.abort();
}

/// Creates an owner and a pod of it.
fn create_owned_pod(lab: &Lab, group: &str, plural: &str, kind: &str, spec: &Value) {
    let api_version = format!("{group}/v1");
    let owner = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": "owner", "namespace": "default" }, "spec": spec,
    });
    let uid = lab.create(group, plural, &owner);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("of-{plural}"), "namespace": "default",
            "labels": { "grove.io/podgang": "gang" },
            "ownerReferences": [{ "apiVersion": api_version, "kind": kind, "name": "owner",
                                  "uid": uid, "controller": true }],
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{ "name": "main", "image": "train" }],
        },
    });
    lab.create("", "pods", &pod);
}

/// The group keeps its start time although its oldest pod is gone, so that a minimum runtime does
/// not protect it again.
#[test]
fn a_running_group_keeps_its_start_time_when_the_scheduler_restarts() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 1);
        lab.queue("q", 8, -1);
        lab.start();
        lab.job("train", "q", 2, 1);
        lab.advance(120).await;
        let start = lab.last_start();
        let pods = lab.list("", "pods");
        let oldest = pods.iter().find(|pod| pod["spec"]["nodeName"].is_string()).unwrap();
        let oldest = oldest["metadata"]["name"].as_str().unwrap();
        lab.apply("{apiVersion: v1, kind: Node, metadata: {name: more}, status: {capacity: {cpu: '8', pods: '9', nvidia.com/gpu: '1'}}}");
        lab.advance(10).await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-0
        train-1 Running more
        ");
        lab.delete_in("default", "pods", "", oldest);
        lab.advance(10).await;
        lab.stop().await;
        lab.start();
        lab.advance(10).await;
        assert_eq!(lab.last_start(), start);
    });
}
