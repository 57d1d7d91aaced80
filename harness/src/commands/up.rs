//! `schedlab up`: a cluster to play in. The emulator in real time behind TLS, the scheduler in
//! this process, and a kubeconfig for as long as it lasts.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::serve::Server;
use schedlab_emulator::{Emulator, Fleet, Options};
use schedlab_scheduler::Config;

use super::{Output, UsageError};
use crate::api::Api;
use crate::cli::{ProfileName, Up};
use crate::cluster::install;
use crate::exit::Exit;
use crate::interrupt::Signals;
use crate::leftovers::{Run, Thing};

/// The fleet of the operations lab.
const LAB: &str = "pools:\n- name: node\n  names: [node-1, node-2, node-3, node-4]\n  gpus: 8\n";

/// Boots a cluster and keeps it until Ctrl-C.
pub fn up(args: &Up) -> anyhow::Result<Exit> {
    let fleet = if args.empty { Fleet::default() } else { fleet(args.fleet.as_deref())? };
    refuse_taken(&args.kubeconfig)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(serve(args, &fleet))
}

pub(super) fn fleet(path: Option<&Path>) -> anyhow::Result<Fleet> {
    let Some(path) = path else { return Ok(Fleet::parse("the lab's fleet", LAB)?) };
    let file = path.display().to_string();
    let text = crate::text::read(path).map_err(|error| UsageError(error.of(&file)))?;
    let fleet = Fleet::parse(&file, &text);
    Ok(fleet.map_err(|error| UsageError(error.to_string()))?)
}

/// A kubeconfig that somebody else wrote, or that leads to a cluster that lives, is not ours to
/// overwrite.
fn refuse_taken(path: &Path) -> anyhow::Result<()> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
    let why = if !text.contains("schedlab") {
        "is not one of schedlab's".to_owned()
    } else if let Some(server) = server_of(&text).filter(|server| answers(server)) {
        format!("leads to a cluster that runs at {server}")
    } else {
        return Ok(());
    };
    let path = path.display();
    Err(UsageError(format!("{path} exists and {why}; name another with --kubeconfig")).into())
}

/// Host and port of the server in a kubeconfig of ours.
fn server_of(kubeconfig: &str) -> Option<String> {
    let config: schedlab_json::Value = serde_yaml::from_str(kubeconfig).ok()?;
    let server = config.pointer("/clusters/0/cluster/server")?.as_str()?;
    let authority = server.parse::<http::Uri>().ok()?.authority()?.to_string();
    Some(authority)
}

fn answers(server: &str) -> bool {
    let addresses = server.to_socket_addrs().into_iter().flatten();
    let soon = Duration::from_secs(1);
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, soon).is_ok())
}

async fn serve(args: &Up, fleet: &Fleet) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    // Before anything is printed: whoever reads it may end the cluster at once.
    let mut signals = Signals::listen()?;
    let emulator = Emulator::start(Options::at(Clock::real()));
    emulator.add_fleet(fleet).map_err(|error| UsageError(error.to_string()))?;
    install(&Api::new(emulator.client())).await?;
    let configs = schedulers(args);
    let beside = beside(&configs);
    let clock = emulator.clock().clone();
    let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
    let mut scheduling = tokio::task::JoinSet::new();
    for config in configs {
        scheduling.spawn(schedlab_scheduler::run(emulator.client(), config, Arc::clone(&now)));
    }
    let address = SocketAddr::from((args.address, args.port));
    let server = if args.address.is_loopback() {
        emulator.serve(address).await?
    } else {
        emulator.serve_network(address).await?
    };
    let kubeconfig = Kubeconfig::give(&args.kubeconfig, &server, &mut output).await?;
    let file = match &kubeconfig.given {
        Some((path, _)) => path.to_string_lossy(),
        None => "<the file you keep it in>".into(),
    };
    output.note(&format!(
        "{} nodes and {beside} at https://{}\ntry: kubectl --kubeconfig {file} \
         get nodes,pods -A\nCtrl-C ends it",
        fleet.nodes().len(),
        server.address,
    ));
    let exit = tokio::select! {
        Some(ended) = scheduling.join_next() => {
            let error = match ended {
                Ok(Ok(())) => anyhow::anyhow!("it returned"),
                Ok(Err(error)) => error,
                Err(panic) => panic.into(),
            };
            Err(error.context("the scheduler ended"))
        }
        () = signals.asked() => Ok(Exit::Passed),
    };
    server.shut_down().await;
    kubeconfig.take_back(&mut output).await;
    if exit.is_ok() {
        output.note("the cluster is gone");
    }
    exit
}

/// As a cluster with KAI has them: kube-scheduler takes the pods that name no scheduler.
fn schedulers(args: &Up) -> Vec<Config> {
    match args.profile {
        _ if args.no_scheduler => Vec::new(),
        ProfileName::Kai => vec![Config::kai(), Config::kube()],
        ProfileName::Kube => vec![Config::kube()],
    }
}

/// Which pods they take.
fn beside(configs: &[Config]) -> String {
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

/// Writes a file that nobody else can read: the token in a kubeconfig makes its reader an
/// administrator.
pub(super) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// A kubeconfig file that goes when the cluster goes, unless somebody else has written it anew.
struct Kubeconfig {
    /// The file, and the run that takes it away; none where the text went to standard output.
    given: Option<(PathBuf, Run)>,
}

impl Kubeconfig {
    /// Writes the file and its path, or for `-` the text itself.
    async fn give(path: &Path, server: &Server, output: &mut Output) -> anyhow::Result<Self> {
        let text = &server.kubeconfig;
        if path == Path::new("-") {
            output.data(&format!("{}\n", text.trim_end()));
            return Ok(Self { given: None });
        }
        let whole = std::path::absolute(path).context("no folder to write a kubeconfig to")?;
        let leads_to = server_of(text).context("our own kubeconfig")?;
        let run = Run::begin("up")?;
        let noted = run.note(Thing::Kubeconfig { path: whole, server: leads_to });
        if let Err(error) = noted.and_then(|()| write_private(path, text)) {
            // What is left of it is in the record still.
            run.end().await;
            return Err(error);
        }
        output.data(&format!("{}\n", path.display()));
        Ok(Self { given: Some((path.to_path_buf(), run)) })
    }

    /// Removes it.
    async fn take_back(self, output: &mut Output) {
        let Some((_, run)) = self.given else { return };
        for left in run.end().await {
            output.note(&format!("could not be removed: {left:?}; try schedlab clean"));
        }
    }
}
