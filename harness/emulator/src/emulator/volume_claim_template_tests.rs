//! The volume claims of a StatefulSet's pods.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    json,
    object::{set, text},
};

fn train_stateful_set(retention: &str) -> String {
    format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: train}}
        spec:
          replicas: 2
          serviceName: train
          selector: {{matchLabels: {{app: web}}}}
          persistentVolumeClaimRetentionPolicy: {{{retention}}}
          template:
            metadata: {{labels: {{app: web}}}}
            spec:
              volumes: [{{name: data, emptyDir: {{}}}}, {{name: tmp, emptyDir: {{}}}}]
              containers: [{{name: c, image: i, volumeMounts: [{{name: data, mountPath: /d}}]}}]
          volumeClaimTemplates:
            - metadata: {{name: data, labels: {{of: train}}}}
              spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
        "
    )
}

async fn cluster_with_train_set(retention: &str) -> TestCluster {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_stateful_set(retention));
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 2);
    cluster
}

#[tokio::test(start_paused = true)]
async fn each_pod_of_a_stateful_set_gets_claims_of_its_own_and_finds_them_again() {
    let cluster = cluster_with_train_set("").await;
    assert_eq!(cluster.object_names_of("persistentvolumeclaims"), ["data-train-0", "data-train-1"]);
    let claim = cluster.get("persistentvolumeclaims", "data-train-0");
    assert_eq!(claim["metadata"]["labels"], json!({"of": "train", "app": "web"}));
    assert!(claim["metadata"]["ownerReferences"].is_null());
    let pod = cluster.get("pods", "train-0");
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-train-0"}},
        {"name": "tmp", "emptyDir": {}},
    ]);
    assert_eq!(json!(pod["spec"]["volumes"].as_array().unwrap()[..2]), volumes);
    let events = cluster.objects_of("events");
    assert!(events.iter().any(|event| text(event, &["message"])
        == "Create Claim data-train-0 Pod train-0 in StatefulSet train success"));
    cluster.edit("statefulsets", "train", |train| set(train, &["spec", "replicas"], json!(0)));
    cluster.advance_secs(5).await;
    cluster.delete("statefulsets", "train");
    cluster.advance_secs(2).await;
    assert_eq!(cluster.object_names_of("persistentvolumeclaims"), ["data-train-0", "data-train-1"]);
    cluster.apply(&train_stateful_set(""));
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 2);
}

#[tokio::test(start_paused = true)]
async fn claims_are_deleted_according_to_the_retention_policy() {
    let cluster = cluster_with_train_set("whenScaled: Delete, whenDeleted: Delete").await;
    cluster.edit("statefulsets", "train", |train| set(train, &["spec", "replicas"], json!(1)));
    cluster.advance_secs(5).await;
    assert_eq!(cluster.object_names_of("persistentvolumeclaims"), ["data-train-0"]);
    cluster.delete("statefulsets", "train");
    cluster.advance_secs(5).await;
    assert_eq!(cluster.object_names_of("persistentvolumeclaims"), [""; 0]);
    let cluster = cluster_with_train_set("whenScaled: Delete").await;
    cluster.delete("statefulsets", "train");
    cluster.advance_secs(5).await;
    assert_eq!(cluster.object_names_of("persistentvolumeclaims"), ["data-train-0", "data-train-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_of_a_pending_pod_is_recreated() {
    let cluster = TestCluster::new();
    cluster.apply(&train_stateful_set(""));
    cluster.settle().await;
    let first = cluster.get("persistentvolumeclaims", "data-train-0");
    cluster.delete("persistentvolumeclaims", "data-train-0");
    cluster.settle().await;
    let second = cluster.get("persistentvolumeclaims", "data-train-0");
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(second["metadata"]["deletionTimestamp"].is_null());
}
