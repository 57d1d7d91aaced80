//! Cases: scenarios and example rows with everything that running them needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gherkin::{Background, Feature, Rule, Scenario, Step};

use super::examples;
use super::source::FeatureSource;
use crate::report::Diagnostic;
use crate::suite_files::SuiteFiles;

/// How the tag with the stable id of a scenario begins.
const STABLE_ID_TAG_PREFIX: &str = "id:";

/// One scenario or example row.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where the feature file, its fixtures and its snapshots are.
    pub files: SuiteFiles,
    /// Where the case is in its feature file.
    pub location: CaseLocation,
    /// Name of the feature.
    pub feature: String,
    /// Name of the rule that contains the scenario, if any.
    pub rule: Option<String>,
    /// Name of the scenario. The name of an example row contains the row's values.
    pub name: String,
    /// Tags of the feature, the rule, the scenario and its examples, without `@`.
    pub tags: Vec<String>,
    /// Steps of the backgrounds, then those of the scenario.
    pub steps: Vec<Step>,
    /// Line numbers of the rows of each table, by the line of the table's first row.
    pub tables: Arc<BTreeMap<usize, Vec<usize>>>,
}

/// Where a case is in the feature files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseLocation {
    /// Display path of the file.
    pub file: String,
    /// The line that identifies the case: that of its example row, or else of its scenario.
    pub line: usize,
    /// The lines of the scenario, from the first to behind the last.
    pub scenario: std::ops::Range<usize>,
}

impl Case {
    /// The id of the case in results: its file and its name, so that it does not change when lines
    /// move.
    pub fn id(&self) -> String {
        format!("{}: {}", self.location.file, self.name)
    }

    /// The stable id of the scenario, which survives rewording: its tag `@id:AREA.SLUG`.
    pub fn stable_id(&self) -> Option<&str> {
        self.tags.iter().find_map(|tag| tag.strip_prefix(STABLE_ID_TAG_PREFIX))
    }

    /// The folder that contains `features/`, `snapshots/` and `fixtures/`; the feature's own folder
    /// when it is in no `features/` folder.
    pub fn base_folder(&self) -> PathBuf {
        split_at_features_folder(&self.location.file).0
    }

    /// Path of the fixture with this name: below `fixtures/` in the base folder.
    pub fn fixture_path(&self, name: &str) -> PathBuf {
        self.base_folder().join("fixtures").join(name)
    }

    /// Path of the case's snapshot: `snapshots/<area>/<feature>__<scenario>.snap` below the base
    /// folder.
    pub fn snapshot_path(&self) -> PathBuf {
        let (base, inner) = split_at_features_folder(&self.location.file);
        let stem = inner.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        let area = inner.parent().unwrap_or(Path::new(""));
        base.join("snapshots").join(area).join(format!("{stem}__{}.snap", slug_of_name(&self.name)))
    }
}

/// Splits a path into the folder that contains `features` and the path inside `features`, whatever
/// the working directory.
pub(crate) fn split_at_features_folder(file: &str) -> (PathBuf, PathBuf) {
    let names_it = |path: &str| path.split('/').any(|part| part == "features");
    if !names_it(file)
        && let Ok(whole) = std::path::absolute(file)
        && let Some(whole) = whole.to_str().filter(|whole| names_it(whole))
    {
        return split_at_named_folder(whole);
    }
    split_at_named_folder(file)
}

fn split_at_named_folder(file: &str) -> (PathBuf, PathBuf) {
    let parts: Vec<&str> = file.split('/').collect();
    let at =
        parts.iter().rposition(|part| *part == "features").map_or(parts.len() - 1, |at| at + 1);
    let base = if at == parts.len() - 1 && parts.get(at.wrapping_sub(1)) != Some(&"features") {
        &parts[..at]
    } else {
        &parts[..at - 1]
    };
    let base = if file.starts_with('/') { format!("/{}", base.join("/")) } else { base.join("/") };
    let base = if base == "." { String::new() } else { base };
    (PathBuf::from(base), parts[at..].iter().collect())
}

