//! A run that ends before its time, on a control plane of ours or on a cluster of somebody else, and
//! an upgrade: Ctrl-C takes everything away, and what `kill -9` leaves goes with `schedlab clean`. Where there are no programs this is skipped;
//! `SCHEDLAB_REQUIRE=control-plane` makes that a failure.
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]
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
use schedlab_control_plane::{Assets, ChildProcess, PROGRAMS, TemporaryControlPlane, test_assets};
use schedlab_json::Value;
use tempfile::TempDir;

/// Where a run's report is kept.
const REPORT: &str = "report";
const MANY: &str = "features/quota/limits.feature";
/// All its steps hold at once; then it waits for pods to start, which takes them five minutes.
const LONG: &str = "features/quota/bugs.feature:25";

/// Something in the middle of its work.
struct Running {
    state: TempDir,
    child: Child,
    /// Stand in the names of all that it makes.
    ids: Vec<String>,
    /// Each time that it says that a scenario takes long.
    is_slow: mpsc::Receiver<()>,
}

impl Running {
    /// Scenarios on a control plane of ours; `None` where none can be started.
    fn begin(feature: &str) -> Option<Self> {
        let running = Self::start(&["run", feature, "--cluster", "control-plane"], "ready in")?;
        running.has_a_control_plane();
        Some(running)
    }

    /// Starts it, and waits until it has said this; `None` where there are no programs.
    fn start(args: &[&str], begun: &str) -> Option<Self> {
        let state = TempDir::new().unwrap();
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut command = schedlab(state.path());
        command.args(args).current_dir(workspace);
        if args[0] == "run" {
            command.arg("--results").arg(state.path().join("results"));
        }
        let report = fs::File::create(state.path().join(REPORT)).unwrap();
        let mut child = command.stdout(report).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        // A boot that takes long says so.
        let line =
            said.find(|line| line.contains("no control plane") || line.contains(begun)).unwrap();
        if line.contains("no control plane") {
            let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
            assert!(!required.contains("control-plane"), "{line}");
            println!("skipped: {line}");
            child.wait().unwrap();
            return None;
        }
        // Somebody has to take what it says, of interest or not.
        let (slow, is_slow) = mpsc::channel();
        std::thread::spawn(move || {
            said.filter(|line| line.starts_with("SLOW ")).for_each(|_| slow.send(()).unwrap_or(()));
        });
        let ids = records(state.path());
        assert!(!ids.is_empty());
        Some(Self { state, child, ids, is_slow })
    }

    fn has_a_control_plane(&self) {
        let programs = ["etcd", "kube-apiserver", "kube-controller-manager"];
        let lives = |name: &str| self.processes().iter().any(|line| line.contains(name));
        assert!(programs.into_iter().all(lives), "{:?}", self.processes());
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
        lines.filter(|line| self.ids.iter().any(|id| line.contains(id))).collect()
    }

    /// Its folders.
    fn folders(&self) -> Vec<String> {
        let entries = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| self.ids.iter().any(|id| name.contains(id))).collect()
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
    // The other one has to outlive the boot of the one that is killed, however long that takes.
    let (Some(mut other), Some(mut killed)) = (Running::begin(LONG), Running::begin(MANY)) else {
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

#[test]
fn ctrl_c_ends_a_scenario_that_comes_to_rest() {
    let Some(mut running) = Running::begin(LONG) else { return };
    running.is_slow.recv().unwrap();
    assert_eq!(running.end("-INT"), Some(130));
    let report = fs::read_to_string(running.state.path().join(REPORT)).unwrap();
    assert!(report.contains("0 passed, 1 not run"), "{report}");
    assert_eq!(running.left(), NOTHING);
}

/// An old version that schedules nothing: the upgrade waits for it.
const IDLE: [&str; 7] = [
    "upgrade",
    "--cluster",
    "control-plane",
    "--from",
    "process:sleep 600",
    "--to",
    "process:sleep 600",
];

#[test]
fn an_upgrade_that_ends_before_its_time_leaves_nothing() {
    // Its nodes are there, and the old version is at work.
    let begun = "4 nodes of 8 GPUs: ";
    let Some(mut running) = Running::start(&IDLE, begun) else { return };
    running.has_a_control_plane();
    assert_eq!(running.end("-INT"), Some(130));
    assert_eq!(running.left(), NOTHING);

    let Some(mut killed) = Running::start(&IDLE, begun) else { return };
    assert_eq!(killed.end("-KILL"), None);
    let cleaned = schedlab(killed.state.path()).arg("clean").output().unwrap();
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(killed.left(), NOTHING);
}

/// It asks for nothing, so only who keeps it can tell that nobody is there any more. Its end of a
/// pipe closes with it.
#[test]
fn the_scheduler_of_an_upgrade_ends_with_it_even_when_that_is_killed() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let idle = format!("process:sh -c 'sleep 100; echo survived' >{}", pipe.display());
    let upgrade = ["upgrade", "--from", &idle, "--to", &idle];
    let mut killed = Running::start(&upgrade, "4 nodes of 8 GPUs: ").unwrap();
    let mut said = fs::File::open(&pipe).unwrap();
    assert_eq!(killed.end("-KILL"), None);
    assert_eq!(said.read_to_end(&mut Vec::new()).unwrap(), 0);
    let cleaned = schedlab(killed.state.path()).arg("clean").output().unwrap();
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(killed.left(), NOTHING);
}

/// A cluster of somebody else.
struct Others {
    plane: TemporaryControlPlane,
    client: Client,
}

/// Where a run may make what is in no namespace of its own.
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

impl Others {
    async fn boot(assets: &Assets) -> Self {
        // Nobody makes the accounts that the API server would ask for.
        let own = ["--disable-admission-plugins=ServiceAccount"];
        let mut plane = TemporaryControlPlane::boot(assets, &own).await.unwrap();
        plane.start_controller_manager().unwrap();
        let client = plane.client().await.unwrap();
        Self { plane, client }
    }

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

