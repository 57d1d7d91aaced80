//! The history in a `ConfigMap`, beside the scheduler's Lease: read once at the start, written when
//! what queues use has changed, at most once a minute, and at the end. A scheduler that was away
//! takes it that queues went on using what they used last, as their pods did.

use std::{collections::BTreeMap, fmt};

use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    model::{Name, Time},
    resources::PerResource,
};
use serde::{Deserialize, Serialize};

use super::{History, SharedUsage, Usage};
use crate::{
    api::{Api, ApiError, Merge, path},
    parse::{list, text},
};

/// The time between two writes.
const PERIOD_MILLIS: i64 = 60_000;
/// Points that a queue's history is kept in: an hour of a week's window, 22 minutes of a day's.
const POINTS_MAX: i64 = 64;
/// A `ConfigMap` holds a megabyte; a point takes some fifty bytes.
const POINTS_IN_ALL: i64 = 16_000;
/// Of each shard: four or more of them have one `ConfigMap` in common.
const POINTS_OF_A_SHARD: i64 = 4_000;

/// The object, and what stands in it.
#[derive(Debug)]
pub(crate) struct Kept {
    namespace: String,
    name: String,
    /// Each shard's own, below `data`.
    key: String,
    points_max: i64,
    /// When it was last written, and after how many changes.
    written: Option<(Time, u64)>,
    /// The object may be there for the sake of other shards.
    is_there: bool,
    /// Something stands under the key.
    is_found: bool,
}

/// From a moment on, these amounts of GPU, CPU and memory, in the core's units.
type Points = Vec<(i64, [i64; 3])>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    capacity: Points,
    queues: BTreeMap<String, Points>,
}

/// Why a history that was found cannot be gone on with.
#[derive(Debug)]
pub(crate) struct Unreadable {
    object: String,
    key: String,
    found: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, key, found } = self;
        write!(
            f,
            "ConfigMap {object}: data.{key}: found {found}, allowed: what the scheduler wrote; \
             the usage history begins anew"
        )
    }
}

impl Kept {
    pub(crate) fn new(api: &Api, pool: Option<&str>) -> Self {
        let namespace = api.client.default_namespace().to_owned();
        let name = format!("{}-usage", api.name);
        let (key, points_max) = match pool {
            None => ("history.json".to_owned(), POINTS_IN_ALL),
            // The values of labels have the letters of keys, and end with a letter or a digit.
            Some(pool) => (format!("history.pool-{pool}.json"), POINTS_OF_A_SHARD),
        };
        let (is_there, is_found) = (false, false);
        Self { namespace, name, key, points_max, written: None, is_there, is_found }
    }

    fn path(&self, name: &str) -> String {
        path("v1", &self.namespace, "configmaps", name)
    }

    /// Looks in all namespaces for the history of a scheduler that runs somewhere. Where that is
    /// not allowed, its own is left.
    pub(crate) async fn seek(&mut self, api: &Api) {
        let all = format!("/api/v1/configmaps?fieldSelector=metadata.name%3D{}", self.name);
        let Ok(found) = api.get(&all).await else { return };
        let places = list(&found, "/items").iter().map(|one| text(one, "/metadata/namespace"));
        let places: Vec<&str> = places.flatten().collect();
        if let Some(first) = places.first()
            && !places.contains(&self.namespace.as_str())
        {
            (*first).clone_into(&mut self.namespace);
        }
    }

    /// What is to be said where there is no history.
    pub(crate) fn missing(&self) -> Option<String> {
        let Self { name, key, .. } = self;
        let none = "no queue counts as having used anything";
        match (self.is_there, self.is_found) {
            (_, true) => None,
            (true, false) => Some(format!("ConfigMap {name} has no usage history {key}: {none}")),
            (false, false) => Some(format!(
                "ConfigMap {name}, the usage history, is found in no namespace: {none}"
            )),
        }
    }

