//! One scheduler against the clock.

use std::{
    collections::BTreeSet,
    fs, io,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use futures::{AsyncBufReadExt as _, Stream, TryStreamExt as _};
use http::Request;
use kube::{
    ResourceExt as _,
    core::{PartialObjectMeta, WatchEvent},
};
use schedlab::api::Api;
use schedlab_control_plane::{TemporaryControlPlane, client_config};
use schedlab_json::json;
use schedlab_scheduler::{Clock, Config, IdlePolicy};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{PODS, fleet};

/// How often events are counted once all pods are bound.
const COUNT_AGAIN: Duration = Duration::from_millis(200);

/// Times from a scheduler's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// To its first binding.
    pub(crate) first: Duration,
    /// To its last binding.
    pub(crate) all: Duration,
    /// Until every pod's event was written, too.
    pub(crate) told: Duration,
}

impl Took {
    pub(crate) fn a_second(&self) -> f64 {
        pods() / self.all.as_secs_f64()
    }

    pub(crate) fn after_first_a_second(&self) -> f64 {
        pods() / self.after_first().as_secs_f64()
    }

    /// From its first binding to its last.
    pub(crate) fn after_first(&self) -> Duration {
        self.all.saturating_sub(self.first)
    }
}

fn pods() -> f64 {
    u32::try_from(PODS).map_or(f64::NAN, f64::from)
}

/// kube-scheduler with its defaults, and no limit to its requests a second.
pub(crate) async fn theirs(plane: &TemporaryControlPlane, namespace: &str) -> anyhow::Result<Took> {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": { "leaderElect": false },
        "clientConnection": {
            "kubeconfig": plane.kubeconfig_file(), "qps": 10_000, "burst": 10_000,
        },
    });
    let file = tempfile::NamedTempFile::new().context("no temporary file")?;
    fs::write(file.path(), config.to_string())?;
    let arguments = [format!("--config={}", file.path().display()), "--secure-port=0".to_owned()];
    race(plane, namespace, "default-scheduler", || {
        plane.start_program("kube-scheduler", &arguments)
    })
    .await
}

/// Our scheduler as its command line starts it, on a thread of its own.
pub(crate) async fn ours(plane: &TemporaryControlPlane, namespace: &str) -> anyhow::Result<Took> {
    let kubeconfig = plane.kubeconfig().to_owned();
    race(plane, namespace, "kai-scheduler", || {
        let (life, end) = oneshot::channel::<()>();
        let thread = thread::spawn(move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = kube::Client::try_from(client_config(&kubeconfig).await?)?;
                let config = Config {
                    idle_policy: IdlePolicy::UntilEvent,
                    writes_at_once: 32,
                    ..Config::kai()
                };
                tokio::select! {
                    ended = schedlab_scheduler::run(client, config, wall_clock()) => ended,
                    _ = end => Ok(()),
                }
            })
        });
        Ok(Ours { life: Some(life), thread: Some(thread) })
    })
    .await
}

/// Our scheduler on its thread.
struct Ours {
    life: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.life = None;
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

async fn race<T>(
    plane: &TemporaryControlPlane,
    namespace: &str,
    scheduler: &str,
    start: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<Took> {
    let api = Api::new(plane.client().await?);
    fleet::submit(&api, namespace, scheduler).await.context("cannot submit the pods")?;
    let mut bound = watch(&api, namespace).await?;
    let began = Instant::now();
    let runs = start()?;
    let (mut names, mut first) = (BTreeSet::new(), None);
    while names.len() < PODS {
        // An API server ends the watch of who does not keep up; on a busy machine that is anyone.
        let Some(line) = bound.try_next().await? else {
            bound = watch(&api, namespace).await?;
            continue;
        };
        let event: WatchEvent<PartialObjectMeta> = serde_json::from_str(&line)?;
        if let WatchEvent::Added(pod) = event {
            first.get_or_insert(began.elapsed());
            names.insert(pod.name_any());
        }
    }
    let all = began.elapsed();
    let told = told(&api, namespace).await?;
    let told = told - began;
    drop(runs);
    fleet::clear(&api, namespace).await?;
    Ok(Took { first: first.unwrap_or_default(), all, told })
}

/// Tells of every pod that is bound, and then of each that gets bound.
async fn watch(
    api: &Api,
    namespace: &str,
) -> anyhow::Result<impl Stream<Item = io::Result<String>> + Unpin + use<>> {
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods?watch=true&fieldSelector=spec.nodeName%21%3D&resourceVersion=0"
    );
    let request = Request::get(path)
        .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        .body(Vec::new())?;
    let lines = api.client().request_stream(request).await.context("cannot watch the pods")?;
    Ok(lines.lines())
}

/// When every pod has its event.
async fn told(api: &Api, namespace: &str) -> anyhow::Result<Instant> {
    let path = format!("/api/v1/namespaces/{namespace}/events?limit=1");
    loop {
        let list = api.get(&path).await?;
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        if usize::try_from(more)? + 1 >= PODS {
            return Ok(Instant::now());
        }
        sleep(COUNT_AGAIN).await;
    }
}

/// The machine's time.
#[expect(clippy::disallowed_methods, reason = "a scheduler runs in real time here")]
fn wall_clock() -> Clock {
    Arc::new(|| jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default())
}
