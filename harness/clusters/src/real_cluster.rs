//! Real clusters that scenarios run on: a control plane that this process starts, a container, a
//! kind cluster, or an existing cluster named by a kubeconfig. The emulator is one, too, when a
//! scheduler of its own process needs it in real time.
//!
//! A run uses one [`RealCluster`]; scenarios on several threads share it, each with its own prefix
//! for names (`tenancy`). Not here: what a scenario does on its part of the cluster
//! (`schedlab-conformance`) and the removal of what a run created (`cleanup`).

#[cfg(feature = "container")]
mod container;
#[cfg(not(feature = "container"))]
#[path = "real_cluster/no_container.rs"]
mod container;
mod deployment;
mod emulator;
mod foreign_pods;
mod install;
mod kind;
mod kubeconfig;
mod kwok;
mod node_pools;
mod poll;
mod preflight;
mod prerequisites;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use schedlab_api::crds;
use schedlab_control_plane::{Assets, ControlPlane, FeatureGateArguments, PROGRAMS};
use schedlab_emulator::feature_gates::FeatureGates;

use crate::api::Api;
use crate::block_on::block_on;
use crate::cleanup::{CleanupResult, Resource, Run, delete_foreign_pods};
use crate::interrupt::Interrupt;
use crate::process::ChildProcess;
use crate::scheduler_source::SchedulerSource;
use container::Container;
use emulator::{ACTORS_OF_SHARED_EMULATOR, EmulatorServer};
use foreign_pods::ForeignPods;
use kind::KindCluster;
use schedlab_tenancy::{NodeIsolation, TenantNames, WatchMux};

pub use install::HelmChart;
pub use install::{SchedulerInstaller, check_local_image};
pub use kind::KindOptions;
pub use kubeconfig::KubeconfigAccess;
pub(crate) use kubeconfig::{LOG_IN_HINT, PROXY_HINT};
use kwok::KubeletProvider;
pub use kwok::{Kubelets, KwokBehavior};
pub use node_pools::NodePool;
use node_pools::NodePools;

/// Actors (simulating controllers) for a control plane of our own. That control plane runs the
/// Kubernetes controllers for workloads, namespaces and garbage collection; the actors simulate
/// nodes and the node lifecycle.
pub const ACTORS_OF_OWN_CONTROL_PLANE: &[&str] = &[
    "node",
    "node-life",
    "kubelet",
    "gpu-driver",
    "taint-eviction",
    "pod-gc",
    "jobset-controller",
    "trainjob-controller",
    "pytorchjob-controller",
    "raycluster-controller",
    "rayjob-controller",
    "leaderworkerset-controller",
];

/// Actors (simulating controllers) for an existing cluster, where all Kubernetes controllers
/// already run.
const ACTORS_OF_EXISTING_CLUSTER: &[&str] = &[
    "node",
    "kubelet",
    "gpu-driver",
    "jobset-controller",
    "trainjob-controller",
    "pytorchjob-controller",
    "raycluster-controller",
    "rayjob-controller",
    "leaderworkerset-controller",
];

/// Default image for `--cluster container`.
pub const DEFAULT_CLUSTER_IMAGE: &str = "schedlab/cluster:dev";

/// Environment of the control plane's processes. They live only as long as a run, so a larger heap
/// in exchange for fewer garbage collections is fine.
const CONTROL_PLANE_ENV: &[(&str, &str)] = &[("GOGC", "200")];

/// A real cluster, used by one run.
pub struct RealCluster {
    config: kube::Config,
    /// Watches of whole collections that all scenarios share.
    watch_mux: WatchMux,
    /// The run whose record lists every resource before the resource is created.
    run: Run,
    /// A prefix of every name that the run creates; no other name begins with it.
    run_name: String,
    next_number: AtomicUsize,
    shared_priority_classes: BTreeSet<String>,
    node_isolation: NodeIsolation,
    actors: Vec<&'static str>,
    kubelet_provider: KubeletProvider,
    installed_scheduler: Option<String>,
    /// One node pool per concurrent scenario, if the installed scheduler runs once per pool; else
    /// none.
    node_pools: NodePools,
    version: String,
    foreign_pods: ForeignPods,
    provider: ClusterProvider,
}

