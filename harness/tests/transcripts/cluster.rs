//! The two clusters that are compared: `schedlab up` and a control plane.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use schedlab_api::{Value, crds};
use schedlab_clusters::api::{Api, api_error};
use schedlab_clusters::real_cluster::ACTORS_OWN_CONTROL_PLANE;
use schedlab_conformance::world::scenario_cluster::collections;
use schedlab_control_plane::{Assets, TemporaryControlPlane};
use schedlab_emulator::clock::Clock;
use schedlab_emulator::controllers::remote_controllers::{RemoteControllers, RemoteOptions};
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::workload_crds;
use schedlab_emulator::{Fleet, KubeletDefaults};
use schedlab_scheduler::Config;
use tempfile::TempDir;
use tokio::task::JoinSet;

const FLEET: &str = "pools: [{name: gpu, count: 2, gpus: 8, cpu: 64, memory: 512Gi}]\n";

/// The service addresses of the emulator.
const SERVICE_ADDRESSES: &str = "--service-cluster-ip-range=10.96.0.0/16";

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A `schedlab up` process, which dropping this ends.
pub(crate) struct UpCluster {
    process: Child,
    home: TempDir,
}

impl UpCluster {
    /// Starts `schedlab up` and waits until it has written its kubeconfig.
    pub(crate) fn start() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder can be created");
        std::fs::write(home.path().join("fleet.yaml"), FLEET).expect("a file can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(["up", "--fleet", "fleet.yaml"]).current_dir(home.path());
        command.env("XDG_STATE_HOME", home.path()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("schedlab runs");
        let mut stdout = BufReader::new(process.stdout.take().expect("standard output is piped"));
        let up = Self { process, home };
        let mut path = String::new();
        stdout.read_line(&mut path).expect("the output is UTF-8");
        assert_eq!(PathBuf::from(path.trim()), PathBuf::from("schedlab.kubeconfig"));
        up
    }

    pub(crate) fn kubeconfig(&self) -> String {
        let path = self.home.path().join("schedlab.kubeconfig");
        std::fs::read_to_string(path).expect("the kubeconfig exists")
    }
}

impl Drop for UpCluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A real API server and real controllers, with the fleet, the simulated kubelets and the
/// schedulers of `schedlab up`.
pub(crate) struct ControlPlaneCluster {
    _schedulers: JoinSet<anyhow::Result<()>>,
    _controllers: RemoteControllers,
    plane: TemporaryControlPlane,
}

impl ControlPlaneCluster {
    pub(crate) async fn start(assets: &Assets) -> anyhow::Result<Self> {
        let mut plane =
            TemporaryControlPlane::boot(assets, &["--allow-privileged=true", SERVICE_ADDRESSES])
                .await?;
        plane.start_controller_manager()?;
        let api = Api::new(plane.client().await?);
        install(&api).await?;
        let clock = Clock::real();
        let controllers = RemoteControllers::start(RemoteOptions {
            client: plane.client().await?,
            clock: clock.clone(),
            controllers: ACTORS_OWN_CONTROL_PLANE.to_vec(),
            collections: collections(false),
            kubelet_defaults: KubeletDefaults::default(),
            feature_gates: FeatureGates::default(),
            observe: Box::new(|_| ()),
        });
        let controllers = controllers.await.context("cannot watch the cluster")?;
        for node in Fleet::parse("the fleet", FLEET)?.nodes() {
            api.post("/api/v1/nodes", node).await.map_err(api_error)?;
        }
        let mut schedulers = JoinSet::new();
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        for config in [Config::kai(), Config::kube()] {
            let client = plane.client().await?;
            schedulers.spawn(schedlab_scheduler::run(client, config, Arc::clone(&now)));
        }
        Ok(Self { _schedulers: schedulers, _controllers: controllers, plane })
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        self.plane.kubeconfig()
    }
}

/// Installs the CRDs and priority classes of `schedlab up`.
async fn install(api: &Api) -> anyhow::Result<()> {
    let definitions: Vec<Value> = crds::all().into_iter().chain(workload_crds()).collect();
    for definition in &definitions {
        api.post(CRDS, definition).await.map_err(api_error)?;
    }
    for class in crds::priority_classes() {
        api.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.map_err(api_error)?;
    }
    for definition in &definitions {
        let text = |at: &str| definition.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
        let path = format!("/apis/{group}/{}/{plural}", text("/spec/versions/0/name"));
        // A new kind is served after a short delay.
        while api.get(&path).await.is_err() {}
    }
    Ok(())
}
