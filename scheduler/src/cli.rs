//! The command line. Exit codes: 0 done, 1 failed, 2 wrong arguments (clap's).

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_scheduler::{Clock, Config, Idle, Status, crds};
use tokio::sync::watch;

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
    Run(Run),
    /// Print the custom resource definitions and priority classes, as YAML for `kubectl apply -f -`.
    Crds,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// How to reach the cluster; without it, as kubectl does, else as a pod in the cluster.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// What to behave like.
    #[arg(long, value_enum, default_value_t = Profile::Kai)]
    profile: Profile,
    /// Schedule the pods that name this scheduler [default: kai-scheduler, or default-scheduler
    /// for profile kube].
    #[arg(long)]
    scheduler_name: Option<String>,
    /// Time from one cycle to the next, as 1s or 500ms.
    #[arg(long, default_value = "1s", value_parser = period)]
    period: Duration,
    /// Window of the usage history for time-based fairness, as 24h; without it past usage
    /// plays no part.
    #[arg(long, value_parser = period)]
    usage_window: Option<Duration>,
    /// Do not put pods into PodGroups: another pod grouper does.
    #[arg(long)]
    no_grouping: bool,
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

/// Schedules until the process is interrupted, or the scheduler cannot start.
pub(crate) fn run(arguments: &Run) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let client = client(arguments.kubeconfig.as_deref()).await?;
        let config = config(arguments);
        let complaints = complain_of_failures(config.status.subscribe());
        let now: Clock = Arc::new(wall_clock);
        tokio::select! {
            biased;
            done = schedlab_scheduler::run(client, config, now) => done,
            () = complaints => Ok(()),
            stopped = tokio::signal::ctrl_c() => stopped.context("cannot wait for interrupts"),
        }
    })
}

fn config(arguments: &Run) -> Config {
    let mut config = match arguments.profile {
        Profile::Kai => Config::kai(),
        Profile::Kube => Config::kube(),
    };
    if let Some(name) = &arguments.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    config.period = arguments.period;
    config.idle = Idle::UntilEvent;
    config.grouping &= !arguments.no_grouping;
    config.usage_window = arguments.usage_window;
    config
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

/// Says what the API server refuses, once for each new refusal.
async fn complain_of_failures(mut status: watch::Receiver<Status>) {
    let mut last = None;
    while status.changed().await.is_ok() {
        let failure = status.borrow_and_update().last_failure.clone();
        if let Some(failure) = failure.as_ref().filter(|_| failure != last) {
            complain(failure);
        }
        last = failure;
    }
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
