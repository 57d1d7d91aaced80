//! The resources that the controllers use.

use std::sync::LazyLock;

use crate::store::Resource;

type LazyResource = LazyLock<Resource>;

pub(super) static PODS: LazyResource = LazyLock::new(|| Resource::new("", "pods"));
pub(super) static CONFIG_MAPS: LazyResource = LazyLock::new(|| Resource::new("", "configmaps"));
pub(super) static SERVICE_ACCOUNTS: LazyResource =
    LazyLock::new(|| Resource::new("", "serviceaccounts"));
pub(super) static SECRETS: LazyResource = LazyLock::new(|| Resource::new("", "secrets"));
pub(super) static VOLUMES: LazyResource = LazyLock::new(|| Resource::new("", "persistentvolumes"));
pub(super) static VOLUME_CLAIMS: LazyResource =
    LazyLock::new(|| Resource::new("", "persistentvolumeclaims"));
pub(super) static STORAGE_CLASSES: LazyResource =
    LazyLock::new(|| Resource::new("storage.k8s.io", "storageclasses"));
pub(super) static CRDS: LazyResource =
    LazyLock::new(|| Resource::new("apiextensions.k8s.io", "customresourcedefinitions"));
pub(super) static NODES: LazyResource = LazyLock::new(|| Resource::new("", "nodes"));
pub(super) static NAMESPACES: LazyResource = LazyLock::new(|| Resource::new("", "namespaces"));
pub(super) static EVENTS: LazyResource = LazyLock::new(|| Resource::new("", "events"));
pub(super) static LEASES: LazyResource =
    LazyLock::new(|| Resource::new("coordination.k8s.io", "leases"));
pub(super) static RESOURCE_CLAIMS: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceclaims"));
pub(super) static RESOURCE_CLAIM_TEMPLATES: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceclaimtemplates"));
pub(super) static RESOURCE_SLICES: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceslices"));
pub(super) static DEVICE_CLASSES: LazyResource =
    LazyLock::new(|| Resource::new("resource.k8s.io", "deviceclasses"));
pub(super) static BUDGETS: LazyResource =
    LazyLock::new(|| Resource::new("policy", "poddisruptionbudgets"));
pub(super) static QUOTAS: LazyResource = LazyLock::new(|| Resource::new("", "resourcequotas"));
pub(super) static REPLICA_SETS: LazyResource =
    LazyLock::new(|| Resource::new("apps", "replicasets"));
pub(super) static DEPLOYMENTS: LazyResource =
    LazyLock::new(|| Resource::new("apps", "deployments"));
pub(super) static STATEFUL_SETS: LazyResource =
    LazyLock::new(|| Resource::new("apps", "statefulsets"));
pub(super) static CONTROLLER_REVISIONS: LazyResource =
    LazyLock::new(|| Resource::new("apps", "controllerrevisions"));
pub(super) static JOBS: LazyResource = LazyLock::new(|| Resource::new("batch", "jobs"));
pub(super) static JOB_SETS: LazyResource =
    LazyLock::new(|| Resource::new("jobset.x-k8s.io", "jobsets"));
pub(super) static TRAIN_JOBS: LazyResource =
    LazyLock::new(|| Resource::new("trainer.kubeflow.org", "trainjobs"));
pub(super) static TRAINING_RUNTIMES: LazyResource =
    LazyLock::new(|| Resource::new("trainer.kubeflow.org", "clustertrainingruntimes"));
pub(super) static PYTORCH_JOBS: LazyResource =
    LazyLock::new(|| Resource::new("kubeflow.org", "pytorchjobs"));
