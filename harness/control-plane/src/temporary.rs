//! A control plane for a test or benchmark. All processes end on drop, and with the test process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context as _;
use kube::Client;
use tempfile::TempDir;

use crate::assets::{Assets, VERSIONS, find_assets};
use crate::plane::{ControlPlane, FeatureGateArguments, Process, client_config};

/// A shell script that runs its arguments as a program and kills it when standard input closes,
/// also if the test process is killed. It ends with the program.
const WATCHDOG_SCRIPT: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- & pid=$!
{ read -r _; kill -9 "$pid"; } <&3 & reader=$!
wait "$pid"
kill "$reader"
"#;

/// The programs that a test needs. Without them the test is skipped, or fails if
/// `SCHEDLAB_REQUIRE` includes `control-plane`.
pub fn test_assets(programs: &[&'static str]) -> Option<Assets> {
    let found = find_assets(None, programs).map_err(|missing| missing.to_string());
    match found.and_then(|assets| check_version(&assets).map(|()| assets)) {
        Ok(assets) => Some(assets),
        Err(why) => {
            skip(&why);
            None
        }
    }
}

fn check_version(assets: &Assets) -> Result<(), String> {
    let version = assets.version()?;
    let minor = |version: &str| version.rsplit_once('.').map(|(minor, _)| minor.to_owned());
    if VERSIONS.iter().any(|supported| minor(supported) == minor(&version)) {
        return Ok(());
    }
    let program = assets.program("kube-apiserver");
    Err(format!("{} is {version}; tests require {}", program.display(), VERSIONS.join(" or ")))
}

/// Prints that the test is skipped, or fails if that is not allowed.
#[expect(clippy::print_stdout, reason = "a skipped test reports itself")]
fn skip(why: &str) {
    let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|kind| kind.trim() == "control-plane");
    assert!(!is_required, "{why}; SCHEDLAB_REQUIRE requires it");
    println!("skipped: {why}");
}

/// etcd, kube-apiserver and further processes.
#[derive(Debug)]
pub struct TemporaryControlPlane {
    // Fields are dropped in this order.
    plane: ControlPlane<ChildProcess>,
    folder: TempDir,
}

impl TemporaryControlPlane {
    /// Starts etcd and the API server with additional arguments, and waits until they are ready.
    ///
    /// # Errors
    ///
    /// A program cannot be started or ends, or the API server is not ready in time.
    pub async fn boot(assets: &Assets, own: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let plane = ControlPlane::start(assets, folder.path(), own, ChildProcess::start)?;
        let mut control_plane = Self { plane, folder };
        control_plane.plane.wait_ready().await?;
        Ok(control_plane)
    }

    /// Starts the controller manager.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn start_controller_manager(&mut self) -> anyhow::Result<()> {
        self.plane.start_controller_manager(&[], ChildProcess::start)
    }

    /// Starts the kube-controller-manager of the assets with feature gates: `A=true,B=true`.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn start_controller_manager_with_gates(&mut self, gates: &str) -> anyhow::Result<()> {
        let gates = FeatureGateArguments::new(gates);
        self.plane.start_controller_manager(&gates.of_controller_manager(), ChildProcess::start)
    }

    /// A client of the administrator.
    ///
    /// # Errors
    ///
    /// The TLS settings of the client cannot be built.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::try_from(client_config(self.kubeconfig()).await?).context("cannot create a client")
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> &str {
        self.plane.kubeconfig()
    }

    /// The file with the kubeconfig.
    pub fn kubeconfig_file(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    /// The folder with files and logs, removed on drop.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts another program of the assets, with its output in the log of that name.
    ///
    /// # Errors
    ///
    /// The program does not exist or cannot be started.
    pub fn start_program(
        &self,
        program: &str,
        arguments: &[String],
    ) -> anyhow::Result<ChildProcess> {
        self.start_external(&self.plane.assets().program(program), arguments)
    }

    /// Starts a program from any path, with its output in the log of that name.
    ///
    /// # Errors
    ///
    /// The program does not exist or cannot be started.
    pub fn start_external(
        &self,
        program: &Path,
        arguments: &[String],
    ) -> anyhow::Result<ChildProcess> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        ChildProcess::start(program, arguments, &self.folder().join(format!("{name}.log")))
    }
}

/// A process that ends with the test process.
#[derive(Debug)]
pub struct ChildProcess {
    watchdog: Child,
    /// Closing standard input ends the process.
    stdin: Option<ChildStdin>,
}

impl ChildProcess {
    fn start(program: &Path, arguments: &[String], log: &Path) -> anyhow::Result<Self> {
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("sh");
        command.args(["-c", WATCHDOG_SCRIPT, "keeper"]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        let keeper = command.spawn();
        let mut keeper = keeper.with_context(|| format!("cannot start {}", program.display()))?;
        let life = keeper.stdin.take();
        Ok(Self { watchdog: keeper, stdin: life })
    }
}

impl Process for ChildProcess {
    fn is_running(&mut self) -> bool {
        matches!(self.watchdog.try_wait(), Ok(None))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.watchdog.wait();
    }
}
