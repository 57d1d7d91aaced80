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
use schedlab_emulator::{Emulator, Options};

use crate::cli::{Upgrade, UpgradeCluster};
use crate::commands::UsageError;
use crate::commands::up::{fleet, write_private};
use schedlab_apps::upgrade::Spec;
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

/// The part of the cluster that starts outside of the async runtime.
#[derive(Debug)]
pub(super) enum Fixture {
    /// The emulator, which starts later.
    Emulator,
    /// A control plane.
    ControlPlane(Box<RealCluster>),
    /// A kind cluster. Pods on its own nodes are isolated from the workload.
    Kind(Arc<RealCluster>),
}

/// The cluster, ready for schedulers.
pub(super) struct PreparedCluster {
    pub(super) api: Api,
    pub(super) kubeconfig: PathBuf,
    /// Keeps the cluster running.
    backend: Backend,
}

enum Backend {
    /// The emulator runs until it is dropped.
    Emulator(Box<Emulator>, Server),
    Actors(RemoteControllers),
    Real(Box<TenantCluster>),
}

impl Fixture {
    /// Starts the cluster, outside of any async runtime.
    pub(super) fn new(
        args: &Upgrade,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> anyhow::Result<Self> {
        let cluster = cluster_kind(args)?;
        for (option, version) in [("--from", &args.from), ("--to", &args.to)] {
            if let Spec::Process(command) = version {
                external_tools::check_program_exists(command, None)
                    .map_err(|lacking| anyhow::anyhow!("{option} {version}: {lacking}"))?;
            }
        }
        match cluster {
            UpgradeCluster::Emulator => Ok(Self::Emulator),
            UpgradeCluster::Kind => kind(args, interrupt, progress),
            UpgradeCluster::ControlPlane => {
                let step = progress.begin("a control plane boots", Duration::from_secs(5));
                let real_cluster = RealCluster::control_plane(
                    args.assets.as_deref(),
                    "",
                    Kubelets::Schedlab,
                    interrupt,
                )?;
                progress.done(step);
                Ok(Self::ControlPlane(Box::new(real_cluster)))
            }
        }
    }

    /// Creates what must exist before a scheduler starts.
    pub(super) async fn prepare(&self, run: &Run) -> anyhow::Result<PreparedCluster> {
        let kubeconfig = run.temp_folder("upgrade")?.join("kubeconfig");
        match self {
            Self::Emulator => {
                let emulator = Emulator::start(Options::with_clock(Clock::real()));
                emulator.add_fleet(&fleet(None)?)?;
                let api = Api::new(emulator.client());
                install_scheduler_objects(&api).await?;
                let server = emulator.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
                write_private(&kubeconfig, &server.kubeconfig)?;
                Ok(PreparedCluster {
                    api,
                    kubeconfig,
                    backend: Backend::Emulator(Box::new(emulator), server),
                })
            }
            Self::ControlPlane(real_cluster) => {
                let text = real_cluster.admin_kubeconfig().context(
                    "our control plane has a \
                    kubeconfig",
                )?;
                write_private(&kubeconfig, text)?;
                let client = real_cluster.client()?;
                let clock = Clock::real();
                let actors =
                    run_actors(real_cluster, client.clone(), clock, Box::new(drop)).await?;
                let mut api = Api::new(client);
                for node in fleet(None)?.nodes() {
                    api.create(node).await?;
                }
                Ok(PreparedCluster { api, kubeconfig, backend: Backend::Actors(actors) })
            }
            Self::Kind(real_cluster) => {
                let real = TenantCluster::start(real_cluster).await?;
                let mut api = Api::new(real.client());
                for node in fleet(None)?.nodes() {
                    api.create(node).await?;
                }
                Ok(PreparedCluster { api, kubeconfig, backend: Backend::Real(Box::new(real)) })
            }
        }
    }

    /// Where schedulers are installed; `None` for processes.
    pub(super) fn installation(&self) -> Option<SchedulerInstaller> {
        match self {
            Self::Kind(real_cluster) => real_cluster.installer(),
            Self::Emulator | Self::ControlPlane(_) => None,
        }
    }

    /// Removes the cluster. Returns what could not be removed.
    pub(super) fn close(self) -> Vec<String> {
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

/// The cluster kind for these versions.
fn cluster_kind(args: &Upgrade) -> Result<UpgradeCluster, UsageError> {
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

/// Starts kind with the images of both versions. Reports missing images before.
fn kind(args: &Upgrade, interrupt: &Interrupt, progress: &mut Progress) -> anyhow::Result<Fixture> {
    let mut images = BTreeSet::new();
    for version in [&args.from, &args.to] {
        match version {
            Spec::Image(image) => {
                check_local_image(image)?;
                images.insert(image.clone());
            }
            // Nodes may pull images that are not local.
            Spec::Chart(chart) => {
                let here = |image: &String| check_local_image(image).is_ok();
                images.extend(chart.images()?.into_iter().filter(here));
            }
            Spec::Process(_) => {}
        }
    }
    let options = KindOptions { node_image: args.node_image.clone(), ..KindOptions::default() };
    let step = progress.begin("a kind cluster boots", Duration::from_secs(30));
    let which = SchedulerSource::Installed(args.scheduler_name.clone());
    let real_cluster =
        RealCluster::kind(&options, &which, 1, Kubelets::Schedlab, interrupt, &mut |_| {})?;
    for image in images {
        if let Err(error) = real_cluster.load_image(&image) {
            real_cluster.close();
            return Err(error);
        }
    }
    progress.done(step);
    Ok(Fixture::Kind(Arc::new(real_cluster)))
}

impl PreparedCluster {
    pub(super) async fn close(self) {
        match self.backend {
            Backend::Emulator(emulator, server) => {
                server.shut_down().await;
                drop(emulator);
            }
            Backend::Actors(actors) => drop(actors),
            Backend::Real(real) => drop(real),
        }
    }
}
