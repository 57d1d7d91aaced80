//! How deployments stand while they roll and are scaled.

use crate::emulator::lab::Lab;
use crate::object::{list, set, text};
use schedlab_json::json;

/// A deployment `web` that wants some pods.
fn web(replicas: i64) -> String {
    format!(
        "
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: web}}
        spec:
          replicas: {replicas}
          selector: {{matchLabels: {{app: web}}}}
          template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}
        "
    )
}

/// What the deployment says of its rollout.
fn progress(lab: &Lab) -> String {
    let web = lab.get("deployments", "web");
    let all = list(&web, &["status", "conditions"]);
    let said = all.iter().find(|one| text(one, &["type"]) == "Progressing").unwrap();
    format!("{} {}", text(said, &["status"]), text(said, &["reason"]))
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_is_over_does_not_begin_anew_with_pods_that_come_or_go() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&web(2));
    lab.work(2).await;
    assert_eq!(progress(&lab), "True NewReplicaSetAvailable");
    lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(5)));
    lab.secs(700).await;
    assert_eq!(lab.in_phase("Pending"), 3);
    assert_eq!(progress(&lab), "True NewReplicaSetAvailable");
    for pod in lab.names("pods") {
        lab.delete("pods", &pod);
    }
    lab.secs(700).await;
    assert_eq!(lab.in_phase("Pending"), 5);
    assert_eq!(progress(&lab), "True NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn a_new_template_begins_a_rollout_that_may_come_too_late() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&web(2));
    lab.work(2).await;
    lab.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    lab.secs(1).await;
    assert_eq!(progress(&lab), "True ReplicaSetUpdated");
    lab.secs(700).await;
    assert_eq!(progress(&lab), "False ProgressDeadlineExceeded");
    lab.work(3).await;
    assert_eq!(progress(&lab), "True NewReplicaSetAvailable");
}
