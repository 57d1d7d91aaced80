//! kwok (`kwok.x-k8s.io`) as the one who plays simulated nodes and starts their pods. What it does
//! on a cluster is not asked but seen: a node is made for it, and a Job whose pod is bound there.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use schedlab_emulator::actors::BESIDE;
use schedlab_json::{Value, json};

use super::wait::answered;
use crate::api::{Api, refusal};
use crate::leftovers::{OBJECT_LABEL, Run};
use crate::processes::Kept;
use crate::tools::{ANSWER_MAX, Tool};
use crate::veil::{KWOK_NODE, SIMULATED};

/// Its program.
pub(super) const PROGRAM: &str = "kwok";
/// What a kwok of ours does.
const STAGES: &str = include_str!("../../../kind-configs/kwok/stages.yaml");
/// The actors that it stands in for; it beats their nodes' hearts, and takes their pods away.
const ITS: [&str; 2] = ["node", "kubelet"];

/// How long a kwok that was said to be there may take for a node, and for a pod.
const SERVED_WITHIN: Duration = Duration::from_mins(1);
/// How long one that may be there is waited for; it takes a node within a second.
const FOUND_WITHIN: Duration = Duration::from_secs(3);
/// How long a pod that runs may go on before it counts as one that nobody ends.
const ENDED_WITHIN: Duration = Duration::from_secs(3);
/// How long its end may take.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Who plays the kubelets of simulated nodes on a real cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kubelets {
    /// kwok, where one serves the cluster of a kubeconfig, and in kwok's own image; else schedlab.
    #[default]
    Auto,
    /// schedlab.
    Schedlab,
    /// kwok; for a control plane of ours that of this machine is started.
    Kwok,
}

impl Kubelets {
    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Schedlab => "schedlab",
            Self::Kwok => "kwok",
        }
    }

    /// What is meant, where `usual` is when nobody says it.
    pub(super) fn unless_said(self, usual: Self) -> Self {
        if self == Self::Auto { usual } else { self }
    }
}

/// What kwok does to pods on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kwok {
    /// It ends a Job's pods as soon as they run, as its stage `pod-complete` does.
    pub ends_jobs: bool,
}

/// Who plays the nodes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Player {
    /// schedlab's actors.
    Schedlab,
    /// kwok, and beside it what it lacks.
    Kwok(Kwok),
    /// The cluster itself: it is an emulator of ours, as `schedlab up` has one.
    Emulator,
}

