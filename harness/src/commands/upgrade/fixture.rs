//! A new cluster with the lab's fleet and no scheduler, for an upgrade.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::Server;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::controllers::remote_controllers::RemoteControllers;
use schedlab_emulator::{Emulator, Fleet, Options};

use crate::cli::{Upgrade, UpgradeCluster};
use crate::commands::UsageError;
use crate::commands::up::write_private_file;
use schedlab_apps::upgrade::SchedulerSpec;
use schedlab_clusters::api::Api;
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::external_tools;
use schedlab_clusters::interrupt::Interrupt;
use schedlab_clusters::real_cluster::{
    KindOptions, Kubelets, RealCluster, SchedulerInstaller, check_local_image,
};
use schedlab_clusters::scheduler_objects::install_scheduler_objects;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::report::progress::Progress;
use schedlab_conformance::world::scenario_cluster::{Cluster as _, TenantCluster, run_actors};

/// The part of an upgrade's cluster that starts outside of the async runtime.
#[derive(Debug)]
pub(super) enum UpgradeFixture {
    /// The emulator, which starts later, inside the runtime.
    Emulator,
    /// A control plane on this machine.
    ControlPlane(Box<RealCluster>),
    /// A kind cluster. Pods on its own nodes are isolated from the upgrade's workload.
    Kind(Arc<RealCluster>),
}

/// A cluster on which schedulers can be started: it has CRDs, queues and nodes.
pub(super) struct PreparedCluster {
    pub(super) api: Api,
    pub(super) kubeconfig: PathBuf,
    /// What keeps the cluster running until it is dropped.
    backend: ClusterBackend,
}

enum ClusterBackend {
    /// The emulator and its server, which run until they are dropped.
    Emulator(Box<Emulator>, Server),
    Actors(RemoteControllers),
    Real(Box<TenantCluster>),
}

