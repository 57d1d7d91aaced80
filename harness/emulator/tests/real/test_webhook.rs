//! A webhook for the cases. The path selects the response: `/allow`, `/deny`, `/tell` (denies with
//! the request as causes), `/mark/NAME` (appends to an annotation), and several invalid responses.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use schedlab_api::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Longer than the timeout of the webhook call.
const SLOW_RESPONSE: Duration = Duration::from_secs(5);

/// The URL and certificate of the webhook, for the variables of cases.
#[derive(Clone)]
pub(crate) struct TestWebhook {
    /// `https://127.0.0.1:PORT`.
    pub(crate) url: String,
    /// Its certificate, as `caBundle`.
    pub(crate) authority: String,
}

impl TestWebhook {
    /// Starts a webhook that runs until the runtime ends.
    pub(crate) async fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        // As in certificates of `openssl req -x509`.
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(acceptor.clone(), stream));
            }
        });
        Self { url, authority: STANDARD.encode(certificate.pem()) }
    }
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request| async { Ok::<_, Infallible>(response(request).await) });
    let server = hyper::server::conn::http1::Builder::new();
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn response(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    if path == "/slow" {
        tokio::time::sleep(SLOW_RESPONSE).await;
    }
    let (code, text) = match path.as_str() {
        "/broken" => (500, "out of order".to_owned()),
        "/nowhere" => (404, "404 page not found".to_owned()),
        "/garbage" => (200, "garbage".to_owned()),
        path => (200, review_response(path, &review["request"]).to_string()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = code.try_into().unwrap();
    let kind = if code == 200 { "application/json" } else { "text/plain" };
    response.headers_mut().insert("content-type", kind.parse().unwrap());
    response
}

fn review_response(path: &str, request: &Value) -> Value {
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": true},
    });
    let response = &mut review["response"];
    let path = path.trim_start_matches('/');
    let (verb, rest) = path.split_once('/').unwrap_or((path, ""));
    match verb {
        "deny" => {
            response["allowed"] = false.into();
            response["status"] = denial(rest);
        }
        "tell" => {
            response["allowed"] = false.into();
            let causes = causes(request);
            response["status"] = json!({"message": "told", "details": {"causes": causes}});
        }
        "warn" => response["warnings"] = json!([format!("take care: {rest}"), "twice", "twice"]),
        "warn-deny" => {
            response["allowed"] = false.into();
            response["warnings"] = json!(["it is refused"]);
        }
        "mark" => patch(response, &mark(request, rest)),
        "grow" => patch(response, &label_once(request)),
        "patch" => patch(response, &odd_patch(rest)),
        "untyped" => {
            patch(response, &json!([]));
            response.as_object_mut().unwrap().remove("patchType");
        }
        "unpatched" => response["patchType"] = "JSONPatch".into(),
        "merge" => {
            patch(response, &json!({}));
            response["patchType"] = "MergePatch".into();
        }
        "other-uid" => response["uid"] = "another".into(),
        "other-kind" => review["kind"] = "Status".into(),
        "absent" => drop(review.as_object_mut().unwrap().remove("response")),
        _ => {}
    }
    review
}

fn denial(of: &str) -> Value {
    match of {
        "plain" => Value::Null,
        "reason" => json!({"reason": "Forbidden", "code": 403}),
        "code" => json!({"message": "too many", "code": 429, "reason": "TooManyRequests"}),
        "success" => json!({"status": "Success", "code": 200, "message": "no"}),
        "details" => json!({"message": "no", "details": {"name": "n", "kind": "k", "causes": [
            {"reason": "FieldValueInvalid", "field": "data", "message": "no such thing"}]}}),
        _ => json!({"message": "not here"}),
    }
}

fn patch(response: &mut Value, patch: &Value) {
    response["patchType"] = "JSONPatch".into();
    response["patch"] = STANDARD.encode(patch.to_string()).into();
}

/// A patch that appends a name to an annotation, which shows the called webhooks in order.
fn mark(request: &Value, name: &str) -> Value {
    let seen = &request["object"]["metadata"]["annotations"];
    let marks = seen["marks"].as_str().unwrap_or_default();
    let all = json!({"marks": format!("{marks}{name}")});
    json!([{"op": "add", "path": "/metadata/annotations", "value": all}])
}

/// A patch that adds a label, if it is missing.
fn label_once(request: &Value) -> Value {
    if request["object"]["metadata"]["labels"]["grown"].is_string() {
        return json!([]);
    }
    json!([{"op": "add", "path": "/metadata/labels", "value": {"grown": "yes"}}])
}

fn odd_patch(of: &str) -> Value {
    match of {
        "missing" => json!([{"op": "remove", "path": "/data/none"}]),
        "below" => json!([{"op": "add", "path": "/a/b", "value": 1}]),
        "test" => json!([{"op": "test", "path": "/data/a", "value": "z"}]),
        "word" => json!("word"),
        "type" => json!([{"op": "add", "path": "/data", "value": 5}]),
        "unknown" => json!([{"op": "add", "path": "/odd", "value": 5}]),
        "name" => json!([{"op": "add", "path": "/metadata/uid", "value": "me"}]),
        "container" => json!([{"op": "add", "path": "/spec/containers/-",
            "value": {"name": "more", "image": "i"}}]),
        _ => json!([{"op": "add", "path": "/metadata/labels", "value": {"bad label": "yes"}}]),
    }
}

/// The fields of a request as causes, without values that differ between servers.
fn causes(request: &Value) -> Vec<Value> {
    let mut causes = Vec::new();
    let mut request = request.clone();
    for field in ["uid", "userInfo"] {
        request.as_object_mut().unwrap().remove(field);
    }
    if request["object"]["metadata"]["generateName"].is_string() {
        for pointer in ["/name", "/object/metadata/name"] {
            if let Some(name) = request.pointer_mut(pointer) {
                *name = "GENERATED".into();
            }
        }
    }
    flatten(&request, "", &mut causes);
    causes
}

fn flatten(value: &Value, path: &str, causes: &mut Vec<Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields.iter().filter(|(name, _)| *name != "managedFields") {
                let known = if name == "resourceVersion" { &json!("RV") } else { field };
                flatten(known, &format!("{path}.{name}"), causes);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten(item, &format!("{path}.{index}"), causes);
            }
        }
        // Go serializes absent values as null.
        Value::Null => {}
        leaf @ (Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => {
            let message = format!("{path}={leaf}");
            causes.push(json!({"field": path, "message": message}));
        }
    }
}
