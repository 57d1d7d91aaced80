//! Historical usage of queues over a window, for time-based fairness, with optional decay. The own
//! history integrates usage at each change, without periodic sampling; [`store`] persists it in the
//! cluster, so that a restarted scheduler continues it. A configured database ([`external`]) takes
//! precedence over the own history.

mod external;
mod prometheus;
mod schedule;
mod source;
mod store;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use schedlab_scheduler_core::{
    model::{Name, Time},
    resources::PerResource,
};

pub use external::{Endpoint, PollTiming, UsageDatabase, UsageQueries, Window};
pub use schedule::CronSchedule;
pub(crate) use source::UsageSource;

/// Usage history of all queues, and capacity history of the cluster.
#[derive(Debug)]
pub(crate) struct UsageHistory {
    window: Duration,
    /// Age at which usage counts half; `None`: no decay.
    half_life: Option<Duration>,
    queues: BTreeMap<Name, UsageSeries>,
    capacity: UsageSeries,
    /// Number of changes recorded so far.
    changes: u64,
}

impl UsageHistory {
    pub(crate) fn new(window: Duration, half_life: Option<Duration>) -> Self {
        let (queues, capacity, changes) = Default::default();
        Self { window, half_life, queues, capacity, changes }
    }

    /// Records capacity and usage by queue from `now` on. A queue that is not listed uses nothing.
    pub(crate) fn record(
        &mut self,
        now: Time,
        capacity: PerResource<i64>,
        queues: &BTreeMap<Name, PerResource<i64>>,
    ) {
        let since = self.window_start(now);
        let mut changes = u64::from(self.capacity.record(now, capacity));
        self.capacity.drop_points_before(since);
        for name in queues.keys() {
            self.queues.entry(Name::clone(name)).or_default();
        }
        for (name, history) in &mut self.queues {
            let used = queues.get(name).copied().unwrap_or_default();
            changes += u64::from(history.record(now, used));
            history.drop_points_before(since);
        }
        self.queues.retain(|_, history| !history.is_empty());
        self.changes += changes;
    }

    /// Usage of a queue over the window, in millionths of the capacity over the window.
    pub(crate) fn usage_micro(&self, queue: &Name, now: Time) -> PerResource<i64> {
        let Some(history) = self.queues.get(queue) else {
            return PerResource::default();
        };
        let since = self.window_start(now);
        let integral = |history: &UsageSeries| match self.half_life {
            None => history.integral(since, now).values(),
            Some(half_life) => history.decayed_integral(since, now, half_life).values(),
        };
        let [used, capacity] = [history, &self.capacity].map(integral);
        let micro = |resource: usize| {
            let (used, capacity) = (used[resource], capacity[resource]);
            let micro = if capacity > 0 { used.saturating_mul(1_000_000) / capacity } else { 0 };
            i64::try_from(micro).unwrap_or(i64::MAX)
        };
        PerResource { gpu: micro(0), cpu: micro(1), memory: micro(2) }
    }

    fn window_start(&self, now: Time) -> Time {
        let window = i64::try_from(self.window.as_millis()).unwrap_or(i64::MAX);
        Time(now.0.saturating_sub(window))
    }
}

/// The history, shared by the scheduler, which records it, and metrics, which export it.
#[derive(Clone, Debug)]
pub(crate) struct SharedUsage(Arc<Mutex<UsageHistory>>);

