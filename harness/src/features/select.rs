//! Which cases a command line means.

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

use super::case::Case;
use super::tags::TagExpression;
use super::{Asked, shown};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Files, folders, lines.
    pub asked: Vec<Asked>,
    /// Condition on tags.
    pub tags: Option<TagExpression>,
    /// Texts, any of which the name contains (or is).
    pub names: Vec<String>,
    /// Names are whole.
    pub exact: bool,
    /// Ids, one of which it must be.
    pub ids: Option<BTreeSet<String>>,
    /// Part of the selection.
    pub shard: Option<Shard>,
}

/// The cases that are meant, in their order.
pub fn select<'a>(cases: &'a [Case], query: &Query) -> Vec<&'a Case> {
    let chosen = cases.iter().filter(|case| query.means(case));
    let located = chosen.filter(|case| query.asked.iter().any(|asked| at(asked, case, cases)));
    located.filter(|case| query.shard.is_none_or(|shard| shard.holds(&case.id()))).collect()
}

impl Query {
    fn means(&self, case: &Case) -> bool {
        let tags = self.tags.as_ref().is_none_or(|tags| tags.matches(&case.tags));
        let name = self.names.is_empty()
            || self.names.iter().any(|name| {
                if self.exact { case.name == *name } else { case.name.contains(name.as_str()) }
            });
        let id = self.ids.as_ref().is_none_or(|ids| ids.contains(&case.id()));
        tags && name && id
    }
}

fn at(asked: &Asked, case: &Case, cases: &[Case]) -> bool {
    let path = shown(&asked.path);
    let inside = Path::new(&case.place.file).starts_with(&path) || path == ".";
    let Some(line) = asked.line else { return inside };
    if !inside {
        return false;
    }
    let is_row = |c: &Case| c.place.file == case.place.file && c.place.line == line;
    if cases.iter().any(is_row) {
        return case.place.line == line;
    }
    // A line above every scenario means the feature.
    case.place.scenario.contains(&line)
        || !cases.iter().any(|c| c.place.file == case.place.file && c.place.scenario.start <= line)
}

/// Part `index` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    of: u64,
}

impl Shard {
    fn holds(self, id: &str) -> bool {
        fnv1a(id) % self.of == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').map(|(m, n)| (m.trim().parse(), n.trim().parse()));
        match parts {
            Some((Ok(index), Ok(of))) if index >= 1 && index <= of => Ok(Self { index, of }),
            _ => Err(format!("`{text}` is no part; allowed is M/N with 1 ≤ M ≤ N, as 1/4")),
        }
    }
}

/// A hash that is the same on every machine and in every version.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Ids of what failed in the last run, from its `report.json`.
pub fn last_failed(report: &str) -> anyhow::Result<BTreeSet<String>> {
    let report: crate::report::Report = serde_json::from_str(report)?;
    Ok(report.failed_ids())
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

    fn names(query: &Query) -> Vec<String> {
        let cases = load_text("features/f.feature", TEXT).unwrap();
        select(&cases, query).into_iter().map(|case| case.name.clone()).collect()
    }

    fn at_path(path: &str) -> Query {
        let (path, line) = path.split_once(':').map_or((path, None), |(p, l)| (p, l.parse().ok()));
        Query { asked: vec![Asked { path: path.into(), line }], ..Query::default() }
    }

    #[test]
    fn a_line_means_its_scenario_its_row_or_above_all_the_feature() {
        let all = ["a gang waits", "queue x waits", "queue y waits"];
        assert_eq!(names(&at_path("features")), all);
        assert_eq!(names(&at_path("features/f.feature:4")), all[..1]);
        assert_eq!(names(&at_path("features/f.feature:6")), all[1..]);
        assert_eq!(names(&at_path("features/f.feature:10")), all[2..]);
        assert_eq!(names(&at_path("features/f.feature:1")), all);
        assert_eq!(names(&at_path("features/g.feature")), Vec::<String>::new());
    }

    #[test]
    fn names_are_parts_unless_exact_and_tags_filter() {
        let named = |name: &str, exact| {
            names(&Query { names: vec![name.to_owned()], exact, ..at_path("features") })
        };
        assert_eq!(named("queue", false).len(), 2);
        assert_eq!(named("queue", true).len(), 0);
        assert_eq!(named("queue x waits", true).len(), 1);
        let tags = Some("not @fast".parse().unwrap());
        assert_eq!(names(&Query { tags, ..at_path("features") }).len(), 2);
    }

    #[test]
    fn shards_are_disjoint_and_complete() {
        let mut together: Vec<String> = ["1/3", "2/3", "3/3"]
            .into_iter()
            .flat_map(|shard| {
                names(&Query { shard: Some(shard.parse().unwrap()), ..at_path("features") })
            })
            .collect();
        together.sort();
        assert_eq!(together, ["a gang waits", "queue x waits", "queue y waits"]);
        assert!("0/3".parse::<Shard>().is_err());
        assert!("4/3".parse::<Shard>().is_err());
    }
}
