//! Promises: thresholds that side B has to keep, such as `team-07 wait-p90 < 1h`.

use std::fmt;
use std::path::Path;

use schedlab_conformance::text::{did_you_mean_suffix, parse_duration, read_text_file};
use serde::Serialize;

use super::comparison::ComparedFigure;
use super::figure::{Figure, FigureKey, Unit};
use crate::inputs::to_f64;

/// A promise about a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Promise {
    /// A queue, a size, or `fleet`.
    of: String,
    figure: Figure,
    relation: Relation,
    threshold: f64,
    /// The promise as it was written.
    text: String,
    /// Number of the promise in its file, from 1.
    number: usize,
}

/// How a figure and its threshold compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Whether a promise is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The promise.
    pub promise: String,
    /// The part of the seeds for which A keeps it, from 0 to 1.
    pub kept_by_a: f64,
    /// The part of the seeds for which B keeps it.
    pub kept_by_b: f64,
    /// The mean of the figure of A, with its unit.
    pub a: String,
    /// The mean of the figure of B.
    pub b: String,
    /// Whether B keeps the promise: for nine of ten seeds.
    pub is_kept: bool,
}

/// A promise is kept if it holds for this part of the seeds.
const KEPT_PART: f64 = 0.9;

/// What a promise looks like, for messages.
const FORM: &str = "OF FIGURE RELATION VALUE, such as `team-07 wait-p90 < 1h`";

/// An error in a file of promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PromiseError(String);

/// Reads a file of promises: a YAML list of texts.
///
/// # Errors
/// The file cannot be read, or an entry is no promise.
pub(super) fn read_promises(path: &Path) -> Result<Vec<Promise>, PromiseError> {
    let file = path.display().to_string();
    let text =
        read_text_file(path).map_err(|error| PromiseError(error.message_with_file(&file)))?;
    let texts: Vec<String> = serde_yaml::from_str(&text).map_err(|error| {
        PromiseError(format!("{file}: {error}, expected a list of promises: {FORM}"))
    })?;
    let parse = |number: usize, text: &str| {
        Promise::parse(text, number)
            .map_err(|error| PromiseError(format!("{file}: promise {number}: {error}")))
    };
    if texts.is_empty() {
        return Err(PromiseError(format!(
            "{file}: got no promise, expected a list of promises: {FORM}"
        )));
    }
    (1..).zip(&texts).map(|(number, text)| parse(number, text)).collect()
}

/// Checks that each promise of a file is about one of these queues and sizes, or about the fleet.
///
/// # Errors
/// The file is invalid, or a promise names something else.
pub(super) fn check_promises(path: &Path, names: &[String]) -> Result<(), PromiseError> {
    let promises = read_promises(path)?;
    let unknown = promises.iter().find(|promise| !names.contains(&promise.of));
    unknown.map_or(Ok(()), |promise| {
        let error = promise.unknown_name_error(names.iter().map(String::as_str));
        Err(PromiseError(format!("{}: {error}", path.display())))
    })
}

impl Promise {
    fn parse(text: &str, number: usize) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|word| Relation::parse(word).is_some());
        let form = || format!("got {text:?}, expected {FORM}");
        let at = at.filter(|at| *at >= 2 && *at + 1 < words.len()).ok_or_else(form)?;
        let figure = Figure::parse(words[at - 1])?;
        let value = words[at + 1..].concat();
        Ok(Self {
            of: words[..at - 1].join(" "),
            figure,
            relation: Relation::parse(words[at]).ok_or_else(form)?,
            threshold: parse_value(figure.unit(), &value)?,
            text: text.to_owned(),
            number,
        })
    }

    /// Judges the promise by the compared figures.
    ///
    /// # Errors
    /// No figure is of what the promise names.
    pub(super) fn judge(&self, rows: &[ComparedFigure]) -> Result<Verdict, PromiseError> {
        let is_named = |key: &FigureKey| key.of == self.of && key.figure == self.figure;
        let Some(row) = rows.iter().find(|row| is_named(&row.key)) else {
            let named = rows.iter().filter(|row| row.key.figure == self.figure);
            return Err(self.unknown_name_error(named.map(|row| row.key.of.as_str())));
        };
        let never = |side: fn(&ComparedFigure) -> &Vec<Option<f64>>| {
            // A wait that no job has ended is broken, not kept.
            let is_never = |row: &&ComparedFigure| {
                row.key.of == self.of && row.key.figure == Figure::NeverStarted
            };
            rows.iter().find(is_never).map(|row| side(row).clone()).unwrap_or_default()
        };
        let a = self.kept_part(&row.a, &never(|row| &row.a));
        let b = self.kept_part(&row.b, &never(|row| &row.b));
        let unit = self.figure.unit();
        let text = |mean: Option<f64>| mean.map_or("-".to_owned(), |mean| unit.text(mean));
        Ok(Verdict {
            promise: self.text.clone(),
            kept_by_a: a,
            kept_by_b: b,
            a: text(row.mean_a()),
            b: text(row.mean_b()),
            is_kept: b >= KEPT_PART,
        })
    }

    fn unknown_name_error<'n>(&self, names: impl Iterator<Item = &'n str>) -> PromiseError {
        let names: Vec<&str> = names.collect();
        let hint = did_you_mean_suffix(&self.of, names.iter().copied());
        PromiseError(format!(
            "promise {}: got {} of {:?}, expected that of {}{hint}",
            self.number,
            self.figure.name(),
            self.of,
            names.join(", ")
        ))
    }

    fn kept_part(&self, values: &[Option<f64>], never_started: &[Option<f64>]) -> f64 {
        let never_started = never_started.iter().copied().chain(std::iter::repeat(None));
        let seeds = values.iter().zip(never_started);
        let kept = seeds.filter(|(value, never)| self.is_kept(**value, *never)).count();
        to_f64(kept) / to_f64(values.len().max(1))
    }

    /// Whether a seed keeps the promise. Without a value it does if no job waited forever.
    fn is_kept(&self, value: Option<f64>, never_started: Option<f64>) -> bool {
        match value {
            Some(value) => self.relation.holds(value, self.threshold),
            None => never_started.unwrap_or_default() <= 0.0,
        }
    }
}