impl UpgradeFixture {
    /// Starts the cluster. Must be called outside of any async runtime.
    pub(super) fn new(
        args: &Upgrade,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> anyhow::Result<Self> {
        let cluster = upgrade_cluster_kind(args)?;
        for (option, version) in [("--from", &args.from), ("--to", &args.to)] {
            if let SchedulerSpec::Process(command) = version {
                external_tools::check_program_exists(command, None)
                    .map_err(|lacking| anyhow::anyhow!("{option} {version}: {lacking}"))?;
            }
        }
        match cluster {
            UpgradeCluster::Emulator => Ok(Self::Emulator),
            UpgradeCluster::Kind => start_kind_fixture(args, interrupt, progress),
            UpgradeCluster::ControlPlane => {
                let step = progress.begin_step("a control plane boots", Duration::from_secs(5));
                let real_cluster = RealCluster::start_own_control_plane(
                    args.assets.as_deref(),
                    "",
                    Kubelets::Schedlab,
                    interrupt,
                )?;
                progress.finish_step(step);
                Ok(Self::ControlPlane(Box::new(real_cluster)))
            }
        }
    }

    /// Creates the objects that must exist before a scheduler starts.
    pub(super) async fn prepare_cluster(
        &self,
        run: &Run,
        fleet: &Fleet,
    ) -> anyhow::Result<PreparedCluster> {
        let kubeconfig = run.temp_folder("upgrade")?.join("kubeconfig");
        match self {
            Self::Emulator => {
                let emulator = Emulator::start(Options::with_clock(Clock::real()));
                emulator.add_fleet(fleet)?;
                let api = Api::new(emulator.client());
                install_scheduler_objects(&api).await?;
                let server = emulator.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
                write_private_file(&kubeconfig, &server.kubeconfig)?;
                Ok(PreparedCluster {
                    api,
                    kubeconfig,
                    backend: ClusterBackend::Emulator(Box::new(emulator), server),
                })
            }
            Self::ControlPlane(real_cluster) => {
                let text = real_cluster.admin_kubeconfig().context(
                    "our control plane has a \
                    kubeconfig",
                )?;
                write_private_file(&kubeconfig, text)?;
                let client = real_cluster.cluster_client()?;
                let clock = Clock::real();
                let actors =
                    run_actors(real_cluster, client.clone(), clock, Box::new(drop)).await?;
                let mut api = Api::new(client);
                for node in fleet.nodes() {
                    api.create(node).await?;
                }
                Ok(PreparedCluster { api, kubeconfig, backend: ClusterBackend::Actors(actors) })
            }
            Self::Kind(real_cluster) => {
                let real = TenantCluster::start(real_cluster).await?;
                let mut api = Api::new(real.cluster_client());
                for node in fleet.nodes() {
                    api.create(node).await?;
                }
                Ok(PreparedCluster {
                    api,
                    kubeconfig,
                    backend: ClusterBackend::Real(Box::new(real)),
                })
            }
        }
    }

    /// The installer of schedulers on the cluster; `None` if versions run as processes.
    pub(super) fn scheduler_installer(&self) -> Option<SchedulerInstaller> {
        match self {
            Self::Kind(real_cluster) => real_cluster.installer(),
            Self::Emulator | Self::ControlPlane(_) => None,
        }
    }

    /// Removes the cluster. Returns a line for each resource that could not be removed.
    pub(super) fn close_and_list_failures(self) -> Vec<String> {
        match self {
            Self::Emulator => Vec::new(),
            Self::ControlPlane(real_cluster) => real_cluster.close(),
            Self::Kind(real_cluster) => match Arc::try_unwrap(real_cluster) {
                Ok(real_cluster) => real_cluster.close(),
                Err(_) => vec!["the kind cluster is still in use".to_owned()],
            },
        }
    }
}

/// The kind of cluster on which these versions can run.
fn upgrade_cluster_kind(args: &Upgrade) -> Result<UpgradeCluster, UsageError> {
    let (from, to) = (&args.from, &args.to);
    let refuse = |message: String| Err(UsageError(message));
    if from.kind() != to.kind() {
        let (old, new) = (from.kind(), to.kind());
        return refuse(format!(
            "got --from `{old}:` and --to `{new}:`, expected the same kind for both"
        ));
    }
    let cluster = match (args.cluster, from.is_installed()) {
        (None | Some(UpgradeCluster::Kind), true) => UpgradeCluster::Kind,
        (None, false) => UpgradeCluster::Emulator,
        (Some(UpgradeCluster::Kind), false) => {
            return refuse(format!("got {from} on --cluster kind, expected image: or chart:"));
        }
        (Some(_), true) => {
            return refuse(format!("{from} runs in containers, expected --cluster kind"));
        }
        (Some(other), false) => other,
    };
    if args.assets.is_some() && cluster != UpgradeCluster::ControlPlane {
        return refuse("--assets: applies to --cluster control-plane only".to_owned());
    }
    if args.node_image.is_some() && cluster != UpgradeCluster::Kind {
        return refuse("--node-image: applies to --cluster kind only".to_owned());
    }
    Ok(cluster)
}

/// Starts a kind cluster and loads the images of both versions. Fails before that if an image is
/// missing.
fn start_kind_fixture(
    args: &Upgrade,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> anyhow::Result<UpgradeFixture> {
    let mut images = BTreeSet::new();
    for version in [&args.from, &args.to] {
        match version {
            SchedulerSpec::Image(image) => {
                check_local_image(image)?;
                images.insert(image.clone());
            }
            // Nodes may pull images that are not local.
            SchedulerSpec::Chart(chart) => {
                let here = |image: &String| check_local_image(image).is_ok();
                images.extend(chart.chart_images()?.into_iter().filter(here));
            }
            SchedulerSpec::Process(_) => {}
        }
    }
    let options = KindOptions { node_image: args.node_image.clone(), ..KindOptions::default() };
    let step = progress.begin_step("a kind cluster boots", Duration::from_secs(30));
    let which = SchedulerSource::Installed(args.scheduler_name.clone());
    let real_cluster = RealCluster::start_or_reuse_kind(
        &options,
        &which,
        1,
        Kubelets::Schedlab,
        interrupt,
        &mut |_| {},
    )?;
    for image in images {
        if let Err(error) = real_cluster.load_image(&image) {
            real_cluster.close();
            return Err(error);
        }
    }
    progress.finish_step(step);
    Ok(UpgradeFixture::Kind(Arc::new(real_cluster)))
}

impl PreparedCluster {
    pub(super) async fn shut_down(self) {
        match self.backend {
            ClusterBackend::Emulator(emulator, server) => {
                server.shut_down().await;
                drop(emulator);
            }
            ClusterBackend::Actors(actors) => drop(actors),
            ClusterBackend::Real(real) => drop(real),
        }
    }
}
