//! Source of historical usage for decisions: a configured database while its last response is
//! current, or else the scheduler's own history, if it keeps one.

use std::{collections::BTreeMap, time::Duration};

use schedlab_scheduler_core::{
    model::{Name, Queue, Time},
    resources::PerResource,
};

use super::{
    SharedUsage, UsageHistory,
    external::{UsageDatabase, UsagePoller},
    store::{UnreadableHistory, UsageStore},
};
use crate::api::{ApiClient, ApiError};

/// The configured sources of historical usage; possibly none.
#[derive(Debug)]
pub(crate) struct UsageSource {
    history: Option<SharedUsage>,
    /// The `ConfigMap` that stores the own history.
    store: UsageStore,
    database: Option<UsagePoller>,
}

impl UsageSource {
    /// Starts polling the database, if there is one. Each shard (by node pool) has its own history.
    pub(crate) fn new(
        api: &ApiClient,
        own: Option<UsageHistory>,
        database: Option<UsageDatabase>,
        pool: Option<&str>,
        now: impl Fn() -> jiff::Timestamp + Send + Sync + 'static,
    ) -> Self {
        let database = database.map(|settings| UsagePoller::start(settings, now));
        Self { history: own.map(SharedUsage::new), store: UsageStore::new(api, pool), database }
    }

    /// The scheduler's own history, if there is no database.
    pub(crate) fn history_if_only_source(&self) -> Option<SharedUsage> {
        self.history.clone().filter(|_| self.database.is_none())
    }

    /// Whether historical usage is configured, so that fair shares change with time alone.
    pub(crate) fn is_configured(&self) -> bool {
        self.history.is_some() || self.database.is_some()
    }

    /// Loads the stored history, and waits for the database's first response.
    pub(crate) async fn load(
        &mut self,
        api: &ApiClient,
    ) -> Result<Option<UnreadableHistory>, ApiError> {
        if let Some(database) = &mut self.database {
            database.wait_for_first().await;
        }
        match &self.history {
            Some(own) => self.store.load(api, own).await,
            None => Ok(None),
        }
    }

    /// Like [`Self::load`], for a process that does not record the history: searches all
    /// namespaces. Returns a message about missing data.
    pub(crate) async fn load_read_only(
        &mut self,
        api: &ApiClient,
    ) -> Result<Option<String>, ApiError> {
        if self.history.is_none() {
            return self.load(api).await.map(|_| None);
        }
        self.store.find_namespace(api).await;
        let unreadable = self.load(api).await?;
        Ok(unreadable.map(|it| it.to_string()).or_else(|| self.store.missing_message()))
    }

    /// Waits for the next response or failure of the database; forever without one.
    pub(crate) async fn wait_for_database(&mut self) {
        match &mut self.database {
            Some(database) => database.wait_for_change().await,
            None => std::future::pending().await,
        }
    }

    /// Sets the historical usage of queues.
    pub(crate) fn apply_to(&self, queues: &mut [Queue], now: Time) {
        if !self.is_configured() {
            return;
        }
        let shares = self.database.as_ref().and_then(|database| database.current_shares(now));
        for queue in queues {
            let from_history = |own: &SharedUsage| own.lock().usage_micro(&queue.name, now);
            let used = match &shares {
                Some(shares) => shares.get(&queue.name).copied(),
                None => self.history.as_ref().map(from_history),
            };
            queue.historical_usage_micro = used.unwrap_or_default();
        }
    }

    /// Problem of the database's last response, if any, and the latency of its query. `None`: there
    /// is no database.
    pub(crate) fn last_database_problem<T>(
        &self,
        queues: &BTreeMap<Name, T>,
        now: Time,
    ) -> Option<(Option<String>, Duration)> {
        let database = self.database.as_ref()?;
        let (problem, took) = database.last_problem();
        let fallback =
            if self.history.is_some() { "the scheduler's own history" } else { "no past usage" };
        let with_fallback = |fault| {
            let staleness = database.staleness();
            format!("{fault}; the last good response is used for {staleness:?}, then {fallback}")
        };
        let no_known_queue = || {
            let shares = database.current_shares(now)?;
            let known = queues.is_empty() || shares.keys().any(|name| queues.contains_key(name));
            let (first, _) = shares.first_key_value().filter(|_| !known)?;
            let (count, name) = (shares.len(), database.description());
            Some(format!(
                "{name}: none of its queues ({count}, first {first}) exists here: all count as unused"
            ))
        };
        Some((problem.map(with_fallback).or_else(no_known_queue), took))
    }

    /// Whether the own history has changes that are not written yet.
    pub(crate) fn has_unwritten_history(&self) -> bool {
        self.history.as_ref().is_some_and(|own| self.store.has_unwritten(own.lock().changes))
    }

    /// Writes pending changes of the own history when the scheduler stops.
    pub(crate) async fn flush(&mut self, api: &ApiClient, now: Time) -> Result<(), ApiError> {
        match &self.history {
            Some(own) if own.lock().changes > 0 => self.store.flush(api, own, now).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Records the current usage in the own history, and writes it if due.
    pub(crate) async fn record_usage(
        &mut self,
        api: &ApiClient,
        now: Time,
        capacity: PerResource<i64>,
        uses: impl Iterator<Item = (Name, PerResource<i64>)>,
    ) -> Result<(), ApiError> {
        let Some(own) = &self.history else { return Ok(()) };
        own.lock().record(now, capacity, &uses.collect());
        self.store.write_if_due(api, own, now).await
    }
}
