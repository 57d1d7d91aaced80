//! Claims on volumes: which volume they get, and what stands on both.

use crate::emulator::lab::Lab;
use crate::object::{set, text, uid};
use schedlab_json::json;

const CLASSES: [&str; 2] = [
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

fn volume(name: &str, class: &str, size: &str) -> String {
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

fn claim(name: &str, class: &str, size: &str) -> String {
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

/// Name and phase of all claims and volumes, and what each claim has.
fn shown(lab: &Lab) -> String {
    let claims = lab.all("persistentvolumeclaims");
    let claims = claims.iter().map(|claim| (claim, text(claim, &["spec", "volumeName"])));
    let volumes = lab.all("persistentvolumes");
    let volumes = volumes.iter().map(|volume| (volume, ""));
    let lines = claims.chain(volumes).map(|(object, of)| {
        let phase = text(object, &["status", "phase"]);
        format!("{} {phase} {of}", crate::object::name(object)).trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join(", ")
}

async fn lab(objects: &[String]) -> Lab {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    for object in CLASSES.iter().copied().chain(objects.iter().map(String::as_str)) {
        lab.apply(object);
    }
    lab.rest().await;
    lab
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_smallest_volume_that_fits() {
    let volumes = [("v1", "now", "5Gi"), ("v2", "now", "3Gi"), ("v3", "now", "1Gi")];
    let mut objects: Vec<String> =
        volumes.iter().map(|(name, class, size)| volume(name, class, size)).collect();
    objects.push(volume("v4", "later", "2Gi"));
    objects.push(claim("c", "now", "2Gi"));
    objects.push(claim("d", "now", "6Gi"));
    let lab = lab(&objects).await;
    let all = "c Bound v2, d Pending, v1 Available, v2 Bound, v3 Available, v4 Available";
    assert_eq!(shown(&lab), all);
    let claim = lab.get("persistentvolumeclaims", "c");
    assert_eq!(claim["status"]["capacity"]["storage"], "3Gi");
    assert_eq!(claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    lab.apply(&volume("v5", "now", "7Gi"));
    lab.rest().await;
    assert_eq!(text(&lab.get("persistentvolumeclaims", "d"), &["spec", "volumeName"]), "v5");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_its_first_consumer_gets_the_volume_that_names_it() {
    let lab = lab(&[volume("v", "later", "2Gi"), claim("c", "later", "2Gi")]).await;
    assert_eq!(shown(&lab), "c Pending, v Available");
    let wanted = lab.get("persistentvolumeclaims", "c");
    lab.edit("persistentvolumes", "/v", |volume| {
        let claim = json!({"namespace": "default", "name": "c", "uid": uid(&wanted)});
        set(volume, &["spec", "claimRef"], claim);
    });
    lab.rest().await;
    assert_eq!(shown(&lab), "c Bound v, v Bound");
}

#[tokio::test(start_paused = true)]
async fn a_volume_outlives_its_claim_and_a_claim_that_lost_its_volume_says_so() {
    let lab = lab(&[volume("v", "now", "2Gi"), claim("c", "now", "2Gi")]).await;
    lab.delete("persistentvolumeclaims", "c");
    lab.rest().await;
    assert_eq!(shown(&lab), "v Released");
    lab.apply(&volume("w", "now", "2Gi"));
    lab.apply(&claim("d", "now", "2Gi"));
    lab.rest().await;
    lab.delete("persistentvolumes", "/w");
    lab.edit("persistentvolumes", "/w", |volume| {
        crate::object::remove(volume, &["metadata", "finalizers"]);
    });
    lab.rest().await;
    assert_eq!(shown(&lab), "d Lost w, v Released");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_not_gone_before_the_pod_that_uses_it() {
    let lab = lab(&[volume("v", "now", "2Gi"), claim("c", "now", "2Gi")]).await;
    lab.apply(
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
    lab.secs(5).await;
    lab.delete("persistentvolumeclaims", "c");
    lab.secs(5).await;
    assert_eq!(shown(&lab), "c Bound v, v Bound");
    lab.delete("pods", "p");
    lab.secs(60).await;
    assert_eq!(shown(&lab), "v Released");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_made_for_a_pod_and_goes_with_it() {
    let lab = lab(&[volume("v", "now", "2Gi")]).await;
    lab.apply(
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
    lab.secs(5).await;
    assert_eq!(shown(&lab), "p-scratch Bound v, v Bound");
    let claim = lab.get("persistentvolumeclaims", "p-scratch");
    assert_eq!(claim["metadata"]["labels"]["app"], "x");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "p");
    lab.delete("pods", "p");
    lab.secs(60).await;
    assert_eq!(shown(&lab), "v Released");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_a_claim_has_stays_until_the_claim_is_gone() {
    let lab = lab(&[volume("v1", "now", "5Gi"), volume("v2", "now", "5Gi")]).await;
    lab.apply(&claim("c1", "now", "1Gi"));
    lab.rest().await;
    for name in ["v1", "v2"] {
        lab.delete("persistentvolumes", &format!("/{name}"));
    }
    lab.rest().await;
    assert_eq!(shown(&lab), "c1 Bound v1, v1 Bound");
    lab.delete("persistentvolumeclaims", "c1");
    lab.rest().await;
    assert_eq!(shown(&lab), "");
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_gets_the_newest_default_one_when_it_comes() {
    let lab = lab(&[claim("c1", "now", "1Gi").replace("storageClassName: now", "")]).await;
    let class = |name: &str| {
        let claim = lab.get("persistentvolumeclaims", name);
        text(&claim, &["spec", "storageClassName"]).to_owned()
    };
    assert_eq!(class("c1"), "");
    let key = "storageclass.kubernetes.io/is-default-class";
    for (index, name) in ["first", "second"].into_iter().enumerate() {
        lab.apply(
            &CLASSES[0].replace(
                "{name: now}",
                &format!("{{name: {name}, annotations: {{{key}: 'true'}}}}"),
            ),
        );
        lab.secs(1).await;
        let name_of_claim = format!("d{index}");
        lab.apply(&claim(&name_of_claim, "now", "1Gi").replace("storageClassName: now", ""));
        assert_eq!(class(&name_of_claim), name);
    }
    assert_eq!(class("c1"), "first");
}
