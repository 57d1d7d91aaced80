//! Hours and weekdays of arrivals, in UTC.

use jiff::Timestamp;

use crate::numbers::{to_count, to_f64};

const HOUR_SECS: f64 = 3600.0;
/// Days from 1 January 1970, a Thursday, to the next Monday.
const DAYS_TO_MONDAY: u64 = 4;

/// Names of the weekdays.
pub(crate) const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Where the hours of a trace lie in the week.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calendar {
    /// Seconds from a Monday, 00:00, to the time at which arrivals are 0.
    offset_secs: f64,
}

/// An hour of a week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeekHour {
    /// 0 is Monday.
    pub(crate) weekday: usize,
    pub(crate) hour: usize,
}

impl Calendar {
    /// The calendar of a trace; one without dates begins on a Monday, 00:00.
    pub(crate) fn new(start: Option<Timestamp>) -> Self {
        let secs = start.map_or(DAYS_TO_MONDAY * 86_400, |start| {
            u64::try_from(start.as_second()).unwrap_or_default()
        });
        let since_monday = secs + 604_800 - DAYS_TO_MONDAY * 86_400;
        Self { offset_secs: to_f64(since_monday % 604_800) }
    }

    /// The number of the clock hour of an arrival, from the Monday on.
    pub(crate) fn hour_number(self, arrives_secs: f64) -> u64 {
        to_count(((self.offset_secs + arrives_secs) / HOUR_SECS).floor())
    }

    /// Seconds from the begin of the trace to the begin of an hour; negative before the trace.
    pub(crate) fn hour_begin(self, hour_number: u64) -> f64 {
        to_f64(hour_number) * HOUR_SECS - self.offset_secs
    }
}

/// The hour of the week of an hour's number.
pub(crate) fn week_hour(hour_number: u64) -> WeekHour {
    let in_week = usize::try_from(hour_number % 168).unwrap_or_default();
    WeekHour { weekday: in_week / 24, hour: in_week % 24 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_its_weekday_and_hour() {
        // 18 November 2026 is a Wednesday.
        let start: Timestamp = "2026-11-18T13:30:00Z".parse().unwrap();
        let calendar = Calendar::new(Some(start));
        let hour = calendar.hour_number(0.0);
        assert_eq!(week_hour(hour), WeekHour { weekday: 2, hour: 13 });
        assert!((calendar.hour_begin(hour) + 1800.0).abs() < 1e-9);
        let monday = Calendar::new(None);
        assert_eq!(week_hour(monday.hour_number(0.0)), WeekHour { weekday: 0, hour: 0 });
        assert_eq!(week_hour(monday.hour_number(86_400.0 * 6.5)).weekday, 6);
    }
}
