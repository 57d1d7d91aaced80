//! A scenario's part of a real cluster, in real time. The emulator's actors simulate its nodes
//! through the API, and its log is assembled from watches.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::future::ready;
use futures::stream;
use jiff::Timestamp;
use schedlab_api::{Value, api_versions, json};
use schedlab_audit::Audit;
use schedlab_emulator::KubeletDefaults;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::controllers::remote_controllers::{
    Collection, RemoteControllers, RemoteOptions,
};
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::store::LogEntry;
use tokio::time::Instant;

use super::watch_log::WatchLog;
use super::{Cluster, UnsettledError};
use crate::schedulers::CycleTicks;
use schedlab_clusters::api::{Api, is_not_found, to_anyhow_error};
use schedlab_clusters::real_cluster::{NodePool, RealCluster};
use schedlab_tenancy::{CLUSTER_SCOPED_KINDS, ClusterScopedKind};
use schedlab_tenancy::{TenantService, Watermarks};

/// The minimum time without a write after which the cluster counts as idle: on a busy machine, a
/// controller may take this long between reading and writing.
const QUIET_PERIOD_MIN: Duration = Duration::from_millis(1500);

/// How long `settle` waits for two cycles of a scheduler.
const CYCLES_TIMEOUT: Duration = Duration::from_mins(1);

/// How many DELETE requests of one scenario run concurrently.
const CONCURRENT_DELETES: usize = 8;

/// The collections that are watched: those that the actors read and those that the log contains.
const WATCHED_COLLECTIONS: [(&str, &str, &str); 20] = [
    ("v1", "nodes", "Node"),
    ("v1", "pods", "Pod"),
    ("v1", "events", "Event"),
    ("v1", "configmaps", "ConfigMap"),
    ("coordination.k8s.io/v1", "leases", "Lease"),
    ("batch/v1", "jobs", "Job"),
    (api_versions::JOB_SET, "jobsets", "JobSet"),
    (api_versions::TRAIN_JOB, "trainjobs", "TrainJob"),
    (api_versions::TRAIN_JOB, "clustertrainingruntimes", "ClusterTrainingRuntime"),
    (api_versions::PYTORCH_JOB, "pytorchjobs", "PyTorchJob"),
    (api_versions::RAY, "rayclusters", "RayCluster"),
    (api_versions::RAY, "rayjobs", "RayJob"),
    (api_versions::LEADER_WORKER_SET, "leaderworkersets", "LeaderWorkerSet"),
    (api_versions::QUEUE, "queues", "Queue"),
    (api_versions::POD_GROUP, "podgroups", "PodGroup"),
    (api_versions::WORKLOAD, "podgroups", "PodGroup"),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass"),
    ("resource.k8s.io/v1", "deviceclasses", "DeviceClass"),
    ("resource.k8s.io/v1", "resourceslices", "ResourceSlice"),
    ("resource.k8s.io/v1", "resourceclaims", "ResourceClaim"),
];

/// The collections that are watched. Secrets are left out if the cluster contains foreign ones.
pub fn watched_collections(has_secrets_of_others: bool) -> Vec<Collection> {
    let secrets = Some(("v1", "secrets", "Secret")).filter(|_| !has_secrets_of_others);
    let all = WATCHED_COLLECTIONS.into_iter().chain(secrets);
    all.map(|(api, plural, kind)| Collection::new(api, plural, kind)).collect()
}

/// Runs the actors that simulate nodes and workload controllers until the returned value is
/// dropped. `observe` is called with every change.
///
/// # Errors
/// The actors cannot list the objects of the cluster.
pub async fn run_actors(
    real_cluster: &RealCluster,
    client: kube::Client,
    clock: Clock,
    observe: Box<dyn FnMut(LogEntry) + Send>,
) -> anyhow::Result<RemoteControllers> {
    let troupe = RemoteControllers::start(RemoteOptions {
        client,
        clock,
        controllers: real_cluster.actors().to_vec(),
        collections: watched_collections(real_cluster.has_foreign_secrets()),
        kubelet_defaults: KubeletDefaults::default(),
        feature_gates: FeatureGates::default(),
        observe,
    });
    troupe.await.context("cannot watch the cluster")
}

/// The part of a real cluster that belongs to one scenario.
pub struct TenantCluster {
    real_cluster: Arc<RealCluster>,
    /// The prefix of all names of the scenario.
    prefix: String,
    tenant_service: TenantService,
    client: kube::Client,
    clock: Clock,
    started_at: Timestamp,
    watch_log: WatchLog,
    quiet_period: Duration,
    /// The cycles of a scheduler in this process.
    cycle_ticks: Option<CycleTicks>,
    troupe: RemoteControllers,
    /// The scenario's node pool, held until the scenario's nodes are gone.
    _pool: Option<NodePool>,
}

