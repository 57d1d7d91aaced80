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
use crate::api::{Api, to_anyhow_error};
use crate::cleanup::Run;
use crate::external_tools::{ExternalTool, RESPONSE_TIMEOUT};
use crate::process::ChildProcess;
use schedlab_tenancy::{KWOK_NODE_ANNOTATION, SIMULATED_TAINT};

/// The name of kwok's program and of its log file.
pub(super) const KWOK_PROGRAM: &str = "kwok";
/// The stages configuration for a kwok that schedlab starts.
const STAGES_CONFIG: &str = include_str!("../../../../kind-configs/kwok/stages.yaml");
/// Our actors that kwok replaces, since kwok renews node leases and terminates pods.
const ACTORS_REPLACED_BY_KWOK: [&str; 2] = ["node", "kubelet"];

/// With `--kubelets kwok`: maximum wait until kwok makes a node ready, and until it runs a pod.
const KWOK_TIMEOUT: Duration = Duration::from_mins(1);
/// With `--kubelets auto`: maximum wait for kwok. kwok needs less than a second for a node.
const AUTO_DETECTION_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a Job's pod may run before kwok counts as one that does not complete Jobs.
const JOB_COMPLETION_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum wait for the deletion of the probe's pod.
const PROBE_REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The value of `--kubelets` on the command line.
    pub fn option_value(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Schedlab => "schedlab",
            Self::Kwok => "kwok",
        }
    }

    /// This choice, or `default` if it is [`Self::Auto`].
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
    /// The actors of schedlab simulate the kubelets.
    Schedlab,
    /// kwok, complemented by those of schedlab's actors that kwok does not replace.
    Kwok(KwokBehavior),
    /// The cluster itself, because it is our emulator, as in `schedlab up`.
    Emulator,
}