/// A cluster that is reachable, before the prerequisites are installed.
struct ClusterConnection {
    config: kube::Config,
    version: String,
    node_isolation: NodeIsolation,
    actors: &'static [&'static str],
    /// The kubelet provider for `--kubelets auto`; `Auto` if the provider has to be detected.
    default_kubelets: Kubelets,
    /// The name of the scheduler under test, if it runs on the cluster.
    installed_scheduler: Option<String>,
    provider: ClusterProvider,
}

/// The provider of a cluster, and thereby whether the cluster ends with the run.
#[derive(Debug)]
enum ClusterProvider {
    /// Processes of a control plane that this run started: the cluster ends with the run.
    ControlPlane(Box<ControlPlane<ChildProcess>>),
    /// A container that this run started: the cluster ends with the run.
    Container(Box<Container>),
    /// A kind cluster, which ends with the run unless it is kept.
    Kind(KindCluster),
    /// The emulator in this process, in real time: the cluster ends with the run.
    Emulator(EmulatorServer),
    /// A cluster that existed before the run and remains.
    Existing,
}

impl RealCluster {
    /// Starts a control plane on this machine, with feature gates such as
    /// `GenericWorkload=true`.
    ///
    /// # Errors
    /// A program is missing, a process does not start, or a stop was requested.
    pub fn start_own_control_plane(
        assets: Option<&Path>,
        feature_gates: &str,
        kubelets: Kubelets,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let assets = schedlab_control_plane::find_assets(assets, &PROGRAMS)?;
        if kubelets == Kubelets::Kwok {
            block_on(interrupt.run_unless_interrupted(kwok::check_prerequisites()))?;
        }
        let run = Run::begin("run")?;
        let booted = start_control_plane(&assets, feature_gates, kubelets, &run, interrupt)
            .and_then(|connection| Self::prepare_connection(connection, kubelets, &run, interrupt));
        booted.inspect_err(|_| drop(end_run(run)))
    }

    /// Starts the emulator in this process, in real time, for schedulers that are programs of their
    /// own. `programs` is a folder that may contain such a scheduler.
    ///
    /// # Errors
    /// The emulator cannot serve its API on the loopback interface, or a stop was requested.
    pub fn start_emulator(
        programs: Option<PathBuf>,
        feature_gates: FeatureGates,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let run = Run::begin("run")?;
        let booted = start_emulator(programs, feature_gates).and_then(|connection| {
            Self::prepare_connection(connection, Kubelets::Auto, &run, interrupt)
        });
        booted.inspect_err(|_| drop(end_run(run)))
    }

    /// Uses the existing cluster of a kubeconfig.
    ///
    /// # Errors
    /// The cluster is not reachable, a right is missing, or its objects conflict with ours.
    pub fn use_kubeconfig(
        access: &KubeconfigAccess,
        kubelets: Kubelets,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let (config, kubeconfig, context) =
            block_on(interrupt.run_unless_interrupted(access.connect()))?;
        let version =
            block_on(interrupt.run_unless_interrupted(kubeconfig::check_access(&config)))?;
        let uid = block_on(interrupt.run_unless_interrupted(kubeconfig::kube_system_uid(&config)))?;
        let run = Run::begin("run")?;
        run.register(Resource::Cluster { kubeconfig, context: Some(context), uid })?;
        let connection = ClusterConnection {
            config,
            version,
            node_isolation: NodeIsolation::Taint,
            actors: ACTORS_OF_EXISTING_CLUSTER,
            default_kubelets: Kubelets::Auto,
            installed_scheduler: access.scheduler.clone(),
            provider: ClusterProvider::Existing,
        };
        let prepared =
            Self::prepare_connection(connection, kubelets, &run, interrupt).and_then(|cluster| {
                if let Some(name) = &cluster.installed_scheduler {
                    let tried = preflight::probe_scheduler(&cluster.config, name, run.id());
                    block_on(interrupt.run_unless_interrupted(tried))?;
                }
                Ok(cluster)
            });
        prepared.inspect_err(|_| drop(end_run(run)))
    }

