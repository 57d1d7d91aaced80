//! Parameter types of steps and their syntax.

use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use cucumber::Parameter;

use crate::text::{DURATION_REGEX, go_duration_text, parse_duration};
use crate::world::Temporal;
use crate::world::observed::Phase;

/// A duration in a step: `90 seconds`, `10m`, `1h 30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurationValue(pub Duration);

impl Parameter for DurationValue {
    const NAME: &'static str = "duration";
    const REGEX: &'static str = DURATION_REGEX;
}

impl FromStr for DurationValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_duration(text).map(Self)
    }
}

impl DurationValue {
    /// The duration in Go's notation: in whole seconds, or in milliseconds if there is a fraction
    /// of a second.
    pub(crate) fn go_duration(self) -> anyhow::Result<String> {
        let Self(time) = self;
        go_duration_text(time)
            .with_context(|| format!("got {time:?}, expected a whole number of milliseconds"))
    }
}

/// A duration in a step that must be more than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositiveDuration(pub Duration);

impl Parameter for PositiveDuration {
    const NAME: &'static str = "duration";
    const REGEX: &'static str = DURATION_REGEX;
}

impl FromStr for PositiveDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let DurationValue(time) = text.parse()?;
        if time.is_zero() {
            return Err(format!("got {text}, expected a duration of more than 0 seconds"));
        }
        Ok(Self(time))
    }
}

/// A whole number in a step, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositiveInt(pub u32);

impl FromStr for PositiveInt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let most = i32::MAX.unsigned_abs();
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        let wrong = || format!("got {text}, expected a whole number from 1 to {most}");
        number.map(Self).ok_or_else(wrong)
    }
}

/// KAI's `kValue` (the weight of past usage) in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KValueMilli(pub i64);

impl FromStr for KValueMilli {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let k: Option<f64> = text.parse().ok().filter(|k| (0.0..=1000.0).contains(k));
        let k = k.ok_or_else(|| format!("got {text}, expected a number from 0 to 1000"))?;
        #[expect(clippy::cast_possible_truncation, reason = "it is at most a million")]
        Ok(Self((k * 1000.0).round() as i64))
    }
}

/// When an assertion must hold; empty: once everything has settled.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "when",
    regex = "(?:(?:eventually within|never within|after|for) [0-9]+(?:[.][0-9]+)? ?[a-z]+(?: ?[0-9]+(?:[.][0-9]+)? ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?))*,? |now,? )?"
)]
pub(crate) struct Timing(pub Temporal);

impl FromStr for Timing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().trim_end_matches(',');
        let word = |word: &str| text.strip_prefix(word).map(parse_duration);
        let timed = [
            (word("eventually within "), Temporal::EventuallyWithin as fn(Duration) -> Temporal),
            (word("never within "), Temporal::NeverWithin),
            (word("after "), Temporal::After),
            (word("for "), Temporal::For),
        ];
        for (time, of) in timed {
            let Some(time) = time else { continue };
            let time = time?;
            if time.is_zero() && !text.starts_with("after") {
                return Err(format!("got {text}, expected more than 0 seconds"));
            }
            return Ok(Self(of(time)));
        }
        Ok(Self(if text == "now" { Temporal::Now } else { Temporal::Settled }))
    }
}

/// The number N in `and stays so for N cycles`; 0 without these words.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "stays", regex = "(?:,? and stays so for [0-9]+ cycles?)?")]
pub(crate) struct StableCycles(pub u32);

impl FromStr for StableCycles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        match digits.as_str() {
            "" => Ok(Self(0)),
            digits if digits.bytes().all(|digit| digit == b'0') => {
                Err("got 0 cycles, expected at least one".to_owned())
            }
            digits => digits.parse().map(Self).map_err(|_| {
                format!(
                    "got {digits} cycles, expected \
                at most {}",
                    u32::MAX
                )
            }),
        }
    }
}

/// A number or a bound in a step: `8`, `no`, `at least 2`, `at most 3`.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "count", regex = "(?:at least |at most )?(?:no|[0-9]+)")]
pub(crate) enum Count {
    /// Exactly this number.
    Exactly(usize),
    /// This number or more.
    AtLeast(usize),
    /// This number or fewer.
    AtMost(usize),
}

