//! A scenario's part of a cluster that runs elsewhere, in real time: its fleet is simulated by
//! the emulator's actors through the API, its log is put together from watches.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::future::ready;
use futures::stream;
use jiff::Timestamp;
use schedlab_emulator::actors::KubeletDefaults;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::remote::{Cast, Collection, Troupe};
use schedlab_emulator::store::LogEntry;
use schedlab_json::{Value, json};
use tokio::time::Instant;

use super::in_process::Pulse;
use super::record::Record;
use super::{Cluster, Unsettled};
use crate::api::{Api, is_not_found, refusal};
use crate::audit::Audit;
use crate::fenced::{FENCED, Fenced};
use crate::ground::{Ground, Pool};
use crate::veil::{Marks, Veil};

/// The least time without a write that counts as quiet: controllers of a busy machine think
/// for a while between what they read and what they write.
const QUIET_LEAST: Duration = Duration::from_millis(1500);

/// How long a scheduler may take for two cycles before nobody waits for them any more.
const CYCLES_WITHIN: Duration = Duration::from_mins(1);

/// How many deletions of one scenario are under way at once.
const DELETES_AT_ONCE: usize = 8;

/// What is watched: what the actors read, and what the log tells of.
const COLLECTIONS: [(&str, &str, &str); 16] = [
    ("v1", "nodes", "Node"),
    ("v1", "pods", "Pod"),
    ("v1", "events", "Event"),
    ("v1", "configmaps", "ConfigMap"),
    ("coordination.k8s.io/v1", "leases", "Lease"),
    ("batch/v1", "jobs", "Job"),
    ("jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet"),
    ("trainer.kubeflow.org/v1alpha1", "trainjobs", "TrainJob"),
    ("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime"),
    ("kubeflow.org/v1", "pytorchjobs", "PyTorchJob"),
    ("scheduling.run.ai/v2", "queues", "Queue"),
    ("scheduling.run.ai/v2alpha2", "podgroups", "PodGroup"),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass"),
    ("resource.k8s.io/v1", "deviceclasses", "DeviceClass"),
    ("resource.k8s.io/v1", "resourceslices", "ResourceSlice"),
    ("resource.k8s.io/v1", "resourceclaims", "ResourceClaim"),
];

/// What is watched of a cluster: its Secrets only where none of them are somebody else's.
pub fn collections(has_secrets_of_others: bool) -> Vec<Collection> {
    let secrets = Some(("v1", "secrets", "Secret")).filter(|_| !has_secrets_of_others);
    let all = COLLECTIONS.into_iter().chain(secrets);
    all.map(|(api, plural, kind)| Collection::new(api, plural, kind)).collect()
}

/// Has the actors play nodes and whatever else is simulated on a cluster, until their task is
/// dropped. `observe` is told of every change.
pub(crate) async fn play(
    ground: &Ground,
    (client, clock): (kube::Client, Clock),
    observe: Box<dyn FnMut(LogEntry) + Send>,
) -> anyhow::Result<Troupe> {
    let troupe = Troupe::start(Cast {
        client,
        clock,
        actors: ground.actors().to_vec(),
        collections: collections(ground.has_secrets_of_others()),
        defaults: KubeletDefaults::default(),
        observe,
    });
    troupe.await.context("cannot watch the cluster")
}

/// A part of a cluster.
pub struct Real {
    ground: Arc<Ground>,
    /// What stands before its names.
    prefix: String,
    veil: Veil,
    client: kube::Client,
    clock: Clock,
    born: Timestamp,
    record: Record,
    quiet: Duration,
    /// What a scheduler in this process tells after each cycle.
    pulse: Option<Pulse>,
    troupe: Troupe,
    /// Its nodes are of this pool, until they are gone.
    _pool: Option<Pool>,
}