/// A name in the form of a file name: lower case, words joined by hyphens.
fn slug_of_name(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if c.is_alphanumeric() {
            slug.extend(c.to_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    // File systems limit the length of names.
    let short: String = slug.chars().take(100).collect();
    short.trim_end_matches('-').to_owned()
}

/// The cases of a feature, sorted by line, and diagnostics for scenarios that have errors.
pub(super) fn flatten_feature(
    file: &str,
    feature: &Feature,
    source: &FeatureSource,
) -> (Vec<Case>, Vec<Diagnostic>) {
    let mut flattener =
        FeatureFlattener { file, feature, source, cases: Vec::new(), problems: Vec::new() };
    flattener.add_feature();
    flattener.check_duplicate_names();
    (flattener.cases, flattener.problems)
}

struct FeatureFlattener<'a> {
    file: &'a str,
    feature: &'a Feature,
    source: &'a FeatureSource,
    cases: Vec<Case>,
    problems: Vec<Diagnostic>,
}

impl<'a> FeatureFlattener<'a> {
    fn add_feature(&mut self) {
        let feature = self.feature;
        let scenarios = feature.scenarios.iter().map(|scenario| (None, scenario));
        let ruled =
            feature.rules.iter().flat_map(|r| r.scenarios.iter().map(move |s| (Some(r), s)));
        let all: Vec<(Option<&Rule>, &Scenario)> = scenarios.chain(ruled).collect();
        if all.is_empty() {
            self.add_problem(feature.position.line, "this feature has no scenario".to_owned());
        }
        let starts: Vec<usize> = all.iter().map(|(_, scenario)| scenario.position.line).collect();
        for (index, (rule, scenario)) in all.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(self.source.lines + 1);
            self.add_scenario(*rule, scenario, end);
        }
    }

    fn add_scenario(&mut self, rule: Option<&'a Rule>, scenario: &'a Scenario, end: usize) {
        let start = scenario.position.line;
        if scenario.steps.is_empty() {
            self.add_problem(start, format!("scenario `{}` has no step", scenario.name));
        }
        let backgrounds =
            [self.feature.background.as_ref(), rule.and_then(|r| r.background.as_ref())];
        let mut steps: Vec<Step> =
            backgrounds.into_iter().flatten().flat_map(background_steps).collect();
        steps.extend(scenario.steps.iter().cloned());
        let rule_tags = rule.map_or(&[][..], |r| r.tags.as_slice());
        let tags = [&self.feature.tags, rule_tags, &scenario.tags].concat();
        let template = Case {
            files: SuiteFiles::Disk,
            location: CaseLocation {
                file: self.file.to_owned(),
                line: start,
                scenario: start..end,
            },
            feature: self.feature.name.clone(),
            rule: rule.map(|r| r.name.clone()),
            name: scenario.name.clone(),
            tags,
            steps,
            tables: Arc::clone(&self.source.tables),
        };
        match examples::expand_examples(&template, scenario, self.source) {
            Ok(cases) => self.cases.extend(cases),
            Err(problems) => self.problems.extend(problems.0),
        }
    }

    /// Reports scenarios with equal names: snapshots and results are identified by name.
    fn check_duplicate_names(&mut self) {
        let mut seen = BTreeMap::new();
        for case in &self.cases {
            let slug = slug_of_name(&case.name);
            if slug.is_empty() {
                let message = "this scenario has no name".to_owned();
                self.problems.push(Diagnostic::new(self.file, case.location.line, message));
            } else if let Some(first) = seen.insert(slug, case.location.line) {
                let message =
                    format!("duplicate scenario name `{}`, first used in line {first}", case.name);
                self.problems.push(Diagnostic::new(self.file, case.location.line, message));
            }
        }
    }

    fn add_problem(&mut self, line: usize, message: String) {
        self.problems.push(Diagnostic::new(self.file, line, message));
    }
}

fn background_steps(background: &Background) -> Vec<Step> {
    background.steps.clone()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use insta::assert_snapshot;

    use super::{slug_of_name, split_at_features_folder};
    use crate::features::{Case, load_text};

    fn cases(text: &str) -> String {
        let line = |case: &Case| {
            let steps: Vec<String> = case.steps.iter().map(|s| s.value.clone()).collect();
            format!("{} {} {:?} {steps:?}", case.location.line, case.name, case.tags)
        };
        match load_text("features/quota/q.feature", text, crate::steps::catalogue::is_step) {
            Ok(cases) => cases.iter().map(line).collect::<Vec<_>>().join("\n"),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn backgrounds_of_feature_and_rule_come_first_and_tags_add_up() {
        assert_snapshot!(cases("@quota
Feature: f
  Background:
    Given a
  @fast
  Scenario: one
    When b
  @deep
  Rule: r
    Background:
      Given c
    Scenario: two
      Then d
"), @r#"
        6 one ["quota", "fast"] ["a", "b"]
        12 two ["quota", "deep"] ["a", "c", "d"]
        "#);
    }

    #[test]
    fn an_empty_scenario_and_a_duplicate_name_are_rejected() {
        assert_snapshot!(cases("Feature: f
  Scenario: One thing
    Given a
  Scenario: one-thing
    Given a
  Scenario: nothing
"), @r"
        features/quota/q.feature:6: scenario `nothing` has no step
        features/quota/q.feature:4: duplicate scenario name `one-thing`, first used in line 2
        ");
    }

    #[test]
    fn a_feature_without_scenarios_is_rejected() {
        assert_snapshot!(cases("Feature: f\n"), @"features/quota/q.feature:1: this feature has no scenario");
    }

    #[test]
    fn the_snapshots_folder_is_a_sibling_of_the_features_folder() {
        let case = &load_text(
            "x/features/a/b/q.feature",
            "Feature: f\n Scenario: A gang, whole\n  Given a\n",
            crate::steps::catalogue::is_step,
        )
        .unwrap()[0];
        assert_eq!(case.snapshot_path(), PathBuf::from("x/snapshots/a/b/q__a-gang-whole.snap"));
        assert_eq!(
            split_at_features_folder("features/q.feature"),
            (PathBuf::from(""), PathBuf::from("q.feature"))
        );
        assert_eq!(
            split_at_features_folder("/t/q.feature"),
            (PathBuf::from("/t"), PathBuf::from("q.feature"))
        );
        assert_eq!(slug_of_name("  A 10-GPU gang (of 8) waits!"), "a-10-gpu-gang-of-8-waits");
    }
}
