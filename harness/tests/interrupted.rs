//! Cleanup after interrupted runs and upgrades, on a control plane that `schedlab` starts and on an
//! existing cluster: Ctrl-C removes all resources, and `schedlab clean` removes those of a process
//! that was killed. Without the control plane programs the tests are skipped;
//! `SCHEDLAB_REQUIRE=control-plane` makes that a failure.
#![expect(clippy::print_stdout, reason = "a skipped test says why")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use schedlab_api::Value;
use schedlab_control_plane::{Assets, ChildProcess, PROGRAMS, TemporaryControlPlane, test_assets};
use tempfile::TempDir;

/// The file with the standard output of a run.
const REPORT: &str = "report";
const SHORT_SCENARIOS: &str = "features/quota/limits.feature";
/// A scenario whose steps pass at once, but whose pods need five minutes to start before it is
/// settled.
const SLOW_SCENARIO: &str = "features/quota/bugs.feature:25";

/// A `schedlab` process in the middle of a run or an upgrade.
struct RunningProcess {
    state: TempDir,
    child: Child,
    /// Ids of its runs, which are in the names of all its resources.
    ids: Vec<String>,
    /// Receives a message for each report of a slow scenario.
    slow_reports: mpsc::Receiver<()>,
}

impl RunningProcess {
    /// Runs a feature on a control plane that `schedlab` starts; `None` if the programs are
    /// missing.
    fn run_feature(feature: &str) -> Option<Self> {
        let running = Self::start(&["run", feature, "--cluster", "control-plane"], "ready in")?;
        running.assert_control_plane_runs();
        Some(running)
    }

    /// Starts `schedlab`, and waits until its standard error contains `started`; `None` if the
    /// control plane programs are missing.
    fn start(args: &[&str], started: &str) -> Option<Self> {
        let state = TempDir::new().unwrap();
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut command = schedlab(state.path());
        command.args(args).current_dir(workspace);
        if args[0] == "run" {
            command.arg("--results").arg(state.path().join("results"));
        }
        let report = fs::File::create(state.path().join(REPORT)).unwrap();
        let mut child = command.stdout(report).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        // A slow boot prints other lines first.
        let line =
            lines.find(|line| line.contains("no control plane") || line.contains(started)).unwrap();
        if line.contains("no control plane") {
            let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
            assert!(!required.contains("control-plane"), "{line}");
            println!("skipped: {line}");
            child.wait().unwrap();
            return None;
        }
        // All lines have to be read, or the process blocks.
        let (slow, slow_reports) = mpsc::channel();
        std::thread::spawn(move || {
            lines
                .filter(|line| line.starts_with("SLOW "))
                .for_each(|_| slow.send(()).unwrap_or(()));
        });
        let ids = records(state.path());
        assert!(!ids.is_empty());
        Some(Self { state, child, ids, slow_reports })
    }

    fn assert_control_plane_runs(&self) {
        let programs = ["etcd", "kube-apiserver", "kube-controller-manager"];
        let is_running = |name: &str| self.processes().iter().any(|line| line.contains(name));
        assert!(programs.into_iter().all(is_running), "{:?}", self.processes());
    }

    /// Sends a signal and waits until the process ends; returns the exit code, if there is one.
    fn end_with(&mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        self.child.wait().unwrap().code()
    }

    /// Command lines of its child processes that are running.
    fn processes(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| self.ids.iter().any(|id| line.contains(id))).collect()
    }

    /// Names of its temporary folders.
    fn folders(&self) -> Vec<String> {
        let entries = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| self.ids.iter().any(|id| name.contains(id))).collect()
    }

    /// Its processes, folders and records that still exist.
    fn leftovers(&self) -> [Vec<String>; 3] {
        [self.processes(), self.folders(), records(self.state.path())]
    }
}

fn schedlab(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.env("XDG_STATE_HOME", state);
    command
}

