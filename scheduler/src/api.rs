//! Requests to the API server: plain JSON in and out, and what their failures mean here.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use http::Request;
use kube::Client;
use schedlab_json::Value;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use thiserror::Error;

/// Why a request failed.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    /// The object, or its kind, does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It exists already, or stands differently by now.
    #[error("{0}")]
    Conflict(String),
    /// The resource version is too old to go on from.
    #[error("{0}")]
    Gone(String),
    /// The server said no, and will say so again.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether the server did it.
    #[error("{0}")]
    Unknown(#[source] kube::Error),
}

impl From<kube::Error> for ApiError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "kube's errors are many and not ours")]
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let message = status.message.clone();
                match status.code {
                    404 => Self::NotFound(message),
                    409 => Self::Conflict(message),
                    410 => Self::Gone(message),
                    400..=499 => Self::Refused(message),
                    _ => Self::Unknown(kube::Error::Api(status)),
                }
            }
            other => Self::Unknown(other),
        }
    }
}

/// How a patch is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// RFC 7396.
    Plain,
    /// Lists are merged by key; built-in kinds only.
    Strategic,
}

/// Asks for the metadata alone, in place of the whole object.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// What is read of an answer that is the metadata alone.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    resource_version: String,
}

impl Metadata {
    /// `resourceVersion` as a number; 0 when it is none.
    pub(crate) fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
}

#[derive(Deserialize)]
struct Partial {
    metadata: Metadata,
}

/// What is read of an answer.
pub(crate) trait Answer: Sized {
    fn read(text: &str) -> serde_json::Result<Self>;
}

/// All of it.
impl Answer for Value {
    fn read(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// Nothing but that it is whole.
impl Answer for IgnoredAny {
    fn read(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

impl Answer for Partial {
    fn read(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// The API server.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) client: Client,
    /// The field manager of our writes, and the component of our events.
    pub(crate) name: String,
    /// Requests so far, by whichever clone.
    requests: Arc<AtomicU64>,
}

impl Api {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name, requests: Arc::default() }
    }

    /// How many requests were made.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Request::get(path), Vec::new()).await
    }

    /// Who does not look at the answer asks for it as `IgnoredAny`, here and below.
    pub(crate) async fn create<T: Answer>(
        &self,
        path: &str,
        object: &Value,
    ) -> Result<T, ApiError> {
        self.send(self.post(path), text(object)).await
    }

    /// Creates an event, of which nothing is read back.
    pub(crate) async fn tell(&self, path: &str, event: Vec<u8>) -> Result<(), ApiError> {
        let request = self.post(path).header("accept", METADATA);
        let IgnoredAny = self.send(request, event).await?;
        Ok(())
    }

    pub(crate) async fn patch<T: Answer>(
        &self,
        path: &str,
        merge: Merge,
        change: &Value,
    ) -> Result<T, ApiError> {
        self.send(self.patching(path, merge), text(change)).await
    }

    /// As `patch`, answered with no more than the metadata.
    pub(crate) async fn patch_metadata(
        &self,
        path: &str,
        merge: Merge,
        change: &impl Serialize,
    ) -> Result<Metadata, ApiError> {
        let request = self.patching(path, merge).header("accept", METADATA);
        Ok(self.send::<Partial>(request, text(change)).await?.metadata)
    }

    fn post(&self, path: &str) -> http::request::Builder {
        Request::post(format!("{path}?fieldManager={}", self.name))
            .header("content-type", "application/json")
    }

    fn patching(&self, path: &str, merge: Merge) -> http::request::Builder {
        let media_type = match merge {
            Merge::Plain => "application/merge-patch+json",
            Merge::Strategic => "application/strategic-merge-patch+json",
        };
        Request::patch(format!("{path}?fieldManager={}", self.name))
            .header("content-type", media_type)
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Result<Value, ApiError> {
        let request = Request::delete(path).header("content-type", "application/json");
        self.send(request, text(options)).await
    }

    async fn send<T: Answer>(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<T, ApiError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let request = request.body(body).expect("paths are made of names that a URI may hold");
        answer(&self.client, request).await
    }
}

/// The tree that a request is answered with.
pub(crate) async fn tree_of(client: &Client, request: Request<Vec<u8>>) -> Result<Value, ApiError> {
    answer(client, request).await
}

async fn answer<T: Answer>(client: &Client, request: Request<Vec<u8>>) -> Result<T, ApiError> {
    let text = client.request_text(request).await?;
    T::read(&text).map_err(|error| ApiError::Unknown(kube::Error::SerdeError(error)))
}

pub(crate) fn text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value has a text")
}

/// Path of an object, or of a collection when `name` is empty.
pub(crate) fn path(api_version: &str, namespace: &str, plural: &str, name: &str) -> String {
    let root = if api_version.contains('/') { "/apis/" } else { "/api/" };
    let mut path = String::with_capacity(128);
    path.push_str(root);
    path.push_str(api_version);
    for (before, part) in [("/namespaces/", namespace), ("/", plural), ("/", name)] {
        if !part.is_empty() {
            path.push_str(before);
            path.push_str(part);
        }
    }
    path
}
