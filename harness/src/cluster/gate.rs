//! A door for one scheduler in another process: HTTP on the loopback interface, under a path that
//! is a secret (Kubernetes' own clients send tokens over TLS only), behind which its requests go where the client leads. It sees what the client sees.

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
use schedlab_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// An open door. It closes when it is dropped.
#[derive(Debug)]
pub(super) struct Gate {
    /// What a Kubernetes client needs to come in, as YAML.
    pub(super) kubeconfig: String,
    task: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Gate {
    /// Opens a door to where a client leads.
    pub(super) async fn open(client: kube::Client) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await
            .context("cannot listen on the loopback interface")?;
        let address = listener.local_addr().context("a bound socket has an address")?;
        let token = schedlab_emulator::serve::random_token()?;
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
            serde_yaml::to_string(&config).context("a kubeconfig can be written as YAML")?;
        let secret = Arc::from(format!("/{token}"));
        Ok(Self { kubeconfig, task: tokio::spawn(accept(listener, client, secret)) })
    }
}

async fn accept(listener: TcpListener, client: kube::Client, secret: Arc<str>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(connection(stream, client.clone(), Arc::clone(&secret)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, client: kube::Client, secret: Arc<str>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let (client, secret) = (client.clone(), Arc::clone(&secret));
        async move { Ok::<_, Infallible>(answer(client, &secret, request).await) }
    });
    // That a scheduler was killed in the middle of a request is what tests are for.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(client: kube::Client, secret: &str, request: Request<Incoming>) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let asked = parts.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    let Some(Ok(uri)) = asked.strip_prefix(secret).map(str::parse) else {
        return refusal(StatusCode::UNAUTHORIZED, "Unauthorized");
    };
    parts.uri = uri;
    parts.headers.remove(AUTHORIZATION);
    let Ok(body) = body.collect().await else {
        return refusal(StatusCode::BAD_REQUEST, "the body of the request broke off");
    };
    parts.headers.remove(http::header::HOST);
    let request = Request::from_parts(parts, Body::from(body.to_bytes()));
    match client.send(request).await {
        Ok(answer) => answer,
        Err(error) => refusal(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

fn refusal(code: StatusCode, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code.as_u16(), "reason": code.canonical_reason(), "message": message,
    });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = code;
    answer
}
