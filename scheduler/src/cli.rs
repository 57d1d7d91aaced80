//! The command line. Exit codes: 0 done, 1 failed or led no more, 2 wrong arguments (clap's).

mod reviews;
mod settings;

use std::{
    convert::Infallible,
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use clap::{Parser, Subcommand, ValueEnum};
use futures::FutureExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_scheduler::{
    Binding, Clock, Component, Config, ConfigFile, Metrics, Status,
    captured::Source,
    config::names,
    crds, explain,
    health::{self, Health},
    leader::{Election, Standing, lead},
    replay,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

pub(crate) use reviews::{Webhooks, print_webhooks};

/// A KAI-compatible Kubernetes scheduler.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Schedule until stopped.
    Run(Box<Run>),
    /// Say why a workload waits and what would let it run, or how a queue stands.
    Explain(Explain),
    /// Decide over a captured cluster (a zip in the layout of KAI's snapshots), and print plan and
    /// reasons.
    Replay(Replay),
    /// Write a cluster as the scheduler sees it into such a zip.
    Snapshot(Snapshot),
    /// Print the JSON Schema of the configuration file.
    ConfigSchema,
    /// Print the custom resource definitions and priority classes, as YAML for `kubectl apply -f -`.
    Crds,
    /// Print the configuration that has the API server ask component admission, as YAML.
    Webhooks(Webhooks),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The zip.
    file: PathBuf,
    /// Most cycles; fewer if one decides nothing.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    cycles: u32,
    /// Whose pods are scheduled [default: what the snapshot says, else kai-scheduler].
    #[arg(long, value_parser = names::scheduler_name)]
    scheduler_name: Option<String>,
    /// A configuration file; what it says wins over what the snapshot says of its scheduler.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Snapshot {
    /// How to reach the cluster; without it, as kubectl does, else as a pod in the cluster.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The scheduler whose input it is [default: kai-scheduler].
    #[arg(long, value_parser = names::scheduler_name)]
    scheduler_name: Option<String>,
    /// That scheduler's configuration file; the flag beside it wins.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the zip is written.
    #[arg(long, short)]
    output: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// NAMESPACE/NAME of a pod group, of a pod, or of what owns pods; or `queue NAME`.
    #[arg(required = true, num_args = 1..=2, value_names = ["NAMESPACE/NAME", "QUEUE"])]
    what: Vec<String>,
    /// How to reach the cluster; without it, as kubectl does, else as a pod in the cluster.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// For people, or for programs.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Whose rules: those of the scheduler that serves the workload.
    #[arg(long, value_enum, default_value_t = Profile::Kai)]
    profile: Profile,
    /// The workload's scheduler [default: kai-scheduler, or default-scheduler for profile kube].
    #[arg(long, value_parser = names::scheduler_name)]
    scheduler_name: Option<String>,
    /// That scheduler's configuration file; flags beside it win.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Its window of the usage history, as 24h.
    #[arg(long, value_parser = period)]
    usage_window: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// How to reach the cluster; without it, as kubectl does, else as a pod in the cluster.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// What to behave like.
    #[arg(long, value_enum, default_value_t = Profile::Kai)]
    profile: Profile,
    /// A configuration file, as `config-schema` describes it; flags beside it win.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run a single cycle and end.
    #[arg(long)]
    once: bool,
    /// Schedule the pods that name this scheduler [default: kai-scheduler, or default-scheduler
    /// for profile kube].
    #[arg(long, value_parser = names::scheduler_name)]
    scheduler_name: Option<String>,
    /// Time from one cycle to the next, as 1s or 500ms [default: 1s].
    #[arg(long, value_parser = period)]
    period: Option<Duration>,
    /// Window of the usage history for time-based fairness, as 24h; without it past usage
    /// plays no part.
    #[arg(long, value_parser = period)]
    usage_window: Option<Duration>,
    /// Most writes to the API server under way at once [default: 32].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    writes_at_once: Option<u16>,
    /// Do not put pods into PodGroups: another pod grouper does.
    #[arg(long)]
    no_grouping: bool,
    /// Which parts run here, and no others [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    components: Vec<Component>,
    /// How pods get to their nodes [default: direct where all parts run in one process, else
    /// requests].
    #[arg(long, value_enum)]
    binding: Option<Binding>,
    /// Where probes (/livez, /readyz) and Prometheus (/metrics) are answered, as 0.0.0.0:8080;
    /// without it nowhere.
    #[arg(long, value_name = "ADDRESS:PORT")]
    health_address: Option<SocketAddr>,
    /// Serve the scheduler's input as a zip at /get-snapshot of that address. It shows every pod.
    #[arg(long, requires = "health_address")]
    serve_snapshots: bool,
    /// Serve how the last cycles decided, plugin by plugin, at /get-trace of that address: so many
    /// lines at most.
    #[arg(
        long,
        value_name = "LINES",
        requires = "health_address",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    trace_decisions: Option<u32>,
    /// Folder with tls.crt and tls.key, read anew when they change: component admission answers the
    /// API server's reviews with it. Without it nobody does.
    #[arg(long, value_name = "DIR")]
    webhook_cert_dir: Option<PathBuf>,
    /// Where reviews are answered.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:9443",
        requires = "webhook_cert_dir"
    )]
    webhook_address: SocketAddr,
    #[command(flatten)]
    election: ElectionArguments,
}

