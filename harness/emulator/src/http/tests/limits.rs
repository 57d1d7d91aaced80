//! Requests that would take too much memory, stack or time.

use ::http::{Method, Request};

use super::{Router, send, send_with, server};
use schedlab_api::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/a.io/v1/namespaces/default/things";

/// Defines the kind `Thing`, whose list `l` has a rule.
async fn define_things(router: &Router, rule: &str, items_max: u64) -> (u16, Value) {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "x-kubernetes-validations": [{"rule": rule}],
        "properties": {"l": {"type": "array", "maxItems": items_max, "items": {"type": "integer"}}},
    }}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "metadata": {"name": "things.a.io"},
        "spec": {
            "group": "a.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    });
    send(router, Method::POST, CRDS, Some(definition)).await
}

async fn create_thing(router: &Router, items: usize) -> (u16, Value) {
    let thing = json!({
        "apiVersion": "a.io/v1",
        "kind": "Thing",
        "metadata": {"generateName": "t"},
        "spec": {"l": vec![1; items]},
    });
    send(router, Method::POST, THINGS, Some(thing)).await
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_limited_by_its_estimate_and_by_its_cost() {
    let router = server().await;
    let nested = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b + c + d > 0))))";
    let (code, refused) = define_things(&router, nested, 1_000).await;
    assert_eq!(code, 422);
    let message = refused["message"].as_str().unwrap();
    let expected = "estimated rule cost exceeds budget by factor of more than 100x";
    assert!(message.contains(expected), "{message}");

    let nested = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c > 0)))";
    assert_eq!(define_things(&router, nested, 80).await.0, 201);
    assert_eq!(create_thing(&router, 20).await.0, 201);
    let (code, refused) = create_thing(&router, 80).await;
    assert_eq!(code, 422);
    let message = refused["message"].as_str().unwrap();
    let expected = "no further validation rules will be run due to call cost exceeds limit";
    assert!(message.contains(expected), "{message}");
}

#[tokio::test(start_paused = true)]
async fn deep_values_of_unknown_fields_are_dropped_and_others_refused() {
    let router = server().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let nested = format!("{}{}", "[".repeat(9_000), "]".repeat(9_000));
    for (body, expected) in [
        (r#"{"metadata":{"name":"a"},"x":DEEP}"#, 201),
        (r#"{"metadata":{"name":"b"},"data":{"x":DEEP}}"#, 400),
    ] {
        let post = Request::post(path).header("content-type", "application/json");
        let (code, _) = send_with(&router, post, &body.replace("DEEP", &nested)).await;
        assert_eq!(code, expected, "{body}");
    }
    let (code, kept) = super::get(&router, &format!("{path}/a")).await;
    assert_eq!((code, kept.get("x")), (200, None));
}

#[tokio::test(start_paused = true)]
async fn fields_in_any_order_are_read_in_linear_time() {
    // A sorted vector would move 100,000 fields for each of them.
    let router = server().await;
    let fields: Vec<String> = (0..100_000).rev().map(|nth| format!("\"k{nth:06}\":1")).collect();
    let body = format!(r#"{{"metadata":{{"name":"a"}},"unknown":{{{}}}}}"#, fields.join(","));
    let post = Request::post("/api/v1/namespaces/default/configmaps");
    let (code, _) =
        send_with(&router, post.header("content-type", "application/json"), &body).await;
    assert_eq!(code, 201);
}

#[tokio::test]
async fn a_costly_rule_does_not_lock_the_store() {
    let router = server().await;
    let nested = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c > 0)))";
    assert_eq!(define_things(&router, nested, 80).await.0, 201);
    let costly = {
        let (router, runtime) = (router.clone(), tokio::runtime::Handle::current());
        tokio::task::spawn_blocking(move || runtime.block_on(create_thing(&router, 80)))
    };
    let mut answered = 0;
    while !costly.is_finished() {
        assert_eq!(super::get(&router, "/api/v1/namespaces/default").await.0, 200);
        answered += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(costly.await.unwrap().0, 422);
    assert!(answered > 3, "only {answered} requests were answered meanwhile");
}
