//! Start times of usage windows by a cron expression, in UTC unless it names a time zone.

use std::{fmt, iter::successors, str::FromStr};

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use schedlab_scheduler_core::model::Time;

/// A cron schedule with at least one time in eight years, the longest distance of two leap days.
#[derive(Clone)]
pub struct CronSchedule {
    text: String,
    crontab: Box<Crontab>,
}

const HOUR_MILLIS: i64 = 3_600_000;
const LOOKBACK_MAX_MILLIS: i64 = 9 * 366 * 24 * HOUR_MILLIS;

impl CronSchedule {
    /// Milliseconds since the last scheduled time at or before `now`.
    pub(super) fn millis_since_last(&self, now: Time) -> i64 {
        let spans = successors(Some(HOUR_MILLIS), |span| Some(span * 2));
        let spans = spans.take_while(|span| *span < 2 * LOOKBACK_MAX_MILLIS);
        let last = spans.map(|span| now.0 - span).find_map(|start| {
            let after = successors(self.next_after(start), |at| self.next_after(*at));
            after.take_while(|at| *at <= now.0).last()
        });
        last.map_or(LOOKBACK_MAX_MILLIS, |last| now.0 - last)
    }

    fn next_after(&self, from_millis: i64) -> Option<i64> {
        let after = MakeTimestamp::from_millisecond(from_millis).ok()?;
        Some(self.crontab.find_next(after).ok()?.timestamp().as_millisecond())
    }
}

impl FromStr for CronSchedule {
    type Err = cronexpr::Error;

    /// Parses a cron expression. Rejects schedules without any time, such as 31 February.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let crontab = parse_crontab_with(text, options)?;
        crontab.find_next(MakeTimestamp::from_millisecond(0)?)?;
        Ok(Self { text: text.to_owned(), crontab: Box::new(crontab) })
    }
}

impl fmt::Debug for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long ago the last moment of `cron` was.
    fn since(cron: &str, now: &str) -> String {
        let now: jiff::Timestamp = now.parse().unwrap();
        let moments: CronSchedule = cron.parse().unwrap();
        let millis = moments.millis_since_last(Time(now.as_millisecond()));
        let seconds = millis / 1000;
        format!(
            "{}d{}h{}m{}s",
            seconds / 86400,
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60
        )
    }

    #[test]
    fn a_cron_window_starts_at_the_last_scheduled_time() {
        // A Wednesday.
        let now = "2026-11-25T10:20:30Z";
        assert_eq!(since("0 0 * * 1", now), "2d10h20m30s");
        assert_eq!(since("*/15 * * * *", now), "0d0h5m30s");
        assert_eq!(since("0 6 1 * *", now), "24d4h20m30s");
        assert_eq!(since("20 10 * * *", now), "0d0h0m30s");
        assert_eq!(since("20 10 * * *", "2026-11-25T10:20:00Z"), "0d0h0m0s");
        assert_eq!(since("0 0 29 2 *", now), "1000d10h20m30s");
        assert_eq!(since("0 0 * * MON Europe/Berlin", now), "2d11h20m30s");
    }

    #[test]
    fn invalid_cron_expressions_are_rejected() {
        for wrong in ["", "monday", "* * * *", "61 * * * *", "0 0 31 2 *"] {
            assert!(wrong.parse::<CronSchedule>().is_err(), "{wrong}");
        }
    }
}
