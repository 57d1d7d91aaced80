//! What decisions know of the past: what a database says, where one is configured and its answer is
//! fresh, else the scheduler's own history, where that is kept.

use std::{collections::BTreeMap, time::Duration};

use schedlab_scheduler_core::{
    model::{Name, Queue, Time},
    resources::PerResource,
};

use super::{
    SharedUsage, Usage,
    database::{Database, UsageDatabase},
    kept::{Kept, Unreadable},
};
use crate::api::{Api, ApiError};

/// Where past usage is known from; from nowhere, unless something is configured.
#[derive(Debug)]
pub(crate) struct Past {
    own: Option<SharedUsage>,
    /// Where the own history outlives the scheduler.
    kept: Kept,
    database: Option<Database>,
}

impl Past {
    /// Begins to ask the database, if there is one. Each shard, by its node pool, keeps its own.
    pub(crate) fn new(
        api: &Api,
        (own, database): (Option<Usage>, Option<UsageDatabase>),
        pool: Option<&str>,
        now: impl Fn() -> jiff::Timestamp + Send + Sync + 'static,
    ) -> Self {
        let database = database.map(|settings| Database::ask(settings, now));
        Self { own: own.map(SharedUsage::new), kept: Kept::new(api, pool), database }
    }

    /// The own history, where nothing else counts.
    pub(crate) fn own_alone(&self) -> Option<SharedUsage> {
        self.own.clone().filter(|_| self.database.is_none())
    }

    /// Is past usage known from somewhere? Then it moves by time alone.
    pub(crate) fn moves(&self) -> bool {
        self.own.is_some() || self.database.is_some()
    }

    /// Takes up what an earlier scheduler noted, and waits for the database's first answer.
    pub(crate) async fn remember(&mut self, api: &Api) -> Result<Option<Unreadable>, ApiError> {
        if let Some(database) = &mut self.database {
            database.first().await;
        }
        match &self.own {
            Some(own) => self.kept.read(api, own).await,
            None => Ok(None),
        }
    }

    /// The same for whoever is not the scheduler that noted it. Answers what of it is not known.
    pub(crate) async fn look_up(&mut self, api: &Api) -> Result<Option<String>, ApiError> {
        if self.own.is_none() {
            return self.remember(api).await.map(|_| None);
        }
        self.kept.seek(api).await;
        let unreadable = self.remember(api).await?;
        Ok(unreadable.map(|it| it.to_string()).or_else(|| self.kept.missing()))
    }

    /// Waits for an answer of the database, or for word that there is none.
    pub(crate) async fn heard(&mut self) {
        match &mut self.database {
            Some(database) => database.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Tells the queues what they used.
    pub(crate) fn tell(&self, queues: &mut [Queue], now: Time) {
        if !self.moves() {
            return;
        }
        let shares = self.database.as_ref().and_then(|database| database.shares(now));
        for queue in queues {
            let of_own = |own: &SharedUsage| own.lock().micro(&queue.name, now);
            let used = match &shares {
                Some(shares) => shares.get(&queue.name).copied(),
                None => self.own.as_ref().map(of_own),
            };
            queue.historical_usage_micro = used.unwrap_or_default();
        }
    }

    /// Why the database's last answer is of no use, if it is not, and how long it took.
    pub(crate) fn trouble<T>(
        &self,
        queues: &BTreeMap<Name, T>,
        now: Time,
    ) -> Option<(Option<String>, Duration)> {
        let database = self.database.as_ref()?;
        let (trouble, took) = database.last();
        let otherwise = if self.own.is_some() { "the own history" } else { "no past usage" };
        let told = |fault| {
            let staleness = database.staleness();
            format!("{fault}; the last good answer counts for {staleness:?}, then {otherwise}")
        };
        let stranger = || {
            let shares = database.shares(now)?;
            let known = queues.is_empty() || shares.keys().any(|name| queues.contains_key(name));
            let (first, _) = shares.first_key_value().filter(|_| !known)?;
            let (count, name) = (shares.len(), database.name());
            Some(format!(
                "{name}: found {count} queues, as {first}, and none that is here: all count as unused"
            ))
        };
        Some((trouble.map(told).or_else(stranger), took))
    }

    /// Something of the own history is still to be written, when it is time.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.own.as_ref().is_some_and(|own| self.kept.lacks(own.lock().changes))
    }

    /// Writes at the end what is not written yet. Before the first cycle nothing is new.
    pub(crate) async fn keep(&mut self, api: &Api, now: Time) -> Result<(), ApiError> {
        match &self.own {
            Some(own) if own.lock().changes > 0 => self.kept.write_last(api, own, now).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Notes what queues use from now on, and keeps it.
    pub(crate) async fn record(
        &mut self,
        api: &Api,
        now: Time,
        capacity: PerResource<i64>,
        uses: impl Iterator<Item = (Name, PerResource<i64>)>,
    ) -> Result<(), ApiError> {
        let Some(own) = &self.own else { return Ok(()) };
        own.lock().record(now, capacity, &uses.collect());
        self.kept.write(api, own, now).await
    }
}
