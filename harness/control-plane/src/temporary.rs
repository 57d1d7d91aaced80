//! A control plane for one test or benchmark. Everything ends when it is dropped, or when we do.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context as _;
use kube::Client;
use tempfile::TempDir;

use crate::assets::{Assets, find};
use crate::plane::{ControlPlane, Process, config};

/// Starts its arguments, and ends them when standard input does: also when we are killed. It ends
/// with them, too.
const KEEPER: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- & pid=$!
{ read -r _; kill -9 "$pid"; } <&3 & reader=$!
wait "$pid"
kill "$reader"
"#;

/// The version that tests hold us against.
const VERSION: &str = " v1.35.";

/// The programs that a test needs; without them it says that it is skipped, or fails where that
/// is not allowed.
pub fn assets_for_a_test(programs: &[&'static str]) -> Option<Assets> {
    let found = find(None, programs).map_err(|missing| missing.to_string());
    match found.and_then(|assets| is_tested(&assets).map(|()| assets)) {
        Ok(assets) => Some(assets),
        Err(why) => {
            skip(&why);
            None
        }
    }
}

fn is_tested(assets: &Assets) -> Result<(), String> {
    let program = assets.program("kube-apiserver");
    let told = Command::new(&program).arg("--version").output();
    let told = told.map_err(|error| format!("{}: {error}", program.display()))?.stdout;
    let told = String::from_utf8_lossy(&told);
    if told.contains(VERSION) {
        return Ok(());
    }
    Err(format!("{} is {}; tests hold for{VERSION}x", program.display(), told.trim()))
}

/// Nothing can be tested here: says so, or fails where that is not allowed.
#[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
fn skip(why: &str) {
    let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|kind| kind.trim() == "control-plane");
    assert!(!is_required, "{why}; SCHEDLAB_REQUIRE asks for it");
    println!("skipped: {why}");
}

/// etcd and kube-apiserver, and whoever is started beside them.
#[derive(Debug)]
pub struct Temporary {
    // In the order in which they end.
    plane: ControlPlane<Kept>,
    folder: TempDir,
}

impl Temporary {
    /// Starts both, with arguments of the test's own for the API server, and waits until they
    /// are ready.
    pub async fn boot(assets: &Assets, own: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let plane = ControlPlane::start(assets, folder.path(), own, Kept::start)?;
        let mut booted = Self { plane, folder };
        booted.plane.ready().await?;
        Ok(booted)
    }

    /// Starts the controller manager beside them.
    pub fn manage(&mut self) -> anyhow::Result<()> {
        self.plane.manage(Kept::start)
    }

    /// A client that may do everything, on the current runtime.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::try_from(config(self.kubeconfig()).await?).context("no client")
    }

    /// How others reach it as an administrator.
    pub fn kubeconfig(&self) -> &str {
        self.plane.kubeconfig()
    }

    /// The same as a file.
    pub fn kubeconfig_file(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    /// Where its files and logs are; gone when it is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts another of its programs beside it; its output goes to the log of that name.
    pub fn start(&self, program: &str, arguments: &[String]) -> anyhow::Result<Kept> {
        self.start_other(&self.plane.assets().program(program), arguments)
    }

    /// The same with a program of somebody else.
    pub fn start_other(&self, program: &Path, arguments: &[String]) -> anyhow::Result<Kept> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        Kept::start(program, arguments, &self.folder().join(format!("{name}.log")))
    }
}

/// A process that ends with us.
#[derive(Debug)]
pub struct Kept {
    keeper: Child,
    /// Closing it ends the process.
    life: Option<ChildStdin>,
}

impl Kept {
    fn start(program: &Path, arguments: &[String], log: &Path) -> anyhow::Result<Self> {
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "keeper"]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        let keeper = command.spawn();
        let mut keeper = keeper.with_context(|| format!("cannot start {}", program.display()))?;
        let life = keeper.stdin.take();
        Ok(Self { keeper, life })
    }
}

impl Process for Kept {
    fn lives(&mut self) -> bool {
        matches!(self.keeper.try_wait(), Ok(None))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.life = None;
        let _ = self.keeper.wait();
    }
}