impl TenantCluster {
    /// Creates a scenario's part of a cluster. It uses the current runtime.
    ///
    /// # Errors
    /// No node pool is free, or a request to the cluster fails.
    pub async fn start(real_cluster: &Arc<RealCluster>) -> anyhow::Result<Self> {
        let pool = real_cluster.take_node_pool()?;
        let names = real_cluster.new_tenant_names(pool.as_ref());
        let prefix = names.prefix.clone();
        let tenant_service = TenantService::new(
            real_cluster.cluster_client()?,
            Arc::new(names),
            real_cluster.watch_mux(),
        );
        let client = tenant_service.tenant_client();
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"},
        });
        let created = Api::new(client.clone()).post("/api/v1/namespaces", &namespace).await;
        created.map_err(to_anyhow_error).context("cannot create a namespace")?;
        let clock = Clock::real();
        let watch_log = WatchLog::new(tenant_service.write_log().clone());
        let log = watch_log.clone();
        let observe = Box::new(move |entry| log.record_entry(entry));
        let troupe = run_actors(real_cluster, client.clone(), clock.clone(), observe).await?;
        Ok(Self {
            real_cluster: Arc::clone(real_cluster),
            prefix,
            tenant_service,
            client,
            started_at: clock.now(),
            clock,
            watch_log,
            quiet_period: QUIET_PERIOD_MIN,
            cycle_ticks: None,
            troupe,
            _pool: pool,
        })
    }

    /// Passes every change, including past ones, to an audit.
    pub fn observe_with_audit(&self, audit: &Audit) {
        self.watch_log.observe_with_audit(audit);
    }

    /// Sets the time from one scheduling cycle to the next.
    pub(crate) fn set_cycle_period(&mut self, period: Duration) {
        self.quiet_period = QUIET_PERIOD_MIN.max(2 * period);
    }

    /// Makes `settle` also wait for the cycles of this scheduler, however busy the machine is.
    pub(crate) fn follow_scheduler_cycles(&mut self, cycle_ticks: CycleTicks) {
        self.cycle_ticks = Some(cycle_ticks);
    }

    /// Waits for two cycles of a running scheduler, and until the quiet period after `since` has
    /// passed.
    async fn wait_quiet_period(&self, since: Instant) {
        tokio::join!(
            tokio::time::sleep_until(since + self.quiet_period),
            self.wait_for_two_cycles()
        );
    }

    /// Whether the watches have delivered all that a LIST of pods shows. A failed LIST counts as
    /// yes.
    async fn has_read_all_writes(&self) -> bool {
        match Api::new(self.client.clone()).get("/api/v1/pods").await {
            Ok(list) => self
                .watch_log
                .is_up_to_date_with(list["items"].as_array().map_or(&[], Vec::as_slice)),
            Err(_) => true,
        }
    }

    /// Waits for two cycles of a running scheduler in this process.
    pub(crate) async fn wait_for_two_cycles(&self) {
        if let Some(mut cycle_ticks) = self.cycle_ticks.clone() {
            let _ = tokio::time::timeout(CYCLES_TIMEOUT, cycle_ticks.wait_for_two_cycles()).await;
        }
    }

    /// The current time of the cluster.
    pub fn cluster_time(&self) -> Timestamp {
        self.clock.now()
    }

    /// The clock of the cluster.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When the scenario started, on the cluster's clock.
    pub(crate) fn start_time(&self) -> Timestamp {
        self.started_at
    }

    /// The number of changes so far, without those of leases.
    pub fn write_count(&self) -> u64 {
        self.watch_log.write_count()
    }

    /// The log entries of all changes so far.
    pub fn write_log(&self) -> Vec<Arc<LogEntry>> {
        self.watch_log.log_entries()
    }

    /// The service through which a scheduler of the scenario reaches the cluster.
    pub(crate) fn tenant_service(&self) -> &TenantService {
        &self.tenant_service
    }

    /// The whole real cluster of which the scenario has a part.
    pub fn real_cluster(&self) -> &RealCluster {
        &self.real_cluster
    }

    /// Up to which revision clients of the scenario have written each collection.
    pub fn watermarks(&self) -> Watermarks {
        self.tenant_service.write_log().watermarks()
    }

    /// A message about pods on the scenario's nodes that do not belong to the scenario.
    pub async fn foreign_pods_message(&self) -> Option<String> {
        self.real_cluster.foreign_pods_on(&self.prefix).await
    }

    /// Removes everything that the scenario created. Returns a line for each object that remains.
    pub async fn delete_all_and_close(self) -> Vec<String> {
        let api = Api::new(self.client.clone());
        drop(self.troupe);
        let mut remaining = Vec::new();
        let namespaces = list_object_names(&api, "/api/v1/namespaces", &mut remaining).await;
        let paths = namespaces.iter().map(|namespace| format!("/api/v1/namespaces/{namespace}"));
        remaining.extend(delete_all_concurrently(paths, async |path| api.delete(path).await).await);
        // No actor terminates their containers any more.
        let pods = namespaces.iter().map(|one| format!("/api/v1/namespaces/{one}/pods"));
        let end = async |path: &str| {
            let deleted = api.delete_immediately(path).await;
            api.remove_kueue_finalizers(path).await.and(deleted)
        };
        remaining.extend(delete_all_concurrently(pods, end).await);
        let mut paths = Vec::new();
        for collection in CLUSTER_SCOPED_KINDS
            .iter()
            .filter(|one| !one.is_namespace())
            .map(ClusterScopedKind::collection_path)
        {
            let all = list_object_names(&api, &collection, &mut remaining).await;
            let own = all.iter().filter(|name| !self.real_cluster.is_shared_priority_class(name));
            paths.extend(own.map(|name| format!("{collection}/{name}")));
        }
        remaining.extend(delete_all_concurrently(paths, async |path| api.delete(path).await).await);
        remaining
    }
}

