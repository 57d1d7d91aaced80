//! HTTP endpoints: `/livez` (and `/healthz`) for liveness, `/readyz` for readiness as leader or
//! standby, `/metrics` for Prometheus, and if enabled `/get-snapshot` and `/get-trace`.

use std::{convert::Infallible, fmt, io, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use super::{leader_election::LeaderState, metrics::Metrics};
use crate::{config::Clock, progress::Progress, snapshot_file::SnapshotSource, trace::Trace};

/// Time limit of a connection; large enough for a snapshot of a large cluster.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(2);

/// State that the endpoints report.
#[derive(Clone)]
pub struct Health {
    /// State of leader election; [`LeaderState::Leading`] without election.
    pub leader_state: watch::Receiver<LeaderState>,
    /// Progress of cycles.
    pub status: watch::Receiver<Progress>,
    /// Metrics of the scheduler.
    pub metrics: Arc<Metrics>,
    /// Clock for time-dependent metrics.
    pub now: Clock,
    /// Source of `/get-snapshot`; `None`: not served.
    pub snapshots: Option<SnapshotSource>,
    /// Trace served at `/get-trace`; `None`: not served.
    pub trace: Option<Trace>,
}

type HttpResponse = Response<Full<Bytes>>;

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("standing", &self.leader_state).finish_non_exhaustive()
    }
}

impl Health {
    /// Readiness with an explanation: `Ok` if ready.
    ///
    /// # Errors
    ///
    /// Why the process is not ready: it has no lease yet, could not get or release the lease, or
    /// has not completed a cycle.
    pub fn readiness(&self) -> Result<String, String> {
        let standing = self.leader_state.borrow();
        match &*standing {
            LeaderState::Acquiring | LeaderState::Rejected(_) | LeaderState::ReleaseFailed(_) => {
                Err(standing.to_string())
            }
            LeaderState::Standby(_) => Ok(standing.to_string()),
            LeaderState::Leading => match self.status.borrow().cycles {
                0 => Err("leads, but has not completed a cycle yet".to_owned()),
                cycles => Ok(format!("leads, cycles completed: {cycles}")),
            },
        }
    }

    async fn respond(&self, path: &str) -> HttpResponse {
        match (path, &self.snapshots) {
            ("/metrics", _) => {
                let text = "text/plain; version=0.0.4; charset=utf-8";
                response_with_type(self.metrics.text((self.now)()).into(), text)
            }
            ("/get-snapshot", Some(source)) => match source.capture().await {
                Ok(zip) => response_with_type(zip.into(), "application/zip"),
                Err(error) => text_response(StatusCode::BAD_GATEWAY, error.to_string()),
            },
            ("/get-snapshot", None) => text_response(
                StatusCode::NOT_FOUND,
                "snapshots are not served: run with --serve-snapshots".into(),
            ),
            ("/get-trace", _) => self.trace_response(),
            _ => self.probe(path),
        }
    }

    fn trace_response(&self) -> HttpResponse {
        let text = self.trace.as_ref().map(Trace::text);
        let off = || {
            text_response(
                StatusCode::NOT_FOUND,
                "decisions are not traced: run with --trace-decisions".into(),
            )
        };
        text.map_or_else(off, |text| text_response(StatusCode::OK, text))
    }

    fn probe(&self, path: &str) -> HttpResponse {
        let (status, text) = match path {
            "/livez" | "/healthz" => (StatusCode::OK, "ok".to_owned()),
            "/readyz" => match self.readiness() {
                Ok(how) => (StatusCode::OK, how),
                Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
            },
            _ => {
                let allowed = "expected /livez, /readyz, /healthz, /metrics, /get-snapshot, \
                               /get-trace";
                (StatusCode::NOT_FOUND, allowed.to_owned())
            }
        };
        text_response(status, text)
    }
}

fn text_response(status: StatusCode, text: String) -> HttpResponse {
    let mut response = Response::new(Full::from(text + "\n"));
    *response.status_mut() = status;
    response
}

fn response_with_type(body: Full<Bytes>, media_type: &'static str) -> HttpResponse {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Serves the health endpoints until the future is dropped.
///
/// # Errors
/// The listener fails.
pub async fn serve(listener: TcpListener, health: Health) -> io::Result<Infallible> {
    loop {
        let (connection, _) = listener.accept().await?;
        // Errors of single connections are ignored.
        tokio::spawn(timeout(CONNECTION_TIMEOUT, serve_connection(connection, health.clone())));
    }
}

async fn serve_connection(connection: TcpStream, health: Health) -> hyper::Result<()> {
    let service = service_fn(|request: Request<Incoming>| {
        let health = health.clone();
        async move { Ok::<_, Infallible>(health.respond(request.uri().path()).await) }
    });
    http1::Builder::new().serve_connection(TokioIo::new(connection), service).await
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn health(standing: LeaderState, cycles: u64) -> Health {
        let status = Progress { cycles, ..Progress::default() };
        Health {
            leader_state: watch::channel(standing).1,
            status: watch::channel(status).1,
            metrics: Arc::default(),
            now: Arc::new(jiff::Timestamp::default),
            snapshots: None,
            trace: None,
        }
    }

    fn readiness(standing: LeaderState, cycles: u64) -> Result<String, String> {
        health(standing, cycles).readiness()
    }

    #[test]
    fn a_standby_is_ready_and_a_leader_is_ready_after_its_first_cycle() {
        let leader = || LeaderState::Standby("a".to_owned());
        assert!(readiness(LeaderState::Acquiring, 0).is_err());
        assert!(readiness(LeaderState::Rejected("no".to_owned()), 0).is_err());
        assert_eq!(readiness(leader(), 0), Ok("standing by, a leads".to_owned()));
        assert!(readiness(LeaderState::Leading, 0).is_err());
        assert_eq!(readiness(LeaderState::Leading, 3), Ok("leads, cycles completed: 3".to_owned()));
    }

    /// Status and text of a response.
    async fn response_text(health: &Health, path: &str) -> String {
        let answer = health.respond(path).await;
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        format!("{status} {}", String::from_utf8_lossy(&text).trim_end())
    }

    #[tokio::test]
    async fn metrics_are_served_in_the_prometheus_text_format() {
        let health = health(LeaderState::Leading, 0);
        let answer = health.respond("/metrics").await;
        assert!(answer.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/plain"));
        let text = response_text(&health, "/metrics").await;
        assert!(text.starts_with("200 "), "{text}");
        assert!(text.contains("# TYPE kai_task_bind_latency_milliseconds histogram"), "{text}");
    }

    #[tokio::test]
    async fn an_unknown_path_lists_the_known_ones() {
        let health = health(LeaderState::Leading, 0);
        assert_eq!(response_text(&health, "/livez").await, "200 ok");
        assert_eq!(response_text(&health, "/healthz").await, "200 ok");
        let early = "503 leads, but has not completed a cycle yet";
        assert_eq!(response_text(&health, "/readyz").await, early);
        let allowed = "404 expected /livez, /readyz, /healthz, /metrics, /get-snapshot, /get-trace";
        assert_eq!(response_text(&health, "/debug").await, allowed);
        let off = "404 snapshots are not served: run with --serve-snapshots";
        assert_eq!(response_text(&health, "/get-snapshot").await, off);
        let off = "404 decisions are not traced: run with --trace-decisions";
        assert_eq!(response_text(&health, "/get-trace").await, off);
        let health = Health { trace: Some(Trace::with_capacity(1)), ..health };
        assert_eq!(response_text(&health, "/get-trace").await, "200 ");
    }
}
