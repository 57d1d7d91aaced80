//! The real kube-scheduler at work, and what it said about each decision. Its log at the highest
//! level names every node that fits and the score of every plugin.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

use anyhow::{Context as _, bail};
use futures::{AsyncBufRead, AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use schedlab::api::{Api, api_error};
use schedlab_control_plane::{ChildProcess, TemporaryControlPlane};
use schedlab_json::{Value, json};

/// Weighted scores by plugin, by the names of the nodes on which a pod fits.
pub(crate) type Scores = BTreeMap<String, BTreeMap<String, i128>>;

/// Requests under way while a cluster is made.
const AT_ONCE: usize = 8;

/// What became of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It got a node. Where only one fits nothing is scored.
    Bound { node: String, scored: Scores },
    /// It fits nowhere.
    Nowhere { message: String },
}

/// The scheduler, and the API beside it.
pub(crate) struct Real {
    api: Api,
    log: PathBuf,
    read: u64,
    pods: Box<dyn AsyncBufRead + Unpin>,
    _process: ChildProcess,
}

impl Real {
    /// Starts it with its defaults.
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
        std::fs::write(&file, config.to_string()).context("cannot write a configuration")?;
        let arguments = [
            format!("--config={}", file.display()),
            "--secure-port=0".to_owned(),
            "--vmodule=schedule_one=10".to_owned(),
        ];
        let process = plane.start_program("kube-scheduler", &arguments)?;
        let watch = Request::get("/api/v1/pods?watch=true").body(Vec::new())?;
        let pods = Box::new(api.client().request_stream(watch).await?);
        let log = plane.folder().join("kube-scheduler.log");
        Ok(Self { api, log, read: 0, pods, _process: process })
    }

    /// The API as an administrator.
    pub(crate) const fn api(&self) -> &Api {
        &self.api
    }

    /// Makes objects of one collection, several at once.
    pub(crate) async fn make(&self, path: &str, objects: Vec<Value>) -> anyhow::Result<()> {
        let posts = objects.into_iter().map(|object| async move {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let path = path.replace("{namespace}", namespace);
            let made = self.api.post(&path, &object).await;
            made.map(drop).map_err(api_error).with_context(|| format!("{path}: {object:#}"))
        });
        stream::iter(posts).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// All objects of a collection.
    pub(crate) async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut list = self.api.get(path).await.with_context(|| path.to_owned())?;
        let Value::Array(items) = list["items"].take() else { bail!("{path} is no list") };
        Ok(items)
    }

    /// Waits until it has decided about a pod.
    pub(crate) async fn decide(&mut self, namespace: &str, name: &str) -> anyhow::Result<Fate> {
        let pod = loop {
            let mut line = String::new();
            if self.pods.read_line(&mut line).await? == 0 {
                bail!("the watch of pods ended");
            }
            let mut event: Value = serde_json::from_str(&line)?;
            let pod = event["object"].take();
            let meta = &pod["metadata"];
            let is_it = meta["namespace"] == namespace && meta["name"] == name;
            if is_it && event["type"] != "DELETED" && is_decided(&pod) {
                break pod;
            }
        };
        let scored = self.scored(&format!("{namespace}/{name}"))?;
        Ok(match pod["spec"]["nodeName"].as_str() {
            Some(node) => Fate::Bound { node: node.to_owned(), scored },
            None => Fate::Nowhere { message: message(&pod).to_owned() },
        })
    }

    /// What it has logged about a pod since it was asked last.
    fn scored(&mut self, pod: &str) -> anyhow::Result<Scores> {
        let mut file = File::open(&self.log).context("its log")?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // A line that is being written is for the next time.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.read += u64::try_from(whole)?;
        let mut scores = Scores::new();
        let text = String::from_utf8_lossy(&text[..whole]);
        let about = format!("pod=\"{pod}\"");
        for line in text.lines().filter(|line| line.contains("\"Plugin scored node for pod\"")) {
            let field = |name: &str| {
                let (_, after) = line.split_once(&format!(" {name}="))?;
                Some(after.split_whitespace().next()?.trim_matches('"'))
            };
            let fields = (field("node"), field("plugin"), field("score"));
            if let (true, (Some(node), Some(plugin), Some(score))) = (line.contains(&about), fields)
            {
                let score = score.parse().with_context(|| line.to_owned())?;
                scores.entry(node.to_owned()).or_default().insert(plugin.to_owned(), score);
            }
        }
        Ok(scores)
    }
}

fn is_decided(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string() || !message(pod).is_empty()
}

/// Why it was not scheduled.
fn message(pod: &Value) -> &str {
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let refused =
        |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    conditions.iter().find(refused).and_then(|found| found["message"].as_str()).unwrap_or_default()
}
