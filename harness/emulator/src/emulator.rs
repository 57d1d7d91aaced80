//! An emulated cluster: a store with the objects of a new cluster, its API, and its controllers on
//! the current runtime.

use std::fmt;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::admission::webhooks::client::{ServiceHandler, Webhooks};
use crate::api_types::error::ApiError;
use crate::api_types::feature_gates::FeatureGates;
use crate::clock::Clock;
use crate::controllers::controller_manager::ControllerManager;
use crate::controllers::namespace_defaults;
use crate::fleet::{Fleet, FleetError};
use crate::http::Router;
use crate::http::serve::{Reach, Server};
use crate::reconcile::{KubeletDefaults, key_of};
use crate::store::shared::{Observer, SharedStore};
use crate::store::{
    Compacted, FieldValidation, IdGenerator, LogEntry, Op, Resource, Store, Write, WriteOutcome,
};
use schedlab_api::{Value, json, object_names};

/// kube-apiserver's default of `--event-ttl`.
const EVENT_TTL: Duration = Duration::from_hours(1);

/// The options of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The clock of the cluster.
    pub clock: Clock,
    /// The seed of uids and generated names.
    pub seed: u64,
    /// The timing of pods without annotations.
    pub kubelet_defaults: KubeletDefaults,
    /// Whether the CRDs of third-party workload kinds are installed, such as `JobSet` and
    /// `RayCluster`.
    pub workload_kinds: bool,
    /// How long the log keeps a change; `None` keeps it forever. kube-apiserver keeps 5 min.
    pub log_retention: Option<Duration>,
    /// How long an event is kept after its last write, as kube-apiserver's `--event-ttl`; `None`
    /// keeps events forever. An older event is removed at the next change of the cluster, so that
    /// the removal alone never advances virtual time. Default: 1 h.
    pub event_ttl: Option<Duration>,
    /// Whether kubelets and controllers run. Without them the emulator is only an API server.
    pub runs_controllers: bool,
    /// Names of controllers that do not run, because a client of the API replaces them.
    pub replaced_controllers: Vec<&'static str>,
    /// The version of Kubernetes and its feature gates.
    pub feature_gates: FeatureGates,
}

impl Options {
    /// The default options with a clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self {
            clock,
            seed: 0,
            kubelet_defaults: KubeletDefaults::default(),
            workload_kinds: true,
            log_retention: None,
            event_ttl: Some(EVENT_TTL),
            runs_controllers: true,
            replaced_controllers: Vec::new(),
            feature_gates: FeatureGates::default(),
        }
    }
}

/// An emulated cluster. Clones refer to the same cluster; dropping the last one stops its
/// controllers.
#[derive(Clone)]
pub struct Emulator {
    shared: SharedStore,
    router: Router,
    webhooks: Webhooks,
    _controllers: Option<Arc<ControllerTask>>,
}

/// The tokio task of the controllers, aborted on drop.
struct ControllerTask(JoinHandle<()>);

impl Drop for ControllerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Error: the cluster was still changing at the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("still changing after {limit:?}")]
pub struct SettleTimeout {
    /// The time limit that was exceeded.
    pub limit: Duration,
}

impl Emulator {
    /// Starts a cluster on the current tokio runtime. Its time is virtual if the runtime is paused.
    pub fn start(options: Options) -> Self {
        let store = initial_store(&options, []).expect("the objects of a new cluster are valid");
        Self::start_with(store, options)
    }

    /// Starts a cluster with a store that [`initial_store`] created.
    pub fn start_with(store: Store, options: Options) -> Self {
        let shared = SharedStore::new(store, options.clock);
        let webhooks = Webhooks::default();
        let manager =
            ControllerManager::new(shared.clone(), options.kubelet_defaults, options.log_retention)
                .with_event_ttl(options.event_ttl)
                .with_webhooks(webhooks.clone())
                .without_controllers(options.replaced_controllers);
        let controllers =
            options.runs_controllers.then(|| Arc::new(ControllerTask(tokio::spawn(manager.run()))));
        let router = Router::with_webhooks(shared.clone(), webhooks.clone());
        Self { router, webhooks, shared, _controllers: controllers }
    }

