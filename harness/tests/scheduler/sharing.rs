//! Shared GPUs: a reservation pod holds each of them, so that the device plugin counts it as used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::OptionFuture;
use http::{Method, Request, StatusCode};
use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler::{Binding, Component, GpuReservation, explain::OutputFormat};
use tower::{ServiceExt as _, service_fn};

use super::{admission::PODS, lab::Lab};

/// A pod that requests half a GPU.
fn half(name: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: default
  labels: {{kai.scheduler/queue: q}}
  annotations: {{gpu-fraction: '0.5'}}
spec:
  schedulerName: kai-scheduler
  priorityClassName: train
  tolerations: [{{key: gpu, operator: Exists}}]
  containers: [{{name: main, image: train}}]
"
    )
}

impl Lab {
    fn reserve_gpus(&mut self) {
        self.create(
            "",
            "namespaces",
            &json!({ "metadata": { "name": "kai-resource-reservation" } }),
        );
        self.config.binding = Binding::Requests;
        self.config.enable_gpu_reservation(GpuReservation::with_image("reserve"));
    }

    /// Creates a pod through the HTTP API, so that webhooks are called.
    async fn post_pod(&self, pod: &str) {
        let pod: Value = serde_yaml::from_str(pod).expect("the pod is YAML");
        assert_eq!(self.send(Method::POST, PODS, &pod).await, "201");
    }

    /// Creates a pod of another scheduler that shares a GPU, and its BindRequest with these
    /// additional fields.
    fn create_bind_request(&self, name: &str, more: &Value) {
        self.apply(&half(name).replace("kai-scheduler", "theirs"));
        let mut spec = json!({
            "podName": name, "selectedNode": "n-0", "selectedGPUGroups": ["g"],
            "receivedResourceType": "Fraction",
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field.as_str()] = value.clone();
        }
        let request = json!({
            "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
            "metadata": { "name": name, "namespace": "default" }, "spec": spec,
        });
        self.create("scheduling.run.ai", "bindrequests", &request);
    }

