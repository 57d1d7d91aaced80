//! The binder: carries out BindRequests, ours and those of any other scheduler that speaks KAI's
//! API. A request is tried until it is done or its attempts are used up, each time twice as long
//! after the last one; how it ended stands in its status, in a condition of the pod and in an
//! event. Whatever was begun by a binder that died is found as it stands and finished.

mod attempt;
mod claims;
mod order;
mod refusal;
mod reservations;
mod shared_gpu;
mod volumes;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use futures::StreamExt as _;
use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, Time};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    api::{Api, ApiError},
    config::{Clock, Config, Ends},
    mirror::Key,
    pacing::Pacing,
    status::Status,
    watch::{Kind, News, Watches},
};

use attempt::{Attempt, Made};
use order::Order;
use reservations::{Reservations, Reserved};
pub(crate) use shared_gpu::{Container, DEVICES, SHARE_VARIABLES};

/// What it has to know; pods only where it reserves what they share.
const WATCHED: &[Kind] = &[Kind::BindRequest, Kind::Pod];

/// Requests that come in a burst are waited for this long: longer than a scheduler that starts
/// beside us waits, so that it can finish asking for a gang of which its predecessor asked for half.
const BURST: Duration = Duration::from_millis(20);

/// After an answer was lost, and while others have to do something first.
const RETRY: Duration = Duration::from_secs(1);

/// Longest wait between two attempts.
const BACKOFF_MAX: Duration = Duration::from_mins(5);

/// Volumes that are not bound by then are waited for no longer, as with KAI.
const PATIENCE: Duration = Duration::from_mins(2);

/// Carries out requests until it is dropped, or after the first round if that was asked for.
///
/// # Errors
/// The API server cannot be reached or does not let requests be read.
pub(crate) async fn run(api: Api, config: &Config, now: Clock) -> anyhow::Result<()> {
    let path = Kind::BindRequest.path();
    match api.get(&format!("{path}?limit=1")).await {
        // Until they are defined nobody can write one.
        Ok(_) | Err(ApiError::NotFound(_)) => {}
        Err(error) => return Err(error).with_context(|| format!("cannot list {path}")),
    }
    let watched = if config.gpu_reservation.is_some() { WATCHED } else { &WATCHED[..1] };
    let mut binder = Binder {
        watches: Watches::start(&api.client, watched.iter().copied()),
        unlisted: watched.to_vec(),
        reservations: config.gpu_reservation.clone().map(Reservations::new),
        api,
        now,
        orders: BTreeMap::new(),
        due: BTreeMap::new(),
        waiting: BTreeMap::new(),
        pacing: Pacing::up_to(config.writes_at_once),
        status: config.status.clone(),
        counts_cycles: !config.runs_cycles(),
    };
    loop {
        binder.hear().await;
        binder.work().await;
        if config.ends == Ends::AfterOneCycle {
            return Ok(());
        }
    }
}

struct Binder {
    api: Api,
    now: Clock,
    watches: Watches,
    /// Kinds of which nothing is known yet.
    unlisted: Vec<Kind>,
    reservations: Option<Reservations>,
    /// Requests that are neither done nor given up.
    orders: BTreeMap<Key, Order>,
    /// When to try again, after a failure.
    due: BTreeMap<Key, Instant>,
    /// Since when others have to do something first.
    waiting: BTreeMap<Key, Instant>,
    pacing: Pacing,
    status: watch::Sender<Status>,
    /// Nobody else tells that this process is alive.
    counts_cycles: bool,
}