impl Count {
    /// Whether `number` satisfies this number or bound.
    pub(crate) fn matches(self, number: usize) -> bool {
        match self {
            Self::Exactly(count) => number == count,
            Self::AtLeast(count) => number >= count,
            Self::AtMost(count) => number <= count,
        }
    }

    /// The smallest number that satisfies this number or bound.
    pub(crate) fn lower_bound(self) -> usize {
        match self {
            Self::Exactly(count) | Self::AtLeast(count) => count,
            Self::AtMost(_) => 0,
        }
    }
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| match text {
            "no" => Ok(0),
            digits => digits.parse().map_err(|_| {
                format!("got {digits}, expected a whole number from 0 to {}", usize::MAX)
            }),
        };
        match (text.strip_prefix("at least "), text.strip_prefix("at most ")) {
            (Some(rest), _) => match number(rest)? {
                0 => Err(format!("got {text}, which always holds; expected `at least 1` or more")),
                count => Ok(Self::AtLeast(count)),
            },
            (_, Some(rest)) => number(rest).map(Self::AtMost),
            (None, None) => number(text).map(Self::Exactly),
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(0) => f.write_str("no"),
            Self::Exactly(count) => write!(f, "{count}"),
            Self::AtLeast(count) => write!(f, "at least {count}"),
            Self::AtMost(count) => write!(f, "at most {count}"),
        }
    }
}

/// Pod counts by state: `8 running and 4 pending pods`, `no pods`, `at least 2 pods`.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "pods",
    regex = "(?:at least |at most )?(?:no|[0-9]+)(?: (?:running|pending|gated|starting|terminating|succeeded|failed))?(?:(?:,| and) (?:at least |at most )?(?:no|[0-9]+) (?:running|pending|gated|starting|terminating|succeeded|failed))* pods?"
)]
pub(crate) struct PodCounts(pub Vec<(Count, Option<Phase>)>);

impl FromStr for PodCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim_end_matches('s').trim_end_matches(" pod");
        let parts = text.split(" and ").flat_map(|part| part.split(", "));
        let part = |part: &str| match part.rsplit_once(' ').map(|(c, p)| (c, parse_phase(p))) {
            Some((count, Some(phase))) => Ok((count.parse()?, Some(phase))),
            Some((_, None)) | None => Ok((part.parse()?, None)),
        };
        parts.map(part).collect::<Result<_, String>>().map(Self)
    }
}

fn parse_phase(word: &str) -> Option<Phase> {
    let phases = [
        Phase::Pending,
        Phase::Gated,
        Phase::Starting,
        Phase::Running,
        Phase::Terminating,
        Phase::Succeeded,
        Phase::Failed,
    ];
    phases.into_iter().find(|phase| phase.to_string() == word)
}

/// The state of all pods of a workload. `None` stands for `gone`: there are no pods.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "state", regex = "running|pending|gated|starting|terminating|succeeded|failed|gone")]
pub(crate) struct WorkloadState(pub Option<Phase>);

impl FromStr for WorkloadState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(parse_phase(text)))
    }
}

/// The state of a node in a step.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "condition", regex = "ready|not ready|cordoned|gone")]
pub(crate) enum NodeState {
    /// The node exists and sends heartbeats.
    Ready,
    /// The node exists and sends no heartbeats.
    NotReady,
    /// The node is marked as unschedulable.
    Cordoned,
    /// The node does not exist.
    Gone,
}

impl FromStr for NodeState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "ready" => Ok(Self::Ready),
            "not ready" => Ok(Self::NotReady),
            "cordoned" => Ok(Self::Cordoned),
            "gone" => Ok(Self::Gone),
            _ => Err(format!("got {text}, expected ready, not ready, cordoned and gone")),
        }
    }
}

impl std::fmt::Display for NodeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::NotReady => "not ready",
            Self::Cordoned => "cordoned",
            Self::Gone => "gone",
        })
    }
}

/// A field of a queue, by its table column.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "field",
    regex = "quota|weight|limit|priority|cpu quota|cpu weight|cpu limit|memory quota|memory weight|memory limit"
)]
pub(crate) struct QueueField(pub String);