    /// A client whose first read of a pod fails, and whose list of pods is delayed.
    fn client_with_slow_start(&self, pod: &'static str) -> kube::Client {
        let (router, fails) = (self.emulator.service(), AtomicBool::new(true));
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let router = router.clone();
            let path = request.uri().path();
            let reads = request.method() == Method::GET;
            let of_pod = reads && path.ends_with(&format!("/pods/{pod}"));
            let fails = of_pod && fails.swap(false, Ordering::Relaxed);
            let failure = fails.then_some(StatusCode::INTERNAL_SERVER_ERROR);
            let delay = reads && path.ends_with("/pods");
            let delay = delay.then(|| tokio::time::sleep(Duration::from_secs(1)));
            async move {
                OptionFuture::from(delay).await;
                let mut response = router.oneshot(request).await?;
                *response.status_mut() = failure.unwrap_or(response.status());
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    /// A client whose first `times` deletions are forbidden, and the counter of attempted
    /// deletions.
    fn client_forbidden_to_delete(&self, times: u32) -> (kube::Client, Arc<AtomicU32>) {
        let attempted = Arc::new(AtomicU32::new(0));
        let (counter, router) = (Arc::clone(&attempted), self.emulator.service());
        let service = service_fn(move |mut request: Request<kube::client::Body>| {
            let deletes = request.method() == Method::DELETE;
            let fails = deletes && counter.fetch_add(1, Ordering::Relaxed) < times;
            if fails {
                *request.method_mut() = Method::GET;
            }
            let (router, forbidden) = (router.clone(), fails.then_some(StatusCode::FORBIDDEN));
            async move {
                let mut response = router.oneshot(request).await?;
                *response.status_mut() = forbidden.unwrap_or(response.status());
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        (kube::Client::new(service, "default"), attempted)
    }

    /// Each pod: whether it has a GPU group, its device, and the index that it reserves.
    fn devices(&self) -> String {
        let describe = |pod: &Value| {
            let annotations = &pod["metadata"]["annotations"];
            format!(
                "{} {} {} reserves {}\n",
                pod["metadata"]["name"],
                pod["metadata"]["labels"]["runai-gpu-group"].is_string(),
                annotations["nvidia.cdi.k8s.io/container.main"],
                annotations["run.ai/reserve_for_gpu_index"],
            )
        };
        self.list("", "pods").iter().map(describe).collect()
    }
}

#[test]
fn a_shared_gpu_is_reserved_until_its_last_pod_ends() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 2);
        lab.queue("q", 8, -1);
        lab.reserve_gpus();
        lab.start();
        lab.apply(&half("a"));
        lab.apply(&half("b"));
        lab.advance(5).await;
        lab.job("whole", "q", 2, 1);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        a Running n-0
        b Running n-0
        whole-0 Pending -: Resources were not found for pod default/whole-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        whole-1 Running n-0
        gpu-reservation-041ddf6d2fb70d4d Running n-0
        ");
        assert_snapshot!(lab.devices(), @r#"
        "a" true "0" reserves null
        "b" true "0" reserves null
        "whole-0-nqf4p" false null reserves null
        "whole-1-mwmff" false null reserves null
        "gpu-reservation-041ddf6d2fb70d4d" true null reserves "0"
        "#);
        lab.delete_in("default", "pods", "", "a");
        lab.advance(60).await;
        assert_snapshot!(lab.pods(), @r"
        b Running n-0
        whole-0 Pending -: Resources were not found for pod default/whole-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        whole-1 Running n-0
        gpu-reservation-041ddf6d2fb70d4d Running n-0
        ");
        lab.delete_in("default", "pods", "", "b");
        lab.advance(60).await;
        assert_snapshot!(lab.pods(), @r"
        whole-0 Running n-0
        whole-1 Running n-0
        ");
    });
}

#[test]
fn pods_share_one_reserved_gpu_although_scheduler_and_binder_crash() {
    for writes in 0.. {
        let (attempted, pods) = Lab::run(async |mut lab| {
            lab.nodes(1, 2);
            lab.queue("q", 8, -1);
            lab.reserve_gpus();
            let attempted = lab.start_hanging_after(writes);
            lab.apply(&half("a"));
            lab.apply(&half("b"));
            lab.wait_until(|| attempted.load(Ordering::Relaxed) > writes).await;
            lab.stop().await;
            lab.start();
            lab.advance(10).await;
            (attempted.load(Ordering::Relaxed), lab.pods())
        });
        let running: Vec<&str> = pods.lines().filter(|pod| pod.ends_with("Running n-0")).collect();
        assert_eq!((running.len(), pods.lines().count()), (3, 3), "after {writes} writes: {pods}");
        if attempted <= writes {
            assert!(writes > 15, "{writes}");
            return;
        }
    }
}

/// Starts a binder with a BindRequest of another scheduler for the GPU of a running job.
async fn request_gpu_in_use(lab: &mut Lab, request: &Value) {
    lab.nodes(1, 1);
    lab.queue("q", 8, -1);
    lab.reserve_gpus();
    lab.start();
    lab.job("whole", "q", 1, 1);
    lab.advance(5).await;
    lab.stop().await;
    lab.create_bind_request("a", request);
    lab.run_only(&[Component::Binder]);
    lab.start();
}

#[test]
fn a_failed_gpu_reservation_is_reported_and_deleted() {
    Lab::run(async |mut lab| {
        request_gpu_in_use(&mut lab, &json!({})).await;
        lab.advance(60).await;
        assert_snapshot!(lab.pods(), @r"
        a Pending -: Failed to bind pod default/a to node n-0: GPU reservation pod kai-resource-reservation/gpu-reservation-312e2a78fa96975a has ended
        whole-0 Running n-0
        ");
        assert_snapshot!(lab.list("scheduling.run.ai", "bindrequests")[0]["status"], @r#"{"failedAttempts":1,"phase":"Failed","reason":"GPU reservation pod kai-resource-reservation/gpu-reservation-312e2a78fa96975a has ended"}"#);
        assert_snapshot!(lab.events(), @r"
        Pod BindingError Failed to bind pod default/a to node n-0: GPU reservation pod kai-resource-reservation/gpu-reservation-312e2a78fa96975a has ended
        Pod Bound Pod bound successfully to node n-0
        Pod OutOfnvidia.com/gpu Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 1, capacity: 1
        Pod Scheduled Successfully assigned pod default/whole-0 to node n-0 at node-pool default
        Queue GuaranteesAboveCapacity Quotas of the top-level queues add up to more than the cluster capacity: 8 of 1 GPUs
        ");
    });
}

#[test]
fn a_failed_binding_is_reported_everywhere_with_a_suggestion() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 1);
        lab.queue("q", 1, -1);
        lab.config.binding = Binding::Requests;
        lab.config.enable_gpu_reservation(GpuReservation::with_image("reserve"));
        lab.start();
        lab.apply(&half("a"));
        lab.advance(3).await;
        let messages = async |lab: &Lab| {
            let pods = lab.list("", "pods");
            let conditions = pods[0]["status"]["conditions"].as_array().unwrap();
            let conditions = conditions.iter().map(|condition| {
                let [kind, reason] = ["type", "reason"].map(|field| condition[field].clone());
                format!("{kind} {} {reason}: {}\n", condition["status"], condition["message"])
            });
            let json = lab.explain_as("a", OutputFormat::Json).await;
            let json: Value = serde_json::from_str(&json).unwrap();
            let text = lab.explain("a").await;
            let (conditions, trouble) = (conditions.collect::<String>(), &json["trouble"]);
            assert_eq!(json["podGroups"][0]["reason"]["code"], "BindingError");
            format!("{conditions}{}\n{text}\n{trouble}\n{}", lab.pod_groups(), lab.events())
        };
        let failing = messages(&lab).await;
        assert_snapshot!(failing, @r#"
        "PodBound" "False" "BindingError": "Failed to bind pod default/a to node n-0: cannot reserve a GPU: namespaces \"kai-resource-reservation\" not found"
        "PodScheduled" "False" "BindingError": "Failed to bind pod default/a to node n-0: cannot reserve a GPU: namespaces \"kai-resource-reservation\" not found"
        pg-a {"minMember":1,"priorityClassName":"train","queue":"q"} "BindingError": "Failed to bind pod default/a to node n-0: cannot reserve a GPU: namespaces \"kai-resource-reservation\" not found. Remedy: create namespace kai-resource-reservation; binding is retried automatically"

        pod default/a waits

        reason: Failed to bind pod default/a to node n-0: cannot reserve a GPU: namespaces "kai-resource-reservation" not found

        remedy: create namespace kai-resource-reservation; binding is retried automatically

        {"message":"Failed to bind pod default/a to node n-0: cannot reserve a GPU: namespaces \"kai-resource-reservation\" not found","pod":"default/a","remedy":"create namespace kai-resource-reservation; binding is retried automatically"}
        Pod BindingError Failed to bind pod default/a to node n-0: cannot reserve a GPU: namespaces "kai-resource-reservation" not found
        Pod Scheduled Successfully assigned pod default/a to node n-0 at node-pool default
        PodGroup BindingError Failed to bind pod default/a to node n-0: cannot reserve a GPU: namespaces "kai-resource-reservation" not found
        "#);
        let events = lab.list("", "events").len();
        lab.advance(60).await;
        assert_eq!(messages(&lab).await, failing);
        assert_eq!(lab.list("", "events").len(), events, "each event is written once");
        lab.reserve_gpus();
        lab.advance(10).await;
        assert_snapshot!(lab.pod_groups(), @r#"pg-a {"minMember":1,"priorityClassName":"train","queue":"q"}"#);
        assert!(lab.explain("a").await.starts_with("pod group default/pg-a is fully scheduled"));
    });
}

#[test]
fn a_freed_device_is_reserved_by_a_later_attempt() {
    Lab::run(async |mut lab| {
        request_gpu_in_use(&mut lab, &json!({ "backoffLimit": 10 })).await;
        lab.advance(5).await;
        // The next attempt finds a reservation pod that never gets a device.
        let stuck = json!({
            "metadata": { "name": "gpu-reservation-312e2a78fa96975a",
                          "namespace": "kai-resource-reservation",
                          "labels": { "runai-gpu-group": "g" } },
            "spec": { "nodeName": "n-0", "containers": [{ "name": "c", "image": "i" }],
                      "volumes": [{ "name": "v", "configMap": { "name": "missing" } }] },
        });
        lab.create("", "pods", &stuck);
        lab.advance(45).await;
        assert_snapshot!(lab.list("scheduling.run.ai", "bindrequests")[0]["status"], @r#"{"failedAttempts":4,"phase":"Failed","reason":"failed waiting for GPU reservation pod to allocate: kai-resource-reservation/gpu-reservation-312e2a78fa96975a"}"#);
        lab.delete_in("default", "jobs", "batch", "whole");
        lab.advance(120).await;
        assert_snapshot!(lab.pods(), @r"
        a Running n-0
        gpu-reservation-312e2a78fa96975a Running n-0
        ");
    });
}

#[test]
fn a_pod_that_cannot_be_read_is_not_bound_before_it_has_its_device() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 1);
        lab.reserve_gpus();
        lab.create_bind_request("a", &json!({}));
        let client = lab.client_with_slow_start("a");
        let binder = lab.spawn_components(client, &[Component::Binder]);
        lab.advance(10).await;
        assert_snapshot!(lab.devices(), @r#"
        "a" true "0" reserves null
        "gpu-reservation-312e2a78fa96975a" true null reserves "0"
        "#);
        binder.abort();
    });
}

#[test]
fn a_single_cycle_waits_until_all_objects_are_listed() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 1);
        lab.reserve_gpus();
        lab.create_bind_request("a", &json!({ "selectedGPUGroups": [] }));
        lab.stop_after_one_cycle();
        let client = lab.client_with_slow_start("none");
        lab.spawn_components(client, &[Component::Binder]).await.unwrap().unwrap();
        lab.advance(1).await;
        assert_snapshot!(lab.pods(), @"a Running n-0");
    });
}

