//! The scenarios of a profile, found in the features by their stable ids.

use std::collections::BTreeMap;

use cucumber::step::Collection;

use super::profile::{Area, Level, Profile};
use crate::features::{Case, FeatureSuite};
use crate::report::{Diagnostic, Diagnostics};
use crate::steps::{catalogue, is_snapshot_step};
use crate::world::World;

/// A behaviour of a profile, with the cases that show it: one scenario, or all rows of an outline.
#[derive(Clone, Debug)]
pub struct PlannedBehaviour {
    /// The area of the behaviour.
    pub area: Area,
    /// The level of the behaviour.
    pub level: Level,
    /// The stable id.
    pub id: String,
    /// The behaviour in one sentence.
    pub behaviour: String,
    /// The cases, without their snapshot steps: where pods are placed among equal nodes and in
    /// which order is the choice of each scheduler.
    pub cases: Vec<Case>,
}

/// Finds the scenarios of a profile.
///
/// # Errors
/// Two scenarios have the same id, or a behaviour of the profile has no scenario.
pub fn plan_scenarios(
    profile: &Profile,
    suite: &FeatureSuite,
) -> Result<Vec<PlannedBehaviour>, Diagnostics> {
    let mut problems = duplicate_ids(&suite.cases);
    let steps = catalogue::step_collection();
    let mut planned = Vec::new();
    for (area, level, behaviour) in profile.behaviours() {
        let id = &behaviour.id;
        let its = suite.cases.iter().filter(|case| case.stable_id() == Some(id));
        let cases: Vec<Case> = its.map(|case| without_snapshot_steps(case, &steps)).collect();
        if cases.is_empty() {
            let message = format!(
                "profile {}: {area}.{level}: no scenario has the tag @id:{id}",
                profile.name
            );
            problems.push(Diagnostic::new("", 0, message));
        }
        planned.push(PlannedBehaviour {
            area,
            level,
            id: id.clone(),
            behaviour: behaviour.behaviour.clone(),
            cases,
        });
    }
    if problems.is_empty() { Ok(planned) } else { Err(Diagnostics::sorted(problems)) }
}

/// Diagnostics for ids that several scenarios have.
fn duplicate_ids(cases: &[Case]) -> Vec<Diagnostic> {
    let mut first: BTreeMap<&str, &Case> = BTreeMap::new();
    let mut problems = Vec::new();
    for case in cases {
        let Some(id) = case.stable_id() else { continue };
        let earlier = first.entry(id).or_insert(case);
        let place = |case: &Case| (case.location.file.clone(), case.location.scenario.start);
        if place(earlier) != place(case) {
            let (file, line) = place(earlier);
            let message = format!("got the id {id}, which the scenario at {file}:{line} has too");
            let start = case.location.scenario.start;
            problems.push(Diagnostic::new(&case.location.file, start, message));
        }
    }
    problems.dedup();
    problems
}

fn without_snapshot_steps(case: &Case, steps: &Collection<World>) -> Case {
    let mut case = case.clone();
    case.steps.retain(|step| !is_snapshot_step(step, steps));
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::load_text;

    const PROFILE: &str = "
name: p
title: t
areas:
  gang:
    about: a
    core:
    - {id: gang.whole, behaviour: b}
";

    fn planned(text: &str) -> Result<Vec<PlannedBehaviour>, String> {
        let cases = load_text("f.feature", text, catalogue::is_step).unwrap();
        let suite = FeatureSuite { cases, ..FeatureSuite::default() };
        plan_scenarios(&Profile::parse("p.yaml", PROFILE).unwrap(), &suite)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_behaviour_has_all_rows_of_its_outline_without_snapshot_steps() {
        let text = "Feature: f
  @id:gang.whole
  Scenario Outline: <n> pods start
    When <n> seconds pass
    Then the placement matches its snapshot
    And the cluster has no pods
    Examples:
      | n |
      | 1 |
      | 2 |
";
        let planned = planned(text).unwrap();
        let steps = |case: &Case| case.steps.iter().map(|step| step.value.clone()).collect();
        let cases: Vec<Vec<String>> = planned[0].cases.iter().map(steps).collect();
        let rest = "the cluster has no pods".to_owned();
        let expected = |n: &str| vec![format!("{n} seconds pass"), rest.clone()];
        assert_eq!(cases, [expected("1"), expected("2")]);
    }

    #[test]
    fn ids_are_unique_and_each_id_of_a_profile_exists() {
        let missing = "Feature: f\n  Scenario: s\n    Then the cluster has no pods\n";
        assert_eq!(
            planned(missing).unwrap_err(),
            "profile p: gang.core: no scenario has the tag @id:gang.whole"
        );
        let twice = "Feature: f
  @id:gang.whole
  Scenario: a
    Then the cluster has no pods
  @id:gang.whole
  Scenario: b
    Then the cluster has no pods
";
        assert_eq!(
            planned(twice).unwrap_err(),
            "f.feature:6: got the id gang.whole, which the scenario at f.feature:3 has too"
        );
    }
}
