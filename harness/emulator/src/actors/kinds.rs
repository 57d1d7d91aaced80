//! The collections that actors know by name.

use std::sync::LazyLock;

use crate::store::Resource;

type Known = LazyLock<Resource>;

pub(super) static PODS: Known = LazyLock::new(|| Resource::new("", "pods"));
pub(super) static CONFIG_MAPS: Known = LazyLock::new(|| Resource::new("", "configmaps"));
pub(super) static SERVICE_ACCOUNTS: Known = LazyLock::new(|| Resource::new("", "serviceaccounts"));
pub(super) static SECRETS: Known = LazyLock::new(|| Resource::new("", "secrets"));
pub(super) static VOLUMES: Known = LazyLock::new(|| Resource::new("", "persistentvolumes"));
pub(super) static VOLUME_CLAIMS: Known =
    LazyLock::new(|| Resource::new("", "persistentvolumeclaims"));
pub(super) static STORAGE_CLASSES: Known =
    LazyLock::new(|| Resource::new("storage.k8s.io", "storageclasses"));
pub(super) static DEFINITIONS: Known =
    LazyLock::new(|| Resource::new("apiextensions.k8s.io", "customresourcedefinitions"));
pub(super) static NODES: Known = LazyLock::new(|| Resource::new("", "nodes"));
pub(super) static NAMESPACES: Known = LazyLock::new(|| Resource::new("", "namespaces"));
pub(super) static EVENTS: Known = LazyLock::new(|| Resource::new("", "events"));
pub(super) static LEASES: Known = LazyLock::new(|| Resource::new("coordination.k8s.io", "leases"));
pub(super) static CLAIMS: Known =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceclaims"));
pub(super) static CLAIM_TEMPLATES: Known =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceclaimtemplates"));
pub(super) static SLICES: Known =
    LazyLock::new(|| Resource::new("resource.k8s.io", "resourceslices"));
pub(super) static DEVICE_CLASSES: Known =
    LazyLock::new(|| Resource::new("resource.k8s.io", "deviceclasses"));
pub(super) static BUDGETS: Known =
    LazyLock::new(|| Resource::new("policy", "poddisruptionbudgets"));
pub(super) static QUOTAS: Known = LazyLock::new(|| Resource::new("", "resourcequotas"));
pub(super) static REPLICA_SETS: Known = LazyLock::new(|| Resource::new("apps", "replicasets"));
pub(super) static DEPLOYMENTS: Known = LazyLock::new(|| Resource::new("apps", "deployments"));
pub(super) static STATEFUL_SETS: Known = LazyLock::new(|| Resource::new("apps", "statefulsets"));
pub(super) static CONTROLLER_REVISIONS: Known =
    LazyLock::new(|| Resource::new("apps", "controllerrevisions"));
pub(super) static JOBS: Known = LazyLock::new(|| Resource::new("batch", "jobs"));
pub(super) static JOB_SETS: Known = LazyLock::new(|| Resource::new("jobset.x-k8s.io", "jobsets"));
pub(super) static TRAIN_JOBS: Known =
    LazyLock::new(|| Resource::new("trainer.kubeflow.org", "trainjobs"));
pub(super) static RUNTIMES: Known =
    LazyLock::new(|| Resource::new("trainer.kubeflow.org", "clustertrainingruntimes"));
pub(super) static PYTORCH_JOBS: Known =
    LazyLock::new(|| Resource::new("kubeflow.org", "pytorchjobs"));
