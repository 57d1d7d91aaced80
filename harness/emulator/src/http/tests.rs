//! The API through a `kube::Client` in the same process under a paused clock, and through plain
//! requests for the wire format.

mod client;
mod fuzz;
mod limits;
mod wire;

use ::http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use jiff::Timestamp;

use super::Router;
use crate::clock::Clock;
use crate::store::Store;
use crate::store::shared::SharedStore;
use schedlab_api::{Value, json};

/// A router without controllers, with the namespace `default`.
async fn server() -> Router {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let store = SharedStore::new(Store::new(7), Clock::starting_at(epoch));
    let router = Router::new(store);
    let namespace = json!({"metadata": {"name": "default"}});
    let (code, body) = send(&router, Method::POST, "/api/v1/namespaces", Some(namespace)).await;
    assert_eq!(code, 201, "{body}");
    router
}

/// Sends JSON and returns the status code and the JSON body.
async fn send(router: &Router, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path);
    send_with(router, request, &body.map_or_else(String::new, |body| body.to_string())).await
}

async fn send_with(router: &Router, request: ::http::request::Builder, body: &str) -> (u16, Value) {
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let reply = router.handle(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    (code, serde_json::from_str(&text).unwrap_or(text.into()))
}

async fn get(router: &Router, path: &str) -> (u16, Value) {
    send(router, Method::GET, path, None).await
}

/// `GET` with an `Accept` header.
async fn get_as(router: &Router, path: &str, accept: &str) -> (u16, Value) {
    send_with(router, Request::get(path).header("accept", accept), "").await
}
