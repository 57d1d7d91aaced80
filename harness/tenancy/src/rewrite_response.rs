//! Rewrites responses of the cluster for a scenario: only its own objects, with plain names.

use std::sync::Arc;

use futures::stream::{BoxStream, unfold};
use futures::{StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Bytes;
use kube::client::Body;
use schedlab_api::{Value, json, labels};
use tokio::sync::mpsc::UnboundedReceiver;

use super::names::{NodeIsolation, SIMULATED_TAINT, TenantNames};
use super::watch_mux::WatchLine;
use super::{Error, RequestTarget, belongs_to_tenant, node_pool};
use crate::cluster_scoped::is_tenant_collection;

/// The body of a response, complete or as a stream.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, Error>;

/// The head of a JSON response.
pub(super) fn json_response_head() -> Parts {
    let mut head = Response::new(()).into_parts().0;
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    head
}

/// A response with a complete body.
pub(super) fn full_response(mut head: Parts, body: Bytes) -> Response<ResponseBody> {
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(TRANSFER_ENCODING);
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    Response::from_parts(head, body)
}

/// The error response to a protobuf body that cannot be decoded.
pub(super) fn unreadable_body_error(why: &str) -> Response<ResponseBody> {
    let message = format!("schedlab cannot decode the protobuf body of the request: {why}");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 415,
        "reason": "UnsupportedMediaType", "message": message,
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Rewrites an object or list for the scenario: removes foreign objects from a list, and labels,
/// taints and tolerations that schedlab added.
pub(super) fn object_to_tenant(names: &TenantNames, target: &RequestTarget, object: &mut Value) {
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(|item| belongs_to_tenant(names, target, item));
    }
    remove_isolation(names, object);
}

fn remove_isolation(names: &TenantNames, value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.retain(|item| item["key"] != SIMULATED_TAINT);
            for item in items {
                remove_isolation(names, item);
            }
        }
        Value::Object(fields) => {
            if let Some(labels) = fields.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove(labels::RUN);
                node_pool::remove_pool_label(names, labels);
            }
            if let Some(selector) = fields.get_mut("nodeSelector").and_then(Value::as_object_mut) {
                selector.remove(labels::RUN);
                if selector.is_empty() {
                    fields.remove("nodeSelector");
                }
            }
            for (key, value) in fields.iter_mut() {
                if key != "managedFields" {
                    remove_isolation(names, value);
                }
            }
            let empty =
                |value: Option<&Value>| value.and_then(Value::as_array).is_some_and(Vec::is_empty);
            for key in ["taints", "tolerations"] {
                if empty(fields.get(key)) {
                    fields.remove(key);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The response to a watch request, with a stream that is rewritten line by line.
pub(super) fn watch_response(
    names: Arc<TenantNames>,
    target: RequestTarget,
    response: Response<Body>,
) -> Response<ResponseBody> {
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let chunks = body.into_data_stream().map_err(Error::from).boxed();
    streamed_response(names, target, head, chunks)
}

/// The response to a watch request, with the rewritten lines of a shared watch.
pub(super) fn shared_watch_response(
    names: Arc<TenantNames>,
    target: RequestTarget,
    lines: UnboundedReceiver<WatchLine>,
) -> Response<ResponseBody> {
    let head = json_response_head();
    let chunks = unfold(lines, |mut lines_receiver| async move {
        let line = lines_receiver.recv().await?;
        Some((Ok(Bytes::from(format!("{line}\n"))), lines_receiver))
    });
    streamed_response(names, target, head, chunks.boxed())
}

fn streamed_response(
    names: Arc<TenantNames>,
    target: RequestTarget,
    head: Parts,
    chunks: BoxStream<'static, Result<Bytes, Error>>,
) -> Response<ResponseBody> {
    let lines = TenantLineReader { names, target, chunks, partial_line: Vec::new() };
    let lines = unfold(lines, |mut lines| async move {
        let shown = lines.next_tenant_line().await?;
        Some((shown.map(|shown| Frame::data(Bytes::from(shown))), lines))
    });
    Response::from_parts(head, StreamBody::new(lines).boxed_unsync())
}

/// A watch stream, cut into lines; only those that belong to the scenario are kept.
struct TenantLineReader {
    names: Arc<TenantNames>,
    target: RequestTarget,
    chunks: BoxStream<'static, Result<Bytes, Error>>,
    /// The beginning of a line whose rest has not arrived.
    partial_line: Vec<u8>,
}

impl TenantLineReader {
    /// The next complete lines that belong to the scenario.
    async fn next_tenant_line(&mut self) -> Option<Result<String, Error>> {
        loop {
            let end =
                self.partial_line.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let whole: Vec<u8> = self.partial_line.drain(..end).collect();
            let shown = watch_lines_for_tenant(&self.names, &self.target, &whole);
            if !shown.is_empty() {
                return Some(Ok(shown));
            }
            match self.chunks.next().await? {
                Ok(chunk) => self.partial_line.extend_from_slice(&chunk),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Collections with many objects of all scenarios. Lines about objects of other scenarios are
/// recognized by the missing prefix, without parsing them.
const BUSY_COLLECTIONS: [&str; 9] =
    ["pods", "events", "leases", "nodes", "jobs", "jobsets", "podgroups", "queues", "replicasets"];

/// Drops the lines of a watch that do not belong to the scenario, and rewrites the others for it.
fn watch_lines_for_tenant(names: &TenantNames, target: &RequestTarget, lines: &[u8]) -> String {
    let mut text = String::new();
    let prefix = memchr::memmem::Finder::new(names.prefix.as_bytes());
    let is_busy = BUSY_COLLECTIONS.contains(&target.plural.as_str());
    // In these lines only the prefix has to be removed.
    let needs_no_parsing = names.node_isolation == NodeIsolation::None
        && !is_tenant_collection(&target.plural)
        && is_busy;
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let is_control =
            line.starts_with(b"{\"type\":\"BOOKMARK\"") || line.starts_with(b"{\"type\":\"ERROR\"");
        if is_busy && !is_control && prefix.find(line).is_none() {
            continue;
        }
        if needs_no_parsing && let Ok(line) = std::str::from_utf8(line) {
            text.push_str(&names.without_prefix(line));
            text.push('\n');
            continue;
        }
        let Ok(mut event) = serde_json::from_slice::<Value>(line) else { continue };
        let is_object_event =
            matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED" | "DELETED"));
        if is_object_event && !belongs_to_tenant(names, target, &event["object"]) {
            continue;
        }
        remove_isolation(names, &mut event);
        text.push_str(&names.without_prefix(&event.to_string()));
        text.push('\n');
    }
    text
}
