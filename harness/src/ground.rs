//! A cluster that runs elsewhere and in which scenarios get parts of their own: a control plane
//! that we start, a container, a kind cluster, or one that a kubeconfig names. One a run; scenarios on many threads share it.

mod container;
mod deployment;
mod guests;
mod host;
mod install;
mod installation;
mod kind;
mod kubeconfig;
mod kwok;
mod pools;
mod trial;
mod wait;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use schedlab_control_plane::{Assets, ControlPlane, PROGRAMS};
use schedlab_scheduler::crds;

use crate::api::Api;
use crate::interrupt::Interrupt;
use crate::leftovers::{Run, Swept, Thing, end_guests};
use crate::processes::Kept;
use crate::target::Which;
use crate::veil::{self, Fence, Hub, Names};
use container::Container;
use guests::Guests;
use host::Host;
use kind::Kind;

pub use installation::Chart;
pub(crate) use installation::{Installation, is_local};
pub use kind::KindCluster;
pub use kubeconfig::Access;
pub(crate) use kubeconfig::{LOG_IN, NO_PROXY};
use kwok::Player;
pub use kwok::{Kubelets, Kwok};
pub(crate) use pools::Pool;
use pools::Pools;

/// Actors where controllers of a control plane are ours to choose: it runs those for workloads,
/// namespaces and garbage, and the life of nodes is simulated.
pub const OWN_CLUSTER: &[&str] = &[
    "node",
    "node-life",
    "kubelet",
    "gpu-driver",
    "taint-eviction",
    "pod-gc",
    "jobset-controller",
    "trainjob-controller",
    "pytorchjob-controller",
];

/// Actors on a cluster of somebody else, whose controllers all run.
const OTHERS_CLUSTER: &[&str] = &[
    "node",
    "kubelet",
    "gpu-driver",
    "jobset-controller",
    "trainjob-controller",
    "pytorchjob-controller",
];

/// The container that is a cluster where nobody names another.
pub const OWN_IMAGE: &str = "schedlab/cluster:dev";

/// Its processes live as long as a run and may have more memory for less work.
const ENVIRONMENT: &[(&str, &str)] = &[("GOGC", "200")];

/// A real cluster, for one run.
pub struct Ground {
    config: kube::Config,
    /// Where scenarios share their watches.
    hub: Hub,
    /// What the run makes is noted here.
    run: Run,
    /// Stands in all names that the run makes, and in nothing else.
    name: String,
    scenarios: AtomicUsize,
    shared: BTreeSet<String>,
    fence: Fence,
    actors: Vec<&'static str>,
    player: Player,
    scheduler: Option<String>,
    /// Where that one runs once for each.
    pools: Pools,
    version: String,
    guests: Guests,
    host: Host,
}

/// What distinguishes the kinds of clusters once they are there.
struct Found {
    config: kube::Config,
    version: String,
    fence: Fence,
    actors: &'static [&'static str],
    /// Who plays its nodes where nobody says it; `Auto` where that is to be found out.
    usual: Kubelets,
    /// The scheduler that runs there and is to be tested.
    scheduler: Option<String>,
    host: Host,
}

impl Ground {
    /// Boots a control plane of our own.
    pub fn control_plane(
        assets: Option<&Path>,
        kubelets: Kubelets,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let assets = schedlab_control_plane::find(assets, &PROGRAMS)?;
        if kubelets == Kubelets::Kwok {
            on_runtime(interrupt.unless(kwok::examine()))?;
        }
        let run = Run::begin("run")?;
        let booted = boot(&assets, kubelets, &run, interrupt)
            .and_then(|found| Self::on(found, kubelets, &run, interrupt));
        booted.inspect_err(|_| drop(end(run)))
    }