    /// Starts a container whose image is a cluster. `on_progress` receives one line before each
    /// slow step.
    ///
    /// # Errors
    /// Docker or the image is not usable, the cluster does not become ready, or a stop was
    /// requested.
    pub fn start_from_container_image(
        image: &str,
        scheduler: &SchedulerSource,
        kubelets: Kubelets,
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        block_on(
            interrupt.run_unless_interrupted(container::check_prerequisites(image, kubelets)),
        )?;
        let run = Run::begin("run")?;
        let booted = start_container(image, scheduler, &run, interrupt, on_progress)
            .and_then(|connection| Self::prepare_connection(connection, kubelets, &run, interrupt));
        booted.inspect_err(|_| drop(end_run(run)))
    }

    /// Creates a kind cluster or uses one that was kept. With `--scheduler deployment`, installs
    /// our scheduler there for `jobs` concurrent scenarios. `on_progress` receives one line before
    /// each slow step.
    ///
    /// # Errors
    /// Docker or kind fails, the cluster does not become ready, or a stop was requested.
    pub fn start_or_reuse_kind(
        options: &KindOptions,
        scheduler: &SchedulerSource,
        jobs: usize,
        kubelets: Kubelets,
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        block_on(interrupt.run_unless_interrupted(kind::check_prerequisites(scheduler)))?;
        let run = Run::begin("run")?;
        let booted = start_kind_cluster(options, &run, interrupt, on_progress)
            .map(|connection| ClusterConnection {
                installed_scheduler: scheduler.installed_scheduler_name(),
                ..connection
            })
            .and_then(|connection| Self::prepare_connection(connection, kubelets, &run, interrupt))
            .and_then(|cluster| match scheduler {
                SchedulerSource::Deployment(image) => {
                    cluster.deploy_scheduler(image, jobs, interrupt, on_progress)
                }
                SchedulerSource::Ours
                | SchedulerSource::NoScheduler
                | SchedulerSource::Process(_)
                | SchedulerSource::Installed(_) => Ok(cluster),
            });
        booted.inspect_err(|_| drop(end_run(run)))
    }

    fn deploy_scheduler(
        mut self,
        image: &str,
        jobs: usize,
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        self.node_pools = NodePools::for_scenarios(jobs);
        let pools = self.node_pools.names();
        let pools_note = if pools.is_empty() {
            String::new()
        } else {
            format!(", for {} node pools", pools.len())
        };
        on_progress(&format!("installing the scheduler from {image}{pools_note}"));
        if let ClusterProvider::Kind(kind) = &self.provider {
            kind.load_image(image)?;
        }
        let installed = deployment::install_scheduler(&self.config, image, pools, self.run.id());
        block_on(interrupt.run_unless_interrupted(installed))?;
        self.installed_scheduler = Some(deployment::SCHEDULER_NAME.to_owned());
        Ok(self)
    }

    /// Installs the prerequisites (CRDs and priority classes) and finds out which component
    /// simulates kubelets.
    fn prepare_connection(
        mut connection: ClusterConnection,
        kubelets: Kubelets,
        run: &Run,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let foreign_crds =
            if connection.installed_scheduler.is_some() || connection.provider.is_emulator() {
                prerequisites::ForeignCrds::Accept
            } else {
                prerequisites::ForeignCrds::Reject
            };
        let kubelets = kubelets.or_default(connection.default_kubelets);
        let player = block_on(interrupt.run_unless_interrupted(async {
            prerequisites::install_prerequisites(&connection.config, foreign_crds, run.id())
                .await?;
            if connection.provider.is_emulator() {
                return Ok(KubeletProvider::Emulator);
            }
            let mut check_alive = || connection.provider.check_alive();
            kwok::detect_provider(&connection.config, kubelets, run.id(), &mut check_alive).await
        }))?;
        let classes = crds::priority_classes();
        let name =
            |class: &schedlab_api::Value| class["metadata"]["name"].as_str().map(str::to_owned);
        let run_name = run.name_prefix();
        let actors = match &connection.provider {
            ClusterProvider::Emulator(_) => connection.actors.to_vec(),
            ClusterProvider::ControlPlane(_)
            | ClusterProvider::Container(_)
            | ClusterProvider::Kind(_)
            | ClusterProvider::Existing => player.actors_still_needed(connection.actors),
        };
        Ok(Self {
            watch_mux: WatchMux::start(connection.config.clone(), &run_name)?,
            config: connection.config,
            run: run.clone(),
            run_name,
            next_number: AtomicUsize::new(0),
            shared_priority_classes: classes.iter().filter_map(name).collect(),
            node_isolation: connection.node_isolation,
            actors,
            kubelet_provider: player,
            installed_scheduler: connection.installed_scheduler,
            node_pools: NodePools::default(),
            version: connection.version,
            foreign_pods: ForeignPods::default(),
            provider: connection.provider,
        })
    }