impl SharedUsage {
    pub(crate) fn new(usage: UsageHistory) -> Self {
        Self(Arc::new(Mutex::new(usage)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, UsageHistory> {
        self.0.lock().expect("no thread panics while holding the lock")
    }
}

/// A step function of amounts over time, with running integrals.
#[derive(Debug, Default)]
struct UsageSeries {
    points: VecDeque<UsagePoint>,
}

#[derive(Clone, Copy, Debug)]
struct UsagePoint {
    at: Time,
    amount: PerResource<i64>,
    /// Integral of the amount before `at`, in amount × milliseconds.
    before: PerResource<i128>,
}

impl UsagePoint {
    fn integral_until(&self, at: Time) -> PerResource<i128> {
        let millis = i128::from(at.0.saturating_sub(self.at.0).max(0));
        PerResource {
            gpu: self.before.gpu + i128::from(self.amount.gpu) * millis,
            cpu: self.before.cpu + i128::from(self.amount.cpu) * millis,
            memory: self.before.memory + i128::from(self.amount.memory) * millis,
        }
    }
}

impl UsageSeries {
    /// Whether all amounts are zero.
    fn is_empty(&self) -> bool {
        self.points.iter().all(|point| point.amount == PerResource::default())
    }

    /// Records that the amount is this from `at` on; returns whether the amount changed.
    fn record(&mut self, at: Time, amount: PerResource<i64>) -> bool {
        let last = self.points.back();
        if last.is_some_and(|last| last.amount == amount) {
            return false;
        }
        let before = last.map(|last| last.integral_until(at)).unwrap_or_default();
        self.points.push_back(UsagePoint { at, amount, before });
        true
    }

    /// Drops old points, except the last one at or before `moment`, whose amount reaches into the
    /// window.
    fn drop_points_before(&mut self, moment: Time) {
        while self.points.get(1).is_some_and(|second| second.at <= moment) {
            self.points.pop_front();
        }
    }

    /// Integral with exponential decay by half-life. The unit is arbitrary, as only ratios are
    /// used.
    fn decayed_integral(&self, from: Time, until: Time, half_life: Duration) -> PerResource<i128> {
        let mut sum = PerResource::default();
        let mut points = self.points.iter().peekable();
        while let Some(point) = points.next() {
            let begin = point.at.max(from);
            let end = points.peek().map_or(until, |next| next.at).min(until);
            if begin >= end {
                continue;
            }
            let millis =
                decay_weight(until, end, half_life) - decay_weight(until, begin, half_life);
            sum.gpu += i128::from(point.amount.gpu) * millis;
            sum.cpu += i128::from(point.amount.cpu) * millis;
            sum.memory += i128::from(point.amount.memory) * millis;
        }
        sum
    }

    fn integral(&self, from: Time, until: Time) -> PerResource<i128> {
        let at = |moment: Time| {
            let after = self.points.partition_point(|point| point.at <= moment);
            let point = after.checked_sub(1).and_then(|position| self.points.get(position));
            point.map(|point| point.integral_until(moment))
        };
        let first = self.points.front().map(|point| point.before).unwrap_or_default();
        let (from, until) = (at(from).unwrap_or(first), at(until).unwrap_or(first));
        PerResource {
            gpu: until.gpu - from.gpu,
            cpu: until.cpu - from.cpu,
            memory: until.memory - from.memory,
        }
    }
}

/// Weight at `now` of all time before `at`, as a part of 10^12, the weight of all time before
/// `now`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "between 0 and 10^12, and rounding moves no share by a millionth"
)]
fn decay_weight(now: Time, at: Time, half_life: Duration) -> i128 {
    let age = now.0.saturating_sub(at.0).max(0) as f64;
    let half_lives = age / half_life.as_millis().max(1) as f64;
    (1e12 * (-half_lives).exp2()).round() as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn gpus(gpu: i64) -> PerResource<i64> {
        PerResource { gpu: gpu * 1000, cpu: 0, memory: 0 }
    }

    fn used(queues: &[(&str, i64)]) -> BTreeMap<Name, PerResource<i64>> {
        queues.iter().map(|(name, used)| (Name::from(*name), gpus(*used))).collect()
    }

    #[test]
    fn usage_is_the_fraction_of_capacity_over_the_window() {
        let mut usage = UsageHistory::new(Duration::from_hours(10), None);
        usage.record(Time(0), gpus(8), &used(&[("a", 8)]));
        usage.record(Time(HOUR), gpus(8), &used(&[("a", 4), ("b", 4)]));
        assert_eq!(usage.usage_micro(&"a".into(), Time(2 * HOUR)).gpu, 750_000);
        assert_eq!(usage.usage_micro(&"b".into(), Time(2 * HOUR)).gpu, 250_000);
        assert_eq!(usage.usage_micro(&"c".into(), Time(2 * HOUR)).gpu, 0);
    }

    #[test]
    fn usage_before_the_window_is_dropped() {
        let mut usage = UsageHistory::new(Duration::from_hours(10), None);
        usage.record(Time(0), gpus(8), &used(&[("a", 8)]));
        usage.record(Time(HOUR), gpus(8), &used(&[]));
        usage.record(Time(2 * HOUR), gpus(8), &used(&[("b", 8)]));
        assert_eq!(usage.usage_micro(&"a".into(), Time(10 * HOUR)).gpu, 100_000);
        assert_eq!(usage.usage_micro(&"a".into(), Time(10 * HOUR + HOUR / 2)).gpu, 50_000);
        assert_eq!(usage.usage_micro(&"a".into(), Time(11 * HOUR)).gpu, 0);
        usage.record(Time(12 * HOUR), gpus(8), &used(&[("b", 8)]));
        assert!(!usage.queues.contains_key("a"));
        assert_eq!(usage.usage_micro(&"b".into(), Time(12 * HOUR)).gpu, 1_000_000);
    }
    #[test]
    fn usage_counts_half_after_one_half_life() {
        let mut usage = UsageHistory::new(Duration::from_hours(10), Some(Duration::from_hours(1)));
        usage.record(Time(0), gpus(8), &used(&[("a", 8)]));
        usage.record(Time(HOUR), gpus(8), &used(&[("b", 8)]));
        usage.record(Time(2 * HOUR), gpus(8), &used(&[]));
        let [a, b] = ["a", "b"].map(|queue| usage.usage_micro(&queue.into(), Time(2 * HOUR)).gpu);
        // An hour an hour ago, against the last hour: one to two.
        assert_eq!((a, b), (333_333, 666_666));
        let later = usage.usage_micro(&"b".into(), Time(5 * HOUR)).gpu;
        assert!((64_000..65_000).contains(&later), "{later}");
    }
}
