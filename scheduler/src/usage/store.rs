//! Persists the usage history in a `ConfigMap` next to the scheduler's Lease: read once at the
//! start, written after changes, at most once a minute, and at the end. After downtime the last
//! recorded usage is assumed to have continued, as running pods did.

use std::{collections::BTreeMap, fmt};

use schedlab_api::{Value, json};
use schedlab_scheduler_core::{
    model::{Name, Time},
    resources::PerResource,
};
use serde::{Deserialize, Serialize};

use super::{SharedUsage, UsageHistory, UsageSeries};
use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    parse::{list, text},
};

/// Minimum time between two writes of the history.
const WRITE_INTERVAL_MILLIS: i64 = 60_000;
/// Maximum number of points per queue: one per 2.6 hours of a window of a week, or per 22 minutes
/// of a window of a day.
const QUEUE_POINTS_MAX: i64 = 64;
/// Maximum number of points in total: a `ConfigMap` holds 1 MiB, and a point takes about 50 bytes.
const TOTAL_POINTS_MAX: i64 = 16_000;
/// Maximum number of points per shard, as shards share one `ConfigMap`.
const SHARD_POINTS_MAX: i64 = 4_000;

/// The `ConfigMap` that stores the usage history, and the state of its content.
#[derive(Debug)]
pub(crate) struct UsageStore {
    namespace: String,
    name: String,
    /// Key of the history in `data`; each shard has its own key.
    key: String,
    points_max: i64,
    /// Time of the last write, and number of changes that it contained.
    last_write: Option<(Time, u64)>,
    /// Whether the `ConfigMap` exists, possibly created by another shard.
    object_exists: bool,
    /// Whether the `ConfigMap` had a history under the key.
    history_found: bool,
}

/// Start time and amounts of GPU, CPU and memory in the core's units.
type StoredPoints = Vec<(i64, [i64; 3])>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredHistory {
    capacity: StoredPoints,
    queues: BTreeMap<String, StoredPoints>,
}

/// A stored history that cannot be parsed.
#[derive(Debug)]
pub(crate) struct UnreadableHistory {
    object: String,
    key: String,
    found: String,
}

impl fmt::Display for UnreadableHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, key, found } = self;
        write!(
            f,
            "ConfigMap {object}: data.{key}: got {found}, expected a history that the \
             scheduler wrote; the usage history starts empty"
        )
    }
}

impl UsageStore {
    pub(crate) fn new(api: &ApiClient, pool: Option<&str>) -> Self {
        let namespace = api.client.default_namespace().to_owned();
        let name = format!("{}-usage", api.name);
        let (key, points_max) = match pool {
            None => ("history.json".to_owned(), TOTAL_POINTS_MAX),
            // Label values are valid in keys of a ConfigMap.
            Some(pool) => (format!("history.pool-{pool}.json"), SHARD_POINTS_MAX),
        };
        let (object_exists, history_found) = (false, false);
        Self { namespace, name, key, points_max, last_write: None, object_exists, history_found }
    }

    fn config_map_path(&self, name: &str) -> String {
        object_path("v1", &self.namespace, "configmaps", name)
    }

    /// Sets the namespace to the one in which the scheduler's `ConfigMap` is found. If the search
    /// is denied or finds none, the default namespace remains.
    pub(crate) async fn find_namespace(&mut self, api: &ApiClient) {
        let all = format!("/api/v1/configmaps?fieldSelector=metadata.name%3D{}", self.name);
        let Ok(found) = api.get(&all).await else { return };
        let namespaces = list(&found, "/items").iter().map(|one| text(one, "/metadata/namespace"));
        let namespaces: Vec<&str> = namespaces.flatten().collect();
        if let Some(first) = namespaces.first()
            && !namespaces.contains(&self.namespace.as_str())
        {
            (*first).clone_into(&mut self.namespace);
        }
    }

