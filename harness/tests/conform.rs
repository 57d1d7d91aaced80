//! The conformance profile gpu-core-v1: its scenarios exist and say nothing of one scheduler alone,
//! and each scenario of a core behaviour bites: it fails without a scheduler, and it fails if one
//! of its numbers is changed by one, unless the number is marked as slack.

#[path = "conform/numbers.rs"]
mod numbers;
#[path = "conform/slack.rs"]
mod slack;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::conform::{self, Area, Level, PlannedBehaviour, Profile, plan_scenarios};
use schedlab_conformance::features::{Case, FeaturePath, VIRTUAL_TIME_TAG, load_suite};
use schedlab_conformance::report::{CaseOutcome, CaseReport};
use schedlab_conformance::runner::{self, RunSettings};
use schedlab_conformance::schedulers::Target;
use schedlab_conformance::steps::catalogue;

use serde_json::Value;

use numbers::NumberSite;
use slack::SlackMarks;

fn planned() -> Vec<PlannedBehaviour> {
    let profile = Profile::load("gpu-core-v1").expect("the profile is built in");
    let features = FeaturePath::parse("../features");
    let suite = load_suite(&[features], catalogue::is_step).expect("the features are valid");
    plan_scenarios(&profile, &suite).unwrap_or_else(|problems| panic!("{problems}"))
}

fn core_cases(planned: &[PlannedBehaviour]) -> Vec<&Case> {
    let core = planned.iter().filter(|behaviour| behaviour.level == Level::Core);
    core.flat_map(|behaviour| &behaviour.cases).collect()
}

fn run(cases: &[&Case], scheduler: &SchedulerSource) -> Vec<CaseReport> {
    run_on(cases, Target::load_target(scheduler, None).expect("the target is built in"))
}

fn run_on(cases: &[&Case], target: Target) -> Vec<CaseReport> {
    let settings = RunSettings {
        jobs: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        timeout: Duration::from_hours(24),
        ..RunSettings::for_one_run(target)
    };
    runner::run(cases, &settings, &mut |_| {})
}

fn ids_with_another_outcome(
    cases: &[&Case],
    reports: &[CaseReport],
    expected: CaseOutcome,
) -> Vec<String> {
    let pairs = cases.iter().zip(reports).filter(|(_, report)| report.outcome != expected);
    let line = |(case, report): (&&Case, &CaseReport)| {
        let id = case.stable_id().unwrap_or_default();
        let message = report.failure.as_ref().map_or("", |failure| failure.message.as_str());
        format!("{id}: {:?}: {}", report.outcome, message.lines().next().unwrap_or_default())
    };
    pairs.map(line).collect()
}

#[test]
fn the_profile_has_at_least_forty_behaviours_and_core_ones_in_each_area() {
    let planned = planned();
    assert!(planned.len() >= 40, "got {} behaviours", planned.len());
    for area in Area::ALL {
        let of_core = |one: &&PlannedBehaviour| one.area == area && one.level == Level::Core;
        let core = planned.iter().filter(of_core).count();
        assert!(core >= 4, "{area} has {core} core behaviours");
    }
}

#[test]
fn core_behaviours_need_neither_virtual_time_nor_settings_of_one_scheduler() {
    let planned = planned();
    let own = ["configuration", "webhooks", "pod-groups", "bind-requests", "reported-shares"];
    let unfit = core_cases(&planned).into_iter().filter(|case| {
        let needs = case.required_capabilities();
        case.tags.iter().any(|tag| tag == VIRTUAL_TIME_TAG)
            || own.iter().any(|capability| needs.contains(capability))
    });
    let unfit: Vec<&str> = unfit.filter_map(Case::stable_id).collect();
    assert!(unfit.is_empty(), "not for core: {unfit:?}");
}

#[test]
fn a_scheduler_without_queues_gangs_and_preemption_is_not_judged_by_them() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let file = folder.path().join("bare.yaml");
    let text = "name: bare\nqueues: none\ngangs: none\ncapabilities: [no-queue]\n";
    std::fs::write(&file, text).expect("a file can be written");
    let target = Target::load_target(&SchedulerSource::NoScheduler, Some(&file));
    let planned = planned();
    let areas = [Area::Quota, Area::Gang, Area::Preemption, Area::Fairness];
    let of_areas = planned.iter().filter(|behaviour| areas.contains(&behaviour.area));
    let cases: Vec<&Case> = of_areas.flat_map(|behaviour| &behaviour.cases).collect();
    let reports = run_on(&cases, target.expect("the target file is valid"));
    let judged = ids_with_another_outcome(&cases, &reports, CaseOutcome::Skipped);
    assert!(judged.is_empty(), "expected to be unsupported:\n{}", judged.join("\n"));
}

#[test]
fn conform_tests_with_the_suite_whatever_features_the_folder_has() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    std::fs::create_dir(folder.path().join("features")).expect("a folder can be created");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.current_dir(folder.path()).args(["conform", "--only", "gang.waits-whole"]);
    let output = command.output().expect("schedlab runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("results/conformance/ours/only/conformance.yaml"), "{stderr}");
}

