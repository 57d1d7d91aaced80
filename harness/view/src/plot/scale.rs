//! From values to coordinates, and round numbers for the axes.

/// Number of intervals that an axis has at most.
const INTERVALS_MAX: f64 = 5.0;

/// Intervals of time axes in seconds: round parts of minutes, hours and days.
const TIME_INTERVALS: [f64; 20] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    14_400.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0, 604_800.0,
];

/// Values `from` to `to` at the coordinates `low` to `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Scale {
    /// The coordinate of a value; values outside are moved to the border.
    pub(super) fn at(self, value: f64) -> f64 {
        let range = self.to - self.from;
        let part = if range > 0.0 { (value - self.from) / range } else { 0.0 };
        self.low + part.clamp(0.0, 1.0) * (self.high - self.low)
    }
}

/// Round values from 0 up to the first that is not below `top`.
pub(super) fn value_ticks(top: f64) -> Vec<f64> {
    let top = if top > 0.0 { top } else { 1.0 };
    let magnitude = 10_f64.powf((top / INTERVALS_MAX).log10().floor());
    let interval = [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|factor| factor * magnitude)
        .into_iter()
        .find(|interval| top / interval <= INTERVALS_MAX)
        .unwrap_or(top);
    ticks(interval, (top / interval - 1e-9).ceil() * interval)
}

/// Round times from 0 to `end` at most.
pub(super) fn time_ticks(end: f64) -> Vec<f64> {
    let known = TIME_INTERVALS.into_iter().find(|interval| end / interval <= INTERVALS_MAX);
    let week = 604_800.0;
    let interval = known.unwrap_or_else(|| (end / INTERVALS_MAX / week).ceil() * week);
    ticks(interval, end)
}

fn ticks(interval: f64, end: f64) -> Vec<f64> {
    let mut ticks = vec![0.0];
    let mut next = interval;
    while next <= end * (1.0 + 1e-9) {
        ticks.push(next);
        next += interval;
    }
    ticks
}

/// A time as people write it: `40s`, `1h30m`, `2d6h`.
pub fn time_text(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
    let whole = seconds.round() as i64;
    let units = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let first = units.iter().position(|(_, size)| whole.abs() >= *size).unwrap_or(3);
    let shown = units.iter().skip(first).take(2);
    let text: String = shown
        .filter_map(|(unit, size)| {
            let number =
                if *size == units[first].1 { whole / size } else { whole % units[first].1 / size };
            (number != 0).then(|| format!("{number}{unit}"))
        })
        .collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(value_ticks(32.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(value_ticks(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(value_ticks(0.0), [0.0, 0.2, 0.4, 0.600_000_000_000_000_1, 0.8, 1.0]);
        assert_eq!(time_ticks(3600.0), [0.0, 900.0, 1800.0, 2700.0, 3600.0]);
        assert_eq!(time_ticks(100.0 * 86_400.0).len(), 5);
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let texts = [0.0, 40.0, 90.0, 3600.0, 5400.0, 86_400.0, 200_000.0].map(time_text);
        assert_eq!(texts, ["0s", "40s", "1m30s", "1h", "1h30m", "1d", "2d7h"]);
    }

    #[test]
    fn values_outside_are_moved_to_the_border() {
        let scale = Scale { from: 0.0, to: 10.0, low: 100.0, high: 0.0 };
        let places = [-1.0, 0.0, 5.0, 20.0].map(|value| format!("{}", scale.at(value)));
        assert_eq!(places, ["100", "100", "50", "0"]);
    }
}
