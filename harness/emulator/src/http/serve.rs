//! Serves the API to other processes: over TLS with a bearer token, on the loopback interface.
//! Every server has its own certificate authority and token, both in its kubeconfig, so that no
//! other client can use it by accident. Each request is logged as a span; in-process clients log
//! nothing.

mod connections;
mod kubeconfig;
mod tls;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::AUTHORIZATION;
use ::http::request::Parts;
use ::http::{Method, Request};
use anyhow::{Context, bail};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tracing::field::Empty;
use tracing::{Instrument as _, Level, Span, debug, debug_span, enabled, warn};

use crate::api_types::error::ApiError;
use crate::http::path::{Path, Target};
use crate::http::query::Query;
use crate::http::{ApiResponse, Router, error_response, read_request};
use connections::{Connection, Connections};

pub use tls::{SelfSignedCertificate, random_token};

/// How long a stopping server waits for open requests, because watches do not end by themselves.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(300);

/// How long the requests of a connection may still run after the server began to close it.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// The maximum time for receiving a request body: kube-apiserver's time limit for a request.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// From which machines a server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The server can be reached from this machine only.
    Loopback,
    /// The server can be reached from every machine that reaches the address. The kubeconfig grants
    /// administrator access.
    Network,
}

/// A running HTTPS server of the API. The server stops when this value is dropped.
#[derive(Debug)]
pub struct Server {
    /// The address on which the server listens.
    pub address: SocketAddr,
    /// The kubeconfig for clients, as YAML.
    pub kubeconfig: String,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server on the current tokio runtime. Port 0 picks a free port.
    ///
    /// # Errors
    ///
    /// The address is taken or is not of this machine, `reach` does not allow it, or no certificate
    /// can be made.
    pub async fn start(router: Router, address: SocketAddr, reach: Reach) -> anyhow::Result<Self> {
        if reach == Reach::Loopback && !address.ip().is_loopback() {
            bail!(
                "{address} can be reached from other machines; \
                 serve on a loopback address such as 127.0.0.1:{}",
                address.port()
            );
        }
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr().context("a bound socket has an address")?;
        let identity = tls::Identity::new(address.ip())?;
        let token = random_token()?;
        let kubeconfig = kubeconfig::render_kubeconfig(address, &identity.authority, &token)?;
        let (stop, stopping) = watch::channel(false);
        let context =
            ConnectionContext { router, token: token.into(), acceptor: identity.acceptor };
        let task = tokio::spawn(accept_connections(listener, context, stopping));
        Ok(Self { address, kubeconfig, stop, task })
    }

    /// Stops the server: waits for open requests, up to `SHUTDOWN_GRACE`.
    pub async fn shut_down(mut self) {
        self.stop.send_replace(true);
        // The task ends by itself; a panic has been printed already.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// The state that all connections of a server share.
#[derive(Clone)]
struct ConnectionContext {
    router: Router,
    token: Arc<str>,
    acceptor: TlsAcceptor,
}

async fn accept_connections(
    listener: TcpListener,
    context: ConnectionContext,
    mut stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let open = Connections::default();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let registered = Arc::new(open.register_connection());
                    connections.spawn(serve_connection(
                        stream,
                        registered,
                        context.clone(),
                        stopping.clone(),
                    ));
                }
                // Most likely out of file descriptors: wait for other connections to end.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
            () = wait_until_stopped(&mut stopping) => break,
        }
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(SHUTDOWN_GRACE, all_ended).await.is_err() {
        connections.shutdown().await;
    }
}

