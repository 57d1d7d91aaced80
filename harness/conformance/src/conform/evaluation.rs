//! From the results of a run to a conformance report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::plan::PlannedBehaviour;
use super::profile::{Area, Level};
use super::report::{
    AreaReport, AreaVerdict, BehaviourName, ClusterIdentity, ConformanceReport, FailedBehaviour,
    FailedScenario, Implementation, LevelReport, NotJudgedWording, ProfileIdentity, ReportVerdict,
    Reproduce, SCHEMA_VERSION, SkippedBehaviour, SuiteIdentity, UnsupportedBehaviour,
    UnsupportedCapability, Verdict,
};
use crate::report::{CaseOutcome, CaseReport};
use crate::schedulers::Target;

/// What a report says about a run besides the results of its scenarios.
#[derive(Clone, Debug)]
pub struct EvaluatedRun {
    /// The scheduler under test.
    pub implementation: Implementation,
    /// The profile.
    pub profile: ProfileIdentity,
    /// The suite.
    pub suite: SuiteIdentity,
    /// The cluster.
    pub cluster: ClusterIdentity,
    /// When the run began.
    pub date: String,
    /// The command that runs the whole profile. With ` --only ID` it repeats one behaviour.
    pub command: String,
}

/// Builds the report on a run. `results` are those of the cases of `planned`, in their order.
pub fn evaluate(
    run: EvaluatedRun,
    planned: &[PlannedBehaviour],
    results: &[CaseReport],
    target: &Target,
) -> ConformanceReport {
    let mut levels: BTreeMap<(Area, Level), LevelReport> = BTreeMap::new();
    let mut rest = results;
    for behaviour in planned {
        let (its, others) = rest.split_at(behaviour.cases.len().min(rest.len()));
        rest = others;
        let level = levels.entry((behaviour.area, behaviour.level)).or_default();
        add_behaviour(level, behaviour, its, target, &run.command);
    }
    let names: BTreeSet<Area> = planned.iter().map(|behaviour| behaviour.area).collect();
    let mut level_of = |area, level| levels.remove(&(area, level)).unwrap_or_default();
    let areas: BTreeMap<Area, AreaReport> = names
        .into_iter()
        .map(|area| {
            let (core, extended) = (level_of(area, Level::Core), level_of(area, Level::Extended));
            (area, AreaReport { verdict: area_verdict(&core), core, extended })
        })
        .collect();
    let mut command = run.command;
    for id in &run.profile.only {
        let _ = write!(command, " --only {id}");
    }
    ConformanceReport {
        schema_version: SCHEMA_VERSION.to_owned(),
        implementation: run.implementation,
        profile: run.profile,
        suite: run.suite,
        cluster: run.cluster,
        date: run.date,
        verdict: verdict(&areas),
        areas,
        reproduce: Reproduce { commands: vec![command] },
    }
}

fn add_behaviour(
    level: &mut LevelReport,
    planned: &PlannedBehaviour,
    results: &[CaseReport],
    target: &Target,
    command: &str,
) {
    let (id, behaviour) = (planned.id.clone(), planned.behaviour.clone());
    level.counts.total += 1;
    let wording: Vec<String> = results.iter().flat_map(not_judged_claims).collect();
    if !wording.is_empty() {
        level.wording_not_judged.push(NotJudgedWording { id: id.clone(), claims: wording });
    }
    let failed =
        |case: &&CaseReport| matches!(case.outcome, CaseOutcome::Failed | CaseOutcome::Pending);
    let scenarios: Vec<FailedScenario> =
        results.iter().filter(failed).map(failed_scenario).collect();
    if !scenarios.is_empty() {
        level.counts.failed += 1;
        let reproduce = format!("{command} --only {id}");
        level.failed.push(FailedBehaviour { id, behaviour, scenarios, reproduce });
        return;
    }
    let capabilities = missing_capabilities(results, target);
    let skipped = results.iter().find(|case| case.outcome != CaseOutcome::Passed);
    match skipped {
        Some(_) if !capabilities.is_empty() => {
            level.counts.unsupported += 1;
            level.unsupported.push(UnsupportedBehaviour { id, behaviour, capabilities });
        }
        Some(case) => {
            level.counts.skipped += 1;
            let reason = case.skipped.clone().unwrap_or_else(|| "the run ended before".to_owned());
            level.skipped.push(SkippedBehaviour { id, behaviour, reason });
        }
        None if results.is_empty() => {
            level.counts.skipped += 1;
            let reason = "no scenario of the behaviour ran".to_owned();
            level.skipped.push(SkippedBehaviour { id, behaviour, reason });
        }
        None => {
            level.counts.passed += 1;
            level.passed.push(BehaviourName { id, behaviour });
        }
    }
}

