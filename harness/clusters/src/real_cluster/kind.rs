//! A kind cluster: created for the run and deleted with it, or kept across runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_api::{json, labels};

use super::poll::poll_until_ok;
use super::{block_on, check_local_image, kubeconfig};
use crate::api::{Api, to_anyhow_error};
use crate::cleanup::{KIND_PREFIX, Resource, Run};
use crate::external_tools::ExternalTool;
use crate::interrupt::Interrupt;
use crate::scheduler_source::SchedulerSource;

/// The default configuration for `kind create cluster`.
const ONE_NODE_CONFIG: &str = include_str!("../../../../kind-configs/one-node.yaml");

/// Environment variable with the node image of kind clusters, used if `--node-image` is not given.
const NODE_IMAGE_ENV: &str = "SCHEDLAB_NODE_IMAGE";

/// The docker network that all kind clusters of a machine share.
const DOCKER_NETWORK: &str = "kind";

/// Maximum wait for the API server of a kind cluster to become ready.
const CLUSTER_READY_TIMEOUT: Duration = Duration::from_mins(2);

/// Options for the creation of a kind cluster.
#[derive(Clone, Debug, Default)]
pub struct KindOptions {
    /// Name of a cluster that is kept: it is used if it exists and created otherwise. `None`
    /// creates a cluster that is deleted with the run.
    pub keep: Option<String>,
    /// Node image; `None` leaves the choice to kind.
    pub node_image: Option<String>,
    /// Path of a kind configuration; `None` means one node.
    pub config: Option<PathBuf>,
}

/// A running kind cluster.
#[derive(Debug)]
pub(super) struct KindCluster {
    name: String,
    is_kept: bool,
    run: Run,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

/// Fails if docker or the scheduler's image cannot be used, before anything is created.
pub(super) async fn check_prerequisites(scheduler: &SchedulerSource) -> anyhow::Result<()> {
    ExternalTool::check_docker_daemon().await?;
    if let SchedulerSource::Deployment(image) = scheduler {
        check_local_image(image).context("--scheduler deployment")?;
    }
    Ok(())
}

impl KindCluster {
    /// Creates the kind cluster, or uses the one that was kept. `on_progress` receives one line
    /// before each slow step.
    pub(super) fn start_or_reuse(
        options: &KindOptions,
        run: &Run,
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let folder = run.temp_folder("kind")?;
        let existing_clusters =
            block_on(run_kind_interruptibly(run, &folder, &["get", "clusters"]))?;
        let cluster = Self {
            name: options.keep.clone().unwrap_or_else(|| format!("{KIND_PREFIX}{}", run.id())),
            is_kept: options.keep.is_some(),
            run: run.clone(),
            kubeconfig: folder.join("kubeconfig"),
            folder,
        };
        if existing_clusters.lines().any(|name| name == cluster.name) {
            on_progress(&format!("using kind cluster {}", cluster.name));
            let kubeconfig = cluster.kubeconfig.display().to_string();
            cluster.run_kind_command(&[
                "export",
                "kubeconfig",
                "--name",
                &cluster.name,
                "--kubeconfig",
                &kubeconfig,
            ])?;
        } else {
            cluster.create_cluster(options, interrupt, on_progress)?;
        }
        Ok(cluster)
    }

    /// Waits until the API server is ready. Returns an administrator's configuration and the
    /// server's version. If the cluster is kept, it is now registered with the run, because from
    /// now on it may contain objects of the run.
    pub(super) async fn wait_until_ready(&self) -> anyhow::Result<(kube::Config, String)> {
        let config = self.kube_config().await?;
        poll_until_ok(CLUSTER_READY_TIMEOUT, async || Ok(kubeconfig::check_ready(&config).await))
            .await??;
        let version = kubeconfig::check_access(&config).await?;
        if self.is_kept {
            let (name, kubeconfig) = (self.name.clone(), self.kubeconfig.clone());
            self.run.register(Resource::KeptCluster { name, kubeconfig })?;
        }
        Ok((config, version))
    }

