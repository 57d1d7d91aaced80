//! What queues used over a sliding window, for time-based fairness. Kept in memory; integrated
//! over time at each change, so nothing ticks. After a restart the history begins anew.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use schedlab_scheduler_core::{
    model::{Name, Time},
    resources::PerResource,
};

/// The history of all queues, and of the cluster they share.
#[derive(Debug)]
pub(crate) struct Usage {
    window: Duration,
    queues: BTreeMap<Name, History>,
    capacity: History,
}

impl Usage {
    pub(crate) fn over(window: Duration) -> Self {
        Self { window, queues: BTreeMap::new(), capacity: History::default() }
    }

    /// From `now` on the cluster has this capacity, and queues use so much of it. A queue that
    /// is not named uses nothing.
    pub(crate) fn record(
        &mut self,
        now: Time,
        capacity: PerResource<i64>,
        queues: &BTreeMap<Name, PerResource<i64>>,
    ) {
        let since = self.window_start(now);
        self.capacity.record(now, capacity);
        self.capacity.forget_before(since);
        for name in queues.keys() {
            self.queues.entry(Name::clone(name)).or_default();
        }
        for (name, history) in &mut self.queues {
            history.record(now, queues.get(name).copied().unwrap_or_default());
            history.forget_before(since);
        }
        self.queues.retain(|_, history| !history.is_empty());
    }

    /// Used over the window, in millionths of the capacity over the window.
    pub(crate) fn micro(&self, queue: &Name, now: Time) -> PerResource<i64> {
        let Some(history) = self.queues.get(queue) else {
            return PerResource::default();
        };
        let since = self.window_start(now);
        let [used, capacity] =
            [history, &self.capacity].map(|history| history.integral(since, now).values());
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

/// Amounts that held from a moment on, with the integral up to that moment.
#[derive(Debug, Default)]
struct History {
    points: VecDeque<Point>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at: Time,
    amount: PerResource<i64>,
    /// Amount × milliseconds before `at`.
    before: PerResource<i128>,
}

impl Point {
    fn integral_until(&self, at: Time) -> PerResource<i128> {
        let millis = i128::from(at.0.saturating_sub(self.at.0).max(0));
        PerResource {
            gpu: self.before.gpu + i128::from(self.amount.gpu) * millis,
            cpu: self.before.cpu + i128::from(self.amount.cpu) * millis,
            memory: self.before.memory + i128::from(self.amount.memory) * millis,
        }
    }
}

impl History {
    /// Nothing was used in the window.
    fn is_empty(&self) -> bool {
        self.points.iter().all(|point| point.amount == PerResource::default())
    }

    fn record(&mut self, at: Time, amount: PerResource<i64>) {
        let last = self.points.back();
        if last.is_some_and(|last| last.amount == amount) {
            return;
        }
        let before = last.map(|last| last.integral_until(at)).unwrap_or_default();
        self.points.push_back(Point { at, amount, before });
    }

    /// Keeps the last point at or before the moment: its amount reaches into the window.
    fn forget_before(&mut self, moment: Time) {
        while self.points.get(1).is_some_and(|second| second.at <= moment) {
            self.points.pop_front();
        }
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
    fn usage_is_the_part_of_capacity_used_over_the_window() {
        let mut usage = Usage::over(Duration::from_hours(10));
        usage.record(Time(0), gpus(8), &used(&[("a", 8)]));
        usage.record(Time(HOUR), gpus(8), &used(&[("a", 4), ("b", 4)]));
        assert_eq!(usage.micro(&"a".into(), Time(2 * HOUR)).gpu, 750_000);
        assert_eq!(usage.micro(&"b".into(), Time(2 * HOUR)).gpu, 250_000);
        assert_eq!(usage.micro(&"c".into(), Time(2 * HOUR)).gpu, 0);
    }

    #[test]
    fn what_lies_before_the_window_is_forgotten() {
        let mut usage = Usage::over(Duration::from_hours(10));
        usage.record(Time(0), gpus(8), &used(&[("a", 8)]));
        usage.record(Time(HOUR), gpus(8), &used(&[]));
        usage.record(Time(2 * HOUR), gpus(8), &used(&[("b", 8)]));
        assert_eq!(usage.micro(&"a".into(), Time(10 * HOUR)).gpu, 100_000);
        assert_eq!(usage.micro(&"a".into(), Time(10 * HOUR + HOUR / 2)).gpu, 50_000);
        assert_eq!(usage.micro(&"a".into(), Time(11 * HOUR)).gpu, 0);
        usage.record(Time(12 * HOUR), gpus(8), &used(&[("b", 8)]));
        assert!(!usage.queues.contains_key("a"));
        assert_eq!(usage.micro(&"b".into(), Time(12 * HOUR)).gpu, 1_000_000);
    }
}
