//! `schedlab up`: a cluster for kubectl. Runs the emulator in real time behind TLS and the
//! schedulers in this process, and writes a kubeconfig until it ends.

mod endpoints;
mod rejections;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::Server;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::http::resource_metrics_crds;
use schedlab_emulator::store::Resource as StoredKind;
use schedlab_emulator::{Emulator, Fleet, Options};
use schedlab_scheduler::{Config, Metrics};
use tokio::task::JoinSet;

use endpoints::Endpoints;
use rejections::Rejections;

use super::record::SessionRecorder;
use super::{CommandOutput, UsageError, suite};
use crate::cli::{ProfileName, Up};
use crate::exit::ExitStatus;
use schedlab_clusters::api::Api;
use schedlab_clusters::cleanup::{Resource, Run};
use schedlab_clusters::interrupt::StopSignals;
use schedlab_clusters::scheduler_objects::install_scheduler_objects;
use schedlab_conformance::text::counted_noun;

/// The fleet that is served by default: the 4 nodes of the operations lab.
const DEFAULT_FLEET: &str =
    "pools:\n- name: node\n  names: [node-1, node-2, node-3, node-4]\n  gpus: 8\n";

/// Maximum size of a file of `--case`, in MiB.
pub(super) const DEFAULT_MAX_MIB: u64 = 4096;

/// Starts an emulated cluster and serves it until Ctrl-C.
pub fn up(args: &Up) -> anyhow::Result<ExitStatus> {
    let has_case = !args.case.is_empty();
    let fleet = match args.fleet.as_deref() {
        _ if args.empty || has_case => Fleet::default(),
        path => load_fleet(path)?,
    };
    check_kubeconfig_not_taken(&args.kubeconfig)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(serve_cluster(args, &fleet))
}

pub(super) fn load_fleet(path: Option<&Path>) -> anyhow::Result<Fleet> {
    let Some(path) = path else { return Ok(Fleet::parse("the lab's fleet", DEFAULT_FLEET)?) };
    let file = suite::read_fleet(path)?;
    let fleet = Fleet::parse(&file.shown, &file.text);
    Ok(fleet.map_err(|error| UsageError(error.to_string()))?)
}

/// Fails if the file is not a kubeconfig of ours, or is one of a running cluster: it must not be
/// overwritten.
fn check_kubeconfig_not_taken(path: &Path) -> anyhow::Result<()> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
    let why = if !text.contains("schedlab") {
        "was not written by schedlab".to_owned()
    } else if let Some(server) = server_address(&text).filter(|server| accepts_connections(server))
    {
        format!("belongs to a cluster that runs at {server}")
    } else {
        return Ok(());
    };
    let path = path.display();
    Err(UsageError(format!("{path} exists and {why}; name another with --kubeconfig")).into())
}

/// Host and port of the server in a kubeconfig that schedlab wrote.
fn server_address(kubeconfig: &str) -> Option<String> {
    let config: schedlab_api::Value = serde_yaml::from_str(kubeconfig).ok()?;
    let server = config.pointer("/clusters/0/cluster/server")?.as_str()?;
    let authority = server.parse::<http::Uri>().ok()?.authority()?.to_string();
    Some(authority)
}

fn accepts_connections(server: &str) -> bool {
    let addresses = server.to_socket_addrs().into_iter().flatten();
    let soon = Duration::from_secs(1);
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, soon).is_ok())
}

async fn serve_cluster(args: &Up, fleet: &Fleet) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    // Before the first output: a reader of it may end the cluster at once.
    let mut signals = StopSignals::listen()?;
    let gates = FeatureGates::parse(args.kubernetes, &args.feature_gates);
    let feature_gates = gates.map_err(|error| UsageError(format!("--feature-gates: {error}")))?;
    let options = Options { feature_gates, ..Options::with_clock(Clock::real()) };
    let emulator = Emulator::start(options);
    emulator.add_fleet(fleet).map_err(|error| UsageError(error.to_string()))?;
    install_scheduler_objects(&Api::new(emulator.client())).await?;
    let mut api = Api::new(emulator.client());
    for definition in resource_metrics_crds() {
        api.create(&definition).await?;
    }
    create_case_objects(args, Api::new(emulator.client()), &mut output).await?;
    let recorder = match &args.record {
        Some(path) => Some(SessionRecorder::start(path, args, &emulator).await?),
        None => None,
    };
    let node_count = emulator.store().read(|store| store.count(&StoredKind::new("", "nodes")));
    let configs = scheduler_configs(args);
    let schedulers_text = schedulers_text(&configs);
    let observed = configs.first().cloned().unwrap_or_else(Config::kai);
    let endpoints = Endpoints::bind(args, &emulator, &observed, &mut output).await?;
    let mut scheduling = start_schedulers(configs, &emulator, endpoints.metrics());
    let address = SocketAddr::from((args.address, args.port));
    let server = if args.address.is_loopback() {
        emulator.serve(address).await?
    } else {
        emulator.serve_network(address).await?
    };
    let kubeconfig = WrittenKubeconfig::write(&args.kubeconfig, &server, &mut output).await?;
    let file = match &kubeconfig.file {
        Some((path, _)) => path.to_string_lossy(),
        None => "<the file you keep it in>".into(),
    };
    output.print_note(&format!(
        "{} and {schedulers_text} at https://{}\ntry: kubectl --kubeconfig {file} \
         get nodes,pods -A\nCtrl-C ends it",
        counted_noun(node_count, "node"),
        server.address,
    ));
    let exit = tokio::select! {
        Some(ended) = scheduling.join_next() => {
            let error = match ended {
                Ok(Ok(())) => anyhow::anyhow!("it returned"),
                Ok(Err(error)) => error,
                Err(panic) => panic.into(),
            };
            Err(error.context("the scheduler exited"))
        }
        error = endpoints.serve() => Err(error),
        () = signals.wait_for_signal() => Ok(ExitStatus::Passed),
    };
    server.shut_down().await;
    let recorded = match recorder {
        Some(recorder) => recorder.write(&emulator, &mut output).await,
        None => Ok(()),
    };
    kubeconfig.remove(&mut output).await;
    recorded?;
    if exit.is_ok() {
        output.print_note("the cluster has stopped");
    }
    exit
}