    /// Message about a missing history; `None`: the history was found.
    pub(crate) fn missing_message(&self) -> Option<String> {
        let Self { name, key, .. } = self;
        let none = "all queues count as unused";
        match (self.object_exists, self.history_found) {
            (_, true) => None,
            (true, false) => Some(format!("ConfigMap {name} has no usage history {key}: {none}")),
            (false, false) => {
                Some(format!("ConfigMap {name}, the usage history, exists in no namespace: {none}"))
            }
        }
    }

    /// Loads the history that a previous scheduler stored.
    pub(crate) async fn load(
        &mut self,
        api: &ApiClient,
        usage: &SharedUsage,
    ) -> Result<Option<UnreadableHistory>, ApiError> {
        let object = match api.get(&self.config_map_path(&self.name)).await {
            Ok(object) => object,
            Err(ApiError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.object_exists = true;
        let found = object.get("data").and_then(|data| data.get(&self.key));
        let Some(found) = found.and_then(Value::as_str) else { return Ok(None) };
        self.history_found = true;
        match serde_json::from_str(found) {
            Ok(written) => {
                usage.lock().restore(&written);
                Ok(None)
            }
            Err(error) => {
                let name = text(&object, "/metadata/name").unwrap_or_default();
                let object = format!("{}/{name}", self.namespace);
                let (key, found) = (self.key.clone(), error.to_string());
                Ok(Some(UnreadableHistory { object, key, found }))
            }
        }
    }

    /// Whether there are changes that are not written yet; `changes` is the number of changes so
    /// far.
    pub(super) fn has_unwritten(&self, changes: u64) -> bool {
        self.last_write.is_none_or(|(_, written)| written != changes)
    }

    /// Writes the history if it changed and the last write is old enough.
    pub(crate) async fn write_if_due(
        &mut self,
        api: &ApiClient,
        usage: &SharedUsage,
        now: Time,
    ) -> Result<(), ApiError> {
        let is_early = |(at, _): (Time, u64)| now.0.saturating_sub(at.0) < WRITE_INTERVAL_MILLIS;
        if self.last_write.is_some_and(is_early) || !self.has_unwritten(usage.lock().changes) {
            return Ok(());
        }
        self.write_now(api, usage, now).await
    }

    /// Writes pending changes immediately. Tries twice, as no later cycle can retry if another
    /// shard just created the `ConfigMap`, or if it was deleted.
    pub(super) async fn flush(
        &mut self,
        api: &ApiClient,
        usage: &SharedUsage,
        now: Time,
    ) -> Result<(), ApiError> {
        for _ in 0..2 {
            if self.has_unwritten(usage.lock().changes) {
                self.write_now(api, usage, now).await?;
            }
        }
        Ok(())
    }

    async fn write_now(
        &mut self,
        api: &ApiClient,
        usage: &SharedUsage,
        now: Time,
    ) -> Result<(), ApiError> {
        let (history, changes) = {
            let usage = usage.lock();
            (json!(usage.downsampled(now, self.points_max)).to_string(), usage.changes)
        };
        let key = self.key.as_str();
        let data = json!({ "data": { key: history } });
        let result: Result<serde::de::IgnoredAny, ApiError> = if self.object_exists {
            api.patch(&self.config_map_path(&self.name), PatchKind::Merge, &data).await
        } else {
            let mut object = data;
            object["apiVersion"] = json!("v1");
            object["kind"] = json!("ConfigMap");
            object["metadata"] = json!({ "name": self.name, "namespace": self.namespace });
            api.create(&self.config_map_path(""), &object).await
        };
        match result {
            Ok(_) => self.object_exists = true,
            // Another shard created it first; the next write patches it.
            Err(ApiError::Conflict(_)) => {
                self.object_exists = true;
                return Ok(());
            }
            // It was deleted; the next write creates it.
            Err(ApiError::NotFound(_)) => {
                self.object_exists = false;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.last_write = Some((now, changes));
        Ok(())
    }
}

impl UsageHistory {
    fn downsampled(&self, now: Time, points_max: i64) -> StoredHistory {
        let histories = i64::try_from(self.queues.len()).unwrap_or(i64::MAX).saturating_add(1);
        let points = (points_max / histories).clamp(2, QUEUE_POINTS_MAX);
        let since = self.window_start(now);
        let of = |history: &UsageSeries| history.downsampled(since, now, points);
        let queues = self.queues.iter().map(|(name, history)| (name.to_string(), of(history)));
        StoredHistory { capacity: of(&self.capacity), queues: queues.collect() }
    }

    fn restore(&mut self, written: &StoredHistory) {
        let take = |history: &mut UsageSeries, points: &StoredPoints| {
            let mut points = points.clone();
            points.sort_unstable_by_key(|(at, _)| *at);
            for (at, [gpu, cpu, memory]) in points {
                history.record(Time(at), PerResource { gpu, cpu, memory });
            }
        };
        take(&mut self.capacity, &written.capacity);
        for (name, points) in &written.queues {
            take(self.queues.entry(Name::from(name.as_str())).or_default(), points);
        }
    }
}

impl UsageSeries {
    /// The series reduced to at most `points_max` points: its own points if they are few, else
    /// means over equal intervals and the current amount.
    fn downsampled(&self, since: Time, now: Time, points_max: i64) -> StoredPoints {
        let point = |at: Time, of: PerResource<i64>| (at.0, [of.gpu, of.cpu, of.memory]);
        if i64::try_from(self.points.len()).unwrap_or(i64::MAX) <= points_max {
            return self.points.iter().map(|is| point(is.at, is.amount)).collect();
        }
        let begin = self.points.front().map_or(since, |first| first.at.max(since));
        let step = (now.0.saturating_sub(begin.0) / points_max).max(1);
        let mean = |number: i64| {
            let from = Time(begin.0 + number * step);
            let until = if number + 1 == points_max { now } else { Time(from.0 + step) };
            let millis = i128::from((until.0 - from.0).max(1));
            let sum = self.integral(from, until);
            let of = |sum: i128| i64::try_from((sum + millis / 2) / millis).unwrap_or(i64::MAX);
            point(from, PerResource { gpu: of(sum.gpu), cpu: of(sum.cpu), memory: of(sum.memory) })
        };
        let means = (0..points_max).map(mean);
        // The current amount, from now on.
        means.chain(self.points.back().map(|last| point(now, last.amount))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn gpus(gpu: i64) -> PerResource<i64> {
        PerResource { gpu, cpu: 0, memory: 0 }
    }

    fn usage() -> UsageHistory {
        UsageHistory::new(Duration::from_hours(24), None)
    }

    #[test]
    fn a_restored_history_continues_where_it_stopped() {
        let mut before = usage();
        let used = |gpu| BTreeMap::from([(Name::from("a"), gpus(gpu))]);
        before.record(Time(0), gpus(8000), &used(8000));
        before.record(Time(HOUR), gpus(8000), &used(2000));
        let stored = json!(before.downsampled(Time(2 * HOUR), TOTAL_POINTS_MAX)).to_string();
        let mut after = usage();
        after.restore(&serde_json::from_str(&stored).unwrap());
        // One hour passes without a record.
        let at = |usage: &UsageHistory| usage.usage_micro(&"a".into(), Time(3 * HOUR)).gpu;
        assert_eq!((at(&before), at(&after)), (500_000, 500_000));
    }

    #[test]
    fn a_long_history_is_downsampled_without_changing_the_usage() {
        let mut before = usage();
        for minute in 0..1440 {
            let used = BTreeMap::from([(Name::from("a"), gpus(minute % 7 * 1000))]);
            before.record(Time(minute * 60_000), gpus(8000), &used);
        }
        let now = Time(1440 * 60_000);
        let stored = before.downsampled(now, TOTAL_POINTS_MAX);
        assert_eq!((stored.queues["a"].len(), stored.capacity.len()), (65, 1));
        let mut after = usage();
        after.restore(&stored);
        let [before, after] = [before, after].map(|usage| usage.usage_micro(&"a".into(), now).gpu);
        assert!((before - after).abs() <= 10, "{before} {after}");
    }
}