#[test]
fn nothing_is_reserved_for_an_invalid_request() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 1);
        lab.reserve_gpus();
        lab.create_bind_request("a", &json!({ "selectedNode": "" }));
        lab.run_only(&[Component::Binder]);
        lab.start();
        lab.advance(10).await;
        assert_snapshot!(lab.list("scheduling.run.ai", "bindrequests")[0]["status"], @r#"{"failedAttempts":1,"phase":"Failed","reason":"spec.selectedNode: got \"\", expected the name of a node"}"#);
    });
}

#[test]
fn gpu_groups_of_one_name_on_two_nodes_are_two_devices() {
    Lab::run(async |mut lab| {
        lab.nodes(2, 1);
        lab.reserve_gpus();
        lab.create_bind_request("a", &json!({}));
        let binder = lab.spawn_components(lab.emulator.client(), &[Component::Binder]);
        lab.advance(5).await;
        lab.create_bind_request("b", &json!({ "selectedNode": "n-1" }));
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        a Running n-0
        b Running n-1
        gpu-reservation-312e2a78fa96975a Running n-0
        gpu-reservation-3a9d43790026ea35 Running n-1
        ");
        // The last sharer on one node is deleted; the reservation on the other node stays.
        lab.delete_in("default", "pods", "", "a");
        lab.advance(60).await;
        assert_snapshot!(lab.pods(), @r"
        b Running n-1
        gpu-reservation-3a9d43790026ea35 Running n-1
        ");
        binder.abort();
    });
}

#[test]
fn the_deletion_of_a_reservation_is_retried() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 1);
        lab.reserve_gpus();
        lab.create_bind_request("a", &json!({}));
        let (client, attempted) = lab.client_forbidden_to_delete(2);
        let binder = lab.spawn_components(client, &[Component::Binder]);
        lab.advance(10).await;
        lab.delete_in("default", "pods", "", "a");
        lab.advance(60).await;
        assert_eq!((lab.pods().as_str(), attempted.load(Ordering::Relaxed)), ("", 3));
        binder.abort();
    });
}

