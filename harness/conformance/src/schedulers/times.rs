//! The own times of a scheduler that schedlab does not configure: its target file declares them,
//! and waiting on a real cluster is bounded by them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::text;

/// How often a scheduler acts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTimes {
    /// The time from one scheduling cycle to the next, or until the scheduler reacts to a change.
    pub cycle: Duration,
    /// The longest time after which the scheduler tries a pending pod again.
    pub backoff: Duration,
}

impl Default for OwnTimes {
    /// Those of a scheduler that says nothing about them: as kube-scheduler's.
    fn default() -> Self {
        Self { cycle: Duration::from_secs(1), backoff: Duration::from_secs(10) }
    }
}

/// The keys of `times` in a target file.
const KEYS: [&str; 2] = ["cycle", "backoff"];

/// The longest time that a target file may declare: scenarios wait for a multiple of it.
const TIME_MAX: Duration = Duration::from_mins(10);

impl OwnTimes {
    /// Parses the field `times` of a target file. Times that it omits have their defaults.
    pub(super) fn parse(fields: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut times = Self::default();
        for (key, value) in fields {
            let time = match key.as_str() {
                "cycle" => &mut times.cycle,
                "backoff" => &mut times.backoff,
                other => return Err(format!("got {other:?}, expected {}", KEYS.join(" or "))),
            };
            *time = text::parse_duration(value)
                .ok()
                .filter(|time| !time.is_zero() && *time <= TIME_MAX)
                .ok_or_else(|| {
                    format!("{key}: got {value:?}, expected a time such as 1s, up to 10m")
                })?;
        }
        Ok(times)
    }

    /// The shortest time in which a claim about what does not happen means something: the scheduler
    /// has tried every pending pod again, twice.
    pub fn two_attempts(self) -> Duration {
        2 * (self.backoff + self.cycle)
    }

    /// How long schedlab waits for something that happens in no time of the scenario: several
    /// attempts, and as much for a busy machine.
    pub(crate) fn patience(self) -> Duration {
        10 * (self.backoff + self.cycle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &[(&str, &str)]) -> Result<OwnTimes, String> {
        let fields = fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        OwnTimes::parse(&fields.collect())
    }

    #[test]
    fn times_of_a_target_file_have_defaults_and_bounds() {
        let times = parse(&[("cycle", "2s")]).unwrap();
        assert_eq!((times.cycle.as_secs(), times.backoff.as_secs()), (2, 10));
        assert_eq!(times.two_attempts(), Duration::from_secs(24));
        assert_eq!(
            parse(&[("back", "2s")]).unwrap_err(),
            "got \"back\", expected cycle or backoff"
        );
        for invalid in ["0s", "11m", "soon"] {
            let expected =
                format!("backoff: got {invalid:?}, expected a time such as 1s, up to 10m");
            assert_eq!(parse(&[("backoff", invalid)]).unwrap_err(), expected);
        }
    }
}
