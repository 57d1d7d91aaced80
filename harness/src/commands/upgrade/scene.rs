//! A new cluster with the lab's fleet, on which nothing schedules yet.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::remote::Troupe;
use schedlab_emulator::serve::Server;
use schedlab_emulator::{Emulator, Options};

use crate::api::Api;
use crate::cli::{Upgrade, UpgradeCluster};
use crate::cluster::{install, play};
use crate::commands::up::{fleet, write_private};
use crate::ground::Ground;
use crate::interrupt::Interrupt;
use crate::leftovers::Run;
use crate::progress::Progress;

/// What takes its time to boot.
#[derive(Debug)]
pub(super) enum Scene {
    /// Nothing.
    Emulator,
    /// A control plane.
    ControlPlane(Box<Ground>),
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
}

impl Scene {
    /// Boots it, outside of any runtime.
    pub(super) fn new(
        args: &Upgrade,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> anyhow::Result<Self> {
        match args.cluster {
            UpgradeCluster::Emulator => Ok(Self::Emulator),
            UpgradeCluster::ControlPlane => {
                let step = progress.begin("a control plane boots", Duration::from_secs(5));
                let ground = Ground::control_plane(args.assets.as_deref(), interrupt)?;
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
        }
    }

    /// Takes it away. Answers what could not be.
    pub(super) fn close(self) -> Vec<String> {
        match self {
            Self::Emulator => Vec::new(),
            Self::ControlPlane(ground) => ground.close(),
        }
    }
}

impl Set {
    pub(super) async fn close(self) {
        match self.motor {
            Motor::Emulator(emulator, server) => {
                server.shut_down().await;
                drop(emulator);
            }
            Motor::Actors(actors) => drop(actors),
        }
    }
}
