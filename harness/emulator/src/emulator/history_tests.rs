//! What is remembered, and said, of workloads: revisions of a StatefulSet, pods that cannot be
//! made, evictions that were granted.

use crate::emulator::lab::Lab;
use crate::object::{annotation, at, condition, label, list, name, number, set, text};
use schedlab_json::{Value, json};

fn web(kind: &str, spec: &str) -> String {
    format!(
        "
        apiVersion: apps/v1
        kind: {kind}
        metadata: {{name: web, annotations: {{kubernetes.io/change-cause: first}}}}
        spec:
          selector: {{matchLabels: {{app: web}}}}
          template:
            metadata: {{labels: {{app: web}}}}
            spec: {{containers: [{{name: c, image: i}}]}}
          {}
        ",
        spec.replace("; ", "\n          ")
    )
}

impl Lab {
    fn turn_to(&self, version: &str) {
        self.edit("statefulsets", "web", |web| {
            set(web, &["spec", "template", "metadata", "annotations", "v"], json!(version));
        });
    }

    /// The numbers of the revisions with the `v` of each.
    fn revisions(&self) -> Vec<(i64, String)> {
        let mut all: Vec<_> = self
            .all("controllerrevisions")
            .iter()
            .map(|one| {
                let version = at(one, &["data", "spec", "template", "metadata", "annotations"])
                    .map_or("-", |annotations| text(annotations, &["v"]));
                (number(one, &["revision"]).unwrap(), version.to_owned())
            })
            .collect();
        all.sort();
        all
    }

    fn revision(&self, field: &str) -> String {
        text(&self.get("statefulsets", "web"), &["status", field]).to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn each_template_of_a_stateful_set_is_a_revision_that_its_pods_name() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&web("StatefulSet", "serviceName: web; replicas: 2"));
    lab.work(4).await;
    let first = lab.all("controllerrevisions")[0].clone();
    assert_eq!(label(&first, "app"), Some("web"), "kubectl finds it by the selector");
    assert_eq!(annotation(&first, "kubernetes.io/change-cause"), Some("first"));
    assert_eq!(label(&lab.get("pods", "web-0"), "controller-revision-hash"), Some(name(&first)));
    assert_eq!(lab.revision("currentRevision"), name(&first));
    lab.turn_to("2");
    lab.rest().await;
    assert_eq!(lab.revisions(), [(1, "-".to_owned()), (2, "2".to_owned())]);
    assert_eq!(lab.revision("currentRevision"), name(&first), "until all are new");
    assert_ne!(lab.revision("updateRevision"), name(&first));
    lab.work(10).await;
    assert_eq!(lab.revision("currentRevision"), lab.revision("updateRevision"));
    lab.delete("statefulsets", "web");
    lab.secs(5).await;
    assert_eq!(lab.names("controllerrevisions"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_comes_back_is_the_newest_and_the_oldest_are_forgotten() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&web("StatefulSet", "serviceName: web; replicas: 1; revisionHistoryLimit: 1"));
    lab.work(3).await;
    lab.turn_to("1");
    lab.work(6).await;
    lab.turn_to("2");
    lab.work(6).await;
    lab.turn_to("1");
    lab.work(6).await;
    assert_eq!(lab.revisions(), [(3, "2".to_owned()), (4, "1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn pods_below_the_partition_keep_the_old_template_when_they_are_made_anew() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    let update = "updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}";
    lab.apply(&web("StatefulSet", &format!("serviceName: web; replicas: 2; {update}")));
    lab.work(4).await;
    lab.turn_to("2");
    lab.work(6).await;
    lab.delete("pods", "web-0");
    lab.work(6).await;
    let version = |pod: &str| annotation(&lab.get("pods", pod), "v").map(str::to_owned);
    assert_eq!((version("web-0"), version("web-1")), (None, Some("2".to_owned())));
    assert_eq!(lab.status("statefulsets", "web", "currentReplicas"), 1);
    assert_eq!(lab.status("statefulsets", "web", "updatedReplicas"), 1);
}

const TWO_PODS: &str = "
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: q}
    spec: {hard: {pods: 2}}
";

#[tokio::test(start_paused = true)]
async fn a_deployment_says_why_its_pods_cannot_be_made_until_they_can() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(TWO_PODS);
    lab.rest().await;
    lab.apply(&web("Deployment", "replicas: 3"));
    lab.work(3).await;
    let set = lab.names("replicasets")[0].clone();
    for (plural, name) in [("replicasets", &*set), ("deployments", "web")] {
        let object = lab.get(plural, name);
        let why = failure(&object);
        assert_eq!(text(&why, &["reason"]), "FailedCreate", "{plural}");
        let message = text(&why, &["message"]);
        let limit = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
        assert!(message.starts_with("pods \"web-") && message.ends_with(limit), "{message}");
        assert_eq!(lab.status(plural, name, "readyReplicas"), 2, "{plural}");
    }
    lab.edit("resourcequotas", "q", |quota| set_pods(quota, 3));
    lab.work(20).await;
    for (plural, name) in [("replicasets", &*set), ("deployments", "web")] {
        assert_eq!(lab.status(plural, name, "readyReplicas"), 3, "{plural}");
        assert_eq!(condition(&lab.get(plural, name), "ReplicaFailure"), None, "{plural}");
    }
}

fn failure(object: &Value) -> Value {
    let mut all = list(object, &["status", "conditions"]).iter();
    all.find(|one| text(one, &["type"]) == "ReplicaFailure").cloned().unwrap_or_default()
}

fn set_pods(quota: &mut Value, pods: u32) {
    set(quota, &["spec", "hard", "pods"], json!(pods.to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_budget_forgets_a_granted_eviction_once_the_pod_goes_or_did_not_go() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("a", "n1", 0, "");
    lab.edit("pods", "a", |pod| set(pod, &["metadata", "labels", "app"], json!("web")));
    lab.apply(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: pdb}
        spec: {minAvailable: 0, selector: {matchLabels: {app: web}}}
        ",
    );
    lab.rest().await;
    let granted = || lab.get("poddisruptionbudgets", "pdb")["status"]["disruptedPods"].clone();
    let grant = |pod: &str| {
        lab.say("poddisruptionbudgets", "pdb", |budget| {
            let now = json!("2026-01-01T00:00:00Z");
            set(budget, &["status", "disruptedPods", pod], now);
        });
    };
    grant("gone");
    grant("a");
    lab.rest().await;
    assert_eq!(granted(), json!({"a": "2026-01-01T00:00:00Z"}));
    assert_eq!(lab.status("poddisruptionbudgets", "pdb", "currentHealthy"), 0);
    lab.secs(125).await;
    assert_eq!(granted(), Value::Null, "it was to go within two minutes");
    assert_eq!(lab.status("poddisruptionbudgets", "pdb", "currentHealthy"), 1);
}
