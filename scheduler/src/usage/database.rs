//! Usage over time as a database knows it. It is asked now and then by a task of its own, so that
//! no decision waits for it; the last good answer counts until it is stale.

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
    moments::Moments,
    prometheus::{self, Shares},
};

/// A Prometheus that knows what queues used, and how it is asked.
#[derive(Clone, Debug)]
pub struct UsageDatabase {
    /// Where it is.
    pub reached: Reached,
    /// Over which time usage is added up.
    pub window: Window,
    /// After so long past usage counts for half. `None`: alike over the whole window.
    pub half_life: Option<Duration>,
    /// Time from one value to the next that is added up.
    pub resolution: Duration,
    /// What is added up.
    pub asked: Asked,
    /// When, and how long for.
    pub timing: Timing,
}

/// How it is reached.
#[derive(Clone)]
pub enum Reached {
    /// By HTTP or HTTPS; the path of its API follows.
    At(Uri),
    /// By a client that is there already.
    By(Client),
}

/// Which time counts.
#[derive(Clone, Debug)]
pub enum Window {
    /// The last so long.
    Sliding(Duration),
    /// What has passed of a time of this size; such times follow each other from a moment on.
    Tumbling {
        /// When the first one begins.
        start: jiff::Timestamp,
        /// How long each lasts.
        size: Duration,
    },
    /// What has passed since the last of these moments.
    Cron(Moments),
}

/// Of each resource what queues use and what the cluster has, in `PromQL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// GPUs.
    pub gpu: [String; 2],
    /// CPU.
    pub cpu: [String; 2],
    /// Memory.
    pub memory: [String; 2],
}

/// When it is asked, and how long for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From one answer to the next question.
    pub fetch_interval: Duration,
    /// An older answer does not count.
    pub staleness: Duration,
    /// The first cycle waits for the first answer so long at most.
    pub wait: Duration,
    /// An answer takes so long at most.
    pub query: Duration,
}

impl Window {
    /// How long it has lasted.
    pub(super) fn millis(&self, now: Time) -> i64 {
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

impl Asked {
    /// What KAI asks for.
    pub fn of_kai() -> Self {
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

impl Reached {
    fn client(&self) -> kube::Result<Client> {
        match self {
            Self::By(client) => Ok(client.clone()),
            Self::At(address) => {
                let mut config = kube::Config::new(address.clone());
                config.default_retry = false;
                if address.scheme_str() == Some("http") {
                    // Else certificates are looked for, which our image does not have.
                    config.root_cert = Some(Vec::new());
                }
                Client::try_from(config)
            }
        }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => write!(f, "{}", address.to_string().trim_end_matches('/')),
            Self::By(_) => f.write_str("a client"),
        }
    }
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What the database said last.
#[derive(Debug, Default)]
struct Heard {
    /// When the last good answer was asked for, and what it says.
    answer: Option<(Time, Arc<Shares>)>,
    /// Why the last question has no good answer.
    trouble: Option<String>,
    took: Duration,
}

/// The task that asks; it ends with this.
#[derive(Debug)]
pub(super) struct Database {
    settings: UsageDatabase,
    heard: watch::Receiver<Heard>,
    task: JoinHandle<()>,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Database {
    /// Begins to ask.
    pub(super) fn ask(
        settings: UsageDatabase,
        now: impl Fn() -> jiff::Timestamp + Send + Sync + 'static,
    ) -> Self {
        let (tell, heard) = watch::channel(Heard::default());
        let asked = settings.clone();
        let task = tokio::spawn(async move {
            loop {
                let (at, began) = (Time(now().as_millisecond()), Instant::now());
                let answer = answer(&asked, at).await;
                tell.send_modify(|heard| heard.take(at, answer, began.elapsed()));
                sleep(asked.timing.fetch_interval).await;
            }
        });
        Self { settings, heard, task }
    }

    /// Waits for an answer, or for word that there is none.
    pub(super) async fn changed(&mut self) {
        if self.heard.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The same, for the first one; not for ever.
    pub(super) async fn first(&mut self) {
        let heard = timeout(self.settings.timing.wait, self.heard.changed()).await;
        if heard.is_ok() {
            self.heard.mark_changed();
        }
    }

    /// As it is told of.
    pub(super) fn name(&self) -> String {
        format!("usage of queues from {}", self.settings.reached)
    }

    /// What counts now; `None`: the last answer is stale, or there was none.
    pub(super) fn shares(&self, now: Time) -> Option<Arc<Shares>> {
        let heard = self.heard.borrow();
        let staleness = i64::try_from(self.staleness().as_millis()).unwrap_or(i64::MAX);
        let fresh = |at: Time| now.0.saturating_sub(at.0) <= staleness;
        heard.answer.as_ref().filter(|(at, _)| fresh(*at)).map(|(_, shares)| Arc::clone(shares))
    }

    /// An older answer does not count; as in KAI, not before there could be another one.
    pub(super) fn staleness(&self) -> Duration {
        self.settings.timing.staleness.max(self.settings.timing.fetch_interval)
    }

    /// Why the last question has no good answer, and how long it took.
    pub(super) fn last(&self) -> (Option<String>, Duration) {
        let heard = self.heard.borrow();
        (heard.trouble.clone(), heard.took)
    }
}

impl Heard {
    fn take(&mut self, at: Time, answer: Result<Shares, String>, took: Duration) {
        self.took = took;
        match answer {
            Ok(shares) => (self.answer, self.trouble) = (Some((at, Arc::new(shares))), None),
            Err(trouble) => self.trouble = Some(trouble),
        }
    }
}

pub(super) async fn answer(settings: &UsageDatabase, now: Time) -> Result<Shares, String> {
    let within = settings.timing.query;
    let told = |fault: String| format!("usage of queues from {}: {fault}", settings.reached);
    let client = settings.reached.client();
    let client = client.map_err(|error| told(format!("{:#}", anyhow::Error::from(error))))?;
    match timeout(within, prometheus::shares(settings, &client, now)).await {
        Ok(answer) => answer.map_err(|trouble| told(trouble.to_string())),
        Err(_) => Err(told(format!("no answer within {within:?}"))),
    }
}
