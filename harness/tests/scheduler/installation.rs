//! What is installed under `kind-configs` is what the program needs: its kinds, and exactly the
//! rights that it uses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request};
use schedlab_json::{Value, json};
use schedlab_scheduler::{
    Binding, Component, Config, ConfigFile, GpuReservation,
    admission::{self, Changed},
    crds,
    leader::{Election, Standing, lead},
};
use serde::Deserialize as _;
use tokio::sync::watch;
use tower::{ServiceExt as _, service_fn};

use super::lab::Lab;

fn text(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kind-configs");
    let path = root.join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn documents(yaml: &str) -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(yaml);
    let read = documents.map(|document| Value::deserialize(document).unwrap());
    read.filter(|document| !document.is_null()).collect()
}

/// The rules of each kind of role.
fn rules(yaml: &str) -> BTreeMap<String, Value> {
    let roles = documents(yaml).into_iter().filter(|object| object["rules"].is_array());
    roles.map(|role| (role["kind"].as_str().unwrap().to_owned(), role["rules"].clone())).collect()
}

#[test]
fn the_definitions_that_are_installed_are_those_of_the_program() {
    let again = "write it anew with `schedlab-scheduler crds`";
    let same = documents(&text("kustomize/crds.yaml")) == crds::all();
    assert!(same, "kind-configs/kustomize/crds.yaml is of another version: {again}");
    let same = documents(&text("kustomize/priority-classes.yaml")) == crds::priority_classes();
    assert!(same, "kind-configs/kustomize/priority-classes.yaml is of another version: {again}");
}

#[test]
fn chart_and_kustomize_give_the_same_rights() {
    let template = text("chart/templates/rbac.yaml");
    let plain = template.replace("{{ .Values.schedulerName }}", "kai-scheduler");
    let plain: Vec<&str> = plain.lines().filter(|line| !line.contains("{{")).collect();
    assert_eq!(rules(&plain.join("\n")), rules(&text("kustomize/rbac.yaml")));
}

#[test]
fn the_chart_has_the_api_server_ask_as_the_program_prints_it() {
    let template = text("chart/templates/webhook.yaml");
    let values = [
        ("{{ .Release.Name }}", "scheduler"),
        ("{{ .Release.Namespace }}", "kai"),
        ("{{ .Values.webhook.secretName }}", "pair"),
        ("{{ .Values.schedulerName }}", "mine"),
        ("{{ $authority }}", "QQ=="),
        ("{{ $certificate }}", "Qg=="),
        ("{{ $key }}", "Qw=="),
    ];
    let filled = values.iter().fold(template, |text, (from, to)| text.replace(from, to));
    let (before, rest) = filled.split_once("{{- if not (or (.Values.config).block").unwrap();
    let (_, after) = rest.split_once("{{- end }}").unwrap();
    let all = [before, after].concat();
    for (text, changed) in [(&filled, Changed::Sharing), (&all, Changed::All)] {
        let plain: Vec<&str> = text.lines().filter(|line| !line.contains("{{")).collect();
        let objects = documents(&plain.join("\n"));
        assert_eq!(objects[0]["kind"], "Secret");
        let service = admission::Service {
            namespace: "kai",
            name: "scheduler",
            authority: Some("QQ=="),
            scheduler_name: "mine",
            changed,
        };
        assert_eq!(objects[1..], admission::configurations(&service));
    }
}

#[test]
fn the_chart_takes_what_the_configuration_file_takes() {
    let mut values: Value = serde_json::from_str(&text("chart/values.schema.json")).unwrap();
    let mut file = schedlab_json::to_value(&ConfigFile::schema()).unwrap();
    file.as_object_mut().unwrap().remove("$schema");
    let shapes = file.as_object_mut().unwrap().remove("$defs");
    let again = "write kind-configs/chart/values.schema.json anew from `config-schema`: its $defs, \
                 and the rest as properties.config";
    assert_eq!(values["properties"]["config"], file, "{again}");
    assert_eq!(values.as_object_mut().unwrap().remove("$defs"), shapes, "{again}");
}

