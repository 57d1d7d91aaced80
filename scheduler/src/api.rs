//! Requests to the API server with JSON bodies, and the classification of their errors.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::AsyncBufRead;
use http::Request;
use kube::Client;
use schedlab_api::Value;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use thiserror::Error;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, debug_span};

use crate::logging::millis;

/// Part of the message of the API server when it cannot call a webhook.
const WEBHOOK_FAILURE: &str = "failed calling webhook";

/// Why a request failed.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    /// The object or its kind does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The object exists already, or has changed.
    #[error("{0}")]
    Conflict(String),
    /// The resourceVersion has expired.
    #[error("{0}")]
    Gone(String),
    /// The server rejects the request; a retry would fail, too.
    #[error("{0}")]
    Refused(String),
    /// It is unknown whether the server has carried out the request.
    #[error("{0}")]
    OutcomeUnknown(#[source] kube::Error),
}

impl From<kube::Error> for ApiError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "kube::Error has many variants, which are not ours"
    )]
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let message = status.message.clone();
                match status.code {
                    404 => Self::NotFound(message),
                    409 => Self::Conflict(message),
                    410 => Self::Gone(message),
                    400..=499 => Self::Refused(message),
                    // Webhooks are called before anything is written.
                    500 if message.contains(WEBHOOK_FAILURE) => Self::Refused(message),
                    _ => Self::OutcomeUnknown(kube::Error::Api(status)),
                }
            }
            other => Self::OutcomeUnknown(other),
        }
    }
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// JSON merge patch (RFC 7396).
    Merge,
    /// Strategic merge patch: lists are merged by key; for built-in kinds only.
    Strategic,
}

/// Media type in header `Accept` that requests only the metadata of an object.
const METADATA_MEDIA_TYPE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The decoded part of a response that contains only metadata.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    resource_version: String,
}

impl Metadata {
    /// `resourceVersion` as a number; 0 if it is none.
    pub(crate) fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
}

#[derive(Deserialize)]
struct MetadataOnly {
    metadata: Metadata,
}

/// The part of a response that is decoded.
pub(crate) trait ResponseBody: Sized {
    fn parse(text: &str) -> serde_json::Result<Self>;
}

/// Decodes the whole body.
impl ResponseBody for Value {
    fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// Decodes nothing. The body must be complete JSON.
impl ResponseBody for IgnoredAny {
    fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

impl ResponseBody for MetadataOnly {
    fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// A client of the API server that counts its requests.
#[derive(Clone)]
pub(crate) struct ApiClient {
    pub(crate) client: Client,
    /// Field manager of writes, and component of events.
    pub(crate) name: String,
    /// Number of requests of all clones.
    requests: Arc<AtomicU64>,
}

impl ApiClient {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name, requests: Arc::default() }
    }

    /// Number of requests that this client and its clones have sent.
    pub(crate) fn request_count(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Request::get(path), Vec::new()).await
    }

    /// Creates an object. `T` is the decoded part of the response: `IgnoredAny` if the response is
    /// not needed.
    pub(crate) async fn create<T: ResponseBody>(
        &self,
        path: &str,
        object: &Value,
    ) -> Result<T, ApiError> {
        self.send(self.post_request(path), to_json_bytes(object)).await
    }

    /// Creates an event. The response is ignored.
    pub(crate) async fn create_event(&self, path: &str, event: Vec<u8>) -> Result<(), ApiError> {
        let request = self.post_request(path).header("accept", METADATA_MEDIA_TYPE);
        let IgnoredAny = self.send(request, event).await?;
        Ok(())
    }

    pub(crate) async fn patch<T: ResponseBody>(
        &self,
        path: &str,
        merge: PatchKind,
        change: &Value,
    ) -> Result<T, ApiError> {
        self.send(self.patch_request(path, merge), to_json_bytes(change)).await
    }

    /// Like [`Self::patch`], with only the metadata in the response.
    pub(crate) async fn patch_metadata(
        &self,
        path: &str,
        merge: PatchKind,
        change: &impl Serialize,
    ) -> Result<Metadata, ApiError> {
        let request = self.patch_request(path, merge).header("accept", METADATA_MEDIA_TYPE);
        Ok(self.send::<MetadataOnly>(request, to_json_bytes(change)).await?.metadata)
    }

    fn post_request(&self, path: &str) -> http::request::Builder {
        Request::post(format!("{path}?fieldManager={}", self.name))
            .header("content-type", "application/json")
    }

    fn patch_request(&self, path: &str, kind: PatchKind) -> http::request::Builder {
        let media_type = match kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Strategic => "application/strategic-merge-patch+json",
        };
        Request::patch(format!("{path}?fieldManager={}", self.name))
            .header("content-type", media_type)
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Result<Value, ApiError> {
        let request = Request::delete(path).header("content-type", "application/json");
        self.send(request, to_json_bytes(options)).await
    }

    async fn send<T: ResponseBody>(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<T, ApiError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let request = request.body(body).expect("paths consist of names that are valid in a URI");
        send_request(&self.client, request).await
    }
}

/// Sends a request and decodes the response.
pub(crate) async fn request_json(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<Value, ApiError> {
    send_request(client, request).await
}

async fn send_request<T: ResponseBody>(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<T, ApiError> {
    let text = send_logged(request, |request| client.request_text(request)).await?;
    T::parse(&text).map_err(|error| ApiError::OutcomeUnknown(kube::Error::SerdeError(error)))
}

/// Sends a watch request, and returns the lines of the response.
pub(crate) async fn request_lines(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<impl AsyncBufRead + Send + use<>, ApiError> {
    Ok(send_logged(request, |request| client.request_stream(request)).await?)
}

/// Sends a request with `send`, in a tracing span that logs status and duration.
async fn send_logged<R, F: Future<Output = kube::Result<R>>>(
    request: Request<Vec<u8>>,
    send: impl FnOnce(Request<Vec<u8>>) -> F,
) -> kube::Result<R> {
    let span = debug_span!("request", verb = %request.method(), resource = %request.uri());
    let started = Instant::now();
    let result = send(request).instrument(span.clone()).await;
    span.in_scope(|| {
        let duration_ms = millis(started.elapsed());
        match &result {
            Ok(_) => debug!(status = "success", duration_ms, "request ended"),
            Err(kube::Error::Api(status)) => {
                debug!(status = status.code, duration_ms, "request ended");
            }
            Err(error) => debug!(%error, duration_ms, "request ended"),
        }
    });
    result
}

pub(crate) fn to_json_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("values can be serialized")
}

/// API path of an object, or of a collection if `name` is empty.
pub(crate) fn object_path(api_version: &str, namespace: &str, plural: &str, name: &str) -> String {
    let root = if api_version.contains('/') { "/apis/" } else { "/api/" };
    let mut path = String::with_capacity(128);
    path.push_str(root);
    path.push_str(api_version);
    for (separator, part) in [("/namespaces/", namespace), ("/", plural), ("/", name)] {
        if !part.is_empty() {
            path.push_str(separator);
            path.push_str(part);
        }
    }
    path
}
