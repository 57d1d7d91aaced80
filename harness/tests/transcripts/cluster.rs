//! The two clusters.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use schedlab::api::{Api, refusal};
use schedlab::cluster::collections;
use schedlab::ground::OWN_CLUSTER;
use schedlab_control_plane::{Assets, Temporary};
use schedlab_emulator::clock::Clock;
use schedlab_emulator::crds::workload_kinds;
use schedlab_emulator::remote::{Cast, Troupe};
use schedlab_emulator::{Fleet, KubeletDefaults};
use schedlab_json::Value;
use schedlab_scheduler::{Config, crds};
use tempfile::TempDir;
use tokio::task::JoinSet;

const FLEET: &str = "pools: [{name: gpu, count: 2, gpus: 8, cpu: 64, memory: 512Gi}]\n";

/// Where the emulator's services have theirs.
const ADDRESSES: &str = "--service-cluster-ip-range=10.96.0.0/16";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// `schedlab up`, as a process; it ends with this.
pub(crate) struct Up {
    process: Child,
    home: TempDir,
}

impl Up {
    /// Starts it and waits until it says where its kubeconfig is.
    pub(crate) fn start() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::write(home.path().join("fleet.yaml"), FLEET).expect("a file can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(["up", "--fleet", "fleet.yaml"]).current_dir(home.path());
        command.env("XDG_STATE_HOME", home.path()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the program runs");
        let mut told = BufReader::new(process.stdout.take().expect("it is piped"));
        let up = Self { process, home };
        let mut path = String::new();
        told.read_line(&mut path).expect("it prints UTF-8");
        assert_eq!(PathBuf::from(path.trim()), PathBuf::from("schedlab.kubeconfig"));
        up
    }

    pub(crate) fn kubeconfig(&self) -> String {
        let path = self.home.path().join("schedlab.kubeconfig");
        std::fs::read_to_string(path).expect("the kubeconfig is there")
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A real API server and real controllers, with the fleet, its kubelets and the schedulers that
/// `schedlab up` has.
pub(crate) struct Real {
    _schedulers: JoinSet<anyhow::Result<()>>,
    _troupe: Troupe,
    plane: Temporary,
}

impl Real {
    pub(crate) async fn start(assets: &Assets) -> anyhow::Result<Self> {
        let mut plane = Temporary::boot(assets, &["--allow-privileged=true", ADDRESSES]).await?;
        plane.manage()?;
        let api = Api::new(plane.client().await?);
        install(&api).await?;
        let clock = Clock::real();
        let troupe = Troupe::start(Cast {
            client: plane.client().await?,
            clock: clock.clone(),
            actors: OWN_CLUSTER.to_vec(),
            collections: collections(false),
            defaults: KubeletDefaults::default(),
            observe: Box::new(|_| ()),
        });
        let troupe = troupe.await.context("cannot watch the cluster")?;
        for node in Fleet::parse("the fleet", FLEET)?.nodes() {
            api.post("/api/v1/nodes", node).await.map_err(refusal)?;
        }
        let mut schedulers = JoinSet::new();
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        for config in [Config::kai(), Config::kube()] {
            let client = plane.client().await?;
            schedulers.spawn(schedlab_scheduler::run(client, config, Arc::clone(&now)));
        }
        Ok(Self { _schedulers: schedulers, _troupe: troupe, plane })
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        self.plane.kubeconfig()
    }
}

/// Brings the kinds and the priority classes that `schedlab up` has.
async fn install(api: &Api) -> anyhow::Result<()> {
    let definitions: Vec<Value> = crds::all().into_iter().chain(workload_kinds()).collect();
    for definition in &definitions {
        api.post(DEFINITIONS, definition).await.map_err(refusal)?;
    }
    for class in crds::priority_classes() {
        api.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.map_err(refusal)?;
    }
    for definition in &definitions {
        let text = |at: &str| definition.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
        let path = format!("/apis/{group}/{}/{plural}", text("/spec/versions/0/name"));
        // It is served a moment after it was made.
        while api.get(&path).await.is_err() {}
    }
    Ok(())
}
