//! Allowed disruptions and expected pods of `PodDisruptionBudgets`.

use crate::emulator::test_cluster::{TestCluster, train_job};
use crate::store::{Op, Resource};
use schedlab_api::{
    json,
    object::{list, name, text},
};

const WEB_DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
";

#[tokio::test(start_paused = true)]
async fn a_budget_counts_healthy_pods_and_allowed_disruptions() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(WEB_DEPLOYMENT);
    cluster.apply(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: pdb}
        spec: {maxUnavailable: 25%, selector: {matchLabels: {app: web}}}
        ",
    );
    cluster.settle().await;
    let count = |field| cluster.status_count("poddisruptionbudgets", "pdb", field);
    assert_eq!(
        [count("expectedPods"), count("desiredHealthy"), count("disruptionsAllowed")],
        [4, 3, 0]
    );
    cluster.bind_and_run(2).await;
    assert_eq!([count("currentHealthy"), count("disruptionsAllowed")], [4, 1]);
}

/// The YAML of a `PodDisruptionBudget` for all pods of its namespace.
fn budget_yaml(rule: &str) -> String {
    format!(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {{name: pdb}}
        spec: {{{rule}, selector: {{}}}}
        "
    )
}

/// The counts and the condition of the budget `pdb`, and the status code of an eviction.
fn budget_status_and_eviction(cluster: &TestCluster) -> String {
    let count = |field| cluster.status_count("poddisruptionbudgets", "pdb", field);
    let [healthy, desired, expected, allowed] =
        ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"].map(count);
    let budget = cluster.get("poddisruptionbudgets", "pdb");
    let condition = &list(&budget, &["status", "conditions"])[0];
    let pod = &cluster.objects_of("pods")[0];
    let key = crate::reconcile::key_of(&Resource::new("", "pods"), pod);
    let evicted = cluster.write(key, Op::Evict(json!({"metadata": {"name": name(pod)}})));
    let code = evicted.map_or_else(|error| error.code, |_| 201);
    format!(
        "{healthy} healthy of {desired} desired, {expected} expected, may disrupt {allowed}; {} {}; eviction {code}",
        text(condition, &["reason"]),
        text(condition, &["message"])
    )
}

#[tokio::test(start_paused = true)]
async fn unmanaged_pods_count_only_for_an_absolute_budget() {
    for (rule, outcome_of) in [
        (
            "maxUnavailable: 1",
            "2 healthy of 0 desired, 0 expected, may disrupt 0; InsufficientPods ; eviction 429",
        ),
        (
            "minAvailable: 50%",
            "2 healthy of 0 desired, 0 expected, may disrupt 0; InsufficientPods ; eviction 429",
        ),
        (
            "minAvailable: 1",
            "2 healthy of 1 desired, 2 expected, may disrupt 1; SufficientPods ; eviction 201",
        ),
    ] {
        let cluster = TestCluster::new();
        cluster.create_gpu_nodes(&["n1"]).await;
        cluster.create_pod_on_node("a", "n1", 0, "");
        cluster.create_pod_on_node("b", "n1", 0, "");
        cluster.apply(&budget_yaml(rule));
        cluster.advance_secs(1).await;
        assert_eq!(budget_status_and_eviction(&cluster), outcome_of, "{rule}");
        let has_event = cluster.event_reasons("pdb").contains(&"UnmanagedPods".to_owned());
        assert_eq!(has_event, rule != "minAvailable: 1", "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_scale_subresource_fails_the_budget_sync() {
    for (rule, outcome_of) in [
        (
            "maxUnavailable: 1",
            "0 healthy of 0 desired, 0 expected, may disrupt 0; SyncFailed jobs.batch does not implement the scale subresource; eviction 429",
        ),
        (
            "minAvailable: 2",
            "3 healthy of 2 desired, 3 expected, may disrupt 1; SufficientPods ; eviction 201",
        ),
    ] {
        let cluster = TestCluster::new();
        cluster.create_gpu_nodes(&["n1"]).await;
        cluster.apply(&train_job("parallelism: 3; completions: 3", ""));
        cluster.bind_and_run(2).await;
        cluster.apply(&budget_yaml(rule));
        cluster.advance_secs(1).await;
        assert_eq!(budget_status_and_eviction(&cluster), outcome_of, "{rule}");
        let has_event =
            cluster.event_reasons("pdb").contains(&"CalculateExpectedPodCountFailed".to_owned());
        assert_eq!(has_event, rule == "maxUnavailable: 1", "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_counts_by_its_scale_subresource() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: train}
        spec:
          pytorchReplicaSpecs:
            Worker:
              replicas: 3
              template: {spec: {containers: [{name: pytorch, image: i}]}}
        ",
    );
    cluster.bind_and_run(2).await;
    cluster.apply(&budget_yaml("maxUnavailable: 1"));
    cluster.advance_secs(1).await;
    assert_eq!(
        budget_status_and_eviction(&cluster),
        "3 healthy of 2 desired, 3 expected, may disrupt 1; SufficientPods ; eviction 201"
    );
}

#[tokio::test(start_paused = true)]
async fn the_unmanaged_pods_event_names_the_selector() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("a", "n1", 0, "");
    cluster.apply(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: pdb}
        spec:
          maxUnavailable: 1
          selector: {matchExpressions: [{key: app, operator: NotIn, values: [x, z]}]}
        ",
    );
    cluster.advance_secs(1).await;
    let events = cluster.objects_of("events");
    let event = events.iter().find(|event| text(event, &["reason"]) == "UnmanagedPods").unwrap();
    let message = text(event, &["message"]);
    assert_eq!(
        message.split(" were found").next().unwrap(),
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:\
         map[string]string{},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement\
         {Key:app,Operator:NotIn,Values:[x z],},},})"
    );
}
