//! The HTTP API: paths, query parameters, response formats and watches. Requests come from a client
//! in the same process ([`Router`] is a [`tower::Service`]) or through [`crate::http::serve`]. The
//! store implements their semantics.

pub mod serve;

mod accept;
mod access_review;
mod decode;
mod discovery;
mod json_writer;
mod openapi;
mod path;
mod query;
mod read;
mod resource_metrics;
mod response;
mod serialized_cache;
mod table;
mod watch_stream;
mod webhook_context;
mod write;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::header::ACCEPT;
use ::http::request::Parts;
use ::http::{HeaderMap, Method, Request, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Bytes;

use crate::admission::webhooks::client::Webhooks;
use crate::api_types::error::ApiError;
use crate::api_types::kinds::{Kind, Origin};
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::store::shared::SharedStore;
use schedlab_api::json;

use accept::{Accept, Encoding};
use path::{Path, Target};
use query::Query;
pub use resource_metrics::resource_metrics_crds;
pub(crate) use response::error_response;
pub use response::{ApiResponse, ResponseBody};
use serialized_cache::SerializedCache;

/// Handles HTTP requests to the API of a store. Clones share the store.
#[derive(Clone, Debug)]
pub struct Router {
    store: SharedStore,
    webhooks: Webhooks,
    documents: Arc<openapi::Documents>,
    serialized: SerializedCache,
}

/// A request whose path names a collection, an object or a subresource.
struct RequestContext<'r> {
    store: &'r SharedStore,
    webhooks: &'r Webhooks,
    serialized: &'r SerializedCache,
    kind: Arc<Kind>,
    target: &'r Target,
    query: &'r Query,
    accept: &'r Accept,
    headers: &'r HeaderMap,
    body: &'r [u8],
}

impl Router {
    /// A router for a store.
    pub fn new(store: SharedStore) -> Self {
        Self::with_webhooks(store, Webhooks::default())
    }

    /// A router for a store whose writes call admission webhooks.
    pub fn with_webhooks(store: SharedStore, webhooks: Webhooks) -> Self {
        Self { store, webhooks, documents: Arc::default(), serialized: SerializedCache::default() }
    }

    /// A client in the same process, without a socket.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Handles one request.
    pub async fn handle<B>(&self, request: Request<B>) -> ApiResponse
    where
        B: Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        match read_request(request).await {
            Ok((parts, body)) => self.handle_read(&parts, &body).await,
            Err(error) => error_response(&error),
        }
    }

    /// Handles one request whose body has been read.
    pub(crate) async fn handle_read(&self, parts: &Parts, body: &[u8]) -> ApiResponse {
        let response = self.handle_request(parts, body).await;
        response.unwrap_or_else(|error| error_response(&error))
    }

    async fn handle_request(&self, parts: &Parts, body: &[u8]) -> Result<ApiResponse, ApiError> {
        let path = Path::parse(parts.uri.path());
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let accept = accept.unwrap_or_default();
        if path == Path::OpenApiV2 && parts.method == Method::GET {
            let kubernetes = self.store.read(|store| store.feature_gates.version());
            return Ok(openapi::v2(accept, kubernetes));
        }
        let mut accept = Accept::parse(accept)?;
        let query = Query::parse(parts.uri.query());
        if query.is_enabled("pretty") && accept.encoding == Encoding::Json {
            accept.encoding = Encoding::Pretty;
        }
        if let Path::Target(target) = &path {
            return self.handle_object(parts, target, &query, &accept, body).await;
        }
        if parts.method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        self.handle_non_object(&path, &accept)
    }

    /// Handles a GET of a path that names no object: discovery, OpenAPI, health and version.
    fn handle_non_object(&self, path: &Path, accept: &Accept) -> Result<ApiResponse, ApiError> {
        let encoding = accept.encoding;
        let page =
            |page: &schedlab_api::Value| response::object_response(StatusCode::OK, encoding, page);
        match path {
            Path::Root => Ok(page(&self.store.read(|store| discovery::root(store.kinds())))),
            Path::Health => Ok(response::text_response("ok")),
            Path::Version => {
                Ok(page(&self.store.read(|store| version_info(store.feature_gates.version()))))
            }
            Path::Core => Ok(self.store.read(|store| discovery::core(store.kinds(), accept))),
            Path::Groups => Ok(self.store.read(|store| discovery::groups(store.kinds(), accept))),
            Path::Group(group) => self
                .store
                .read(|store| discovery::group(store.kinds(), group))
                .map(|found| page(&found)),
            Path::GroupVersion(group, version) => self
                .store
                .read(|store| discovery::resources(store.kinds(), group, version))
                .map(|found| page(&found)),
            Path::OpenApi => Ok(page(&openapi::Documents::document_index(&self.store))),
            Path::OpenApiOf(group, version) => {
                let document = self.documents.document(&self.store, group, version)?;
                Ok(response::raw_response(StatusCode::OK, "application/json", document))
            }
            Path::Target(_) | Path::OpenApiV2 | Path::Unknown => Ok(response::not_found_page()),
        }
    }

    async fn handle_object(
        &self,
        parts: &Parts,
        target: &Target,
        query: &Query,
        accept: &Accept,
        body: &[u8],
    ) -> Result<ApiResponse, ApiError> {
        if let Some(response) = access_review::respond_to_review(parts, target, accept, body) {
            return response;
        }
        let Target { group, version, plural, .. } = target;
        let plural =
            if target.is_bindings() && parts.method == Method::POST { "pods" } else { plural };
        let found = self.store.read(|store| store.kinds().by_path(group, version, plural).cloned());
        let Some(kind) = found else { return self.no_such_kind(group, version) };
        let headers = &parts.headers;
        let Self { store, webhooks, serialized, .. } = self;
        let context = RequestContext {
            store,
            webhooks,
            serialized,
            kind,
            target,
            query,
            accept,
            headers,
            body,
        };
        Ok(context.handle_method(&parts.method).await)
    }

    /// The 404 response for an unknown kind: a `Status` if the API group is served or built-in,
    /// otherwise a plain text.
    fn no_such_kind(&self, group: &str, version: &str) -> Result<ApiResponse, ApiError> {
        let is_served = self.store.read(|store| {
            store.kinds().iter().any(|kind| {
                *kind.resource.group == *group
                    && (kind.origin != Origin::Custom
                        || kind.version(version).is_some_and(|version| version.served))
            })
        });
        if is_served || group.is_empty() {
            return Err(ApiError::no_such_resource());
        }
        Ok(response::not_found_page())
    }
}

