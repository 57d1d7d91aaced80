//! BindRequests of other schedulers: the binder does what they leave to it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_emulator::{KubernetesVersion, feature_gates::FeatureGates};
use schedlab_scheduler::Component;

use crate::lab::Lab;

/// A pod of another scheduler, and its BindRequest.
pub(crate) fn foreign_pod(name: &str, node: &str) -> (Value, Value) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulerName": "theirs",
                  "containers": [{ "name": "main", "image": "train" }] },
    });
    let request = json!({
        "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "podName": name, "selectedNode": node, "receivedResourceType": "Regular",
                  "receivedGPU": { "portion": "0.00" }, "labels": { "pool": "a" } },
    });
    (pod, request)
}

#[test]
fn bind_requests_of_another_scheduler_are_carried_out() {
    Lab::run(async |lab| {
        lab.nodes(2, 8);
        for (name, node) in [("fine", "n-1"), ("nowhere", "n-7"), ("unnamed", "")] {
            let (pod, request) = foreign_pod(name, node);
            lab.create("", "pods", &pod);
            lab.create("scheduling.run.ai", "bindrequests", &request);
        }
        let (_, mut strange) = foreign_pod("strange", "n-0");
        strange["spec"]["podName"] = json!("fine");
        lab.create("scheduling.run.ai", "bindrequests", &strange);
        let binder = lab.spawn_binder();
        lab.advance(10).await;
        assert_snapshot!(lab.pods(), @r#"
        fine Running n-1
        nowhere Pending -: Failed to bind pod default/nowhere to node n-7: nodes "n-7" not found
        unnamed Pending -: Failed to bind pod default/unnamed: spec.selectedNode: got "", expected the name of a node
        "#);
        assert_snapshot!(lab.requests(), @r#"
        fine null {"labels":{"pool":"a"},"podName":"fine","receivedGPU":{"portion":"0.00"},"receivedResourceType":"Regular","selectedNode":"n-1"} {"phase":"Succeeded"}
        nowhere null {"labels":{"pool":"a"},"podName":"nowhere","receivedGPU":{"portion":"0.00"},"receivedResourceType":"Regular","selectedNode":"n-7"} {"failedAttempts":1,"phase":"Failed","reason":"nodes \"n-7\" not found"}
        strange null {"labels":{"pool":"a"},"podName":"fine","receivedGPU":{"portion":"0.00"},"receivedResourceType":"Regular","selectedNode":"n-0"} {"failedAttempts":1,"phase":"Failed","reason":"spec.podName: got \"fine\", expected the name of the request"}
        unnamed null {"labels":{"pool":"a"},"podName":"unnamed","receivedGPU":{"portion":"0.00"},"receivedResourceType":"Regular","selectedNode":""} {"failedAttempts":1,"phase":"Failed","reason":"spec.selectedNode: got \"\", expected the name of a node"}
        "#);
        assert_eq!(lab.list("", "pods")[0]["metadata"]["labels"]["pool"], "a");
        binder.abort();
    });
}

/// An allocation of these GPUs of node `n-0` for a device request.
fn allocation(request: &str, devices: &[&str]) -> Value {
    let result = |device: &&str| json!({ "request": request, "driver": "gpu.nvidia.com", "pool": "n-0", "device": device });
    json!({ "devices": { "results": devices.iter().map(result).collect::<Value>() } })
}

impl Lab {
    fn claim(&self, name: &str) {
        let request = json!({ "name": "gpu", "exactly": { "deviceClassName": "gpu.nvidia.com" } });
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "devices": { "requests": [request] } },
        });
        self.create("resource.k8s.io", "resourceclaims", &claim);
    }

    /// Creates a pod of another scheduler that names these claims, and its BindRequest to node
    /// `n-0` with these additional fields.
    fn create_claiming_pod(&self, name: &str, claims: &[&str], spec: &Value) {
        let (mut pod, mut request) = foreign_pod(name, "n-0");
        let named = |claim: &&str| json!({ "name": claim, "resourceClaimName": claim });
        pod["spec"]["resourceClaims"] = claims.iter().map(named).collect();
        if spec.get("extendedResourceClaimAllocation").is_some() {
            let limits = json!({ "limits": { "nvidia.com/gpu": "1" } });
            pod["spec"]["containers"][0]["resources"] = limits;
        }
        for (field, value) in spec.as_object().unwrap() {
            request["spec"][field.as_str()] = value.clone();
        }
        self.create("", "pods", &pod);
        self.create("scheduling.run.ai", "bindrequests", &request);
    }

    /// Each claim with its devices, the pods that it is reserved for, and its finalizers.
    fn claims(&self) -> String {
        let describe = |claim: &Value| {
            let all = |list: &Value, field: &str| -> Vec<String> {
                let list = list.as_array().map_or(&[][..], Vec::as_slice).iter();
                list.map(|one| one[field].as_str().unwrap().to_owned()).collect()
            };
            let status = &claim["status"];
            format!(
                "{} {:?} for {:?} {}\n",
                claim["metadata"]["name"].as_str().unwrap(),
                all(&status["allocation"]["devices"]["results"], "device"),
                all(&status["reservedFor"], "name"),
                claim["metadata"]["finalizers"],
            )
        };
        self.list("resource.k8s.io", "resourceclaims").iter().map(describe).collect()
    }

    /// The phase of each BindRequest, and the reason of a failed one.
    fn request_phases(&self) -> String {
        let describe = |request: &Value| {
            let (name, status) = (&request["metadata"]["name"], &request["status"]);
            let reason = status["reason"].as_str().unwrap_or("-");
            format!("{} {} {reason}\n", name.as_str().unwrap(), status["phase"].as_str().unwrap())
        };
        self.list("scheduling.run.ai", "bindrequests").iter().map(describe).collect()
    }
}

