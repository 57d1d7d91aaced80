//! Selection of cases by the command line.

use std::collections::BTreeSet;
use std::path::Path;

use super::case::Case;
use super::tags::TagExpression;
use super::{FeaturePath, display_path};
use crate::report::{CaseTimes, PlannedScenario, Shard, assign_shards};

/// Which cases to run; all criteria must hold.
#[derive(Clone, Debug, Default)]
pub struct CaseQuery {
    /// Files, folders and lines; a case must match one of them.
    pub paths: Vec<FeaturePath>,
    /// Condition that the case's tags must satisfy.
    pub tags: Option<TagExpression>,
    /// A case's name must contain (or equal) one of these texts; empty means any name.
    pub names: Vec<String>,
    /// Whether a case's name must equal one of `names` instead of containing it.
    pub exact: bool,
    /// A case's id must be one of these.
    pub ids: Option<BTreeSet<String>>,
    /// The part of the selected cases to run.
    pub shard: Option<Shard>,
    /// Times of an earlier run, by which the parts take about the same time.
    pub times: Option<CaseTimes>,
}

/// The cases that a query selects.
#[derive(Clone, Debug, Default)]
pub struct SelectedCases<'a> {
    /// The cases to run, in their order: all of the selection, or those of its shard.
    pub cases: Vec<&'a Case>,
    /// The whole selection with the shard of each case; empty for a query without a shard.
    pub plan: Vec<PlannedScenario>,
}

impl SelectedCases<'_> {
    /// Whether the query selects no case, in this shard or another.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty() && self.plan.is_empty()
    }
}

/// The cases that a query selects, in their order.
pub fn select_cases<'a>(cases: &'a [Case], query: &CaseQuery) -> SelectedCases<'a> {
    let chosen = cases.iter().filter(|case| query.matches(case));
    let located =
        chosen.filter(|case| query.paths.iter().any(|path| is_at_path(path, case, cases)));
    let located: Vec<&Case> = located.collect();
    let Some(shard) = query.shard else {
        return SelectedCases { cases: located, plan: Vec::new() };
    };
    let ids: Vec<String> = located.iter().map(|case| case.id()).collect();
    let shard_of = assign_shards(&ids, shard.count(), query.times.as_ref());
    let of_shard = located.into_iter().zip(&shard_of).filter(|(_, of)| **of == shard.index());
    let cases = of_shard.map(|(case, _)| case).collect();
    let planned = ids.into_iter().zip(shard_of);
    let plan = planned.map(|(id, shard)| PlannedScenario { id, shard }).collect();
    SelectedCases { cases, plan }
}

impl CaseQuery {
    fn matches(&self, case: &Case) -> bool {
        let tags = self.tags.as_ref().is_none_or(|tags| tags.matches_tags(&case.tags));
        let name = self.names.is_empty()
            || self.names.iter().any(|name| {
                if self.exact { case.name == *name } else { case.name.contains(name.as_str()) }
            });
        let id = self.ids.as_ref().is_none_or(|ids| ids.contains(&case.id()));
        tags && name && id
    }
}

fn is_at_path(requested: &FeaturePath, case: &Case, cases: &[Case]) -> bool {
    let path = display_path(&requested.path);
    let inside = Path::new(&case.location.file).starts_with(&path) || path == ".";
    let Some(line) = requested.line else { return inside };
    if !inside {
        return false;
    }
    let is_row = |c: &Case| c.location.file == case.location.file && c.location.line == line;
    if cases.iter().any(is_row) {
        return case.location.line == line;
    }
    // A line above every scenario selects the whole feature.
    case.location.scenario.contains(&line)
        || !cases
            .iter()
            .any(|c| c.location.file == case.location.file && c.location.scenario.start <= line)
}

/// Ids of the cases that failed in the last run, from the text of its `report.json`.
///
/// # Errors
/// The text is not such a report.
pub fn last_failed_ids(report: &str) -> anyhow::Result<BTreeSet<String>> {
    let report: crate::report::Report = serde_json::from_str(report)?;
    Ok(report.failed_case_ids())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::load_text;

    const TEXT: &str = "Feature: f
  @fast
  Scenario: a gang waits
    Given a
  Scenario Outline: queue <q> waits
    Given <q>
    Examples:
      | q |
      | x |
      | y |
";

    fn names(query: &CaseQuery) -> Vec<String> {
        let cases =
            load_text("features/f.feature", TEXT, crate::steps::catalogue::is_step).unwrap();
        select_cases(&cases, query).cases.into_iter().map(|case| case.name.clone()).collect()
    }

    fn at_path(path: &str) -> CaseQuery {
        let (path, line) = path.split_once(':').map_or((path, None), |(p, l)| (p, l.parse().ok()));
        CaseQuery {
            paths: vec![FeaturePath { line, ..FeaturePath::on_disk(path.into()) }],
            ..CaseQuery::default()
        }
    }

    #[test]
    fn a_line_selects_its_scenario_or_row_and_a_line_above_all_scenarios_the_feature() {
        let all = ["a gang waits", "queue x waits", "queue y waits"];
        assert_eq!(names(&at_path("features")), all);
        assert_eq!(names(&at_path("features/f.feature:4")), all[..1]);
        assert_eq!(names(&at_path("features/f.feature:6")), all[1..]);
        assert_eq!(names(&at_path("features/f.feature:10")), all[2..]);
        assert_eq!(names(&at_path("features/f.feature:1")), all);
        assert_eq!(names(&at_path("features/g.feature")), Vec::<String>::new());
    }

    #[test]
    fn names_match_substrings_unless_exact_and_tags_filter() {
        let named = |name: &str, exact| {
            names(&CaseQuery { names: vec![name.to_owned()], exact, ..at_path("features") })
        };
        assert_eq!(named("queue", false).len(), 2);
        assert_eq!(named("queue", true).len(), 0);
        assert_eq!(named("queue x waits", true).len(), 1);
        let tags = Some("not @fast".parse().unwrap());
        assert_eq!(names(&CaseQuery { tags, ..at_path("features") }).len(), 2);
    }

    #[test]
    fn shards_are_disjoint_and_complete() {
        let mut together: Vec<String> = ["1/3", "2/3", "3/3"]
            .into_iter()
            .flat_map(|shard| {
                names(&CaseQuery { shard: Some(shard.parse().unwrap()), ..at_path("features") })
            })
            .collect();
        together.sort();
        assert_eq!(together, ["a gang waits", "queue x waits", "queue y waits"]);
    }
}
