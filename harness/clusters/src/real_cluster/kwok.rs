//! Detects whether kwok (`kwok.x-k8s.io`) simulates nodes and starts their pods. Detection is by
//! experiment: create a node with kwok's annotation and a Job whose pod is bound to it, and observe
//! both.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use schedlab_api::{Value, conditions, json, labels};
use schedlab_emulator::controllers::KWOK_COMPANION;

use super::poll::poll_until_ok;
use crate::api::{Api, api_error};
use crate::cleanup::Run;
use crate::external_tools::{ExternalTool, RESPONSE_TIMEOUT};
use crate::process::ChildProcess;
use schedlab_tenancy::{KWOK_NODE_ANNOTATION, SIMULATED_TAINT};

/// Its program.
pub(super) const PROGRAM: &str = "kwok";
/// The stages of a kwok that we start.
const STAGES_CONFIG: &str = include_str!("../../../../kind-configs/kwok/stages.yaml");
/// Our actors that kwok replaces: it renews node leases and deletes pods.
const REPLACED_ACTORS: [&str; 2] = ["node", "kubelet"];

/// How long kwok may take for a node and for a pod with `--kubelets kwok`.
const SERVED_TIMEOUT: Duration = Duration::from_mins(1);
/// How long to wait for kwok with `--kubelets auto`; kwok needs less than a second for a node.
const DETECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a pod may run before kwok counts as one that does not complete Jobs.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the pod of the probe may take to be deleted.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// What simulates the kubelets of simulated nodes on a real cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kubelets {
    /// kwok if it serves the existing cluster or is in the image; schedlab otherwise.
    #[default]
    Auto,
    /// schedlab's own actors.
    Schedlab,
    /// kwok; for a control plane of our own, the local kwok is started.
    Kwok,
}

impl Kubelets {
    /// The value on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Schedlab => "schedlab",
            Self::Kwok => "kwok",
        }
    }

    /// Replaces `Auto` by `default`.
    pub(super) fn or_default(self, default: Self) -> Self {
        if self == Self::Auto { default } else { self }
    }
}

/// How kwok treats pods on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KwokBehavior {
    /// Whether kwok completes a Job's pods as soon as they run, as its stage `pod-complete` does.
    pub completes_jobs: bool,
}

/// What simulates the kubelets of a cluster's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KubeletProvider {
    /// The actors of schedlab.
    Schedlab,
    /// kwok, complemented by those of schedlab's actors that kwok does not replace.
    Kwok(KwokBehavior),
    /// The cluster itself, because it is our emulator, as in `schedlab up`.
    Emulator,
}