/// The claims of a case about wording that were not judged.
fn not_judged_claims(case: &CaseReport) -> impl Iterator<Item = String> {
    case.wording_not_judged.iter().map(|claim| claim.claim.clone())
}

fn failed_scenario(case: &CaseReport) -> FailedScenario {
    let failed = |outcome| matches!(outcome, CaseOutcome::Failed | CaseOutcome::Pending);
    let step = case.steps.iter().find(|step| failed(step.outcome));
    let line = case.failure.as_ref().map_or(case.line, |failure| failure.line);
    FailedScenario {
        name: case.name.clone(),
        location: format!("{}:{line}", case.file),
        step: step.map(|step| format!("{} {}", step.keyword, step.text)),
        message: case.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default(),
    }
}

/// The capabilities that a behaviour needs and that the target does not declare, with the target's
/// reasons.
fn missing_capabilities(results: &[CaseReport], target: &Target) -> Vec<UnsupportedCapability> {
    let names: BTreeSet<&String> =
        results.iter().flat_map(|case| &case.missing_capabilities).collect();
    let names = names.into_iter();
    names
        .map(|name| UnsupportedCapability {
            name: name.clone(),
            reason: target.unsupported_reason(name),
        })
        .collect()
}

fn area_verdict(core: &LevelReport) -> AreaVerdict {
    let counts = core.counts;
    if counts.failed > 0 || counts.skipped > 0 {
        AreaVerdict::NotConformant
    } else if counts.unsupported > 0 {
        AreaVerdict::Unsupported
    } else {
        AreaVerdict::Conformant
    }
}

fn verdict(areas: &BTreeMap<Area, AreaReport>) -> Verdict {
    let with = |verdict| areas.iter().filter(move |(_, area)| area.verdict == verdict);
    let conformant_areas: Vec<Area> =
        with(AreaVerdict::Conformant).map(|(area, _)| *area).collect();
    let result = if conformant_areas.len() == areas.len() {
        ReportVerdict::Conformant
    } else if with(AreaVerdict::NotConformant).next().is_some() || conformant_areas.is_empty() {
        ReportVerdict::NotConformant
    } else {
        ReportVerdict::ConformantInAreas
    };
    let reasons = areas.iter().flat_map(|(area, results)| core_reasons(*area, &results.core));
    Verdict { result, conformant_areas, reasons: reasons.collect() }
}

