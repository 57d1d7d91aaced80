//! Runs features on an existing cluster whose nodes are all managed by kwok, as in clusters of
//! kwokctl: `schedlab` detects kwok and lets it simulate the nodes of scenarios. Scenarios that
//! depend on what kwok does differently are skipped with the reason.
//!
//! `SCHEDLAB_KWOK` is the path of kwok (`kind-configs/tool kwok` prints it); without kwok the test
//! is skipped, and `SCHEDLAB_REQUIRE=kwok` makes that a failure.
#![expect(clippy::print_stdout, reason = "a skipped test says why")]

mod run_report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use run_report::Run;
use schedlab_api::Value;
use schedlab_control_plane::{Assets, ChildProcess, PROGRAMS, TemporaryControlPlane, test_assets};

/// Disables the admission plugin that needs service accounts, as no controller creates them.
const NO_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// The controllers of a complete cluster, to which schedlab leaves the node life cycle.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,job-controller,\
    node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller,\
    resourceclaim-controller";

/// As in kwok's default stages, the pods of a Job succeed as soon as they run.
const JOB_DONE_STAGE: &str = r"
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: job-done}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.metadata.ownerReferences.[].kind', operator: In, values: [Job]}
  next:
    statusTemplate: |
      phase: Succeeded
";

/// A cluster with kwok; dropping it ends its processes.
struct Cluster {
    plane: TemporaryControlPlane,
    _kwok: ChildProcess,
    _manager: ChildProcess,
}

impl Cluster {
    async fn boot(kwok: &Path, assets: &Assets) -> Self {
        let plane = TemporaryControlPlane::boot(assets, &[NO_SERVICE_ACCOUNTS])
            .await
            .expect("a control plane boots");
        let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig_file().display());
        let manager = [
            kubeconfig.clone(),
            format!("--controllers={CONTROLLERS}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let manager = plane
            .start_program("kube-controller-manager", &manager)
            .expect("kube-controller-manager starts");
        let stages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kind-configs/kwok/stages.yaml");
        let stages = fs::read_to_string(stages).expect("the stages exist") + JOB_DONE_STAGE;
        let config = plane.folder().join("kwok.yaml");
        fs::write(&config, stages).expect("the folder can be written");
        let arguments = [
            kubeconfig,
            format!("--config={}", config.display()),
            "--manage-all-nodes=true".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
        ];
        let kwok = plane.start_external(kwok, &arguments).expect("kwok starts");
        Self { plane, _kwok: kwok, _manager: manager }
    }

    /// Runs the feature on this cluster.
    fn run(&self) -> Run {
        let kubeconfig = self.plane.kubeconfig_file().display().to_string();
        let here = ["--context", "schedlab", "--confirm", "--kubeconfig", &kubeconfig];
        let args = [&["kwok.feature", "--cluster", "kubeconfig"], &here[..]].concat();
        run_report::run_schedlab("tests/fixtures/kwok", &args)
            .unwrap_or_else(|stderr| panic!("no report: {stderr}"))
    }

    /// Names of the objects of a collection.
    async fn names(&self, path: &str) -> Vec<String> {
        let client = self.plane.client().await.expect("a client can be created");
        let request = http::Request::get(path).body(Vec::new()).expect("the path is valid");
        let list: Value = client.request(request).await.expect("the field is a list");
        let names = list["items"].as_array().into_iter().flatten();
        names.map(|one| one["metadata"]["name"].to_string()).collect()
    }
}

/// The kwok program of `SCHEDLAB_KWOK` or on the `PATH`.
fn kwok() -> Option<PathBuf> {
    let program = PathBuf::from(std::env::var_os("SCHEDLAB_KWOK").unwrap_or("kwok".into()));
    if Command::new(&program).arg("--version").output().is_ok() {
        return Some(program);
    }
    let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
    assert!(!required.contains("kwok"), "SCHEDLAB_REQUIRE lists kwok, but kwok is not installed");
    println!("skipped: kwok is not on the PATH, and SCHEDLAB_KWOK is not set");
    None
}

#[tokio::test]
async fn a_kwok_that_manages_all_nodes_is_detected_and_simulates_scenario_nodes() {
    let Some((kwok, assets)) = kwok().zip(test_assets(&PROGRAMS)) else { return };
    let cluster = Cluster::boot(&kwok, &assets).await;
    let Run { cases, stderr: err } = cluster.run();
    let case =
        |at: usize| [&cases[at].name, &cases[at].outcome, &cases[at].reason].map(String::as_str);
    assert_eq!(
        case(0),
        ["Pods run on nodes of kwok's, each with GPUs of its own", "passed", ""],
        "{err}"
    );
    assert_eq!(case(1), ["A pod fails where it runs", "passed", ""], "{err}");
    let jobs = "kwok finishes pods of Jobs as soon as they run";
    assert_eq!(case(2), ["Pods of a Job run until they are done", "skipped", jobs], "{err}");
    let timing = "kwok starts and terminates pods with its own timing";
    assert_eq!(case(3), ["Pods take their time to start", "skipped", timing], "{err}");
    assert_eq!(cases.len(), 4, "{err}");
    assert_eq!(cluster.names("/api/v1/nodes").await, [""; 0], "{err}");
    let namespaces = cluster.names("/api/v1/namespaces").await;
    assert!(!namespaces.iter().any(|name| name.contains("kwok")), "{namespaces:?}");
}