    /// Creates the CRDs and priority classes of a scheduler that schedlab starts.
    ///
    /// # Errors
    /// The cluster rejects an object, or has a priority class with another value.
    pub fn install_target_objects(
        &mut self,
        definitions: &[schedlab_api::Value],
        classes: &[schedlab_api::Value],
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let existing = match &self.provider {
            ClusterProvider::ControlPlane(_) | ClusterProvider::Emulator(_) => {
                prerequisites::ExistingCrds::Replace
            }
            ClusterProvider::Kind(_)
            | ClusterProvider::Container(_)
            | ClusterProvider::Existing => prerequisites::ExistingCrds::Keep,
        };
        let installed = prerequisites::install_target_objects(
            &self.config,
            definitions,
            classes,
            existing,
            self.run.id(),
        );
        block_on(interrupt.run_unless_interrupted(installed))?;
        let names = classes.iter().filter_map(|class| class["metadata"]["name"].as_str());
        self.shared_priority_classes.extend(names.map(str::to_owned));
        Ok(())
    }

    /// A description for people: `Kubernetes v1.35.4 at https://…`, and what simulates the
    /// cluster's nodes unless schedlab does.
    pub fn description(&self) -> String {
        let kubelets_note = match self.kubelet_provider {
            KubeletProvider::Schedlab => "",
            KubeletProvider::Kwok(_) => ", kwok simulates its nodes",
            KubeletProvider::Emulator => ", its emulator simulates its nodes",
        };
        format!("Kubernetes {} at {}{kubelets_note}", self.version, self.config.cluster_url)
    }

    /// The folder with the programs of a control plane; it may also contain a scheduler. `None` for
    /// clusters whose programs are not on this machine.
    pub fn control_plane_program_folder(&self) -> Option<&Path> {
        match &self.provider {
            ClusterProvider::ControlPlane(plane) => Some(plane.assets().folder()),
            ClusterProvider::Emulator(emulator) => emulator.programs(),
            ClusterProvider::Kind(_)
            | ClusterProvider::Container(_)
            | ClusterProvider::Existing => None,
        }
    }

    /// A unique folder name for the files of one scheduler process, and the run that registers the
    /// folder and the process.
    pub fn new_scheduler_folder(&self) -> (String, Run) {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        (format!("scheduler-{number}"), self.run.clone())
    }

    /// A client for the whole cluster, bound to the current runtime.
    ///
    /// # Errors
    /// The connection's configuration is invalid.
    pub fn cluster_client(&self) -> anyhow::Result<kube::Client> {
        if let ClusterProvider::Emulator(emulator) = &self.provider {
            return Ok(emulator.client());
        }
        kube::Client::try_from(self.config.clone()).context("cannot create a client")
    }

    /// An administrator's kubeconfig for other processes. `None` unless the control plane is ours.
    pub fn admin_kubeconfig(&self) -> Option<&str> {
        match &self.provider {
            ClusterProvider::ControlPlane(plane) => Some(plane.kubeconfig()),
            ClusterProvider::Emulator(_)
            | ClusterProvider::Kind(_)
            | ClusterProvider::Container(_)
            | ClusterProvider::Existing => None,
        }
    }

    /// The installer of schedulers; `None` unless this is a kind cluster.
    pub fn installer(&self) -> Option<SchedulerInstaller> {
        let ClusterProvider::Kind(kind) = &self.provider else { return None };
        let (config, run) = (self.config.clone(), self.run.clone());
        Some(SchedulerInstaller { config, kubeconfig: kind.kubeconfig_path().to_owned(), run })
    }

    /// Loads an image from the local docker into the nodes of a kind cluster. Does nothing on other
    /// clusters.
    ///
    /// # Errors
    /// kind cannot load the image.
    pub fn load_image(&self, image: &str) -> anyhow::Result<()> {
        let ClusterProvider::Kind(kind) = &self.provider else { return Ok(()) };
        kind.load_image(image)
    }

    /// The watches of whole collections that all scenarios share.
    pub fn watch_mux(&self) -> WatchMux {
        self.watch_mux.clone()
    }

