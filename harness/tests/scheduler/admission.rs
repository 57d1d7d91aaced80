//! Component admission: the webhooks refuse objects that the scheduler could not use.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use futures::FutureExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler::admission::{
    Admission, PatchedPods, WebhookService, webhook_configurations,
};

use super::lab::Lab;

const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";
const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

impl Lab {
    /// Registers the scheduler's webhooks at the API server.
    pub(crate) fn install_webhooks(&self) {
        let admission = Admission::new(self.emulator.client(), &self.config);
        let handler = move |path: String, review: Value| {
            let (admission, review) = (admission.clone(), review);
            let response = async move { admission.review(&path, &review).await };
            response.map(Option::unwrap_or_default).boxed()
        };
        self.emulator.serve_webhook("kai-scheduler", "schedlab-scheduler", Arc::new(handler));
        let service = WebhookService {
            namespace: "kai-scheduler",
            name: "schedlab-scheduler",
            ca_bundle: None,
            scheduler_name: "kai-scheduler",
            patched_pods: PatchedPods::for_config(&self.config),
        };
        let [validating, mutating] = webhook_configurations(&service);
        let group = "admissionregistration.k8s.io";
        self.create(group, "validatingwebhookconfigurations", &validating);
        self.create(group, "mutatingwebhookconfigurations", &mutating);
    }

    /// Sends a request; returns the status code, the message of a refusal, and the warnings.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> String {
        let request = Request::builder().method(&method).uri(path).header(
            "content-type",
            if method == Method::PATCH {
                "application/merge-patch+json"
            } else {
                "application/json"
            },
        );
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let response = self.emulator.service().handle(request).await;
        let mut text = response.status().as_u16().to_string();
        let warnings: Vec<_> = response.headers().get_all("warning").iter().cloned().collect();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        if let Some(message) = body["message"].as_str() {
            text = format!("{text} {message}");
        }
        for warning in warnings {
            text = format!("{text}\n  {}", warning.to_str().unwrap());
        }
        text
    }

    async fn post(&self, path: &str, kind: &str, name: &str, spec: &Value) -> String {
        let version = if kind == "Queue" { "v2" } else { "v2alpha2" };
        let version = format!("scheduling.run.ai/{version}");
        let object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name },
                             "spec": spec });
        self.send(Method::POST, path, &object).await
    }

    async fn create_queue(&self, name: &str, parent: &str, gpus: i64) -> String {
        let all = json!({ "quota": 0, "overQuotaWeight": 1, "limit": -1 });
        let gpu = json!({ "quota": gpus, "overQuotaWeight": 1, "limit": -1 });
        let mut spec = json!({ "resources": { "gpu": gpu, "cpu": all, "memory": all } });
        if !parent.is_empty() {
            spec["parentQueue"] = parent.into();
        }
        self.post(QUEUES, "Queue", name, &spec).await
    }
}