    /// Uses a cluster that is there.
    pub fn kubeconfig(
        access: &Access,
        kubelets: Kubelets,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let (config, kubeconfig, context) = on_runtime(interrupt.unless(access.connect()))?;
        let version = on_runtime(interrupt.unless(kubeconfig::examine(&config)))?;
        let uid = on_runtime(interrupt.unless(kubeconfig::identity(&config)))?;
        let run = Run::begin("run")?;
        run.note(Thing::Cluster { kubeconfig, context: Some(context), uid })?;
        let found = Found {
            config,
            version,
            fence: Fence::Taint,
            actors: OTHERS_CLUSTER,
            usual: Kubelets::Auto,
            scheduler: access.scheduler.clone(),
            host: Host::Others,
        };
        let found_there = Self::on(found, kubelets, &run, interrupt).and_then(|ground| {
            if let Some(name) = &ground.scheduler {
                let tried = trial::try_scheduler(&ground.config, name, run.id());
                on_runtime(interrupt.unless(tried))?;
            }
            Ok(ground)
        });
        found_there.inspect_err(|_| drop(end(run)))
    }

    /// Starts a container of an image that is a cluster. `tell` hears what takes its time.
    pub fn container(
        (image, scheduler): (&str, &Which),
        kubelets: Kubelets,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        on_runtime(interrupt.unless(container::examine(image, kubelets)))?;
        let run = Run::begin("run")?;
        let booted = in_container((image, scheduler), &run, interrupt, tell)
            .and_then(|found| Self::on(found, kubelets, &run, interrupt));
        booted.inspect_err(|_| drop(end(run)))
    }

    /// Makes a kind cluster, or uses one that was kept, and installs our scheduler if it shall be
    /// a Deployment there, for so many scenarios at a time. `tell` hears what takes its time.
    pub fn kind(
        (wanted, scheduler, jobs): (&KindCluster, &Which, usize),
        kubelets: Kubelets,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        on_runtime(interrupt.unless(kind::examine(scheduler)))?;
        let run = Run::begin("run")?;
        let booted = on_kind(wanted, &run, interrupt, tell)
            .map(|found| Found { scheduler: scheduler.installed(), ..found })
            .and_then(|found| Self::on(found, kubelets, &run, interrupt))
            .and_then(|ground| match scheduler {
                Which::Deployment(image) => ground.deploy((image, jobs), interrupt, tell),
                Which::Ours | Which::Process(_) | Which::Installed(_) => Ok(ground),
            });
        booted.inspect_err(|_| drop(end(run)))
    }

    fn deploy(
        mut self,
        (image, jobs): (&str, usize),
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        self.pools = Pools::for_scenarios(jobs);
        let pools = self.pools.names();
        let many = if pools.is_empty() {
            String::new()
        } else {
            format!(", for {} node pools", pools.len())
        };
        tell(&format!("installing the scheduler from {image}{many}"));
        if let Host::Kind(kind) = &self.host {
            kind.load(image)?;
        }
        let installed = deployment::install(&self.config, (image, pools), self.run.id());
        on_runtime(interrupt.unless(installed))?;
        self.scheduler = Some(deployment::SCHEDULER.to_owned());
        Ok(self)
    }

    /// Brings what the scheduler needs.
    fn on(
        mut found: Found,
        kubelets: Kubelets,
        run: &Run,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let strange = if found.scheduler.is_some() || found.host.is_ours() {
            install::Strange::Use
        } else {
            install::Strange::Refuse
        };
        let kubelets = kubelets.unless_said(found.usual);
        let player = on_runtime(interrupt.unless(async {
            install::install(&found.config, strange, run.id()).await?;
            if found.host.is_ours() {
                return Ok(Player::Emulator);
            }
            let mut alive = || found.host.alive();
            kwok::find(&found.config, kubelets, run.id(), &mut alive).await
        }))?;
        let classes = crds::priority_classes();
        let name =
            |class: &schedlab_json::Value| class["metadata"]["name"].as_str().map(str::to_owned);
        let run_name = run.name();
        Ok(Self {
            hub: Hub::start(found.config.clone(), &run_name)?,
            config: found.config,
            run: run.clone(),
            name: run_name,
            scenarios: AtomicUsize::new(0),
            shared: classes.iter().filter_map(name).collect(),
            fence: found.fence,
            actors: player.leaves(found.actors),
            player,
            scheduler: found.scheduler,
            pools: Pools::default(),
            version: found.version,
            guests: Guests::default(),
            host: found.host,
        })
    }

