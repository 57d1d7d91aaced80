//! What a cluster's probes ask: `/livez` (and `/healthz`) whether the process answers, `/readyz`
//! whether it does its part, as the leader or as one that stands by; `/metrics` for
//! Prometheus; and what is served besides where it was asked for.

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

use crate::{
    captured::Source, config::Clock, leader::Standing, metrics::Metrics, status::Status,
    trace::Trace,
};

/// Whoever is not done by then has gone to sleep; a snapshot of a large cluster takes a while.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the answers are made of.
#[derive(Clone)]
pub struct Health {
    /// Where the scheduler stands among its candidates; [`Standing::Leading`] if it is alone.
    pub standing: watch::Receiver<Standing>,
    /// How far its cycles are.
    pub status: watch::Receiver<Status>,
    /// What it measures.
    pub metrics: Arc<Metrics>,
    /// When that is told.
    pub now: Clock,
    /// Whose snapshots are served at `/get-snapshot`; `None`: nobody's.
    pub snapshots: Option<Source>,
    /// What is served at `/get-trace`; `None`: nothing.
    pub trace: Option<Trace>,
}

type Answer = Response<Full<Bytes>>;

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("standing", &self.standing).finish_non_exhaustive()
    }
}

impl Health {
    /// Whether it does its part, and in which way it does or does not.
    pub fn readiness(&self) -> Result<String, String> {
        let standing = self.standing.borrow();
        match &*standing {
            Standing::Asking | Standing::Refused(_) | Standing::Unreleased(_) => {
                Err(standing.to_string())
            }
            Standing::StandingBy(_) => Ok(standing.to_string()),
            Standing::Leading => match self.status.borrow().cycles {
                0 => Err("leads, and has not seen the whole cluster yet".to_owned()),
                cycles => Ok(format!("leads, {cycles} cycles done")),
            },
        }
    }

    async fn answer(&self, path: &str) -> Answer {
        match (path, &self.snapshots) {
            ("/metrics", _) => {
                let text = "text/plain; version=0.0.4; charset=utf-8";
                typed(self.metrics.text((self.now)()).into(), text)
            }
            ("/get-snapshot", Some(source)) => match source.take().await {
                Ok(zip) => typed(zip.into(), "application/zip"),
                Err(error) => plain(StatusCode::BAD_GATEWAY, error.to_string()),
            },
            ("/get-snapshot", None) => {
                plain(StatusCode::NOT_FOUND, "snapshots are served with --serve-snapshots".into())
            }
            ("/get-trace", _) => self.traced(),
            _ => self.probe(path),
        }
    }

    fn traced(&self) -> Answer {
        let text = self.trace.as_ref().map(Trace::text);
        let off =
            || plain(StatusCode::NOT_FOUND, "decisions are traced with --trace-decisions".into());
        text.map_or_else(off, |text| plain(StatusCode::OK, text))
    }

    fn probe(&self, path: &str) -> Answer {
        let (status, text) = match path {
            "/livez" | "/healthz" => (StatusCode::OK, "ok".to_owned()),
            "/readyz" => match self.readiness() {
                Ok(how) => (StatusCode::OK, how),
                Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
            },
            _ => {
                let allowed = "allowed: /livez, /readyz, /healthz, /metrics, /get-snapshot, \
                               /get-trace";
                (StatusCode::NOT_FOUND, allowed.to_owned())
            }
        };
        plain(status, text)
    }
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut response = Response::new(Full::from(text + "\n"));
    *response.status_mut() = status;
    response
}

fn typed(body: Full<Bytes>, media_type: &'static str) -> Answer {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Answers probes until it is dropped.
///
/// # Errors
/// The listener is broken.
pub async fn serve(listener: TcpListener, health: Health) -> io::Result<Infallible> {
    loop {
        let (connection, _) = listener.accept().await?;
        // Whoever goes away in the middle has lost nothing.
        tokio::spawn(timeout(PATIENCE, answer(connection, health.clone())));
    }
}

async fn answer(connection: TcpStream, health: Health) -> hyper::Result<()> {
    let service = service_fn(|request: Request<Incoming>| {
        let health = health.clone();
        async move { Ok::<_, Infallible>(health.answer(request.uri().path()).await) }
    });
    http1::Builder::new().serve_connection(TokioIo::new(connection), service).await
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn health(standing: Standing, cycles: u64) -> Health {
        let status = Status { cycles, ..Status::default() };
        Health {
            standing: watch::channel(standing).1,
            status: watch::channel(status).1,
            metrics: Arc::default(),
            now: Arc::new(jiff::Timestamp::default),
            snapshots: None,
            trace: None,
        }
    }

    fn readiness(standing: Standing, cycles: u64) -> Result<String, String> {
        health(standing, cycles).readiness()
    }

    #[test]
    fn who_stands_by_is_ready_and_a_leader_is_once_it_has_seen_the_cluster() {
        let leader = || Standing::StandingBy("a".to_owned());
        assert!(readiness(Standing::Asking, 0).is_err());
        assert!(readiness(Standing::Refused("no".to_owned()), 0).is_err());
        assert_eq!(readiness(leader(), 0), Ok("stands by, a leads".to_owned()));
        assert!(readiness(Standing::Leading, 0).is_err());
        assert_eq!(readiness(Standing::Leading, 3), Ok("leads, 3 cycles done".to_owned()));
    }

    /// Status and text of an answer.
    async fn told(health: &Health, path: &str) -> String {
        let answer = health.answer(path).await;
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        format!("{status} {}", String::from_utf8_lossy(&text).trim_end())
    }

    #[tokio::test]
    async fn metrics_are_told_as_prometheus_reads_them() {
        let health = health(Standing::Leading, 0);
        let answer = health.answer("/metrics").await;
        assert!(answer.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/plain"));
        let told = told(&health, "/metrics").await;
        assert!(told.starts_with("200 "), "{told}");
        assert!(told.contains("# TYPE kai_task_bind_latency_milliseconds histogram"), "{told}");
    }

    #[tokio::test]
    async fn an_unknown_path_is_told_the_known_ones() {
        let health = health(Standing::Leading, 0);
        assert_eq!(told(&health, "/livez").await, "200 ok");
        assert_eq!(told(&health, "/healthz").await, "200 ok");
        let early = "503 leads, and has not seen the whole cluster yet";
        assert_eq!(told(&health, "/readyz").await, early);
        let allowed = "404 allowed: /livez, /readyz, /healthz, /metrics, /get-snapshot, /get-trace";
        assert_eq!(told(&health, "/debug").await, allowed);
        let off = "404 snapshots are served with --serve-snapshots";
        assert_eq!(told(&health, "/get-snapshot").await, off);
        let off = "404 decisions are traced with --trace-decisions";
        assert_eq!(told(&health, "/get-trace").await, off);
        let health = Health { trace: Some(Trace::of_lines(1)), ..health };
        assert_eq!(told(&health, "/get-trace").await, "200 ");
    }
}