/// Why an area is not conformant, one sentence for each core behaviour that did not pass.
fn core_reasons(area: Area, core: &LevelReport) -> Vec<String> {
    let failed = core.failed.iter().map(|one| format!("{area}: {} failed", one.id));
    let skipped = core.skipped.iter().map(|one| {
        let SkippedBehaviour { id, reason, .. } = one;
        format!("{area}: {id} was skipped and is not declared as unsupported: {reason}")
    });
    let unsupported = core.unsupported.iter().map(|one| {
        let names: Vec<&str> = one.capabilities.iter().map(|one| one.name.as_str()).collect();
        format!("{area}: {} is unsupported: it needs {}", one.id, names.join(", "))
    });
    failed.chain(skipped).chain(unsupported).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::conform::{ConformanceGoals, ReportChanges, report_text};
    use crate::features::load_text;
    use crate::report::tests::case;

    /// A behaviour with one case, and the outcome of the case.
    fn behaviour(id: &str, level: Level, outcome: CaseOutcome) -> (PlannedBehaviour, CaseReport) {
        let text = "Feature: f\n  Scenario: a\n    Then the cluster has no pods\n";
        let cases = load_text("f.feature", text, crate::steps::catalogue::is_step).unwrap();
        let area = Area::ALL.into_iter().find(|area| id.starts_with(area.name())).unwrap();
        let behaviour = format!("what {id} says");
        let planned = PlannedBehaviour { area, level, id: id.to_owned(), behaviour, cases };
        (planned, case(outcome, false, outcome == CaseOutcome::Failed))
    }

    fn report_of(behaviours: Vec<(PlannedBehaviour, CaseReport)>) -> ConformanceReport {
        let (planned, results): (Vec<_>, Vec<_>) = behaviours.into_iter().unzip();
        let text = |text: &str| text.to_owned();
        let run = EvaluatedRun {
            implementation: Implementation {
                name: text("mine"),
                version: Some(text("v2")),
                scheduler: text("process:mine"),
                capabilities: Some(Vec::new()),
            },
            profile: ProfileIdentity { name: text("p"), title: text("t"), only: Vec::new() },
            suite: SuiteIdentity { version: text("1.0"), digest: text("sha256:0"), seed: 1 },
            cluster: ClusterIdentity {
                kind: text("kind"),
                kubernetes_version: text("v1.37.2"),
                feature_gates: String::new(),
            },
            date: text("2026-11-29T00:00:00Z"),
            command: text("schedlab conform --target mine.yaml"),
        };
        evaluate(run, &planned, &results, &Target::ours())
    }

    fn skipped(id: &str, level: Level, lacks: &[&str]) -> (PlannedBehaviour, CaseReport) {
        let (planned, report) = behaviour(id, level, CaseOutcome::Skipped);
        let missing_capabilities = lacks.iter().map(|name| (*name).to_owned()).collect();
        let skipped = Some("it is too long".to_owned());
        (planned, CaseReport { skipped, missing_capabilities, ..report })
    }

    #[test]
    fn a_failed_core_behaviour_makes_its_area_and_the_scheduler_not_conformant() {
        let report = report_of(vec![
            behaviour("gang.a", Level::Core, CaseOutcome::Failed),
            behaviour("gang.b", Level::Core, CaseOutcome::Passed),
            behaviour("quota.a", Level::Core, CaseOutcome::Passed),
            behaviour("quota.b", Level::Extended, CaseOutcome::Failed),
        ]);
        assert_eq!(report.verdict.result, ReportVerdict::NotConformant);
        assert_eq!(report.verdict.conformant_areas, [Area::Quota]);
        assert_snapshot!(report_text(&report), @r"
        mine v2: p (t)
        Kubernetes v1.37.2 on kind, suite 1.0

        area   core (MUST)       extended (SHOULD, MAY)  verdict
        quota  1 of 1            0 of 1, 1 failed        conformant
        gang   1 of 2, 1 failed  none                    not conformant

        quota extended
          ✘ quota.b: what quota.b says
              a  f.feature:7
                expected 8, found 7
              reproduce: schedlab conform --target mine.yaml --only quota.b

        gang core
          ✘ gang.a: what gang.a says
              a  f.feature:7
                expected 8, found 7
              reproduce: schedlab conform --target mine.yaml --only gang.a

        mine is not conformant to p: of its core behaviours 1 failed.
        reproduce: schedlab conform --target mine.yaml
        ");
    }

    #[test]
    fn an_unsupported_core_behaviour_takes_its_area_out_and_others_count() {
        let report = report_of(vec![
            skipped("gang.a", Level::Core, &["gang"]),
            behaviour("quota.a", Level::Core, CaseOutcome::Passed),
        ]);
        assert_eq!(report.verdict.result, ReportVerdict::ConformantInAreas);
        assert_eq!(report.areas[&Area::Gang].verdict, AreaVerdict::Unsupported);
        assert_eq!(report.areas[&Area::Gang].core.unsupported[0].capabilities[0].name, "gang");
        let only_unsupported = report_of(vec![skipped("gang.a", Level::Core, &["gang"])]);
        assert_eq!(only_unsupported.verdict.result, ReportVerdict::NotConformant);
    }

    #[test]
    fn a_core_behaviour_that_is_skipped_and_not_unsupported_is_not_conformant() {
        let report = report_of(vec![
            skipped("gang.a", Level::Core, &[]),
            behaviour("quota.a", Level::Core, CaseOutcome::Passed),
        ]);
        assert_eq!(report.verdict.result, ReportVerdict::NotConformant);
        assert_eq!(
            report.verdict.reasons,
            ["gang: gang.a was skipped and is not declared as unsupported: it is too long"]
        );
        let extended = report_of(vec![
            skipped("gang.a", Level::Extended, &[]),
            behaviour("gang.b", Level::Core, CaseOutcome::Passed),
        ]);
        assert_eq!(extended.verdict.result, ReportVerdict::Conformant);
        assert_eq!(extended.skipped_count(), 1);
    }

    #[test]
    fn goals_look_at_the_required_areas_and_at_the_number_of_skipped_behaviours() {
        let report = report_of(vec![
            behaviour("gang.a", Level::Core, CaseOutcome::Failed),
            behaviour("quota.a", Level::Core, CaseOutcome::Passed),
            skipped("quota.b", Level::Extended, &[]),
        ]);
        let unmet = |required: &[&str], max_skipped| {
            let required = required.iter().map(|text| text.parse().unwrap()).collect();
            ConformanceGoals { required, max_skipped, baseline: None }.unmet(&report)
        };
        assert_eq!(unmet(&[], None), ["mine is not conformant"]);
        assert_eq!(unmet(&["quota"], None), Vec::<String>::new());
        assert_eq!(unmet(&["gang"], None), ["--require gang: not every core behaviour passed"]);
        assert_eq!(
            unmet(&["quota:extended"], Some(0)),
            [
                "--require quota:extended: 1 behaviour did not pass",
                "--max-skipped 0: 1 behaviour skipped"
            ]
        );
    }

    #[test]
    fn a_behaviour_that_passed_in_the_baseline_must_pass_again() {
        let baseline = report_of(vec![
            behaviour("gang.a", Level::Core, CaseOutcome::Passed),
            behaviour("gang.b", Level::Extended, CaseOutcome::Passed),
            behaviour("gang.c", Level::Extended, CaseOutcome::Failed),
            behaviour("gang.d", Level::Extended, CaseOutcome::Failed),
            behaviour("quota.a", Level::Core, CaseOutcome::Passed),
        ]);
        let report = report_of(vec![
            behaviour("gang.a", Level::Core, CaseOutcome::Failed),
            skipped("gang.b", Level::Extended, &["elastic"]),
            behaviour("gang.c", Level::Extended, CaseOutcome::Passed),
            behaviour("gang.d", Level::Extended, CaseOutcome::Failed),
            behaviour("gang.new", Level::Extended, CaseOutcome::Failed),
        ]);
        let changes = ReportChanges::between(&baseline, &report);
        let regressions = [
            "gang.a passed in the baseline and failed now",
            "gang.b passed in the baseline and was unsupported now",
        ];
        assert_eq!(changes.regressions, regressions);
        assert_eq!(changes.others, ["gang.c failed in the baseline and passed now"]);
        let goals = ConformanceGoals { baseline: Some(baseline), ..ConformanceGoals::default() };
        assert_eq!(goals.unmet(&report), regressions);
        let same =
            ConformanceGoals { baseline: Some(report.clone()), ..ConformanceGoals::default() };
        assert_eq!(same.unmet(&report), Vec::<String>::new());
    }
}