    /// What it is, for people: `Kubernetes v1.35.4 at https://…`, and who plays its nodes unless
    /// schedlab does.
    pub fn title(&self) -> String {
        let whose = match self.player {
            Player::Schedlab => "",
            Player::Kwok(_) => ", kwok plays its nodes",
            Player::Emulator => ", its emulator plays its nodes",
        };
        format!("Kubernetes {} at {}{whose}", self.version, self.config.cluster_url)
    }

    /// The folder of a control plane of ours, where its scheduler may be, too.
    pub(crate) fn programs(&self) -> Option<&Path> {
        match &self.host {
            Host::Processes(plane) => Some(plane.assets().folder()),
            Host::Kind(_) | Host::Container(_) | Host::Others => None,
        }
    }

    /// The name of a folder for one scheduler's files, and where it and its process are noted.
    pub(crate) fn folder(&self) -> (String, Run) {
        let number = self.scenarios.fetch_add(1, Ordering::Relaxed);
        (format!("scheduler-{number}"), self.run.clone())
    }

    /// A client of the whole cluster, on the current runtime.
    pub(crate) fn client(&self) -> anyhow::Result<kube::Client> {
        kube::Client::try_from(self.config.clone()).context("cannot make a client")
    }

    /// A kubeconfig of an administrator, for other processes: of a control plane of ours.
    pub(crate) fn kubeconfig_text(&self) -> Option<&str> {
        match &self.host {
            Host::Processes(plane) => Some(plane.kubeconfig()),
            Host::Kind(_) | Host::Container(_) | Host::Others => None,
        }
    }

    /// Where a scheduler can be installed: on kind.
    pub(crate) fn installation(&self) -> Option<Installation> {
        let Host::Kind(kind) = &self.host else { return None };
        let (config, run) = (self.config.clone(), self.run.clone());
        Some(Installation { config, kubeconfig: kind.kubeconfig().to_owned(), run })
    }

    /// Gives the nodes of a kind cluster an image of the local docker.
    pub(crate) fn load(&self, image: &str) -> anyhow::Result<()> {
        let Host::Kind(kind) = &self.host else { return Ok(()) };
        kind.load(image)
    }

    /// The watches that scenarios share.
    pub(crate) fn hub(&self) -> Hub {
        self.hub.clone()
    }

    /// The part of the cluster's scheduler that one more scenario has, if that runs in parts.
    pub(crate) fn pool(&self) -> anyhow::Result<Option<Pool>> {
        self.pools.take()
    }

    /// Names for one more scenario.
    pub(crate) fn names(&self, pool: Option<&Pool>) -> Names {
        let number = self.scenarios.fetch_add(1, Ordering::Relaxed);
        Names {
            prefix: veil::prefix(&self.name, number),
            run: self.run.id().to_owned(),
            shared: self.shared.clone(),
            fence: self.fence,
            kwok: self.kwok().is_some(),
            scheduler: self.scheduler.clone(),
            pool: pool.map(|pool| pool.name().to_owned()),
        }
    }

    /// The actors that play the fleet.
    pub(crate) fn actors(&self) -> &[&'static str] {
        &self.actors
    }

    /// Whether somebody else's Secrets are there, too, which are none of our business.
    pub(crate) const fn has_secrets_of_others(&self) -> bool {
        matches!(self.host, Host::Others)
    }

    /// What kwok does to pods there, if it plays the fleet.
    pub(crate) fn kwok(&self) -> Option<Kwok> {
        self.player.kwok()
    }

    /// Whether all scenarios share a cluster-scoped object of that name.
    pub(crate) fn is_shared(&self, name: &str) -> bool {
        self.shared.contains(name) || name.starts_with("system-")
    }

