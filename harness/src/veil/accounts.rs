//! Accounts of namespaces. A real API server refuses pods where the account `default` is not yet,
//! and its controller comes a moment after the namespace: whoever makes a namespace through the
//! veil finds the account there.

use http::{Method, Request, StatusCode};
use kube::client::Body;
use schedlab_json::{Value, json};

use super::Error;
use super::requests::Place;

/// The namespace that a write has made, as the cluster has it.
pub(super) fn made<'o>(place: &Place, answered: StatusCode, object: &'o Value) -> Option<&'o str> {
    let is_new = place.plural == "namespaces" && answered == StatusCode::CREATED;
    object["metadata"]["name"].as_str().filter(|_| is_new)
}

/// Makes its account. The controller may have been quicker, and what is refused is left to it.
pub(super) async fn open(inner: &kube::Client, namespace: &str) -> Result<(), Error> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
    });
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("/api/v1/namespaces/{namespace}/serviceaccounts"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(account.to_string().into_bytes()))?;
    inner.send(request).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Response;
    use http_body_util::Full;
    use hyper::body::Bytes;

    use crate::veil::{Hub, Names, Veil};

    use super::*;

    /// What a cluster is asked when a scenario writes there.
    async fn asked(method: Method, path: &str, answered: StatusCode) -> Vec<String> {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            heard.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            let object = json!({"kind": "Any", "metadata": {"name": "qx1-team"}});
            let body = Full::new(Bytes::from(object.to_string()));
            let answer = Response::builder().status(answered).body(body).unwrap();
            std::future::ready(Ok::<_, std::convert::Infallible>(answer))
        });
        let names = Names::of_a_test();
        let hub = Hub::start(kube::Config::new("http://127.0.0.1:1".parse().unwrap()), "q");
        let inner = kube::Client::new(service, "default");
        let client = Veil::new(inner, Arc::new(names), hub.unwrap()).client();
        let request = Request::builder().method(method).uri(path);
        let object = json!({"metadata": {"name": "team"}}).to_string().into_bytes();
        client.request::<Value>(request.body(object).unwrap()).await.unwrap();
        let asked = asked.lock().unwrap();
        asked.clone()
    }

    #[tokio::test]
    async fn whoever_makes_a_namespace_finds_its_account_there() {
        let account = "POST /api/v1/namespaces/qx1-team/serviceaccounts";
        let made = asked(Method::POST, "/api/v1/namespaces", StatusCode::CREATED).await;
        assert_eq!(made, ["POST /api/v1/namespaces", account]);
        let one = "/api/v1/namespaces/team";
        let applied = asked(Method::PATCH, one, StatusCode::CREATED).await;
        assert_eq!(applied, ["PATCH /api/v1/namespaces/qx1-team", account]);
    }

    #[tokio::test]
    async fn what_makes_no_namespace_makes_no_account() {
        let changed = asked(Method::PATCH, "/api/v1/namespaces/team", StatusCode::OK).await;
        assert_eq!(changed, ["PATCH /api/v1/namespaces/qx1-team"]);
        let node = asked(Method::POST, "/api/v1/nodes", StatusCode::CREATED).await;
        assert_eq!(node, ["POST /api/v1/nodes"]);
        let pod = "/api/v1/namespaces/team/pods";
        let pod = asked(Method::POST, pod, StatusCode::CREATED).await;
        assert_eq!(pod, ["POST /api/v1/namespaces/qx1-team/pods"]);
    }
}
