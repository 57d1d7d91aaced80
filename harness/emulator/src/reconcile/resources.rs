//! The resources that the controllers use.

use std::sync::LazyLock;

use schedlab_api::api_versions;

use crate::store::Resource;

type LazyResource = LazyLock<Resource>;

pub(crate) static PODS: LazyResource = LazyLock::new(|| Resource::new("", "pods"));
pub(crate) static CONFIG_MAPS: LazyResource = LazyLock::new(|| Resource::new("", "configmaps"));
pub(crate) static SERVICE_ACCOUNTS: LazyResource =
    LazyLock::new(|| Resource::new("", "serviceaccounts"));
pub(crate) static SECRETS: LazyResource = LazyLock::new(|| Resource::new("", "secrets"));
pub(crate) static VOLUMES: LazyResource = LazyLock::new(|| Resource::new("", "persistentvolumes"));
pub(crate) static VOLUME_CLAIMS: LazyResource =
    LazyLock::new(|| Resource::new("", "persistentvolumeclaims"));
pub(crate) static STORAGE_CLASSES: LazyResource =
    LazyLock::new(|| Resource::new("storage.k8s.io", "storageclasses"));
pub(crate) static CRDS: LazyResource =
    LazyLock::new(|| Resource::new("apiextensions.k8s.io", "customresourcedefinitions"));
pub(crate) static NODES: LazyResource = LazyLock::new(|| Resource::new("", "nodes"));
pub(crate) static NAMESPACES: LazyResource = LazyLock::new(|| Resource::new("", "namespaces"));
pub(crate) static EVENTS: LazyResource = LazyLock::new(|| Resource::new("", "events"));
pub(crate) static LEASES: LazyResource =
    LazyLock::new(|| Resource::new("coordination.k8s.io", "leases"));
pub(crate) static RESOURCE_CLAIMS: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceclaims"));
pub(crate) static RESOURCE_CLAIM_TEMPLATES: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceclaimtemplates"));
pub(crate) static RESOURCE_SLICES: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceslices"));
pub(crate) static DEVICE_TAINT_RULES: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "devicetaintrules"));
pub(crate) static DEVICE_CLASSES: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "deviceclasses"));
pub(crate) static WORKLOADS: LazyResource =
    LazyLock::new(|| Resource::new("scheduling.k8s.io", "workloads"));
pub(crate) static POD_GROUPS: LazyResource =
    LazyLock::new(|| Resource::new("scheduling.k8s.io", "podgroups"));
pub(crate) static BUDGETS: LazyResource =
    LazyLock::new(|| Resource::new("policy", "poddisruptionbudgets"));
pub(crate) static QUOTAS: LazyResource = LazyLock::new(|| Resource::new("", "resourcequotas"));
pub(crate) static REPLICA_SETS: LazyResource =
    LazyLock::new(|| Resource::new("apps", "replicasets"));
pub(crate) static DEPLOYMENTS: LazyResource =
    LazyLock::new(|| Resource::new("apps", "deployments"));
pub(crate) static STATEFUL_SETS: LazyResource =
    LazyLock::new(|| Resource::new("apps", "statefulsets"));
pub(crate) static CONTROLLER_REVISIONS: LazyResource =
    LazyLock::new(|| Resource::new("apps", "controllerrevisions"));
pub(crate) static JOBS: LazyResource = LazyLock::new(|| Resource::new("batch", "jobs"));
pub(crate) static JOB_SETS: LazyResource =
    LazyLock::new(|| Resource::new(api_versions::JOB_SET_GROUP, "jobsets"));
pub(crate) static TRAIN_JOBS: LazyResource =
    LazyLock::new(|| Resource::new(api_versions::TRAINER_GROUP, "trainjobs"));
pub(crate) static TRAINING_RUNTIMES: LazyResource =
    LazyLock::new(|| Resource::new(api_versions::TRAINER_GROUP, "clustertrainingruntimes"));
pub(crate) static PYTORCH_JOBS: LazyResource =
    LazyLock::new(|| Resource::new(api_versions::KUBEFLOW_GROUP, "pytorchjobs"));
pub(crate) static RAY_CLUSTERS: LazyResource =
    LazyLock::new(|| Resource::new(api_versions::RAY_GROUP, "rayclusters"));
pub(crate) static RAY_JOBS: LazyResource =
    LazyLock::new(|| Resource::new(api_versions::RAY_GROUP, "rayjobs"));
pub(crate) static LEADER_WORKER_SETS: LazyResource =
    LazyLock::new(|| Resource::new(api_versions::LEADER_WORKER_SET_GROUP, "leaderworkersets"));
