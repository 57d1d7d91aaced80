//! GPUs that pods share: a reservation pod holds each for the device plugin to see.

use std::sync::atomic::Ordering;

use insta::assert_snapshot;
use schedlab_scheduler::{Binding, Component, GpuReservation};
use serde_json::json;

use super::lab::Lab;

/// A pod that asks for half a GPU.
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
        self.config.gpu_reservation = Some(GpuReservation::with_image("reserve"));
    }

    /// What each pod is told of its devices.
    fn devices(&self) -> String {
        let told = |pod: &serde_json::Value| {
            let annotations = &pod["metadata"]["annotations"];
            format!(
                "{} {} {} reserves {}\n",
                pod["metadata"]["name"],
                pod["metadata"]["labels"]["runai-gpu-group"].is_string(),
                annotations["nvidia.cdi.k8s.io/container.main"],
                annotations["run.ai/reserve_for_gpu_index"],
            )
        };
        self.list("", "pods").iter().map(told).collect()
    }
}

#[test]
fn a_shared_gpu_is_reserved_until_the_last_of_its_pods_ends() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 2);
        lab.queue("q", 8, -1);
        lab.reserve_gpus();
        lab.start();
        lab.apply(&half("a"));
        lab.apply(&half("b"));
        lab.pass(5).await;
        lab.job("whole", "q", (2, 1));
        lab.pass(5).await;
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
        "whole-0-hvcgv" false null reserves null
        "whole-1-ndvm2" false null reserves null
        "gpu-reservation-041ddf6d2fb70d4d" true null reserves "0"
        "#);
        lab.delete_in("default", "pods", "", "a");
        lab.pass(60).await;
        assert_snapshot!(lab.pods(), @r"
        b Running n-0
        whole-0 Pending -: Resources were not found for pod default/whole-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        whole-1 Running n-0
        gpu-reservation-041ddf6d2fb70d4d Running n-0
        ");
        lab.delete_in("default", "pods", "", "b");
        lab.pass(60).await;
        assert_snapshot!(lab.pods(), @r"
        whole-0 Running n-0
        whole-1 Running n-0
        ");
    });
}

#[test]
fn pods_share_one_reserved_gpu_whenever_scheduler_and_binder_die() {
    for writes in 0.. {
        let (tried, pods) = Lab::tell(async |mut lab| {
            lab.nodes(1, 2);
            lab.queue("q", 8, -1);
            lab.reserve_gpus();
            let tried = lab.start_doomed(writes);
            lab.apply(&half("a"));
            lab.apply(&half("b"));
            lab.until(|| tried.load(Ordering::Relaxed) > writes).await;
            lab.stop().await;
            lab.start();
            lab.pass(10).await;
            (tried.load(Ordering::Relaxed), lab.pods())
        });
        let running: Vec<&str> = pods.lines().filter(|pod| pod.ends_with("Running n-0")).collect();
        assert_eq!((running.len(), pods.lines().count()), (3, 3), "after {writes} writes: {pods}");
        if tried <= writes {
            assert!(writes > 15, "{writes}");
            return;
        }
    }
}

#[test]
fn a_device_that_cannot_be_reserved_is_told_and_its_reservation_ends() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 1);
        lab.queue("q", 8, -1);
        lab.reserve_gpus();
        lab.start();
        lab.job("whole", "q", (1, 1));
        lab.pass(5).await;
        lab.stop().await;
        // Another scheduler thinks that the GPU is free.
        let foreign = half("a").replace("kai-scheduler", "theirs");
        lab.apply(&foreign);
        lab.create(
            "scheduling.run.ai",
            "bindrequests",
            &json!({
                "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
                "metadata": { "name": "a", "namespace": "default" },
                "spec": { "podName": "a", "selectedNode": "n-0", "selectedGPUGroups": ["g"],
                          "receivedResourceType": "Fraction" },
            }),
        );
        lab.only(&[Component::Binder]);
        lab.start();
        lab.pass(60).await;
        assert_snapshot!(lab.pods(), @r"
        a Pending -
        whole-0 Running n-0
        ");
        assert_snapshot!(lab.list("scheduling.run.ai", "bindrequests")[0]["status"], @r#"{"failedAttempts":1,"phase":"Failed","reason":"GPU reservation pod kai-resource-reservation/gpu-reservation-312e2a78fa96975a has ended"}"#);
        assert_snapshot!(lab.events(), @r"
        Pod BindingError Failed to bind pod default/a to node n-0: GPU reservation pod kai-resource-reservation/gpu-reservation-312e2a78fa96975a has ended
        Pod Bound Pod bound successfully to node n-0
        Pod OutOfnvidia.com/gpu Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 1, capacity: 1
        Pod Scheduled Successfully assigned pod default/whole-0 to node n-0 at node-pool default
        Queue GuaranteesAboveCapacity Quotas of the top queues add up to more than the cluster has: 8 of 1 GPUs
        ");
    });
}
