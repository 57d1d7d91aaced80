//! A new cluster with the lab's fleet, on which nothing schedules yet.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::remote::Troupe;
use schedlab_emulator::serve::Server;
use schedlab_emulator::{Emulator, Options};

use crate::api::Api;
use crate::cli::{Upgrade, UpgradeCluster};
use crate::cluster::{Cluster as _, Real, install, play};
use crate::commands::UsageError;
use crate::commands::up::{fleet, write_private};
use crate::ground::{Ground, Installation, KindCluster, Kubelets, is_local};
use crate::interrupt::Interrupt;
use crate::leftovers::Run;
use crate::progress::Progress;
use crate::target::Which;
use crate::tools;
use crate::upgrade::Spec;

/// What takes its time to boot.
#[derive(Debug)]
pub(super) enum Scene {
    /// Nothing.
    Emulator,
    /// A control plane.
    ControlPlane(Box<Ground>),
    /// A kind cluster. What is on it besides the scheduler's own is kept apart from the work.
    Kind(Arc<Ground>),
}

/// The cluster, ready for schedulers.
pub(super) struct Set {
    pub(super) api: Api,
    pub(super) kubeconfig: PathBuf,
    /// What keeps it going.
    motor: Motor,
}

enum Motor {
    /// The emulator acts for as long as somebody holds it.
    Emulator(Box<Emulator>, Server),
    Actors(Troupe),
    Real(Box<Real>),
}

impl Scene {
    /// Boots it, outside of any runtime.
    pub(super) fn new(
        args: &Upgrade,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> anyhow::Result<Self> {
        let place = place(args)?;
        for (option, version) in [("--from", &args.from), ("--to", &args.to)] {
            if let Spec::Process(command) = version {
                tools::has_program(command, None)
                    .map_err(|lacking| anyhow::anyhow!("{option} {version}: {lacking}"))?;
            }
        }
        match place {
            UpgradeCluster::Emulator => Ok(Self::Emulator),
            UpgradeCluster::Kind => kind(args, interrupt, progress),
            UpgradeCluster::ControlPlane => {
                let step = progress.begin("a control plane boots", Duration::from_secs(5));
                let ground =
                    Ground::control_plane(args.assets.as_deref(), Kubelets::Schedlab, interrupt)?;
                progress.done(step);
                Ok(Self::ControlPlane(Box::new(ground)))
            }
        }
    }

    /// Adds what there must be before a scheduler starts.
    pub(super) async fn set(&self, run: &Run) -> anyhow::Result<Set> {
        let kubeconfig = run.temp_folder("upgrade")?.join("kubeconfig");
        match self {
            Self::Emulator => {
                let emulator = Emulator::start(Options::at(Clock::real()));
                emulator.add_fleet(&fleet(None)?)?;
                let api = Api::new(emulator.client());
                install(&api).await?;
                let server = emulator.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
                write_private(&kubeconfig, &server.kubeconfig)?;
                Ok(Set { api, kubeconfig, motor: Motor::Emulator(Box::new(emulator), server) })
            }
            Self::ControlPlane(ground) => {
                let text = ground.kubeconfig_text().context("a control plane of ours has one")?;
                write_private(&kubeconfig, text)?;
                let client = ground.client()?;
                let clock = Clock::real();
                let actors = play(ground, (client.clone(), clock), Box::new(drop)).await?;
                let mut api = Api::new(client);
                for node in fleet(None)?.nodes() {
                    api.create(node).await?;
                }
                Ok(Set { api, kubeconfig, motor: Motor::Actors(actors) })
            }
            Self::Kind(ground) => {
                let real = Real::start(ground).await?;
                let mut api = Api::new(real.client());
                for node in fleet(None)?.nodes() {
                    api.create(node).await?;
                }
                Ok(Set { api, kubeconfig, motor: Motor::Real(Box::new(real)) })
            }
        }
    }

    /// Where schedulers are installed.
    pub(super) fn installation(&self) -> Option<Installation> {
        match self {
            Self::Kind(ground) => ground.installation(),
            Self::Emulator | Self::ControlPlane(_) => None,
        }
    }

    /// Takes it away. Answers what could not be.
    pub(super) fn close(self) -> Vec<String> {
        match self {
            Self::Emulator => Vec::new(),
            Self::ControlPlane(ground) => ground.close(),
            Self::Kind(ground) => match Arc::try_unwrap(ground) {
                Ok(ground) => ground.close(),
                Err(_) => vec!["the kind cluster is still in use".to_owned()],
            },
        }
    }
}

/// On which cluster versions of this sort are.
fn place(args: &Upgrade) -> Result<UpgradeCluster, UsageError> {
    let (from, to) = (&args.from, &args.to);
    let refuse = |message: String| Err(UsageError(message));
    if from.kind() != to.kind() {
        let (old, new) = (from.kind(), to.kind());
        return refuse(format!(
            "--from is `{old}:` and --to a `{new}:`; allowed is one sort for both"
        ));
    }
    let place = match (args.cluster, from.is_installed()) {
        (None | Some(UpgradeCluster::Kind), true) => UpgradeCluster::Kind,
        (None, false) => UpgradeCluster::Emulator,
        (Some(UpgradeCluster::Kind), false) => {
            return refuse(format!(
                "{from} does not run on kind: allowed there are image: and chart:"
            ));
        }
        (Some(_), true) => {
            return refuse(format!("{from} runs containers: allowed for it is --cluster kind"));
        }
        (Some(other), false) => other,
    };
    if args.assets.is_some() && place != UpgradeCluster::ControlPlane {
        return refuse("--assets: it is for --cluster control-plane alone".to_owned());
    }
    if args.node_image.is_some() && place != UpgradeCluster::Kind {
        return refuse("--node-image: it is for --cluster kind alone".to_owned());
    }
    Ok(place)
}

/// Boots kind with the images of both versions. What cannot be had is told before.
fn kind(args: &Upgrade, interrupt: &Interrupt, progress: &mut Progress) -> anyhow::Result<Scene> {
    let mut images = BTreeSet::new();
    for version in [&args.from, &args.to] {
        match version {
            Spec::Image(image) => {
                is_local(image)?;
                images.insert(image.clone());
            }
            // Images that are not here the nodes may get from a registry.
            Spec::Chart(chart) => {
                let here = |image: &String| is_local(image).is_ok();
                images.extend(chart.images()?.into_iter().filter(here));
            }
            Spec::Process(_) => {}
        }
    }
    let wanted = KindCluster { node_image: args.node_image.clone(), ..KindCluster::default() };
    let step = progress.begin("a kind cluster boots", Duration::from_secs(30));
    let which = Which::Installed(args.scheduler_name.clone());
    let ground = Ground::kind((&wanted, &which, 1), Kubelets::Schedlab, interrupt, &mut |_| {})?;
    for image in images {
        if let Err(error) = ground.load(&image) {
            ground.close();
            return Err(error);
        }
    }
    progress.done(step);
    Ok(Scene::Kind(Arc::new(ground)))
}

impl Set {
    pub(super) async fn close(self) {
        match self.motor {
            Motor::Emulator(emulator, server) => {
                server.shut_down().await;
                drop(emulator);
            }
            Motor::Actors(actors) => drop(actors),
            Motor::Real(real) => drop(real),
        }
    }
}