    /// Takes a node pool for one more scenario. `None` if one scheduler serves all nodes.
    ///
    /// # Errors
    /// All node pools are in use.
    pub fn take_node_pool(&self) -> anyhow::Result<Option<NodePool>> {
        self.node_pools.take_free_pool()
    }

    /// The names of objects for one more scenario, in the node pool `pool`.
    pub fn new_tenant_names(&self, pool: Option<&NodePool>) -> TenantNames {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        TenantNames {
            prefix: schedlab_tenancy::scenario_name_prefix(&self.run_name, number),
            run: self.run.id().to_owned(),
            shared_priority_classes: self.shared_priority_classes.clone(),
            node_isolation: self.node_isolation,
            uses_kwok: self.kwok_behavior().is_some(),
            installed_scheduler: self.installed_scheduler.clone(),
            node_pool: pool.map(|pool| pool.name().to_owned()),
        }
    }

    /// Names of the actors that simulate nodes and workload controllers.
    pub fn actors(&self) -> &[&'static str] {
        &self.actors
    }

    /// Whether the cluster can contain Secrets that are not ours, which we must not read.
    pub const fn has_foreign_secrets(&self) -> bool {
        matches!(self.provider, ClusterProvider::Existing)
    }

    /// How kwok treats pods. `None` unless kwok simulates the nodes.
    pub fn kwok_behavior(&self) -> Option<KwokBehavior> {
        self.kubelet_provider.kwok_behavior()
    }

    /// Whether all scenarios share the cluster-scoped object of this name.
    pub fn is_shared_priority_class(&self, name: &str) -> bool {
        self.shared_priority_classes.contains(name) || name.starts_with("system-")
    }

    /// Ends the run: stops our own control plane, container or cluster, and removes everything of
    /// the run from an existing cluster. Returns a line for each resource that could not be
    /// removed.
    pub fn close(self) -> Vec<String> {
        let mut remaining = Vec::new();
        match self.provider {
            ClusterProvider::Existing => {
                let is_ours = |node: &str| node.starts_with(&self.run_name);
                let result = block_on(async {
                    delete_foreign_pods(&admin_api(&self.config)?, &is_ours).await
                });
                remaining.extend(result.err().map(|error| {
                    format!("cannot delete the foreign pods on nodes of the run: {error:#}")
                }));
            }
            ClusterProvider::ControlPlane(plane) => drop(plane),
            ClusterProvider::Emulator(emulator) => drop(emulator),
            ClusterProvider::Kind(_) | ClusterProvider::Container(_) => {}
        }
        remaining.extend(end_run(self.run));
        remaining
    }

    /// Writes the logs of the cluster's components into `folder`. Returns `false` if this process
    /// has no access to them.
    ///
    /// # Errors
    /// The logs cannot be read or written.
    pub fn export_logs(&self, folder: &Path) -> anyhow::Result<bool> {
        match &self.provider {
            ClusterProvider::Kind(kind) => kind.export_logs(folder).map(|()| true),
            ClusterProvider::Container(container) => {
                block_on(container.export_logs(folder)).map(|()| true)
            }
            ClusterProvider::ControlPlane(..)
            | ClusterProvider::Emulator(_)
            | ClusterProvider::Existing => Ok(false),
        }
    }
}

impl ClusterProvider {
    /// Whether the cluster is our emulator, in this process or in a container of our own image.
    fn is_emulator(&self) -> bool {
        match self {
            Self::Emulator(_) => true,
            Self::Container(container) => container.runs_emulator(),
            Self::ControlPlane(_) | Self::Kind(_) | Self::Existing => false,
        }
    }

    /// Fails if a process of our own control plane has ended.
    fn check_alive(&mut self) -> anyhow::Result<()> {
        let Self::ControlPlane(control_plane) = self else { return Ok(()) };
        control_plane.check_running()
    }
}

impl std::fmt::Debug for RealCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealCluster").field("run_name", &self.run_name).finish_non_exhaustive()
    }
}

