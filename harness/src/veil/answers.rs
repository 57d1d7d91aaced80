//! What the cluster answers, as a scenario sees it: its own objects under their plain names.

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
use schedlab_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::hub::Told;
use super::names::{Fence, Names, RUN, SIMULATED};
use super::{Error, Place, belongs, pool};
use crate::fenced::is_fenced;

/// The body of an answer.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, Error>;

/// The head of an answer that is JSON.
pub(super) fn json() -> Parts {
    let mut head = Response::new(()).into_parts().0;
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    head
}

/// An answer whose text is known.
pub(super) fn whole(mut head: Parts, body: Bytes) -> Response<AnswerBody> {
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(TRANSFER_ENCODING);
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    Response::from_parts(head, body)
}

/// The refusal of a body that is not JSON.
pub(super) fn only_json() -> Response<AnswerBody> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 415,
        "reason": "UnsupportedMediaType",
        "message": "schedlab passes on JSON only: set the client's content type to application/json",
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Leaves out what is not the scenario's, and what is ours in its objects.
pub(super) fn show(names: &Names, place: &Place, object: &mut Value) {
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(|item| belongs(names, place, item));
    }
    unfence(names, object);
}

fn unfence(names: &Names, value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.retain(|item| item["key"] != SIMULATED);
            for item in items {
                unfence(names, item);
            }
        }
        Value::Object(fields) => {
            if let Some(labels) = fields.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove(RUN);
                pool::remove(names, labels);
            }
            if let Some(selector) = fields.get_mut("nodeSelector").and_then(Value::as_object_mut) {
                selector.remove(RUN);
                if selector.is_empty() {
                    fields.remove("nodeSelector");
                }
            }
            for (key, value) in fields.iter_mut() {
                if key != "managedFields" {
                    unfence(names, value);
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

/// A stream of changes, line by line.
pub(super) fn watch(
    names: Arc<Names>,
    place: Place,
    answer: Response<Body>,
) -> Response<AnswerBody> {
    let (mut head, body) = answer.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let chunks = body.into_data_stream().map_err(Error::from).boxed();
    lines(names, place, (head, chunks))
}

/// The same of a watch that scenarios share.
pub(super) fn followed(
    names: Arc<Names>,
    place: Place,
    told: UnboundedReceiver<Told>,
) -> Response<AnswerBody> {
    let head = json();
    let chunks = unfold(told, |mut told| async move {
        let line = told.recv().await?;
        Some((Ok(Bytes::from(format!("{line}\n"))), told))
    });
    lines(names, place, (head, chunks.boxed()))
}

fn lines(
    names: Arc<Names>,
    place: Place,
    (head, chunks): (Parts, BoxStream<'static, Result<Bytes, Error>>),
) -> Response<AnswerBody> {
    let lines = Lines { names, place, chunks, rest: Vec::new() };
    let lines = unfold(lines, |mut lines| async move {
        let shown = lines.next().await?;
        Some((shown.map(|shown| Frame::data(Bytes::from(shown))), lines))
    });
    Response::from_parts(head, StreamBody::new(lines).boxed_unsync())
}

/// What of a stream of changes was not told yet.
struct Lines {
    names: Arc<Names>,
    place: Place,
    chunks: BoxStream<'static, Result<Bytes, Error>>,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Lines {
    /// The next whole lines that are the scenario's.
    async fn next(&mut self) -> Option<Result<String, Error>> {
        loop {
            let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let whole: Vec<u8> = self.rest.drain(..end).collect();
            let shown = shown(&self.names, &self.place, &whole);
            if !shown.is_empty() {
                return Some(Ok(shown));
            }
            match self.chunks.next().await? {
                Ok(chunk) => self.rest.extend_from_slice(&chunk),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Collections of which everybody hears everything of everybody: what is not ours is told apart
/// by its text, without reading it.
const BUSY: [&str; 9] =
    ["pods", "events", "leases", "nodes", "jobs", "jobsets", "podgroups", "queues", "replicasets"];

/// The lines of a watch that are the scenario's.
fn shown(names: &Names, place: &Place, lines: &[u8]) -> String {
    let mut text = String::new();
    let prefix = memchr::memmem::Finder::new(names.prefix.as_bytes());
    let busy = BUSY.contains(&place.plural.as_str());
    // In these nothing is hidden but names.
    let plain = names.fence == Fence::None && !is_fenced(&place.plural) && busy;
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let told =
            line.starts_with(b"{\"type\":\"BOOKMARK\"") || line.starts_with(b"{\"type\":\"ERROR\"");
        if busy && !told && prefix.find(line).is_none() {
            continue;
        }
        if plain && let Ok(line) = std::str::from_utf8(line) {
            text.push_str(&names.plain(line));
            text.push('\n');
            continue;
        }
        let Ok(mut event) = serde_json::from_slice::<Value>(line) else { continue };
        let about = matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED" | "DELETED"));
        if about && !belongs(names, place, &event["object"]) {
            continue;
        }
        unfence(names, &mut event);
        text.push_str(&names.plain(&event.to_string()));
        text.push('\n');
    }
    text
}
