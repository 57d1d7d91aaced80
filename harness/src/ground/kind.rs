//! A kind cluster: made for the run and gone with it, or kept from run to run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_json::json;

use super::wait::answered;
use super::{is_local, kubeconfig, on_runtime};
use crate::api::{Api, refusal};
use crate::interrupt::Interrupt;
use crate::leftovers::{KIND_PREFIX, Run, Thing};
use crate::target::Which;
use crate::tools::Tool;
use crate::veil::RUN;

/// What a cluster is made from unless somebody names another configuration.
const ONE_NODE: &str = include_str!("../../../kind-configs/one-node.yaml");

/// Names the node image where the command line does not.
const NODE_IMAGE: &str = "SCHEDLAB_NODE_IMAGE";

/// The network that all kind clusters of a machine share.
const NETWORK: &str = "kind";

/// How long a cluster that is there may take to answer.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// Which cluster.
#[derive(Clone, Debug, Default)]
pub struct KindCluster {
    /// The cluster of this name is used and kept, and made if it is not there; without a name
    /// one is made for the run.
    pub keep: Option<String>,
    /// What its nodes are; kind's own choice when nobody says it.
    pub node_image: Option<String>,
    /// kind's configuration.
    pub config: Option<PathBuf>,
}

/// A cluster that runs.
#[derive(Debug)]
pub(super) struct Kind {
    name: String,
    kept: bool,
    run: Run,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

/// Finds what there is to object before anything is made.
pub(super) async fn examine(scheduler: &Which) -> anyhow::Result<()> {
    Tool::daemon().await?;
    if let Which::Deployment(image) = scheduler {
        is_local(image).context("--scheduler deployment")?;
    }
    Ok(())
}

impl Kind {
    /// Makes the cluster, or finds the one that was kept. `tell` hears what takes its time.
    pub(super) fn start(
        wanted: &KindCluster,
        run: &Run,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let folder = run.temp_folder("kind")?;
        let there = on_runtime(kind(run, &folder, &["get", "clusters"]))?;
        let made = Self {
            name: wanted.keep.clone().unwrap_or_else(|| format!("{KIND_PREFIX}{}", run.id())),
            kept: wanted.keep.is_some(),
            run: run.clone(),
            kubeconfig: folder.join("kubeconfig"),
            folder,
        };
        if there.lines().any(|name| name == made.name) {
            tell(&format!("using kind cluster {}", made.name));
            let kubeconfig = made.kubeconfig.display().to_string();
            made.kind(&[
                "export",
                "kubeconfig",
                "--name",
                &made.name,
                "--kubeconfig",
                &kubeconfig,
            ])?;
        } else {
            made.create(wanted, interrupt, tell)?;
        }
        Ok(made)
    }

    /// Waits until it answers, as one does not that has just been started; how to reach it as an
    /// administrator, and its version. From then on it may have things of the run.
    pub(super) async fn ready(&self) -> anyhow::Result<(kube::Config, String)> {
        let config = self.config().await?;
        answered(READY_WITHIN, async || Ok(kubeconfig::is_ready(&config).await)).await??;
        let version = kubeconfig::examine(&config).await?;
        if self.kept {
            let (name, kubeconfig) = (self.name.clone(), self.kubeconfig.clone());
            self.run.note(Thing::KeptCluster { name, kubeconfig })?;
        }
        Ok((config, version))
    }

    fn create(
        &self,
        wanted: &KindCluster,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let config = self.folder.join("kind.yaml");
        match &wanted.config {
            Some(path) => std::fs::copy(path, &config).map(drop),
            None => std::fs::write(&config, ONE_NODE),
        }
        .with_context(|| {
            let path = wanted.config.as_ref().unwrap_or(&config);
            format!("cannot read kind's configuration {}", path.display())
        })?;
        let filter = format!("name=^{NETWORK}$");
        if Tool::Docker.run(&["network", "ls", "-q", "--filter", &filter])?.trim().is_empty() {
            self.run.note(Thing::Network { name: NETWORK.to_owned() })?;
        }
        let noted = Thing::KindCluster { name: self.name.clone() };
        self.run.note(noted.clone())?;
        let image = wanted.node_image.clone();
        let image =
            image.or_else(|| std::env::var(NODE_IMAGE).ok().filter(|text| !text.is_empty()));
        let from = image.as_deref().unwrap_or("kind's own node image");
        tell(&format!("creating kind cluster {} from {from}", self.name));
        let (config, kubeconfig) =
            (config.display().to_string(), self.kubeconfig.display().to_string());
        let mut args = vec!["create", "cluster", "--name", &self.name, "--config", &config];
        args.extend(["--kubeconfig", &kubeconfig, "--wait", "120s"]);
        if let Some(image) = &image {
            args.extend(["--image", image]);
        }
        on_runtime(interrupt.unless(kind(&self.run, &self.folder, &args)))?;
        if self.kept {
            self.run.forget(&noted)?;
            self.run.forget(&Thing::Network { name: NETWORK.to_owned() })?;
        }
        Ok(())
    }

    async fn config(&self) -> anyhow::Result<kube::Config> {
        let path = self.kubeconfig.display();
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)
            .with_context(|| format!("cannot read kubeconfig {path}"))?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        config.with_context(|| format!("kubeconfig {path} names no usable cluster"))
    }

    fn kind(&self, args: &[&str]) -> anyhow::Result<String> {
        on_runtime(kind(&self.run, &self.folder, args))
    }

    /// Gives its nodes an image of the local docker.
    pub(super) fn load(&self, image: &str) -> anyhow::Result<()> {
        self.kind(&["load", "docker-image", image, "--name", &self.name]).map(drop)
    }

    /// Writes what its nodes and pods said into a folder.
    pub(super) fn export_logs(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.display().to_string();
        match self.kind(&["export", "logs", &path, "--name", &self.name]) {
            // A node image without crictl lacks one of many files, and kind says that it failed.
            Err(_) if folder.join(format!("{}-control-plane", self.name)).is_dir() => Ok(()),
            exported => exported.map(drop),
        }
    }

    /// The file that says how others reach it.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// kind, marked as a child of the run: `schedlab clean` ends it when the run has died. An image that
/// it takes to a node lies in its temporary folder meanwhile, which is one of the run, too.
async fn kind(run: &Run, folder: &Path, args: &[&str]) -> anyhow::Result<String> {
    let folder = folder.display().to_string();
    Ok(Tool::Kind.wait(args, &[run.mark(), ("TMPDIR", &folder)]).await?)
}

/// Daemons of the cluster stay off simulated nodes: they tolerate every taint, and nobody would
/// run them there.
pub(super) async fn keep_daemons_away(config: &kube::Config) -> anyhow::Result<()> {
    let api = Api::new(kube::Client::try_from(config.clone()).context("cannot make a client")?);
    let collection = "/apis/apps/v1/namespaces/kube-system/daemonsets";
    let daemons = api.get(collection).await.map_err(refusal)?;
    let off = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": RUN, "operator": "DoesNotExist" }] }],
    } } });
    let change = json!({ "spec": { "template": { "spec": { "affinity": off } } } });
    for daemon in daemons["items"].as_array().into_iter().flatten() {
        let name = daemon["metadata"]["name"].as_str().unwrap_or_default();
        api.merge(&format!("{collection}/{name}"), &change).await.map_err(refusal)?;
    }
    Ok(())
}