    /// A Kubernetes client in the same process, without a socket. The client's default namespace is
    /// `default`.
    pub fn client(&self) -> kube::Client {
        self.router.client()
    }

    /// The API as a service for HTTP requests.
    pub fn service(&self) -> Router {
        self.router.clone()
    }

    /// Serves the API to other processes of this machine over TLS. Port 0 picks a free port.
    ///
    /// # Errors
    ///
    /// The address is taken, or is not a loopback address.
    pub async fn serve(&self, address: SocketAddr) -> anyhow::Result<Server> {
        Server::start(self.service(), address, Reach::Loopback).await
    }

    /// Serves the API to all machines that reach the address.
    ///
    /// # Errors
    ///
    /// The address is taken, or is not of this machine.
    pub async fn serve_network(&self, address: SocketAddr) -> anyhow::Result<Server> {
        Server::start(self.service(), address, Reach::Network).await
    }

    /// Registers a webhook in this process, for webhook configurations with this service.
    pub fn serve_webhook(&self, namespace: &str, name: &str, service: ServiceHandler) {
        self.webhooks.register_service(namespace, name, service);
    }

    /// Removes a webhook in this process.
    pub fn remove_webhook(&self, namespace: &str, name: &str) {
        self.webhooks.remove_service(namespace, name);
    }

    /// The clock of the cluster.
    pub fn clock(&self) -> &Clock {
        self.shared.clock()
    }

    /// The store of the cluster.
    pub fn store(&self) -> &SharedStore {
        &self.shared
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.shared.revision()
    }

    /// The changes after `revision`, oldest first. Revision 0 stands for the beginning: all
    /// changes.
    ///
    /// # Errors
    /// The log was compacted beyond the revision.
    pub fn log_since(&self, revision: u64) -> Result<Vec<Arc<LogEntry>>, Compacted> {
        self.shared.read(|store| store.log_since(revision.max(1)).map(<[_]>::to_vec))
    }

    /// Registers an observer of every later change. It is called under the store's lock, in the
    /// order of revisions.
    pub fn observe_writes(&self, observer: Observer) {
        self.shared.observe(observer);
    }

    /// Creates an object, as an administrator would.
    ///
    /// # Errors
    ///
    /// The object is invalid, exists already, or is rejected at admission.
    pub fn create(&self, resource: &Resource, object: Value) -> Result<WriteOutcome, ApiError> {
        self.shared.write(create_write(resource, object))
    }

    /// Adds the nodes of a fleet. If one is refused, none is added.
    ///
    /// # Errors
    /// A node is refused; the error has its location in the fleet file.
    pub fn add_fleet(&self, fleet: &Fleet) -> Result<(), FleetError> {
        let nodes = Resource::new("", "nodes");
        let dry_runs = fleet.nodes_with_locations().map(|node| (true, node));
        let writes = fleet.nodes_with_locations().map(|node| (false, node));
        self.shared.change(|store, now| {
            dry_runs.chain(writes).try_for_each(|(dry_run, (node, location))| {
                let write = Write { dry_run, ..create_write(&nodes, node.clone()) };
                let refused = |error: ApiError| FleetError {
                    location: location.location_of_field(error.field().unwrap_or_default()),
                    message: error.to_string(),
                };
                store.write(write, now).map(drop).map_err(refused)
            })
        })
    }

    /// Waits until nothing was written for `quiet`. Both durations are in the cluster's time.
    ///
    /// # Errors
    /// The cluster is still changing after `limit`.
    pub async fn settle(&self, quiet: Duration, limit: Duration) -> Result<(), SettleTimeout> {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let before = self.revision();
            tokio::time::sleep(quiet).await;
            if self.revision() == before {
                return Ok(());
            }
            if tokio::time::Instant::now() >= end {
                return Err(SettleTimeout { limit });
            }
        }
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Emulator").field("store", &self.shared).finish_non_exhaustive()
    }
}

