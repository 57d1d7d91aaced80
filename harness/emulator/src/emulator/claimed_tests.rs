//! The claims that a StatefulSet makes for its pods.

use crate::emulator::lab::Lab;
use crate::object::{set, text};
use schedlab_json::json;

fn train(retention: &str) -> String {
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

async fn running(retention: &str) -> Lab {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&train(retention));
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 2);
    lab
}

#[tokio::test(start_paused = true)]
async fn each_pod_of_a_stateful_set_gets_claims_of_its_own_and_finds_them_again() {
    let lab = running("").await;
    assert_eq!(lab.names("persistentvolumeclaims"), ["data-train-0", "data-train-1"]);
    let claim = lab.get("persistentvolumeclaims", "data-train-0");
    assert_eq!(claim["metadata"]["labels"], json!({"of": "train", "app": "web"}));
    assert!(claim["metadata"]["ownerReferences"].is_null());
    let pod = lab.get("pods", "train-0");
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-train-0"}},
        {"name": "tmp", "emptyDir": {}},
    ]);
    assert_eq!(json!(pod["spec"]["volumes"].as_array().unwrap()[..2]), volumes);
    let said = lab.all("events");
    assert!(said.iter().any(|event| text(event, &["message"])
        == "Create Claim data-train-0 Pod train-0 in StatefulSet train success"));
    lab.edit("statefulsets", "train", |train| set(train, &["spec", "replicas"], json!(0)));
    lab.secs(5).await;
    lab.delete("statefulsets", "train");
    lab.secs(2).await;
    assert_eq!(lab.names("persistentvolumeclaims"), ["data-train-0", "data-train-1"]);
    lab.apply(&train(""));
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 2);
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_the_pod_or_the_set_that_they_are_said_to_go_with() {
    let lab = running("whenScaled: Delete, whenDeleted: Delete").await;
    lab.edit("statefulsets", "train", |train| set(train, &["spec", "replicas"], json!(1)));
    lab.secs(5).await;
    assert_eq!(lab.names("persistentvolumeclaims"), ["data-train-0"]);
    lab.delete("statefulsets", "train");
    lab.secs(5).await;
    assert_eq!(lab.names("persistentvolumeclaims"), [""; 0]);
    let lab = running("whenScaled: Delete").await;
    lab.delete("statefulsets", "train");
    lab.secs(5).await;
    assert_eq!(lab.names("persistentvolumeclaims"), ["data-train-0", "data-train-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_gets_a_claim_that_was_deleted_anew() {
    let lab = Lab::new();
    lab.apply(&train(""));
    lab.rest().await;
    let first = lab.get("persistentvolumeclaims", "data-train-0");
    lab.delete("persistentvolumeclaims", "data-train-0");
    lab.rest().await;
    let second = lab.get("persistentvolumeclaims", "data-train-0");
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(second["metadata"]["deletionTimestamp"].is_null());
}