#[test]
fn an_unusable_queue_is_refused() {
    Lab::run(async |lab| {
        lab.install_webhooks();
        assert_snapshot!(lab.create_queue("a", "", -5).await, @r#"422 admission webhook "queues.admission.kai.scheduler" denied the request: Queue a: spec.resources.gpu.quota: got -5, expected -1 (unlimited), or 0 to 9200000000000000 devices"#);
        assert_snapshot!(lab.post(QUEUES, "Queue", "a", &json!({})).await, @r#"422 admission webhook "queues.admission.kai.scheduler" denied the request: Queue a: spec.resources: got nothing, expected quota, overQuotaWeight and limit of gpu, cpu and memory, -1 for unlimited (omitted values count as 0: nothing may run)"#);
        let runtime = json!({ "spec": { "preemptMinRuntime": "soon" } });
        assert_snapshot!(lab.create_queue("a", "", 4).await, @"201");
        let a = format!("{QUEUES}/a");
        assert_snapshot!(lab.send(Method::PATCH, &a, &runtime).await, @r#"422 admission webhook "queues.admission.kai.scheduler" denied the request: Queue a: spec.preemptMinRuntime: got "soon", expected a duration such as 90s or 1h30m, not negative"#);
        let own_parent = json!({ "spec": { "parentQueue": "a" } });
        assert_snapshot!(lab.send(Method::PATCH, &a, &own_parent).await, @r#"422 admission webhook "queues.admission.kai.scheduler" denied the request: Queue a: spec.parentQueue: got "a", which leads back to this queue, expected a queue that is not below this one, or none"#);
    });
}

#[test]
fn a_negative_number_that_counts_as_zero_gets_a_warning() {
    Lab::run(async |lab| {
        lab.install_webhooks();
        let all = json!({ "quota": -1, "overQuotaWeight": -1, "limit": -1 });
        let gpu = json!({ "quota": 4, "overQuotaWeight": -1, "limit": -1 });
        let spec = json!({ "resources": { "gpu": gpu, "cpu": all, "memory": all } });
        assert_snapshot!(lab.post(QUEUES, "Queue", "a", &spec).await, @r#"
        201
          299 - "Queue a: spec.resources.gpu.overQuotaWeight: got -1, expected 0 or more (-1 counts as 0: the queue gets no capacity beyond quotas)"
        "#);
        let spec = json!({ "minMember": 1, "queue": "a", "preemptionDelay": "-5s" });
        assert_snapshot!(lab.post(GROUPS, "PodGroup", "g", &spec).await, @r#"
        201
          299 - "PodGroup default/g: spec.preemptionDelay: got \"-5s\", expected a duration above 0 (a negative one counts as 0: victims are evicted for the group at once)"
        "#);
    });
}

#[test]
fn a_queue_cycle_and_the_deletion_of_a_parent_queue_are_refused() {
    Lab::run(async |lab| {
        lab.install_webhooks();
        assert_snapshot!(lab.create_queue("top", "", 8).await, @"201");
        assert_snapshot!(lab.create_queue("early", "late", 4).await, @r#"
        201
          299 - "Queue early: Queue 'early' cannot be used: its parent 'late' does not exist"
        "#);
        assert_snapshot!(lab.create_queue("late", "early", 4).await, @r#"422 admission webhook "queues.admission.kai.scheduler" denied the request: Queue late: spec.parentQueue: got "early", which leads back to this queue, expected a queue that is not below this one, or none"#);
        assert_snapshot!(lab.create_queue("late", "top", 10).await, @r#"
        201
          299 - "Queue top: Quotas of the child queues add up to more than the queue's own quota: 10 of 8 GPUs"
        "#);
        let under_early = json!({ "spec": { "parentQueue": "early" } });
        let top = format!("{QUEUES}/top");
        assert_snapshot!(lab.send(Method::PATCH, &top, &under_early).await, @r#"422 admission webhook "queues.admission.kai.scheduler" denied the request: Queue top: spec.parentQueue: got "early", which leads back to this queue, expected a queue that is not below this one, or none"#);
        assert_snapshot!(lab.send(Method::DELETE, &top, &json!({})).await, @r#"422 admission webhook "queues.admission.kai.scheduler" denied the request: Queue top: metadata.name: got child queues (late), expected no child queues, as a queue with child queues cannot be deleted"#);
        let early = format!("{QUEUES}/early");
        assert_snapshot!(lab.send(Method::DELETE, &early, &json!({})).await, @"200");
    });
}

#[test]
fn an_unusable_pod_group_is_refused() {
    Lab::run(async |lab| {
        lab.install_webhooks();
        let group = async |name: &str, spec: Value| lab.post(GROUPS, "PodGroup", name, &spec).await;
        let both = json!({ "minMember": 2, "minSubGroup": 1, "queue": "q" });
        assert_snapshot!(group("both", both).await, @r#"422 admission webhook "podgroups.admission.kai.scheduler" denied the request: PodGroup default/both: spec.minSubGroup: got both, expected one of minMember and minSubGroup"#);
        let circle = json!({ "minSubGroup": 1, "queue": "q", "subGroups": [
            { "name": "a", "parent": "b" }, { "name": "b", "parent": "a" }] });
        assert_snapshot!(group("circle", circle).await, @r#"422 admission webhook "podgroups.admission.kai.scheduler" denied the request: PodGroup default/circle: spec.subGroups: parent: got a circle, expected the name of another sub-group, from which parents lead to the root"#);
        let twice = json!({ "queue": "q", "subGroups": [
            { "name": "a", "minMember": 1 }, { "name": "a", "minMember": 1 }] });
        assert_snapshot!(group("twice", twice).await, @r#"422 admission webhook "podgroups.admission.kai.scheduler" denied the request: PodGroup default/twice: spec.subGroups: name: got a, expected a name that no other sub-group has"#);
        assert_snapshot!(group("sound", json!({ "minMember": 2, "queue": "q" })).await, @"201");
    });
}

#[test]
fn an_unusable_gpu_share_of_a_pod_is_refused() {
    Lab::run(async |lab| {
        lab.install_webhooks();
        let pod = async |scheduler: &str, share: Value, gpus: Option<u32>| {
            let mut container = json!({ "name": "c", "image": "i" });
            if let Some(gpus) = gpus {
                container["resources"] = json!({ "limits": { "nvidia.com/gpu": gpus } });
            }
            let object = json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": { "name": "p", "annotations": share },
                "spec": { "schedulerName": scheduler, "containers": [container] },
            });
            lab.send(Method::POST, &format!("{PODS}?dryRun=All"), &object).await
        };
        let of = |share: &str| json!({ "gpu-fraction": share });
        assert_snapshot!(pod("kai-scheduler", of("1.5"), None).await, @r#"422 admission webhook "pods.admission.kai.scheduler" denied the request: Pod default/p: annotation gpu-fraction: got "1.5", expected a number above 0 and below 1"#);
        assert_snapshot!(pod("kai-scheduler", of("0.5"), Some(1)).await, @r#"422 admission webhook "pods.admission.kai.scheduler" denied the request: Pod default/p: annotation gpu-fraction: got "0.5", expected one of gpu-fraction, gpu-memory and whole GPUs"#);
        assert_snapshot!(pod("kai-scheduler", json!({ "gpu-memory": "-1" }), None).await, @r#"422 admission webhook "pods.admission.kai.scheduler" denied the request: Pod default/p: annotation gpu-memory: got "-1", expected a positive integer of MiB"#);
        assert_snapshot!(pod("default-scheduler", of("1.5"), None).await, @"201");
        assert_snapshot!(pod("kai-scheduler", of("0.5"), None).await, @"201");
    });
}

#[test]
fn visible_devices_are_restricted_to_requested_gpus_if_configured() {
    Lab::run(async |mut lab| {
        lab.config.block_nvidia_visible_devices = true;
        lab.install_webhooks();
        let pod = async |name: &str, scheduler: &str, environment: Value| {
            let object = json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": { "name": name },
                "spec": { "schedulerName": scheduler, "containers": [
                    { "name": "c", "image": "i", "env": environment }] },
            });
            lab.send(Method::POST, PODS, &object).await
        };
        let all = json!([{ "name": "NVIDIA_VISIBLE_DEVICES", "value": "all" }]);
        assert_snapshot!(pod("greedy", "kai-scheduler", all.clone()).await, @r#"422 admission webhook "pods.admission.kai.scheduler" denied the request: Pod default/greedy: spec.containers[0].env[0]: got NVIDIA_VISIBLE_DEVICES "all", expected "void" or "none": the requests of a container determine which GPUs it sees (blockNvidiaVisibleDevices)"#);
        assert_snapshot!(pod("foreign", "default-scheduler", all).await, @"201");
        assert_snapshot!(pod("modest", "kai-scheduler", json!([])).await, @"201");
        let env_of = |pod: &Value| {
            format!("{} {}", pod["metadata"]["name"], pod["spec"]["containers"][0]["env"])
        };
        let env_of: Vec<String> = lab.list("", "pods").iter().map(env_of).collect();
        assert_snapshot!(env_of.join("\n"), @r#"
        "foreign" [{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"}]
        "modest" [{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]
        "#);
    });
}

#[test]
fn gpu_pods_get_the_configured_runtime_class() {
    Lab::run(async |mut lab| {
        lab.config.gpu_pod_runtime_class = Some("nvidia".to_owned());
        lab.install_webhooks();
        for name in ["nvidia", "mine"] {
            let class = json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                                "metadata": { "name": name }, "handler": name });
            lab.send(Method::POST, "/apis/node.k8s.io/v1/runtimeclasses", &class).await;
        }
        let pod = async |name: &str, gpus: &str, edit: fn(&mut Value)| {
            let mut object = json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": { "name": name },
                "spec": { "schedulerName": "kai-scheduler", "containers": [
                    { "name": "c", "image": "i", "resources": { "limits": { "nvidia.com/gpu": gpus } } }] },
            });
            edit(&mut object);
            lab.send(Method::POST, PODS, &object).await
        };
        pod("whole", "1", |_| {}).await;
        pod("cpu", "0", |_| {}).await;
        let shares = |pod: &mut Value| {
            pod["metadata"]["annotations"] = json!({ "gpu-fraction": "0.5" });
            pod["spec"]["containers"][0]["resources"] = json!({});
        };
        pod("share", "0", shares).await;
        pod("own", "1", |pod| pod["spec"]["runtimeClassName"] = json!("mine")).await;
        pod("foreign", "1", |pod| pod["spec"]["schedulerName"] = json!("default-scheduler")).await;
        let classes = lab.list("", "pods");
        let class = |pod: &Value| {
            format!("{} {}", pod["metadata"]["name"], pod["spec"]["runtimeClassName"])
        };
        let classes: Vec<String> = classes.iter().map(class).collect();
        assert_snapshot!(classes.join("\n"), @r#"
        "cpu" null
        "foreign" null
        "own" "mine"
        "share" "nvidia"
        "whole" "nvidia"
        "#);
    });
}

#[test]
fn an_update_that_leaves_an_old_mistake_gets_a_warning() {
    Lab::run(async |lab| {
        let spec = json!({ "resources": { "gpu": { "quota": -5 } } });
        lab.post(QUEUES, "Queue", "a", &spec).await;
        lab.install_webhooks();
        let a = format!("{QUEUES}/a");
        let label = json!({ "metadata": { "labels": { "team": "x" } } });
        assert_snapshot!(lab.send(Method::PATCH, &a, &label).await, @r#"
        200
          299 - "Queue a: spec.resources.gpu.quota: got -5, expected -1 (unlimited), or 0 to 9200000000000000 devices"
        "#);
        let worse = json!({ "spec": { "resources": { "gpu": { "quota": -6 } } } });
        assert_snapshot!(lab.send(Method::PATCH, &a, &worse).await, @r#"422 admission webhook "queues.admission.kai.scheduler" denied the request: Queue a: spec.resources.gpu.quota: got -6, expected -1 (unlimited), or 0 to 9200000000000000 devices"#);
    });
}