fn start_control_plane(
    assets: &Assets,
    feature_gates: &str,
    kubelets: Kubelets,
    run: &Run,
    interrupt: &Interrupt,
) -> anyhow::Result<ClusterConnection> {
    let keep = |program: &Path, arguments: &[String], log: &Path| {
        ChildProcess::start_with_watchdog(program, arguments, CONTROL_PLANE_ENV, log, run)
    };
    let folder = run.temp_folder("control-plane")?;
    let gates = FeatureGateArguments::new(feature_gates);
    let mut plane = ControlPlane::start(assets, &folder, &gates.of_api_server(), keep)?;
    let version = block_on(interrupt.run_unless_interrupted(plane.wait_ready()))?;
    plane.start_controller_manager(&gates.of_controller_manager(), keep)?;
    if kubelets == Kubelets::Kwok {
        plane.attach(kwok::KWOK_PROGRAM, kwok::start_kwok(&folder, run)?);
    }
    Ok(ClusterConnection {
        config: block_on(schedlab_control_plane::client_config(plane.kubeconfig()))?,
        version,
        node_isolation: NodeIsolation::None,
        actors: ACTORS_OF_OWN_CONTROL_PLANE,
        default_kubelets: Kubelets::Schedlab,
        installed_scheduler: None,
        provider: ClusterProvider::ControlPlane(Box::new(plane)),
    })
}

fn start_emulator(
    programs: Option<PathBuf>,
    feature_gates: FeatureGates,
) -> anyhow::Result<ClusterConnection> {
    let version = feature_gates.version().git_version().to_owned();
    let emulator = EmulatorServer::start(feature_gates, programs)?;
    Ok(ClusterConnection {
        config: block_on(schedlab_control_plane::client_config(emulator.kubeconfig()))?,
        version,
        node_isolation: NodeIsolation::None,
        actors: ACTORS_OF_SHARED_EMULATOR,
        default_kubelets: Kubelets::Schedlab,
        installed_scheduler: None,
        provider: ClusterProvider::Emulator(emulator),
    })
}

fn start_container(
    image: &str,
    scheduler: &SchedulerSource,
    run: &Run,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(&str),
) -> anyhow::Result<ClusterConnection> {
    let start = Container::start(image, scheduler, run, interrupt, on_progress);
    let container = block_on(start)?;
    let (config, version) =
        block_on(interrupt.run_unless_interrupted(container.wait_until_ready()))?;
    Ok(ClusterConnection {
        config,
        version,
        node_isolation: if container.has_nodes() {
            NodeIsolation::Taint
        } else {
            NodeIsolation::None
        },
        actors: ACTORS_OF_EXISTING_CLUSTER,
        // In kwok's image only kwok can simulate nodes.
        default_kubelets: if container.runs_kwok() { Kubelets::Kwok } else { Kubelets::Schedlab },
        installed_scheduler: scheduler.installed_scheduler_name(),
        provider: ClusterProvider::Container(Box::new(container)),
    })
}

fn start_kind_cluster(
    options: &KindOptions,
    run: &Run,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(&str),
) -> anyhow::Result<ClusterConnection> {
    let kind = KindCluster::start_or_reuse(options, run, interrupt, on_progress)?;
    let (config, version) = block_on(interrupt.run_unless_interrupted(async {
        let (config, version) = kind.wait_until_ready().await?;
        kind::keep_daemon_sets_off_simulated_nodes(&config).await?;
        anyhow::Ok((config, version))
    }))?;
    Ok(ClusterConnection {
        config,
        version,
        node_isolation: NodeIsolation::Taint,
        actors: ACTORS_OF_EXISTING_CLUSTER,
        default_kubelets: Kubelets::Schedlab,
        installed_scheduler: None,
        provider: ClusterProvider::Kind(kind),
    })
}

/// Removes the resources that a run still has. Returns a line for each resource that could not be
/// removed; the run's record keeps these, so that a later cleanup can remove them.
fn end_run(run: Run) -> Vec<String> {
    let results = block_on(async { Ok(run.end().await) });
    let describe = |one: &CleanupResult| {
        one.outcome.failure_reason().map(|why| format!("{}: {why}", one.resource))
    };
    match results {
        Ok(results) => results.iter().filter_map(describe).collect(),
        Err(error) => vec![format!("{error:#}")],
    }
}

/// A client for the whole cluster with administrator rights.
fn admin_api(config: &kube::Config) -> anyhow::Result<Api> {
    Ok(Api::new(kube::Client::try_from(config.clone()).context("cannot create a client")?))
}
