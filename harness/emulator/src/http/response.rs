//! HTTP responses: status code, headers, and a complete or streamed body.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::header::{CONTENT_TYPE, HeaderValue};
use ::http::{Response, StatusCode};
use futures::Stream;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Bytes;
use serde::Serialize;

use super::accept::Encoding;
use crate::api_types::error::ApiError;
use schedlab_api::{Value, json};

/// The chunks of a streamed body.
type ChunkStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of a response.
pub struct ResponseBody {
    kind: BodyKind,
    /// A value that is dropped after the body was sent.
    _guard: Option<Box<dyn Send>>,
}

enum BodyKind {
    Whole(Option<Bytes>),
    Stream(ChunkStream),
}

impl ResponseBody {
    /// A body that is sent in chunks.
    pub(super) fn stream_response(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { kind: BodyKind::Stream(Box::pin(chunks)), _guard: None }
    }

    /// Keeps `guard` until the body was sent.
    pub(super) fn with_guard(self, guard: impl Send + 'static) -> Self {
        Self { _guard: Some(Box::new(guard)), ..self }
    }

    fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { kind: BodyKind::Whole(Some(bytes.into())), _guard: None }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.kind {
            BodyKind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Stream(pieces) => {
                pieces.as_mut().poll_next(context).map(|piece| piece.map(|p| Ok(Frame::data(p))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, BodyKind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            BodyKind::Stream(_) => SizeHint::default(),
        }
    }
}

/// An HTTP response of the API.
pub type ApiResponse = Response<ResponseBody>;

/// A response with any content type.
pub(super) fn raw_response(
    code: StatusCode,
    content_type: &str,
    body: impl Into<Bytes>,
) -> ApiResponse {
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = code;
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}

/// A response with an object in the requested encoding.
pub(super) fn object_response(
    code: StatusCode,
    encoding: Encoding,
    object: &impl Serialize,
) -> ApiResponse {
    raw_response(code, encoding.content_type(), encode_value(encoding, object))
}

/// The text of a value in an encoding.
pub(super) fn encode_value(encoding: Encoding, value: &impl Serialize) -> Vec<u8> {
    let reason = "a JSON value serializes";
    match encoding {
        Encoding::Json => serde_json::to_vec(value).expect(reason),
        Encoding::Pretty => serde_json::to_vec_pretty(value).expect(reason),
        Encoding::Yaml => serde_yaml::to_string(value).expect(reason).into_bytes(),
    }
}

/// The plain 404 page for a path without a served group version.
pub(super) fn not_found_page() -> ApiResponse {
    raw_response(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n")
}

/// A plain text response.
pub(super) fn text_response(text: impl Into<String>) -> ApiResponse {
    raw_response(StatusCode::OK, "text/plain; charset=utf-8", text.into())
}

/// A 204 response.
pub(super) fn no_content_response() -> ApiResponse {
    let mut response = Response::new(ResponseBody::whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// A response whose JSON body is sent in chunks.
pub(super) fn stream_response(chunks: impl Stream<Item = Bytes> + Send + 'static) -> ApiResponse {
    let mut response = Response::new(ResponseBody::stream_response(chunks));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error as a response with a `Status` body.
pub(crate) fn error_response(error: &ApiError) -> ApiResponse {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = object_response(code, Encoding::Json, &status_object(error));
    let wait = error.details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = wait {
        response.headers_mut().insert("retry-after", seconds.into());
    }
    add_warning_headers(&mut response, &error.warnings);
    response
}

/// An error as a `Status` object.
pub(super) fn status_object(error: &ApiError) -> Value {
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.code,
    });
    if error.reason.is_empty() {
        drop(status.as_object_mut().and_then(|status| status.remove("reason")));
    }
    if let Some(details) = &error.details {
        status["details"] = json!(details);
    }
    if let Some(token) = &error.continue_token {
        status["metadata"]["continue"] = json!(token);
    }
    status
}

/// The maximum number of characters in all warnings together, as in kube-apiserver. If there are
/// more, each warning is cut to `LONG_WARNING_LENGTH_MAX`.
const WARNINGS_LENGTH_MAX: usize = 4 << 10;
const LONG_WARNING_LENGTH_MAX: usize = 256;

/// Adds `Warning` headers to a response.
pub(super) fn add_warning_headers(response: &mut ApiResponse, warnings: &[String]) {
    let length = |warning: &str| warning.chars().count();
    let is_long = warnings.iter().map(|it| length(it)).sum::<usize>() > WARNINGS_LENGTH_MAX;
    let length_max = if is_long { LONG_WARNING_LENGTH_MAX } else { usize::MAX };
    let mut written = 0;
    for warning in warnings {
        if written >= WARNINGS_LENGTH_MAX {
            return;
        }
        let warning: String = warning.chars().take(length_max).collect();
        written += length(&warning);
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append("warning", value);
        }
    }
}
