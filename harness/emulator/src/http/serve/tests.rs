//! Requests over a real socket, in real time.

use std::net::SocketAddr;

use ::http::Request;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::{Method, Query, Reach, Server, bearer_token, request_verb, target_of_path};
use crate::clock::Clock;
use crate::http::Router;
use crate::store::Store;
use crate::store::shared::SharedStore;
use schedlab_api::json;

fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

async fn started() -> Server {
    let store = SharedStore::new(Store::new(1), Clock::real());
    Server::start(Router::new(store), loopback(), Reach::Loopback).await.unwrap()
}

async fn client(kubeconfig: &str) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

fn namespace(name: &str) -> Namespace {
    schedlab_api::from_value(json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test]
async fn the_kubeconfig_grants_access() {
    let server = started().await;
    let namespaces: Api<Namespace> = Api::all(client(&server.kubeconfig).await);
    let mut events = Box::pin(namespaces.watch(&WatchParams::default(), "0").await.unwrap());
    namespaces.create(&PostParams::default(), &namespace("a")).await.unwrap();
    let event = events.try_next().await.unwrap().unwrap();
    let WatchEvent::Added(seen) = event else { panic!("{event:?}") };
    assert_eq!(seen.metadata.name.as_deref(), Some("a"));
    server.shut_down().await;
    assert!(namespaces.list(&ListParams::default()).await.is_err());
}

#[tokio::test]
async fn a_request_without_the_token_is_unauthorized() {
    let server = started().await;
    let forged = server.kubeconfig.replace("token: ", "token: x");
    let namespaces: Api<Namespace> = Api::all(client(&forged).await);
    let refused = namespaces.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
}

#[test]
fn the_bearer_scheme_may_have_any_case() {
    let cases = [
        ("Bearer t", Some("t")),
        ("bearer t", Some("t")),
        ("BEARER t", Some("t")),
        (" Bearer t ", Some("t")),
        ("Bearer t more", Some("t")),
        ("Bearer  t", None),
        ("Bearer", None),
        ("Basic t", None),
        ("", None),
    ];
    for (header, token) in cases {
        assert_eq!(bearer_token(header), token, "{header}");
    }
}

#[tokio::test]
async fn a_network_address_must_be_requested_explicitly() {
    let store = SharedStore::new(Store::new(1), Clock::real());
    let anywhere: SocketAddr = ([0, 0, 0, 0], 0).into();
    let router = Router::new(store);
    let refused = Server::start(router.clone(), anywhere, Reach::Loopback).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "0.0.0.0:0 can be reached from other machines; \
         serve on a loopback address such as 127.0.0.1:0"
    );
    let server = Server::start(router, anywhere, Reach::Network).await.unwrap();
    assert!(server.kubeconfig.contains("https://127.0.0.1:"));
}

/// The status code for a POST with a body of 32 MiB.
async fn post_large(kubeconfig: &str, path: &str) -> u16 {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(vec![b' '; 32 << 20].into()).unwrap();
    client(kubeconfig).await.send(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_body_is_read_after_authentication_and_up_to_its_limit() {
    let server = started().await;
    assert_eq!(post_large(&server.kubeconfig, "/api/v1/namespaces").await, 413);
    let forged = server.kubeconfig.replace("token: ", "token: x");
    assert_eq!(post_large(&forged, "/api/v1/namespaces").await, 401);
    assert_eq!(post_large(&forged, "/healthz").await, 405);
}

#[tokio::test]
async fn other_requests_are_answered_during_a_long_one() {
    let server = started().await;
    let client = client(&server.kubeconfig).await;
    // Several passes over half a million values.
    let body = format!(r#"{{"metadata":{{"name":"a"}},"x":[{}1]}}"#, "1,".repeat(500_000));
    let request = Request::post("/api/v1/namespaces").header("content-type", "application/json");
    let long = client.send(request.body(body.into_bytes().into()).unwrap());
    let mut long = std::pin::pin!(long);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let limit = ListParams::default();
    let mut others = 0;
    let response = loop {
        tokio::select! {
            response = &mut long => break response.unwrap(),
            listed = namespaces.list(&limit) => others += usize::from(listed.is_ok()),
        }
    };
    assert_eq!(response.status(), 201);
    assert!(others > 1, "{others} requests were answered during the long one");
}

#[test]
fn the_verb_of_a_request_is_that_of_rbac_rules() {
    for (method, uri, expected) in [
        (Method::POST, "/api/v1/namespaces", "create"),
        (Method::GET, "/api/v1/namespaces", "list"),
        (Method::GET, "/api/v1/namespaces?watch=1", "watch"),
        (Method::GET, "/api/v1/namespaces/a", "get"),
        (Method::PATCH, "/api/v1/namespaces/a", "patch"),
        (Method::DELETE, "/api/v1/namespaces/a", "delete"),
        (Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection"),
        (Method::GET, "/version", "get"),
    ] {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let target = target_of_path(path);
        assert_eq!(
            request_verb(&method, &target, &Query::parse(Some(query))),
            expected,
            "{method} {uri}"
        );
    }
}