#[test]
fn a_pod_that_shares_a_gpu_gets_it_as_environment_variables() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 2);
        lab.queue("q", 8, -1);
        lab.reserve_gpus();
        lab.install_webhooks();
        lab.start();
        let pod = half("a").replace("{name: main,", "{name: main, env: [{name: X, value: y}],");
        lab.post_pod(&pod).await;
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        a Running n-0
        gpu-reservation-9248efa5bedfcd71 Running n-0
        ");
        let pod = &lab.list("", "pods")[0];
        assert_snapshot!(pod["spec"]["containers"][0]["env"], @r#"[{"name":"NVIDIA_VISIBLE_DEVICES","valueFrom":{"configMapKeyRef":{"key":"NVIDIA_VISIBLE_DEVICES","name":"a-e3ddd86b-shared-gpu-0"}}},{"name":"RUNAI_NUM_OF_GPUS","valueFrom":{"configMapKeyRef":{"key":"RUNAI_NUM_OF_GPUS","name":"a-e3ddd86b-shared-gpu-0"}}},{"name":"GPU_PORTION","valueFrom":{"configMapKeyRef":{"key":"GPU_PORTION","name":"a-e3ddd86b-shared-gpu-0"}}},{"name":"X","value":"y"}]"#);
        let describe = |map: &Value| format!("{} {}\n", map["metadata"]["name"], map["data"]);
        let maps = lab.list("", "configmaps");
        // Every namespace has this ConfigMap.
        let created = maps.iter().filter(|map| map["metadata"]["name"] != "kube-root-ca.crt");
        let maps: String = created.map(describe).collect();
        assert_snapshot!(maps, @r#"
        "a-e3ddd86b-shared-gpu-0" {"GPU_PORTION":"0.50","NVIDIA_VISIBLE_DEVICES":"0","RUNAI_NUM_OF_GPUS":"0.50"}
        "a-e3ddd86b-shared-gpu-0-evar" null
        "#);
    });
}

