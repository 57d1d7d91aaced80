//! How long the durations of a feature are where time is real: all of them are shortened by one
//! factor, those that it waits for, those that it writes into objects, and the scheduler's own,
//! so that they keep their proportions. On the emulator they are as long as they are.

use std::time::Duration;

use schedlab_json::{Value, json};
use schedlab_scheduler::Config;

/// How late a busy machine may be: nothing that must hold for a time is watched to its end.
const LATE: Duration = Duration::from_secs(20);

/// Writes of a scheduler in this process that are under way at once, where each takes a while.
const WRITES_AT_ONCE: usize = 8;

/// The shortest time from one cycle to the next: a busy machine has no time for more.
const PERIOD_LEAST: Duration = Duration::from_millis(500);

/// Keys of objects whose values are durations as `90s`.
const TEXTS: [&str; 7] = [
    "schedlab.dev/run-time",
    "schedlab.dev/startup",
    "schedlab.dev/termination",
    "kai.scheduler/preemption-delay",
    "kai.scheduler/staleness-grace-period",
    "preemptionDelay",
    "stalenessGracePeriod",
];

/// The same on queues.
const QUEUE_TEXTS: [&str; 2] = ["reclaimMinRuntime", "preemptMinRuntime"];

/// Keys whose values are seconds; none becomes 0.
const SECONDS: [&str; 3] =
    ["terminationGracePeriodSeconds", "tolerationSeconds", "activeDeadlineSeconds"];

/// How fast time goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// What every duration is multiplied with.
    factor: f64,
    /// Where time is real: the least time that something may take to happen. Waiting ends as
    /// soon as it does.
    patience: Option<Duration>,
}

impl Default for Pace {
    /// Durations are what they are.
    fn default() -> Self {
        Self { factor: 1.0, patience: None }
    }
}

impl Pace {
    /// Real time, with durations multiplied by a factor, and at least this long a wait for what
    /// shall happen.
    pub fn real(factor: f64, patience: Duration) -> Self {
        Self { factor, patience: Some(patience) }
    }

    /// A duration of the feature.
    pub(crate) fn of(self, time: Duration) -> Duration {
        if self.is_plain() { time } else { time.mul_f64(self.factor) }
    }

    /// The time from one cycle to the next, where it is this in the feature.
    pub(crate) fn period(self, period: Duration) -> Duration {
        self.of(period).max(period.min(PERIOD_LEAST))
    }

    /// How long to wait for what shall happen within a time of the feature.
    pub(crate) fn patience(self, time: Duration) -> Duration {
        self.patience.map_or(time, |least| self.of(time).max(least))
    }

    /// How long to watch what must hold, or must not happen, for a time of the feature. What ends
    /// it may have begun before the watching did.
    pub(crate) fn watch(self, time: Duration) -> Duration {
        let whole = self.of(time);
        if self.is_real() { whole.saturating_sub(LATE).max(whole / 2) } else { whole }
    }

    /// A scheduler whose own times go as fast.
    pub(crate) fn config(self, mut config: Config) -> Config {
        if self.is_real() {
            config.writes_at_once = WRITES_AT_ONCE;
        }
        if self.is_plain() {
            return config;
        }
        let profile = &mut config.profile;
        let times = [
            &mut profile.staleness_grace,
            &mut profile.preempt_min_runtime,
            &mut profile.reclaim_min_runtime,
        ];
        for time in times {
            *time = self.of(*time);
        }
        config.period = self.period(config.period);
        for time in
            [&mut config.usage_window, &mut config.usage_half_life, &mut config.eviction_grace]
        {
            *time = time.map(|time| self.of(time));
        }
        config
    }

    /// An object whose durations go as fast.
    pub(crate) fn object(self, object: &mut Value) {
        if !self.is_plain() {
            self.walk(object);
        }
    }

    fn walk(self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.field(key, value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn field(self, key: &str, value: &mut Value) {
        if TEXTS.contains(&key) || QUEUE_TEXTS.contains(&key) {
            self.text(value);
        } else if SECONDS.contains(&key) {
            self.seconds(value);
        } else {
            self.walk(value);
        }
    }

    /// A text that is no duration stays what it is: what is broken shall stay broken.
    fn text(self, value: &mut Value) {
        let time = value.as_str().and_then(|text| crate::text::duration(text).ok());
        if let Some(time) = time {
            *value = json!(format!("{}ms", self.of(time).as_millis()));
        }
    }

    fn seconds(self, value: &mut Value) {
        if let Some(seconds) = value.as_u64().filter(|seconds| *seconds > 0) {
            let millis = self.of(Duration::from_secs(seconds)).as_millis();
            *value = json!(u64::try_from(millis.div_ceil(1000)).unwrap_or(seconds));
        }
    }

    fn is_real(self) -> bool {
        self.patience.is_some()
    }

    fn is_plain(self) -> bool {
        (self.factor - 1.0).abs() < f64::EPSILON
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_mins(2);

    fn real(factor: f64) -> Pace {
        Pace::real(factor, PATIENCE)
    }

    #[test]
    fn durations_of_objects_keep_their_proportions_and_broken_ones_stay_broken() {
        let mut object = json!({
            "metadata": {"annotations": {"schedlab.dev/run-time": "10m", "other": "10m"}},
            "spec": {"terminationGracePeriodSeconds": 30, "tolerationSeconds": 0,
                     "reclaimMinRuntime": "soon"},
        });
        real(0.1).object(&mut object);
        assert_eq!(object["metadata"]["annotations"]["schedlab.dev/run-time"], "60000ms");
        assert_eq!(object["metadata"]["annotations"]["other"], "10m");
        assert_eq!(object["spec"]["terminationGracePeriodSeconds"], 3);
        assert_eq!(object["spec"]["tolerationSeconds"], 0);
        assert_eq!(object["spec"]["reclaimMinRuntime"], "soon");
    }

    #[test]
    fn a_scheduler_s_own_times_go_as_fast() {
        let minute = Duration::from_mins(1);
        let times = |time| Config {
            period: time,
            usage_window: Some(time),
            usage_half_life: Some(time),
            eviction_grace: Some(time),
            ..Config::kai()
        };
        let scaled = real(0.1).config(times(minute));
        let wanted = times(minute / 10);
        assert_eq!(scaled.period, wanted.period);
        assert_eq!(scaled.usage_window, wanted.usage_window);
        assert_eq!(scaled.usage_half_life, wanted.usage_half_life);
        assert_eq!(scaled.eviction_grace, wanted.eviction_grace);
    }

    #[test]
    fn the_emulator_takes_durations_as_they_are() {
        let time = Duration::from_hours(24);
        assert_eq!(Pace::default().of(time), time);
        assert_eq!(Pace::default().patience(Duration::from_secs(2)), Duration::from_secs(2));
        assert_eq!(Pace::default().watch(time), time);
        assert_eq!(Pace::default().period(Duration::from_millis(1)), Duration::from_millis(1));
    }

    #[test]
    fn in_real_time_a_busy_machine_may_be_late() {
        let (minute, second) = (Duration::from_mins(1), Duration::from_secs(1));
        assert_eq!(real(0.1).patience(Duration::from_secs(2)), PATIENCE);
        assert_eq!(real(1.0).watch(minute), Duration::from_secs(40));
        assert_eq!(real(0.1).watch(minute), Duration::from_secs(3));
        assert_eq!(real(1.0).period(second), second);
        assert_eq!(real(0.1).period(second), PERIOD_LEAST);
        assert_eq!(real(1.0).period(second / 10), second / 10);
    }
}