    /// A run there, as soon as one of its nodes is there, and that node.
    async fn running(&self) -> (Running, String) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut news = nodes.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        let kubeconfig = self.plane.kubeconfig_file().display().to_string();
        let named = ["--kubeconfig", &kubeconfig, "--context", "schedlab", "--confirm"];
        let args = [&["run", MANY, "--cluster", "kubeconfig"][..], &named].concat();
        let running = Running::start(&args, "ready in").unwrap();
        loop {
            if let Some(WatchEvent::Added(node)) = news.try_next().await.unwrap()
                && let Some(name) = node.metadata.name.filter(|name| !name.ends_with("-kwok"))
            {
                return (running, name);
            }
        }
    }

    /// Starts the controller that tells of nodes; it goes when it is dropped.
    fn tells_of_nodes(&self) -> ChildProcess {
        let kubeconfig = format!("--kubeconfig={}", self.plane.kubeconfig_file().display());
        let more = ["--controllers=node-lifecycle-controller", "--leader-elect=false"];
        let more = more.into_iter().chain(["--secure-port=0"]).map(str::to_owned);
        let arguments: Vec<String> = more.chain([kubeconfig]).collect();
        self.plane.start_program("kube-controller-manager", &arguments).unwrap()
    }

    /// Names of nodes, in the order in which the node controller tells of them for this reason.
    async fn told_of_nodes(&self, reason: &str) -> impl Stream<Item = String> + use<> {
        let news: Api<Event> = Api::default_namespaced(self.client.clone());
        let of_nodes = format!("involvedObject.kind=Node,reason={reason}");
        let only = WatchParams::default().fields(&of_nodes);
        let told = news.watch(&only, "0").await.unwrap().boxed();
        told.filter_map(async |event| {
            let WatchEvent::Added(event) = event.unwrap() else { return None };
            event.involved_object.name
        })
        .boxed()
    }

    /// What is told of nodes, once the controller has told of all that came and went until now: it
    /// tells of those that came before those that went.
    async fn news_of_nodes(&self) -> Vec<String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = schedlab_json::json!({"metadata": {"generateName": "last-"}});
        let node = schedlab_json::from_value(node).unwrap();
        let mut came = self.told_of_nodes("RegisteredNode").await;
        let mut went = self.told_of_nodes("RemovingNode").await;
        let last = nodes.create(&PostParams::default(), &node).await.unwrap();
        let last = last.metadata.name.unwrap();
        while came.next().await.unwrap() != last {}
        nodes.delete(&last, &DeleteParams::default()).await.unwrap();
        while went.next().await.unwrap() != last {}
        let news: Api<Event> = Api::default_namespaced(self.client.clone());
        let of_nodes = ListParams::default().fields("involvedObject.kind=Node");
        let news = news.list(&of_nodes).await.unwrap().items.into_iter();
        let told = news.map(|event| (event.involved_object.name.unwrap(), event.reason.unwrap()));
        let others = told.filter(|(node, _)| !node.starts_with("last-"));
        others.map(|(node, reason)| format!("{node} {reason}")).collect()
    }

    /// A daemon's pod comes to a node, whatever its taints.
    async fn has_daemon(&self, node: &str) {
        let pod = schedlab_json::json!({
            "metadata": {"name": "daemon"},
            "spec": {
                "nodeName": node,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "i"}],
            },
        });
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let pod = schedlab_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
}

#[tokio::test]
async fn on_a_cluster_of_somebody_else_a_run_that_ends_before_its_time_leaves_nothing() {
    let Some(assets) = test_assets(&PROGRAMS) else { return };
    let others = Others::boot(&assets).await;
    let before = others.names().await;
    let (mut running, node) = others.running().await;
    others.has_daemon(&node).await;
    assert_eq!(running.end("-INT"), Some(130));
    assert_eq!(running.left(), NOTHING);
    assert_eq!(others.names().await, before);

    let (mut killed, node) = others.running().await;
    assert_eq!(killed.end("-KILL"), None);
    others.has_daemon(&node).await;
    assert_ne!(others.names().await, before);
    let cleaned = schedlab(killed.state.path()).arg("clean").output().unwrap();
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(killed.left(), NOTHING);
    assert_eq!(others.names().await, before);
}

#[tokio::test]
async fn on_a_cluster_of_somebody_else_no_news_of_a_runs_nodes_stays() {
    let Some(assets) = test_assets(&PROGRAMS) else { return };
    let others = Others::boot(&assets).await;
    let _controller = others.tells_of_nodes();
    for signal in ["-INT", "-KILL"] {
        let mut came = others.told_of_nodes("RegisteredNode").await;
        let (mut running, _) = others.running().await;
        // All that its nodes are needed for takes its scenarios longer.
        assert!(came.next().await.is_some());
        running.end(signal);
        let cleaned = schedlab(running.state.path()).arg("clean").output().unwrap();
        assert!(cleaned.status.success(), "{cleaned:?}");
        assert_eq!(running.left(), NOTHING);
        assert_eq!(others.news_of_nodes().await, Vec::<String>::new(), "{signal}");
    }
}
