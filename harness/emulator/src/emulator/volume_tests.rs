//! Binding of volume claims to volumes.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    json,
    object::{set, text, uid},
};

const STORAGE_CLASSES: [&str; 2] = [
    "
        apiVersion: storage.k8s.io/v1
        kind: StorageClass
        metadata: {name: now}
        provisioner: kubernetes.io/no-provisioner
        ",
    "
        apiVersion: storage.k8s.io/v1
        kind: StorageClass
        metadata: {name: later}
        provisioner: kubernetes.io/no-provisioner
        volumeBindingMode: WaitForFirstConsumer
        ",
];

fn volume_yaml(name: &str, class: &str, size: &str) -> String {
    format!(
        "
        apiVersion: v1
        kind: PersistentVolume
        metadata: {{name: {name}}}
        spec:
          storageClassName: {class}
          capacity: {{storage: {size}}}
          accessModes: [ReadWriteOnce]
          hostPath: {{path: /data}}
        "
    )
}

fn claim_yaml(name: &str, class: &str, size: &str) -> String {
    format!(
        "
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {{name: {name}}}
        spec:
          storageClassName: {class}
          accessModes: [ReadWriteOnce]
          resources: {{requests: {{storage: {size}}}}}
        "
    )
}

/// The names and phases of all claims and volumes, with the capacity of each claim.
fn claim_and_volume_phases(cluster: &TestCluster) -> String {
    let claims = cluster.objects_of("persistentvolumeclaims");
    let claims = claims.iter().map(|claim| (claim, text(claim, &["spec", "volumeName"])));
    let volumes = cluster.objects_of("persistentvolumes");
    let volumes = volumes.iter().map(|volume| (volume, ""));
    let lines = claims.chain(volumes).map(|(object, of)| {
        let phase = text(object, &["status", "phase"]);
        format!("{} {phase} {of}", schedlab_api::object::name(object)).trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join(", ")
}

async fn cluster_with_objects(objects: &[String]) -> TestCluster {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    for object in STORAGE_CLASSES.iter().copied().chain(objects.iter().map(String::as_str)) {
        cluster.apply(object);
    }
    cluster.settle().await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_smallest_volume_that_fits() {
    let volumes = [("v1", "now", "5Gi"), ("v2", "now", "3Gi"), ("v3", "now", "1Gi")];
    let mut objects: Vec<String> =
        volumes.iter().map(|(name, class, size)| volume_yaml(name, class, size)).collect();
    objects.push(volume_yaml("v4", "later", "2Gi"));
    objects.push(claim_yaml("c", "now", "2Gi"));
    objects.push(claim_yaml("d", "now", "6Gi"));
    let cluster = cluster_with_objects(&objects).await;
    let all = "c Bound v2, d Pending, v1 Available, v2 Bound, v3 Available, v4 Available";
    assert_eq!(claim_and_volume_phases(&cluster), all);
    let claim = cluster.get("persistentvolumeclaims", "c");
    assert_eq!(claim["status"]["capacity"]["storage"], "3Gi");
    assert_eq!(claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    cluster.apply(&volume_yaml("v5", "now", "7Gi"));
    cluster.settle().await;
    assert_eq!(text(&cluster.get("persistentvolumeclaims", "d"), &["spec", "volumeName"]), "v5");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_its_first_consumer_gets_the_volume_that_names_it() {
    let cluster =
        cluster_with_objects(&[volume_yaml("v", "later", "2Gi"), claim_yaml("c", "later", "2Gi")])
            .await;
    assert_eq!(claim_and_volume_phases(&cluster), "c Pending, v Available");
    let claim_object = cluster.get("persistentvolumeclaims", "c");
    cluster.edit("persistentvolumes", "/v", |volume| {
        let claim = json!({"namespace": "default", "name": "c", "uid": uid(&claim_object)});
        set(volume, &["spec", "claimRef"], claim);
    });
    cluster.settle().await;
    assert_eq!(claim_and_volume_phases(&cluster), "c Bound v, v Bound");
}

#[tokio::test(start_paused = true)]
async fn a_volume_outlives_its_claim_and_a_claim_without_its_volume_is_lost() {
    let cluster =
        cluster_with_objects(&[volume_yaml("v", "now", "2Gi"), claim_yaml("c", "now", "2Gi")])
            .await;
    cluster.delete("persistentvolumeclaims", "c");
    cluster.settle().await;
    assert_eq!(claim_and_volume_phases(&cluster), "v Released");
    cluster.apply(&volume_yaml("w", "now", "2Gi"));
    cluster.apply(&claim_yaml("d", "now", "2Gi"));
    cluster.settle().await;
    cluster.delete("persistentvolumes", "/w");
    cluster.edit("persistentvolumes", "/w", |volume| {
        schedlab_api::object::remove(volume, &["metadata", "finalizers"]);
    });
    cluster.settle().await;
    assert_eq!(claim_and_volume_phases(&cluster), "d Lost w, v Released");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_kept_while_a_pod_uses_it() {
    let cluster =
        cluster_with_objects(&[volume_yaml("v", "now", "2Gi"), claim_yaml("c", "now", "2Gi")])
            .await;
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          nodeName: n1
          volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]
          containers: [{name: c, image: i}]
        ",
    );
    cluster.advance_secs(5).await;
    cluster.delete("persistentvolumeclaims", "c");
    cluster.advance_secs(5).await;
    assert_eq!(claim_and_volume_phases(&cluster), "c Bound v, v Bound");
    cluster.delete("pods", "p");
    cluster.advance_secs(60).await;
    assert_eq!(claim_and_volume_phases(&cluster), "v Released");
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_claim_is_created_for_a_pod_and_deleted_with_it() {
    let cluster = cluster_with_objects(&[volume_yaml("v", "now", "2Gi")]).await;
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          nodeName: n1
          volumes:
          - name: scratch
            ephemeral:
              volumeClaimTemplate:
                metadata: {labels: {app: x}}
                spec:
                  storageClassName: now
                  accessModes: [ReadWriteOnce]
                  resources: {requests: {storage: 1Gi}}
          containers: [{name: c, image: i}]
        ",
    );
    cluster.advance_secs(5).await;
    assert_eq!(claim_and_volume_phases(&cluster), "p-scratch Bound v, v Bound");
    let claim = cluster.get("persistentvolumeclaims", "p-scratch");
    assert_eq!(claim["metadata"]["labels"]["app"], "x");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "p");
    cluster.delete("pods", "p");
    cluster.advance_secs(60).await;
    assert_eq!(claim_and_volume_phases(&cluster), "v Released");
}

#[tokio::test(start_paused = true)]
async fn a_bound_volume_is_kept_until_its_claim_is_gone() {
    let cluster =
        cluster_with_objects(&[volume_yaml("v1", "now", "5Gi"), volume_yaml("v2", "now", "5Gi")])
            .await;
    cluster.apply(&claim_yaml("c1", "now", "1Gi"));
    cluster.settle().await;
    for name in ["v1", "v2"] {
        cluster.delete("persistentvolumes", &format!("/{name}"));
    }
    cluster.settle().await;
    assert_eq!(claim_and_volume_phases(&cluster), "c1 Bound v1, v1 Bound");
    cluster.delete("persistentvolumeclaims", "c1");
    cluster.settle().await;
    assert_eq!(claim_and_volume_phases(&cluster), "");
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_gets_the_newest_default_class() {
    let cluster =
        cluster_with_objects(
            &[claim_yaml("c1", "now", "1Gi").replace("storageClassName: now", "")],
        )
        .await;
    let class = |name: &str| {
        let claim = cluster.get("persistentvolumeclaims", name);
        text(&claim, &["spec", "storageClassName"]).to_owned()
    };
    assert_eq!(class("c1"), "");
    let key = "storageclass.kubernetes.io/is-default-class";
    for (index, name) in ["first", "second"].into_iter().enumerate() {
        cluster.apply(
            &STORAGE_CLASSES[0].replace(
                "{name: now}",
                &format!("{{name: {name}, annotations: {{{key}: 'true'}}}}"),
            ),
        );
        cluster.advance_secs(1).await;
        let name_of_claim = format!("d{index}");
        cluster
            .apply(&claim_yaml(&name_of_claim, "now", "1Gi").replace("storageClassName: now", ""));
        assert_eq!(class(&name_of_claim), name);
    }
    assert_eq!(class("c1"), "first");
}
