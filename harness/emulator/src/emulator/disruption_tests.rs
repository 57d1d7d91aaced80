//! How many pods of a disruption budget may go, and who is asked how many there should be.

use crate::emulator::lab::{Lab, job};
use crate::object::{list, name, text};
use crate::store::{Op, Resource};
use schedlab_json::json;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
";

#[tokio::test(start_paused = true)]
async fn a_budget_counts_healthy_pods_and_what_may_go() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(WEB);
    lab.apply(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: pdb}
        spec: {maxUnavailable: 25%, selector: {matchLabels: {app: web}}}
        ",
    );
    lab.rest().await;
    let count = |field| lab.status("poddisruptionbudgets", "pdb", field);
    assert_eq!(
        [count("expectedPods"), count("desiredHealthy"), count("disruptionsAllowed")],
        [4, 3, 0]
    );
    lab.work(2).await;
    assert_eq!([count("currentHealthy"), count("disruptionsAllowed")], [4, 1]);
}

/// A budget of everything in its namespace.
fn budget(rule: &str) -> String {
    format!(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {{name: pdb}}
        spec: {{{rule}, selector: {{}}}}
        "
    )
}

/// What a budget comes to: its counts, why none may go, and how an eviction ends.
fn outcome(lab: &Lab) -> String {
    let count = |field| lab.status("poddisruptionbudgets", "pdb", field);
    let [healthy, desired, expected, allowed] =
        ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"].map(count);
    let budget = lab.get("poddisruptionbudgets", "pdb");
    let said = &list(&budget, &["status", "conditions"])[0];
    let pod = &lab.all("pods")[0];
    let key = crate::actors::key_of(&Resource::new("", "pods"), pod);
    let evicted = lab.write(key, Op::Evict(json!({"metadata": {"name": name(pod)}})));
    let code = evicted.map_or_else(|error| error.code, |_| 201);
    format!(
        "{healthy} healthy of {desired} desired, {expected} expected, {allowed} may go; {} {}; {code}",
        text(said, &["reason"]),
        text(said, &["message"])
    )
}

#[tokio::test(start_paused = true)]
async fn pods_that_nobody_controls_count_by_a_number_only() {
    for (rule, outcome_of) in [
        (
            "maxUnavailable: 1",
            "2 healthy of 0 desired, 0 expected, 0 may go; InsufficientPods ; 429",
        ),
        (
            "minAvailable: 50%",
            "2 healthy of 0 desired, 0 expected, 0 may go; InsufficientPods ; 429",
        ),
        ("minAvailable: 1", "2 healthy of 1 desired, 2 expected, 1 may go; SufficientPods ; 201"),
    ] {
        let lab = Lab::new();
        lab.nodes(&["n1"]).await;
        lab.pod("a", "n1", 0, "");
        lab.pod("b", "n1", 0, "");
        lab.apply(&budget(rule));
        lab.secs(1).await;
        assert_eq!(outcome(&lab), outcome_of, "{rule}");
        let told = lab.events("pdb").contains(&"UnmanagedPods".to_owned());
        assert_eq!(told, rule != "minAvailable: 1", "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_scale_cannot_be_asked_for_its_pods() {
    for (rule, outcome_of) in [
        (
            "maxUnavailable: 1",
            "0 healthy of 0 desired, 0 expected, 0 may go; SyncFailed jobs.batch does not implement the scale subresource; 429",
        ),
        ("minAvailable: 2", "3 healthy of 2 desired, 3 expected, 1 may go; SufficientPods ; 201"),
    ] {
        let lab = Lab::new();
        lab.nodes(&["n1"]).await;
        lab.apply(&job("parallelism: 3; completions: 3", ""));
        lab.work(2).await;
        lab.apply(&budget(rule));
        lab.secs(1).await;
        assert_eq!(outcome(&lab), outcome_of, "{rule}");
        let told = lab.events("pdb").contains(&"CalculateExpectedPodCountFailed".to_owned());
        assert_eq!(told, rule == "maxUnavailable: 1", "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_counts_by_the_scale_that_its_definition_has() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(
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
    lab.work(2).await;
    lab.apply(&budget("maxUnavailable: 1"));
    lab.secs(1).await;
    assert_eq!(outcome(&lab), "3 healthy of 2 desired, 3 expected, 1 may go; SufficientPods ; 201");
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_unmanaged_pods_is_told_which_selector_found_them() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("a", "n1", 0, "");
    lab.apply(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: pdb}
        spec:
          maxUnavailable: 1
          selector: {matchExpressions: [{key: app, operator: NotIn, values: [x, z]}]}
        ",
    );
    lab.secs(1).await;
    let events = lab.all("events");
    let told = events.iter().find(|event| text(event, &["reason"]) == "UnmanagedPods").unwrap();
    let message = text(told, &["message"]);
    assert_eq!(
        message.split(" were found").next().unwrap(),
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:\
         map[string]string{},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement\
         {Key:app,Operator:NotIn,Values:[x z],},},})"
    );
}
