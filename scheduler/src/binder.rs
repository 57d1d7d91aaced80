//! The binder: executes BindRequests, of this scheduler or of any other that uses KAI's API. A
//! request is retried with exponential backoff until it succeeds or its attempts are used up. The
//! result is written to its status, to a condition of the pod and to an event. All progress is in
//! the cluster, so that a restarted binder completes what its predecessor began.

mod attempt;
mod bind_request;
mod claims;
mod error;
mod reservations;
mod shared_gpu;
mod volumes;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use futures::StreamExt as _;
use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, Time};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{Instrument as _, debug, info, info_span, warn};

use crate::{
    api::{ApiClient, ApiError},
    apply::volumes::VOLUME_BIND_TIMEOUT,
    cache::bind_backoff,
    concurrency::WriteLimiter,
    config::{Clock, Config, RunUntil},
    logging::millis,
    progress::Progress,
    records::ObjectKey,
    watch::{Kind, WatchEvent, Watched as _, Watches},
};

use attempt::{Attempt, AttemptOutcome};
use bind_request::BindRequest;
use reservations::{Reservation, Reservations};
pub(crate) use shared_gpu::{GPU_SHARE_VARIABLES, SharingContainer, VISIBLE_DEVICES};

/// Watched kinds; pods only if the binder reserves shared GPUs.
const WATCHED_KINDS: &[Kind] = &[Kind::BindRequest, Kind::Pod];

/// Delay after the first watch event of a round, to collect bursts of requests. Longer than the
/// start-up delay of a scheduler, so that a restarted one can complete the requests of a gang of
/// which its predecessor wrote a part.
const BURST_DELAY: Duration = Duration::from_millis(20);

/// Delay after an API request of unknown outcome, and while an attempt waits for other controllers.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Executes requests until the future is dropped; with [`RunUntil::FirstCycle`] for one round.
///
/// # Errors
/// The API server cannot be reached or denies reading BindRequests.
pub(crate) async fn run(api: ApiClient, config: &Config, now: Clock) -> anyhow::Result<()> {
    let path = Kind::BindRequest.path();
    match api.get(&format!("{path}?limit=1")).await {
        // Without the CRD there are no requests.
        Ok(_) | Err(ApiError::NotFound(_)) => {}
        Err(error) => return Err(error).with_context(|| format!("cannot list {path}")),
    }
    let watched =
        if config.gpu_reservation.is_some() { WATCHED_KINDS } else { &WATCHED_KINDS[..1] };
    let mut binder = Binder {
        watches: Watches::start(&api.client, watched.iter().copied()),
        unlisted: watched.to_vec(),
        reservations: config.gpu_reservation.clone().map(Reservations::new),
        api,
        now,
        requests: BTreeMap::new(),
        retry_at: BTreeMap::new(),
        waiting_since: BTreeMap::new(),
        limiter: WriteLimiter::with_limit(config.writes_at_once),
        status: config.progress.clone(),
        counts_cycles: !config.runs_cycles(),
    };
    loop {
        binder.wait_for_round().await;
        binder.run_round().await;
        if config.run_until == RunUntil::FirstCycle {
            return Ok(());
        }
    }
}

struct Binder {
    api: ApiClient,
    now: Clock,
    watches: Watches,
    /// Kinds whose first list has not arrived yet.
    unlisted: Vec<Kind>,
    reservations: Option<Reservations>,
    /// Requests that neither succeeded nor used up their attempts.
    requests: BTreeMap<ObjectKey, BindRequest>,
    /// Time of the next attempt after a failure.
    retry_at: BTreeMap<ObjectKey, Instant>,
    /// Start of waiting for other controllers, such as the volume binder.
    waiting_since: BTreeMap<ObjectKey, Instant>,
    limiter: WriteLimiter,
    status: watch::Sender<Progress>,
    /// Rounds count as cycles, for liveness in a process that runs only the binder.
    counts_cycles: bool,
}