impl KubeletProvider {
    /// Returns those of `actors` (the full set) that this provider does not replace.
    pub(super) fn actors_still_needed(self, actors: &[&'static str]) -> Vec<&'static str> {
        match self {
            Self::Schedlab => actors.to_vec(),
            Self::Kwok(_) => {
                let rest =
                    actors.iter().copied().filter(|actor| !ACTORS_REPLACED_BY_KWOK.contains(actor));
                rest.chain([KWOK_COMPANION.name]).collect()
            }
            Self::Emulator => Vec::new(),
        }
    }

    /// How kwok treats pods; `None` unless kwok simulates the nodes.
    pub(super) fn kwok_behavior(self) -> Option<KwokBehavior> {
        match self {
            Self::Kwok(kwok) => Some(kwok),
            Self::Schedlab | Self::Emulator => None,
        }
    }
}

/// Fails if kwok cannot be started on this machine.
pub(super) async fn check_prerequisites() -> anyhow::Result<()> {
    let version = ExternalTool::Kwok
        .run_with_timeout(&ExternalTool::Kwok.program_to_run(), &["--version"], RESPONSE_TIMEOUT)
        .await;
    version.map(drop).context("--kubelets kwok: cannot start kwok")
}

/// Starts the local kwok for our own control plane. It manages only nodes that have kwok's
/// annotation.
pub(super) fn start_kwok(folder: &Path, run: &Run) -> anyhow::Result<ChildProcess> {
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
    let program = ExternalTool::Kwok.program_to_run();
    let (program, log) = (Path::new(&program), folder.join(format!("{KWOK_PROGRAM}.log")));
    ChildProcess::start_with_watchdog(program, &arguments, &[("KWOK_WORKDIR", &own)], &log, run)
}

/// Detects what simulates the nodes of a cluster.
pub(super) async fn detect_provider(
    config: &kube::Config,
    kubelets: Kubelets,
    run: &str,
    check_alive: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<KubeletProvider> {
    let within = match kubelets {
        Kubelets::Schedlab => return Ok(KubeletProvider::Schedlab),
        Kubelets::Auto => AUTO_DETECTION_TIMEOUT,
        Kubelets::Kwok => KWOK_TIMEOUT,
    };
    let name = format!("schedlab-{run}-kwok");
    let mut probe = KwokProbe { api: super::admin_api(config)?, run, name, check_alive };
    let detected = probe.detect_provider(within).await;
    // Whatever cannot be deleted now is deleted at the run's end, by its label.
    probe.remove_probe_objects().await;
    let provider = detected.context("cannot detect whether kwok serves the cluster")?;
    let problem = match provider {
        KubeletProvider::Schedlab => format!(
            "no kwok serves the cluster: a node with the annotation {KWOK_NODE_ANNOTATION}: fake was not ready \
             within {KWOK_TIMEOUT:?}"
        ),
        KubeletProvider::Emulator => {
            "the cluster is a schedlab emulator, which simulates its nodes itself".to_owned()
        }
        KubeletProvider::Kwok(_) => return Ok(provider),
    };
    anyhow::ensure!(kubelets == Kubelets::Auto, "--kubelets kwok: {problem}");
    Ok(provider)
}

/// A probe for kwok: a node, and a Job in a namespace of its own.
struct KwokProbe<'r> {
    api: Api,
    run: &'r str,
    name: String,
    /// Fails if a process of our own control plane, kwok for example, has ended.
    check_alive: &'r mut dyn FnMut() -> anyhow::Result<()>,
}

impl KwokProbe<'_> {
    async fn detect_provider(&mut self, within: Duration) -> anyhow::Result<KubeletProvider> {
        self.post_object("/api/v1/nodes", probe_node()).await?;
        let node = format!("/api/v1/nodes/{}", self.name);
        if !self.becomes_true_within(&node, within, is_node_ready).await? {
            return Ok(KubeletProvider::Schedlab);
        }
        if self.is_emulated(&node).await? {
            return Ok(KubeletProvider::Emulator);
        }
        self.post_object("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace"}))
            .await?;
        let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", self.name);
        self.post_object(&jobs, self.probe_job()).await?;
        let job = format!("{jobs}/{}", self.name);
        let runs = |job: &Value| has_pod_count(job, "ready") || has_pod_count(job, "succeeded");
        anyhow::ensure!(
            self.becomes_true_within(&job, KWOK_TIMEOUT, runs).await?,
            "a pod on a node of kwok's does not run after {KWOK_TIMEOUT:?}: does kwok have stages \
             for pods? with --kubelets schedlab, schedlab simulates nodes and pods"
        );
        let ends_jobs = self
            .becomes_true_within(&job, JOB_COMPLETION_TIMEOUT, |job| {
                has_pod_count(job, "succeeded")
            })
            .await?;
        Ok(KubeletProvider::Kwok(KwokBehavior { completes_jobs: ends_jobs }))
    }

    /// Whether our own emulator made the node ready.
    async fn is_emulated(&self, node: &str) -> anyhow::Result<bool> {
        let node = self.api.get(node).await.map_err(to_anyhow_error)?;
        Ok(node["status"]["nodeInfo"]["osImage"] == "schedlab")
    }

    async fn post_object(&self, collection: &str, mut object: Value) -> anyhow::Result<()> {
        object["metadata"]["name"] = json!(self.name);
        object["metadata"]["labels"] = json!({ (labels::RUN): self.run });
        self.api.post(collection, &object).await.map_err(to_anyhow_error)?;
        Ok(())
    }

    fn probe_job(&self) -> Value {
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

    /// Whether an object satisfies `predicate` within this time.
    async fn becomes_true_within(
        &mut self,
        path: &str,
        within: Duration,
        predicate: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<bool> {
        let (api, alive) = (&self.api, &mut self.check_alive);
        let result = poll_until_ok(within, async || {
            alive()?;
            Ok(predicate(&api.get(path).await.map_err(to_anyhow_error)?).then_some(()).ok_or(()))
        });
        Ok(result.await?.is_ok())
    }

    /// Deletes the objects of the probe: the Job first. Waits for the Job's pod while there is
    /// still a node on which kwok terminates the pod; otherwise the namespace would never be gone.
    async fn remove_probe_objects(&mut self) {
        let jobs = format!("/apis/batch/v1/namespaces/{}/jobs/{}", self.name, self.name);
        if self.api.delete(&jobs).await.is_ok() {
            let pods = format!("/api/v1/namespaces/{}/pods", self.name);
            let gone = |pods: &Value| pods["items"].as_array().is_some_and(Vec::is_empty);
            drop(self.becomes_true_within(&pods, PROBE_REMOVAL_TIMEOUT, gone).await);
        }
        for collection in ["namespaces", "nodes"] {
            let path = format!("/api/v1/{collection}/{}", self.name);
            drop(self.api.delete(&path).await);
        }
    }
}

/// The node of the probe: like the nodes of scenarios, and with kwok's annotation.
fn probe_node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"annotations": { KWOK_NODE_ANNOTATION: "fake" }},
        "spec": {"taints": [{"key": SIMULATED_TAINT, "value": "true", "effect": "NoSchedule"}]},
    })
}

fn is_node_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == conditions::READY && one["status"] == "True")
}

fn has_pod_count(job: &Value, status: &str) -> bool {
    job["status"][status].as_i64().unwrap_or(0) > 0
}
