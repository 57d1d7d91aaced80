//! The API over HTTP: paths, parameters, forms of answers, watches. Requests come from a client
//! in the same process ([`Router`] is a [`tower::Service`]) or through [`crate::serve`]; what
//! they mean is the store's affair.

mod accept;
mod consult;
mod decode;
mod discovery;
mod encode;
mod feed;
mod openapi;
mod path;
mod protobuf;
mod query;
mod read;
mod reply;
mod review;
mod table;
mod texts;
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

use crate::calls::Webhooks;
use crate::error::ApiError;
use crate::kinds::{Kind, Origin};
use crate::shared::SharedStore;
use schedlab_json::json;

use accept::{Accept, Encoding};
use path::{Path, Target};
use query::Query;
pub(crate) use reply::refusal;
pub use reply::{Reply, ReplyBody};
use texts::Texts;

/// The version of Kubernetes that the API speaks.
pub const KUBERNETES_VERSION: &str = "v1.35.4";

/// Answers HTTP requests from a store. Clones answer from the same one.
#[derive(Clone, Debug)]
pub struct Router {
    store: SharedStore,
    webhooks: Webhooks,
    documents: Arc<openapi::Documents>,
    texts: Texts,
}

/// One request to a collection, an object or a part of one.
struct Call<'r> {
    store: &'r SharedStore,
    webhooks: &'r Webhooks,
    texts: &'r Texts,
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

    /// A router for a store that calls these webhooks where they are configured.
    pub fn with_webhooks(store: SharedStore, webhooks: Webhooks) -> Self {
        Self { store, webhooks, documents: Arc::default(), texts: Texts::default() }
    }

    /// A client in the same process, without a socket.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let (parts, body) = request.into_parts();
        let body =
            if parts.method == Method::GET { Ok(Bytes::new()) } else { received(body).await };
        let reply = match body {
            Ok(body) => self.answer_whole(&parts, &body).await,
            Err(error) => Err(error),
        };
        reply.unwrap_or_else(|error| refusal(&error))
    }

    async fn answer_whole(&self, parts: &Parts, body: &[u8]) -> Result<Reply, ApiError> {
        let path = Path::parse(parts.uri.path());
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let accept = accept.unwrap_or_default();
        if path == Path::OpenApiV2 && parts.method == Method::GET {
            return Ok(openapi::v2(accept));
        }
        let mut accept = Accept::parse(accept)?;
        let query = Query::parse(parts.uri.query());
        if query.is_on("pretty") && accept.encoding == Encoding::Json {
            accept.encoding = Encoding::Pretty;
        }
        if let Path::Target(target) = &path {
            return self.answer_target(parts, (target, &query, &accept), body).await;
        }
        if parts.method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        self.answer_page(&path, &accept)
    }

    /// What is not about objects.
    fn answer_page(&self, path: &Path, accept: &Accept) -> Result<Reply, ApiError> {
        let encoding = accept.encoding;
        let page = |page: &schedlab_json::Value| reply::object(StatusCode::OK, encoding, page);
        match path {
            Path::Root => Ok(page(&self.store.read(|store| discovery::root(store.kinds())))),
            Path::Health => Ok(reply::text("ok")),
            Path::Version => Ok(page(&version())),
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
            Path::OpenApi => Ok(page(&openapi::Documents::index(&self.store))),
            Path::OpenApiOf(group, version) => {
                let document = self.documents.of(&self.store, group, version)?;
                Ok(reply::raw(StatusCode::OK, "application/json", document))
            }
            Path::Target(_) | Path::OpenApiV2 | Path::Unknown => Ok(reply::no_such_page()),
        }
    }

    async fn answer_target(
        &self,
        parts: &Parts,
        (target, query, accept): (&Target, &Query, &Accept),
        body: &[u8],
    ) -> Result<Reply, ApiError> {
        if let Some(reply) = review::answer(parts, target, accept, body) {
            return reply;
        }
        let Target { group, version, plural, .. } = target;
        let plural =
            if target.is_bindings() && parts.method == Method::POST { "pods" } else { plural };
        let found = self.store.read(|store| store.kinds().by_path(group, version, plural).cloned());
        let Some(kind) = found else { return self.no_such_kind(group, version) };
        let headers = &parts.headers;
        let Self { store, webhooks, texts, .. } = self;
        let call = Call { store, webhooks, texts, kind, target, query, accept, headers, body };
        Ok(call.answer(&parts.method).await)
    }

    /// 404: as a Status where the group's version is served, or the group is the server's own; as
    /// a page where nothing is.
    fn no_such_kind(&self, group: &str, version: &str) -> Result<Reply, ApiError> {
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
        Ok(reply::no_such_page())
    }
}

impl Call<'_> {
    async fn answer(&self, method: &Method) -> Reply {
        let mut reply = self.done(method).await.unwrap_or_else(|error| refusal(&error));
        if self.kind.is("", "Endpoints") {
            let warning = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 \
                           EndpointSlice";
            reply::warn(&mut reply, &[warning.to_owned()]);
        }
        reply
    }

    async fn done(&self, method: &Method) -> Result<Reply, ApiError> {
        self.check_table()?;
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
        let asks_watch = *method == Method::GET && !is_object && self.query.is_on("watch");
        if self.target.is_watch || asks_watch {
            return self.watch();
        }
        match (method.as_str(), is_object, subresource.as_deref()) {
            ("GET", true, None) => self.get(),
            ("GET", true, Some(part)) => self.get_part(part),
            ("GET", false, _) => self.list(),
            ("POST", false, _) if self.target.is_bindings() => self.bind_named().await,
            ("POST", false, _) => self.create().await,
            ("POST", true, Some(part)) => self.create_part(part).await,
            ("PUT", true, part) => self.update(part).await,
            ("PATCH", true, part) => self.patch(part).await,
            ("DELETE", true, None) => self.delete().await,
            ("DELETE", false, _) => self.delete_collection().await,
            _ => Err(ApiError::method_not_allowed()),
        }
    }
}

async fn received<B>(body: B) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let body = body.collect().await.map_err(|error| {
        ApiError::bad_request(format!("the body of the request broke off: {error}"))
    })?;
    let body = body.to_bytes();
    if body.len() > decode::BODY_BYTES_MAX {
        let message = format!("limit is {}", decode::BODY_BYTES_MAX);
        let message = format!("Request entity too large: {message}");
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    Ok(body)
}

fn version() -> schedlab_json::Value {
    json!({
        "major": "1",
        "minor": "35",
        "emulationMajor": "1",
        "emulationMinor": "35",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "34",
        "gitVersion": KUBERNETES_VERSION,
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
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let router = self.clone();
        Box::pin(async move { Ok(router.answer(request).await) })
    }
}
