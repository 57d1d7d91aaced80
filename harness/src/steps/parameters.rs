//! The values that steps take, as people write them.

use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use cucumber::Parameter;

use crate::text::{DURATION, duration, written};
use crate::view::Phase;
use crate::world::TimeWord;

/// `90 seconds`, `10m`, `1h 30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Parameter for Span {
    const NAME: &'static str = "duration";
    const REGEX: &'static str = DURATION;
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        duration(text).map(Self)
    }
}

impl Span {
    /// As objects say it: in whole seconds or, where there is a part of one, in milliseconds.
    pub(crate) fn written(self) -> anyhow::Result<String> {
        let Self(time) = self;
        written(time)
            .with_context(|| format!("found {time:?}, allowed is a whole number of milliseconds"))
    }
}

/// The same, and more than none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SomeTime(pub(crate) Duration);

impl Parameter for SomeTime {
    const NAME: &'static str = "duration";
    const REGEX: &'static str = DURATION;
}

impl FromStr for SomeTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Span(time) = text.parse()?;
        if time.is_zero() {
            return Err(format!(
                "found {text}, allowed is a length of time of more than 0 seconds"
            ));
        }
        Ok(Self(time))
    }
}

/// A whole number that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtLeastOne(pub(crate) u32);

impl FromStr for AtLeastOne {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let most = i32::MAX.unsigned_abs();
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        let wrong = || format!("found {text}, allowed is a whole number from 1 to {most}");
        number.map(Self).ok_or_else(wrong)
    }
}

/// KAI's k, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KMilli(pub(crate) i64);

impl FromStr for KMilli {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let k: Option<f64> = text.parse().ok().filter(|k| (0.0..=1000.0).contains(k));
        let k = k.ok_or_else(|| format!("found {text}, allowed is a number from 0 to 1000"))?;
        #[expect(clippy::cast_possible_truncation, reason = "it is at most a million")]
        Ok(Self((k * 1000.0).round() as i64))
    }
}

/// When a claim must hold; nothing means: once everything has settled.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "when",
    regex = "(?:(?:eventually within|never within|after|for) [0-9]+(?:[.][0-9]+)? ?[a-z]+(?: ?[0-9]+(?:[.][0-9]+)? ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?))*,? |now,? )?"
)]
pub(crate) struct When(pub(crate) TimeWord);

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().trim_end_matches(',');
        let word = |word: &str| text.strip_prefix(word).map(duration);
        let timed = [
            (word("eventually within "), TimeWord::EventuallyWithin as fn(Duration) -> TimeWord),
            (word("never within "), TimeWord::NeverWithin),
            (word("after "), TimeWord::After),
            (word("for "), TimeWord::For),
        ];
        for (time, of) in timed {
            let Some(time) = time else { continue };
            let time = time?;
            if time.is_zero() && !text.starts_with("after") {
                return Err(format!("found {text}, allowed is more than 0 seconds"));
            }
            return Ok(Self(of(time)));
        }
        Ok(Self(if text == "now" { TimeWord::Now } else { TimeWord::Settled }))
    }
}

/// `and stays so for N cycles`; nothing means none.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "stays", regex = "(?:,? and stays so for [0-9]+ cycles?)?")]
pub(crate) struct Stays(pub(crate) u32);

impl FromStr for Stays {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        match digits.as_str() {
            "" => Ok(Self(0)),
            digits if digits.bytes().all(|digit| digit == b'0') => {
                Err("found 0 cycles, allowed is at least one".to_owned())
            }
            digits => digits.parse().map(Self).map_err(|_| format!("{digits} cycles: too many")),
        }
    }
}

/// A number that may be a bound: `8`, `no`, `at least 2`, `at most 3`.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "count", regex = "(?:at least |at most )?(?:no|[0-9]+)")]
pub(crate) enum Count {
    /// So many.
    Exactly(usize),
    /// So many or more.
    AtLeast(usize),
    /// So many or fewer.
    AtMost(usize),
}

impl Count {
    /// Whether a number is meant.
    pub(crate) fn means(self, number: usize) -> bool {
        match self {
            Self::Exactly(count) => number == count,
            Self::AtLeast(count) => number >= count,
            Self::AtMost(count) => number <= count,
        }
    }
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| match text {
            "no" => Ok(0),
            digits => digits.parse().map_err(|_| {
                format!("found {digits}, allowed is a whole number from 0 to {}", usize::MAX)
            }),
        };
        match (text.strip_prefix("at least "), text.strip_prefix("at most ")) {
            (Some(rest), _) => match number(rest)? {
                0 => Err(format!("found {text}, which all are; allowed is `at least 1` or more")),
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

/// Pods counted by state: `8 running and 4 pending pods`, `no pods`, `at least 2 pods`.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "tally",
    regex = "(?:at least |at most )?(?:no|[0-9]+)(?: (?:running|pending|gated|starting|terminating|succeeded|failed))?(?:(?:,| and) (?:at least |at most )?(?:no|[0-9]+) (?:running|pending|gated|starting|terminating|succeeded|failed))* pods?"
)]
pub(crate) struct Tally(pub(crate) Vec<(Count, Option<Phase>)>);

impl FromStr for Tally {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim_end_matches('s').trim_end_matches(" pod");
        let parts = text.split(" and ").flat_map(|part| part.split(", "));
        let part = |part: &str| match part.rsplit_once(' ').map(|(c, p)| (c, phase(p))) {
            Some((count, Some(phase))) => Ok((count.parse()?, Some(phase))),
            Some((_, None)) | None => Ok((part.parse()?, None)),
        };
        parts.map(part).collect::<Result<_, String>>().map(Self)
    }
}