    /// Takes up the history that an earlier scheduler left.
    pub(crate) async fn read(
        &mut self,
        api: &Api,
        usage: &SharedUsage,
    ) -> Result<Option<Unreadable>, ApiError> {
        let object = match api.get(&self.path(&self.name)).await {
            Ok(object) => object,
            Err(ApiError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.is_there = true;
        let found = object.get("data").and_then(|data| data.get(&self.key));
        let Some(found) = found.and_then(Value::as_str) else { return Ok(None) };
        self.is_found = true;
        match serde_json::from_str(found) {
            Ok(written) => {
                usage.lock().restore(&written);
                Ok(None)
            }
            Err(error) => {
                let name = text(&object, "/metadata/name").unwrap_or_default();
                let object = format!("{}/{name}", self.namespace);
                let (key, found) = (self.key.clone(), error.to_string());
                Ok(Some(Unreadable { object, key, found }))
            }
        }
    }

    /// What changed last is not written yet.
    pub(super) fn lacks(&self, changes: u64) -> bool {
        self.written.is_none_or(|(_, written)| written != changes)
    }

    /// Writes the history, if it is time and something changed.
    pub(crate) async fn write(
        &mut self,
        api: &Api,
        usage: &SharedUsage,
        now: Time,
    ) -> Result<(), ApiError> {
        let is_early = |(at, _): (Time, u64)| now.0.saturating_sub(at.0) < PERIOD_MILLIS;
        if self.written.is_some_and(is_early) || !self.lacks(usage.lock().changes) {
            return Ok(());
        }
        self.write_now(api, usage, now).await
    }

    /// Writes what changed last, early or not. Who finds that another shard made the object, or
    /// that somebody deleted it, tries once more: no cycle comes after this.
    pub(super) async fn write_last(
        &mut self,
        api: &Api,
        usage: &SharedUsage,
        now: Time,
    ) -> Result<(), ApiError> {
        for _ in 0..2 {
            if self.lacks(usage.lock().changes) {
                self.write_now(api, usage, now).await?;
            }
        }
        Ok(())
    }

    async fn write_now(
        &mut self,
        api: &Api,
        usage: &SharedUsage,
        now: Time,
    ) -> Result<(), ApiError> {
        let (history, changes) = {
            let usage = usage.lock();
            (json!(usage.condensed(now, self.points_max)).to_string(), usage.changes)
        };
        let key = self.key.as_str();
        let data = json!({ "data": { key: history } });
        let answer: Result<serde::de::IgnoredAny, ApiError> = if self.is_there {
            api.patch(&self.path(&self.name), Merge::Plain, &data).await
        } else {
            let mut object = data;
            object["apiVersion"] = json!("v1");
            object["kind"] = json!("ConfigMap");
            object["metadata"] = json!({ "name": self.name, "namespace": self.namespace });
            api.create(&self.path(""), &object).await
        };
        match answer {
            Ok(_) => self.is_there = true,
            // Another shard was first: the next cycle adds to what that one made.
            Err(ApiError::Conflict(_)) => {
                self.is_there = true;
                return Ok(());
            }
            // Somebody deleted it: it is made anew.
            Err(ApiError::NotFound(_)) => {
                self.is_there = false;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.written = Some((now, changes));
        Ok(())
    }
}

impl Usage {
    fn condensed(&self, now: Time, points_max: i64) -> Written {
        let histories = i64::try_from(self.queues.len()).unwrap_or(i64::MAX).saturating_add(1);
        let points = (points_max / histories).clamp(2, POINTS_MAX);
        let since = self.window_start(now);
        let of = |history: &History| history.condensed((since, now), points);
        let queues = self.queues.iter().map(|(name, history)| (name.to_string(), of(history)));
        Written { capacity: of(&self.capacity), queues: queues.collect() }
    }

    fn restore(&mut self, written: &Written) {
        let take = |history: &mut History, points: &Points| {
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

impl History {
    /// The same in few points: those that it has, or means over equal times and what holds now.
    fn condensed(&self, (since, now): (Time, Time), points_max: i64) -> Points {
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
        // And what holds from now on.
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

    fn usage() -> Usage {
        Usage::over(Duration::from_hours(24), None)
    }

    #[test]
    fn a_history_that_is_kept_goes_on_where_it_was() {
        let mut before = usage();
        let used = |gpu| BTreeMap::from([(Name::from("a"), gpus(gpu))]);
        before.record(Time(0), gpus(8000), &used(8000));
        before.record(Time(HOUR), gpus(8000), &used(2000));
        let kept = json!(before.condensed(Time(2 * HOUR), POINTS_IN_ALL)).to_string();
        let mut after = usage();
        after.restore(&serde_json::from_str(&kept).unwrap());
        // An hour passes in which nobody looks.
        let at = |usage: &Usage| usage.micro(&"a".into(), Time(3 * HOUR)).gpu;
        assert_eq!((at(&before), at(&after)), (500_000, 500_000));
    }

    #[test]
    fn a_long_history_is_kept_in_few_points_that_mean_the_same() {
        let mut before = usage();
        for minute in 0..1440 {
            let used = BTreeMap::from([(Name::from("a"), gpus(minute % 7 * 1000))]);
            before.record(Time(minute * 60_000), gpus(8000), &used);
        }
        let now = Time(1440 * 60_000);
        let kept = before.condensed(now, POINTS_IN_ALL);
        assert_eq!((kept.queues["a"].len(), kept.capacity.len()), (65, 1));
        let mut after = usage();
        after.restore(&kept);
        let [before, after] = [before, after].map(|usage| usage.micro(&"a".into(), now).gpu);
        assert!((before - after).abs() <= 10, "{before} {after}");
    }
}