/// The store of a new cluster with additional objects, before its controllers start. To start many
/// equal clusters, create it once and clone it.
///
/// # Errors
/// An object is refused.
pub fn initial_store(
    options: &Options,
    objects: impl IntoIterator<Item = (Resource, Value)>,
) -> Result<Store, ApiError> {
    let now = options.clock.now();
    let mut store = Store::with_feature_gates(options.seed, options.feature_gates.clone());
    let (later, first): (Vec<Write>, Vec<Write>) =
        initial_objects(options.workload_kinds).into_iter().partition(defines_later_kind);
    let more = objects.into_iter().map(|(resource, object)| create_write(&resource, object));
    first.into_iter().chain(more).try_for_each(|write| store.write(write, now).map(drop))?;
    // Their uids come from a separate generator, so that they do not affect other generated names.
    let common = mem::replace(&mut store.ids, IdGenerator::new(!options.seed));
    let defaults = if options.runs_controllers { namespace_defaults(&store) } else { Vec::new() };
    let mut more = later.into_iter().chain(defaults).chain([kubernetes_service()]);
    more.try_for_each(|write| store.write(write, now).map(drop))?;
    store.ids = common;
    Ok(store)
}

/// Whether a write defines a kind that was added later. Such kinds come last, so that the generated
/// names in reviewed snapshots stay the same.
fn defines_later_kind(write: &Write) -> bool {
    [".ray.io", ".leaderworkerset.x-k8s.io"].iter().any(|group| write.key.name.ends_with(group))
}

fn create_write(resource: &Resource, object: Value) -> Write {
    let key = key_of(resource, &object);
    Write {
        field_validation: FieldValidation::Strict,
        ..Write::new(key, Op::Create(object), "kube-apiserver")
    }
}

/// The write that creates the service `kubernetes` of the API server.
fn kubernetes_service() -> Write {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "type": "ClusterIP",
        },
    });
    create_write(&Resource::new("", "services"), service)
}

/// The writes that create the namespaces, priority classes and CRDs of a new cluster.
fn initial_objects(workload_kinds: bool) -> Vec<Write> {
    let namespaces = Resource::new("", "namespaces");
    let classes = Resource::new("scheduling.k8s.io", "priorityclasses");
    let mut writes: Vec<Write> =
        ["default", "kube-system", "kube-public", object_names::NODE_LEASE_NAMESPACE]
            .into_iter()
            .map(|name| {
                let object =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                create_write(&namespaces, object)
            })
            .collect();
    let system = [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ];
    writes.extend(system.into_iter().map(|(name, value, description)| {
        let object = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        });
        create_write(&classes, object)
    }));
    if workload_kinds {
        let definitions = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let all = crate::api_types::third_party_crds::workload_crds().into_iter();
        writes.extend(all.map(|definition| create_write(&definitions, definition)));
    }
    writes
}

#[cfg(test)]
mod adoption_tests;
#[cfg(test)]
mod deployment_tests;
#[cfg(test)]
mod device_taint_tests;
#[cfg(test)]
mod disruption_tests;
#[cfg(test)]
mod emulator_tests;
#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod job_policy_tests;
#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod leader_worker_tests;
#[cfg(test)]
mod lifecycle_tests;
#[cfg(test)]
mod mount_tests;
#[cfg(test)]
mod pod_group_tests;
#[cfg(test)]
mod pods_tests;
#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod quota_tests;
#[cfg(test)]
mod ray_tests;
#[cfg(test)]
mod resource_claim_tests;
#[cfg(test)]
mod revision_tests;
#[cfg(test)]
mod scaling_tests;
#[cfg(test)]
mod sidecar_tests;
#[cfg(test)]
pub(crate) mod test_cluster;
#[cfg(test)]
mod training_tests;
#[cfg(test)]
mod volume_claim_template_tests;
#[cfg(test)]
mod volume_tests;
#[cfg(test)]
mod webhook_tests;
#[cfg(test)]
mod workload_tests;
