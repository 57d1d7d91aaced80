//! How deployments stand while they roll and are scaled.

use crate::emulator::lab::Lab;
use crate::object::{list, remove, set, text};
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

/// The sizes of the ReplicaSets, oldest first.
fn sizes(lab: &Lab) -> Vec<i64> {
    let mut sets = lab.all("replicasets");
    sets.sort_by_key(|set| text(set, &["metadata", "creationTimestamp"]).to_owned());
    sets.iter().map(|set| set["spec"]["replicas"].as_i64().unwrap()).collect()
}

fn give_template(lab: &Lab, version: &str) {
    lab.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!(version));
    });
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_scaled_while_it_rolls_grows_and_shrinks_in_proportion() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&(web(10) + "  strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 2}}"));
    lab.work(3).await;
    give_template(&lab, "2");
    lab.secs(1).await;
    assert_eq!(sizes(&lab), [8, 5]);
    let scaled = async |replicas: i64| {
        lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(replicas)));
        lab.secs(1).await;
        sizes(&lab)
    };
    assert_eq!(scaled(15).await, [11, 7]);
    // A rollout that goes on would go on at once.
    lab.edit("deployments", "web", |web| set(web, &["spec", "paused"], json!(true)));
    assert_eq!(scaled(5).await, [5, 3]);
    assert_eq!(scaled(0).await, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_replica_sets_go_first_whatever_their_revision() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&(web(4) + "  strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}"));
    lab.work(3).await;
    give_template(&lab, "2");
    lab.secs(1).await;
    assert_eq!(sizes(&lab), [4, 2]);
    lab.work(1).await;
    assert_eq!(sizes(&lab), [2, 4]);
    // The first template again: the oldest ReplicaSet has the highest revision.
    lab.edit("deployments", "web", |web| {
        remove(web, &["spec", "template", "metadata", "annotations"]);
    });
    lab.secs(1).await;
    assert_eq!(sizes(&lab), [4, 2]);
    give_template(&lab, "3");
    lab.secs(1).await;
    assert_eq!(sizes(&lab), [2, 2, 2]);
    lab.work(1).await;
    assert_eq!(sizes(&lab), [0, 2, 4]);
}
