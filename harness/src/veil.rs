//! One scenario's part of a cluster that many share. Whoever talks through a veil sees a cluster
//! of its own with plain names: behind it every namespace and every cluster-scoped object bears
//! the scenario's prefix, and everything without it is left out of answers.
//!
//! The steps, the actors, the audit and, unless it was there before us, the scheduler talk
//! through it, so that a feature means the same on every cluster, many scenarios run on one, and
//! reports and snapshots show no prefix. Only JSON passes; what is refused is said by the
//! cluster itself, in its own words.

mod accounts;
mod answers;
mod hub;
mod ledger;
mod lists;
mod names;
mod pool;
mod requests;

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use schedlab_json::Value;
use tower::Service;

use crate::fenced::is_fenced;

pub(crate) use answers::AnswerBody;
pub(crate) use hub::{Hub, Wanted};
pub(crate) use ledger::{Ledger, Marks};
use lists::Namespaces;
pub(crate) use names::{Fence, KWOK_NODE, Names, RUN, SIMULATED, prefix};
use requests::Place;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A client that sees one scenario's part.
#[derive(Clone)]
pub(crate) struct Veil {
    inner: kube::Client,
    names: Arc<Names>,
    ledger: Ledger,
    namespaces: Namespaces,
    /// Where watches of the whole cluster are shared.
    hub: Hub,
    /// Whose writes these are; else the field manager says it, or the User-Agent.
    writer: Option<Arc<str>>,
}

impl Veil {
    /// Sees the part of `names` in what `inner` reaches.
    pub(crate) fn new(inner: kube::Client, names: Arc<Names>, hub: Hub) -> Self {
        let (ledger, namespaces) = Default::default();
        Self { inner, names, ledger, namespaces, hub, writer: None }
    }

    /// The same part, with every write accounted to one writer.
    pub(crate) fn of_writer(&self, writer: &str) -> Self {
        Self { writer: Some(writer.into()), ..self.clone() }
    }

    /// A Kubernetes client behind it.
    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Who wrote what.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    async fn pass(self, request: Request<Body>) -> Result<Response<AnswerBody>, Error> {
        let (mut parts, body) = request.into_parts();
        let writer = self.writer_of(&parts);
        let (uri, place) = requests::uri(&self.names, &parts.uri);
        parts.uri = uri;
        if let Some(wanted) = requests::shared_watch(&self.names, &place, &parts.uri)
            && let Some(lines) = self.hub.follow(wanted).await
        {
            return Ok(answers::followed(self.names, place, lines));
        }
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        if !accept.is_some_and(|accept| accept.starts_with("application/json")) {
            parts.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        }
        if lists::is_long(&place, &parts.method, &parts.uri) {
            let asked = (&place, &parts.uri, &parts.headers);
            if let Some(list) = lists::list(&self.inner, &self.namespaces, asked).await? {
                return self.shown(&place, answers::json(), list);
            }
        }
        let mut body = body.collect().await?.to_bytes();
        let content = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if content.is_some_and(|content| content.contains("protobuf")) {
            return Ok(answers::only_json());
        }
        if let Ok(mut object) = serde_json::from_slice::<Value>(&body) {
            requests::hide(&self.names, &place, &parts.method, &mut object);
            let method = &parts.method;
            if let Some(uri) = requests::news_of_cluster(&self.names, &place, method, &mut object) {
                parts.uri = uri;
            }
            body = serde_json::to_vec(&object)?.into();
            parts.headers.remove(CONTENT_LENGTH);
        }
        let method = parts.method.clone();
        let answer = self.inner.send(Request::from_parts(parts, Body::from(body))).await?;
        if place.is_watch {
            return Ok(answers::watch(self.names, place, answer));
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        let Ok(object) = serde_json::from_slice::<Value>(&body) else {
            return Ok(answers::whole(head, body));
        };
        if method != Method::GET && head.status.is_success() {
            self.namespaces.note(&place, &object);
            if let Some(namespace) = accounts::made(&place, head.status, &object) {
                accounts::open(&self.inner, namespace).await?;
            }
            self.ledger.note(&place, &object, &writer);
        }
        self.shown(&place, head, object)
    }

    fn shown(
        &self,
        place: &Place,
        head: http::response::Parts,
        mut object: Value,
    ) -> Result<Response<AnswerBody>, Error> {
        answers::show(&self.names, place, &mut object);
        let text = self.names.plain(&serde_json::to_string(&object)?);
        Ok(answers::whole(head, text.into()))
    }

    fn writer_of(&self, parts: &http::request::Parts) -> Arc<str> {
        if let Some(writer) = &self.writer {
            return Arc::clone(writer);
        }
        let query = parts.uri.query().unwrap_or_default();
        let manager = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager="));
        let agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = agent.and_then(|agent| agent.split('/').next());
        manager.or(agent).unwrap_or("unknown").into()
    }
}

impl Service<Request<Body>> for Veil {
    type Response = Response<AnswerBody>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().pass(request).boxed()
    }
}

impl std::fmt::Debug for Veil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Veil").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Whether an object of a place belongs to the scenario; `Place` says where it was asked for.
fn belongs(names: &Names, place: &Place, object: &Value) -> bool {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let (namespace, name) = (field("namespace"), field("name"));
    if place.namespace.is_some() && !names::is_lease(&place.plural, namespace) {
        return true;
    }
    match namespace {
        "" if is_fenced(&place.plural) => {
            names.is_ours(name) || names.is_shared(&place.plural, name)
        }
        "" => true,
        namespace if names::is_lease(&place.plural, namespace) => names.is_ours(name),
        names::SHARED if place.plural == "events" => names.is_ours(name),
        namespace => names.is_ours(namespace),
    }
}