fn phase(word: &str) -> Option<Phase> {
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

/// The state of all of a workload's pods; `gone`: there is none.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "state", regex = "running|pending|gated|starting|terminating|succeeded|failed|gone")]
pub(crate) struct State(pub(crate) Option<Phase>);

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(phase(text)))
    }
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "condition", regex = "ready|not ready|cordoned|gone")]
pub(crate) enum Condition {
    /// It is there and its heartbeats come.
    Ready,
    /// It is there and they do not.
    NotReady,
    /// No new pod may go to it.
    Cordoned,
    /// It is not there.
    Gone,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "ready" => Ok(Self::Ready),
            "not ready" => Ok(Self::NotReady),
            "cordoned" => Ok(Self::Cordoned),
            "gone" => Ok(Self::Gone),
            _ => Err(format!("found {text}, allowed are ready, not ready, cordoned and gone")),
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::NotReady => "not ready",
            Self::Cordoned => "cordoned",
            Self::Gone => "gone",
        })
    }
}

/// A field of a queue, as tables name it.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "field",
    regex = "quota|weight|limit|priority|cpu quota|cpu weight|cpu limit|memory quota|memory weight|memory limit"
)]
pub(crate) struct Field(pub(crate) String);

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// An amount for a queue: a number, `unlimited` or `unset`.
#[derive(Clone, Debug, Parameter, PartialEq, Eq)]
#[param(name = "amount", regex = "-?[0-9]+(?:[.][0-9]+)?|unlimited|unset")]
pub(crate) struct Amount(pub(crate) String);

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// What queues account for.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(name = "resource", regex = "GPUs?|CPU cores?|GB of memory")]
pub(crate) enum Resource {
    /// `nvidia.com/gpu`.
    Gpu,
    /// `cpu`.
    Cpu,
    /// `memory`.
    Memory,
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
        let of = |text: &str| text.parse::<When>().map(|when| when.0);
        assert_eq!(of(""), Ok(TimeWord::Settled));
        assert_eq!(of("now "), Ok(TimeWord::Now));
        assert_eq!(of("eventually within 1 minute, "), Ok(TimeWord::EventuallyWithin(minute)));
        assert_eq!(of("for 60s "), Ok(TimeWord::For(minute)));
        assert_eq!(of("never within 1m "), Ok(TimeWord::NeverWithin(minute)));
        assert_eq!(of("after 60 seconds "), Ok(TimeWord::After(minute)));
        assert_eq!(of("after 1h 30m, "), Ok(TimeWord::After(90 * minute)));
        let regex = regex::Regex::new(&format!("^{}$", When::REGEX)).unwrap();
        for text in ["for 60s ", "after 1h30m, ", "never within 1 hour 30 minutes "] {
            assert!(regex.is_match(text), "{text}");
        }
        assert!(of("after 3 moons ").is_err());
    }

    #[test]
    fn parts_of_a_second_are_kept() {
        let written = |text: &str| text.parse::<Span>().unwrap().written().ok();
        assert_eq!(written("10 minutes").as_deref(), Some("600s"));
        assert_eq!(written("900 ms").as_deref(), Some("900ms"));
        assert_eq!(written("1.9 seconds").as_deref(), Some("1900ms"));
        assert_eq!(written("0.5 ms"), None);
    }

    #[test]
    fn a_bound_that_all_keep_is_none() {
        let told = |text: &str| text.parse::<Count>().unwrap_err();
        assert_eq!(
            told("at least no"),
            "found at least no, which all are; allowed is `at least 1` or more"
        );
        assert_eq!(
            told("at least 0"),
            "found at least 0, which all are; allowed is `at least 1` or more"
        );
        assert!("at least no running pods".parse::<Tally>().is_err());
        assert_eq!("at most no".parse(), Ok(Count::AtMost(0)));
        assert_eq!(
            told("99999999999999999999"),
            "found 99999999999999999999, allowed is a whole number from 0 to 18446744073709551615"
        );
    }

    #[test]
    fn tallies_count_by_state() {
        let tally: Tally = "8 running, no starting and at least 4 pending pods".parse().unwrap();
        assert_eq!(
            tally.0,
            [
                (Count::Exactly(8), Some(Phase::Running)),
                (Count::Exactly(0), Some(Phase::Starting)),
                (Count::AtLeast(4), Some(Phase::Pending)),
            ]
        );
        assert_eq!("no pods".parse::<Tally>().unwrap().0, [(Count::Exactly(0), None)]);
        assert_eq!(
            "1 failed pod".parse::<Tally>().unwrap().0,
            [(Count::Exactly(1), Some(Phase::Failed))]
        );
    }
}