/// Ids of the runs that may have left something to clean up.
fn records(state: &Path) -> Vec<String> {
    let entries = fs::read_dir(state.join("schedlab/runs")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

const NO_LEFTOVERS: [Vec<String>; 3] = [Vec::new(), Vec::new(), Vec::new()];

#[test]
fn ctrl_c_during_a_run_leaves_nothing() {
    let Some(mut running) = RunningProcess::run_feature(SHORT_SCENARIOS) else { return };
    assert_eq!(running.end_with("-INT"), Some(130));
    assert_eq!(running.leftovers(), NO_LEFTOVERS);
}

#[test]
fn clean_removes_the_leftovers_of_a_killed_run_but_not_of_a_running_one() {
    // The other run has to last longer than the boot of the killed one.
    let (Some(mut other), Some(mut killed)) =
        (RunningProcess::run_feature(SLOW_SCENARIO), RunningProcess::run_feature(SHORT_SCENARIOS))
    else {
        return;
    };
    assert_eq!(killed.end_with("-KILL"), None);
    assert_eq!(killed.folders().len(), 1, "{:?}", killed.folders());
    for state in [&killed.state, &other.state] {
        let cleaned = schedlab(state.path()).arg("clean").output().unwrap();
        assert!(cleaned.status.success(), "{cleaned:?}");
    }
    assert_eq!(killed.leftovers(), NO_LEFTOVERS);
    assert!(other.processes().len() >= 3, "{:?}", other.processes());
    assert_eq!(other.end_with("-INT"), Some(130));
    assert_eq!(other.leftovers(), NO_LEFTOVERS);
}

#[test]
fn ctrl_c_ends_a_scenario_that_is_settling() {
    let Some(mut running) = RunningProcess::run_feature(SLOW_SCENARIO) else { return };
    running.slow_reports.recv().unwrap();
    assert_eq!(running.end_with("-INT"), Some(130));
    let report = fs::read_to_string(running.state.path().join(REPORT)).unwrap();
    assert!(report.contains("0 passed, 1 not started"), "{report}");
    assert_eq!(running.leftovers(), NO_LEFTOVERS);
}

/// An upgrade from a version that schedules nothing, so that the upgrade waits.
const IDLE_UPGRADE: [&str; 7] = [
    "upgrade",
    "--cluster",
    "control-plane",
    "--from",
    "process:sleep 600",
    "--to",
    "process:sleep 600",
];

#[test]
fn an_interrupted_upgrade_leaves_nothing() {
    // The nodes exist, and the old version runs.
    let started = "4 nodes: ";
    let Some(mut running) = RunningProcess::start(&IDLE_UPGRADE, started) else { return };
    running.assert_control_plane_runs();
    assert_eq!(running.end_with("-INT"), Some(130));
    assert_eq!(running.leftovers(), NO_LEFTOVERS);

    let Some(mut killed) = RunningProcess::start(&IDLE_UPGRADE, started) else { return };
    assert_eq!(killed.end_with("-KILL"), None);
    let cleaned = schedlab(killed.state.path()).arg("clean").output().unwrap();
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(killed.leftovers(), NO_LEFTOVERS);
}

/// The scheduler sends no requests, so it does not notice that the upgrade was killed: its watchdog
/// has to end it. When it ends, its end of the pipe closes.
#[test]
fn the_scheduler_of_a_killed_upgrade_ends() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let idle = format!("process:sh -c 'sleep 100; echo survived' >{}", pipe.display());
    let upgrade = ["upgrade", "--from", &idle, "--to", &idle];
    let mut killed = RunningProcess::start(&upgrade, "4 nodes: ").unwrap();
    let mut output = fs::File::open(&pipe).unwrap();
    assert_eq!(killed.end_with("-KILL"), None);
    assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
    let cleaned = schedlab(killed.state.path()).arg("clean").output().unwrap();
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(killed.leftovers(), NO_LEFTOVERS);
}

/// A cluster that exists before the run.
struct ExistingCluster {
    plane: TemporaryControlPlane,
    client: Client,
}

/// Collections in which a run may create objects outside its own namespaces.
const COLLECTIONS: [&str; 16] = [
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/persistentvolumes",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "/apis/scheduling.run.ai/v2/queues",
    "/apis/kai.scheduler/v1alpha1/topologies",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
];

impl ExistingCluster {
    async fn boot(assets: &Assets) -> Self {
        // No controller creates the service accounts that this plugin needs.
        let args = ["--disable-admission-plugins=ServiceAccount"];
        let mut plane = TemporaryControlPlane::boot(assets, &args).await.unwrap();
        plane.start_controller_manager().unwrap();
        let client = plane.client().await.unwrap();
        Self { plane, client }
    }

    /// Names of all objects in [`COLLECTIONS`].
    async fn names(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for collection in COLLECTIONS {
            let request = http::Request::get(collection).body(Vec::new()).unwrap();
            let list: Value = self.client.request(request).await.unwrap_or_default();
            let names = list["items"].as_array().into_iter().flatten();
            found.extend(names.map(|one| format!("{collection}/{}", one["metadata"]["name"])));
        }
        found
    }

    /// Starts a run on this cluster, and waits for one of its nodes; returns the run and the node's
    /// name.
    async fn start_run(&self) -> (RunningProcess, String) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut events = nodes.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        let kubeconfig = self.plane.kubeconfig_file().display().to_string();
        let named = ["--kubeconfig", &kubeconfig, "--context", "schedlab", "--confirm"];
        let args = [&["run", SHORT_SCENARIOS, "--cluster", "kubeconfig"][..], &named].concat();
        let running = RunningProcess::start(&args, "ready in").unwrap();
        loop {
            if let Some(WatchEvent::Added(node)) = events.try_next().await.unwrap()
                && let Some(name) = node.metadata.name.filter(|name| !name.ends_with("-kwok"))
            {
                return (running, name);
            }
        }
    }

    /// Starts the node life cycle controller, which writes events about nodes; dropping it ends it.
    fn start_node_lifecycle_controller(&self) -> ChildProcess {
        let kubeconfig = format!("--kubeconfig={}", self.plane.kubeconfig_file().display());
        let more = ["--controllers=node-lifecycle-controller", "--leader-elect=false"];
        let more = more.into_iter().chain(["--secure-port=0"]).map(str::to_owned);
        let arguments: Vec<String> = more.chain([kubeconfig]).collect();
        self.plane.start_program("kube-controller-manager", &arguments).unwrap()
    }

    /// Watches events about nodes with this reason; yields the names of the nodes.
    async fn watch_node_events(&self, reason: &str) -> impl Stream<Item = String> + use<> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let of_nodes = format!("involvedObject.kind=Node,reason={reason}");
        let only = WatchParams::default().fields(&of_nodes);
        let stream = events.watch(&only, "0").await.unwrap().boxed();
        stream
            .filter_map(async |event| {
                let WatchEvent::Added(event) = event.unwrap() else { return None };
                event.involved_object.name
            })
            .boxed()
    }

    /// All events about nodes, once the controller has written those about all nodes that were
    /// created and deleted until now: it writes events about created nodes before those about
    /// deleted ones.
    async fn list_node_events(&self) -> Vec<String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = schedlab_api::json!({"metadata": {"generateName": "last-"}});
        let node = schedlab_api::from_value(node).unwrap();
        let mut registered = self.watch_node_events("RegisteredNode").await;
        let mut removed = self.watch_node_events("RemovingNode").await;
        let last = nodes.create(&PostParams::default(), &node).await.unwrap();
        let last = last.metadata.name.unwrap();
        while registered.next().await.unwrap() != last {}
        nodes.delete(&last, &DeleteParams::default()).await.unwrap();
        while removed.next().await.unwrap() != last {}
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let of_nodes = ListParams::default().fields("involvedObject.kind=Node");
        let events = events.list(&of_nodes).await.unwrap().items.into_iter();
        let pairs =
            events.map(|event| (event.involved_object.name.unwrap(), event.reason.unwrap()));
        let others = pairs.filter(|(node, _)| !node.starts_with("last-"));
        others.map(|(node, reason)| format!("{node} {reason}")).collect()
    }

    /// Creates a pod on a node that tolerates all taints, like a pod of a DaemonSet.
    async fn create_daemon_pod(&self, node: &str) {
        let pod = schedlab_api::json!({
            "metadata": {"name": "daemon"},
            "spec": {
                "nodeName": node,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "i"}],
            },
        });
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let pod = schedlab_api::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
}