#[test]
fn a_pod_is_not_changed_without_gpu_reservation() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 2);
        lab.queue("q", 8, -1);
        lab.install_webhooks();
        lab.start();
        lab.post_pod(&half("a")).await;
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @"a Running n-0");
        assert_eq!(lab.list("", "pods")[0]["spec"]["containers"][0]["env"], Value::Null);
    });
}

#[test]
fn idle_reservation_pods_are_reported_without_gpu_reservation() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 2);
        lab.queue("q", 8, -1);
        lab.reserve_gpus();
        lab.start();
        lab.post_pod(&half("a")).await;
        lab.advance(5).await;
        lab.stop().await;
        lab.config.gpu_reservation = None;
        lab.config.binding = Binding::Direct;
        let status = lab.start();
        lab.advance(5).await;
        assert_eq!(status.borrow().idle_reservations, None, "the reservation is in use");
        lab.delete_in("default", "pods", "", "a");
        lab.advance(60).await;
        assert_snapshot!(status.borrow().idle_reservations.clone().unwrap(), @"gpuReservation: got none, but there are idle GPU reservation pods (kai-resource-reservation/gpu-reservation-4a82e1d0a73ed8e9), which this scheduler does not delete: delete them, or set gpuReservation and binding requests until they are gone");
        lab.delete_in("kai-resource-reservation", "pods", "", "gpu-reservation-4a82e1d0a73ed8e9");
        lab.advance(60).await;
        assert_eq!(status.borrow().idle_reservations, None);
    });
}

#[test]
fn a_reservation_pod_is_reported_only_after_a_second_cycle() {
    Lab::run(async |mut lab| {
        lab.sleep_until_events();
        lab.nodes(1, 2);
        let status = lab.start();
        lab.advance(5).await;
        lab.apply(
            "
kind: Pod
metadata: {name: gpu-reservation-1, labels: {runai-gpu-group: g}}
spec: {schedulerName: theirs, nodeName: n-0, containers: [{name: c, image: i}]}
",
        );
        lab.advance(1).await;
        assert_eq!(status.borrow().idle_reservations, None, "only one cycle has seen it");
        lab.advance(1).await;
        assert_snapshot!(status.borrow().idle_reservations.clone().unwrap(), @"gpuReservation: got none, but there are idle GPU reservation pods (default/gpu-reservation-1), which this scheduler does not delete: delete them, or set gpuReservation and binding requests until they are gone");
    });
}
