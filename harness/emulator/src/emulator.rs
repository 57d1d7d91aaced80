//! The cluster as others hold it: a store with everything a new cluster has, and its actors at
//! work on the runtime it was started on.

use std::fmt;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::actors::{KubeletDefaults, key_of, namespace_defaults};
use crate::calls::{Service, Webhooks};
use crate::clock::Clock;
use crate::driver::Driver;
use crate::error::ApiError;
use crate::fleet::{Fleet, FleetError};
use crate::http::Router;
use crate::serve::{Reach, Server};
use crate::shared::{Observer, SharedStore};
use crate::store::{
    Compacted, FieldValidation, LogEntry, Names, Op, Resource, Store, Write, Written,
};
use schedlab_json::{Value, json};

/// How a cluster starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its time.
    pub clock: Clock,
    /// Equal seeds give equal uids and names.
    pub seed: u64,
    /// How pods behave that do not say it themselves.
    pub defaults: KubeletDefaults,
    /// Whether `JobSet`, `TrainJob` and `PyTorchJob` are known.
    pub workload_kinds: bool,
    /// For how long the log keeps a change (a real API server: five minutes); for ever when `None`.
    pub log_keep: Option<Duration>,
    /// Whether kubelets and controllers act; without them it is an API server alone.
    pub acts: bool,
    /// Features that are on although Kubernetes 1.35 has them off, by the names of their gates.
    /// Without its feature, what a write says in a field is passed over.
    pub features: Vec<&'static str>,
}

impl Options {
    /// What most clusters want, at the times of a clock.
    pub fn at(clock: Clock) -> Self {
        Self {
            clock,
            seed: 0,
            defaults: KubeletDefaults::default(),
            workload_kinds: true,
            log_keep: None,
            acts: true,
            features: Vec::new(),
        }
    }
}

/// A cluster in memory. Clones are the same cluster; with the last of them its actors stop.
#[derive(Clone)]
pub struct Emulator {
    shared: SharedStore,
    router: Router,
    webhooks: Webhooks,
    _actors: Option<Arc<Actors>>,
}

/// The actors' task, which ends with the cluster.
struct Actors(JoinHandle<()>);

impl Drop for Actors {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A cluster did not come to rest in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("still changing after {limit:?}")]
pub struct Unsettled {
    /// How long it was given.
    pub limit: Duration,
}

impl Emulator {
    /// Starts a cluster on the current tokio runtime: virtual when that runtime's clock is paused.
    pub fn start(options: Options) -> Self {
        let store = beginning(&options, []).expect("what a new cluster has is valid");
        Self::start_with(store, options)
    }

    /// Starts a cluster that has what is in a store, as [`beginning`] makes it.
    pub fn start_with(store: Store, options: Options) -> Self {
        let shared = SharedStore::new(store, options.clock);
        let webhooks = Webhooks::default();
        let driver = Driver::new(shared.clone(), options.defaults, options.log_keep)
            .with_webhooks(webhooks.clone());
        let actors = options.acts.then(|| Arc::new(Actors(tokio::spawn(driver.run()))));
        let router = Router::with_webhooks(shared.clone(), webhooks.clone());
        Self { router, webhooks, shared, _actors: actors }
    }

    /// A client in the same process, without a socket; its default namespace is `default`.
    pub fn client(&self) -> kube::Client {
        self.router.client()
    }

    /// Its API, as a service for HTTP requests.
    pub fn service(&self) -> Router {
        self.router.clone()
    }

    /// Opens its API to other processes of this machine, over TLS; port 0 picks a free one.
    pub async fn serve(&self, address: SocketAddr) -> anyhow::Result<Server> {
        Server::start(self.service(), address, Reach::Loopback).await
    }

    /// Opens its API to whoever reaches the address and has the kubeconfig.
    pub async fn serve_network(&self, address: SocketAddr) -> anyhow::Result<Server> {
        Server::start(self.service(), address, Reach::Network).await
    }

    /// Puts up a webhook in this process, for configurations that name this service.
    pub fn serve_webhook(&self, namespace: &str, name: &str, service: Service) {
        self.webhooks.serve(namespace, name, service);
    }

    /// Takes such a webhook away.
    pub fn withdraw_webhook(&self, namespace: &str, name: &str) {
        self.webhooks.withdraw(namespace, name);
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        self.shared.clock()
    }

    /// Its store.
    pub fn store(&self) -> &SharedStore {
        &self.shared
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.shared.revision()
    }

    /// What happened after a revision, oldest first; after 0, everything since the beginning.
    pub fn log_since(&self, revision: u64) -> Result<Vec<Arc<LogEntry>>, Compacted> {
        self.shared.read(|store| store.log_since(revision.max(1)).map(<[_]>::to_vec))
    }

