//! What the exit code of `schedlab conform` demands of a report.

use std::str::FromStr;

use super::profile::{Area, Level};
use super::regressions::ReportChanges;
use super::report::{AreaVerdict, ConformanceReport, ReportVerdict};
use crate::text::{counted_noun, nearest_word};

/// The demands of the command line on a report.
#[derive(Clone, Debug, Default)]
pub struct ConformanceGoals {
    /// Areas and levels in which every behaviour must pass. Empty, without a baseline: the verdict
    /// must not be "not conformant".
    pub required: Vec<RequiredLevel>,
    /// Maximum number of skipped behaviours; `None` means any.
    pub max_skipped: Option<usize>,
    /// An earlier report: what passed in it must pass again.
    pub baseline: Option<ConformanceReport>,
}

/// A level of an area in which every behaviour must pass, as `AREA[:LEVEL]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredLevel {
    /// The area.
    pub area: Area,
    /// The level; `extended` includes `core`.
    pub level: Level,
}

impl FromStr for RequiredLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (area, level) = text.split_once(':').unwrap_or((text, Level::Core.name()));
        let names = || Area::ALL.map(Area::name);
        let known_area = Area::ALL.into_iter().find(|known| known.name() == area);
        let known_level =
            [Level::Core, Level::Extended].into_iter().find(|known| known.name() == level);
        match (known_area, known_level) {
            (Some(area), Some(level)) => Ok(Self { area, level }),
            (None, _) => {
                let meant = nearest_word(area, names());
                let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                Err(format!("got area {area}, expected one of {}{hint}", names().join(", ")))
            }
            (Some(_), None) => Err(format!("got level {level}, expected core or extended")),
        }
    }
}

impl ConformanceGoals {
    /// The demands that a report does not meet, one sentence each.
    pub fn unmet(&self, report: &ConformanceReport) -> Vec<String> {
        let mut unmet = Vec::new();
        for RequiredLevel { area, level } in &self.required {
            let Some(results) = report.areas.get(area) else {
                unmet.push(format!("--require {area}: the profile has no such area"));
                continue;
            };
            if results.verdict != AreaVerdict::Conformant {
                unmet.push(format!("--require {area}: not every core behaviour passed"));
            }
            let counts = results.extended.counts;
            if *level == Level::Extended && counts.passed < counts.total {
                let missing = counts.total - counts.passed;
                unmet.push(format!(
                    "--require {area}:extended: {} did not pass",
                    counted_noun(missing, "behaviour")
                ));
            }
        }
        if let Some(baseline) = &self.baseline {
            unmet.extend(ReportChanges::between(baseline, report).regressions);
        } else if self.required.is_empty() && !report.profile.only.is_empty() {
            unmet.extend(report.failures().map(|(_, _, failed)| format!("{} failed", failed.id)));
        } else if self.required.is_empty() && report.verdict.result == ReportVerdict::NotConformant
        {
            unmet.push(format!("{} is not conformant", report.implementation.name));
        }
        let skipped = report.skipped_count();
        if let Some(max) = self.max_skipped.filter(|max| skipped > *max) {
            let skipped = counted_noun(skipped, "behaviour");
            unmet.push(format!("--max-skipped {max}: {skipped} skipped"));
        }
        unmet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_level_names_an_area_and_a_level() {
        let parsed = |text: &str| text.parse::<RequiredLevel>();
        let core = RequiredLevel { area: Area::Gang, level: Level::Core };
        assert_eq!(parsed("gang"), Ok(core));
        assert_eq!(parsed("gang:core"), Ok(core));
        assert_eq!(parsed("gang:extended").map(|one| one.level), Ok(Level::Extended));
        let error = parsed("gangs").unwrap_err();
        assert!(error.ends_with("did you mean gang?"), "{error}");
        assert_eq!(parsed("gang:must").unwrap_err(), "got level must, expected core or extended");
    }
}