#[test]
fn a_configuration_is_read_where_it_is_mounted() {
    let file = "/etc/schedlab/config/config.yaml";
    let chart = plain("chart/templates/deployment.yaml");
    let argument = format!("--config={file}");
    let arguments = &chart["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(arguments.as_array().unwrap().contains(&json!(argument)), "{arguments}");
    let written = plain("chart/templates/config.yaml");
    let (folder, map) = mounted(&chart);
    assert_eq!(json!(map), written["metadata"]["name"]);
    assert!(!written["data"][file.trim_start_matches(&format!("{folder}/"))].is_null());
    // kustomize has the place; what is put there, and the argument, the documents tell.
    let (folder, map) = mounted(&plain("kustomize/deployment.yaml"));
    assert_eq!((&*folder, &*map), ("/etc/schedlab/config", "schedlab-scheduler-config"));
    let told = text("../docs/configuring.md");
    assert!(told.contains(&format!("value: {argument} ")) && told.contains(&map));
}

/// The only object of a file, where a template says nothing but the release's name.
fn plain(file: &str) -> Value {
    let filled =
        text(file).replace("{{ .Release.Name }}", "r").replace("{{ $.Release.Name }}", "r");
    let lines: Vec<&str> = filled.lines().filter(|line| !line.contains("{{")).collect();
    documents(&lines.join("\n")).remove(0)
}

/// The folder that the configuration's volume is mounted at, and the config map that it shows.
fn mounted(deployment: &Value) -> (String, String) {
    let named = |all: &Value| {
        let mut all = all.as_array().unwrap().iter();
        all.find(|it| it["name"] == "config").unwrap().clone()
    };
    let pod = &deployment["spec"]["template"]["spec"];
    let folder = &named(&pod["containers"][0]["volumeMounts"])["mountPath"];
    let map = &named(&pod["volumes"])["configMap"]["name"];
    (folder.as_str().unwrap().to_owned(), map.as_str().unwrap().to_owned())
}

/// Processes with different parts have leases of names that the user picks.
#[test]
fn a_lease_may_have_any_name() {
    let rules = &rules(&text("kustomize/rbac.yaml"))["Role"];
    let of_leases = |rule: &&Value| rule["resources"] == json!(["leases"]);
    let all: Vec<_> = rules.as_array().unwrap().iter().filter(of_leases).collect();
    assert_eq!(
        all,
        [&json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                  "verbs": ["create", "get", "patch"] })]
    );
}

#[test]
fn the_rights_are_those_that_the_scheduler_uses() {
    let granted: BTreeSet<String> =
        rules(&text("kustomize/rbac.yaml")).values().flat_map(rights).collect();
    let used = Lab::tell(async |lab| {
        let (client, used) = noting(&lab);
        work(&lab, client).await;
        let used = used.lock().unwrap();
        used.clone()
    });
    let missing: Vec<_> = used.difference(&granted).collect();
    let idle: Vec<_> = granted.difference(&used).collect();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "not granted: {missing:#?}\nnot used: {idle:#?}"
    );
}

/// A pod with a claim, and a node that publishes what it asks for.
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

/// A pod with two claims on volumes: one is there, the other is to be made. It needs a config map.
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

/// A pod with a request that nobody can carry out.
const ASTRAY: &str = "
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

/// A pod that is sent to a node with a claim that is to be made for it, and cannot be bound.
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

/// A pod that shares a GPU, and is told which by config maps.
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

/// Kinds of others that own pods.
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

/// The kind that topology updaters bring.
const ZONES_OF_NODES: (&str, &str, &str, &str) =
    ("topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", "NodeResourceTopology");

/// The kind that says how kinds of workloads are grouped.
const KARTAS: (&str, &str, &str, &str) = ("run.ai", "v1alpha1", "kartas", "Karta");

