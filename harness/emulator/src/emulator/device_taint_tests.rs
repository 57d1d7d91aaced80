//! The eviction of pods from tainted devices.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    Value, json,
    object::{list, set, text, uid},
};

const OBJECTS: &str = "
    apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: n1}
    spec:
      driver: gpu.example.com
      pool: {name: n1, generation: 1, resourceSliceCount: 1}
      nodeName: n1
      devices: [{name: gpu-0}, {name: gpu-1}]
\n---\n
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: c}
    spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
\n---\n
    apiVersion: v1
    kind: Pod
    metadata: {name: p}
    spec:
      resourceClaims: [{name: gpu, resourceClaimName: c}]
      containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
    ";

const RULE: &str = "
    apiVersion: resource.k8s.io/v1
    kind: DeviceTaintRule
    metadata: {name: broken}
    spec:
      deviceSelector: {driver: gpu.example.com, device: gpu-0}
      taint: {key: example.com/broken, effect: NoExecute}
    ";

/// A running pod with gpu-0, whose claim has these tolerations.
async fn running_pod(tolerations: Value) -> TestCluster {
    let cluster = TestCluster::new();
    cluster.nodes(&["n1"]).await;
    cluster.apply(OBJECTS);
    let pod = cluster.get("pods", "p");
    cluster.update_status("resourceclaims", "c", |claim| {
        let device = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "n1",
            "device": "gpu-0", "tolerations": tolerations});
        set(claim, &["status", "allocation"], json!({"devices": {"results": [device]}}));
        let user = json!([{"resource": "pods", "name": "p", "uid": uid(&pod)}]);
        set(claim, &["status", "reservedFor"], user);
    });
    cluster.bind_all("n1");
    cluster.secs(5).await;
    assert_eq!(cluster.in_phase("Running"), 1);
    cluster
}

fn progress(cluster: &TestCluster) -> String {
    let rule = cluster.get("devicetaintrules", "/broken");
    let condition = &list(&rule, &["status", "conditions"])[0];
    let of = |field: &str| text(condition, &[field]).to_owned();
    [of("status"), of("reason"), of("message")].join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_taint_rule_evicts_the_pods_of_its_devices() {
    let cluster = running_pod(json!([])).await;
    cluster.apply(RULE);
    cluster.secs(5).await;
    assert_eq!(cluster.names("pods").len(), 0);
    let events = cluster.events("p");
    assert!(events.contains(&"DeviceTaintManagerEviction".to_owned()), "{events:?}");
    cluster.secs(20).await;
    assert_eq!(progress(&cluster), "False Completed ");
}

#[tokio::test(start_paused = true)]
async fn a_taint_of_a_device_evicts_at_the_end_of_its_toleration() {
    let toleration =
        json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    let cluster = running_pod(toleration).await;
    cluster.edit("resourceslices", "/n1", |slice| {
        let taint = json!([{"key": "example.com/broken", "effect": "NoExecute"}]);
        set(&mut slice["spec"]["devices"][0], &["taints"], taint);
    });
    cluster.secs(50).await;
    assert_eq!(cluster.in_phase("Running"), 1);
    cluster.secs(20).await;
    assert_eq!(cluster.names("pods").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rule_without_effect_tells_what_it_would_evict() {
    let cluster = running_pod(json!([])).await;
    cluster.apply(&RULE.replace("NoExecute", "None"));
    cluster.secs(15).await;
    assert_eq!(cluster.in_phase("Running"), 1);
    assert_eq!(
        progress(&cluster),
        "False NoEffect 1 published device selected. 1 allocated device selected. 1 pod would be \
         evicted in 1 namespace if the effect was NoExecute. This information will not be updated \
         again. Recreate the DeviceTaintRule to trigger an update."
    );
}
