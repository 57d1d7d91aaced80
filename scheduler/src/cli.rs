//! The command line. Exit codes: 0 success, 1 failure or lost leadership, 2 invalid arguments (from
//! clap).

mod settings;
mod webhooks;

use std::{
    convert::Infallible,
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use crate::{
    Binding, Clock, Component, Config, ConfigFile, FeatureGates, Metrics, Progress,
    config::names,
    explain,
    health::{self, Health},
    leader_election::{ElectionConfig, LeaderState, lead},
    logging::{self, LogFormat},
    replay,
    snapshot_file::SnapshotSource,
};
use anyhow::{Context as _, anyhow};
use clap::{Parser, Subcommand, ValueEnum};
use futures::FutureExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_api::crds;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tracing::{Level, error, info, warn};

pub use webhooks::Webhooks;
use webhooks::print_webhooks;

/// Help headings of flags that several verbs have.
const CLUSTER_HEADING: &str = "Cluster";
const CONFIGURATION_HEADING: &str = "Configuration";
const COMPONENTS_HEADING: &str = "Components";
const ENDPOINTS_HEADING: &str = "Endpoints";
const LOGGING_HEADING: &str = "Logging";

/// A Kubernetes scheduler that is compatible with KAI
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// Format of the log on standard error; the variable `RUST_LOG` selects what is logged
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = LogFormat::Text,
        global = true,
        help_heading = LOGGING_HEADING
    )]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

/// The verbs of the scheduler
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the scheduler until it is terminated
    Run(Box<Run>),
    /// Explain why a workload is pending and what would let it run, or how a queue is used
    Explain(Explain),
    /// Run cycles over a captured cluster, and print plan and reasons
    Replay(Replay),
    /// Capture a cluster, as the scheduler sees it, into a zip file in the format of KAI's
    /// snapshots
    Snapshot(Snapshot),
    /// Print the JSON Schema of the configuration file
    #[command(
        after_help = "Example:\n  schedlab-scheduler config-schema > scheduler-config.schema.json"
    )]
    ConfigSchema,
    /// Print the custom resource definitions and priority classes as YAML
    #[command(after_help = "Example:\n  schedlab-scheduler crds | kubectl apply -f -")]
    Crds,
    /// Print the webhook configurations for component admission as YAML
    Webhooks(Webhooks),
}

/// Arguments of verb `replay`
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  schedlab-scheduler replay snapshot.zip --cycles 3")]
pub struct Replay {
    /// Captured cluster: a zip file in the format of KAI's snapshots
    file: PathBuf,
    /// Maximum number of cycles; stops earlier after a cycle without decisions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    cycles: u32,
    /// Schedule the pods of this scheduler [default: from the snapshot, else kai-scheduler]
    #[arg(long, value_name = "NAME", value_parser = names::parse_scheduler_name, help_heading = CONFIGURATION_HEADING)]
    scheduler_name: Option<String>,
    /// Configuration file; takes precedence over the configuration in the snapshot
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION_HEADING)]
    config: Option<PathBuf>,
}

/// Arguments of verb `snapshot`
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  schedlab-scheduler snapshot --output snapshot.zip")]
pub struct Snapshot {
    /// Zip file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Kubeconfig file of the cluster [default: as kubectl, else the service account of the pod]
    #[arg(long, value_name = "FILE", help_heading = CLUSTER_HEADING)]
    kubeconfig: Option<PathBuf>,
    /// Capture the input of this scheduler [default: kai-scheduler]
    #[arg(long, value_name = "NAME", value_parser = names::parse_scheduler_name, help_heading = CONFIGURATION_HEADING)]
    scheduler_name: Option<String>,
    /// Configuration file of that scheduler; flags take precedence
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION_HEADING)]
    config: Option<PathBuf>,
}