#[test]
fn claims_get_the_devices_of_the_bind_request() {
    Lab::run(async |lab| {
        lab.nodes(1, 8);
        for claim in ["a", "b", "shared"] {
            lab.claim(claim);
        }
        let allocated = |claim: &str, device: &str| json!({ "name": claim, "allocation": allocation("gpu", &[device]) });
        let spec = |all: Value| json!({ "resourceClaimAllocations": all });
        let both = spec(json!([allocated("a", "gpu-0"), allocated("shared", "gpu-7")]));
        lab.create_claiming_pod("first", &["a", "shared"], &both);
        lab.create_claiming_pod(
            "second",
            &["shared"],
            &spec(json!([allocated("shared", "gpu-7")])),
        );
        lab.create_claiming_pod("third", &["shared"], &spec(json!([allocated("shared", "gpu-6")])));
        lab.create_claiming_pod(
            "fourth",
            &["b"],
            &spec(json!([allocated("b", "gpu-1"), allocated("c", "gpu-2")])),
        );
        let binder = lab.spawn_binder();
        lab.advance(10).await;
        assert_snapshot!(lab.pods(), @r"
        first Running n-0
        fourth Pending -: Failed to bind pod default/fourth to node n-0: the pod has no resource claim c, which the request names
        second Running n-0
        third Pending -: Failed to bind pod default/third to node n-0: ResourceClaim default/shared is already allocated with other devices than the BindRequest names
        ");
        assert_snapshot!(lab.request_phases(), @r#"
        first Succeeded -
        fourth Failed the pod has no resource claim c, which the request names
        second Succeeded -
        third Failed ResourceClaim default/shared is already allocated with other devices than the BindRequest names
        "#);
        assert_snapshot!(lab.claims(), @r#"
        a ["gpu-0"] for ["first"] ["resource.kubernetes.io/delete-protection"]
        b [] for [] ["resource.kubernetes.io/delete-protection"]
        shared ["gpu-7"] for ["first", "second"] ["resource.kubernetes.io/delete-protection"]
        "#);
        binder.abort();
    });
}

#[test]
fn devices_are_deallocated_until_the_pod_can_be_bound() {
    Lab::run(async |lab| {
        lab.nodes(1, 8);
        lab.claim("a");
        let spec = json!({
            "backoffLimit": 5,
            "resourceClaimAllocations": [{ "name": "a", "allocation": allocation("gpu", &["gpu-0"]) }],
        });
        lab.create_claiming_pod("p", &["a"], &spec);
        let failing = lab.spawn_components(lab.client_that_cannot_bind("p"), &[Component::Binder]);
        lab.advance(2).await;
        assert_snapshot!(lab.request_phases(), @"p Failed the server does not allow this method on the requested resource");
        assert_snapshot!(lab.claims(), @r#"a [] for [] ["resource.kubernetes.io/delete-protection"]"#);
        failing.abort();
        let binder = lab.spawn_binder();
        lab.advance(10).await;
        assert_snapshot!(lab.pods(), @"p Running n-0");
        assert_snapshot!(lab.claims(), @r#"a ["gpu-0"] for ["p"] ["resource.kubernetes.io/delete-protection"]"#);
        binder.abort();
    });
}

/// Fields of a BindRequest that gives a pod a device for an extended resource.
fn extended() -> Value {
    let name = "container-0-request-0";
    json!({ "extendedResourceClaimAllocation": {
        "allocation": allocation(name, &["gpu-0"]),
        "deviceRequests": [{ "name": name, "exactly": { "deviceClassName": "gpu.nvidia.com" } }],
        "containerMappings": [{ "containerName": "main", "resourceName": "nvidia.com/gpu",
                                "requestName": name }],
    } })
}

#[test]
fn claims_for_extended_resources_need_the_feature_gate() {
    let older = FeatureGates::parse(KubernetesVersion::V1_35, "").unwrap();
    Lab::run_with_gates(older, async |lab| {
        lab.nodes(1, 8);
        lab.create_claiming_pod("late", &[], &extended());
        let binder = lab.spawn_binder();
        lab.advance(10).await;
        assert_snapshot!(lab.pods(), @"late Pending -: Failed to bind pod default/late to node n-0: the API server dropped status.extendedResourceClaimStatus of the pod: its feature gate DRAExtendedResource is disabled");
        assert_eq!(lab.claims(), "");
        binder.abort();
    });
}

#[test]
fn a_claim_for_extended_resources_is_created_for_a_bind_request() {
    Lab::run_with_features(&["DRAExtendedResource"], async |lab| {
        lab.nodes(1, 8);
        let mut spec = extended();
        spec["backoffLimit"] = json!(5);
        lab.create_claiming_pod("late", &[], &spec);
        let failing =
            lab.spawn_components(lab.client_that_cannot_bind("late"), &[Component::Binder]);
        lab.advance(2).await;
        assert_eq!(
            (lab.claims(), &lab.list("", "pods")[0]["status"]["extendedResourceClaimStatus"]),
            (String::new(), &Value::Null)
        );
        failing.abort();
        let binder = lab.spawn_binder();
        lab.advance(10).await;
        let claim = lab.list("resource.k8s.io", "resourceclaims").remove(0);
        let name = claim["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("late-extended-resources-"), "{name}");
        assert_snapshot!(lab.claims().replace(name, "NAME"), @r#"NAME ["gpu-0"] for ["late"] ["resource.kubernetes.io/delete-protection"]"#);
        let pod = lab.list("", "pods").remove(0);
        assert_snapshot!(pod["status"]["extendedResourceClaimStatus"].to_string().replace(name, "NAME"), @r#"{"requestMappings":[{"containerName":"main","requestName":"container-0-request-0","resourceName":"nvidia.com/gpu"}],"resourceClaimName":"NAME"}"#);
        assert_snapshot!(lab.pods(), @"late Running n-0");
        binder.abort();
    });
}

#[test]
fn the_binder_waits_for_a_volume_as_long_as_kai() {
    Lab::run(async |lab| {
        lab.nodes(1, 8);
        lab.apply(
            "{kind: StorageClass, metadata: {name: cloud}, provisioner: csi.example.com, volumeBindingMode: WaitForFirstConsumer}
---
{kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: cloud, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
",
        );
        let (mut pod, request) = foreign_pod("p", "n-0");
        pod["spec"]["volumes"] =
            json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }]);
        lab.create("", "pods", &pod);
        lab.create("scheduling.run.ai", "bindrequests", &request);
        let binder = lab.spawn_binder();
        lab.advance(119).await;
        let claim = lab.list("", "persistentvolumeclaims").remove(0);
        assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "n-0");
        assert_eq!(lab.list("scheduling.run.ai", "bindrequests")[0]["status"], Value::Null);
        lab.advance(3).await;
        assert_snapshot!(lab.request_phases(), @"p Failed waiting for persistentvolumeclaims to be bound: data");
        binder.abort();
    });
}

#[test]
fn a_pod_that_is_bound_to_another_node_gets_no_pending_condition() {
    Lab::run(async |lab| {
        lab.nodes(2, 8);
        let (mut pod, request) = foreign_pod("there", "n-1");
        pod["spec"]["nodeName"] = json!("n-0");
        lab.create("", "pods", &pod);
        lab.create("scheduling.run.ai", "bindrequests", &request);
        let binder = lab.spawn_binder();
        lab.advance(10).await;
        binder.abort();
        assert!(lab.requests().contains("the pod is bound to node n-0 already"));
        let conditions = lab.list("", "pods")[0]["status"]["conditions"].clone();
        let failed = |condition: &&Value| condition["status"] == "False";
        let failed = conditions.as_array().unwrap().iter().filter(failed);
        let kinds: Vec<&str> = failed.filter_map(|failed| failed["type"].as_str()).collect();
        assert_eq!(kinds, ["PodBound"]);
    });
}