    /// Has every change from now on observed, under the store's lock, in the order of revisions.
    pub fn on_write(&self, observer: Observer) {
        self.shared.observe(observer);
    }

    /// Creates an object, as an administrator would.
    pub fn create(&self, resource: &Resource, object: Value) -> Result<Written, ApiError> {
        self.shared.write(creation(resource, object))
    }

    /// Adds nodes; all of them or, when one is refused, none: told where that one is written.
    pub fn add_fleet(&self, fleet: &Fleet) -> Result<(), FleetError> {
        let nodes = Resource::new("", "nodes");
        let tried = fleet.written().map(|node| (true, node));
        let made = fleet.written().map(|node| (false, node));
        self.shared.change(|store, now| {
            tried.chain(made).try_for_each(|(dry_run, (node, place))| {
                let write = Write { dry_run, ..creation(&nodes, node.clone()) };
                let refused = |error: ApiError| FleetError {
                    place: place.of(error.field().unwrap_or_default()),
                    message: error.to_string(),
                };
                store.write(write, now).map(drop).map_err(refused)
            })
        })
    }

    /// Lets the cluster run until nothing was written for `quiet`, or until `limit` of its own
    /// time has passed. In virtual time that millisecond or second counts.
    pub async fn settle(&self, quiet: Duration, limit: Duration) -> Result<(), Unsettled> {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let before = self.revision();
            tokio::time::sleep(quiet).await;
            if self.revision() == before {
                return Ok(());
            }
            if tokio::time::Instant::now() >= end {
                return Err(Unsettled { limit });
            }
        }
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Emulator").field("store", &self.shared).finish_non_exhaustive()
    }
}

/// What a cluster has before anything acts in it: what every cluster has, then these objects. To
/// start many alike, make it once and hand out copies.
///
/// # Errors
/// An object is refused.
pub fn beginning(
    options: &Options,
    objects: impl IntoIterator<Item = (Resource, Value)>,
) -> Result<Store, ApiError> {
    let now = options.clock.now();
    let mut store = Store::new(options.seed);
    store.features.clone_from(&options.features);
    let first = start_objects(options.workload_kinds).into_iter();
    let more = objects.into_iter().map(|(resource, object)| creation(&resource, object));
    first.chain(more).try_for_each(|write| store.write(write, now).map(drop))?;
    // With uids from a source of their own: nothing else is named otherwise for their sake.
    let common = mem::replace(&mut store.names, Names::new(!options.seed));
    let defaults = if options.acts { namespace_defaults(&store) } else { Vec::new() };
    let mut more = defaults.into_iter().chain([own_service()]);
    more.try_for_each(|write| store.write(write, now).map(drop))?;
    store.names = common;
    Ok(store)
}

fn creation(resource: &Resource, object: Value) -> Write {
    let key = key_of(resource, &object);
    Write {
        field_validation: FieldValidation::Strict,
        ..Write::new(key, Op::Create(object), "kube-apiserver")
    }
}

/// The service by which pods would call the API server, were there a network.
fn own_service() -> Write {
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
    creation(&Resource::new("", "services"), service)
}

/// What a new cluster has.
fn start_objects(workload_kinds: bool) -> Vec<Write> {
    let namespaces = Resource::new("", "namespaces");
    let classes = Resource::new("scheduling.k8s.io", "priorityclasses");
    let mut writes: Vec<Write> = ["default", "kube-system", "kube-public", "kube-node-lease"]
        .into_iter()
        .map(|name| {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            creation(&namespaces, object)
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
        creation(&classes, object)
    }));
    if workload_kinds {
        let definitions = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let all = crate::crds::workload_kinds().into_iter();
        writes.extend(all.map(|definition| creation(&definitions, definition)));
    }
    writes
}

#[cfg(test)]
mod adoption_tests;
#[cfg(test)]
mod claim_tests;
#[cfg(test)]
mod claimed_tests;
#[cfg(test)]
mod deployment_tests;
#[cfg(test)]
mod disruption_tests;
#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod facade_tests;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod job_policy_tests;
#[cfg(test)]
mod job_tests;
#[cfg(test)]
pub(crate) mod lab;
#[cfg(test)]
mod life_tests;
#[cfg(test)]
mod mount_tests;
#[cfg(test)]
mod pods_tests;
#[cfg(test)]
mod quota_tests;
#[cfg(test)]
mod sidecar_tests;
#[cfg(test)]
mod training_tests;
#[cfg(test)]
mod volume_tests;
#[cfg(test)]
mod webhook_tests;
#[cfg(test)]
mod workload_tests;
