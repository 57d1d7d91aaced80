//! Tenancy on a shared cluster: one virtual cluster per scenario. A client that talks through a
//! [`TenantService`] sees a cluster of its own with plain names. In the real cluster, the name of
//! every namespace and of every cluster-scoped object has the scenario's prefix; responses leave
//! out all objects without it.
//!
//! Steps, actors, the audit and the scheduler under test (unless it was installed before) all use
//! this service. So a feature means the same on every cluster, many scenarios run on one cluster,
//! and reports and snapshots contain no prefix. Clients may send JSON or protobuf, and get JSON.
//! Errors are the API server's own.

mod cluster_scoped;
mod content_types;
mod list_split;
mod names;
mod node_pool;
mod open_requests;
mod rewrite_request;
mod rewrite_response;
mod rewrite_selectors;
mod service_accounts;
mod watch_mux;
mod write_log;

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use schedlab_api::Value;
use tower::Service;

use crate::cluster_scoped::is_tenant_collection;

pub use cluster_scoped::{CLUSTER_SCOPED_KINDS, ClusterScopedKind};
use list_split::TenantNamespaces;
pub use names::{
    KWOK_NODE_ANNOTATION, NodeIsolation, SIMULATED_TAINT, TenantNames, scenario_name_prefix,
};
use open_requests::OpenRequests;
use rewrite_request::RequestTarget;
pub(crate) use rewrite_response::ResponseBody;
pub(crate) use watch_mux::Subscription;
pub use watch_mux::WatchMux;
pub use write_log::{Watermarks, WriteAttribution, collection_key};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// An HTTP service for Kubernetes clients that shows only one scenario's part of a cluster.
#[derive(Clone)]
pub struct TenantService {
    inner: kube::Client,
    names: Arc<TenantNames>,
    write_log: WriteAttribution,
    tenant_namespaces: TenantNamespaces,
    /// Shares the watches of whole collections between scenarios.
    watch_mux: WatchMux,
    /// The writer to which all writes are attributed. `None` means the request's field manager,
    /// else its User-Agent.
    writer: Option<Arc<str>>,
    /// The scheduler's requests that are not answered yet, watches aside.
    open_requests: OpenRequests,
}

impl TenantService {
    /// A service that shows the part of `inner`'s cluster to which `names` belong.
    pub fn new(inner: kube::Client, names: Arc<TenantNames>, watch_mux: WatchMux) -> Self {
        let (write_log, tenant_namespaces) = Default::default();
        Self {
            inner,
            names,
            write_log,
            tenant_namespaces,
            watch_mux,
            writer: None,
            open_requests: OpenRequests::default(),
        }
    }

    /// A service for the same part of the cluster that attributes every write to `writer`.
    #[must_use]
    pub fn with_writer_name(&self, writer: &str) -> Self {
        Self { writer: Some(writer.into()), ..self.clone() }
    }

    /// A Kubernetes client for the scenario's part of the cluster.
    pub fn tenant_client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Whether a client that [`Self::with_writer_name`] names waits for an answer, watches aside.
    pub fn has_open_requests(&self) -> bool {
        self.open_requests.count() > 0
    }

    /// Who made each change, as far as the change was made through this service.
    pub fn write_log(&self) -> &WriteAttribution {
        &self.write_log
    }

    async fn forward_request(
        self,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, Error> {
        let (mut parts, body) = request.into_parts();
        let writer = self.writer_of_request(&parts);
        let (uri, target) = rewrite_request::rewrite_uri(&self.names, &parts.uri);
        parts.uri = uri;
        let is_counted = self.writer.is_some() && !target.is_watch;
        let _open = is_counted.then(|| self.open_requests.begin());
        if let Some(subscription) =
            rewrite_request::subscription_for(&self.names, &target, &parts.uri)
            && let Some(lines) = self.watch_mux.subscribe(subscription).await
        {
            return Ok(rewrite_response::shared_watch_response(self.names, target, lines));
        }
        content_types::ask_for_json(&mut parts.headers);
        if list_split::should_split_by_namespace(&target, &parts.method, &parts.uri) {
            let (namespaces, headers) = (&self.tenant_namespaces, &parts.headers);
            let list = list_split::list_by_namespace(
                &self.inner,
                namespaces,
                &target,
                &parts.uri,
                headers,
            );
            if let Some(list) = list.await? {
                return self.rewrite_response(
                    &target,
                    rewrite_response::json_response_head(),
                    list,
                );
            }
        }
        let mut body = body.collect().await?.to_bytes();
        let decoded = match content_types::decode_body(&parts.headers, &body) {
            Ok(decoded) => decoded,
            Err(why) => return Ok(rewrite_response::unreadable_body_error(&why)),
        };
        if let Some(mut object) = decoded {
            rewrite_request::object_to_cluster(&self.names, &target, &parts.method, &mut object);
            let method = &parts.method;
            if let Some(uri) =
                rewrite_request::redirect_event(&self.names, &target, method, &mut object)
            {
                parts.uri = uri;
            }
            body = serde_json::to_vec(&object)?.into();
            content_types::declare_json(&mut parts.headers);
        }
        let method = parts.method.clone();
        let response = self.inner.send(Request::from_parts(parts, Body::from(body))).await?;
        if target.is_watch {
            return Ok(rewrite_response::watch_response(self.names, target, response));
        }
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let Ok(object) = serde_json::from_slice::<Value>(&body) else {
            return Ok(rewrite_response::full_response(head, body));
        };
        if method != Method::GET && head.status.is_success() {
            self.tenant_namespaces.record_namespace(&target, &object);
            if let Some(namespace) =
                service_accounts::created_namespace(&target, head.status, &object)
            {
                service_accounts::create_default_account(&self.inner, namespace).await?;
            }
            self.write_log.record_write(&target, &object, &writer);
        }
        self.rewrite_response(&target, head, object)
    }

    fn rewrite_response(
        &self,
        target: &RequestTarget,
        head: http::response::Parts,
        mut object: Value,
    ) -> Result<Response<ResponseBody>, Error> {
        rewrite_response::object_to_tenant(&self.names, target, &mut object);
        let text = self.names.without_prefix(&serde_json::to_string(&object)?);
        Ok(rewrite_response::full_response(head, text.into()))
    }

    fn writer_of_request(&self, parts: &http::request::Parts) -> Arc<str> {
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

impl Service<Request<Body>> for TenantService {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().forward_request(request).boxed()
    }
}

impl std::fmt::Debug for TenantService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantService").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Whether an object in the response to a request for `target` belongs to the scenario.
fn belongs_to_tenant(names: &TenantNames, target: &RequestTarget, object: &Value) -> bool {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let (namespace, name) = (field("namespace"), field("name"));
    if target.namespace.is_some() && !names::is_node_lease(&target.plural, namespace) {
        return true;
    }
    match namespace {
        "" if is_tenant_collection(&target.plural) => {
            names.has_prefix(name) || names.is_shared_object(&target.plural, name)
        }
        "" => true,
        namespace if names::is_node_lease(&target.plural, namespace) => names.has_prefix(name),
        names::DEFAULT_NAMESPACE if target.plural == "events" => names.has_prefix(name),
        namespace => names.has_prefix(namespace),
    }
}