/// Arguments of verb `explain`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  schedlab-scheduler explain team-a/training --config scheduler.yaml"
)]
pub struct Explain {
    /// NAMESPACE/NAME of a pod group, a pod or an owner of pods; or `queue NAME`
    #[arg(required = true, num_args = 1..=2, value_names = ["NAMESPACE/NAME", "QUEUE"])]
    target: Vec<String>,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Kubeconfig file of the cluster [default: as kubectl, else the service account of the pod]
    #[arg(long, value_name = "FILE", help_heading = CLUSTER_HEADING)]
    kubeconfig: Option<PathBuf>,
    /// Scheduling rules of the scheduler that serves the workload
    #[arg(long, value_enum, default_value_t = Profile::Kai, help_heading = CONFIGURATION_HEADING)]
    profile: Profile,
    /// Name of that scheduler [default: kai-scheduler, or default-scheduler with profile kube]
    #[arg(long, value_name = "NAME", value_parser = names::parse_scheduler_name, help_heading = CONFIGURATION_HEADING)]
    scheduler_name: Option<String>,
    /// Configuration file of that scheduler; flags take precedence
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION_HEADING)]
    config: Option<PathBuf>,
    /// Window of its usage history, for example 24h [default: none]
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration, help_heading = CONFIGURATION_HEADING)]
    usage_window: Option<Duration>,
}

/// Arguments of verb `run`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  schedlab-scheduler run --config scheduler.yaml --health-address 0.0.0.0:8080 \
                  --leader-elect"
)]
pub struct Run {
    /// Run a single cycle and exit
    #[arg(long)]
    once: bool,
    /// Kubeconfig file of the cluster [default: as kubectl, else the service account of the pod]
    #[arg(long, value_name = "FILE", help_heading = CLUSTER_HEADING)]
    kubeconfig: Option<PathBuf>,
    /// Scheduling rules and API
    #[arg(long, value_enum, default_value_t = Profile::Kai, help_heading = CONFIGURATION_HEADING)]
    profile: Profile,
    /// Configuration file (see `config-schema`); flags take precedence
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION_HEADING)]
    config: Option<PathBuf>,
    /// Schedule the pods with this spec.schedulerName [default: kai-scheduler, or default-scheduler
    /// with profile kube]
    #[arg(long, value_name = "NAME", value_parser = names::parse_scheduler_name, help_heading = CONFIGURATION_HEADING)]
    scheduler_name: Option<String>,
    /// Feature gates of profile kube, as in kube-scheduler, for example GenericWorkload=true
    /// [default: those of kube-scheduler]
    #[arg(long, value_name = "NAME=BOOL,…", value_parser = FeatureGates::parse, help_heading = CONFIGURATION_HEADING)]
    feature_gates: Option<FeatureGates>,
    /// Time from the start of one cycle to the next, for example 500ms [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration, help_heading = CONFIGURATION_HEADING)]
    period: Option<Duration>,
    /// Window of the usage history for time-based fairness, for example 24h [default: none, past
    /// usage has no effect]
    #[arg(long, value_name = "DURATION", value_parser = parse_positive_duration, help_heading = CONFIGURATION_HEADING)]
    usage_window: Option<Duration>,
    /// Maximum number of concurrent writes to the API server [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = CONFIGURATION_HEADING)]
    writes_at_once: Option<u16>,
    /// Components that run in this process, separated by commas [default: all]
    #[arg(long, value_name = "COMPONENTS", value_enum, value_delimiter = ',', help_heading = COMPONENTS_HEADING)]
    components: Vec<Component>,
    /// Do not run component podgrouper, as another pod grouper runs
    #[arg(long, help_heading = COMPONENTS_HEADING)]
    no_grouping: bool,
    /// How pods are bound to nodes [default: requests if components are selected, else direct]
    #[arg(long, value_enum, help_heading = COMPONENTS_HEADING)]
    binding: Option<Binding>,
    /// Serve probes (/livez, /readyz) and Prometheus metrics (/metrics) at this address, for example
    /// 0.0.0.0:8080 [default: not served]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = ENDPOINTS_HEADING)]
    health_address: Option<SocketAddr>,
    /// Serve the scheduler's input as a zip file at /get-snapshot of the health address; it
    /// contains all pods
    #[arg(long, requires = "health_address", help_heading = ENDPOINTS_HEADING)]
    serve_snapshots: bool,
    /// Serve a trace of the decisions of the last cycles, per plugin, at /get-trace of the health
    /// address, with at most this many lines
    #[arg(
        long,
        value_name = "LINES",
        requires = "health_address",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        help_heading = ENDPOINTS_HEADING
    )]
    trace_decisions: Option<u32>,
    /// Serve the webhooks of component admission with tls.crt and tls.key in this folder, which are
    /// reloaded when they change [default: not served]
    #[arg(long, value_name = "DIR", help_heading = ENDPOINTS_HEADING)]
    webhook_cert_dir: Option<PathBuf>,
    /// Address of the webhooks
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:9443",
        requires = "webhook_cert_dir",
        help_heading = ENDPOINTS_HEADING
    )]
    webhook_address: SocketAddr,
    #[command(flatten)]
    election: ElectionArguments,
}