    /// Ends the run: a control plane of ours goes, another cluster is left as it was found.
    /// Answers what is left of us there.
    pub fn close(self) -> Vec<String> {
        let mut left = Vec::new();
        match self.host {
            Host::Others => {
                let ours = |node: &str| node.starts_with(&self.name);
                let ended = on_runtime(async { end_guests(&api(&self.config)?, &ours).await });
                left.extend(ended.err().map(|error| format!("daemons on its nodes: {error:#}")));
            }
            Host::Processes(plane) => drop(plane),
            Host::Kind(_) | Host::Container(_) => {}
        }
        left.extend(end(self.run));
        left
    }

    /// Writes what the cluster's own parts said into a folder; `false` where they are not ours
    /// to ask.
    pub fn export_logs(&self, folder: &Path) -> anyhow::Result<bool> {
        match &self.host {
            Host::Kind(kind) => kind.export_logs(folder).map(|()| true),
            Host::Container(container) => on_runtime(container.export_logs(folder)).map(|()| true),
            Host::Processes(..) | Host::Others => Ok(false),
        }
    }
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("name", &self.name).finish_non_exhaustive()
    }
}

fn boot(
    assets: &Assets,
    kubelets: Kubelets,
    run: &Run,
    interrupt: &Interrupt,
) -> anyhow::Result<Found> {
    let keep = |program: &Path, arguments: &[String], log: &Path| {
        Kept::start(program, arguments, ENVIRONMENT, log, run)
    };
    let folder = run.temp_folder("control-plane")?;
    let mut plane = ControlPlane::start(assets, &folder, &[], keep)?;
    let version = on_runtime(interrupt.unless(plane.ready()))?;
    plane.manage(keep)?;
    if kubelets == Kubelets::Kwok {
        plane.keep(kwok::PROGRAM, kwok::start(&folder, run)?);
    }
    Ok(Found {
        config: on_runtime(schedlab_control_plane::config(plane.kubeconfig()))?,
        version,
        fence: Fence::None,
        actors: OWN_CLUSTER,
        usual: Kubelets::Schedlab,
        scheduler: None,
        host: Host::Processes(Box::new(plane)),
    })
}

fn in_container(
    (image, scheduler): (&str, &Which),
    run: &Run,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(&str),
) -> anyhow::Result<Found> {
    let start = Container::start((image, scheduler), run, interrupt, tell);
    let container = on_runtime(start)?;
    let (config, version) = on_runtime(interrupt.unless(container.ready()))?;
    Ok(Found {
        config,
        version,
        fence: if container.has_nodes() { Fence::Taint } else { Fence::None },
        actors: OTHERS_CLUSTER,
        // In kwok's own image nobody else could.
        usual: if container.is_kwoks() { Kubelets::Kwok } else { Kubelets::Schedlab },
        scheduler: scheduler.installed(),
        host: Host::Container(Box::new(container)),
    })
}

fn on_kind(
    wanted: &KindCluster,
    run: &Run,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(&str),
) -> anyhow::Result<Found> {
    let kind = Kind::start(wanted, run, interrupt, tell)?;
    let (config, version) = on_runtime(interrupt.unless(async {
        let (config, version) = kind.ready().await?;
        kind::keep_daemons_away(&config).await?;
        anyhow::Ok((config, version))
    }))?;
    Ok(Found {
        config,
        version,
        fence: Fence::Taint,
        actors: OTHERS_CLUSTER,
        usual: Kubelets::Schedlab,
        scheduler: None,
        host: Host::Kind(kind),
    })
}

/// Takes away what is left of a run. Answers what stays: it is in the run's record, too.
fn end(run: Run) -> Vec<String> {
    let ended = on_runtime(async { Ok(run.end().await) });
    let told = |one: &Swept| one.end.why_not().map(|why| format!("{}: {why}", one.thing));
    match ended {
        Ok(swept) => swept.iter().filter_map(told).collect(),
        Err(error) => vec![format!("{error:#}")],
    }
}

fn on_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(work)
}

/// The API as an administrator.
fn api(config: &kube::Config) -> anyhow::Result<Api> {
    Ok(Api::new(kube::Client::try_from(config.clone()).context("cannot make a client")?))
}
