//! Times how fast one scheduler binds all pods.

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
use schedlab_api::json;
use schedlab_clusters::api::Api;
use schedlab_control_plane::{TemporaryControlPlane, client_config};
use schedlab_scheduler::{Clock, Config, IdlePolicy};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::workload::Workload;

/// Interval at which events are counted after all pods are bound.
const EVENT_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Times since the start of a scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timings {
    /// Number of pods.
    pub(crate) pods: usize,
    /// Time until the first binding.
    pub(crate) first: Duration,
    /// Time until the last binding.
    pub(crate) all: Duration,
    /// Time until every pod also has its event.
    pub(crate) events: Duration,
}

impl Timings {
    pub(crate) fn pods_per_second(&self) -> f64 {
        self.pods_as_f64() / self.all.as_secs_f64()
    }

    pub(crate) fn pods_per_second_after_first(&self) -> f64 {
        self.pods_as_f64() / self.duration_after_first().as_secs_f64()
    }

    /// Pods per second from the first binding, and from the start.
    pub(crate) fn describe(&self) -> String {
        let (start, first) = (self.pods_per_second(), self.pods_per_second_after_first());
        let events = self.events.as_secs_f64();
        format!("{first:.0} ({start:.0} from its start; all events after {events:.1} s)")
    }

    /// From the first binding to the last.
    pub(crate) fn duration_after_first(&self) -> Duration {
        self.all.saturating_sub(self.first)
    }

    fn pods_as_f64(&self) -> f64 {
        u32::try_from(self.pods).map_or(f64::NAN, f64::from)
    }
}

/// Measures kube-scheduler with its default profile and feature gates, without client-side rate
/// limits.
pub(crate) async fn time_kube_scheduler(
    plane: &TemporaryControlPlane,
    workload: &Workload,
    feature_gates: &str,
) -> anyhow::Result<Timings> {
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
    let arguments = [
        format!("--config={}", file.path().display()),
        "--secure-port=0".to_owned(),
        format!("--feature-gates={feature_gates}"),
    ];
    time_binding(plane, workload, "default-scheduler", || {
        plane.start_program("kube-scheduler", &arguments)
    })
    .await
}

/// Measures our scheduler, configured as by its command line, on a thread of its own.
pub(crate) async fn time_our_scheduler(
    plane: &TemporaryControlPlane,
    workload: &Workload,
    config: Config,
) -> anyhow::Result<Timings> {
    let kubeconfig = plane.kubeconfig().to_owned();
    let name = config.scheduler_name.clone();
    time_binding(plane, workload, &name, || {
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = kube::Client::try_from(client_config(&kubeconfig).await?)?;
                let config =
                    Config { idle_policy: IdlePolicy::UntilEvent, writes_at_once: 32, ..config };
                tokio::select! {
                    ended = schedlab_scheduler::run(client, config, wall_clock()) => ended,
                    _ = stopped => Ok(()),
                }
            })
        });
        Ok(SchedulerThread { stop: Some(stop), thread: Some(thread) })
    })
    .await
}

/// The thread of our scheduler; dropping it stops the scheduler.
struct SchedulerThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
}

impl Drop for SchedulerThread {
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// Starts a scheduler and measures how long it takes to bind all pods.
async fn time_binding<T>(
    plane: &TemporaryControlPlane,
    workload: &Workload,
    scheduler_name: &str,
    start: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<Timings> {
    let api = Api::new(plane.client().await?);
    let (namespace, pods) = (&*workload.namespace, workload.pods.len());
    workload.submit(&api, scheduler_name).await.context("cannot submit the pods")?;
    let mut pods_watch = watch_bound_pods(&api, namespace).await?;
    let start_time = Instant::now();
    let scheduler = start()?;
    let (mut names, mut first) = (BTreeSet::new(), None);
    while names.len() < pods {
        // An API server ends the watch of a slow client; on a busy machine this can happen here.
        let Some(line) = pods_watch.try_next().await? else {
            pods_watch = watch_bound_pods(&api, namespace).await?;
            continue;
        };
        let event: WatchEvent<PartialObjectMeta> = serde_json::from_str(&line)?;
        if let WatchEvent::Added(pod) = event {
            first.get_or_insert(start_time.elapsed());
            names.insert(pod.name_any());
        }
    }
    let all = start_time.elapsed();
    let events = wait_for_events(&api, namespace, pods).await? - start_time;
    drop(scheduler);
    workload.delete(&api).await?;
    Ok(Timings { pods, first: first.unwrap_or_default(), all, events })
}

/// Watches bound pods, beginning with those that are bound already.
async fn watch_bound_pods(
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

/// Waits until there is an event for every pod. Returns when that happened.
async fn wait_for_events(api: &Api, namespace: &str, pods: usize) -> anyhow::Result<Instant> {
    let path = format!("/api/v1/namespaces/{namespace}/events?limit=1");
    loop {
        let list = api.get(&path).await?;
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        if usize::try_from(more)? + 1 >= pods {
            return Ok(Instant::now());
        }
        sleep(EVENT_POLL_INTERVAL).await;
    }
}

/// The real time of day, as the clock of the measured scheduler.
#[expect(clippy::disallowed_methods, reason = "the measured scheduler runs in real time")]
fn wall_clock() -> Clock {
    Arc::new(|| jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default())
}