impl Real {
    /// Makes room for a scenario, on the current runtime.
    pub(crate) async fn start(ground: &Arc<Ground>) -> anyhow::Result<Self> {
        let pool = ground.pool()?;
        let names = ground.names(pool.as_ref());
        let prefix = names.prefix.clone();
        let veil = Veil::new(ground.client()?, Arc::new(names), ground.hub());
        let client = veil.client();
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"},
        });
        let made = Api::new(client.clone()).post("/api/v1/namespaces", &namespace).await;
        made.map_err(refusal).context("cannot make a namespace")?;
        let clock = Clock::real();
        let record = Record::new(veil.ledger().clone());
        let heard = record.clone();
        let observe = Box::new(move |entry| heard.hear(entry));
        let troupe = play(ground, (client.clone(), clock.clone()), observe).await?;
        Ok(Self {
            ground: Arc::clone(ground),
            prefix,
            veil,
            client,
            born: clock.now(),
            clock,
            record,
            quiet: QUIET_LEAST,
            pulse: None,
            troupe,
            _pool: pool,
        })
    }

    /// Has an audit see every change, those of the past included.
    pub(crate) fn observe(&self, audit: &Audit) {
        self.record.observe(audit);
    }

    /// The time from one scheduling cycle to the next.
    pub(crate) fn set_period(&mut self, period: Duration) {
        self.quiet = QUIET_LEAST.max(2 * period);
    }

    /// Has quiet mean that this scheduler has had its cycles, however busy the machine is.
    pub(crate) fn listen(&mut self, pulse: Pulse) {
        self.pulse = Some(pulse);
    }

    /// A while since then, in which a scheduler that lives had two cycles to write something.
    async fn while_passes(&self, since: Instant) {
        tokio::join!(tokio::time::sleep_until(since + self.quiet), self.have_cycles());
    }

    /// Whether the watches have told what the cluster has. One that cannot be asked is believed to
    /// have told it.
    async fn is_up_to_date(&self) -> bool {
        match Api::new(self.client.clone()).get("/api/v1/pods").await {
            Ok(list) => {
                self.record.has_heard_of(list["items"].as_array().map_or(&[], Vec::as_slice))
            }
            Err(_) => true,
        }
    }

    /// Two cycles of a scheduler that lives and tells of them.
    pub(crate) async fn have_cycles(&self) {
        if let Some(mut pulse) = self.pulse.clone() {
            let _ = tokio::time::timeout(CYCLES_WITHIN, pulse.two()).await;
        }
    }

    /// Its time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Its clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When the scenario began.
    pub(crate) fn born(&self) -> Timestamp {
        self.born
    }

    /// How many changes there were that mean something.
    pub(crate) fn writes(&self) -> u64 {
        self.record.writes()
    }

    /// Every change so far.
    pub(crate) fn log(&self) -> Vec<Arc<LogEntry>> {
        self.record.log()
    }

    /// What a scheduler of the scenario talks through.
    pub(crate) fn veil(&self) -> &Veil {
        &self.veil
    }

    /// The whole cluster.
    pub(crate) fn ground(&self) -> &Ground {
        &self.ground
    }

    /// Up to where it was written by anybody of the scenario.
    pub(crate) fn marks(&self) -> Marks {
        self.veil.ledger().marks()
    }

    /// Pods of others on its nodes, in words.
    pub(crate) async fn guests(&self) -> Option<String> {
        self.ground.guests_of(&self.prefix).await
    }

    /// Takes away everything that the scenario made. Answers what the cluster did not let go.
    pub(crate) async fn close(self) -> Vec<String> {
        let api = Api::new(self.client.clone());
        drop(self.troupe);
        let mut left = Vec::new();
        let namespaces = names(&api, "/api/v1/namespaces", &mut left).await;
        let paths = namespaces.iter().map(|namespace| format!("/api/v1/namespaces/{namespace}"));
        left.extend(delete(paths, async |path| api.delete(path).await).await);
        // Nobody ends their containers any more.
        let pods = namespaces.iter().map(|one| format!("/api/v1/namespaces/{one}/pods"));
        let end = async |path: &str| {
            let deleted = api.delete_at_once(path).await;
            api.let_go(path).await.and(deleted)
        };
        left.extend(delete(pods, end).await);
        let mut paths = Vec::new();
        for collection in FENCED.iter().filter(|one| !one.is_namespace()).map(Fenced::collection) {
            let all = names(&api, &collection, &mut left).await;
            let own = all.iter().filter(|name| !self.ground.is_shared(name));
            paths.extend(own.map(|name| format!("{collection}/{name}")));
        }
        left.extend(delete(paths, async |path| api.delete(path).await).await);
        left
    }
}

impl fmt::Debug for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Real").field("ground", &self.ground).finish_non_exhaustive()
    }
}

async fn names(api: &Api, collection: &str, left: &mut Vec<String>) -> Vec<String> {
    let list = match api.get(collection).await {
        Ok(list) => list,
        Err(error) if is_not_found(&error) => return Vec::new(),
        Err(error) => {
            left.push(format!("{collection}: {:#}", refusal(error)));
            return Vec::new();
        }
    };
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Deletes all of these, several at once, and what was refused again for as long as others went: a
/// webhook keeps a queue that has queues below it. Answers why what could not be.
async fn delete(
    paths: impl IntoIterator<Item = String>,
    delete: impl AsyncFn(&str) -> Result<Value, kube::Error>,
) -> Vec<String> {
    let mut left: Vec<String> = paths.into_iter().collect();
    loop {
        let tried = left.len();
        let ends = stream::iter(left).map(async |path| {
            let why = until_told(|| delete(&path)).await?;
            Some((path, why))
        });
        let refused: Vec<(String, String)> =
            ends.buffer_unordered(DELETES_AT_ONCE).filter_map(ready).collect().await;
        if refused.is_empty() || refused.len() == tried {
            return refused.into_iter().map(|(path, why)| format!("{path}: {why}")).collect();
        }
        left = refused.into_iter().map(|(path, _)| path).collect();
    }
}

/// Deletes, again where the connection broke: a busy server closes some. Answers why it failed.
async fn until_told<F>(delete: impl Fn() -> F) -> Option<String>
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
            Err(error) => return Some(format!("{:#}", refusal(error))),
        }
    }
}

impl Cluster for Real {
    fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Quiet is: no change was told for a while, the scheduler had two cycles to make one, and the
    /// cluster has no other pods than were told.
    async fn settle(&self, limit: Duration) -> Result<(), Unsettled> {
        let mut since = Instant::now();
        let end = since + limit;
        loop {
            self.while_passes(since).await;
            let later = match self.record.written().filter(|written| *written > since) {
                Some(written) => written,
                None if self.is_up_to_date().await => {
                    self.record.enter_until(self.now());
                    return Ok(());
                }
                None => Instant::now(),
            };
            if Instant::now() >= end {
                return Err(Unsettled { limit });
            }
            since = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn what_a_webhook_keeps_for_the_sake_of_another_goes_after_it() {
        let there = Mutex::new(vec!["top", "middle", "leaf"]);
        let delete_last = async |path: &str| {
            let mut there = there.lock().expect("nobody panics");
            let last = there.pop_if(|last| *last == path).map(|_| Value::Null);
            last.ok_or(kube::Error::LinesCodecMaxLineLengthExceeded)
        };
        let paths = || ["top", "middle", "leaf"].map(str::to_owned);
        assert_eq!(delete(paths(), delete_last).await, Vec::<String>::new());
        assert_eq!(delete(paths(), delete_last).await.len(), 3, "nothing goes any more");
    }
}