/// Starts the schedulers. The first one reports to `metrics`.
fn start_schedulers(
    configs: Vec<Config>,
    emulator: &Emulator,
    metrics: Option<Arc<Metrics>>,
) -> JoinSet<anyhow::Result<()>> {
    let clock = emulator.clock().clone();
    let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
    let mut scheduling = JoinSet::new();
    let metrics = std::iter::once(metrics).chain(std::iter::repeat_with(|| None));
    for (config, metrics) in configs.into_iter().zip(metrics) {
        let (client, now) = (emulator.client(), Arc::clone(&now));
        let never = std::future::pending();
        scheduling.spawn(schedlab_scheduler::run_until(client, config, now, metrics, never));
    }
    scheduling
}

/// Creates the objects of `--case`. An object that the API server rejects is reported and left out.
async fn create_case_objects(
    args: &Up,
    mut api: Api,
    output: &mut CommandOutput,
) -> anyhow::Result<()> {
    if args.case.is_empty() {
        return Ok(());
    }
    let case = super::case_input::load_files(&args.case, DEFAULT_MAX_MIB, output)?;
    let mut rejections = Rejections::default();
    for object in case.objects_to_create("kai-scheduler") {
        if let Err(error) = api.create(&object).await {
            rejections.record(&object, &error);
        }
    }
    for message in rejections.messages() {
        output.print_note(&format!("warning: {message}"));
    }
    Ok(())
}

/// The configurations of the schedulers that run. With profile `kai` also kube-scheduler's profile
/// runs, for pods that name no scheduler.
fn scheduler_configs(args: &Up) -> Vec<Config> {
    match args.profile {
        _ if args.no_scheduler => Vec::new(),
        ProfileName::Kai => vec![Config::kai(), Config::kube()],
        ProfileName::Kube => vec![Config::kube()],
    }
}

/// A text that says which pods the schedulers take.
fn schedulers_text(configs: &[Config]) -> String {
    let names: Vec<&str> = configs.iter().map(|config| &*config.scheduler_name).collect();
    match names.as_slice() {
        [] => "no scheduler".to_owned(),
        [one] => format!("scheduler `{one}`"),
        [one, others @ ..] => format!(
            "scheduler `{one}` (and `{}` for pods without a schedulerName)",
            others.join("`, `")
        ),
    }
}

/// Writes a file with mode 0600: the token in a kubeconfig grants administrator rights.
pub(super) fn write_private_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// A kubeconfig file that schedlab wrote. It is deleted with the cluster, unless it was overwritten
/// meanwhile.
struct WrittenKubeconfig {
    /// The path of the file, and the run that deletes the file; `None` if the kubeconfig was
    /// printed.
    file: Option<(PathBuf, Run)>,
}

impl WrittenKubeconfig {
    /// Writes the kubeconfig to a file and prints the path. For the path `-`, prints the kubeconfig
    /// itself.
    async fn write(
        path: &Path,
        server: &Server,
        output: &mut CommandOutput,
    ) -> anyhow::Result<Self> {
        let text = &server.kubeconfig;
        if path == Path::new("-") {
            output.print_result(&format!("{}\n", text.trim_end()));
            return Ok(Self { file: None });
        }
        let whole =
            std::path::absolute(path).context("cannot resolve the path of the kubeconfig")?;
        let leads_to = server_address(text).context("our own kubeconfig")?;
        let run = Run::begin("up")?;
        let noted = run.register(Resource::Kubeconfig { path: whole, server: leads_to });
        if let Err(error) = noted.and_then(|()| write_private_file(path, text)) {
            // Its remains are still registered for cleanup.
            run.end().await;
            return Err(error);
        }
        output.print_result(&format!("{}\n", path.display()));
        Ok(Self { file: Some((path.to_path_buf(), run)) })
    }

    /// Deletes the kubeconfig file.
    async fn remove(self, output: &mut CommandOutput) {
        let Some((_, run)) = self.file else { return };
        for left in run.end().await {
            output.print_note(&format!("could not be removed: {left:?}; try schedlab clean"));
        }
    }
}