/// Flags are named as in Kubernetes' own components.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
struct ElectionArguments {
    /// Schedule only while this process holds the lease, so that several replicas may run
    #[arg(long = "leader-elect")]
    elect: bool,
    /// Namespace of the lease [default: that of the pod, or of the kubeconfig's context]
    #[arg(
        long = "leader-elect-resource-namespace",
        value_name = "NAMESPACE",
        value_parser = names::parse_object_name
    )]
    namespace: Option<String>,
    /// Name of the lease [default: the scheduler's name]
    #[arg(long = "leader-elect-resource-name", value_name = "NAME", value_parser = names::parse_object_name)]
    name: Option<String>,
    /// Time after the leader's last renewal for which other candidates wait; whole seconds
    #[arg(long = "leader-elect-lease-duration", value_name = "DURATION", default_value = "15s", value_parser = parse_positive_duration)]
    lease_duration: Duration,
    /// Time without successful renewal after which a leader exits
    #[arg(long = "leader-elect-renew-deadline", value_name = "DURATION", default_value = "10s", value_parser = parse_positive_duration)]
    renew_deadline: Duration,
    /// Time between two tries to acquire or renew the lease
    #[arg(long = "leader-elect-retry-period", value_name = "DURATION", default_value = "2s", value_parser = parse_positive_duration)]
    retry_period: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// As KAI: queues, gangs, reclaim, preemption, consolidation
    Kai,
    /// As the default kube-scheduler: pod by pod, by priority
    Kube,
}

fn parse_positive_duration(text: &str) -> Result<Duration, String> {
    let allowed = "expected a duration above 0, for example 1s, 500ms or 24h";
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    let duration = parsed.map_err(|_| allowed.to_owned())?;
    Duration::try_from(duration).ok().filter(|period| !period.is_zero()).ok_or(allowed.to_owned())
}

/// The program `schedlab-scheduler`: parses its command line and runs the verb.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let program = "schedlab-scheduler";
    let log_format = arguments.log_format;
    let done = match logging::init(log_format, LOG_LEVEL) {
        Ok(()) => run_verb(program, log_format, arguments.command),
        Err(error) => {
            report_error(program, &error.into(), log_format);
            Err(VerbFailure)
        }
    };
    done.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// The level from which messages are logged without the variable `RUST_LOG`.
pub const LOG_LEVEL: &str = "info";

/// The failure of a verb, whose error was printed or logged.
#[derive(Clone, Copy, Debug)]
pub struct VerbFailure;

/// Runs a verb of the scheduler until it ends. `program` is the name that error messages begin
/// with. Logging must have been started.
///
/// # Errors
/// The verb failed. Its error was printed, or logged in JSON.
pub fn run_verb(program: &str, log_format: LogFormat, command: Command) -> Result<(), VerbFailure> {
    let done = match command {
        Command::Run(arguments) => run(&arguments),
        Command::Explain(arguments) => explain(&arguments),
        Command::Replay(arguments) => replay(&arguments),
        Command::Snapshot(arguments) => snapshot(&arguments),
        Command::ConfigSchema => print_config_schema(),
        Command::Crds => print_crds(),
        Command::Webhooks(arguments) => print_webhooks(&arguments),
    };
    done.map_err(|error| {
        report_error(program, &error, log_format);
        VerbFailure
    })
}

