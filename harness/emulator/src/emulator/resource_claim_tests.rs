//! The lifecycle of resource claims, and the published devices of nodes.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    json,
    object::{annotation, at, list, name, remove, set, text, uid},
};

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

/// Allocates the claim on n1 and reserves it for the pod.
fn allocate_claim(cluster: &TestCluster, claim: &str) {
    let pod = cluster.get("pods", "p");
    let claim = format!("default/{claim}");
    cluster.edit("resourceclaims", &claim, |claim| {
        let finalizer = json!(["resource.kubernetes.io/delete-protection"]);
        set(claim, &["metadata", "finalizers"], finalizer);
    });
    cluster.update_status("resourceclaims", &claim, |claim| {
        let device =
            json!({"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"});
        set(claim, &["status", "allocation"], json!({"devices": {"results": [device]}}));
        let user = json!([{"resource": "pods", "name": "p", "uid": uid(&pod)}]);
        set(claim, &["status", "reservedFor"], user);
    });
}

#[tokio::test(start_paused = true)]
async fn a_template_claim_is_created_awaited_and_deleted_with_its_pod() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(TEMPLATE);
    cluster
        .apply(&POD.replace("{name: p}", "{name: p, annotations: {schedlab.dev/run-time: 20s}}"));
    cluster.settle().await;
    let claim = cluster.objects_of("resourceclaims").remove(0);
    assert_eq!(annotation(&claim, "resource.kubernetes.io/pod-claim-name"), Some("gpu"));
    assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "p");
    assert_eq!(claim["metadata"]["labels"]["app"], "train");
    let noted = &cluster.get("pods", "p")["status"]["resourceClaimStatuses"][0];
    assert_eq!(
        [text(noted, &["name"]), text(noted, &["resourceClaimName"])],
        ["gpu", name(&claim)]
    );
    cluster.bind_all("n1");
    cluster.advance_secs(5).await;
    assert_eq!(cluster.pod_lines(), "p Pending n1");
    assert_eq!(cluster.event_reasons("p"), ["FailedPrepareDynamicResources"]);
    allocate_claim(&cluster, name(&claim));
    cluster.advance_secs(5).await;
    assert_eq!(cluster.pod_lines(), "p Running n1");
    cluster.advance_secs(20).await;
    assert_eq!(cluster.pod_lines(), "p Succeeded n1");
    assert_eq!(cluster.object_names_of("resourceclaims"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_unused_claim_is_deallocated() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(CLAIM);
    cluster.apply(&POD.replace("TemplateName: one-gpu", "Name: shared"));
    cluster.bind_all("n1");
    allocate_claim(&cluster, "shared");
    cluster.advance_secs(5).await;
    assert_eq!(cluster.pod_lines(), "p Running n1");
    cluster.delete("pods", "p");
    cluster.advance_secs(40).await;
    let claim = cluster.get("resourceclaims", "shared");
    assert_eq!(at(&claim, &["status", "allocation"]), None);
    assert!(list(&claim, &["status", "reservedFor"]).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_allocated_claim_without_consumers_can_be_deleted() {
    let cluster = TestCluster::new();
    cluster.apply(CLAIM);
    cluster.apply(&POD.replace("TemplateName: one-gpu", "Name: shared"));
    allocate_claim(&cluster, "shared");
    cluster.update_status("resourceclaims", "default/shared", |claim| {
        remove(claim, &["status", "reservedFor"]);
    });
    cluster.delete("resourceclaims", "default/shared");
    cluster.advance_secs(5).await;
    assert_eq!(cluster.object_names_of("resourceclaims"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_claim_template_is_reported_and_used_once_it_exists() {
    let cluster = TestCluster::new();
    cluster.apply(POD);
    cluster.advance_secs(1).await;
    assert_eq!(cluster.event_reasons("p"), ["FailedResourceClaimCreation"]);
    cluster.apply(TEMPLATE);
    cluster.advance_secs(1).await;
    assert_eq!(cluster.object_names_of("resourceclaims").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn gpus_for_claims_are_published_by_a_driver() {
    let cluster = TestCluster::new();
    cluster.apply(
        "
        apiVersion: v1
        kind: Node
        metadata: {name: n1, annotations: {schedlab.dev/published-gpus: '2'}}
        status: {capacity: {cpu: '64', memory: 512Gi, pods: '110'}}
        ",
    );
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("deviceclasses"), ["gpu.nvidia.com"]);
    let slice = cluster.objects_of("resourceslices").remove(0);
    assert_eq!(name(&slice), "n1-gpu.nvidia.com");
    let devices = list(&slice, &["spec", "devices"]).iter().map(entry_name);
    assert_eq!(devices.collect::<Vec<_>>(), ["gpu-0", "gpu-1"]);
    assert_eq!(slice["spec"]["devices"][0]["capacity"]["memory"]["value"], "80Gi");
    cluster.delete("nodes", "n1");
    cluster.advance_secs(1).await;
    assert_eq!(cluster.object_names_of("resourceslices"), [""; 0]);
}

fn entry_name(entry: &schedlab_api::Value) -> &str {
    text(entry, &["name"])
}

#[tokio::test(start_paused = true)]
async fn a_driver_withdraws_unhealthy_gpus_and_publishes_them_again() {
    let cluster = TestCluster::new();
    cluster.apply(
        "
        apiVersion: v1
        kind: Node
        metadata: {name: n1, annotations: {schedlab.dev/published-gpus: '3'}}
        status: {capacity: {cpu: '64', memory: 512Gi, pods: '110'}}
        ",
    );
    cluster.settle().await;
    for (unhealthy, published, generation) in
        [("0,2", &["gpu-1"][..], 2), ("", &["gpu-0", "gpu-1", "gpu-2"], 3)]
    {
        cluster.set_annotation("nodes", "n1", "schedlab.dev/unhealthy-gpus", unhealthy);
        cluster.settle().await;
        let slice = cluster.objects_of("resourceslices").remove(0);
        let devices = list(&slice, &["spec", "devices"]).iter().map(entry_name);
        assert_eq!(devices.collect::<Vec<_>>(), published);
        assert_eq!(slice["spec"]["pool"]["generation"], generation);
    }
}