impl Relation {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "<" => Some(Self::Below),
            "<=" | "≤" => Some(Self::AtMost),
            ">" => Some(Self::Above),
            ">=" | "≥" => Some(Self::AtLeast),
            _ => None,
        }
    }

    fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Below => value < threshold,
            Self::AtMost => value <= threshold,
            Self::Above => value > threshold,
            Self::AtLeast => value >= threshold,
        }
    }
}

fn parse_value(unit: Unit, text: &str) -> Result<f64, String> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let (value, expected) = match unit {
        Unit::Seconds => (
            parse_duration(text).ok().map(|duration| duration.as_secs_f64()),
            "a duration, such as 1h or 90m",
        ),
        // Without its sign, 0.95 would be less than one percent.
        Unit::Percent => (text.strip_suffix('%').and_then(number), "a percentage, such as 95%"),
        Unit::Count | Unit::GpuHours => (number(text), "a number"),
    };
    value.ok_or_else(|| format!("got value {text:?}, expected {expected}"))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_kept { "kept" } else { "broken" };
        let percent = |part: f64| (100.0 * part).round();
        write!(
            f,
            "{word}: {}: B {} on average, holds for {} % of the seeds (A {}, {} %)",
            self.promise,
            self.b,
            percent(self.kept_by_b),
            self.a,
            percent(self.kept_by_a)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::figure::Scope;
    use crate::compare::statistics::Interval;

    fn row(of: &str, figure: Figure, b: &[f64]) -> ComparedFigure {
        let values: Vec<Option<f64>> = b.iter().copied().map(Some).collect();
        ComparedFigure {
            key: FigureKey { scope: Scope::Queue, of: of.to_owned(), figure },
            a: values.clone(),
            b: values,
            differences: vec![0.0; b.len()],
            interval: Interval { low: 0.0, high: 0.0 },
            probability: 1.0,
            is_beyond_chance: false,
        }
    }

    #[test]
    fn a_promise_is_kept_if_it_holds_for_nine_of_ten_seeds() {
        let promise = Promise::parse("team-07 wait-p90 < 1 h", 1).unwrap();
        let verdict = |slow: usize| {
            let waits: Vec<f64> = (0..10).map(|at| if at < slow { 4000.0 } else { 60.0 }).collect();
            promise.judge(&[row("team-07", Figure::WaitP90, &waits)]).unwrap()
        };
        assert!(verdict(1).is_kept);
        assert!(!verdict(2).is_kept);
        assert_eq!(
            verdict(2).to_string(),
            "broken: team-07 wait-p90 < 1 h: B 14.1m on average, holds for 80 % of the seeds (A \
             14.1m, 80 %)"
        );
    }

    #[test]
    fn an_invalid_promise_names_what_it_expected() {
        let error = |text: &str| Promise::parse(text, 1).unwrap_err();
        assert_eq!(
            error("team-07 waits"),
            "got \"team-07 waits\", expected OF FIGURE RELATION VALUE, such as `team-07 wait-p90 < 1h`"
        );
        assert_eq!(
            error("team-07 wait-q90 < 1h"),
            "got figure \"wait-q90\", expected one of utilisation, fragmentation, gpu-hours, \
             quota-kept, wait-p50, wait-p90, wait-p99, longest-wait, never-started, evictions, \
             lost-gpu-hours; did you mean `wait-p90`?"
        );
        assert_eq!(
            error("team-07 wait-p90 < 1x"),
            "got value \"1x\", expected a duration, such as 1h or 90m"
        );
        assert_eq!(
            error("fleet utilisation >= 0.5"),
            "got value \"0.5\", expected a percentage, such as 95%"
        );
        let promise = Promise::parse("taem-07 wait-p90 < 1h", 3).unwrap();
        assert_eq!(
            promise.judge(&[row("team-07", Figure::WaitP90, &[1.0])]).unwrap_err().to_string(),
            "promise 3: got wait-p90 of \"taem-07\", expected that of team-07; did you mean `team-07`?"
        );
    }
}
