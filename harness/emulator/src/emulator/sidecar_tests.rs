//! Sidecars: init containers that run beside the others.

use crate::emulator::lab::{Lab, job};
use crate::object::{list, name, text};
use schedlab_json::Value;

const SIDECARS: &str =
    "{initContainers: [{name: once, image: i}, {name: beside, image: i, restartPolicy: Always}], ";

/// Init containers: name, state, and whether they have started and are ready.
fn shown(pod: &Value) -> String {
    let line = |status: &Value| {
        let state = status["state"].as_object().unwrap().keys().next().unwrap().to_string();
        let [started, ready] = [&status["started"], &status["ready"]];
        format!("{} {state} {started} {ready}", text(status, &["name"]))
    };
    list(pod, &["status", "initContainerStatuses"]).iter().map(line).collect::<Vec<_>>().join(", ")
}

#[tokio::test(start_paused = true)]
async fn sidecars_run_until_the_others_have_ended_and_do_not_keep_their_job_from_its_end() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(
        &job("", "schedlab.dev/run-time: 10s")
            .replace("{restartPolicy", &format!("{SIDECARS}restartPolicy")),
    );
    lab.work(3).await;
    let pod = lab.all("pods").remove(0);
    assert_eq!(shown(&pod), "once terminated false true, beside running true true");
    lab.secs(10).await;
    let pod = lab.get("pods", name(&pod));
    assert_eq!(text(&pod, &["status", "phase"]), "Succeeded");
    assert_eq!(shown(&pod), "once terminated false true, beside terminated false false");
    assert!(lab.has("jobs", "train", "Complete"));
}
