//! Resource claims from template to end, and the devices that nodes publish.

use crate::emulator::lab::Lab;
use crate::object::{annotation, at, list, name, remove, set, text, uid};
use schedlab_json::json;

const TEMPLATE: &str = "
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaimTemplate
        metadata: {name: one-gpu}
        spec:
          metadata: {labels: {app: train}}
          spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
        ";

const CLAIM: &str = "
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: shared}
        spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
        ";

const POD: &str = "
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          restartPolicy: Never
          resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
          containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
        ";

/// Says that the claim is allocated on n1, for the pod.
fn allocate(lab: &Lab, claim: &str) {
    let pod = lab.get("pods", "p");
    let claim = format!("default/{claim}");
    lab.edit("resourceclaims", &claim, |claim| {
        let finalizer = json!(["resource.kubernetes.io/delete-protection"]);
        set(claim, &["metadata", "finalizers"], finalizer);
    });
    lab.say("resourceclaims", &claim, |claim| {
        let device =
            json!({"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"});
        set(claim, &["status", "allocation"], json!({"devices": {"results": [device]}}));
        let user = json!([{"resource": "pods", "name": "p", "uid": uid(&pod)}]);
        set(claim, &["status", "reservedFor"], user);
    });
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_made_for_a_pod_waited_for_and_gone_when_the_pod_has_ended() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(TEMPLATE);
    lab.apply(&POD.replace("{name: p}", "{name: p, annotations: {schedlab.dev/run-time: 20s}}"));
    lab.rest().await;
    let claim = lab.all("resourceclaims").remove(0);
    assert_eq!(annotation(&claim, "resource.kubernetes.io/pod-claim-name"), Some("gpu"));
    assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "p");
    assert_eq!(claim["metadata"]["labels"]["app"], "train");
    let noted = &lab.get("pods", "p")["status"]["resourceClaimStatuses"][0];
    assert_eq!(
        [text(noted, &["name"]), text(noted, &["resourceClaimName"])],
        ["gpu", name(&claim)]
    );
    lab.bind_all("n1");
    lab.secs(5).await;
    assert_eq!(lab.pods(), "p Pending n1");
    assert_eq!(lab.events("p"), ["FailedPrepareDynamicResources"]);
    allocate(&lab, name(&claim));
    lab.secs(5).await;
    assert_eq!(lab.pods(), "p Running n1");
    lab.secs(20).await;
    assert_eq!(lab.pods(), "p Succeeded n1");
    assert_eq!(lab.names("resourceclaims"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_uses_any_more_is_not_allocated_any_more() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(CLAIM);
    lab.apply(&POD.replace("TemplateName: one-gpu", "Name: shared"));
    lab.bind_all("n1");
    allocate(&lab, "shared");
    lab.secs(5).await;
    assert_eq!(lab.pods(), "p Running n1");
    lab.delete("pods", "p");
    lab.secs(40).await;
    let claim = lab.get("resourceclaims", "shared");
    assert_eq!(at(&claim, &["status", "allocation"]), None);
    assert!(list(&claim, &["status", "reservedFor"]).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_allocated_for_nobody_can_be_deleted() {
    let lab = Lab::new();
    lab.apply(CLAIM);
    lab.apply(&POD.replace("TemplateName: one-gpu", "Name: shared"));
    allocate(&lab, "shared");
    lab.say("resourceclaims", "default/shared", |claim| {
        remove(claim, &["status", "reservedFor"]);
    });
    lab.delete("resourceclaims", "default/shared");
    lab.secs(5).await;
    assert_eq!(lab.names("resourceclaims"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_does_not_exist_is_told_and_used_once_it_does() {
    let lab = Lab::new();
    lab.apply(POD);
    lab.secs(1).await;
    assert_eq!(lab.events("p"), ["FailedResourceClaimCreation"]);
    lab.apply(TEMPLATE);
    lab.secs(1).await;
    assert_eq!(lab.names("resourceclaims").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn gpus_for_claims_are_published_by_a_driver() {
    let lab = Lab::new();
    lab.apply(
        "
        apiVersion: v1
        kind: Node
        metadata: {name: n1, annotations: {schedlab.dev/published-gpus: '2'}}
        status: {capacity: {cpu: '64', memory: 512Gi, pods: '110'}}
        ",
    );
    lab.rest().await;
    assert_eq!(lab.names("deviceclasses"), ["gpu.nvidia.com"]);
    let slice = lab.all("resourceslices").remove(0);
    assert_eq!(name(&slice), "n1-gpu.nvidia.com");
    let devices = list(&slice, &["spec", "devices"]).iter().map(name_of);
    assert_eq!(devices.collect::<Vec<_>>(), ["gpu-0", "gpu-1"]);
    assert_eq!(slice["spec"]["devices"][0]["capacity"]["memory"]["value"], "80Gi");
    lab.delete("nodes", "n1");
    lab.secs(1).await;
    assert_eq!(lab.names("resourceslices"), [""; 0]);
}

fn name_of(entry: &schedlab_json::Value) -> &str {
    text(entry, &["name"])
}