impl Player {
    /// The actors that act there, of those that act where nobody else does.
    pub(super) fn leaves(self, actors: &[&'static str]) -> Vec<&'static str> {
        match self {
            Self::Schedlab => actors.to_vec(),
            Self::Kwok(_) => {
                let rest = actors.iter().copied().filter(|actor| !ITS.contains(actor));
                rest.chain([BESIDE.name]).collect()
            }
            Self::Emulator => Vec::new(),
        }
    }

    /// What kwok does to pods there, if it plays them.
    pub(super) fn kwok(self) -> Option<Kwok> {
        match self {
            Self::Kwok(kwok) => Some(kwok),
            Self::Schedlab | Self::Emulator => None,
        }
    }
}

/// Whether there is a kwok on this machine.
pub(super) async fn examine() -> anyhow::Result<()> {
    let version = Tool::Kwok.ask(&Tool::Kwok.program(), &["--version"], ANSWER_MAX).await;
    version.map(drop).context("--kubelets kwok: it cannot be started")
}

/// Starts the kwok of this machine for a control plane of ours, for nodes that are made for it.
pub(super) fn start(folder: &Path, run: &Run) -> anyhow::Result<Kept> {
    let config = folder.join("kwok.yaml");
    std::fs::write(&config, STAGES)
        .with_context(|| format!("cannot write {}", config.display()))?;
    let arguments = [
        format!("--config={}", config.display()),
        format!("--kubeconfig={}", folder.join("kubeconfig").display()),
        "--manage-all-nodes=false".to_owned(),
        format!("--manage-nodes-with-annotation-selector={KWOK_NODE}=fake"),
        "--node-lease-duration-seconds=40".to_owned(),
    ];
    // It would read a configuration of the user's there, too.
    let own = folder.join("kwok").display().to_string();
    let program = Tool::Kwok.program();
    let (program, log) = (Path::new(&program), folder.join(format!("{PROGRAM}.log")));
    Kept::start(program, &arguments, &[("KWOK_WORKDIR", &own)], &log, run)
}

/// Finds who plays the nodes of a cluster.
pub(super) async fn find(
    config: &kube::Config,
    kubelets: Kubelets,
    run: &str,
    alive: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Player> {
    let within = match kubelets {
        Kubelets::Schedlab => return Ok(Player::Schedlab),
        Kubelets::Auto => FOUND_WITHIN,
        Kubelets::Kwok => SERVED_WITHIN,
    };
    let name = format!("schedlab-{run}-kwok");
    let mut probe = Probe { api: super::api(config)?, run, name, alive };
    let found = probe.find(within).await;
    // What cannot be taken away now goes at the run's end, by its label.
    probe.remove().await;
    let found = found.context("cannot find out whether kwok serves the cluster")?;
    let none = match found {
        Player::Schedlab => format!(
            "no kwok serves the cluster: a node with the annotation {KWOK_NODE}: fake was not ready \
             within {SERVED_WITHIN:?}"
        ),
        Player::Emulator => {
            "the cluster is an emulator of schedlab's, and plays its nodes itself".to_owned()
        }
        Player::Kwok(_) => return Ok(found),
    };
    anyhow::ensure!(kubelets == Kubelets::Auto, "--kubelets kwok: {none}");
    Ok(found)
}

/// A node, and a Job in a namespace of their own.
struct Probe<'r> {
    api: Api,
    run: &'r str,
    name: String,
    /// Says which process of ours has ended, a kwok perhaps.
    alive: &'r mut dyn FnMut() -> anyhow::Result<()>,
}

impl Probe<'_> {
    async fn find(&mut self, within: Duration) -> anyhow::Result<Player> {
        self.post("/api/v1/nodes", node()).await?;
        let node = format!("/api/v1/nodes/{}", self.name);
        if !self.comes(&node, within, is_ready).await? {
            return Ok(Player::Schedlab);
        }
        if self.is_emulated(&node).await? {
            return Ok(Player::Emulator);
        }
        self.post("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace"})).await?;
        let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", self.name);
        self.post(&jobs, self.job()).await?;
        let job = format!("{jobs}/{}", self.name);
        let runs = |job: &Value| counts(job, "ready") || counts(job, "succeeded");
        anyhow::ensure!(
            self.comes(&job, SERVED_WITHIN, runs).await?,
            "a pod that is bound to a node of kwok's does not run after {SERVED_WITHIN:?}: has it \
             stages for pods? with --kubelets schedlab, schedlab plays nodes and pods"
        );
        let ends_jobs = self.comes(&job, ENDED_WITHIN, |job| counts(job, "succeeded")).await?;
        Ok(Player::Kwok(Kwok { ends_jobs }))
    }

    /// Whether it was an emulator of ours that made the node ready.
    async fn is_emulated(&self, node: &str) -> anyhow::Result<bool> {
        let node = self.api.get(node).await.map_err(refusal)?;
        Ok(node["status"]["nodeInfo"]["osImage"] == "schedlab")
    }

    async fn post(&self, collection: &str, mut object: Value) -> anyhow::Result<()> {
        object["metadata"]["name"] = json!(self.name);
        object["metadata"]["labels"] = json!({ OBJECT_LABEL: self.run });
        self.api.post(collection, &object).await.map_err(refusal)?;
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

    /// Whether an object comes to be so within a time.
    async fn comes(
        &mut self,
        path: &str,
        within: Duration,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<bool> {
        let (api, alive) = (&self.api, &mut self.alive);
        let came = answered(within, async || {
            alive()?;
            Ok(is_so(&api.get(path).await.map_err(refusal)?).then_some(()).ok_or(()))
        });
        Ok(came.await?.is_ok())
    }

    /// The Job first, and its pod while there is a node to end it: a namespace that is deleted lets
    /// go of neither, each waits for the other.
    async fn remove(&mut self) {
        let jobs = format!("/apis/batch/v1/namespaces/{}/jobs/{}", self.name, self.name);
        if self.api.delete(&jobs).await.is_ok() {
            let pods = format!("/api/v1/namespaces/{}/pods", self.name);
            let gone = |pods: &Value| pods["items"].as_array().is_some_and(Vec::is_empty);
            drop(self.comes(&pods, GONE_WITHIN, gone).await);
        }
        for collection in ["namespaces", "nodes"] {
            let path = format!("/api/v1/{collection}/{}", self.name);
            drop(self.api.delete(&path).await);
        }
    }
}

/// A node as those of scenarios, which kwok takes.
fn node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"annotations": { KWOK_NODE: "fake" }},
        "spec": {"taints": [{"key": SIMULATED, "value": "true", "effect": "NoSchedule"}]},
    })
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn counts(job: &Value, status: &str) -> bool {
    job["status"][status].as_i64().unwrap_or(0) > 0
}
