//! Runs features with the real Kueue and the real kube-scheduler on a control plane of the test:
//! scenarios that the capabilities of target `kueue` cover pass, and others are skipped with the
//! reason.
//!
//! `SCHEDLAB_KUEUE` is a folder with Kueue's module and its built manager (see
//! `docs/reference/clusters.md`); without it the test is skipped, and `SCHEDLAB_REQUIRE=kueue`
//! makes that a failure. `SCHEDLAB_KUEUE_FEATURES` replaces the features to run,
//! `SCHEDLAB_KUEUE_LOG` is a file to which Kueue's log is copied.
#![expect(clippy::print_stdout, reason = "a skipped test says why")]

mod run_report;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use run_report::{CaseReport, Run};
use schedlab_api::{Value, json};
use schedlab_clusters::api::{Api, to_anyhow_error};
use schedlab_control_plane::{Assets, ChildProcess, TemporaryControlPlane, test_assets};

const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Disables the admission plugin that needs service accounts, as no controller creates them.
const NO_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// The controllers of a complete cluster, to which schedlab leaves the node life cycle.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,job-controller,\
    deployment-controller,replicaset-controller,statefulset-controller,\
    node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller,\
    resourceclaim-controller";

/// Timeout until Kueue serves its webhooks.
const READY_WITHIN: Duration = Duration::from_mins(1);

const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta2";

/// The features that run by default: borrowing, and the limits of a single queue.
const FEATURES: [&str; 5] = [
    "features/borrowing",
    "features/quota/limits.feature:90",
    "features/quota/limits.feature:91",
    "features/quota/limits.feature:92",
    "features/quota/limits.feature:93",
];

/// A cluster with Kueue; dropping it ends its processes.
struct Cluster {
    plane: TemporaryControlPlane,
    _others: [ChildProcess; 3],
}

impl Cluster {
    async fn boot(kueue: &Path, assets: &Assets) -> anyhow::Result<Self> {
        let plane = TemporaryControlPlane::boot(assets, &[NO_SERVICE_ACCOUNTS]).await?;
        let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig_file().display());
        let manager = [
            kubeconfig.clone(),
            format!("--controllers={CONTROLLERS}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let manager = plane.start_program("kube-controller-manager", &manager)?;
        let scheduler = config(&plane, "scheduler.json", &scheduler_config(&plane))?;
        let scheduler =
            plane.start_program("kube-scheduler", &[scheduler, "--secure-port=0".to_owned()])?;
        let mut api = Api::new(plane.client().await?);
        for file in fs::read_dir(kueue.join("config/components/crd/bases"))? {
            for definition in documents(&file?.path())? {
                api.create(&definition).await?;
            }
        }
        until(async || api.get(&format!("{KUEUE}/workloads")).await.map_err(to_anyhow_error))
            .await?;
        let (webhooks, health) = (free_port()?, free_port()?);
        let kueue_config = config(&plane, "kueue.json", &kueue_config(&plane, webhooks, health)?)?;
        let program = kueue.join("manager");
        let feature_gates = "--feature-gates=VisibilityOnDemand=false".to_owned();
        let kueue_manager =
            plane.start_external(&program, &[kubeconfig, kueue_config, feature_gates])?;
        for mut configuration in documents(&kueue.join("config/components/webhook/manifests.yaml"))?
        {
            redirect(&mut configuration, webhooks, &authority(&plane)?);
            api.create(&configuration).await?;
        }
        let cluster = Self { plane, _others: [manager, scheduler, kueue_manager] };
        cluster.until_ready(&api).await?;
        Ok(cluster)
    }

    /// Waits until Kueue's webhooks admit a `ResourceFlavor`.
    async fn until_ready(&self, api: &Api) -> anyhow::Result<()> {
        let flavor = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
                            "metadata": {"name": "trial"}});
        let flavors = format!("{KUEUE}/resourceflavors");
        let made = until(async || api.post(&flavors, &flavor).await.map_err(to_anyhow_error)).await;
        let log = || fs::read_to_string(self.plane.folder().join("manager.log"));
        made.with_context(|| log().unwrap_or_default())?;
        api.delete(&format!("{flavors}/trial")).await.map(drop).map_err(to_anyhow_error)
    }

    /// Runs features on this cluster.
    fn run(&self, features: &[&str]) -> Run {
        let kubeconfig = self.plane.kubeconfig_file().display().to_string();
        let mut args = vec!["--cluster", "kubeconfig", "--context", "schedlab", "--confirm"];
        args.extend(["--scheduler", "installed:kueue", "--min-wait", "30s"]);
        args.extend(["--kubeconfig", &kubeconfig]);
        let run = run_report::run_schedlab("..", &[features, &args].concat());
        run.unwrap_or_else(|stderr| panic!("no report: {stderr}"))
    }

    /// Number of objects of one of Kueue's resources.
    async fn count(&self, plural: &str) -> usize {
        let api = Api::new(self.plane.client().await.expect("a client can be created"));
        let list = api.get(&format!("{KUEUE}/{plural}")).await;
        list.expect("the field is a list")["items"].as_array().map_or(0, Vec::len)
    }
}

