//! Scaling of a feature's durations in real time: one factor shortens the durations that steps wait
//! for, those written into objects, and the scheduler's own, so that their proportions stay. The
//! emulator does not scale.

use std::time::Duration;

use schedlab_api::{Value, annotations, json};
use schedlab_scheduler::Config;

/// How late things may happen on a busy machine: assertions that must hold for a duration are
/// watched for less time by this much.
const LATENESS_TOLERANCE_MAX: Duration = Duration::from_secs(20);

/// Number of concurrent writes of an in-process scheduler on a real cluster, where each write takes
/// time.
const CONCURRENT_WRITES: usize = 8;

/// The shortest time between two scheduling cycles in real time: a busy machine cannot run more
/// cycles.
const CYCLE_PERIOD_MIN: Duration = Duration::from_millis(500);

/// Keys of fields and annotations whose values are durations such as `90s`.
const DURATION_KEYS: [&str; 7] = [
    annotations::RUN_TIME,
    annotations::STARTUP,
    annotations::TERMINATION,
    annotations::PREEMPTION_DELAY,
    annotations::STALENESS_GRACE_PERIOD,
    "preemptionDelay",
    "stalenessGracePeriod",
];

/// Keys of fields of queues whose values are durations.
const QUEUE_DURATION_KEYS: [&str; 2] = ["reclaimMinRuntime", "preemptMinRuntime"];

/// Keys of fields whose values are seconds; scaling never makes such a value 0.
const SECONDS_KEYS: [&str; 3] =
    ["terminationGracePeriodSeconds", "tolerationSeconds", "activeDeadlineSeconds"];

/// How durations in a feature are scaled to the time of the cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeScale {
    /// Factor by which every duration is multiplied.
    factor: f64,
    /// In real time: minimum wait for an `eventually` assertion. Waiting ends as soon as the
    /// assertion holds. `None` in virtual time.
    min_wait: Option<Duration>,
    /// A duration in the feature is not scaled below this, because the scheduler would not have
    /// acted within it.
    least: Duration,
    /// An `eventually` assertion waits no longer than this: by then the scheduler has acted, or never
    /// will.
    most: Option<Duration>,
}

impl Default for TimeScale {
    /// The scale of virtual time: durations stay as they are.
    fn default() -> Self {
        Self { factor: 1.0, min_wait: None, least: Duration::ZERO, most: None }
    }
}

impl TimeScale {
    /// The scale of real time: durations are multiplied by `factor`, and `eventually` assertions
    /// wait at least `min_wait`.
    pub(crate) fn for_real_time(factor: f64, min_wait: Duration) -> Self {
        Self { factor, min_wait: Some(min_wait), least: Duration::ZERO, most: None }
    }

    /// The same scale, except that what a step waits for is not scaled below `least`.
    pub(crate) fn with_least(self, least: Duration) -> Self {
        Self { least, ..self }
    }

    /// The same scale, except that an `eventually` assertion waits for `most` at most.
    pub(crate) fn with_most(self, most: Duration) -> Self {
        Self { most: Some(most), ..self }
    }

    /// How long a step waits, for a duration in the feature.
    pub(crate) fn scaled_wait(self, time: Duration) -> Duration {
        self.scaled_duration(time).max(time.min(self.least))
    }

    /// A duration in the feature, scaled to the time of the cluster.
    pub(crate) fn scaled_duration(self, time: Duration) -> Duration {
        if self.is_identity() { time } else { time.mul_f64(self.factor) }
    }

    /// The time between two scheduling cycles, for a period in the feature.
    pub(crate) fn scaled_period(self, period: Duration) -> Duration {
        self.scaled_duration(period).max(period.min(CYCLE_PERIOD_MIN))
    }

    /// How long an `eventually` assertion may wait, for a duration in the feature.
    pub(crate) fn wait_limit(self, time: Duration) -> Duration {
        let wait = self.min_wait.map_or(time, |least| self.scaled_wait(time).max(least));
        self.most.map_or(wait, |most| wait.min(most))
    }

    /// How long an assertion that must hold (or must never hold) is watched, for a duration in the
    /// feature. Less than the scaled duration, because on a busy machine the condition may end
    /// early: it also began earlier than it was seen.
    pub(crate) fn scaled_assertion_duration(self, time: Duration) -> Duration {
        let whole = self.scaled_wait(time);
        if self.is_real_time() {
            whole.saturating_sub(LATENESS_TOLERANCE_MAX).max(whole / 2)
        } else {
            whole
        }
    }

    /// Scales the scheduler's own durations.
    pub(crate) fn scale_config(self, mut config: Config) -> Config {
        if self.is_real_time() {
            config.writes_at_once = CONCURRENT_WRITES;
        }
        if self.is_identity() {
            return config;
        }
        let profile = &mut config.profile;
        let times = [
            &mut profile.staleness_grace,
            &mut profile.preempt_min_runtime,
            &mut profile.reclaim_min_runtime,
        ];
        for time in times {
            *time = self.scaled_duration(*time);
        }
        config.period = self.scaled_period(config.period);
        for time in
            [&mut config.usage_window, &mut config.usage_half_life, &mut config.eviction_grace]
        {
            *time = time.map(|time| self.scaled_duration(time));
        }
        config
    }

    /// Scales the durations in an object.
    pub(crate) fn scale_object(self, object: &mut Value) {
        if !self.is_identity() {
            self.scale_value(object);
        }
    }

