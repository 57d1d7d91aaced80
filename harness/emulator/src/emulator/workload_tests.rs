//! What workload controllers make of what users ask for.

use crate::emulator::lab::Lab;
use crate::object::{annotation, condition, label, name, set};
use schedlab_json::json;

const TEMPLATE: &str =
    "{metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}";

fn deployment(name: &str, more: &str) -> String {
    format!(
        "
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: {name}}}
        spec: {{selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}, {more}}}
        "
    )
}

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_its_replicas_through_a_replica_set() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 3"));
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 3);
    let sets = lab.all("replicasets");
    assert_eq!(sets.len(), 1);
    let hash = label(&sets[0], "pod-template-hash").unwrap();
    assert_eq!(name(&sets[0]), format!("web-{hash}"));
    for pod in lab.all("pods") {
        assert!(name(&pod).starts_with(&format!("web-{hash}-")));
        assert_eq!(label(&pod, "pod-template-hash"), Some(hash));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
    }
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(lab.status("deployments", "web", field), 3, "{field}");
    }
    let web = lab.get("deployments", "web");
    assert_eq!(condition(&web, "Available"), Some("True"));
    assert_eq!(annotation(&web, "deployment.kubernetes.io/revision"), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_replaces_a_pod_that_is_deleted() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 2"));
    lab.work(2).await;
    let first = lab.names("pods")[0].clone();
    lab.delete("pods", &first);
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 2);
    assert!(!lab.names("pods").contains(&first));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scales_up_and_down() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 2"));
    lab.work(2).await;
    for replicas in [5, 1, 0] {
        lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(replicas)));
        lab.work(3).await;
        assert_eq!(lab.names("pods").len(), replicas);
        assert_eq!(lab.status("deployments", "web", "replicas"), i64::try_from(replicas).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_down_lets_pending_pods_go_first() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 2"));
    lab.work(1).await;
    let running = lab.names("pods");
    lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(4)));
    lab.rest().await;
    assert_eq!(lab.names("pods").len(), 4);
    lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(2)));
    lab.rest().await;
    assert_eq!(lab.names("pods"), running);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_never_leaves_its_bounds() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment(
        "web",
        "replicas: 4, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}",
    ));
    lab.work(3).await;
    lab.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    for _ in 0..30 {
        lab.work(1).await;
        let running = lab.in_phase("Running");
        assert!(running >= 3, "{running}");
        let all = running + lab.in_phase("Pending");
        assert!(all <= 5, "{all}");
    }
    assert_eq!(lab.status("deployments", "web", "updatedReplicas"), 4);
    let pods = lab.all("pods");
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| annotation(pod, "v") == Some("2")));
    let web = lab.get("deployments", "web");
    assert_eq!(annotation(&web, "deployment.kubernetes.io/revision"), Some("2"));
    assert_eq!(lab.names("replicasets").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_recreates_ends_all_old_pods_first() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&deployment("web", "replicas: 3, strategy: {type: Recreate}"));
    lab.work(2).await;
    let old = lab.names("pods");
    lab.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    lab.rest().await;
    assert_eq!(lab.names("pods"), old);
    lab.work(4).await;
    assert_eq!(lab.in_phase("Running"), 3);
    assert!(lab.names("pods").iter().all(|pod| !old.contains(pod)));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_stands_still_is_given_up_after_its_deadline() {
    let lab = Lab::new();
    lab.apply(&deployment("web", "replicas: 1, progressDeadlineSeconds: 60"));
    lab.secs(59).await;
    assert!(lab.has("deployments", "web", "Progressing"));
    lab.secs(2).await;
    let web = lab.get("deployments", "web");
    assert_eq!(condition(&web, "Progressing"), Some("False"));
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_starts_its_pods_in_order_and_stops_them_in_reverse() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec: {{serviceName: db, replicas: 3, selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}}}
        "
    ));
    lab.rest().await;
    assert_eq!(lab.names("pods"), ["db-0"]);
    lab.work(1).await;
    assert_eq!(lab.names("pods"), ["db-0", "db-1"]);
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 3);
    assert_eq!(label(&lab.get("pods", "db-2"), "apps.kubernetes.io/pod-index"), Some("2"));
    lab.edit("statefulsets", "db", |db| set(db, &["spec", "replicas"], json!(1)));
    lab.secs(1).await;
    lab.rest().await;
    assert_eq!(lab.names("pods"), ["db-0", "db-1"]);
    lab.secs(2).await;
    assert_eq!(lab.names("pods"), ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_parallel_stateful_set_starts_all_at_once_and_keeps_names() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec:
          serviceName: db
          replicas: 3
          podManagementPolicy: Parallel
          selector: {{matchLabels: {{app: web}}}}
          template: {TEMPLATE}
        "
    ));
    lab.rest().await;
    assert_eq!(lab.names("pods"), ["db-0", "db-1", "db-2"]);
    lab.work(1).await;
    lab.delete("pods", "db-1");
    lab.work(3).await;
    assert_eq!(lab.names("pods"), ["db-0", "db-1", "db-2"]);
    assert_eq!(lab.in_phase("Running"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_replaces_outdated_pods_from_the_last() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec: {{serviceName: db, replicas: 2, selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}}}
        "
    ));
    lab.work(3).await;
    lab.edit("statefulsets", "db", |db| {
        set(db, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    lab.rest().await;
    assert!(crate::object::is_deleting(&lab.get("pods", "db-1")));
    assert!(!crate::object::is_deleting(&lab.get("pods", "db-0")));
    lab.work(8).await;
    assert!(lab.all("pods").iter().all(|pod| annotation(pod, "v") == Some("2")));
    assert_eq!(lab.status("statefulsets", "db", "updatedReplicas"), 2);
}