impl Binder {
    /// Receives watch events until a round is due: [`BURST_DELAY`] after the first event, or at the
    /// next retry.
    async fn wait_for_round(&mut self) {
        let mut round: Option<Instant> = None;
        loop {
            let next_retry = self.retry_at.values().min().copied();
            let patience =
                self.reservations.as_ref().and_then(|all| all.next_deadline(&self.retry_at));
            let due = round.into_iter().chain(next_retry).chain(patience).min();
            let is_due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(news) = self.watches.next() => {
                    self.on_event(news);
                    if self.unlisted.is_empty() {
                        round.get_or_insert(Instant::now() + BURST_DELAY);
                    }
                }
                () = is_due => return,
            }
        }
    }

    fn on_event(&mut self, news: WatchEvent) {
        let kind = news.kind();
        if matches!(news, WatchEvent::Listed(..)) {
            self.unlisted.retain(|unlisted| *unlisted != kind);
        }
        if kind == Kind::Pod {
            if let Some(reservations) = &mut self.reservations {
                reservations.on_event(news);
            }
            return;
        }
        match news {
            WatchEvent::Listed(_, objects) => {
                self.requests.clear();
                for object in &objects {
                    self.upsert_request(object);
                }
                let requests = &self.requests;
                self.retry_at.retain(|key, _| requests.contains_key(key));
                self.waiting_since.retain(|key, _| requests.contains_key(key));
            }
            WatchEvent::Changed(_, object) => {
                if let Some(object) = object.decode() {
                    self.upsert_request(&object);
                }
            }
            WatchEvent::Deleted(_, gone) => {
                let key = ObjectKey::from_raw(&gone);
                if self.requests.get(&key).is_some_and(|known| known.version <= gone.version) {
                    self.forget_request(&key);
                }
            }
        }
    }

    fn upsert_request(&mut self, object: &Value) {
        let (key, request) = (ObjectKey::from_object(object), BindRequest::read(object));
        let known = self.requests.get(&key);
        if known.is_some_and(|known| known.uid == request.uid && known.version >= request.version) {
            return;
        }
        if known.is_some_and(|known| known.uid != request.uid) {
            self.forget_request(&key);
        }
        if request.is_open() {
            self.requests.insert(key, request);
        } else {
            self.forget_request(&key);
        }
    }

    fn forget_request(&mut self, key: &ObjectKey) {
        self.requests.remove(key);
        self.retry_at.remove(key);
        self.waiting_since.remove(key);
    }

    /// Attempts all requests that are due.
    async fn run_round(&mut self) {
        if !self.unlisted.is_empty() {
            return;
        }
        let (started, at) = (Instant::now(), Time((self.now)().as_millisecond()));
        let due = &self.retry_at;
        let is_due = |key: &ObjectKey| due.get(key).is_none_or(|due| *due <= started);
        let requests: Vec<(ObjectKey, BindRequest)> = self
            .requests
            .iter()
            .filter(|(key, _)| is_due(key))
            .map(|(key, request)| (key.clone(), request.clone()))
            .collect();
        let mut made = Vec::new();
        let ready = self.reserve_devices(requests, &mut made).await;
        let attempts = ready.into_iter().map(|(key, request, devices)| {
            let api = self.api.clone();
            let since = self.waiting_since.get(&key);
            let is_patient = since.is_none_or(|since| since.elapsed() < VOLUME_BIND_TIMEOUT);
            let span = info_span!("bind", pod = %key, node = %request.node);
            async move {
                let sent = Instant::now();
                let attempt = attempt::run(&api, &key, &request, &devices, is_patient).await;
                log_attempt(&attempt, sent.elapsed());
                (key, request, attempt)
            }
            .instrument(span)
        });
        let attempts: Vec<_> = attempts.collect();
        let mut limiter = std::mem::replace(&mut self.limiter, WriteLimiter::with_limit(1));
        limiter
            .run_all(attempts, |(key, request, attempt)| match attempt {
                Ok(AttemptOutcome::Finished(attempt)) => {
                    self.waiting_since.remove(&key);
                    self.record_bound(&key, &request, &attempt);
                    made.push((key, request, attempt));
                }
                Ok(AttemptOutcome::Waiting) => self.retry_later(key),
                Err(error) => self.record_result(&key, Err(error)),
            })
            .await;
        // Results are written after all bindings, so that a gang is not partly bound for longer
        // than necessary.
        let conclusions = made.into_iter().map(|(key, request, attempt)| {
            let api = self.api.clone();
            async move {
                let result = attempt::write_result(&api, &key, &request, &attempt, at).await;
                (key, result)
            }
        });
        let conclusions: Vec<_> = conclusions.collect();
        limiter.run_all(conclusions, |(key, ended)| self.record_result(&key, ended)).await;
        self.limiter = limiter;
        self.delete_idle_reservations().await;
        if self.counts_cycles {
            self.status.send_modify(|status| status.cycles += 1);
        }
    }

    /// Schedules another attempt for the request after [`RETRY_DELAY`].
    fn retry_later(&mut self, key: ObjectKey) {
        let now = Instant::now();
        self.retry_at.insert(key.clone(), now + RETRY_DELAY);
        self.waiting_since.entry(key).or_insert(now);
    }

    fn record_bound(&mut self, key: &ObjectKey, request: &BindRequest, attempt: &Attempt) {
        if let (Some(reservations), Some(pod), Ok(())) =
            (&mut self.reservations, &attempt.pod, &attempt.result)
            && !request.gpu_groups.is_empty()
        {
            reservations.record_bound(key, request, pod);
        }
    }

    /// Returns the requests whose devices are known or not needed, and starts reservations for the
    /// others. Requests that can get no device are added to `made` as failed attempts.
    async fn reserve_devices(
        &mut self,
        requests: Vec<(ObjectKey, BindRequest)>,
        made: &mut Vec<(ObjectKey, BindRequest, Attempt)>,
    ) -> Vec<(ObjectKey, BindRequest, Vec<Name>)> {
        if let Some(reservations) = &mut self.reservations {
            reservations.forget_ended_requests(&self.requests);
        }
        let mut ready = Vec::new();
        for (key, request) in requests {
            let reserved = match &mut self.reservations {
                None => Reservation::Ready(Vec::new()),
                Some(reservations) => reservations.reserve_devices(&self.api, &key, &request).await,
            };
            match reserved {
                Reservation::Ready(devices) => ready.push((key, request, devices)),
                // Watch events of the reservation pods trigger the next attempt.
                Reservation::Pending => drop(self.retry_at.remove(&key)),
                Reservation::Unconfirmed(error) => self.record_result(&key, Err(error)),
                Reservation::Failed(attempt) => made.push((key, request, attempt)),
            }
        }
        ready
    }

    /// Deletes reservation pods whose device no pod shares.
    async fn delete_idle_reservations(&mut self) {
        let Some(reservations) = &mut self.reservations else { return };
        for (key, error) in reservations.delete_idle_pods(&self.api, &self.requests).await {
            let message = format!("cannot delete GPU reservation pod {key}: {error}");
            self.status.send_modify(|status| status.last_failure = Some(message));
        }
    }

    fn record_result(&mut self, key: &ObjectKey, ended: Result<Value, ApiError>) {
        let now = Instant::now();
        match ended {
            Ok(object) => {
                self.retry_at.remove(key);
                self.upsert_request(&object);
                if let Some(request) = self.requests.get(key) {
                    let failures = u32::try_from(request.failed_attempts).unwrap_or(0);
                    let backoff = bind_backoff(failures);
                    self.retry_at.insert(key.clone(), now + backoff);
                }
            }
            // It was deleted with its pod.
            Err(ApiError::NotFound(_)) => self.forget_request(key),
            Err(error) => {
                self.retry_at.insert(key.clone(), now + RETRY_DELAY);
                let message = format!("BindRequest {key}: {error}");
                self.status.send_modify(|status| status.last_failure = Some(message));
            }
        }
    }
}

/// Logs an attempt, within its span.
fn log_attempt(attempt: &Result<AttemptOutcome, ApiError>, duration: Duration) {
    let duration_ms = millis(duration);
    match attempt {
        Ok(AttemptOutcome::Waiting) => debug!(duration_ms, "waiting for another controller"),
        Ok(AttemptOutcome::Finished(Attempt { result: Ok(()), .. })) => {
            info!(duration_ms, "pod bound");
        }
        Ok(AttemptOutcome::Finished(Attempt { result: Err(error), .. })) => {
            warn!(error, duration_ms, "pod not bound");
        }
        Err(error) => warn!(%error, duration_ms, "pod not bound"),
    }
}