#[test]
fn conform_does_not_take_our_scheduler_for_that_of_a_target_file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let text = "name: mine\nqueues: none\ncapabilities: [no-queue]\n";
    std::fs::write(folder.path().join("mine.yaml"), text).expect("a file can be written");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.current_dir(folder.path()).args(["conform", "--target", "mine.yaml"]).args(args);
        let output = command.output().expect("schedlab runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, message) = run(&[]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("declares another scheduler than"), "{message}");
    let (code, message) = run(&["--scheduler", "process:false", "--only", "placement.taint"]);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("did not place the pod of the trial"), "{message}");
}

#[test]
fn without_a_scheduler_every_core_behaviour_fails() {
    let planned = planned();
    let cases = core_cases(&planned);
    let reports = run(&cases, &SchedulerSource::NoScheduler);
    let others = ids_with_another_outcome(&cases, &reports, CaseOutcome::Failed);
    assert!(others.is_empty(), "expected to fail without a scheduler:\n{}", others.join("\n"));
}

/// A case with one number changed.
struct Mutant<'a> {
    original: &'a Case,
    site: NumberSite,
    case: Case,
}

#[test]
fn every_core_scenario_fails_if_one_of_its_numbers_is_changed_by_one() {
    let planned = planned();
    let originals: Vec<Case> =
        core_cases(&planned).into_iter().map(numbers::without_wording_steps).collect();
    let all: Vec<&Case> = originals.iter().collect();
    let reports = run(&all, &SchedulerSource::Ours);
    let broken = ids_with_another_outcome(&all, &reports, CaseOutcome::Passed);
    assert!(broken.is_empty(), "expected to pass unchanged:\n{}", broken.join("\n"));

    let mutants: Vec<Mutant<'_>> = originals.iter().flat_map(mutants_of).collect();
    let cases: Vec<&Case> = mutants.iter().map(|mutant| &mutant.case).collect();
    let reports = run(&cases, &SchedulerSource::Ours);
    let files: BTreeSet<&str> = originals.iter().map(|case| &*case.location.file).collect();
    let mut marks = SlackMarks::read(files.iter().map(|file| Path::new(*file)));
    let mut survived: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (mutant, report) in mutants.iter().zip(&reports) {
        let fails = report.outcome == CaseOutcome::Failed;
        let is_slack = marks.covers(&mutant.original.location.file, &mutant.site, fails);
        if !fails && !is_slack {
            let id = mutant.original.stable_id().unwrap_or_default();
            let place = format!("{}:{} {id}", mutant.original.location.file, mutant.site.line);
            survived.entry(place).or_default().insert(mutant.site.to_string());
        }
    }
    let lines = survived.iter().map(|(place, changes)| {
        format!("{place}: {}", changes.iter().cloned().collect::<Vec<_>>().join("; "))
    });
    let lines: Vec<String> = lines.collect();
    assert!(
        lines.is_empty(),
        "these scenarios pass with another number: assert more, or mark the number with a line \
         above its step, `# slack: 32` or `# slack: COLUMN 32`:\n{}",
        lines.join("\n")
    );
    let needless = marks.needless();
    assert!(needless.is_empty(), "these slack marks cover no number:\n{}", needless.join("\n"));
    assert!(mutants.len() > 400, "got {} changed numbers", mutants.len());
}

fn mutants_of(original: &Case) -> Vec<Mutant<'_>> {
    let sites = numbers::number_sites(original).into_iter();
    sites
        .flat_map(|site| {
            [1, -1].into_iter().filter_map(move |by| {
                let site = site.clone().with_change(by);
                let case = site.changed(original)?;
                Some(Mutant { original, site, case })
            })
        })
        .collect()
}

#[test]
fn a_report_validates_against_the_published_schema() {
    let schema: Value =
        serde_json::from_str(include_str!("../../docs/reference/conformance-report.schema.json"))
            .expect("the schema is JSON");
    let again =
        "write it anew: schedlab conform --schema > docs/reference/conformance-report.schema.json";
    let current = serde_json::to_value(conform::report_schema()).expect("a schema is JSON");
    assert_eq!(schema, current, "{again}");
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("report.json", schema).expect("the schema is valid JSON");
    let index = compiler.compile("report.json", &mut schemas).expect("the schema is valid");

    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.current_dir(folder.path()).args(["conform", "--evidence", "cncf-ai", "--report", "r"]);
    let output = command.output().expect("schedlab runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = |name: &str| std::fs::read_to_string(folder.path().join("r").join(name));
    let report: Value = serde_json::from_str(&text("conformance.json").expect("the report exists"))
        .expect("the report is JSON");
    schemas.validate(&report, index).unwrap_or_else(|error| panic!("{error}"));
    let yaml: Value = serde_yaml::from_str(&text("conformance.yaml").expect("the report exists"))
        .expect("the report is YAML");
    assert_eq!(yaml, report);
    assert_eq!(report["verdict"]["result"], "conformant", "{stderr}");
    let mut wrong = report;
    wrong["verdict"]["result"] = "good".into();
    assert!(schemas.validate(&wrong, index).is_err());

    let row = text("cncf-ai/gang_scheduling.yaml").expect("the evidence exists");
    assert!(row.contains("id: gang_scheduling") && row.contains("status: Implemented"), "{row}");
    let page = text("cncf-ai/gang_scheduling.md").expect("the evidence exists");
    for case in ["Positive case: PASS", "Negative case: PASS", "Cleanup: PASS"] {
        assert!(page.contains(case), "{page}");
    }
}