/// Named as in Kubernetes' own components.
#[derive(Debug, clap::Args)]
struct ElectionArguments {
    /// Schedule only while this process holds the lease: several may run, one works.
    #[arg(long = "leader-elect")]
    elect: bool,
    /// Namespace of the lease [default: that of the pod, or of the kubeconfig's context].
    #[arg(
        long = "leader-elect-resource-namespace",
        value_name = "NAMESPACE",
        value_parser = names::object_name
    )]
    namespace: Option<String>,
    /// Name of the lease [default: the scheduler's].
    #[arg(long = "leader-elect-resource-name", value_name = "NAME", value_parser = names::object_name)]
    name: Option<String>,
    /// How long others wait after the leader's last sign of life; whole seconds.
    #[arg(long = "leader-elect-lease-duration", value_name = "TIME", default_value = "15s", value_parser = period)]
    lease_duration: Duration,
    /// A leader that could not renew for so long ends.
    #[arg(long = "leader-elect-renew-deadline", value_name = "TIME", default_value = "10s", value_parser = period)]
    renew_deadline: Duration,
    /// Time from one try to the next.
    #[arg(long = "leader-elect-retry-period", value_name = "TIME", default_value = "2s", value_parser = period)]
    retry_period: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// KAI: queues, gangs, reclaim, preemption, consolidation.
    Kai,
    /// Default kube-scheduler: pod by pod, by priority.
    Kube,
}

fn period(text: &str) -> Result<Duration, String> {
    let allowed = "allowed: a time above 0, as 1s, 500ms or 24h";
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    let duration = parsed.map_err(|_| allowed.to_owned())?;
    Duration::try_from(duration).ok().filter(|period| !period.is_zero()).ok_or(allowed.to_owned())
}

/// Schedules until the process is told to stop, leads no more, or cannot start.
pub(crate) fn run(arguments: &Run) -> anyhow::Result<()> {
    // A second thread gives signs of life while the first one decides.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let client = client(arguments.kubeconfig.as_deref()).await?;
        let config = settings::of(arguments)?;
        let election = election(arguments, &config, &client)?;
        let (told, standing) = watch::channel(match election {
            Some(_) => Standing::Asking,
            None => Standing::Leading,
        });
        let mut complaints = pin!(complain_of_failures(config.status.subscribe()));
        let turns = tell_turns(standing.clone());
        let last = standing.clone();
        let metrics = Arc::new(Metrics::with_labels_of_queues(config.queue_metric_labels.clone()));
        let status = config.status.subscribe();
        let source = Source { client: client.clone(), config: config.clone() };
        let snapshots = arguments.serve_snapshots.then_some(source);
        let trace = config.trace.clone();
        let now: Clock = Arc::new(wall_clock);
        let (measured, at) = (Arc::clone(&metrics), Arc::clone(&now));
        let health = Health { standing, status, metrics: measured, now: at, snapshots, trace };
        let probes = probes(arguments.health_address, health).await?;
        let reviews = reviews::answered(arguments, &config, &client).await?;
        let stop = stopped()?.shared();
        let measured = (Arc::clone(&now), Some(metrics));
        let work = schedlab_scheduler::run_until(client.clone(), config, measured, stop.clone());
        let scheduling = async {
            let Some(election) = election else { return work.await };
            let stop = stopped_idle(stop, last.clone());
            let done = lead(client, (election, now), told, work, stop).await;
            complain_of_lease(&last.borrow());
            done
        };
        let done = tokio::select! {
            biased;
            done = scheduling => done,
            done = probes => done,
            done = reviews => done,
            never = &mut complaints => match never {},
            never = turns => match never {},
        };
        // What failed last of all.
        let _ = complaints.now_or_never();
        done
    })
}

/// Returns when somebody wants the process to end, as Ctrl-C or as the kubelet does.
fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminated = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    })
}

/// The same for one that does not lead; the work of a leader ends by itself, and in order.
async fn stopped_idle(stop: impl Future<Output = ()>, standing: watch::Receiver<Standing>) {
    stop.await;
    if *standing.borrow() == Standing::Leading {
        std::future::pending::<()>().await;
    }
}

/// Answers probes; never, when there is no address for them.
async fn probes(
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
            Err(error) => Err(error).context("probes are answered no more"),
        }
    })
}

