//! The door for everyone outside the process: the API over TLS, with a bearer token, on the
//! loopback interface. Every server has a certificate authority and a token of its own, both in
//! the kubeconfig it hands out, so that nothing else can talk to it by accident.

mod kubeconfig;
mod tls;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::Request;
use ::http::header::AUTHORIZATION;
use anyhow::{Context, bail};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::error::ApiError;
use crate::http::{Reply, Router, refusal};

pub use tls::random_token;

/// How long open requests may take to end when a server stops; watches never end by themselves.
const FAREWELL: Duration = Duration::from_millis(300);

/// Who may reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This machine only.
    Loopback,
    /// Whoever reaches the address. Everyone with the kubeconfig is an administrator.
    Network,
}

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// What kubectl and other clients need to reach it, as YAML.
    pub kubeconfig: String,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server on the current tokio runtime. Port 0 picks a free one.
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
        let kubeconfig = kubeconfig::text(address, &identity.authority, &token)?;
        let (stop, stopping) = watch::channel(false);
        let door = Door { router, token: token.into(), acceptor: identity.acceptor };
        let task = tokio::spawn(accept(listener, door, stopping));
        Ok(Self { address, kubeconfig, stop, task })
    }

    /// Stops listening, lets open requests end, and returns when all is over.
    pub async fn shut_down(mut self) {
        self.stop.send_replace(true);
        // The task ends by itself; that it panicked would have been printed.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// What every connection needs.
#[derive(Clone)]
struct Door {
    router: Router,
    token: Arc<str>,
    acceptor: TlsAcceptor,
}

async fn accept(listener: TcpListener, door: Door, mut stopping: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, door.clone(), stopping.clone()));
                }
                // Out of file descriptors, most likely: others must end first.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
            () = stopped(&mut stopping) => break,
        }
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(FAREWELL, all_ended).await.is_err() {
        connections.shutdown().await;
    }
}

/// Until the server is told to stop, or is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn connection(stream: TcpStream, door: Door, mut stopping: watch::Receiver<bool>) {
    // Events of a watch are small and must not wait for each other.
    let _ = stream.set_nodelay(true);
    let Ok(stream) = door.acceptor.clone().accept(stream).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let door = door.clone();
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stopped(&mut stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

impl Door {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if self.is_known(&request) || is_public(request.uri().path()) {
            return self.router.answer(request).await;
        }
        refusal(&ApiError::new(401, "Unauthorized", "Unauthorized"))
    }

    fn is_known(&self, request: &Request<Incoming>) -> bool {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        header.and_then(|header| header.strip_prefix("Bearer ")) == Some(&*self.token)
    }
}

fn is_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version")
}