impl RequestContext<'_> {
    async fn handle_method(&self, method: &Method) -> ApiResponse {
        let mut response =
            self.dispatch(method).await.unwrap_or_else(|error| error_response(&error));
        if self.kind.is("", "Endpoints") {
            let warning = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 \
                           EndpointSlice";
            response::add_warning_headers(&mut response, &[warning.to_owned()]);
        }
        response
    }

    async fn dispatch(&self, method: &Method) -> Result<ApiResponse, ApiError> {
        if self.target.group == resource_metrics::GROUP {
            return self.respond_with_metrics(method);
        }
        self.check_table_options()?;
        let Target { namespace, name, subresource, .. } = self.target;
        let is_object = name.is_some();
        if !self.kind.namespaced && namespace.is_some() {
            return Err(ApiError::no_such_resource());
        }
        if self.kind.namespaced && namespace.is_none() && (is_object || *method != Method::GET) {
            return Err(if is_object {
                ApiError::no_such_resource()
            } else {
                ApiError::method_not_allowed()
            });
        }
        let asks_watch = *method == Method::GET && !is_object && self.query.is_enabled("watch");
        if self.target.is_watch || asks_watch {
            return self.watch();
        }
        match (method.as_str(), is_object, subresource.as_deref()) {
            ("GET", true, None) => self.get(),
            ("GET", true, Some(part)) => self.get_subresource(part),
            ("GET", false, _) => self.list(),
            ("POST", false, _) if self.target.is_bindings() => self.create_binding().await,
            ("POST", false, _) => self.create().await,
            ("POST", true, Some(part)) => self.create_subresource(part).await,
            ("PUT", true, part) => self.update(part).await,
            ("PATCH", true, part) => self.patch(part).await,
            ("DELETE", true, None) => self.delete().await,
            ("DELETE", true, Some(_)) => Err(ApiError::no_such_resource()),
            ("DELETE", false, _) => self.delete_collection().await,
            _ => Err(ApiError::method_not_allowed()),
        }
    }
}

/// Reads the body of a request to an object or a collection. Bodies of other requests are not read.
pub(crate) async fn read_request<B>(request: Request<B>) -> Result<(Parts, Bytes), ApiError>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let (parts, body) = request.into_parts();
    let has_body =
        parts.method != Method::GET && matches!(Path::parse(parts.uri.path()), Path::Target(_));
    let body = if has_body { read_body(body).await? } else { Bytes::new() };
    Ok((parts, body))
}

/// Reads a request body up to the maximum size.
async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::bad_request(format!("cannot read the request body: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > decode::BODY_BYTES_MAX {
            let message = format!("limit is {}", decode::BODY_BYTES_MAX);
            let message = format!("Request entity too large: {message}");
            return Err(ApiError::new(413, "RequestEntityTooLarge", message));
        }
        read.extend_from_slice(&data);
    }
    Ok(read.into())
}

fn version_info(version: KubernetesVersion) -> schedlab_api::Value {
    let minor = version.minor();
    json!({
        "major": "1",
        "minor": minor.to_string(),
        "emulationMajor": "1",
        "emulationMinor": minor.to_string(),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": (minor - 1).to_string(),
        "gitVersion": version.git_version(),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2025-12-17T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

impl<B> tower::Service<Request<B>> for Router
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = ApiResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<ApiResponse, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let router = self.clone();
        Box::pin(async move { Ok(router.handle(request).await) })
    }
}