/// Repeats a request until it succeeds, or returns its error after [`READY_WITHIN`].
async fn until(request: impl AsyncFn() -> anyhow::Result<Value>) -> anyhow::Result<()> {
    let succeeded = tokio::time::timeout(READY_WITHIN, async {
        while request().await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    if succeeded.await.is_ok() { Ok(()) } else { request().await.map(drop) }
}

/// Writes a configuration file; returns the argument that names it.
fn config(plane: &TemporaryControlPlane, name: &str, text: &Value) -> anyhow::Result<String> {
    let file = plane.folder().join(name);
    fs::write(&file, text.to_string())?;
    Ok(format!("--config={}", file.display()))
}

fn scheduler_config(plane: &TemporaryControlPlane) -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {"kubeconfig": plane.kubeconfig_file(), "qps": 500, "burst": 1000},
    })
}

/// Kueue's configuration. Its webhooks use the certificate of the API server, which is valid for
/// this machine.
fn kueue_config(
    plane: &TemporaryControlPlane,
    webhooks: u16,
    health: u16,
) -> anyhow::Result<Value> {
    let certificates = plane.folder().join("webhook");
    fs::create_dir(&certificates)?;
    for (source, target) in [("serving.crt", "tls.crt"), ("serving.key", "tls.key")] {
        fs::copy(plane.folder().join(source), certificates.join(target))?;
    }
    Ok(json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": format!("127.0.0.1:{health}")},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": certificates},
        "leaderElection": {"leaderElect": false},
        "internalCertManagement": {"enable": false},
        "clientConnection": {"qps": 500, "burst": 1000},
        "manageJobsWithoutQueueName": false,
        "integrations": {"frameworks": ["batch/job", "pod"]},
        "fairSharing": {"preemptionStrategies":
            ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
    }))
}

/// Points a webhook configuration to this machine instead of a Service.
fn redirect(configuration: &mut Value, port: u16, authority: &str) {
    for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
        let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
        let url = format!("https://127.0.0.1:{port}{path}");
        webhook["clientConfig"] = json!({"url": url, "caBundle": authority});
    }
}

/// The certificate authority of the API server, in base64.
fn authority(plane: &TemporaryControlPlane) -> anyhow::Result<String> {
    let kubeconfig: Value = serde_saphyr::from_str(plane.kubeconfig())?;
    let authority = &kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"];
    authority.as_str().map(str::to_owned).context("the kubeconfig has no certificate authority")
}

fn documents(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let documents = text.split("\n---\n").filter(|text| text.contains("apiVersion:"));
    documents.map(|text| Ok(serde_saphyr::from_str(text)?)).collect()
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The folder of `SCHEDLAB_KUEUE`.
fn kueue() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("SCHEDLAB_KUEUE").map(PathBuf::from) {
        let program = folder.join("manager");
        assert!(program.is_file(), "SCHEDLAB_KUEUE: {} does not exist", program.display());
        return Some(folder);
    }
    let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
    assert!(
        !required.contains("kueue"),
        "SCHEDLAB_REQUIRE lists kueue, but SCHEDLAB_KUEUE is not set"
    );
    println!("skipped: SCHEDLAB_KUEUE is not set");
    None
}

#[tokio::test]
async fn kueue_passes_the_scenarios_of_its_capabilities_and_leaves_nothing_behind() {
    let Some((kueue, assets)) = kueue().zip(test_assets(&PROGRAMS)) else { return };
    let cluster = Cluster::boot(&kueue, &assets).await.expect("the cluster with Kueue boots");
    let selection = std::env::var("SCHEDLAB_KUEUE_FEATURES").ok();
    let features: Vec<&str> = match &selection {
        Some(selection) => selection.split_whitespace().collect(),
        None => FEATURES.to_vec(),
    };
    let Run { cases, stderr } = cluster.run(&features);
    for CaseReport { name, outcome, reason } in &cases {
        println!("{outcome}: {name}: {}", reason.lines().next().unwrap_or_default());
    }
    println!("{stderr}");
    if let Ok(target) = std::env::var("SCHEDLAB_KUEUE_LOG") {
        fs::copy(cluster.plane.folder().join("manager.log"), target)
            .expect("the log can be copied");
    }
    let count = |outcome: &str| cases.iter().filter(|case| case.outcome == outcome).count();
    assert_eq!(count("passed") + count("skipped"), cases.len(), "{stderr}");
    assert!(selection.is_some() || count("passed") >= 6, "{} passed", count("passed"));
    for plural in ["clusterqueues", "cohorts", "resourceflavors", "localqueues", "workloads"] {
        assert_eq!(cluster.count(plural).await, 0, "{plural} are left behind: {stderr}");
    }
}
