//! A run on a control plane that ends before its time: Ctrl-C takes everything away, and what
//! `kill -9` leaves goes with `schedlab clean`. Where there are no programs this is skipped;
//! `SCHEDLAB_REQUIRE=control-plane` makes that a failure.
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use tempfile::TempDir;

/// Where a run's report is kept.
const REPORT: &str = "report";
const MANY: &str = "features/quota/limits.feature";

/// A run in the middle of its scenarios.
struct Running {
    state: TempDir,
    child: Child,
    /// Stands in the names of all that it makes.
    id: String,
    /// Each time that it says that a scenario takes long.
    is_slow: mpsc::Receiver<()>,
}

impl Running {
    /// `None` where no control plane can be started.
    fn begin(feature: &str) -> Option<Self> {
        let state = TempDir::new().unwrap();
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut command = schedlab(state.path());
        command.args(["run", feature, "--cluster", "control-plane"]);
        command.arg("--results").arg(state.path().join("results")).current_dir(workspace);
        let report = fs::File::create(state.path().join(REPORT)).unwrap();
        let mut child = command.stdout(report).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        // A boot that takes long says so.
        let line = said.find(|line| !line.starts_with("SLOW ")).unwrap();
        if line.contains("no control plane") {
            let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
            assert!(!required.contains("control-plane"), "{line}");
            println!("skipped: {line}");
            child.wait().unwrap();
            return None;
        }
        assert!(line.contains("ready in"), "{line}");
        // Somebody has to take what it says, of interest or not.
        let (slow, is_slow) = mpsc::channel();
        std::thread::spawn(move || {
            said.filter(|line| line.starts_with("SLOW ")).for_each(|_| slow.send(()).unwrap_or(()));
        });
        let id = records(state.path()).pop().unwrap();
        let running = Self { state, child, id, is_slow };
        let programs = ["etcd", "kube-apiserver", "kube-controller-manager"];
        let lives = |name: &str| running.processes().iter().any(|line| line.contains(name));
        assert!(programs.into_iter().all(lives), "{:?}", running.processes());
        Some(running)
    }

    /// Sends it a signal and waits for its end. The exit code, if it had one.
    fn end(&mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        self.child.wait().unwrap().code()
    }

    /// Command lines of its processes that still live, itself left out.
    fn processes(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| line.contains(&self.id)).collect()
    }

    /// Its folders.
    fn folders(&self) -> Vec<String> {
        let entries = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains(&self.id)).collect()
    }

    fn left(&self) -> [Vec<String>; 3] {
        [self.processes(), self.folders(), records(self.state.path())]
    }
}

fn schedlab(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.env("XDG_STATE_HOME", state);
    command
}

/// The ids of runs of which something may be left.
fn records(state: &Path) -> Vec<String> {
    let entries = fs::read_dir(state.join("schedlab/runs")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

const NOTHING: [Vec<String>; 3] = [Vec::new(), Vec::new(), Vec::new()];

#[test]
fn ctrl_c_in_the_middle_of_a_run_leaves_nothing() {
    let Some(mut running) = Running::begin(MANY) else { return };
    assert_eq!(running.end("-INT"), Some(130));
    assert_eq!(running.left(), NOTHING);
}

#[test]
fn a_run_that_was_killed_leaves_nothing_that_clean_does_not_find_while_another_goes_on() {
    let (Some(mut killed), Some(mut other)) = (Running::begin(MANY), Running::begin(MANY)) else {
        return;
    };
    assert_eq!(killed.end("-KILL"), None);
    assert_eq!(killed.folders().len(), 1, "{:?}", killed.folders());
    for state in [&killed.state, &other.state] {
        let cleaned = schedlab(state.path()).arg("clean").output().unwrap();
        assert!(cleaned.status.success(), "{cleaned:?}");
    }
    assert_eq!(killed.left(), NOTHING);
    assert!(other.processes().len() >= 3, "{:?}", other.processes());
    assert_eq!(other.end("-INT"), Some(130));
    assert_eq!(other.left(), NOTHING);
}

/// All its steps hold at once; then it waits for pods to start, which takes them five minutes.
#[test]
fn ctrl_c_ends_a_scenario_that_comes_to_rest() {
    let Some(mut running) = Running::begin("features/quota/bugs.feature:25") else { return };
    running.is_slow.recv().unwrap();
    assert_eq!(running.end("-INT"), Some(130));
    let report = fs::read_to_string(running.state.path().join(REPORT)).unwrap();
    assert!(report.contains("0 passed, 1 not run"), "{report}");
    assert_eq!(running.left(), NOTHING);
}
