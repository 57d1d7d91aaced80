//! What a cluster's probes ask: `/livez` (and `/healthz`) whether the process answers, `/readyz`
//! whether it does its part, as the leader or as one that stands by; and `/metrics` for Prometheus.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use crate::{leader::Standing, metrics::Metrics, status::Status};

/// A probe that is not done by then has gone to sleep.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the answers are made of.
#[derive(Clone, Debug)]
pub struct Health {
    /// Where the scheduler stands among its candidates; [`Standing::Leading`] if it is alone.
    pub standing: watch::Receiver<Standing>,
    /// How far its cycles are.
    pub status: watch::Receiver<Status>,
    /// What it measures.
    pub metrics: Arc<Metrics>,
}

impl Health {
    /// Whether it does its part, and in which way it does or does not.
    pub fn readiness(&self) -> Result<String, String> {
        let standing = self.standing.borrow();
        match &*standing {
            Standing::Asking | Standing::Refused(_) => Err(standing.to_string()),
            Standing::StandingBy(_) => Ok(standing.to_string()),
            Standing::Leading => match self.status.borrow().cycles {
                0 => Err("leads, and has not seen the whole cluster yet".to_owned()),
                cycles => Ok(format!("leads, {cycles} cycles done")),
            },
        }
    }

    fn answer(&self, path: &str) -> Response<String> {
        if path == "/metrics" {
            let mut response = Response::new(self.metrics.text());
            let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, text);
            return response;
        }
        let (status, text) = match path {
            "/livez" | "/healthz" => (StatusCode::OK, "ok".to_owned()),
            "/readyz" => match self.readiness() {
                Ok(how) => (StatusCode::OK, how),
                Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
            },
            _ => (StatusCode::NOT_FOUND, "allowed: /livez, /readyz, /healthz, /metrics".to_owned()),
        };
        let mut response = Response::new(text + "\n");
        *response.status_mut() = status;
        response
    }
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
        std::future::ready(Ok::<_, Infallible>(health.answer(request.uri().path())))
    });
    http1::Builder::new().serve_connection(TokioIo::new(connection), service).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(standing: Standing, cycles: u64) -> Health {
        let status = Status { cycles, ..Status::default() };
        Health {
            standing: watch::channel(standing).1,
            status: watch::channel(status).1,
            metrics: Arc::default(),
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

    #[test]
    fn metrics_are_told_as_prometheus_reads_them() {
        let answer = health(Standing::Leading, 0).answer("/metrics");
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/plain"));
        assert!(answer.body().contains("# TYPE kai_task_bind_latency_milliseconds histogram"));
    }

    #[test]
    fn an_unknown_path_is_told_the_known_ones() {
        let health = health(Standing::Leading, 0);
        let answers = ["/livez", "/healthz", "/readyz", "/debug"].map(|path| {
            let answer = health.answer(path);
            format!("{} {}", answer.status().as_u16(), answer.body().trim_end())
        });
        assert_eq!(
            answers,
            [
                "200 ok",
                "200 ok",
                "503 leads, and has not seen the whole cluster yet",
                "404 allowed: /livez, /readyz, /healthz, /metrics"
            ]
        );
    }
}