/// A life in which everything happens that the scheduler asks the API server for.
async fn work(lab: &Lab, client: kube::Client) {
    lab.create("", "namespaces", &json!({ "metadata": { "name": "kai-scheduler" } }));
    lab.nodes(1, 8);
    lab.queue("borrower", 0, -1);
    lab.queue("owner", 8, -1);
    lab.queue("default-queue", 0, 0);
    lab.job("borrowed", "borrower", (8, 1));
    let clock = lab.emulator.clock().clone();
    let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
    let election = Election::new("kai-scheduler", "kai-scheduler", "me");
    let config = Config { usage_window: Some(Duration::from_hours(1)), ..Config::kai() };
    let run = schedlab_scheduler::run(client.clone(), config, Arc::clone(&now));
    let (told, _) = watch::channel(Standing::default());
    let elected = lead(client.clone(), (election, now.clone()), told, run, std::future::pending());
    let task = tokio::spawn(elected);
    lab.pass(5).await;
    lab.job("owned", "owner", (4, 4));
    lab.job("too-large", "owner", (40, 40));
    lab.queue("q", 0, -1);
    lab.apply(super::WORKLOADS);
    // Kinds whose controllers the emulator has not got.
    let template = json!({
        "metadata": { "labels": { "app": "agent" } },
        "spec": { "restartPolicy": "Always", "containers": [{ "name": "c", "image": "i" }] },
    });
    let daemons = json!({
        "selector": { "matchLabels": { "app": "agent" } }, "template": template,
    });
    owned_pod(lab, ("apps", "daemonsets", "DaemonSet"), &daemons);
    let jobs = json!({
        "schedule": "@daily",
        "jobTemplate": { "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
        } } } },
    });
    owned_pod(lab, ("batch", "cronjobs", "CronJob"), &jobs);
    for (group, plural, kind) in FOREIGN_OWNERS {
        lab.define((group, "v1", plural, kind));
        owned_pod(lab, (group, plural, kind), &json!({}));
    }
    lab.define(("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang"));
    lab.define(ZONES_OF_NODES);
    lab.define(KARTAS);
    lab.apply(CLAIMED);
    lab.apply(STORING);
    lab.pass(90).await;
    task.abort();
    // The next one looks for what this one left untold.
    let next =
        tokio::spawn(schedlab_scheduler::run(client.clone(), Config::kai(), Arc::clone(&now)));
    lab.pass(5).await;
    next.abort();
    // One that does not schedule has no other word to say to a pod than its group.
    let mut config = Config::kai();
    config.components.remove(&Component::Scheduler);
    let grouper = tokio::spawn(schedlab_scheduler::run(client.clone(), config, Arc::clone(&now)));
    lab.job("grouped", "owner", (1, 1));
    lab.pass(5).await;
    grouper.abort();
    bind_by_requests(lab, client, now).await;
}

/// One pod is sent to a node, and one is called back from a node that is not there.
async fn bind_by_requests(lab: &Lab, client: kube::Client, now: schedlab_scheduler::Clock) {
    lab.apply(ASTRAY);
    lab.apply(EXTENDED);
    let gpu_reservation = Some(GpuReservation::with_image("reserve"));
    let config = Config { binding: Binding::Requests, gpu_reservation, ..Config::kai() };
    let namespace = json!({ "metadata": { "name": "kai-resource-reservation" } });
    lab.create("", "namespaces", &namespace);
    let known = json!({ "metadata": { "name": "shared-0", "namespace": "default" } });
    lab.create("", "configmaps", &known);
    let run = tokio::spawn(schedlab_scheduler::run(client, config, now));
    lab.delete_in("default", "jobs", "batch", "owned");
    lab.pass(60).await;
    lab.job("requested", "owner", (1, 1));
    lab.apply(SHARING);
    lab.pass(5).await;
    run.abort();
}

/// Creates an owner and a pod of it.
fn owned_pod(lab: &Lab, (group, plural, kind): (&str, &str, &str), spec: &Value) {
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

/// A client, and what is asked for through it, as "group resource verb".
fn noting(lab: &Lab) -> (kube::Client, Arc<Mutex<BTreeSet<String>>>) {
    let used = Arc::new(Mutex::new(BTreeSet::new()));
    let (noted, router) = (Arc::clone(&used), lab.emulator.service());
    let service = service_fn(move |request: Request<kube::client::Body>| {
        noted.lock().unwrap().extend(right(request.method(), request.uri()));
        router.clone().oneshot(request)
    });
    (kube::Client::new(service, "default"), used)
}

/// What a request needs; discovery is open to everybody.
fn right(method: &Method, uri: &http::Uri) -> Option<String> {
    let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => panic!("{uri} is no path of the API"),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        other => other,
    };
    let watches = uri.query().is_some_and(|query| query.contains("watch=true"));
    let verb = match (method.as_str(), rest.len()) {
        ("GET", 1) if watches => "watch",
        ("GET", 1) => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        (other, _) => panic!("{other} is not known here"),
    };
    match rest {
        [] => None,
        [resource] | [resource, _] => Some(format!("{group} {resource} {verb}")),
        [resource, _, sub] => Some(format!("{group} {resource}/{sub} {verb}")),
        _ => panic!("{uri} is no path of the API"),
    }
}

/// Each right of some rules by itself.
fn rights(rules: &Value) -> Vec<String> {
    let words = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = Vec::new();
    for rule in rules.as_array().unwrap() {
        let resources = words(rule, "resources");
        for group in words(rule, "apiGroups") {
            for resource in &resources {
                let verbs = words(rule, "verbs").into_iter();
                rights.extend(verbs.map(|verb| format!("{group} {resource} {verb}")));
            }
        }
    }
    rights
}