#[tokio::test]
async fn an_interrupted_run_leaves_nothing_on_an_existing_cluster() {
    let Some(assets) = test_assets(&PROGRAMS) else { return };
    let cluster = ExistingCluster::boot(&assets).await;
    let before = cluster.names().await;
    let (mut running, node) = cluster.start_run().await;
    cluster.create_daemon_pod(&node).await;
    assert_eq!(running.end_with("-INT"), Some(130));
    assert_eq!(running.leftovers(), NO_LEFTOVERS);
    assert_eq!(cluster.names().await, before);

    let (mut killed, node) = cluster.start_run().await;
    assert_eq!(killed.end_with("-KILL"), None);
    cluster.create_daemon_pod(&node).await;
    assert_ne!(cluster.names().await, before);
    let cleaned = schedlab(killed.state.path()).arg("clean").output().unwrap();
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(killed.leftovers(), NO_LEFTOVERS);
    assert_eq!(cluster.names().await, before);
}

#[tokio::test]
async fn an_interrupted_run_leaves_no_node_events_on_an_existing_cluster() {
    let Some(assets) = test_assets(&PROGRAMS) else { return };
    let cluster = ExistingCluster::boot(&assets).await;
    let _controller = cluster.start_node_lifecycle_controller();
    for signal in ["-INT", "-KILL"] {
        let mut registered = cluster.watch_node_events("RegisteredNode").await;
        let (mut running, _) = cluster.start_run().await;
        // The scenarios need their nodes for longer than this.
        assert!(registered.next().await.is_some());
        running.end_with(signal);
        let cleaned = schedlab(running.state.path()).arg("clean").output().unwrap();
        assert!(cleaned.status.success(), "{cleaned:?}");
        assert_eq!(running.leftovers(), NO_LEFTOVERS);
        assert_eq!(cluster.list_node_events().await, Vec::<String>::new(), "{signal}");
    }
}
