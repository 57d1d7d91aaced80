//! From the results of a run to a conformance report.

use std::collections::{BTreeMap, BTreeSet};

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
    /// The command that repeats the run. With ` --only ID` it repeats one behaviour.
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
    ConformanceReport {
        schema_version: SCHEMA_VERSION.to_owned(),
        implementation: run.implementation,
        profile: run.profile,
        suite: run.suite,
        cluster: run.cluster,
        date: run.date,
        verdict: verdict(&areas),
        areas,
        reproduce: Reproduce { commands: vec![run.command] },
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
