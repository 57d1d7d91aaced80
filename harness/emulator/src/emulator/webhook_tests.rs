//! Webhooks in this process and in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};

use super::test_cluster::{TestCluster, train_job};
use crate::admission::webhooks::client::ServiceHandler;
use schedlab_api::{
    Value, json,
    object::{annotation, text},
};

/// The YAML of a webhook configuration with one webhook. `webhook_fields` are `clientConfig` and
/// further fields of the webhook.
fn webhook_configuration(webhook_kind: &str, resource: &str, webhook_fields: &str) -> String {
    format!(
        "
        apiVersion: admissionregistration.k8s.io/v1
        kind: {webhook_kind}WebhookConfiguration
        metadata: {{name: hook}}
        webhooks:
        - name: one.hook.test
          sideEffects: None
          admissionReviewVersions: [v1]
          rules: [{{apiGroups: [\"*\"], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [{resource}]}}]
          {webhook_fields}
        "
    )
}

const SERVICE_CLIENT_CONFIG: &str =
    "clientConfig: {service: {namespace: default, name: hook, path: /here}}";

/// The response to a review that allows the request, with the additional fields of
/// `response_fields`.
fn allowing_review(review: &Value, response_fields: &Value) -> Value {
    let mut response = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    for (field, value) in response_fields.as_object().into_iter().flatten() {
        response["response"][field.as_str()] = value.clone();
    }
    response
}

fn encoded_json_patch(operations: &Value) -> Value {
    json!({"patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

fn config_map(name: &str) -> ConfigMap {
    schedlab_api::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// The error of creating a `ConfigMap`; empty if the ConfigMap is accepted.
async fn config_map_creation_error(cluster: &TestCluster) -> String {
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.emulator.client());
    match maps.create(&PostParams::default(), &config_map("a")).await {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn pods_created_by_controllers_pass_the_webhooks() {
    let cluster = TestCluster::new();
    let service: ServiceHandler = Arc::new(|path, review| {
        let user = review["request"]["userInfo"]["username"].as_str().unwrap_or_default();
        let mark = json!({"mark": format!("{path} {user}")});
        let add = json!([{"op": "add", "path": "/metadata/annotations", "value": mark}]);
        let response = allowing_review(&review, &encoded_json_patch(&add));
        async { response }.boxed()
    });
    cluster.emulator.serve_webhook("default", "hook", service);
    cluster.apply(&webhook_configuration("Mutating", "pods", SERVICE_CLIENT_CONFIG));
    cluster.apply(&train_job("parallelism: 2", ""));
    cluster.settle().await;
    let pods = cluster.objects_of("pods");
    let marks: Vec<_> = pods.iter().filter_map(|pod| annotation(pod, "mark")).collect();
    assert_eq!(marks, ["/here system:kube-controller-manager"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_denial_of_a_pod_is_recorded_on_its_job() {
    let cluster = TestCluster::new();
    cluster.apply(&webhook_configuration("Validating", "pods", SERVICE_CLIENT_CONFIG));
    cluster.apply(&train_job("parallelism: 1", ""));
    cluster.settle().await;
    assert!(cluster.objects_of("pods").is_empty());
    let events = cluster.objects_of("events");
    let messages: Vec<_> = events.iter().map(|event| text(event, &["message"])).collect();
    assert_eq!(
        messages,
        ["Error creating: Internal error occurred: failed calling webhook \"one.hook.test\": \
          failed to call webhook: Post \"https://hook.default.svc:443/here?timeout=10s\": service \
          \"hook\" not found"]
    );
}

async fn write_object_during_call(maps: Api<ConfigMap>) {
    let merge = Patch::Merge(json!({"data": {"other": "1"}}));
    maps.patch("a", &PatchParams::default(), &merge).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_changed_during_a_webhook_call_is_reviewed_again() {
    let cluster = TestCluster::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.emulator.client());
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let (count, other) = (Arc::clone(&calls), maps.clone());
    let service: ServiceHandler = Arc::new(move |_, review| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let response = allowing_review(&review, &json!({}));
        let change = is_first.then(|| write_object_during_call(other.clone()));
        futures::future::OptionFuture::from(change).map(|_| response).boxed()
    });
    cluster.emulator.serve_webhook("default", "hook", service);
    cluster.apply(&webhook_configuration("Validating", "configmaps", SERVICE_CLIENT_CONFIG));
    let merge = Patch::Merge(json!({"data": {"mine": "1"}}));
    let written = maps.patch("a", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(written.data.unwrap().into_keys().collect::<Vec<_>>(), ["mine", "other"]);
    // For this write, for the other one during the call, and for this one again after it.
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_fails_at_its_timeout_in_virtual_time() {
    let cluster = TestCluster::new();
    let service: ServiceHandler = Arc::new(|_, review| {
        async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            allowing_review(&review, &json!({}))
        }
        .boxed()
    });
    cluster.emulator.serve_webhook("default", "hook", service);
    let slow = format!("{SERVICE_CLIENT_CONFIG}\n          timeoutSeconds: 2");
    cluster.apply(&webhook_configuration("Validating", "configmaps", &slow));
    let began = tokio::time::Instant::now();
    let refused = config_map_creation_error(&cluster).await;
    assert!(refused.contains("/here?timeout=2s\": context deadline exceeded"), "{refused}");
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_over_a_socket_lets_no_virtual_time_pass() {
    let cluster = TestCluster::new();
    let closed = "clientConfig: {url: \"https://127.0.0.1:1/x\"}";
    cluster.apply(&webhook_configuration("Validating", "configmaps", closed));
    let began = tokio::time::Instant::now();
    let refused = config_map_creation_error(&cluster).await;
    assert!(refused.contains("dial tcp 127.0.0.1:1: connect: connection refused"), "{refused}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_new_object_keeps_its_uid_across_webhook_calls() {
    let cluster = TestCluster::new();
    let service: ServiceHandler = Arc::new(|_, review| {
        let uid = review["request"]["object"]["metadata"]["uid"].as_str().unwrap_or_default();
        let response = allowing_review(&review, &json!({"warnings": [uid]}));
        async { response }.boxed()
    });
    cluster.emulator.serve_webhook("default", "hook", service);
    cluster.apply(&webhook_configuration("Validating", "configmaps", SERVICE_CLIENT_CONFIG));
    let post = http::Request::post("/api/v1/namespaces/default/configmaps");
    let body = json!({"metadata": {"generateName": "a-"}}).to_string();
    let response = cluster.emulator.service().handle(post.body(body).unwrap()).await;
    let map = &cluster.objects_of("configmaps")[0];
    let expected = format!("299 - \"{}\"", schedlab_api::object::uid(map));
    assert_eq!(response.headers()["warning"], expected.as_str());
}