impl KubeletProvider {
    /// The actors that are still needed out of `actors`, which is the full set.
    pub(super) fn actors_beside(self, actors: &[&'static str]) -> Vec<&'static str> {
        match self {
            Self::Schedlab => actors.to_vec(),
            Self::Kwok(_) => {
                let rest = actors.iter().copied().filter(|actor| !REPLACED_ACTORS.contains(actor));
                rest.chain([KWOK_COMPANION.name]).collect()
            }
            Self::Emulator => Vec::new(),
        }
    }

    /// How kwok treats pods. `None` unless it simulates the nodes.
    pub(super) fn kwok(self) -> Option<KwokBehavior> {
        match self {
            Self::Kwok(kwok) => Some(kwok),
            Self::Schedlab | Self::Emulator => None,
        }
    }
}

/// Fails if there is no kwok on this machine.
pub(super) async fn preflight() -> anyhow::Result<()> {
    let version = ExternalTool::Kwok
        .run_with_timeout(&ExternalTool::Kwok.program(), &["--version"], RESPONSE_TIMEOUT)
        .await;
    version.map(drop).context("--kubelets kwok: cannot start it")
}

/// Starts the local kwok for our own control plane. It manages only nodes with its annotation.
pub(super) fn start(folder: &Path, run: &Run) -> anyhow::Result<ChildProcess> {
    let config = folder.join("kwok.yaml");
    std::fs::write(&config, STAGES_CONFIG)
        .with_context(|| format!("cannot write {}", config.display()))?;
    let arguments = [
        format!("--config={}", config.display()),
        format!("--kubeconfig={}", folder.join("kubeconfig").display()),
        "--manage-all-nodes=false".to_owned(),
        format!("--manage-nodes-with-annotation-selector={KWOK_NODE_ANNOTATION}=fake"),
        "--node-lease-duration-seconds=40".to_owned(),
    ];
    // Otherwise kwok would also read the user's own configuration.
    let own = folder.join("kwok").display().to_string();
    let program = ExternalTool::Kwok.program();
    let (program, log) = (Path::new(&program), folder.join(format!("{PROGRAM}.log")));
    ChildProcess::start(program, &arguments, &[("KWOK_WORKDIR", &own)], &log, run)
}

/// Detects what simulates the nodes of a cluster.
pub(super) async fn detect(
    config: &kube::Config,
    kubelets: Kubelets,
    run: &str,
    check_alive: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<KubeletProvider> {
    let within = match kubelets {
        Kubelets::Schedlab => return Ok(KubeletProvider::Schedlab),
        Kubelets::Auto => DETECT_TIMEOUT,
        Kubelets::Kwok => SERVED_TIMEOUT,
    };
    let name = format!("schedlab-{run}-kwok");
    let mut probe = Probe { api: super::admin_api(config)?, run, name, check_alive };
    let detected = probe.detect(within).await;
    // Whatever cannot be deleted now is deleted at the run's end, by its label.
    probe.remove().await;
    let provider = detected.context("cannot detect whether kwok serves the cluster")?;
    let problem = match provider {
        KubeletProvider::Schedlab => format!(
            "no kwok serves the cluster: a node with the annotation {KWOK_NODE_ANNOTATION}: fake was not ready \
             within {SERVED_TIMEOUT:?}"
        ),
        KubeletProvider::Emulator => {
            "the cluster is a schedlab emulator, which simulates its nodes itself".to_owned()
        }
        KubeletProvider::Kwok(_) => return Ok(provider),
    };
    anyhow::ensure!(kubelets == Kubelets::Auto, "--kubelets kwok: {problem}");
    Ok(provider)
}

/// A node, and a Job in a namespace of its own.
struct Probe<'r> {
    api: Api,
    run: &'r str,
    name: String,
    /// Fails if a process of our own control plane, kwok for example, has ended.
    check_alive: &'r mut dyn FnMut() -> anyhow::Result<()>,
}

impl Probe<'_> {
    async fn detect(&mut self, within: Duration) -> anyhow::Result<KubeletProvider> {
        self.post("/api/v1/nodes", node()).await?;
        let node = format!("/api/v1/nodes/{}", self.name);
        if !self.becomes(&node, within, is_ready).await? {
            return Ok(KubeletProvider::Schedlab);
        }
        if self.is_emulated(&node).await? {
            return Ok(KubeletProvider::Emulator);
        }
        self.post("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace"})).await?;
        let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", self.name);
        self.post(&jobs, self.job()).await?;
        let job = format!("{jobs}/{}", self.name);
        let runs = |job: &Value| has_count(job, "ready") || has_count(job, "succeeded");
        anyhow::ensure!(
            self.becomes(&job, SERVED_TIMEOUT, runs).await?,
            "a pod on a node of kwok's does not run after {SERVED_TIMEOUT:?}: does kwok have stages \
             for pods? with --kubelets schedlab, schedlab simulates nodes and pods"
        );
        let ends_jobs =
            self.becomes(&job, COMPLETION_TIMEOUT, |job| has_count(job, "succeeded")).await?;
        Ok(KubeletProvider::Kwok(KwokBehavior { completes_jobs: ends_jobs }))
    }

    /// Whether our own emulator made the node ready.
    async fn is_emulated(&self, node: &str) -> anyhow::Result<bool> {
        let node = self.api.get(node).await.map_err(api_error)?;
        Ok(node["status"]["nodeInfo"]["osImage"] == "schedlab")
    }

    async fn post(&self, collection: &str, mut object: Value) -> anyhow::Result<()> {
        object["metadata"]["name"] = json!(self.name);
        object["metadata"]["labels"] = json!({ (labels::RUN): self.run });
        self.api.post(collection, &object).await.map_err(api_error)?;
        Ok(())
    }

    fn job(&self) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {"template": {"spec": {
                "nodeName": self.name,
                "restartPolicy": "Never",
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "none", "image": "none"}],
            }}},
        })
    }

    /// Whether an object satisfies `predicate` within a time.
    async fn becomes(
        &mut self,
        path: &str,
        within: Duration,
        predicate: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<bool> {
        let (api, alive) = (&self.api, &mut self.check_alive);
        let result = poll_until_ok(within, async || {
            alive()?;
            Ok(predicate(&api.get(path).await.map_err(api_error)?).then_some(()).ok_or(()))
        });
        Ok(result.await?.is_ok())
    }

    /// Deletes the Job first, and waits for its pod while there is still a node to terminate it: a
    /// deleted namespace waits for the pod and the pod for its kubelet.
    async fn remove(&mut self) {
        let jobs = format!("/apis/batch/v1/namespaces/{}/jobs/{}", self.name, self.name);
        if self.api.delete(&jobs).await.is_ok() {
            let pods = format!("/api/v1/namespaces/{}/pods", self.name);
            let gone = |pods: &Value| pods["items"].as_array().is_some_and(Vec::is_empty);
            drop(self.becomes(&pods, REMOVAL_TIMEOUT, gone).await);
        }
        for collection in ["namespaces", "nodes"] {
            let path = format!("/api/v1/{collection}/{}", self.name);
            drop(self.api.delete(&path).await);
        }
    }
}

/// A node like those of scenarios, with the annotation for kwok.
fn node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"annotations": { KWOK_NODE_ANNOTATION: "fake" }},
        "spec": {"taints": [{"key": SIMULATED_TAINT, "value": "true", "effect": "NoSchedule"}]},
    })
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == conditions::READY && one["status"] == "True")
}

fn has_count(job: &Value, status: &str) -> bool {
    job["status"][status].as_i64().unwrap_or(0) > 0
}