/// Waits until the server stops or is dropped.
async fn wait_until_stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn serve_connection(
    stream: TcpStream,
    registered: Arc<Connection>,
    context: ConnectionContext,
    mut stopping: watch::Receiver<bool>,
) {
    // Watch events are small and must not be delayed.
    let _ = stream.set_nodelay(true);
    let stream = tokio::select! {
        accepted = context.acceptor.clone().accept(stream) => match accepted {
            Ok(stream) => stream,
            Err(_) => return,
        },
        () = registered.wait_until_expired() => return,
    };
    let requests = Arc::clone(&registered);
    let service = service_fn(move |request: Request<Incoming>| {
        let (context, active) = (context.clone(), requests.begin_request());
        async move {
            let response = context.respond(request).await;
            Ok::<_, Infallible>(response.map(|body| body.with_guard(active)))
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let is_expired = tokio::select! {
        _ = connection.as_mut() => return,
        () = registered.wait_until_expired() => true,
        () = wait_until_stopped(&mut stopping) => false,
    };
    connection.as_mut().graceful_shutdown();
    if is_expired {
        let _ = tokio::time::timeout(CLOSE_GRACE, connection).await;
    } else {
        let _ = connection.await;
    }
}

impl ConnectionContext {
    /// Responds to a request within a tracing span. For the log a watch ends when its stream
    /// begins.
    async fn respond(&self, request: Request<Incoming>) -> ApiResponse {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let span = request_span(&request);
        let started = Instant::now();
        let response = self.handle(request).instrument(span.clone()).await;
        let status = response.status().as_u16();
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        span.record("status", status).record("duration_ms", duration_ms);
        if response.status().is_server_error() {
            // With its own fields: the span is disabled unless the level is debug.
            span.in_scope(|| warn!(%method, path, status, duration_ms, "request failed"));
        } else {
            span.in_scope(|| debug!("request ended"));
        }
        response
    }

    async fn handle(&self, request: Request<Incoming>) -> ApiResponse {
        if !self.is_authenticated(&request) && !is_public_path(request.uri().path()) {
            return error_response(&ApiError::new(401, "Unauthorized", "Unauthorized"));
        }
        let read = tokio::time::timeout(BODY_TIMEOUT, read_request(request)).await;
        let read = read.unwrap_or_else(|_| {
            let message = "Timeout: request did not complete within the allotted timeout";
            Err(ApiError::new(504, "Timeout", message))
        });
        match read {
            Ok((parts, body)) if parts.method == Method::GET => {
                self.router.handle_read(&parts, &body).await
            }
            Ok((parts, body)) => self.handle_write(parts, body).await,
            Err(error) => error_response(&error),
        }
    }

    /// Handles a write on a thread of its own. A large body or a costly rule takes long; meanwhile
    /// the runtime's threads answer other requests.
    async fn handle_write(&self, parts: Parts, body: Bytes) -> ApiResponse {
        let (router, span, runtime) = (self.router.clone(), Span::current(), Handle::current());
        let written = tokio::task::spawn_blocking(move || {
            span.in_scope(|| runtime.block_on(router.handle_read(&parts, &body)))
        });
        written.await.unwrap_or_else(|error| {
            error_response(&ApiError::internal(format!("the request was not completed: {error}")))
        })
    }

    fn is_authenticated(&self, request: &Request<Incoming>) -> bool {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        header.and_then(bearer_token) == Some(&*self.token)
    }
}

/// The token of an `Authorization` header. As in kube-apiserver, the scheme may have any case, and
/// text after the token is ignored.
fn bearer_token(header: &str) -> Option<&str> {
    let mut parts = header.trim().splitn(3, ' ');
    let is_bearer = parts.next()?.eq_ignore_ascii_case("bearer");
    parts.next().filter(|token| is_bearer && !token.is_empty())
}

fn is_public_path(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version")
}

/// The tracing span of a request, with the object that the path names.
fn request_span(request: &Request<Incoming>) -> Span {
    if !enabled!(Level::DEBUG) {
        return Span::none();
    }
    let path = request.uri().path();
    let target = target_of_path(path);
    debug_span!(
        "request",
        verb = request_verb(request.method(), &target, &Query::parse(request.uri().query())),
        path,
        resource = target.plural,
        namespace = target.namespace,
        name = target.name,
        status = Empty,
        duration_ms = Empty,
    )
}

/// The collection, object or subresource that a path names; empty for discovery, health and other
/// paths without objects.
fn target_of_path(path: &str) -> Target {
    if let Path::Target(target) = Path::parse(path) { target } else { Target::default() }
}

/// The verb of a request, as in RBAC rules and audit logs.
fn request_verb(method: &Method, target: &Target, query: &Query) -> &'static str {
    let names_collection = !target.plural.is_empty() && target.name.is_none();
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if names_collection => "deletecollection",
        Method::DELETE => "delete",
        _ if target.is_watch || query.is_enabled("watch") => "watch",
        _ if names_collection => "list",
        _ => "get",
    }
}
