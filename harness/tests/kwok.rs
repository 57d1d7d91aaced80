//! A cluster of somebody else, on which a kwok manages all nodes, as in clusters of kwokctl: it is
//! found, plays the nodes of scenarios, and what it does its own way is skipped with the reason.
//! `SCHEDLAB_KWOK` names kwok, as `kind-configs/tool kwok` prints it; without one this is skipped,
//! and `SCHEDLAB_REQUIRE=kwok` makes that a failure.
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

mod told;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use schedlab_control_plane::{Assets, ChildProcess, PROGRAMS, TemporaryControlPlane, test_assets};
use schedlab_json::Value;
use told::Run;

/// Nobody makes the accounts that the API server would ask for.
const NO_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// Controllers of a whole cluster: schedlab leaves nodes there to them.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,job-controller,\
    node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller,\
    resourceclaim-controller";

/// What kwok's own stages do, too: the pods of a Job are done once they run.
const JOBS_END: &str = r"
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

/// A cluster with a kwok; its processes end with it.
struct Cluster {
    plane: TemporaryControlPlane,
    _kwok: ChildProcess,
    _manager: ChildProcess,
}

impl Cluster {
    async fn boot(kwok: &Path, assets: &Assets) -> Self {
        let plane = TemporaryControlPlane::boot(assets, &[NO_ACCOUNTS])
            .await
            .expect("a control plane boots");
        let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig_file().display());
        let manager = [
            kubeconfig.clone(),
            format!("--controllers={CONTROLLERS}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let manager = plane.start_program("kube-controller-manager", &manager).expect("it starts");
        let stages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kind-configs/kwok/stages.yaml");
        let stages = fs::read_to_string(stages).expect("the stages are there") + JOBS_END;
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

    /// Runs the feature there.
    fn run(&self) -> Run {
        let kubeconfig = self.plane.kubeconfig_file().display().to_string();
        let here = ["--context", "schedlab", "--confirm", "--kubeconfig", &kubeconfig];
        let args = [&["kwok.feature", "--cluster", "kubeconfig"], &here[..]].concat();
        told::run("tests/fixtures/kwok", &args).unwrap_or_else(|err| panic!("no report: {err}"))
    }

    /// Names of what there is of a collection.
    async fn names(&self, path: &str) -> Vec<String> {
        let client = self.plane.client().await.expect("a client");
        let request = http::Request::get(path).body(Vec::new()).expect("a path");
        let list: Value = client.request(request).await.expect("a list");
        let names = list["items"].as_array().into_iter().flatten();
        names.map(|one| one["metadata"]["name"].to_string()).collect()
    }
}

/// kwok, where there is one.
fn kwok() -> Option<PathBuf> {
    let program = PathBuf::from(std::env::var_os("SCHEDLAB_KWOK").unwrap_or("kwok".into()));
    if Command::new(&program).arg("--version").output().is_ok() {
        return Some(program);
    }
    let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
    assert!(!required.contains("kwok"), "there is no kwok; SCHEDLAB_REQUIRE asks for it");
    println!("skipped: there is no kwok on the PATH and SCHEDLAB_KWOK names none");
    None
}

#[tokio::test]
async fn a_kwok_that_manages_all_nodes_is_found_and_left_to_do_it() {
    let Some((kwok, assets)) = kwok().zip(test_assets(&PROGRAMS)) else { return };
    let cluster = Cluster::boot(&kwok, &assets).await;
    let Run { cases, stderr: err } = cluster.run();
    let told =
        |at: usize| [&cases[at].name, &cases[at].outcome, &cases[at].why].map(String::as_str);
    assert_eq!(
        told(0),
        ["Pods run on nodes of kwok's, each with GPUs of its own", "passed", ""],
        "{err}"
    );
    assert_eq!(told(1), ["A pod fails where it runs", "passed", ""], "{err}");
    let ends = "kwok ends pods of Jobs as soon as they run";
    assert_eq!(told(2), ["Pods of a Job run until they are done", "skipped", ends], "{err}");
    let times = "kwok starts and stops pods in its own time";
    assert_eq!(told(3), ["Pods take their time to start", "skipped", times], "{err}");
    assert_eq!(cases.len(), 4, "{err}");
    assert_eq!(cluster.names("/api/v1/nodes").await, [""; 0], "{err}");
    let namespaces = cluster.names("/api/v1/namespaces").await;
    assert!(!namespaces.iter().any(|name| name.contains("kwok")), "{namespaces:?}");
}
