//! Runs the real kube-scheduler and reads its decisions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

use anyhow::{Context as _, bail};
use futures::{AsyncBufRead, AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use schedlab_api::{Value, json};
use schedlab_clusters::api::{Api, to_anyhow_error};
use schedlab_control_plane::{ChildProcess, TemporaryControlPlane};

use crate::{
    gangs::Gang,
    log::{GroupOutcome, scores_of},
};

/// The gates of the API server and of kube-scheduler.
pub(crate) const FEATURE_GATES: &str = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true";

/// Weighted scores by feasible node and plugin.
pub(crate) type Scores = BTreeMap<String, BTreeMap<String, i128>>;

/// Concurrent requests while objects are created.
const CONCURRENT_REQUESTS: usize = 8;

/// The scheduling decision for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The pod was bound. `scores` is empty if only one node is feasible.
    Bound { node: String, scores: Scores },
    /// No node is feasible.
    Unschedulable { message: String },
}

/// A kube-scheduler process, and a client of its API server.
pub(crate) struct KubeScheduler {
    api: Api,
    log: PathBuf,
    /// Number of bytes of the log that were read.
    log_offset: u64,
    pods: Box<dyn AsyncBufRead + Unpin>,
    _process: ChildProcess,
}

impl KubeScheduler {
    /// Starts kube-scheduler with its default profile and with [`FEATURE_GATES`].
    pub(crate) async fn start(plane: &TemporaryControlPlane) -> anyhow::Result<Self> {
        let api = Api::new(plane.client().await?);
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": { "leaderElect": false },
            "clientConnection": {
                "kubeconfig": plane.kubeconfig_file(), "qps": 1000, "burst": 1000,
            },
        });
        let file = plane.folder().join("kube-scheduler.json");
        std::fs::write(&file, config.to_string())
            .context("cannot write the configuration of kube-scheduler")?;
        let arguments = [
            format!("--config={}", file.display()),
            "--secure-port=0".to_owned(),
            "--vmodule=schedule_one=10,schedule_one_podgroup=10".to_owned(),
            format!("--feature-gates={FEATURE_GATES}"),
        ];
        let process = plane.start_program("kube-scheduler", &arguments)?;
        let watch = Request::get("/api/v1/pods?watch=true").body(Vec::new())?;
        let pods = Box::new(api.client().request_stream(watch).await?);
        let log = plane.folder().join("kube-scheduler.log");
        Ok(Self { api, log, log_offset: 0, pods, _process: process })
    }

    /// A client with administrator permissions.
    pub(crate) const fn api(&self) -> &Api {
        &self.api
    }

    /// Creates the objects of one collection concurrently.
    pub(crate) async fn create(&self, path: &str, objects: Vec<Value>) -> anyhow::Result<()> {
        let posts = objects.into_iter().map(|object| async move {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let path = path.replace("{namespace}", namespace);
            let response = self.api.post(&path, &object).await;
            response
                .map(drop)
                .map_err(to_anyhow_error)
                .with_context(|| format!("{path}: {object:#}"))
        });
        stream::iter(posts).buffer_unordered(CONCURRENT_REQUESTS).try_collect().await
    }

    /// Lists a collection.
    pub(crate) async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut list = self.api.get(path).await.with_context(|| path.to_owned())?;
        let Value::Array(items) = list["items"].take() else { bail!("{path} is not a list") };
        Ok(items)
    }

    /// Waits for the decision about a pod.
    pub(crate) async fn wait_for_decision(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Outcome> {
        let pod = self.wait_for_pod(namespace, name).await?;
        let scores = scores_of(&self.read_log()?, &format!("{namespace}/{name}"))?;
        Ok(match pod["spec"]["nodeName"].as_str() {
            Some(node) => Outcome::Bound { node: node.to_owned(), scores },
            None => Outcome::Unschedulable { message: message(&pod).to_owned() },
        })
    }

    /// Waits for the decision about the pods of a PodGroup.
    pub(crate) async fn wait_for_group(&mut self, gang: &Gang) -> anyhow::Result<GroupOutcome> {
        let namespace = gang.namespace();
        let mut waiting: BTreeSet<String> = gang.pod_names().into_iter().collect();
        let mut nodes = BTreeMap::new();
        while !waiting.is_empty() {
            let pod = self.next_decided_pod(namespace).await?;
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            if waiting.remove(name)
                && let Some(node) = pod["spec"]["nodeName"].as_str()
            {
                nodes.insert(name.to_owned(), node.to_owned());
            }
        }
        GroupOutcome::from_log(&self.read_log()?, &format!("{namespace}/{}", gang.name()), nodes)
    }

    async fn wait_for_pod(&mut self, namespace: &str, name: &str) -> anyhow::Result<Value> {
        loop {
            let pod = self.next_decided_pod(namespace).await?;
            if pod["metadata"]["name"] == name {
                return Ok(pod);
            }
        }
    }

    /// The next version of a pod about which a decision was made.
    async fn next_decided_pod(&mut self, namespace: &str) -> anyhow::Result<Value> {
        loop {
            let mut line = String::new();
            if self.pods.read_line(&mut line).await? == 0 {
                bail!("the watch of pods ended");
            }
            let mut event: Value = serde_json::from_str(&line)?;
            let pod = event["object"].take();
            let is_here = pod["metadata"]["namespace"] == namespace;
            if is_here && event["type"] != "DELETED" && is_decided(&pod) {
                return Ok(pod);
            }
        }
    }

    /// The log lines since the last call.
    fn read_log(&mut self) -> anyhow::Result<String> {
        let mut file = File::open(&self.log).context("cannot open the log of kube-scheduler")?;
        file.seek(SeekFrom::Start(self.log_offset))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // An incomplete last line is read by the next call.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.log_offset += u64::try_from(whole)?;
        text.truncate(whole);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn is_decided(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string() || !message(pod).is_empty()
}

/// The message of a false `PodScheduled` condition.
fn message(pod: &Value) -> &str {
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_false =
        |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    conditions.iter().find(is_false).and_then(|found| found["message"].as_str()).unwrap_or_default()
}
