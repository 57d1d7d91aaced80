//! Default service accounts. A real API server rejects pods in a namespace without the
//! ServiceAccount `default`, which a controller creates a moment after the namespace. So whoever
//! creates a namespace through the tenant service gets the account at once.

use http::{Method, Request, StatusCode};
use kube::client::Body;
use schedlab_api::{Value, json};

use super::Error;
use super::rewrite_request::RequestTarget;

/// The name in the cluster of the namespace that a write has just created; `None` for other writes.
pub(super) fn created_namespace<'o>(
    target: &RequestTarget,
    status: StatusCode,
    object: &'o Value,
) -> Option<&'o str> {
    let is_new = target.plural == "namespaces" && status == StatusCode::CREATED;
    object["metadata"]["name"].as_str().filter(|_| is_new)
}

/// Creates the ServiceAccount `default` of a namespace. Failures are ignored, because the
/// controller may have been faster.
pub(super) async fn create_default_account(
    inner: &kube::Client,
    namespace: &str,
) -> Result<(), Error> {
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

    use crate::{TenantNames, TenantService, WatchMux};

    use super::*;

    /// Sends a write and returns the requests that reach the cluster.
    async fn requests_for(method: Method, path: &str, status: StatusCode) -> Vec<String> {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<Body>| {
            recorded.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            let object = json!({"kind": "Any", "metadata": {"name": "qx1-team"}});
            let body = Full::new(Bytes::from(object.to_string()));
            let response = Response::builder().status(status).body(body).unwrap();
            std::future::ready(Ok::<_, std::convert::Infallible>(response))
        });
        let names = TenantNames::for_test();
        let watch_mux =
            WatchMux::start(kube::Config::new("http://127.0.0.1:1".parse().unwrap()), "q");
        let inner = kube::Client::new(service, "default");
        let client = TenantService::new(inner, Arc::new(names), watch_mux.unwrap()).tenant_client();
        let request = Request::builder().method(method).uri(path);
        let object = json!({"metadata": {"name": "team"}}).to_string().into_bytes();
        client.request::<Value>(request.body(object).unwrap()).await.unwrap();
        let requests = requests.lock().unwrap();
        requests.clone()
    }

    #[tokio::test]
    async fn creating_a_namespace_creates_its_default_account() {
        let account = "POST /api/v1/namespaces/qx1-team/serviceaccounts";
        let made = requests_for(Method::POST, "/api/v1/namespaces", StatusCode::CREATED).await;
        assert_eq!(made, ["POST /api/v1/namespaces", account]);
        let one = "/api/v1/namespaces/team";
        let applied = requests_for(Method::PATCH, one, StatusCode::CREATED).await;
        assert_eq!(applied, ["PATCH /api/v1/namespaces/qx1-team", account]);
    }

    #[tokio::test]
    async fn other_writes_create_no_account() {
        let changed = requests_for(Method::PATCH, "/api/v1/namespaces/team", StatusCode::OK).await;
        assert_eq!(changed, ["PATCH /api/v1/namespaces/qx1-team"]);
        let node = requests_for(Method::POST, "/api/v1/nodes", StatusCode::CREATED).await;
        assert_eq!(node, ["POST /api/v1/nodes"]);
        let pod = "/api/v1/namespaces/team/pods";
        let pod = requests_for(Method::POST, pod, StatusCode::CREATED).await;
        assert_eq!(pod, ["POST /api/v1/namespaces/qx1-team/pods"]);
    }
}
