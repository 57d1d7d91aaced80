//! The two clusters.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use schedlab::api::{Api, api_error};
use schedlab::clusters::ACTORS_OWN_CONTROL_PLANE;
use schedlab::scenario_cluster::collections;
use schedlab_control_plane::{Assets, TemporaryControlPlane};
use schedlab_emulator::clock::Clock;
use schedlab_emulator::remote_controllers::{RemoteControllers, RemoteOptions};
use schedlab_emulator::third_party_crds::workload_crds;
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
    _troupe: RemoteControllers,
    plane: TemporaryControlPlane,
}

impl Real {
    pub(crate) async fn start(assets: &Assets) -> anyhow::Result<Self> {
        let mut plane =
            TemporaryControlPlane::boot(assets, &["--allow-privileged=true", ADDRESSES]).await?;
        plane.start_controller_manager()?;
        let api = Api::new(plane.client().await?);
        install(&api).await?;
        let clock = Clock::real();
        let troupe = RemoteControllers::start(RemoteOptions {
            client: plane.client().await?,
            clock: clock.clone(),
            controllers: ACTORS_OWN_CONTROL_PLANE.to_vec(),
            collections: collections(false),
            kubelet_defaults: KubeletDefaults::default(),
            observe: Box::new(|_| ()),
        });
        let troupe = troupe.await.context("cannot watch the cluster")?;
        for node in Fleet::parse("the fleet", FLEET)?.nodes() {
            api.post("/api/v1/nodes", node).await.map_err(api_error)?;
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
    let definitions: Vec<Value> = crds::all().into_iter().chain(workload_crds()).collect();
    for definition in &definitions {
        api.post(DEFINITIONS, definition).await.map_err(api_error)?;
    }
    for class in crds::priority_classes() {
        api.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.map_err(api_error)?;
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
