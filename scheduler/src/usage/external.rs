//! Historical usage from an external database. A task of its own polls it, so that no decision
//! waits for it; the last good response is used until it is stale.

use std::{fmt, sync::Arc, time::Duration};

use http::Uri;
use kube::Client;
use schedlab_scheduler_core::model::Time;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{
    prometheus::{self, Shares},
    schedule::CronSchedule,
};

/// Settings of a usage database: a Prometheus that has the usage of queues.
#[derive(Clone, Debug)]
pub struct UsageDatabase {
    /// Address of the API.
    pub endpoint: Endpoint,
    /// Time window over which usage is summed.
    pub window: Window,
    /// Half-life of past usage. `None`: no decay within the window.
    pub half_life: Option<Duration>,
    /// Resolution of the summed values.
    pub resolution: Duration,
    /// The metrics that are summed.
    pub queries: UsageQueries,
    /// Poll interval and time limits.
    pub timing: PollTiming,
}

/// How the database is accessed.
#[derive(Clone)]
pub enum Endpoint {
    /// Base URL; the API path is appended.
    Url(Uri),
    /// An existing client.
    Client(Client),
}

/// Time window of usage.
#[derive(Clone, Debug)]
pub enum Window {
    /// A window of fixed length that ends now.
    Sliding(Duration),
    /// The elapsed part of the current window; windows of equal size follow each other.
    Tumbling {
        /// Start of the first window.
        start: jiff::Timestamp,
        /// Length of each window.
        size: Duration,
    },
    /// The time since the last time of a cron schedule.
    Cron(CronSchedule),
}

/// `PromQL` expressions per resource: usage by queue, then capacity of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQueries {
    /// Expressions for usage and capacity of GPUs.
    pub gpu: [String; 2],
    /// Expressions for usage and capacity of CPU.
    pub cpu: [String; 2],
    /// Expressions for usage and capacity of memory.
    pub memory: [String; 2],
}

/// Poll interval and time limits of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollTiming {
    /// Time from one response to the next query.
    pub fetch_interval: Duration,
    /// Age after which a response is not used any more.
    pub staleness: Duration,
    /// Maximum time that the first cycle waits for the first response.
    pub first_answer_timeout: Duration,
    /// Time limit of a query.
    pub query_timeout: Duration,
}

impl Window {
    /// Milliseconds of the window that have passed at `now`.
    pub(super) fn elapsed_millis(&self, now: Time) -> i64 {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        match self {
            Self::Sliding(size) => millis(*size),
            Self::Tumbling { start, size } => {
                let since = now.0.saturating_sub(start.as_millisecond());
                if since < 0 { 0 } else { since % millis(*size).max(1) }
            }
            Self::Cron(moments) => moments.millis_since_last(now),
        }
    }
}

impl UsageQueries {
    /// KAI's default queries.
    pub fn kai_defaults() -> Self {
        let of = |allocated: &str, resource| {
            let capacity = format!("sum(kube_node_status_capacity{{resource=\"{resource}\"}})");
            [format!("kai_queue_allocated_{allocated}"), capacity]
        };
        Self {
            gpu: of("gpus", "nvidia_com_gpu"),
            cpu: of("cpu_cores", "cpu"),
            memory: of("memory_bytes", "memory"),
        }
    }
}

impl Endpoint {
    fn client(&self) -> kube::Result<Client> {
        match self {
            Self::Client(client) => Ok(client.clone()),
            Self::Url(address) => {
                let mut config = kube::Config::new(address.clone());
                config.default_retry = false;
                if address.scheme_str() == Some("http") {
                    // Otherwise the client loads system certificates, which our image does not
                    // contain.
                    config.root_cert = Some(Vec::new());
                }
                Client::try_from(config)
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(address) => write!(f, "{}", address.to_string().trim_end_matches('/')),
            Self::Client(_) => f.write_str("a client"),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Result of the last query, and the last good response.
#[derive(Debug, Default)]
struct LastPoll {
    /// Query time and content of the last good response.
    shares: Option<(Time, Arc<Shares>)>,
    /// Why the last query failed; `None`: it succeeded.
    problem: Option<String>,
    latency: Duration,
}

/// The task that polls the usage database; dropping it aborts the task.
#[derive(Debug)]
pub(super) struct UsagePoller {
    settings: UsageDatabase,
    last_poll: watch::Receiver<LastPoll>,
    task: JoinHandle<()>,
}

impl Drop for UsagePoller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl UsagePoller {
    /// Starts polling the usage database.
    pub(super) fn start(
        settings: UsageDatabase,
        now: impl Fn() -> jiff::Timestamp + Send + Sync + 'static,
    ) -> Self {
        let (sender, last_poll) = watch::channel(LastPoll::default());
        let poll_settings = settings.clone();
        let task = tokio::spawn(async move {
            loop {
                let (at, began) = (Time(now().as_millisecond()), Instant::now());
                let answer = query_usage(&poll_settings, at).await;
                sender.send_modify(|receiver| receiver.record(at, answer, began.elapsed()));
                sleep(poll_settings.timing.fetch_interval).await;
            }
        });
        Self { settings, last_poll, task }
    }

    /// Waits for the next response or failure of the database.
    pub(super) async fn wait_for_change(&mut self) {
        if self.last_poll.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Like [`Self::wait_for_change`] for the first query, with a time limit.
    pub(super) async fn wait_for_first(&mut self) {
        let result =
            timeout(self.settings.timing.first_answer_timeout, self.last_poll.changed()).await;
        if result.is_ok() {
            self.last_poll.mark_changed();
        }
    }

    /// Name of the database for messages.
    pub(super) fn description(&self) -> String {
        format!("usage of queues from {}", self.settings.endpoint)
    }

    /// Usage shares of the last good response; `None`: it is stale, or there was none.
    pub(super) fn current_shares(&self, now: Time) -> Option<Arc<Shares>> {
        let last = self.last_poll.borrow();
        let staleness = i64::try_from(self.staleness().as_millis()).unwrap_or(i64::MAX);
        let fresh = |at: Time| now.0.saturating_sub(at.0) <= staleness;
        last.shares.as_ref().filter(|(at, _)| fresh(*at)).map(|(_, shares)| Arc::clone(shares))
    }

    /// Age after which a response is not used any more; as in KAI, at least the fetch interval.
    pub(super) fn staleness(&self) -> Duration {
        self.settings.timing.staleness.max(self.settings.timing.fetch_interval)
    }

    /// Why the last query failed, if it did, and its latency.
    pub(super) fn last_problem(&self) -> (Option<String>, Duration) {
        let last = self.last_poll.borrow();
        (last.problem.clone(), last.latency)
    }
}

impl LastPoll {
    fn record(&mut self, at: Time, answer: Result<Shares, String>, took: Duration) {
        self.latency = took;
        match answer {
            Ok(shares) => (self.shares, self.problem) = (Some((at, Arc::new(shares))), None),
            Err(trouble) => self.problem = Some(trouble),
        }
    }
}

pub(super) async fn query_usage(settings: &UsageDatabase, now: Time) -> Result<Shares, String> {
    let limit = settings.timing.query_timeout;
    let with_source =
        |fault: String| format!("usage of queues from {}: {fault}", settings.endpoint);
    let client = settings.endpoint.client();
    let client =
        client.map_err(|error| with_source(format!("{:#}", anyhow::Error::from(error))))?;
    match timeout(limit, prometheus::query_shares(settings, &client, now)).await {
        Ok(answer) => answer.map_err(|trouble| with_source(trouble.to_string())),
        Err(_) => Err(with_source(format!("no response within {limit:?}"))),
    }
}
