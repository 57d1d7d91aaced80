//! A loopback reverse proxy through which a scheduler process reaches its scenario. It forwards
//! requests to a client, so the process sees what that client sees. It speaks plain HTTP under a
//! secret path, because Kubernetes clients send tokens only over TLS.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use schedlab_api::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running proxy for the API server. It stops when it is dropped.
pub(super) struct ApiProxy {
    /// The kubeconfig for the scheduler process, as YAML.
    pub(super) kubeconfig: String,
    /// The port on the loopback interface.
    pub(super) port: u16,
    client: kube::Client,
    secret: Arc<str>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl ApiProxy {
    /// Starts a proxy for the cluster of `client`.
    pub(super) async fn start(client: kube::Client) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await
            .context("cannot listen on the loopback interface")?;
        let address = listener.local_addr().context("cannot get the address of the socket")?;
        let token = schedlab_emulator::http::serve::random_token()?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "scenario", "cluster": {
                "server": format!("http://{address}/{token}"),
            }}],
            "users": [{"name": "scheduler", "user": {}}],
            "contexts": [
                {"name": "scenario", "context": {"cluster": "scenario", "user": "scheduler"}},
            ],
            "current-context": "scenario",
        });
        let kubeconfig =
            serde_yaml::to_string(&config).context("cannot serialize the kubeconfig")?;
        let secret = Arc::from(format!("/{token}"));
        let mut proxy = Self { kubeconfig, port: address.port(), client, secret, tasks: vec![] };
        proxy.serve(listener);
        Ok(proxy)
    }

    /// Serves the connections of one more socket. The kubeconfig is valid there if the socket has
    /// the proxy's port in another network namespace.
    pub(super) fn serve(&mut self, listener: TcpListener) {
        let (client, secret) = (self.client.clone(), Arc::clone(&self.secret));
        self.tasks.push(tokio::spawn(accept_connections(listener, client, secret)));
    }
}

async fn accept_connections(listener: TcpListener, client: kube::Client, secret: Arc<str>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(serve_connection(stream, client.clone(), Arc::clone(&secret)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, client: kube::Client, secret: Arc<str>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let (client, secret) = (client.clone(), Arc::clone(&secret));
        async move { Ok::<_, Infallible>(forward_request(client, &secret, request).await) }
    });
    // Killing a scheduler in the middle of a request is what some tests do, so errors are ignored.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn forward_request(
    client: kube::Client,
    secret: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let requested = parts.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    let Some(Ok(uri)) = requested.strip_prefix(secret).map(str::parse) else {
        return error_response(StatusCode::UNAUTHORIZED, "Unauthorized");
    };
    parts.uri = uri;
    parts.headers.remove(AUTHORIZATION);
    let Ok(body) = body.collect().await else {
        return error_response(StatusCode::BAD_REQUEST, "the request body is incomplete");
    };
    parts.headers.remove(http::header::HOST);
    let request = Request::from_parts(parts, Body::from(body.to_bytes()));
    match client.send(request).await {
        Ok(response) => response,
        Err(error) => error_response(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

fn error_response(code: StatusCode, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code.as_u16(), "reason": code.canonical_reason(), "message": message,
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code;
    response
}