    fn scale_value(self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.scale_value(item)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.scale_field(key, value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn scale_field(self, key: &str, value: &mut Value) {
        if DURATION_KEYS.contains(&key) || QUEUE_DURATION_KEYS.contains(&key) {
            self.scale_duration_text(value);
        } else if SECONDS_KEYS.contains(&key) {
            self.scale_seconds(value);
        } else {
            self.scale_value(value);
        }
    }

    /// Scales a duration text. An invalid one stays as it is, so that a test of invalid input still
    /// has it.
    fn scale_duration_text(self, value: &mut Value) {
        let time = value.as_str().and_then(|text| crate::text::parse_duration(text).ok());
        if let Some(time) = time {
            *value = json!(format!("{}ms", self.scaled_duration(time).as_millis()));
        }
    }

    fn scale_seconds(self, value: &mut Value) {
        if let Some(seconds) = value.as_u64().filter(|seconds| *seconds > 0) {
            let millis = self.scaled_duration(Duration::from_secs(seconds)).as_millis();
            *value = json!(u64::try_from(millis.div_ceil(1000)).unwrap_or(seconds));
        }
    }

    fn is_real_time(self) -> bool {
        self.min_wait.is_some()
    }

    fn is_identity(self) -> bool {
        (self.factor - 1.0).abs() < f64::EPSILON
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_WAIT: Duration = Duration::from_mins(2);

    fn real(factor: f64) -> TimeScale {
        TimeScale::for_real_time(factor, MIN_WAIT)
    }

    #[test]
    fn an_assertion_does_not_wait_longer_than_the_scheduler_needs() {
        let minutes = Duration::from_mins;
        let scale = real(1.0).with_most(minutes(5));
        assert_eq!(scale.wait_limit(minutes(20)), minutes(5));
        assert_eq!(scale.wait_limit(minutes(3)), minutes(3));
        assert_eq!(real(1.0).wait_limit(minutes(20)), minutes(20));
    }

    #[test]
    fn durations_in_objects_are_scaled_and_invalid_ones_kept() {
        let mut object = json!({
            "metadata": {"annotations": {"schedlab.dev/run-time": "10m", "other": "10m"}},
            "spec": {"terminationGracePeriodSeconds": 30, "tolerationSeconds": 0,
                     "reclaimMinRuntime": "soon"},
        });
        real(0.1).scale_object(&mut object);
        assert_eq!(object["metadata"]["annotations"]["schedlab.dev/run-time"], "60000ms");
        assert_eq!(object["metadata"]["annotations"]["other"], "10m");
        assert_eq!(object["spec"]["terminationGracePeriodSeconds"], 3);
        assert_eq!(object["spec"]["tolerationSeconds"], 0);
        assert_eq!(object["spec"]["reclaimMinRuntime"], "soon");
    }

    #[test]
    fn scheduler_durations_are_scaled_too() {
        let minute = Duration::from_mins(1);
        let times = |time| Config {
            period: time,
            usage_window: Some(time),
            usage_half_life: Some(time),
            eviction_grace: Some(time),
            ..Config::kai()
        };
        let scaled = real(0.1).scale_config(times(minute));
        let expected = times(minute / 10);
        assert_eq!(scaled.period, expected.period);
        assert_eq!(scaled.usage_window, expected.usage_window);
        assert_eq!(scaled.usage_half_life, expected.usage_half_life);
        assert_eq!(scaled.eviction_grace, expected.eviction_grace);
    }

    #[test]
    fn the_emulator_does_not_scale_durations() {
        let time = Duration::from_hours(24);
        assert_eq!(TimeScale::default().scaled_duration(time), time);
        assert_eq!(TimeScale::default().wait_limit(Duration::from_secs(2)), Duration::from_secs(2));
        assert_eq!(TimeScale::default().scaled_assertion_duration(time), time);
        assert_eq!(
            TimeScale::default().scaled_period(Duration::from_millis(1)),
            Duration::from_millis(1)
        );
    }

    #[test]
    fn waits_are_not_scaled_below_the_times_of_the_scheduler() {
        let scale = real(0.1).with_least(Duration::from_secs(22));
        let seconds = Duration::from_secs;
        assert_eq!(scale.scaled_wait(seconds(600)), seconds(60));
        assert_eq!(scale.scaled_wait(seconds(120)), seconds(22));
        assert_eq!(scale.scaled_wait(seconds(5)), seconds(5));
        assert_eq!(scale.scaled_duration(seconds(120)), seconds(12), "objects keep the factor");
        assert_eq!(scale.scaled_assertion_duration(seconds(120)), seconds(11));
    }

    #[test]
    fn real_time_waits_allow_for_a_busy_machine() {
        let (minute, second) = (Duration::from_mins(1), Duration::from_secs(1));
        assert_eq!(real(0.1).wait_limit(Duration::from_secs(2)), MIN_WAIT);
        assert_eq!(real(1.0).scaled_assertion_duration(minute), Duration::from_secs(40));
        assert_eq!(real(0.1).scaled_assertion_duration(minute), Duration::from_secs(3));
        assert_eq!(real(1.0).scaled_period(second), second);
        assert_eq!(real(0.1).scaled_period(second), CYCLE_PERIOD_MIN);
        assert_eq!(real(1.0).scaled_period(second / 10), second / 10);
    }
}