/// Schedules until the process is terminated, loses leadership, or cannot start.
fn run(arguments: &Run) -> anyhow::Result<()> {
    // With a second thread the lease is renewed while the first one computes decisions.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let client = kube_client(arguments.kubeconfig.as_deref()).await?;
        let config = settings::run_config(arguments)?;
        let election = election_config(arguments, &config, &client)?;
        let (state_sender, leader_state) = watch::channel(match election {
            Some(_) => LeaderState::Acquiring,
            None => LeaderState::Leading,
        });
        let mut failures = pin!(report_failures(config.progress.subscribe()));
        let leadership_changes = report_leadership(leader_state.clone());
        let last = leader_state.clone();
        let metrics = Arc::new(Metrics::with_queue_labels(config.queue_metric_labels.clone()));
        let status = config.progress.subscribe();
        let source = SnapshotSource { client: client.clone(), config: config.clone() };
        let snapshots = arguments.serve_snapshots.then_some(source);
        let trace = config.trace.clone();
        let now: Clock = Arc::new(wall_clock);
        let (measured, at) = (Arc::clone(&metrics), Arc::clone(&now));
        let health = Health { leader_state, status, metrics: measured, now: at, snapshots, trace };
        let probes = serve_probes(arguments.health_address, health).await?;
        let reviews = webhooks::serve_reviews(arguments, &config, &client).await?;
        let stop = termination_signal()?.shared();
        let (clock, metrics) = (Arc::clone(&now), Some(metrics));
        let work = crate::run::run_until(client.clone(), config, clock, metrics, stop.clone());
        let scheduling = async {
            let Some(election) = election else { return work.await };
            let stop = stop_unless_leading(stop, last.clone());
            let done = lead(client, election, now, state_sender, work, stop).await;
            report_unreleased_lease(&last.borrow());
            done
        };
        let done = tokio::select! {
            biased;
            done = scheduling => done,
            done = probes => done,
            done = reviews => done,
            never = &mut failures => match never {},
            never = leadership_changes => match never {},
        };
        // Report the last failures.
        let _ = failures.now_or_never();
        done
    })
}

/// Returns a future that completes at SIGTERM or SIGINT.
fn termination_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminated = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    })
}

/// Completes at `stop`, unless this process leads then: the work of a leader observes `stop` itself
/// and ends in order.
async fn stop_unless_leading(
    stop: impl Future<Output = ()>,
    standing: watch::Receiver<LeaderState>,
) {
    stop.await;
    if *standing.borrow() == LeaderState::Leading {
        std::future::pending::<()>().await;
    }
}

/// Serves the health endpoints; never returns if no address is configured.
async fn serve_probes(
    address: Option<SocketAddr>,
    health: Health,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>>> {
    let listener = match address {
        Some(address) => Some(
            TcpListener::bind(address)
                .await
                .with_context(|| format!("--health-address {address}: cannot listen there"))?,
        ),
        None => None,
    };
    Ok(async move {
        let Some(listener) = listener else { return std::future::pending().await };
        match health::serve(listener, health).await {
            Ok(never) => match never {},
            Err(error) => Err(error).context("the health endpoints failed"),
        }
    })
}

fn election_config(
    arguments: &Run,
    config: &Config,
    client: &kube::Client,
) -> anyhow::Result<Option<ElectionConfig>> {
    let flags = &arguments.election;
    if !flags.elect {
        return Ok(None);
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .context("cannot determine the identity of this candidate: no host name")?;
    let identity = format!("{}_{}", host.trim(), std::process::id());
    let namespace = flags.namespace.as_deref();
    let name = flags.name.as_deref().unwrap_or(&config.scheduler_name);
    let election =
        ElectionConfig::new(namespace.unwrap_or(client.default_namespace()), name, &identity)
            .with_timings(flags.lease_duration, flags.renew_deadline, flags.retry_period);
    Ok(Some(election?))
}

/// Prints plan and reasons over a captured cluster.
fn replay(arguments: &Replay) -> anyhow::Result<()> {
    let shown = arguments.file.display();
    let file =
        std::fs::File::open(&arguments.file).with_context(|| format!("cannot read {shown}"))?;
    let output = replay::replay(file, &settings::replay_config(arguments)?, arguments.cycles);
    let output = output.map_err(|error| anyhow!(error.message_for(&shown.to_string())))?;
    write!(io::stdout().lock(), "{output}").context("cannot write to standard output")
}

/// Writes a snapshot of the cluster to a file.
fn snapshot(arguments: &Snapshot) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let zip = runtime.block_on(async {
        let client = kube_client(arguments.kubeconfig.as_deref()).await?;
        let config = settings::snapshot_config(arguments)?;
        anyhow::Ok(SnapshotSource { client, config }.capture().await?)
    })?;
    let shown = arguments.output.display();
    std::fs::write(&arguments.output, zip).with_context(|| format!("cannot write {shown}"))
}

/// Reads the cluster once and prints the explanation.
fn explain(arguments: &Explain) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = runtime.block_on(async {
        let client = kube_client(arguments.kubeconfig.as_deref()).await?;
        let config = settings::explain_config(arguments)?;
        let now: Clock = Arc::new(wall_clock);
        let form = match arguments.output {
            Output::Text => explain::OutputFormat::Text,
            Output::Json => explain::OutputFormat::Json,
        };
        match &arguments.target[..] {
            [kind, queue] if kind == "queue" => {
                explain::explain_queue_state(client, config, now, queue, form).await
            }
            [workload] => {
                let parts = workload.split_once('/').with_context(|| {
                    format!("got {workload}, expected NAMESPACE/NAME, or queue NAME")
                })?;
                let (namespace, name) = parts;
                explain::explain_workload(client, config, now, namespace, name, form).await
            }
            other => {
                anyhow::bail!("got {}, expected NAMESPACE/NAME, or queue NAME", other.join(" "))
            }
        }
    })?;
    write!(io::stdout().lock(), "{text}").context("cannot write to standard output")
}

