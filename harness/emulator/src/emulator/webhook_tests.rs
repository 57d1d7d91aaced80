//! Webhooks in a cluster that lives, in this process and in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};

use super::lab::{Lab, job};
use crate::calls::Service;
use crate::object::{annotation, text};
use schedlab_json::{Value, json};

/// A configuration of one webhook; `more` is the rest of its clientConfig's and its own fields.
fn configured(sort: &str, resource: &str, more: &str) -> String {
    format!(
        "
        apiVersion: admissionregistration.k8s.io/v1
        kind: {sort}WebhookConfiguration
        metadata: {{name: hook}}
        webhooks:
        - name: one.hook.test
          sideEffects: None
          admissionReviewVersions: [v1]
          rules: [{{apiGroups: [\"*\"], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [{resource}]}}]
          {more}
        "
    )
}

const SERVICE: &str = "clientConfig: {service: {namespace: default, name: hook, path: /here}}";

/// The review's answer: allowed, with what `and` adds.
fn allowed(review: &Value, and: &Value) -> Value {
    let mut answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    for (field, value) in and.as_object().into_iter().flatten() {
        answer["response"][field.as_str()] = value.clone();
    }
    answer
}

fn patch(operations: &Value) -> Value {
    json!({"patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

fn config_map(name: &str) -> ConfigMap {
    schedlab_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// What refuses a config map, if anything does.
async fn refusal(lab: &Lab) -> String {
    let maps: Api<ConfigMap> = Api::default_namespaced(lab.emulator.client());
    match maps.create(&PostParams::default(), &config_map("a")).await {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_a_controller_makes_pass_the_webhooks() {
    let lab = Lab::new();
    let service: Service = Arc::new(|path, review| {
        let user = review["request"]["userInfo"]["username"].as_str().unwrap_or_default();
        let mark = json!({"mark": format!("{path} {user}")});
        let add = json!([{"op": "add", "path": "/metadata/annotations", "value": mark}]);
        let answer = allowed(&review, &patch(&add));
        async { answer }.boxed()
    });
    lab.emulator.serve_webhook("default", "hook", service);
    lab.apply(&configured("Mutating", "pods", SERVICE));
    lab.apply(&job("parallelism: 2", ""));
    lab.rest().await;
    let pods = lab.all("pods");
    let marks: Vec<_> = pods.iter().filter_map(|pod| annotation(pod, "mark")).collect();
    assert_eq!(marks, ["/here system:kube-controller-manager"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_webhook_refuses_is_told_on_its_job() {
    let lab = Lab::new();
    lab.apply(&configured("Validating", "pods", SERVICE));
    lab.apply(&job("parallelism: 1", ""));
    lab.rest().await;
    assert!(lab.all("pods").is_empty());
    let events = lab.all("events");
    let said: Vec<_> = events.iter().map(|event| text(event, &["message"])).collect();
    assert_eq!(
        said,
        ["Error creating: Internal error occurred: failed calling webhook \"one.hook.test\": \
          failed to call webhook: Post \"https://hook.default.svc:443/here?timeout=10s\": service \
          \"hook\" not found"]
    );
}

async fn write_another(maps: Api<ConfigMap>) {
    let merge = Patch::Merge(json!({"data": {"other": "1"}}));
    maps.patch("a", &PatchParams::default(), &merge).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_a_webhook_thinks_is_asked_about_anew() {
    let lab = Lab::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(lab.emulator.client());
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, other) = (Arc::clone(&asked), maps.clone());
    let service: Service = Arc::new(move |_, review| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let answer = allowed(&review, &json!({}));
        let change = is_first.then(|| write_another(other.clone()));
        futures::future::OptionFuture::from(change).map(|_| answer).boxed()
    });
    lab.emulator.serve_webhook("default", "hook", service);
    lab.apply(&configured("Validating", "configmaps", SERVICE));
    let merge = Patch::Merge(json!({"data": {"mine": "1"}}));
    let written = maps.patch("a", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(written.data.unwrap().into_keys().collect::<Vec<_>>(), ["mine", "other"]);
    // About mine, about the other one's while that was under way, about mine on top of it.
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_takes_too_long_in_virtual_time_has_failed() {
    let lab = Lab::new();
    let service: Service = Arc::new(|_, review| {
        async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            allowed(&review, &json!({}))
        }
        .boxed()
    });
    lab.emulator.serve_webhook("default", "hook", service);
    let slow = format!("{SERVICE}\n          timeoutSeconds: 2");
    lab.apply(&configured("Validating", "configmaps", &slow));
    let began = tokio::time::Instant::now();
    let refused = refusal(&lab).await;
    assert!(refused.contains("/here?timeout=2s\": context deadline exceeded"), "{refused}");
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_over_a_socket_lets_no_virtual_time_pass() {
    let lab = Lab::new();
    let closed = "clientConfig: {url: \"https://127.0.0.1:1/x\"}";
    lab.apply(&configured("Validating", "configmaps", closed));
    let began = tokio::time::Instant::now();
    let refused = refusal(&lab).await;
    assert!(refused.contains("dial tcp 127.0.0.1:1: connect: connection refused"), "{refused}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_new_object_keeps_its_uid_from_the_first_question_to_the_end() {
    let lab = Lab::new();
    let service: Service = Arc::new(|_, review| {
        let uid = review["request"]["object"]["metadata"]["uid"].as_str().unwrap_or_default();
        let answer = allowed(&review, &json!({"warnings": [uid]}));
        async { answer }.boxed()
    });
    lab.emulator.serve_webhook("default", "hook", service);
    lab.apply(&configured("Validating", "configmaps", SERVICE));
    let post = http::Request::post("/api/v1/namespaces/default/configmaps");
    let body = json!({"metadata": {"generateName": "a-"}}).to_string();
    let reply = lab.emulator.service().answer(post.body(body).unwrap()).await;
    let map = &lab.all("configmaps")[0];
    let expected = format!("299 - \"{}\"", crate::object::uid(map));
    assert_eq!(reply.headers()["warning"], expected.as_str());
}
