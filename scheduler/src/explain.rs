//! The `explain` verb: reads a cluster once, as the scheduler would, and explains why a workload is
//! pending or how a queue is used. Nothing is written.

mod json;
mod preemption_policy;
mod scattered_gpus;
mod workload;

use anyhow::{Context as _, bail};
use kube::Client;
use schedlab_explain::{QueueExplanationText, explain_queue};
use schedlab_scheduler_core::{
    Snapshot,
    model::{QueueId, QueueProblem, Time},
};

use crate::{
    api::{ApiClient, ApiError, request_json},
    cache::ClusterCache,
    config::{Clock, Config, Flavor},
    podgrouper,
    snapshot_builder::{SnapshotBuilder, queue_problem},
    snapshot_file::LoadedSnapshot,
    usage::{UsageHistory, UsageSource},
    watch::{Kind, ResponseForm, Watched as _},
};

/// Output format of an explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON for programs.
    Json,
}

/// The state of a cluster that was read once.
struct ClusterView {
    /// `None`: the cluster was captured, and owners of pods cannot be read.
    api: Option<ApiClient>,
    config: Config,
    cache: ClusterCache,
    translator: SnapshotBuilder,
    /// Problems with historical usage.
    notes: Vec<String>,
}

/// Explains why the workload `namespace/name` is pending, or that it is not. The name is that of a
/// pod group, a pod, or any owner of pods.
///
/// # Errors
/// The cluster cannot be read, or has no such workload of this scheduler.
pub async fn explain_workload(
    client: Client,
    config: Config,
    now: Clock,
    namespace: &str,
    name: &str,
    form: OutputFormat,
) -> anyhow::Result<String> {
    let view = ClusterView::load(client, config, now).await?;
    workload::explain(&view, namespace, name, form).await
}

/// What of a captured cluster is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainedObject<'a> {
    /// A pod group, a pod, or an owner of pods.
    Workload {
        /// Its namespace.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// The queue of this name.
    Queue(&'a str),
}

/// Explains a workload or queue of a captured cluster.
///
/// # Errors
/// The cluster has no such workload of this scheduler, or no such queue.
pub async fn explain_captured(
    captured: LoadedSnapshot,
    object: ExplainedObject<'_>,
    form: OutputFormat,
) -> anyhow::Result<String> {
    let view = ClusterView::from_captured(captured);
    match object {
        ExplainedObject::Workload { namespace, name } => {
            workload::explain(&view, namespace, name, form).await
        }
        ExplainedObject::Queue(name) => explain_queue_of(&view, name, form),
    }
}

/// Explains the state of the queue `name`.
///
/// # Errors
/// The cluster cannot be read, or the queue does not exist or is unusable.
pub async fn explain_queue_state(
    client: Client,
    config: Config,
    now: Clock,
    name: &str,
    form: OutputFormat,
) -> anyhow::Result<String> {
    if config.flavor == Flavor::Kube {
        bail!("profile kube has no queues");
    }
    explain_queue_of(&ClusterView::load(client, config, now).await?, name, form)
}

fn explain_queue_of(view: &ClusterView, name: &str, form: OutputFormat) -> anyhow::Result<String> {
    let snapshot = view.snapshot();
    let found = (0..).map(QueueId).zip(&snapshot.queues).find(|(_, queue)| *queue.name == *name);
    let Some((id, _)) = found else {
        let missing = || QueueProblem::Missing { queue: name.into() };
        let problem = queue_problem(&view.cache.queues, &name.into());
        let problem = view.cache.explain_missing_queue(problem.unwrap_or_else(missing));
        if let QueueProblem::OtherNodePool {
            apparent_problem: seems,
            faulty_queue: whose,
            detail,
        } = &problem
        {
            bail!("{seems} here: queue {whose}: {detail}");
        }
        if !matches!(problem, QueueProblem::Missing { .. }) {
            bail!("{problem}");
        }
        let known: Vec<&str> = snapshot.queues.iter().map(|queue| &*queue.name).collect();
        bail!("queue {name} does not exist; existing queues: {}", known.join(", "));
    };
    let explanation = explain_queue(snapshot, &view.config.profile, id);
    match form {
        OutputFormat::Text => {
            let text = QueueExplanationText { snapshot, explanation: &explanation }.to_string();
            Ok(text + &notes_section(&view.notes))
        }
        OutputFormat::Json => {
            Ok(format!("{:#}\n", json::queue_json(snapshot, &explanation, &view.notes)))
        }
    }
}

/// The notes at the end of a text.
fn notes_section(notes: &[String]) -> String {
    let title = (!notes.is_empty()).then(|| "\nnotes\n".to_owned());
    title.into_iter().chain(notes.iter().map(|note| format!("  {note}\n"))).collect()
}

impl ClusterView {
    async fn load(client: Client, config: Config, now: Clock) -> anyhow::Result<Self> {
        let api = ApiClient::new(client, config.scheduler_name.clone());
        let mut cache = ClusterCache::new(&config.scheduler_name)
            .with_flavor(config.flavor)
            .with_feature_gates(&config)
            .with_pool(config.node_pool.clone())
            .with_workers_only(config.restrict_node_scheduling);
        for kind in Kind::watched(config.flavor) {
            let path = kind.path();
            let listed =
                request_json(&api.client, kind.get_request(&path, ResponseForm::List)).await;
            let objects = match listed {
                Ok(list) => crate::parse::list(&list, "/items").to_vec(),
                Err(ApiError::NotFound(_)) => Vec::new(),
                Err(error) => return Err(error).with_context(|| format!("cannot list {path}")),
            };
            cache.relist(*kind, &objects);
        }
        podgrouper::record_faults(&mut cache);
        let mut translator = SnapshotBuilder::from_config(&config);
        translator.refresh(&mut cache);
        let snapshot = &mut translator.built.snapshot;
        snapshot.now = Time(now().as_millisecond());
        let own =
            config.usage_window.map(|window| UsageHistory::new(window, config.usage_half_life));
        let pool = config.node_pool.as_ref().map(|pool| &*pool.value);
        let database = config.usage_database.clone();
        let mut past = UsageSource::new(&api, own, database, pool, move || now());
        let unknown = past.load_read_only(&api).await.context("cannot read the usage history")?;
        past.apply_to(&mut snapshot.queues, snapshot.now);
        let trouble = past
            .last_database_problem(&cache.queues, snapshot.now)
            .and_then(|(trouble, _)| trouble);
        let notes = unknown.into_iter().chain(trouble).collect();
        Ok(Self { api: Some(api), config, cache, translator, notes })
    }

    fn from_captured(captured: LoadedSnapshot) -> Self {
        let LoadedSnapshot { config, mut cache, notes } = captured;
        podgrouper::record_faults(&mut cache);
        let mut translator = SnapshotBuilder::from_config(&config);
        translator.refresh(&mut cache);
        translator.built.snapshot.now = cache.time_after_last_event();
        Self { api: None, config, cache, translator, notes }
    }

    fn snapshot(&self) -> &Snapshot {
        &self.translator.built.snapshot
    }
}