impl Binder {
    /// Hears news until a round is due: some time after the first of them, or when something is
    /// to be tried again.
    async fn hear(&mut self) {
        let mut round: Option<Instant> = None;
        loop {
            let again = self.due.values().min().copied();
            let patience = self.reservations.as_ref().and_then(|all| all.deadline(&self.due));
            let due = round.into_iter().chain(again).chain(patience).min();
            let is_due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(news) = self.watches.next() => {
                    self.take(news);
                    if self.unlisted.is_empty() {
                        round.get_or_insert(Instant::now() + BURST);
                    }
                }
                () = is_due => return,
            }
        }
    }

    fn take(&mut self, news: News) {
        let kind = news.kind();
        if matches!(news, News::All(..)) {
            self.unlisted.retain(|unlisted| *unlisted != kind);
        }
        if kind == Kind::Pod {
            if let Some(reservations) = &mut self.reservations {
                reservations.take(news);
            }
            return;
        }
        match news {
            News::All(_, objects) => {
                self.orders.clear();
                for object in &objects {
                    self.upsert(object);
                }
                let orders = &self.orders;
                self.due.retain(|key, _| orders.contains_key(key));
                self.waiting.retain(|key, _| orders.contains_key(key));
            }
            News::Changed(_, object) => {
                if let Some(object) = object.object() {
                    self.upsert(&object);
                }
            }
            News::Gone(_, gone) => {
                let key = Key::of_unread(&gone);
                if self.orders.get(&key).is_some_and(|known| known.version <= gone.version) {
                    self.forget(&key);
                }
            }
        }
    }

    fn upsert(&mut self, object: &Value) {
        let (key, order) = (Key::of(object), Order::read(object));
        let known = self.orders.get(&key);
        if known.is_some_and(|known| known.uid == order.uid && known.version >= order.version) {
            return;
        }
        if known.is_some_and(|known| known.uid != order.uid) {
            self.forget(&key);
        }
        if order.is_open() {
            self.orders.insert(key, order);
        } else {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.orders.remove(key);
        self.due.remove(key);
        self.waiting.remove(key);
    }

    /// Tries everything that is due.
    async fn work(&mut self) {
        if !self.unlisted.is_empty() {
            return;
        }
        let (started, at) = (Instant::now(), Time((self.now)().as_millisecond()));
        let due = &self.due;
        let is_due = |key: &Key| due.get(key).is_none_or(|due| *due <= started);
        let orders: Vec<(Key, Order)> = self
            .orders
            .iter()
            .filter(|(key, _)| is_due(key))
            .map(|(key, order)| (key.clone(), order.clone()))
            .collect();
        let mut made = Vec::new();
        let ready = self.reserve(orders, &mut made).await;
        let attempts = ready.into_iter().map(|(key, order, devices)| {
            let api = self.api.clone();
            let since = self.waiting.get(&key);
            let is_patient = since.is_none_or(|since| since.elapsed() < PATIENCE);
            async move {
                let attempt = attempt::make(&api, (&key, &order), &devices, is_patient).await;
                (key, order, attempt)
            }
        });
        let attempts: Vec<_> = attempts.collect();
        let mut pacing = std::mem::replace(&mut self.pacing, Pacing::up_to(1));
        pacing
            .all(attempts, |(key, order, attempt)| match attempt {
                Ok(Made::Ended(attempt)) => {
                    self.waiting.remove(&key);
                    self.note_bound(&key, &order, &attempt);
                    made.push((key, order, attempt));
                }
                Ok(Made::Waits) => self.wait(key),
                Err(error) => self.note(&key, Err(error)),
            })
            .await;
        // So that no gang stands half bound for longer than its bindings take.
        let conclusions = made.into_iter().map(|(key, order, attempt)| {
            let api = self.api.clone();
            async move {
                let ended = attempt::conclude(&api, (&key, &order), &attempt, at).await;
                (key, ended)
            }
        });
        let conclusions: Vec<_> = conclusions.collect();
        pacing.all(conclusions, |(key, ended)| self.note(&key, ended)).await;
        self.pacing = pacing;
        self.end_idle().await;
        if self.counts_cycles {
            self.status.send_modify(|status| status.cycles += 1);
        }
    }

    /// Looks again in a while.
    fn wait(&mut self, key: Key) {
        let now = Instant::now();
        self.due.insert(key.clone(), now + RETRY);
        self.waiting.entry(key).or_insert(now);
    }

    fn note_bound(&mut self, key: &Key, order: &Order, attempt: &Attempt) {
        if let (Some(reservations), Some(pod), Ok(())) =
            (&mut self.reservations, &attempt.pod, &attempt.ended)
            && !order.gpu_groups.is_empty()
        {
            reservations.note_bound(key, order, pod);
        }
    }

    /// Picks the requests that need no device or have theirs, and reserves devices for others;
    /// `made`: those that can get none.
    async fn reserve(
        &mut self,
        orders: Vec<(Key, Order)>,
        made: &mut Vec<(Key, Order, Attempt)>,
    ) -> Vec<(Key, Order, Vec<Name>)> {
        if let Some(reservations) = &mut self.reservations {
            reservations.retain(&self.orders);
        }
        let mut ready = Vec::new();
        for (key, order) in orders {
            let reserved = match &mut self.reservations {
                None => Reserved::Ready(Vec::new()),
                Some(reservations) => reservations.reserve(&self.api, (&key, &order)).await,
            };
            match reserved {
                Reserved::Ready(devices) => ready.push((key, order, devices)),
                // News of its devices come.
                Reserved::Later => drop(self.due.remove(&key)),
                Reserved::Unknown(error) => self.note(&key, Err(error)),
                Reserved::Never(attempt) => made.push((key, order, attempt)),
            }
        }
        ready
    }

    /// Ends reservation pods that keep a device for nobody.
    async fn end_idle(&mut self) {
        let Some(reservations) = &mut self.reservations else { return };
        for (key, error) in reservations.end_idle(&self.api, &self.orders).await {
            let told = format!("GPU reservation pod {key} cannot be deleted: {error}");
            self.status.send_modify(|status| status.last_failure = Some(told));
        }
    }

    fn note(&mut self, key: &Key, ended: Result<Value, ApiError>) {
        let now = Instant::now();
        match ended {
            Ok(object) => {
                self.due.remove(key);
                self.upsert(&object);
                if let Some(order) = self.orders.get(key) {
                    self.due.insert(key.clone(), now + backoff(order.attempts));
                }
            }
            // It went with its pod.
            Err(ApiError::NotFound(_)) => self.forget(key),
            Err(error) => {
                self.due.insert(key.clone(), now + RETRY);
                let told = format!("BindRequest {key}: {error}");
                self.status.send_modify(|status| status.last_failure = Some(told));
            }
        }
    }
}

/// 1 s after the first failure, 2 s after the second, and so on.
fn backoff(attempts: i32) -> Duration {
    let doubled = u32::try_from(attempts).unwrap_or(0).saturating_sub(1).min(16);
    Duration::from_secs(1 << doubled).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_waits_twice_as_long_as_the_one_before_and_none_for_ever() {
        let secs = [1, 2, 3, 4, 9, 10, 1000, i32::MAX, -1].map(|at| backoff(at).as_secs());
        assert_eq!(secs, [1, 2, 4, 8, 256, 300, 300, 300, 1]);
    }
}