/// Prints the JSON Schema of the configuration file.
fn print_config_schema() -> anyhow::Result<()> {
    let schema = serde_json::to_string_pretty(&ConfigFile::schema())
        .context("cannot format the schema as JSON")?;
    writeln!(io::stdout().lock(), "{schema}").context("cannot write to standard output")
}

/// A client of the cluster of a kubeconfig; without one, of the cluster that kubectl would use, or
/// of the cluster in which this process runs.
///
/// # Errors
/// The kubeconfig cannot be read, or names no usable cluster.
pub async fn kube_client(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Client> {
    let config = match kubeconfig {
        Some(path) => {
            let shown = path.display();
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read kubeconfig {shown}"))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("kubeconfig {shown} names no usable cluster"))?
        }
        None => kube::Config::infer().await.context(
            "no cluster: pass --kubeconfig, set KUBECONFIG, or run in a pod with a service account",
        )?,
    };
    kube::Client::try_from(config).context("cannot create a client from that configuration")
}

/// Logs API failures, problems of the usage database and idle GPU reservations, each once when it
/// changes. Runs beyond the end of work, until the lease is released.
async fn report_failures(mut status: watch::Receiver<Progress>) -> Infallible {
    let mut last = [None, None, None];
    while status.changed().await.is_ok() {
        let now = {
            let Progress { last_failure, usage_error: usage_trouble, idle_reservations, .. } =
                &*status.borrow_and_update();
            [last_failure, usage_trouble, idle_reservations].map(Option::clone)
        };
        for (now, last) in now.iter().zip(&last) {
            if let Some(message) = now.as_ref().filter(|_| now != last) {
                warn!("{message}");
            }
        }
        last = now;
    }
    std::future::pending().await
}

/// Logs that the lease could not be released, so that no candidate can lead for a while.
fn report_unreleased_lease(last: &LeaderState) {
    if let LeaderState::ReleaseFailed(_) = last {
        warn!("{last}");
    }
}

/// Logs changes of leadership; without leader election there are none.
async fn report_leadership(mut standing: watch::Receiver<LeaderState>) -> Infallible {
    let mut last = None;
    while standing.changed().await.is_ok() {
        let now = standing.borrow_and_update().clone();
        if last.as_ref() != Some(&now) {
            info!("{now}");
        }
        last = Some(now);
    }
    std::future::pending().await
}

/// Returns the time of the system clock.
#[expect(clippy::disallowed_methods, reason = "a scheduler of its own runs in real time")]
fn wall_clock() -> jiff::Timestamp {
    jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or_default()
}

/// Prints the custom resource definitions and priority classes as YAML documents.
fn print_crds() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for object in crds::all_crds().iter().chain(&crds::priority_classes()) {
        let yaml = serde_yaml::to_string(object).context("cannot format a definition as YAML")?;
        write!(out, "---\n{yaml}").context("cannot write to standard output")?;
    }
    Ok(())
}

/// Reports the error that ended the process: in a JSON log as an event, else as a plain line.
fn report_error(program: &str, failed: &anyhow::Error, format: LogFormat) {
    if format == LogFormat::Json && tracing::enabled!(Level::ERROR) {
        error!("{failed:#}");
    } else {
        // A closed standard error is ignored.
        let _ = writeln!(io::stderr(), "{program}: {failed:#}");
    }
}
