//! Answers as HTTP has them: status code, headers, and a body that is whole or a stream.

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
use crate::error::ApiError;
use schedlab_json::{Value, json};

/// Pieces of a body as they come.
type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of an answer.
pub struct ReplyBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Pieces(Pieces),
}

impl ReplyBody {
    /// A body that is sent piece by piece.
    pub(super) fn pieces(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Kind::Pieces(Box::pin(pieces)))
    }

    fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Pieces(pieces) => {
                pieces.as_mut().poll_next(context).map(|piece| piece.map(|p| Ok(Frame::data(p))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Pieces(_) => SizeHint::default(),
        }
    }
}

/// An answer.
pub type Reply = Response<ReplyBody>;

/// An answer of any content type.
pub(super) fn raw(code: StatusCode, content_type: &str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(ReplyBody::whole(body));
    *reply.status_mut() = code;
    if let Ok(value) = HeaderValue::from_str(content_type) {
        reply.headers_mut().insert(CONTENT_TYPE, value);
    }
    reply
}

/// An object in the encoding that the client wants.
pub(super) fn object(code: StatusCode, encoding: Encoding, object: &impl Serialize) -> Reply {
    raw(code, encoding.content_type(), encoded(encoding, object))
}

/// A value as bytes. Values are trees of JSON, which always can be written.
pub(super) fn encoded(encoding: Encoding, value: &impl Serialize) -> Vec<u8> {
    let written = "a tree of JSON can be written";
    match encoding {
        Encoding::Json => serde_json::to_vec(value).expect(written),
        Encoding::Pretty => serde_json::to_vec_pretty(value).expect(written),
        Encoding::Yaml => serde_yaml::to_string(value).expect(written).into_bytes(),
    }
}

/// 404 where no group or version is at home: not even a `Status`.
pub(super) fn no_such_page() -> Reply {
    raw(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n")
}

/// Some text.
pub(super) fn text(text: impl Into<String>) -> Reply {
    raw(StatusCode::OK, "text/plain; charset=utf-8", text.into())
}

/// 204: nothing at all.
pub(super) fn empty() -> Reply {
    let mut reply = Response::new(ReplyBody::whole(Bytes::new()));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply
}

/// A body that is sent piece by piece.
pub(super) fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    let mut reply = Response::new(ReplyBody::pieces(pieces));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// A refusal as the `Status` object it is.
pub(crate) fn refusal(error: &ApiError) -> Reply {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = object(code, Encoding::Json, &status_of(error));
    let wait = error.details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = wait {
        reply.headers_mut().insert("retry-after", seconds.into());
    }
    warn(&mut reply, &error.warnings);
    reply
}

/// A refusal as a `Status` object.
pub(super) fn status_of(error: &ApiError) -> Value {
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

/// Adds `Warning` headers.
pub(super) fn warn(reply: &mut Reply, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            reply.headers_mut().append("warning", value);
        }
    }
}
