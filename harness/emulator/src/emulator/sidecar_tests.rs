//! Sidecars: init containers with `restartPolicy: Always`.

use crate::emulator::test_cluster::{TestCluster, train_job};
use schedlab_api::{
    Value,
    object::{list, name, text},
};

const SIDECARS: &str =
    "{initContainers: [{name: once, image: i}, {name: beside, image: i, restartPolicy: Always}], ";

/// The init containers of a pod as text: name, state, whether started, whether ready.
fn init_container_lines(pod: &Value) -> String {
    let line = |status: &Value| {
        let state = status["state"].as_object().unwrap().keys().next().unwrap().to_string();
        let [started, ready] = [&status["started"], &status["ready"]];
        format!("{} {state} started={started} ready={ready}", text(status, &["name"]))
    };
    list(pod, &["status", "initContainerStatuses"]).iter().map(line).collect::<Vec<_>>().join(", ")
}

#[tokio::test(start_paused = true)]
async fn sidecars_end_after_the_main_containers_and_do_not_block_their_job() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        &train_job("", "schedlab.dev/run-time: 10s")
            .replace("{restartPolicy", &format!("{SIDECARS}restartPolicy")),
    );
    cluster.bind_and_run(3).await;
    let pod = cluster.objects_of("pods").remove(0);
    assert_eq!(
        init_container_lines(&pod),
        "once terminated started=false ready=true, beside running started=true ready=true"
    );
    cluster.advance_secs(10).await;
    let pod = cluster.get("pods", name(&pod));
    assert_eq!(text(&pod, &["status", "phase"]), "Succeeded");
    assert_eq!(
        init_container_lines(&pod),
        "once terminated started=false ready=true, beside terminated started=false ready=false"
    );
    assert!(cluster.has_true_condition("jobs", "train", "Complete"));
}