impl fmt::Debug for TenantCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantCluster")
            .field("real_cluster", &self.real_cluster)
            .finish_non_exhaustive()
    }
}

async fn list_object_names(api: &Api, collection: &str, failures: &mut Vec<String>) -> Vec<String> {
    let list = match api.get(collection).await {
        Ok(list) => list,
        Err(error) if is_not_found(&error) => return Vec::new(),
        Err(error) => {
            failures.push(format!("{collection}: {:#}", to_anyhow_error(error)));
            return Vec::new();
        }
    };
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Deletes objects concurrently. Failed deletions are retried as long as others succeed, because a
/// webhook rejects the deletion of a queue that still has children. Returns a line for each
/// failure.
async fn delete_all_concurrently(
    paths: impl IntoIterator<Item = String>,
    delete: impl AsyncFn(&str) -> Result<Value, kube::Error>,
) -> Vec<String> {
    let mut remaining: Vec<String> = paths.into_iter().collect();
    loop {
        let count = remaining.len();
        let ends = stream::iter(remaining).map(async |path| {
            let reason = delete_with_retries(|| delete(&path)).await?;
            Some((path, reason))
        });
        let failed: Vec<(String, String)> =
            ends.buffer_unordered(CONCURRENT_DELETES).filter_map(ready).collect().await;
        if failed.is_empty() || failed.len() == count {
            return failed.into_iter().map(|(path, reason)| format!("{path}: {reason}")).collect();
        }
        remaining = failed.into_iter().map(|(path, _)| path).collect();
    }
}

/// Deletes an object, and retries if the connection broke, because a busy server closes some
/// connections. Returns why the deletion failed; `None` if it succeeded.
async fn delete_with_retries<F>(delete: impl Fn() -> F) -> Option<String>
where
    F: Future<Output = Result<Value, kube::Error>>,
{
    let mut tries = 3;
    loop {
        tries -= 1;
        match delete().await {
            Ok(_) => return None,
            Err(error) if is_not_found(&error) => return None,
            Err(kube::Error::Service(_) | kube::Error::HyperError(_)) if tries > 0 => {}
            Err(error) => return Some(format!("{:#}", to_anyhow_error(error))),
        }
    }
}

impl Cluster for TenantCluster {
    fn cluster_client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Waits until the cluster is idle: no change arrived during the quiet period, in which the
    /// scheduler had two cycles, no request of the scheduler waits for its answer, and a LIST of pods shows nothing that the watches have not
    /// delivered.
    async fn settle(&self, limit: Duration) -> Result<(), UnsettledError> {
        let mut since = Instant::now();
        let end = since + limit;
        loop {
            self.wait_quiet_period(since).await;
            let last_change =
                match self.watch_log.last_write_instant().filter(|written| *written > since) {
                    Some(written) => written,
                    // The scheduler may write once it has the answer.
                    None if self.tenant_service.has_open_requests() => Instant::now(),
                    None if self.has_read_all_writes().await => {
                        self.watch_log.flush_until(self.cluster_time());
                        return Ok(());
                    }
                    None => Instant::now(),
                };
            if Instant::now() >= end {
                return Err(UnsettledError { limit });
            }
            since = last_change;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn rejected_deletions_are_retried_while_others_succeed() {
        let existing = Mutex::new(vec!["top", "middle", "leaf"]);
        let delete_last = async |path: &str| {
            let mut existing = existing.lock().expect("no other task panics");
            let last = existing.pop_if(|last| *last == path).map(|_| Value::Null);
            last.ok_or(kube::Error::LinesCodecMaxLineLengthExceeded)
        };
        let paths = || ["top", "middle", "leaf"].map(str::to_owned);
        assert_eq!(delete_all_concurrently(paths(), delete_last).await, Vec::<String>::new());
        assert_eq!(
            delete_all_concurrently(paths(), delete_last).await.len(),
            3,
            "no deletion succeeds any more"
        );
    }
}