impl FromStr for QueueField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// An amount of a queue field in a step: a number, `unlimited` or `unset`.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(name = "amount", regex = "-?[0-9]+(?:[.][0-9]+)?|unlimited|unset")]
pub(crate) struct QueueAmount(pub String);

impl FromStr for QueueAmount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// The resources that queues account for.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "resource", regex = "GPUs?|CPU cores?|GB of memory")]
pub(crate) enum Resource {
    /// GPUs: `nvidia.com/gpu`.
    Gpu,
    /// CPU cores: `cpu`.
    Cpu,
    /// Memory in GB: `memory`.
    Memory,
}

impl Resource {
    /// The word for the unit of an amount: `GPU`, `CPU cores`, `GB of memory`.
    pub(crate) fn unit_text(self, amount: f64) -> &'static str {
        let is_one = (amount - 1.0).abs() < 1e-6;
        match self {
            Self::Gpu if is_one => "GPU",
            Self::Gpu => "GPUs",
            Self::Cpu if is_one => "CPU core",
            Self::Cpu => "CPU cores",
            Self::Memory => "GB of memory",
        }
    }
}

impl FromStr for Resource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.chars().next() {
            Some('C') => Self::Cpu,
            Some('G') if text.starts_with("GB") => Self::Memory,
            _ => Self::Gpu,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_words_have_one_meaning_each() {
        let minute = Duration::from_mins(1);
        let of = |text: &str| text.parse::<Timing>().map(|when| when.0);
        assert_eq!(of(""), Ok(Temporal::Settled));
        assert_eq!(of("now "), Ok(Temporal::Now));
        assert_eq!(of("eventually within 1 minute, "), Ok(Temporal::EventuallyWithin(minute)));
        assert_eq!(of("for 60s "), Ok(Temporal::For(minute)));
        assert_eq!(of("never within 1m "), Ok(Temporal::NeverWithin(minute)));
        assert_eq!(of("after 60 seconds "), Ok(Temporal::After(minute)));
        assert_eq!(of("after 1h 30m, "), Ok(Temporal::After(90 * minute)));
        let regex = regex::Regex::new(&format!("^{}$", Timing::REGEX)).unwrap();
        for text in ["for 60s ", "after 1h30m, ", "never within 1 hour 30 minutes "] {
            assert!(regex.is_match(text), "{text}");
        }
        assert!(of("after 3 moons ").is_err());
    }

    #[test]
    fn parts_of_a_second_are_kept() {
        let written = |text: &str| text.parse::<DurationValue>().unwrap().go_duration().ok();
        assert_eq!(written("10 minutes").as_deref(), Some("600s"));
        assert_eq!(written("900 ms").as_deref(), Some("900ms"));
        assert_eq!(written("1.9 seconds").as_deref(), Some("1900ms"));
        assert_eq!(written("0.5 ms"), None);
    }

    #[test]
    fn a_bound_that_always_holds_is_rejected() {
        let error = |text: &str| text.parse::<Count>().unwrap_err();
        assert_eq!(
            error("at least no"),
            "got at least no, which always holds; expected `at least 1` or more"
        );
        assert_eq!(
            error("at least 0"),
            "got at least 0, which always holds; expected `at least 1` or more"
        );
        assert!("at least no running pods".parse::<PodCounts>().is_err());
        assert_eq!("at most no".parse(), Ok(Count::AtMost(0)));
        assert_eq!(
            error("99999999999999999999"),
            "got 99999999999999999999, expected a whole number from 0 to 18446744073709551615"
        );
    }

    #[test]
    fn pod_counts_parse_by_state() {
        let counts: PodCounts =
            "8 running, no starting and at least 4 pending pods".parse().unwrap();
        assert_eq!(
            counts.0,
            [
                (Count::Exactly(8), Some(Phase::Running)),
                (Count::Exactly(0), Some(Phase::Starting)),
                (Count::AtLeast(4), Some(Phase::Pending)),
            ]
        );
        assert_eq!("no pods".parse::<PodCounts>().unwrap().0, [(Count::Exactly(0), None)]);
        assert_eq!(
            "1 failed pod".parse::<PodCounts>().unwrap().0,
            [(Count::Exactly(1), Some(Phase::Failed))]
        );
    }
}
