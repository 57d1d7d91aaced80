//! Revisions of StatefulSets, reported creation failures, and granted evictions.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    Value, json,
    object::{annotation, at, condition, label, list, name, number, set, text},
};

fn web_workload(kind: &str, spec: &str) -> String {
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

impl TestCluster {
    fn change_template_version(&self, version: &str) {
        self.edit("statefulsets", "web", |web| {
            set(web, &["spec", "template", "metadata", "annotations", "v"], json!(version));
        });
    }

    /// The numbers of the `ControllerRevisions`, with the value of `v` in each pod template.
    fn revision_numbers_and_versions(&self) -> Vec<(i64, String)> {
        let mut all: Vec<_> = self
            .objects_of("controllerrevisions")
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

    fn status_revision(&self, field: &str) -> String {
        text(&self.get("statefulsets", "web"), &["status", field]).to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn each_template_of_a_stateful_set_is_a_revision_that_its_pods_name() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_workload("StatefulSet", "serviceName: web; replicas: 2"));
    cluster.bind_and_run(4).await;
    let first = cluster.objects_of("controllerrevisions")[0].clone();
    assert_eq!(
        label(&first, "app"),
        Some("web"),
        "the revision has the labels of the selector, by which kubectl finds it"
    );
    assert_eq!(annotation(&first, "kubernetes.io/change-cause"), Some("first"));
    assert_eq!(
        label(&cluster.get("pods", "web-0"), "controller-revision-hash"),
        Some(name(&first))
    );
    assert_eq!(cluster.status_revision("currentRevision"), name(&first));
    cluster.change_template_version("2");
    cluster.settle().await;
    assert_eq!(cluster.revision_numbers_and_versions(), [(1, "-".to_owned()), (2, "2".to_owned())]);
    assert_eq!(cluster.status_revision("currentRevision"), name(&first), "until all are new");
    assert_ne!(cluster.status_revision("updateRevision"), name(&first));
    cluster.bind_and_run(10).await;
    assert_eq!(
        cluster.status_revision("currentRevision"),
        cluster.status_revision("updateRevision")
    );
    cluster.delete("statefulsets", "web");
    cluster.advance_secs(5).await;
    assert_eq!(cluster.object_names_of("controllerrevisions"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_reused_template_becomes_the_newest_and_the_oldest_are_deleted() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_workload(
        "StatefulSet",
        "serviceName: web; replicas: 1; revisionHistoryLimit: 1",
    ));
    cluster.bind_and_run(3).await;
    cluster.change_template_version("1");
    cluster.bind_and_run(6).await;
    cluster.change_template_version("2");
    cluster.bind_and_run(6).await;
    cluster.change_template_version("1");
    cluster.bind_and_run(6).await;
    assert_eq!(cluster.revision_numbers_and_versions(), [(3, "2".to_owned()), (4, "1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn pods_below_the_partition_are_recreated_from_the_old_template() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    let update = "updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}";
    cluster
        .apply(&web_workload("StatefulSet", &format!("serviceName: web; replicas: 2; {update}")));
    cluster.bind_and_run(4).await;
    cluster.change_template_version("2");
    cluster.bind_and_run(6).await;
    cluster.delete("pods", "web-0");
    cluster.bind_and_run(6).await;
    let version = |pod: &str| annotation(&cluster.get("pods", pod), "v").map(str::to_owned);
    assert_eq!((version("web-0"), version("web-1")), (None, Some("2".to_owned())));
    assert_eq!(cluster.status_count("statefulsets", "web", "currentReplicas"), 1);
    assert_eq!(cluster.status_count("statefulsets", "web", "updatedReplicas"), 1);
}

const TWO_PODS: &str = "
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: q}
    spec: {hard: {pods: 2}}
";

#[tokio::test(start_paused = true)]
async fn a_deployment_reports_replica_failure_until_pods_can_be_created() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(TWO_PODS);
    cluster.settle().await;
    cluster.apply(&web_workload("Deployment", "replicas: 3"));
    cluster.bind_and_run(3).await;
    let set = cluster.object_names_of("replicasets")[0].clone();
    for (plural, name) in [("replicasets", &*set), ("deployments", "web")] {
        let object = cluster.get(plural, name);
        let why = replica_failure(&object);
        assert_eq!(text(&why, &["reason"]), "FailedCreate", "{plural}");
        let message = text(&why, &["message"]);
        let limit = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
        assert!(message.starts_with("pods \"web-") && message.ends_with(limit), "{message}");
        assert_eq!(cluster.status_count(plural, name, "readyReplicas"), 2, "{plural}");
    }
    cluster.edit("resourcequotas", "q", |quota| set_pod_limit(quota, 3));
    cluster.bind_and_run(20).await;
    for (plural, name) in [("replicasets", &*set), ("deployments", "web")] {
        assert_eq!(cluster.status_count(plural, name, "readyReplicas"), 3, "{plural}");
        assert_eq!(condition(&cluster.get(plural, name), "ReplicaFailure"), None, "{plural}");
    }
}

fn replica_failure(object: &Value) -> Value {
    let mut all = list(object, &["status", "conditions"]).iter();
    all.find(|one| text(one, &["type"]) == "ReplicaFailure").cloned().unwrap_or_default()
}

fn set_pod_limit(quota: &mut Value, pods: u32) {
    set(quota, &["spec", "hard", "pods"], json!(pods.to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_budget_drops_a_granted_eviction_when_the_pod_is_gone_or_times_out() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("a", "n1", 0, "");
    cluster.edit("pods", "a", |pod| set(pod, &["metadata", "labels", "app"], json!("web")));
    cluster.apply(
        "
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: pdb}
        spec: {minAvailable: 0, selector: {matchLabels: {app: web}}}
        ",
    );
    cluster.settle().await;
    let granted = || cluster.get("poddisruptionbudgets", "pdb")["status"]["disruptedPods"].clone();
    let grant = |pod: &str| {
        cluster.update_status("poddisruptionbudgets", "pdb", |budget| {
            let now = json!("2026-01-01T00:00:00Z");
            set(budget, &["status", "disruptedPods", pod], now);
        });
    };
    grant("gone");
    grant("a");
    cluster.settle().await;
    assert_eq!(granted(), json!({"a": "2026-01-01T00:00:00Z"}));
    assert_eq!(cluster.status_count("poddisruptionbudgets", "pdb", "currentHealthy"), 0);
    cluster.advance_secs(125).await;
    assert_eq!(granted(), Value::Null, "the granted eviction is dropped after two minutes");
    assert_eq!(cluster.status_count("poddisruptionbudgets", "pdb", "currentHealthy"), 1);
}