    fn create_cluster(
        &self,
        options: &KindOptions,
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let config = self.folder.join("kind.yaml");
        match &options.config {
            Some(path) => std::fs::copy(path, &config).map(drop),
            None => std::fs::write(&config, ONE_NODE_CONFIG),
        }
        .with_context(|| {
            let path = options.config.as_ref().unwrap_or(&config);
            format!("cannot read kind's configuration {}", path.display())
        })?;
        let filter = format!("name=^{DOCKER_NETWORK}$");
        if ExternalTool::Docker
            .run(&["network", "ls", "-q", "--filter", &filter])?
            .trim()
            .is_empty()
        {
            self.run.register(Resource::Network { name: DOCKER_NETWORK.to_owned() })?;
        }
        let resource = Resource::KindCluster { name: self.name.clone() };
        self.run.register(resource.clone())?;
        let image = options.node_image.clone();
        let image =
            image.or_else(|| std::env::var(NODE_IMAGE_ENV).ok().filter(|text| !text.is_empty()));
        let from = image.as_deref().unwrap_or("kind's own node image");
        on_progress(&format!("creating kind cluster {} from {from}", self.name));
        let (config, kubeconfig) =
            (config.display().to_string(), self.kubeconfig.display().to_string());
        let mut args = vec!["create", "cluster", "--name", &self.name, "--config", &config];
        args.extend(["--kubeconfig", &kubeconfig, "--wait", "120s"]);
        if let Some(image) = &image {
            args.extend(["--image", image]);
        }
        block_on(interrupt.run_unless_interrupted(run_kind_interruptibly(
            &self.run,
            &self.folder,
            &args,
        )))?;
        if self.is_kept {
            self.run.release(&resource)?;
            self.run.release(&Resource::Network { name: DOCKER_NETWORK.to_owned() })?;
        }
        Ok(())
    }

    async fn kube_config(&self) -> anyhow::Result<kube::Config> {
        let path = self.kubeconfig.display();
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)
            .with_context(|| format!("cannot read kubeconfig {path}"))?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        config.with_context(|| format!("kubeconfig {path} names no usable cluster"))
    }

    fn run_kind_command(&self, args: &[&str]) -> anyhow::Result<String> {
        block_on(run_kind_interruptibly(&self.run, &self.folder, args))
    }

    /// Loads an image from the local docker into the nodes of the kind cluster.
    pub(super) fn load_image(&self, image: &str) -> anyhow::Result<()> {
        self.run_kind_command(&["load", "docker-image", image, "--name", &self.name]).map(drop)
    }

    /// Writes the logs of the nodes and of their pods into a folder.
    pub(super) fn export_logs(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.display().to_string();
        match self.run_kind_command(&["export", "logs", &path, "--name", &self.name]) {
            // In a node image without crictl one of many log files is missing, and kind reports a
            // failure.
            Err(_) if folder.join(format!("{}-control-plane", self.name)).is_dir() => Ok(()),
            exported => exported.map(drop),
        }
    }

    /// The path of an administrator's kubeconfig.
    pub(super) fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }
}

/// Runs `kind` as a child process that `schedlab clean` recognizes and can terminate. `TMPDIR` is a
/// folder of the run, where kind stores images while it loads them.
async fn run_kind_interruptibly(run: &Run, folder: &Path, args: &[&str]) -> anyhow::Result<String> {
    let folder = folder.display().to_string();
    Ok(ExternalTool::Kind.run_async(args, &[run.run_id_env(), ("TMPDIR", &folder)]).await?)
}

/// Keeps DaemonSet pods off simulated nodes. They tolerate every taint, and no kubelet would run
/// them.
pub(super) async fn keep_daemon_sets_off_simulated_nodes(
    config: &kube::Config,
) -> anyhow::Result<()> {
    let api = Api::new(kube::Client::try_from(config.clone()).context("cannot make a client")?);
    let collection = "/apis/apps/v1/namespaces/kube-system/daemonsets";
    let daemons = api.get(collection).await.map_err(to_anyhow_error)?;
    let off = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": labels::RUN, "operator": "DoesNotExist" }] }],
    } } });
    let change = json!({ "spec": { "template": { "spec": { "affinity": off } } } });
    for daemon in daemons["items"].as_array().into_iter().flatten() {
        let name = daemon["metadata"]["name"].as_str().unwrap_or_default();
        api.merge_patch(&format!("{collection}/{name}"), &change).await.map_err(to_anyhow_error)?;
    }
    Ok(())
}
