//! What the tenant service sends to the cluster for the requests of Go programs.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Collected};
use kube::client::Body;
use schedlab_api::{Value, json};
use schedlab_tenancy::{NodeIsolation, TenantNames, TenantService, WatchMux};
use tower::Service as _;

/// A request as it arrived at the cluster.
#[derive(Clone, Debug)]
struct Received {
    uri: String,
    headers: HeaderMap,
    body: Value,
}

/// A cluster that records requests and answers each with one body, compressed if the client accepts
/// that, as an API server since 1.37 does.
#[derive(Clone)]
struct Cluster {
    answer: Arc<str>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Cluster {
    fn new(answer: &str) -> Self {
        Self { answer: answer.into(), received: Arc::default() }
    }

    async fn respond(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
        let mut response = Response::new(Body::from(self.answer.as_bytes().to_vec()));
        if parts.headers.contains_key(ACCEPT_ENCODING) {
            *response.body_mut() = Body::from(vec![0x1f, 0x8b, 8, 0]);
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let (uri, headers) = (parts.uri.to_string(), parts.headers);
        let body = serde_json::from_slice(&body).unwrap_or_default();
        self.received().push(Received { uri, headers, body });
        Ok(response)
    }

    /// Sends a request of the scenario with the prefix `qx1-`. Returns the response body as text.
    async fn send(&self, request: Request<Vec<u8>>) -> String {
        let cluster = self.clone();
        let service = tower::service_fn(move |request| cluster.clone().respond(request));
        let names = TenantNames {
            prefix: "qx1-".to_owned(),
            run: "r".to_owned(),
            shared_priority_classes: ["system-node-critical".to_owned()].into(),
            node_isolation: NodeIsolation::None,
            uses_kwok: false,
            installed_scheduler: None,
            node_pool: None,
        };
        let nowhere = kube::Config::new(Uri::from_static("http://127.0.0.1:1"));
        let watches = WatchMux::start(nowhere, "q").expect("the configuration makes a client");
        let client = kube::Client::new(service, "default");
        let mut tenant = TenantService::new(client, Arc::new(names), watches);
        let answered = tenant.call(request.map(Body::from)).await;
        let response = answered.expect("the tenant service answers");
        let body = response.into_body().collect().await.expect("the body arrives whole");
        String::from_utf8(body.to_bytes().to_vec()).expect("the body is UTF-8")
    }

    fn last_request(&self) -> Received {
        self.received().last().cloned().expect("a request arrived")
    }

    fn received(&self) -> MutexGuard<'_, Vec<Received>> {
        self.received.lock().expect("no holder of the lock panics")
    }
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).expect("the path is a URI")
}

#[tokio::test]
async fn watches_and_lists_are_read_although_the_client_accepts_compression() {
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    let watch = "/api/v1/nodes?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
                 &resourceVersionMatch=NotOlderThan";
    let own = json!({"metadata": {"name": "qx1-n"}});
    let other = json!({"metadata": {"name": "qx2-n"}});
    let list = json!({"kind": "NodeList", "items": [own, other]}).to_string();
    let read = |answer: &str, path: &str| {
        let (cluster, mut request) = (Cluster::new(answer), get(path));
        request.headers_mut().insert(ACCEPT_ENCODING, "gzip".parse().unwrap());
        async move { cluster.send(request).await }
    };
    let watched: Value =
        serde_json::from_str(&read(&format!("{bookmark}\n"), watch).await).unwrap();
    assert_eq!(watched, serde_json::from_str::<Value>(bookmark).unwrap());
    let listed: Value = serde_json::from_str(&read(&list, "/api/v1/nodes").await).unwrap();
    assert_eq!(listed["items"], json!([{"metadata": {"name": "n"}}]));
}

/// A pod named `p` with the scheduler name `kai-scheduler`, as a Go client encodes it.
fn protobuf_pod(api_version: &str) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).expect("a field of the pod is short");
        [&[number << 3 | 2, length], bytes].concat()
    };
    let scheduler = [&[0x9a, 0x01, 13], &b"kai-scheduler"[..]].concat();
    let container = field(2, &[field(1, b"c"), field(2, b"i")].concat());
    let pod = [field(1, &field(1, b"p")), field(2, &[container, scheduler].concat())].concat();
    let type_meta = [field(1, api_version.as_bytes()), field(2, b"Pod")].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &pod)].concat()
}

#[tokio::test]
async fn a_protobuf_body_arrives_as_json_with_the_names_of_the_cluster() {
    let protobuf = "application/vnd.kubernetes.protobuf";
    let cluster = Cluster::new(r#"{"kind":"Pod","metadata":{"name":"p","namespace":"qx1-a"}}"#);
    let mut request = Request::post("/api/v1/namespaces/a/pods").body(protobuf_pod("v1")).unwrap();
    request.headers_mut().insert(CONTENT_TYPE, protobuf.parse().unwrap());
    request.headers_mut().insert(ACCEPT, format!("{protobuf}, */*").parse().unwrap());
    let created: Value = serde_json::from_str(&cluster.send(request).await).unwrap();
    assert_eq!(created["metadata"]["namespace"], "a");
    let received = cluster.last_request();
    assert_eq!(received.uri, "/api/v1/namespaces/qx1-a/pods");
    assert_eq!(received.headers[CONTENT_TYPE], "application/json");
    assert_eq!(received.headers[ACCEPT], "application/json,*/*");
    assert_eq!(received.body["metadata"]["name"], "p");
    assert_eq!(received.body["spec"]["schedulerName"], "qx1-kai-scheduler");
}

#[tokio::test]
async fn a_protobuf_body_of_an_unknown_kind_is_refused_with_its_kind() {
    let cluster = Cluster::new("{}");
    let body = protobuf_pod("v9");
    let mut request = Request::post("/api/v1/namespaces/a/pods").body(body).unwrap();
    let protobuf = "application/vnd.kubernetes.protobuf".parse().unwrap();
    request.headers_mut().insert(CONTENT_TYPE, protobuf);
    let refused: Value = serde_json::from_str(&cluster.send(request).await).unwrap();
    assert_eq!(refused["code"], 415);
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with(r#"no kind "Pod" is registered for version "v9""#), "{message}");
}
