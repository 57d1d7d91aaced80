//! `explain`: reads a cluster once, as the scheduler would, and says why a workload waits or how
//! a queue stands. Nothing is written.

mod workload;

use anyhow::{Context as _, bail};
use kube::Client;
use schedlab_scheduler_core::{
    Snapshot,
    explain::{QueueTold, explain_queue},
    model::{QueueId, Time},
};

use crate::{
    api::{Api, ApiError},
    config::{Clock, Config, Flavor},
    mirror::Mirror,
    translate::{Translator, queue_problem},
    watch::Kind,
};

/// A cluster as it was read.
struct Seen {
    api: Api,
    config: Config,
    mirror: Mirror,
    translator: Translator,
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
    (namespace, name): (&str, &str),
) -> anyhow::Result<String> {
    let seen = Seen::read(client, config, now).await?;
    workload::explain(&seen, namespace, name).await
}

/// Says how the queue `name` stands.
///
/// # Errors
/// The cluster cannot be read, or has no such queue that work can go into.
pub async fn queue(
    client: Client,
    config: Config,
    now: Clock,
    name: &str,
) -> anyhow::Result<String> {
    if config.flavor == Flavor::Kube {
        bail!("profile kube knows no queues");
    }
    let seen = Seen::read(client, config, now).await?;
    let snapshot = seen.snapshot();
    let found = (0..).map(QueueId).zip(&snapshot.queues).find(|(_, queue)| *queue.name == *name);
    let Some((id, _)) = found else {
        if let Some(problem) = queue_problem(&seen.mirror.queues, &name.into()) {
            bail!("{problem}");
        }
        let known: Vec<&str> = snapshot.queues.iter().map(|queue| &*queue.name).collect();
        bail!("queue {name} does not exist; there are: {}", known.join(", "));
    };
    let explanation = explain_queue(snapshot, &seen.config.profile, id);
    Ok(QueueTold { snapshot, explanation: &explanation }.to_string())
}

impl Seen {
    async fn read(client: Client, config: Config, now: Clock) -> anyhow::Result<Self> {
        let api = Api::new(client, config.scheduler_name.clone());
        let mut mirror = Mirror::new(&config.scheduler_name).of_pool(config.node_pool.clone());
        for kind in Kind::watched(config.flavor) {
            let path = kind.path();
            let objects = match api.get(&path).await {
                Ok(list) => crate::parse::list(&list, "/items").to_vec(),
                Err(ApiError::NotFound(_)) => Vec::new(),
                Err(error) => return Err(error).with_context(|| format!("cannot list {path}")),
            };
            mirror.relist(*kind, &objects);
        }
        let mut translator = Translator::new(config.flavor, config.seed);
        translator.refresh(&mut mirror);
        translator.translation.snapshot.now = Time(now().as_millisecond());
        Ok(Self { api, config, mirror, translator })
    }

    fn snapshot(&self) -> &Snapshot {
        &self.translator.translation.snapshot
    }
}
