//! `explain`: reads a cluster once, as the scheduler would, and says why a workload waits or how
//! a queue stands. Nothing is written.

mod json;
mod restraint;
mod workload;

use anyhow::{Context as _, bail};
use kube::Client;
use schedlab_scheduler_core::{
    Snapshot,
    explain::{QueueTold, explain_queue},
    model::{QueueId, QueueProblem, Time},
};

use crate::{
    api::{Api, ApiError, tree_of},
    config::{Clock, Config, Flavor},
    mirror::Mirror,
    podgrouper,
    translate::{Translator, queue_problem},
    usage::{Past, Usage},
    watch::{Asking, Kind},
};

/// How an explanation is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// A cluster as it was read.
struct Seen {
    api: Api,
    config: Config,
    mirror: Mirror,
    translator: Translator,
    /// What is not known of past usage.
    notes: Vec<String>,
}

/// Says why the workload `namespace/name` waits, or that it does not: a pod group, a pod, or
/// anything that owns pods.
///
/// # Errors
/// The cluster cannot be read, or has no such workload of this scheduler.
pub async fn workload(
    client: Client,
    config: Config,
    now: Clock,
    (namespace, name, form): (&str, &str, Form),
) -> anyhow::Result<String> {
    let seen = Seen::read(client, config, now).await?;
    workload::explain(&seen, (namespace, name), form).await
}

/// Says how the queue `name` stands.
///
/// # Errors
/// The cluster cannot be read, or has no such queue that work can go into.
pub async fn queue(
    client: Client,
    config: Config,
    now: Clock,
    (name, form): (&str, Form),
) -> anyhow::Result<String> {
    if config.flavor == Flavor::Kube {
        bail!("profile kube knows no queues");
    }
    let seen = Seen::read(client, config, now).await?;
    let snapshot = seen.snapshot();
    let found = (0..).map(QueueId).zip(&snapshot.queues).find(|(_, queue)| *queue.name == *name);
    let Some((id, _)) = found else {
        let missing = || QueueProblem::Missing { queue: name.into() };
        let problem = queue_problem(&seen.mirror.queues, &name.into());
        let problem = seen.mirror.why_missing(problem.unwrap_or_else(missing));
        if let QueueProblem::OtherPool { seems, whose, detail } = &problem {
            bail!("{seems} here: queue {whose}: {detail}");
        }
        if !matches!(problem, QueueProblem::Missing { .. }) {
            bail!("{problem}");
        }
        let known: Vec<&str> = snapshot.queues.iter().map(|queue| &*queue.name).collect();
        bail!("queue {name} does not exist; there are: {}", known.join(", "));
    };
    let explanation = explain_queue(snapshot, &seen.config.profile, id);
    match form {
        Form::Text => {
            let told = QueueTold { snapshot, explanation: &explanation }.to_string();
            Ok(told + &in_words(&seen.notes))
        }
        Form::Json => Ok(format!("{:#}\n", json::queue(snapshot, &explanation, &seen.notes))),
    }
}

/// The end of a text.
fn in_words(notes: &[String]) -> String {
    let title = (!notes.is_empty()).then(|| "\nnotes\n".to_owned());
    title.into_iter().chain(notes.iter().map(|note| format!("  {note}\n"))).collect()
}

impl Seen {
    async fn read(client: Client, config: Config, now: Clock) -> anyhow::Result<Self> {
        let api = Api::new(client, config.scheduler_name.clone());
        let mut mirror = Mirror::new(&config.scheduler_name)
            .of_flavor(config.flavor)
            .of_pool(config.node_pool.clone())
            .of_workers(config.restrict_node_scheduling);
        for kind in Kind::watched(config.flavor) {
            let path = kind.path();
            let listed = tree_of(&api.client, kind.asks_for(&path, Asking::List)).await;
            let objects = match listed {
                Ok(list) => crate::parse::list(&list, "/items").to_vec(),
                Err(ApiError::NotFound(_)) => Vec::new(),
                Err(error) => return Err(error).with_context(|| format!("cannot list {path}")),
            };
            mirror.relist(*kind, &objects);
        }
        podgrouper::note_faults(&mut mirror);
        let mut translator = Translator::of(&config);
        translator.refresh(&mut mirror);
        let snapshot = &mut translator.translation.snapshot;
        snapshot.now = Time(now().as_millisecond());
        let own = config.usage_window.map(|window| Usage::over(window, config.usage_half_life));
        let pool = config.node_pool.as_ref().map(|pool| &*pool.value);
        let known = (own, config.usage_database.clone());
        let mut past = Past::new(&api, known, pool, move || now());
        let unknown = past.look_up(&api).await.context("cannot read the usage history")?;
        past.tell(&mut snapshot.queues, snapshot.now);
        let trouble = past.trouble(&mirror.queues, snapshot.now).and_then(|(trouble, _)| trouble);
        let notes = unknown.into_iter().chain(trouble).collect();
        Ok(Self { api, config, mirror, translator, notes })
    }

    fn snapshot(&self) -> &Snapshot {
        &self.translator.translation.snapshot
    }
}