fn election(
    arguments: &Run,
    config: &Config,
    client: &kube::Client,
) -> anyhow::Result<Option<Election>> {
    let asked = &arguments.election;
    if !asked.elect {
        return Ok(None);
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .context("cannot tell this candidate from others: no host name")?;
    let identity = format!("{}_{}", host.trim(), std::process::id());
    let namespace = asked.namespace.as_deref();
    let name = asked.name.as_deref().unwrap_or(&config.scheduler_name);
    let election = Election::new(namespace.unwrap_or(client.default_namespace()), name, &identity)
        .timed(asked.lease_duration, asked.renew_deadline, asked.retry_period);
    Ok(Some(election?))
}

/// Prints what is decided over a captured cluster.
pub(crate) fn replay(arguments: &Replay) -> anyhow::Result<()> {
    let shown = arguments.file.display();
    let file =
        std::fs::File::open(&arguments.file).with_context(|| format!("cannot read {shown}"))?;
    let told = replay::replay(file, &settings::of_replay(arguments)?, arguments.cycles);
    let told = told.map_err(|error| anyhow!(error.in_zip(&shown.to_string())))?;
    write!(io::stdout().lock(), "{told}").context("cannot write to standard output")
}

/// Writes a snapshot.
pub(crate) fn snapshot(arguments: &Snapshot) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let zip = runtime.block_on(async {
        let client = client(arguments.kubeconfig.as_deref()).await?;
        let config = settings::of_snapshot(arguments)?;
        anyhow::Ok(Source { client, config }.take().await?)
    })?;
    let shown = arguments.output.display();
    std::fs::write(&arguments.output, zip).with_context(|| format!("cannot write {shown}"))
}

/// Reads the cluster once and prints what is to be said.
pub(crate) fn explain(arguments: &Explain) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = runtime.block_on(async {
        let client = client(arguments.kubeconfig.as_deref()).await?;
        let config = settings::of_another(arguments)?;
        let now: Clock = Arc::new(wall_clock);
        let form = match arguments.output {
            Output::Text => explain::Form::Text,
            Output::Json => explain::Form::Json,
        };
        match &arguments.what[..] {
            [kind, queue] if kind == "queue" => {
                explain::queue(client, config, now, (queue, form)).await
            }
            [workload] => {
                let parts = workload.split_once('/').with_context(|| {
                    format!("found {workload}, allowed: NAMESPACE/NAME, or queue NAME")
                })?;
                let (namespace, name) = parts;
                explain::workload(client, config, now, (namespace, name, form)).await
            }
            other => {
                anyhow::bail!("found {}, allowed: NAMESPACE/NAME, or queue NAME", other.join(" "))
            }
        }
    })?;
    write!(io::stdout().lock(), "{text}").context("cannot write to standard output")
}

/// Prints the JSON Schema of the configuration file.
pub(crate) fn print_config_schema() -> anyhow::Result<()> {
    let schema = serde_json::to_string_pretty(&ConfigFile::schema()).context("no JSON")?;
    writeln!(io::stdout().lock(), "{schema}").context("cannot write to standard output")
}

async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Client> {
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
    kube::Client::try_from(config).context("cannot make a client of that configuration")
}

/// Says what the API server refuses, what the usage database lacks and which GPUs are kept for
/// nobody, once for each that is new. Outlives the work: the lease is released after that.
async fn complain_of_failures(mut status: watch::Receiver<Status>) -> Infallible {
    let mut last = [None, None, None];
    while status.changed().await.is_ok() {
        let now = {
            let Status { last_failure, usage_trouble, idle_reservations, .. } =
                &*status.borrow_and_update();
            [last_failure, usage_trouble, idle_reservations].map(Option::clone)
        };
        for (now, last) in now.iter().zip(&last) {
            if let Some(told) = now.as_ref().filter(|_| now != last) {
                complain(told);
            }
        }
        last = now;
    }
    std::future::pending().await
}

/// Says that nobody can lead for a while; the process ends all the same.
fn complain_of_lease(last: &Standing) {
    if let Standing::Unreleased(_) = last {
        complain(&last.to_string());
    }
}

/// Says when it leads, and who does instead. Alone it has nothing to tell.
async fn tell_turns(mut standing: watch::Receiver<Standing>) -> Infallible {
    let mut last = None;
    while standing.changed().await.is_ok() {
        let now = standing.borrow_and_update().clone();
        if last.as_ref() != Some(&now) {
            complain(&now.to_string());
        }
        last = Some(now);
    }
    std::future::pending().await
}

/// The machine's time.
#[expect(clippy::disallowed_methods, reason = "a scheduler of its own runs in real time")]
fn wall_clock() -> jiff::Timestamp {
    jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or_default()
}

/// Prints the definitions, one YAML document each.
pub(crate) fn print_crds() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for object in crds::all().iter().chain(&crds::priority_classes()) {
        let yaml = serde_yaml::to_string(object).context("a definition is no YAML")?;
        write!(out, "---\n{yaml}").context("cannot write to standard output")?;
    }
    Ok(())
}

/// One line to standard error; when that is closed, nobody listens.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "schedlab-scheduler: {line}");
}
